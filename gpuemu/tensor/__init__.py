"""Compute matrix products bit for bit as the hardware does. This room knows nothing of machine code or time."""
