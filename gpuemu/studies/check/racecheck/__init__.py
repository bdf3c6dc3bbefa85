"""Data races: the accesses to each byte, the order between them, and the pairs that nothing orders."""
