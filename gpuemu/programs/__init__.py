"""Whole programs: `gpuemu exec` gives an unmodified CUDA program an emulated GPU.

gpuemu's own library (`cuda/*.cpp`) replaces the CUDA driver and the CUDA runtime in the program's process. The library
keeps streams, graphs and error codes. For modules, launches and time, it asks gpuemu over a socket.
"""
