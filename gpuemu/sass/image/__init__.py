"""The contents of a cubin: ELF, kernels and their attributes, source lines, names."""
