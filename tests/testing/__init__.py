"""Tests of what Ledgence gives to the tests of others."""
