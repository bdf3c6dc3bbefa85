"""From an SM to the chip: what all SMs ask L2 and DRAM for, how CTAs are dealt out, and how long a launch takes."""
