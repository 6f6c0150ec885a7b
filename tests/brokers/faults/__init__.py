"""Tests of the SQS adapter over real brokers whose answers are spoilt on the way."""
