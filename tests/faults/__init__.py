"""Fault tests with real processes: kills, pauses, hostile programs, lost replies, a database that goes away."""
