"""How sure an answer is: between what its cycles lie if values that nobody is sure of move within their ranges.

`touched` says which values a run depended on, `estimate` moves them one at a time, `at_a_glance` tells about how much
it is without a run, `settling` names what measures a value.
"""
