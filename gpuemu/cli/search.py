"""`gpuemu search`: the best layouts of a tile, with the proof that no layout is better."""

from __future__ import annotations

import json
import sys

import click

from gpuemu.cli.help import Command
from gpuemu.cli.pages import columns_of
from gpuemu.cli.terminal import styled
from gpuemu.cli.writing import format_option, output_option, write_out


@click.command(
    cls=Command,
    tables={
        "ACCESS (4* repeats it, BITS is the width per lane)": {
            "copy-in[:BITS]": "Store rows (STS), 128 bits per thread by default.",
            "copy-out[:BITS]": "Read rows (LDS).",
            "column[:BITS]": "Read down a column with neighboring threads (LDS).",
            "column-store[:BITS]": "Write down a column with neighboring threads (STS).",
            "ldmatrix.x4[.trans]": "Load matrices of 8 rows of 16 bytes (LDSM). Also x1, x2.",
            "stmatrix.x4[.trans]": "Store such matrices (STSM, sm_90).",
            "store[:BITS]": "Store an mma result: 8 rows of 4 vectors (STS).",
            "fragment[:BITS]": "Read such a result (LDS).",
            "'LDS.32: row = 4*(lane%8); column = step; steps = 32'": "Give any access. Also thread, rows, columns.",
        },
    },
    examples={
        "Find a layout for an ldmatrix": "gpuemu search --tile 16x16:f16 --access ldmatrix.x4",
        "Find a layout for a transpose through a 32x32 float tile": "gpuemu search --tile 32x32:f32"
        " --access copy-in:32 --access column",
        "Find a layout for a GEMM tile that 4 warps read": "gpuemu search --tile 128x32:f16"
        " --access copy-in --access '4*ldmatrix.x4'",
        "Save all candidates as JSON": "gpuemu search --tile 64x64:f16 --access copy-in --access ldmatrix.x4"
        " --format json -o layouts.json",
    },
    notes="docs/layouts.md has more examples.",
)
@click.option("--tile", required=True, metavar="ROWSxCOLUMNS:TYPE", help="Describe the tile, e.g. 128x64:f16.")
@click.option(
    "--access",
    "accesses",
    metavar="ACCESS",
    multiple=True,
    required=True,
    help="Add an access to the tile. Repeat the option for more.",
)
@click.option("--threads", type=int, metavar="N", help="Set the block of virtual threads [default: the tile's size].")
@click.option(
    "--arch", "arch_name", metavar="NAME|FILE", default="sm_89", show_default=True, help="Choose the hardware."
)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of the hardware.")
@click.option("--jobs", type=click.IntRange(1), default=1, metavar="N", help="Use N worker processes.")
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="Show this many rows of the ranking."
)
@format_option("text", "json", "svg")
@output_option
def search(
    tile: str, accesses: tuple[str, ...], threads: int | None, arch_name: str, settings: tuple[str, ...],
    jobs: int, top: int, form: str, output: str | None,
) -> None:  # fmt: skip
    """Find the layouts of a shared-memory tile with the fewest wavefronts.

    gpuemu counts every padding, XOR swizzle, diagonal and virtual-thread factor that fits, exactly. Layouts rank by
    wavefronts, then by wasted bytes, then by operations of the index arithmetic. The best is printed as C++ and for
    CuTe.
    """
    from gpuemu.arch import load_arch, parse_overrides
    from gpuemu.studies.layout import search_text
    from gpuemu.studies.layout.search import search as find
    from gpuemu.views.bank_picture import Line, hardware_name, plain, write

    overrides = parse_overrides(settings)
    arch = load_arch(arch_name)
    hardware_given = arch.with_overrides(overrides, where="--set")
    result = find(hardware_given, tile, accesses, threads=threads, jobs=jobs, where="gpuemu search")
    hardware = hardware_name(arch.name, overrides)
    if form == "json":
        text = json.dumps(search_text.as_json(result, arch.name, overrides), indent=2) + "\n"
    elif form == "svg":
        text = search_text.svg(result)
    else:

        def drawn(width: int) -> list[Line]:
            return search_text.report(result, hardware, top, width)

        width = columns_of(search_text.COLUMNS, output is not None)
        if output is None:
            write(drawn, width, styled(sys.stdout))
            return
        text = plain(drawn(width))
    write_out(text, output, form)
