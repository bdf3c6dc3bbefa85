"""The model of sm_100 against public tables of a B200, which nobody here has: `python -m validation.blackwell`."""
