"""The memory of a launch: buffers, shared and local memory, constants and arguments, and accesses to them."""
