"""`gpuemu banks`: one shared-memory access as a picture of banks and wavefronts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.reading import read_whole
from gpuemu.cli.help import Command
from gpuemu.cli.pages import columns_of
from gpuemu.cli.terminal import styled
from gpuemu.cli.writing import format_option, output_option, write_out

COMMAND = "gpuemu banks"


@click.command(
    cls=Command,
    examples={
        "Load 16x16 halves with rows of 32 bytes": "gpuemu banks LDSM.4 --lanes '2*(16*(lane%16) + 8*(lane//16))'",
        "Read a column of a 32x32 float tile padded to 33 columns": "gpuemu banks LDS.32 --lanes '4*33*lane'",
        "Load rows of 128 bytes that TMA has swizzled": "gpuemu banks LDSM.4 --lanes '128*(lane%16) + 16*(lane//16)'"
        " --swizzle 128",
        "Draw a picture for a page": "gpuemu banks LDS.32 --lanes '4*32*lane' --format svg -o column.svg",
    },
    notes="The cost of an LDGSTS also depends on its global addresses (--from). By default they are contiguous.",
)
@click.argument("op")
@click.option("--lanes", metavar="EXPRESSION", help="Give the byte address as an expression of lane (0 to 31).")
@click.option("--addresses", metavar="LIST|@FILE", help="List the 32 byte addresses, or name a file with them.")
@click.option("--from", "source", metavar="EXPRESSION", help="Give the global byte addresses that an LDGSTS reads.")
@click.option(
    "--swizzle",
    type=click.Choice(["none", "32", "64", "128"]),
    default="none",
    show_default=True,
    help="Apply this TMA swizzle to the addresses.",
)
@click.option("--mask", metavar="MASK", default="0xffffffff", help="Choose the active lanes: bit i is lane i.")
@click.option(
    "--arch", "arch_name", metavar="NAME|FILE", default="sm_89", show_default=True, help="Choose the hardware."
)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of the hardware.")
@click.option("--wide", is_flag=True, help="Draw each bank, also where every lane takes several.")
@format_option("text", "json", "svg")
@output_option
def banks(
    op: str,
    lanes: str | None,
    addresses: str | None,
    source: str | None,
    swizzle: str,
    mask: str,
    arch_name: str,
    settings: tuple[str, ...],
    wide: bool,
    form: str,
    output: str | None,
) -> None:
    """Draw one shared-memory access of a warp: banks, phases and wavefronts.

    OP is the instruction, e.g. LDS, STS.128, LDSM.4, LDSM.T.4, STSM.4, ATOMS.ADD, LDGSTS.128, LDGSTS.BYPASS.128 or
    HGMMA.64x128x16.F32. Addresses are bytes. An LDSM or STSM takes the addresses of its matrix rows.
    """
    import numpy as np

    from gpuemu.arch import load_arch, parse_overrides
    from gpuemu.banks.access import shared_access
    from gpuemu.isa.matrix_descriptor import MODES, swizzled
    from gpuemu.studies.layout import boxes
    from gpuemu.views import bank_picture

    overrides = parse_overrides(settings)
    arch = load_arch(arch_name)
    if (columns := _columns(op)) is not None:
        if lanes is not None or addresses is not None:
            raise _refuse("--lanes" if lanes else "--addresses", "a wgmma takes no addresses", "Use --swizzle alone")
        row_bytes = arch.shared_memory.banks * arch.shared_memory.bank_width_bytes
        a, b = (-(-lines * boxes.DEPTH_BYTES // row_bytes) for lines in (boxes.LINES["A"], columns))
        if form == "text":
            click.echo(f"{op}: {a + b} wavefronts, {a} of A if it is in shared memory, {b} of B, in any swizzle.")
            click.echo("Here the first 8 rows of an operand, 32 bytes of each, as two matrices of ldmatrix:\n")
        op, mask, lanes = (
            "LDSM.2",
            "0xffff",
            f"{MODES[swizzle] or 16}*(lane%8) + {16 if MODES[swizzle] else 1024}*(lane//8)",
        )
    if lanes is not None and addresses is not None:
        raise _refuse("--lanes", "--addresses is given as well", "Use one of the two")
    if lanes is not None:
        byte_addresses = _from_expression(lanes, "--lanes")
    elif addresses is not None:
        byte_addresses = _from_list(addresses)
    else:
        raise _refuse("", "neither --lanes nor --addresses is given", "Use one of them to say where the lanes point")
    active_mask = _integer(mask, (COMMAND, None, "--mask"))
    access = shared_access(
        arch.with_overrides(overrides, where="--set"),
        op,
        swizzled(np.asarray(byte_addresses), MODES[swizzle]).tolist(),
        active_mask,
        where=COMMAND,
        global_byte_addresses=None if source is None else _from_expression(source, "--from"),
    )
    hardware = bank_picture.hardware_name(arch.name, overrides)

    def drawn(width: int) -> list[bank_picture.Line]:
        return bank_picture.picture(access, hardware, width, wide)

    columns_here = columns_of(bank_picture.COLUMNS, output is not None)
    if form == "text" and output is None:
        bank_picture.write(drawn, columns_here, styled(sys.stdout))
        return
    text = access.svg() if form == "svg" else bank_picture.plain(drawn(columns_here))
    if form == "json":
        text = json.dumps(bank_picture.as_json(access, arch.name, overrides), indent=2) + "\n"
    write_out(text, output, form)


def _refuse(field: str, found: str, right: str) -> GpuemuError:
    return GpuemuError.one(COMMAND, None, field, found, right)


def _columns(op: str) -> int | None:
    """N of a wgmma shape, 64xNxK, or None for another instruction. Raises GpuemuError for a wgmma without a shape."""
    from gpuemu.isa.products import warpgroup_shape
    from gpuemu.isa.table import parse_opcode

    opcode = parse_opcode(op.strip())
    if opcode.row.operation != "warpgroup":
        return None
    shape = warpgroup_shape(opcode)
    if shape is None:
        raise _refuse("", f"'{op}'", "expected a shape such as HGMMA.64x128x16.F32")
    return shape[0]


def _from_expression(text: str, option: str) -> Sequence[int]:
    import numpy as np

    from gpuemu.base.expressions import compile_expression
    from gpuemu.isa.warp import LANES

    expression = compile_expression(text, ["lane"], where=(COMMAND, None, option))
    values = expression.evaluate({"lane": np.arange(LANES)})
    return [int(value) for value in np.broadcast_to(values, LANES)]


def _from_list(text: str) -> Sequence[int]:
    file, field = COMMAND, "--addresses"
    if text.startswith("@"):
        file, field = text[1:], ""
        try:
            text = read_whole(file).decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "text that is not UTF-8"
            raise GpuemuError.one(file, None, "", f"{reason}".lower(), "Give a file of 32 byte addresses") from None
    numbers = []
    for line, content in enumerate(text.splitlines(), 1):
        for item in re.split(r"[\s,]+", content.strip()):
            if item:
                numbers.append(_integer(item, (file, None if file == COMMAND else line, field)))
    return numbers


def _integer(text: str, where: tuple[str, int | None, str]) -> int:
    try:
        return int(text, 0)
    except ValueError:
        right = "expected whole numbers such as 64 or 0x40"
        raise GpuemuError.one(*where, f"'{text}'", right) from None
