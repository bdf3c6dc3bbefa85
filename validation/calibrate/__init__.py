"""Measures uncertain values of an architecture file on the user's card.

    plan.py          the values, their microbenchmarks and estimators, and why other values are not measured
    estimating.py    closed forms of the suite's fit, and walks of emulated against measured clocks
    writing.py       an architecture file that extends the shipped one, and the table
    command.py       all steps in order, for `gpuemu calibrate`

The package belongs to the suite, because its kernels, formulas and replays do. A wheel carries that part of the suite.
"""
