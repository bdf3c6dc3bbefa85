"""Results of matrix products, to the bit as the hardware has them. Knows nothing of machine code and of time."""
