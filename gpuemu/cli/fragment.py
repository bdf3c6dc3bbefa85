"""`gpuemu fragment`: which lane and register of a warp hold each element, and the banks that it is loaded from."""

from __future__ import annotations

import click

from gpuemu.cli.help import Command
from gpuemu.cli.writing import output_option, write_out


@click.command(
    cls=Command,
    examples={
        "Show the registers that ldmatrix.x4 fills": "gpuemu fragment LDSM.4",
        "Show the operands of an mma": "gpuemu fragment HMMA.16816.F32",
        "Show the banks for rows of 32 halves": "gpuemu fragment HMMA.16816.F32 --pitch 32",
        "Show the banks of a swizzled tile": "gpuemu fragment LDSM.4 --pitch 32 --layout 'Swizzle<2,3,3>'",
    },
)
@click.argument("instruction")
@click.option(
    "--pitch", type=click.IntRange(1, 1 << 16), metavar="N", help="Show banks, for a tile with N elements per row."
)
@click.option("--layout", "name", metavar="LAYOUT", help="Set the tile's layout, as for `gpuemu layout`.")
@click.option(
    "--arch", "arch_name", metavar="NAME|FILE", default="sm_89", show_default=True, help="Choose the hardware."
)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of the hardware.")
@output_option
def fragment(
    instruction: str, pitch: int | None, name: str | None, arch_name: str, settings: tuple[str, ...],
    output: str | None,
) -> None:  # fmt: skip
    """Show which lane holds which element of the matrices of an INSTRUCTION.

    INSTRUCTION is an ldmatrix (LDSM.1 to LDSM.4, LDSM.T.4), a product such as HMMA.16816.F32 or IMMA.16832.S8.S8, or
    its shape and types, m16n8k16.f32.f16. A cell shows lane.register. With --pitch it shows the bank of each lane's
    word, and the wavefronts of loading the fragment from a tile. B is read from a transposed tile, as an mma needs
    it.
    """
    from gpuemu.isa.fragment_text import report

    if pitch is None:
        write_out("\n".join(report(instruction)) + "\n", output)
        return
    from gpuemu.arch import load_arch, parse_overrides
    from gpuemu.banks.wavefronts import BankGeometry
    from gpuemu.isa.table import parse_opcode
    from gpuemu.studies.layout.fragment_banks import fragment_banks, table
    from gpuemu.studies.layout.layouts import Layout
    from gpuemu.studies.layout.spelling import parse_layout
    from gpuemu.studies.layout.tile import Tile
    from gpuemu.views.bank_picture import hardware_name

    overrides = parse_overrides(settings)
    geometry = BankGeometry.of(load_arch(arch_name).with_overrides(overrides))

    def layout(tile: Tile) -> Layout:
        return parse_layout(name or "plain", tile, 32)

    found = fragment_banks(instruction, pitch, layout, geometry)
    where = f"rows of {pitch} elements{f', {name}' if name else ''}, on {hardware_name(arch_name, overrides)}"
    text = f"{instruction}: the bank of each lane's word, from {where}\n"
    word = "matrix" if "matrix" in parse_opcode(instruction.strip()).row.notes else "register"
    for part in found:
        text += "\n" + "\n".join(table(part, word)) + "\n"
    write_out(text, output)
