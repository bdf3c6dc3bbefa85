"""Launches of whole CUDA programs that others measured on an RTX 3080, run without a GPU."""
