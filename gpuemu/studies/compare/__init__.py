"""A run beside what the profiler measured: its CSV files, the figures that both have, and how far they are apart."""
