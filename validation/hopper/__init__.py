"""Launches of kernels of Hopper's asynchronous units, measured and compared with the emulator (README.md)."""
