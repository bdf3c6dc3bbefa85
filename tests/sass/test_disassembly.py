from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.tools import disassembly
from gpuemu.sass.tools.disassembly import control_words, decode_function, disassemble, load_cubin, without_padding
from gpuemu.sass.tools.toolchain import find_nvdisasm
from gpuemu.trace.listing import format_listing, parse_control
from gpuemu.trace.model import Instruction

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
SOURCES = ("calls", "arithmetic", "memory", "tensor")
MEASURED = Path(__file__).parents[3] / "shared" / "h200" / "kernels.cubin"

Compile = Callable[[str, str], Cubin]
Forget = Callable[..., None]


def by_opcode(code: tuple[Instruction, ...], start: str) -> list[Instruction]:
    return [i for i in code if i.opcode.split(".")[0] == start]


def nvdisasm(cubin: Cubin, option: str, folder: Path) -> str:
    path = folder / "k.cubin"
    path.write_bytes(cubin.content)
    return subprocess.run([find_nvdisasm(), option, str(path)], capture_output=True, text=True, check=True).stdout


def written(entry: dict[str, Any], functions: dict[str, int]) -> tuple[str, str, tuple[str, ...]]:
    """Guard, opcode and operands of an instruction of nvdisasm's JSON, which resolves labels by itself."""
    operands = [part.strip() for part in entry.get("operands", "").split(",")]
    if entry["opcode"].startswith(("CALL", "RET")):
        operands = [f"{functions[part]:#x}" if part in functions else part for part in operands]
    if entry["opcode"].startswith("LDGSTS"):
        operands = [part for operand in operands for part in operand.replace("][", "],[", 1).split(",")]
    return entry.get("predicate", ""), entry["opcode"], tuple(filter(None, operands))


