"""Sweeps: traces over a grid of hardware values and layout numbers, on every core or on a cluster.

    study (the request) → plan (checked points, each with its key) → running (here, on the cores, on a cluster)
        ↕ store (a line for each finished point)
    → records (plain dicts) → files, tables, plot

`api.sweep` does all of it for `gpuemu.sweep`; `gpuemu/cli/sweep.py` is the command line.
"""
