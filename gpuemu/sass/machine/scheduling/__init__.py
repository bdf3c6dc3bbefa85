"""The order of execution: groups of lanes and their control flow, CTAs and their turns."""
