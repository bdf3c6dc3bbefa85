"""Sweeps: traces over a grid of hardware values and layout numbers, on every core or on a cluster.

    study (what is asked) → plan (points, checked, each with its key) → running (here, on the cores, on a cluster)
                                                        ↕ store (a line for each point that is done)
                          → records (plain dicts) → files, tables, plot

`api.sweep` is the whole of it and what `gpuemu.sweep` calls; `gpuemu/cli/sweep.py` is the command line.
"""
