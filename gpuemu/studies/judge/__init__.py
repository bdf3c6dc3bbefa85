"""A judge for generated kernels: values, findings of the tools, and times, without trusting the kernel."""
