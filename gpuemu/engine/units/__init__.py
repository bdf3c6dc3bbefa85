"""The units of the SM, one file each: plain functions over the records of `engine.state`.

The same text runs on Python objects and, compiled, on NumPy's structured columns. So a unit has module-level functions
of integers and records alone: no dict, set, closure, method, exception, default or unbounded number.
"""

UNITS = tuple(
    f"{__name__}.{name}"
    for name in (
        "kinds", "rings", "phases", "constants", "code_caches", "drain", "dependences", "pipes", "fetch", "data_stage",
        "global_memory", "way_back", "served", "window", "result_port", "pass_on", "load_store", "data_path", "sender",
        "collector", "ports", "order", "divergence", "barrier", "issue", "scheduler", "launch", "cycle",
    )
)  # fmt: skip
"""The modules, each behind those that it imports, as a loader of compiled twins wants them."""
