"""Fits an architecture file to recorded microbenchmarks.

    experiments.py   what an experiment is, and running all of them on what a fit may see
    arithmetic.py    the experiments on units and tensor core
    memory.py        those on the load/store path, shared memory and barriers
    searching.py     least squares of emulated against measured cycles, where no closed form yields a parameter
    searches.py      which parameters are searched for, on which microbenchmarks
    writing.py       putting the values into the text of an architecture file

Every parameter comes from a few named microbenchmarks by a closed form or by least squares; there is no
parameter of a kernel and no table of special cases.
"""
