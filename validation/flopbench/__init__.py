"""Launches of whole CUDA programs, which others measured on an RTX 3080, run without a GPU."""
