"""The demonstration and the benchmark of a checkout: real programs, and commands that run and check them."""
