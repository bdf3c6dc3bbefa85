"""`gpuemu fragment`: which lane and register of a warp hold which element."""

from __future__ import annotations

import click


@click.command()
@click.argument("instruction")
def fragment(instruction: str) -> None:
    """Show which lane holds which element of the matrices of an INSTRUCTION.

    INSTRUCTION is ldmatrix in machine code, LDSM.1 to LDSM.4 or LDSM.T.4 (for each matrix, by the lane that gives a
    row's address), or a product such as HMMA.16816.F32, HMMA.1688.F16 or IMMA.16832.S8.S8, or its mode,
    m16n8k16.f32.f16. A cell says lane.register of the element of its row and column; where a register holds several
    elements, they are the neighbours in order.

    \b
    What ldmatrix.x4 leaves where, and the operands of an mma:
      gpuemu fragment LDSM.4
      gpuemu fragment HMMA.16816.F32
    """
    from gpuemu.isa.fragment_text import report

    click.echo("\n".join(report(instruction)))
