"""Data races: who accesses which byte, what happens before what, and which pairs nothing orders."""
