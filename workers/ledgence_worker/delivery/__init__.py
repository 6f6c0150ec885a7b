"""Delivery through a broker: what its adapters implement, the reference that a message carries, and the routes."""
