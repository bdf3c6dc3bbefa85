"""`gpuemu search`: the best layouts of a tile, with the proof that there is none better."""

from __future__ import annotations

import json
import sys

import click

from gpuemu.cli.terminal import styled
from gpuemu.cli.writing import output_option, write_out


@click.command()
@click.option("--tile", required=True, metavar="ROWSxCOLUMNS:TYPE", help="The tile, 128x64:f16 for example.")
@click.option("--access", "accesses", metavar="ACCESS", multiple=True, required=True, help="What warps do to it.")
@click.option("--threads", type=int, metavar="N", help="Block of the virtual threads; by default what covers the tile.")
@click.option("--arch", "arch_name", metavar="NAME|FILE", default="sm_89", show_default=True, help="Hardware.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of the hardware.")
@click.option("--jobs", type=click.IntRange(1), default=1, metavar="N", help="Worker processes for what takes long.")
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="How much of the ranking to show.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "svg"]), default="text", show_default=True, help="Output."
)
@output_option
def search(
    tile: str, accesses: tuple[str, ...], threads: int | None, arch_name: str, settings: tuple[str, ...],
    jobs: int, top: int, form: str, output: str | None,
) -> None:  # fmt: skip
    """Find the layouts of a shared-memory tile that cost the fewest wavefronts.

    Every padding, XOR swizzle, diagonal and virtual-thread factor that fits is counted under every access, exactly.
    They rank by wavefronts, then by bytes lost, then by the operations of the index arithmetic. The winner is printed
    as C++ and for CuTe, the tile before and after in the colours of its banks.

    An ACCESS is one pass over the tile; a leading 4* makes it four. BITS is the width of one lane's part:

    \b
      copy-in[:BITS]        rows stored, 128 bits a thread unless said        STS
      copy-out[:BITS]       rows read                                         LDS
      column[:BITS]         neighbouring threads read down a column           LDS
      column-store[:BITS]   neighbouring threads write down a column          STS
      ldmatrix.x4[.trans]   matrices of 8 rows of 16 bytes; also x1, x2       LDSM
      stmatrix.x4[.trans]   the same written (sm_90)                          STSM
      store[:BITS]          a result as mma leaves it, 8 rows x 4 vectors     STS
      fragment[:BITS]       the same read                                     LDS
      'LDS.32: row = 4*(lane%8); column = step; steps = 32'    any other; also active = ..., thread, rows, columns

    \b
    The three tiles of a 16x16x16 product by one warp (traces/src/v2_shared_memory.cu to v5_swizzle.cu):
      gpuemu search --tile 16x16:f16 --access '2*copy-in' --access ldmatrix.x4 --access ldmatrix.x4.trans
        --access store --access copy-out --threads 32

    \b
    A transpose through a 32x32 float tile:
      gpuemu search --tile 32x32:f32 --access copy-in:32 --access column

    \b
    The A tile of a GEMM, filled once and read by 4 warps; what is to be said for padding:
      gpuemu search --tile 128x32:f16 --access copy-in --access '4*ldmatrix.x4'

    \b
    As data with all candidates, or as a picture:
      gpuemu search --tile 64x64:f16 --access copy-in --access ldmatrix.x4 --format json -o layouts.json
      gpuemu search --tile 64x64:f16 --access copy-in --access ldmatrix.x4 --format svg -o tile.svg
    """
    from gpuemu.arch import load_arch, parse_overrides
    from gpuemu.studies.layout import search_text
    from gpuemu.studies.layout.search import search as find
    from gpuemu.views.bank_picture import hardware_name

    overrides = parse_overrides(settings)
    arch = load_arch(arch_name)
    hardware_given = arch.with_overrides(overrides, where="--set")
    result = find(hardware_given, tile, accesses, threads=threads, jobs=jobs, where="gpuemu search")
    hardware = hardware_name(arch.name, overrides)
    if form == "json":
        text = json.dumps(search_text.as_json(result, arch.name, overrides), indent=2) + "\n"
    elif form == "svg":
        text = search_text.svg(result)
    elif output is None:
        search_text.write(result, hardware, top, styled(sys.stdout))
        return
    else:
        text = search_text.as_text(result, hardware, top)
    write_out(text, output, form)
