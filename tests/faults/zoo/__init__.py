"""A small app whose programs do what real ones should not."""
