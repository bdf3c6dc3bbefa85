"""Machine code executed by compiled loops, for those who have Numba.

`registers`, `accesses`, `across` and `loops` are the source that Numba compiles, with the lane functions and the text
that `source` makes of their table. `bridge` makes numbers of a kernel's code, and stands between those loops and the
executor, which does the instructions that they do not know.
"""
