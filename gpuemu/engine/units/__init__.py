"""The units of the SM, one file each: plain functions over the records of `engine.state` and their own.

The same text runs on Python objects and, compiled, on NumPy's structured columns. So a unit has module-level functions
of integers and records alone: no dict, set, closure, method, exception, default or unbounded number. What sets its
records up (`Record.begin`) runs in Python only.
"""
