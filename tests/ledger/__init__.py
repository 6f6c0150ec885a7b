"""Tests of the ledger: its operations at their edges, in races, under stress and against a model."""
