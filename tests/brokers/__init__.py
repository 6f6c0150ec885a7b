"""Tests over real brokers. Each needs what 'make brokers' fetches; without it they fail."""
