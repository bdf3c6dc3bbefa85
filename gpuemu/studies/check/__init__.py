"""What a kernel does wrong: races, barriers, unwritten and foreign memory, hazards of control words."""
