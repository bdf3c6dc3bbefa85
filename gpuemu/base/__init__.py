"""What everything stands on and what knows nothing of GPUs: errors, strict YAML, expressions, shipped files.

Imports nothing of ours.
"""
