"""Basics that know nothing of GPUs: errors, strict YAML, expressions, shipped files.

This room imports no other room of gpuemu.
"""
