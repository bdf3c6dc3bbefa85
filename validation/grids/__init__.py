"""Whole grids, as people launch them: kernels, launches, what a GPU and its profiler say, and the score."""
