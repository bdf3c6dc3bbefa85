"""The cost of each cause, by simulating without it."""
