"""Tests of Ledgence. They mirror the code; races, faults, processes, brokers and browsers stand apart."""
