"""Takes out each guard of the ledger in turn, and fails if the tests stay green: python -m tests.mutants [NAME ...]."""
