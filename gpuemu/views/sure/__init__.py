"""The uncertainty of an answer: the range of its cycles if uncertain values change within their ranges.

`touched` finds the values that a run depended on. `estimate` changes them one at a time. `glance` estimates the range
without a run, and `settling` names the measurement for a value.
"""
