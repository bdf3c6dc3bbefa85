"""Each unit of the SM has a file here: plain functions over the records of `engine.state` and their own.

The same text runs on Python objects and, compiled, on NumPy's structured columns. A unit therefore has module-level
functions of integers and records alone: no dict, set, closure, method, exception, default or unbounded number. The code
that initializes its records (`Record.begin`) runs in Python only.
"""
