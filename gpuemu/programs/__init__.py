"""Whole programs: `gpuemu exec` gives an unmodified CUDA program an emulated GPU.

A library of ours (`cuda/*.cpp`) takes the place of the CUDA driver and the CUDA runtime in the program's process. It
keeps streams, graphs and error codes, and asks gpuemu over a socket for everything else: modules, launches and time.
"""
