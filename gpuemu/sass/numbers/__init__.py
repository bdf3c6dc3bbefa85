"""IEEE arithmetic of all lanes, in NumPy and compiled."""