def pairs(found: tuple[str, ...], expected: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(zip(found, expected, strict=True)) if len(found) == len(expected) else [(f, "") for f in found]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_instruction_is_as_the_disassembler_itself_resolves_it(
    source: str, arch: str, compiled: Compile, tmp_path: Path
) -> None:
    cubin = compiled(source, arch)
    functions = {f["function-name"]: f for f in json.loads(nvdisasm(cubin, "-json", tmp_path))[1]}
    assert set(functions) == set(cubin.kernels)
    for name, kernel in cubin.kernels.items():
        code = disassemble(cubin, kernel)
        assert [i.offset for i in code] == list(range(0, len(kernel.machine_code), 16))
        offsets = dict(kernel.device_functions)
        expected = [written(entry, offsets) for entry in functions[name]["sass-instructions"]]
        found = [(i.guard, i.opcode, i.operands) for i in code]
        # A QNAN of another instruction than a packed half's stands here with its bits.
        found = [
            (
                g,
                o,
                tuple(
                    q if "QNAN" in q and not o.startswith("H") and p.startswith("0x") else p for p, q in pairs(ps, qs)
                ),
            )
            for (g, o, ps), (_, _, qs) in zip(found, expected, strict=True)
        ]
        if arch in ("sm_90", "sm_120"):  # where an operand between is a descriptor, the JSON keeps the comma
            found = [f if "LDGSTS" not in f[1] else e for f, e in zip(found, expected, strict=True)]
        assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_control_words_are_the_printed_bits(arch: str, compiled: Compile, tmp_path: Path) -> None:
    cubin = compiled("arithmetic", arch)
    text = nvdisasm(cubin, "--print-instruction-encoding", tmp_path)
    name, printed = "", {}
    for line in text.splitlines():
        if section := re.match(r"\s*\.text\.(\S+):$", line):
            name = section[1]
        elif half := re.match(r"\s*/\* 0x([0-9a-f]{16}) \*/$", line):
            printed.setdefault(name, []).append(int(half[1], 16))
    for kernel in cubin.kernels.values():
        words = control_words(kernel.machine_code)
        assert len(words) == len(printed[kernel.name])
        for word, half in zip(words, printed[kernel.name], strict=True):
            bits = f"{half:064b}"[::-1]  # bit 64 + n of the instruction is character n
            assert word.stall_cycles == int(bits[41:45][::-1], 2)
            assert word.yields == (bits[45] == "0")
            assert (7 if word.write_counter is None else word.write_counter) == int(bits[46:49][::-1], 2)
            assert (7 if word.read_counter is None else word.read_counter) == int(bits[49:52][::-1], 2)
            assert word.wait_mask == int(bits[52:58][::-1], 2)
            assert parse_control(str(word)[1:-1]) == word


def test_branches_name_byte_offsets(compiled: Compile) -> None:
    cubin = compiled("calls", "sm_89")
    for kernel in cubin.kernels.values():
        code = disassemble(cubin, kernel)
        for opcode in ("BRA", "BSSY"):
            for instruction in by_opcode(code, opcode):
                target = int(instruction.operands[-1], 16)
                assert target % 16 == 0
                assert target < len(kernel.machine_code)


def test_calls_and_returns_name_byte_offsets(compiled: Compile) -> None:
    cubin = compiled("calls", "sm_89")
    kernel = cubin.kernel("calls")
    code = disassemble(cubin, kernel)
    called = {i.operands for i in by_opcode(code, "CALL")}
    series = kernel.device_functions["$calls$_Z6seriesfi"]
    assert (f"{series:#x}",) in called
    for instruction in by_opcode(code, "RET"):
        register, base = instruction.operands
        assert register.startswith("R")
        assert base == "0x0"
    (through_pointer,) = by_opcode(disassemble(cubin, cubin.kernel("indirect")), "CALL")
    assert through_pointer.operands[1] == "0x0"


def test_indexed_branches_come_with_their_targets(compiled: Compile) -> None:
    function = decode_function(compiled("calls", "sm_89"), "switching")
    branches = by_opcode(function.code, "BRX")
    assert {i.offset for i in branches} == set(function.branch_targets)
    for instruction in branches:
        register, base = instruction.operands
        assert register.startswith("R")
        assert int(base, 16) == -(instruction.offset + 16)  # so that the register holds the offset itself


@pytest.mark.slow
def test_guards_modifiers_and_reuse_stay_in_the_text(compiled: Compile) -> None:
    cubin = compiled("arithmetic", "sm_89")
    code = disassemble(cubin, cubin.kernel("integers"))
    assert {i.guard for i in code} >= {"", "@P0", "@!P0"}
    assert any(".reuse" in operand for i in code for operand in i.operands)
    assert any(operand.startswith(("~", "-R")) for i in code for operand in i.operands)
    assert any(i.opcode == "IMAD.WIDE.U32" for i in code)


@pytest.mark.slow
def test_constants_are_written_in_one_way(compiled: Compile) -> None:
    cubin = compiled("arithmetic", "sm_89")
    operands = [o for i in disassemble(cubin, cubin.kernel("halves")) for o in i.operands]
    assert any(re.fullmatch(r"c\[0x0\]\[0x[0-9a-f]+\]\.H0_H0", o) for o in operands)
    assert not any(" " in o for o in operands)


@pytest.mark.slow
def test_instructions_carry_their_line_in_the_kernels_own_file(compiled: Compile, kernel_sources: Path) -> None:
    function = decode_function(compiled("tensor", "sm_89"), "wmma_half")
    text = (kernel_sources / "tensor.cu").read_text().splitlines()
    lines = {i.opcode.split(".")[0]: text[i.line - 1].strip() for i in function.code if i.line}
    assert lines["HMMA"] == "wmma::mma_sync(c, fa, fb, c);"
    assert lines["BAR"].startswith("__syncthreads")


def test_padding_can_be_left_out(compiled: Compile) -> None:
    function = decode_function(compiled("tensor", "sm_89"), "wmma_half")
    code = without_padding(function.code)
    assert code[-1].opcode == "EXIT"
    rest = function.code[len(code) :]
    assert rest[0].operands == (f"{rest[0].offset:#x}",)
    assert {i.opcode for i in rest[1:]} == {"NOP"}
    assert without_padding(()) == ()


@pytest.mark.slow
def test_a_decoded_function_joins_code_and_metadata(kernel_sources: Path) -> None:
    function = decode_function(kernel_sources / "tensor.cu", "wmma_half", "sm_86", "nvrtc")
    assert (function.name, function.arch) == ("wmma_half", "sm_86")
    assert function.static_shared_bytes == 1024
    assert len(function.parameters) == 3
    assert len(function.code) * 16 == len(function.machine_code)
    assert format_listing(function.code[:1]).startswith("0000: [B------:R-:W-:")


def test_sm_89_is_the_architecture_of_a_source_unless_another_is_named(kernel_sources: Path) -> None:
    assert load_cubin(kernel_sources / "tensor.cu", compiler="nvrtc").arch == "sm_89"


@pytest.mark.slow
def test_a_cubin_may_be_a_path_or_bytes(compiled: Compile, tmp_path: Path) -> None:
    cubin = compiled("tensor", "sm_80")
    path = tmp_path / "k.cubin"
    path.write_bytes(cubin.content)
    code = decode_function(cubin, "wmma_half").code
    assert decode_function(path, "wmma_half").code == code
    assert decode_function(str(path), "wmma_half", "sm_90").arch == "sm_80"
    assert decode_function(cubin.content, "wmma_half").cubin.file == "<cubin>"


def test_the_disassembler_runs_once_for_a_cubin(compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    run = disassembly.run_nvdisasm
    monkeypatch.setattr(disassembly, "run_nvdisasm", lambda *a: runs.append(a) or run(*a))
    disassembly._texts.cache_clear()
    cubin = compiled("calls", "sm_80")
    for kernel in cubin.kernels.values():
        disassemble(cubin, kernel)
    disassemble(read_cubin(bytes(bytearray(cubin.content)), cubin.file), cubin.kernel("calls"))
    assert len(runs) == 1


def test_instructions_that_the_model_does_not_know_are_refused_where_they_stand(
    compiled: Compile, forget: Forget
) -> None:
    cubin = compiled("tensor", "sm_89")
    forget("HMMA", "LDSM")
    code = disassemble(cubin, cubin.kernel("wmma_half"))
    first = {i.opcode: i.offset for i in reversed(code) if i.opcode.startswith(("HMMA", "LDSM"))}
    with pytest.raises(GpuemuError) as caught:
        decode_function(cubin, "wmma_half")
    assert {p.field: p.found for p in caught.value.problems} == {
        f"wmma_half+{offset:#06x}": f"unknown instruction '{opcode}'" for opcode, offset in first.items()
    }
    assert caught.value.problems[0].file == cubin.file


@pytest.mark.slow
def test_unknown_instructions_in_one_kernel_do_not_keep_others_back(compiled: Compile, forget: Forget) -> None:
    forget("SHFL")
    cubin = compiled("memory", "sm_89")
    assert decode_function(cubin, "vectors").code
    with pytest.raises(GpuemuError, match=r"lanes\+0x[0-9a-f]{4}: unknown instruction 'SHFL"):
        decode_function(cubin, "lanes")


@pytest.mark.slow
def test_code_that_is_not_linked_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("extern __device__ int other(int); __global__ void k(int *o) { *o = other(*o); }")
    content = disassembly.compile_cuda(source, "sm_89", "nvrtc", ("-rdc=true",))
    with pytest.raises(GpuemuError) as caught:
        decode_function(content, "k")
    assert str(caught.value) == (
        "<cubin>: _Z1kPi: the code is not linked and lacks the addresses of _Z5otheri. Link it, or compile all its "
        "functions in one source without -rdc."
    )


@pytest.mark.skipif(not MEASURED.exists(), reason="the measured kernels are not beside this checkout")
def test_the_measured_kernels_are_read_whole_and_the_model_knows_them() -> None:
    cubin = read_cubin(MEASURED)
    assert (cubin.arch, len(cubin.kernels)) == ("sm_90", 367)
    for name, kernel in cubin.kernels.items():
        function = decode_function(cubin, name)
        assert len(function.code) * 16 == len(kernel.machine_code)
        assert [(p.offset, p.size) for p in kernel.parameters] == [(0, 8), (8, 8), (16, 4)]


@pytest.mark.slow
def test_a_nan_immediate_is_written_with_its_bits(compiled: Compile) -> None:
    cubin = compiled("arithmetic", "sm_80")
    immediates = {
        operand
        for kernel in cubin.kernels.values()
        for i in disassemble(cubin, kernel)
        if i.opcode.startswith("FSEL")
        for operand in i.operands
        if operand.startswith("0x")
    }
    # The high word of minus infinity, which nvdisasm calls -QNAN, is what a double's logarithm of 0 is made from.
    assert any(int(bits, 16) & 0x7F800000 == 0x7F800000 for bits in immediates)
