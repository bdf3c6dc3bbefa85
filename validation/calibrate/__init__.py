"""Measures the values of an architecture file that nobody is sure of, on the card of whoever has one.

    plan.py          which values, on which microbenchmarks of the corpus, by which estimator, and why not the others
    estimating.py    closed forms of the suite's fit, and walks of emulated against measured clocks
    writing.py       an architecture file of one's own that extends the shipped one, and the table
    command.py       all of it, one after the other: what `gpuemu calibrate` calls

It stands in the suite, because its kernels, formulas and replays do; a wheel carries that part of the suite along.
"""
