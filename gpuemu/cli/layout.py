"""`gpuemu layout`: the places where a layout puts each thread's part of a tile."""

from __future__ import annotations

import json

import click

from gpuemu.cli.help import Command
from gpuemu.cli.writing import format_option, output_option, write_out


@click.command(
    cls=Command,
    tables={
        "LAYOUT": {
            "plain": "Rows follow each other.",
            "Swizzle<B,M,S>": "i ^ ((i >> S) & (((1 << B) - 1) << M)) of the element's number, as in CuTe.",
            "Swizzle<B,M,S>:bytes": "The swizzle on byte addresses instead.",
            "pad:8, pad:8/64": "8 unused elements after every row, or after every 64 elements.",
            "diagonal:1, diagonal:8/2": "Columns rotate by 1 in every row, or by 8 every 2 rows.",
            "tma:none, tma:32, tma:64, tma:128": "Boxes of a tensor map with that swizzle, as wgmma reads them.",
            "virtual:4, virtual:4/256": "Plain rows. Thread t works as v(t) = (t mod (W/4)) 4 + t div (W/4).",
        },
    },
    examples={
        "Show a swizzle with addresses in binary": "gpuemu layout 'Swizzle<1,3,3>' --tile 16x16:f16 --binary",
        "Show a padded tile": "gpuemu layout pad:8 --tile 16x16:f16",
        "Show TMA's 128-byte swizzle, and the cost of reading it": "gpuemu layout tma:128 --tile 128x64:f16 --picture",
        "Draw a whole tile": "gpuemu layout 'Swizzle<3,3,3>' --tile 64x64:f16 --format svg -o tile.svg",
    },
    notes="docs/layouts.md has more examples.",
)
@click.argument("name", metavar="LAYOUT")
@click.option("--tile", required=True, metavar="ROWSxCOLUMNS:TYPE", help="Describe the tile, e.g. 16x16:f16.")
@click.option("--vector", type=int, metavar="N", help="Set the elements per thread [default: 16 bytes of them].")
@click.option("--binary", is_flag=True, help="Show the addresses in binary as well.")
@click.option("--picture", "picture_alone", is_flag=True, help="Show only the picture, without the table of threads.")
@click.option(
    "--arch", "arch_name", metavar="NAME|FILE", default="sm_89", show_default=True, help="Choose the hardware."
)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of the hardware.")
@format_option("text", "json", "svg")
@output_option
def layout(
    name: str,
    tile: str,
    vector: int | None,
    binary: bool,
    picture_alone: bool,
    arch_name: str,
    settings: tuple[str, ...],
    form: str,
    output: str | None,
) -> None:
    """Show the address and bank of each thread's part of a shared-memory tile."""
    from dataclasses import asdict

    from gpuemu.arch import load_arch, parse_overrides
    from gpuemu.banks.wavefronts import BankGeometry
    from gpuemu.base.errors import GpuemuError
    from gpuemu.studies.layout import boxes
    from gpuemu.studies.layout.layouts import VirtualThreads
    from gpuemu.studies.layout.spelling import parse_layout, rows, table
    from gpuemu.studies.layout.tile import Tile
    from gpuemu.studies.layout.tile_picture import as_svg, cells, left_out, picture

    arch = load_arch(arch_name).with_overrides(parse_overrides(settings))
    geometry = BankGeometry.of(arch)
    shape = Tile.parse(tile, where=("gpuemu layout", None, "--tile"))
    each = vector if vector is not None else min(shape.columns, 16 // shape.element_bytes)
    chosen = parse_layout(name, shape, max(1, shape.elements // max(1, each)))
    found = rows(chosen, shape, each, geometry)
    if picture_alone and isinstance(chosen, VirtualThreads):
        right = "expected a layout. Virtual threads move threads: their tile is the one of plain"
        raise GpuemuError.one("--picture", None, "", f"'{name}'", right)
    pictures = [] if isinstance(chosen, VirtualThreads) else [cells(geometry, shape, chosen, each)]
    if form == "json":
        data = {
            "layout": chosen.label(shape),
            "tile": str(shape),
            "vector": each,
            "threads": [asdict(r) for r in found],
        }
        if isinstance(chosen, boxes.Boxes):
            data["readers"] = [r._asdict() for r in boxes.readers(shape, chosen, geometry)]
        text = json.dumps(data, indent=2)
    elif form == "svg":
        text = as_svg(geometry, pictures, each).rstrip("\n")
    else:
        lines = [f"{chosen.label(shape)} of {shape}, {each} elements per thread, addresses in bytes", ""]
        if not picture_alone:
            lines += [*table(found, binary), *([""] if pictures else [])]
        if pictures:
            lines.append("The first bank of each thread's part, by row and column")
            lines += ["".join(part.text for part in line).rstrip() for line in picture(geometry, pictures, each)]
            lines += filter(None, [left_out(pictures)])
        if isinstance(chosen, boxes.Boxes):
            lines += ["", *boxes.table(shape, chosen, geometry)]
        text = "\n".join(lines)
    write_out(f"{text}\n", output, form)
