"""Which distance from row to row is best? Cycles and conflicts of a tile of 32 rows, with a plot.

    python examples/padding_study.py [OUT.png]

The trace is built here, so no kernel is compiled: a warp stores 32 rows and then reads 32 columns. Its addresses are
expressions in `pitch`, bytes from row to row. Needs the extra: pip install ".[sweep]".
"""

from __future__ import annotations

import sys

import gpuemu


def tile() -> gpuemu.Trace:
    """The trace, with rows of 128 bytes until something else is said."""
    builder = gpuemu.TraceBuilder(
        "tile", arch="sm_89", block=(32, 1, 1), static_shared_bytes="32*pitch", layout={"pitch": 128}
    )
    with builder.repeat(32):
        builder.emit("STS [R0], R4", lanes="pitch*i + 4*lane")
    builder.emit("BAR.SYNC 0x0")
    with builder.repeat(32):
        builder.emit("LDS R4, [R0]", lanes="4*i + pitch*lane")
    builder.emit("EXIT")
    return builder.build()


if __name__ == "__main__":
    points = gpuemu.sweep(tile(), {"layout.pitch": range(128, 164, 4)})
    print("pitch  bytes  cycles  conflicts")
    for point in points:
        star = " *" if point["on_front"] else ""
        print(
            f"{point['layout.pitch']:5}  {point['shared_bytes']:5}  {point['cycles']:6}  "
            f"{point['excess_wavefronts']:9}{star}"
        )

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axes.plot([p["layout.pitch"] for p in points], [p["cycles"] for p in points], "o-")
    axes.set(xlabel="bytes from row to row", ylabel="cycles", ylim=(0, None))
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "padding_study.png", dpi=150)
