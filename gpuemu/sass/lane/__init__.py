"""The arithmetic of instructions in one lane, which is written only here.

The functions take numbers of one lane or arrays of many lanes. NumPy calls them with arrays; Numba compiles the same
source for single numbers, in loops over lanes. They use the words of `arrays`, which `scalars` has for Numba.
"""
