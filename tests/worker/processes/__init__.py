"""Tests of the process pool with real processes."""
