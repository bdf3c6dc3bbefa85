"""Compare a run with the profiler's measurements: its CSV files, the common figures, and their differences."""
