"""A judge for kernels that programs write: values, what the tools find, and times, with no trust in the kernel."""
