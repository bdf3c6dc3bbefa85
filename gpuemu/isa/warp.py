"""Properties of a warp."""

LANES = 32
"""Number of lanes of a warp."""
