"""No instruction of measured Hopper kernels (wgmma, TMA, mbarriers, clusters) is one that no rule times."""

from __future__ import annotations

import lzma
import re
import subprocess
from pathlib import Path

import pytest

from gpuemu.isa.opcodes import is_guessed
from gpuemu.sass.tools.toolchain import find_nvdisasm

ROOT = Path(__file__).resolve().parents[2]
OPCODE = re.compile(r"^\s+(?:/\*[0-9a-f]+\*/)?\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)[^;\n]*;", re.MULTILINE)


@pytest.mark.slow
def test_a_rule_times_each_instruction_of_the_measured_kernels(tmp_path: Path) -> None:
    code = tmp_path / "kernels.cubin"
    code.write_bytes(lzma.decompress((ROOT / "validation/hopper/kernels.cubin.xz").read_bytes()))
    text = subprocess.run([find_nvdisasm(), "-c", code], capture_output=True, text=True, check=True).stdout
    found = set(OPCODE.findall(text))
    assert {"UTMALDG.2D", "UBLKCP.S.G", "USETMAXREG.DEALLOC.CTAPOOL"} <= found
    assert [opcode for opcode in sorted(found) if is_guessed(opcode)] == []
