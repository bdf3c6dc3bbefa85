"""What a warp is made of."""

LANES = 32
"""Lanes of a warp."""
