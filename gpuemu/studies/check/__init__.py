"""Finds what a kernel does wrong: races, barriers, unwritten or foreign memory, hazards of control words."""
