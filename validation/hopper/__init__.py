"""Launches of kernels of Hopper's asynchronous units, measured, and held against the emulator (README.md)."""
