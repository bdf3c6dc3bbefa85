"""Convert lane addresses to wavefronts of shared memory."""
