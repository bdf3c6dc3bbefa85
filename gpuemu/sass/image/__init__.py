"""What a cubin holds: ELF, kernels and their attributes, lines of the source, names."""
