"""Lane addresses to wavefronts of shared memory."""
