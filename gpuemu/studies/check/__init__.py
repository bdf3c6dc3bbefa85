"""Finds the bugs of a kernel: races, barrier errors, unwritten or foreign memory, and hazards of control words."""
