"""IEEE arithmetic for all lanes at once, in NumPy and compiled."""
