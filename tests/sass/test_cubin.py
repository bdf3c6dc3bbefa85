from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.base.errors import GpuemuError
from gpuemu.chip.tracing import trace_kernel
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.image.elf import architecture_number
from gpuemu.sass.image.line_table import SourceLine
from gpuemu.sass.image.nv_info import Attribute, Parameter, kernel_info
from gpuemu.sass.image.symbol_names import choose_kernel, source_name, template_arguments
from gpuemu.sass.tools.disassembly import load_cubin

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")

Compile = Callable[[str, str], Cubin]


@pytest.fixture(scope="module", params=ARCHS)
def calls(request: pytest.FixtureRequest, compiled: Compile) -> Cubin:
    return compiled("calls", request.param)


def kernel_of(source: str, folder: Path, arch: str = "sm_90") -> Cubin:
    path = folder / "k.cu"
    path.write_text(source)
    return load_cubin(path, arch, "nvrtc")


@pytest.mark.parametrize("arch", ARCHS)
def test_a_cubin_names_its_architecture(arch: str, compiled: Compile) -> None:
    assert compiled("calls", arch).arch == arch


def test_the_architecture_is_read_from_the_headers_of_either_toolkit() -> None:
    # From cubins that toolkits 12.4 and 13.0 wrote for the same sources.
    assert architecture_number(0x33, 0x4B054B) == 75
    assert architecture_number(0x33, 0x5A055A) == 90
    assert architecture_number(0x41, 0x0A004B04) == 75
    assert architecture_number(0x41, 0x06005A04) == 90
    assert architecture_number(0, 0x5A) is None


def test_the_older_header_is_read_in_a_whole_cubin(compiled: Compile) -> None:
    content = bytearray(compiled("calls", "sm_86").content)
    content[7], content[8] = 0x33, 7
    struct.pack_into("<I", content, 48, 0x560556)
    cubin = read_cubin(bytes(content))
    assert cubin.arch == "sm_86"
    assert cubin.kernel("calls") == compiled("calls", "sm_86").kernel("calls")


def test_every_kernel_is_there_with_its_name_in_the_source(calls: Cubin) -> None:
    assert {k.source_name for k in calls.kernels.values()} == {
        "calls", "recursion", "indirect", "switching", "local_array", "reversed", "inner::assign", "diverging",
    }  # fmt: skip
    assert len(calls.kernels) == 9


def test_code_is_whole_instructions(calls: Cubin) -> None:
    for kernel in calls.kernels.values():
        assert kernel.machine_code
        assert len(kernel.machine_code) % 16 == 0
        assert kernel.code_relocations == ()
        assert 4 <= kernel.registers_per_thread <= 255


def test_parameters_begin_where_the_architecture_puts_them(calls: Cubin) -> None:
    for kernel in calls.kernels.values():
        assert kernel.parameter_base == {"sm_90": 0x210, "sm_120": 0x380}.get(calls.arch, 0x160)


def test_parameters_have_the_offsets_and_sizes_of_the_signature(calls: Cubin) -> None:
    kernel = calls.kernel("calls")  # (float *, const float *, int, Mixed), Mixed aligned to 8 bytes
    assert [(p.offset, p.size) for p in kernel.parameters] == [(0, 8), (8, 8), (16, 4), (24, 24)]
    assert kernel.parameter_bytes == 48
    assert len(kernel.constant_banks[0]) == kernel.parameter_base + 48


def test_shared_memory_is_counted_without_what_the_system_reserves(calls: Cubin) -> None:
    sizes = {n: k.static_shared_bytes for n, k in calls.kernels.items() if k.source_name == "reversed"}
    assert sizes == {"_Z8reversedILi32EEvPi": 128, "_Z8reversedILi64EEvPi": 256}
    assert calls.kernel("diverging").static_shared_bytes == 0
    assert calls.kernel("diverging").shared_base == (1024 if calls.arch in ("sm_90", "sm_120") else 0)


def test_a_local_array_takes_stack(calls: Cubin) -> None:
    assert calls.kernel("local_array").local_bytes == 128
    assert calls.kernel("switching").local_bytes == 0


def test_launch_bounds_are_read(calls: Cubin) -> None:
    assert calls.kernel("recursion").max_threads == (128, 1, 1)
    assert calls.kernel("local_array").max_threads == (64, 1, 1)
    assert calls.kernel("switching").max_threads is None


def test_constant_variables_have_a_place_and_contents(calls: Cubin) -> None:
    section = calls.kernel("calls").constant_sections[3]
    places = {v.name: (v.offset, v.size) for v in section.variables}
    assert places == {"table": (0, 64), "second": (64, 16)}
    assert struct.unpack("<16f", section.data[:64]) == tuple(range(1, 17))
    assert section.data[64:] == bytes(16)


def test_global_variables_have_a_place_and_contents(calls: Cubin) -> None:
    initialised, zeroed = calls.global_sections
    assert (initialised.name, zeroed.name) == (".nv.global.init", ".nv.global")
    places = {v.name: v for v in initialised.variables}
    assert set(places) == {"counter", "operations", "pointer_to_counter"}
    at = places["counter"].offset
    assert initialised.data[at : at + 4] == struct.pack("<i", 7)
    assert [(v.name, v.offset, v.size) for v in zeroed.variables] == [("scratch", 0, 256)]
    assert zeroed.data == bytes(256)


def test_addresses_of_variables_are_filled_in_where_code_and_data_look_for_them(calls: Cubin) -> None:
    initialised, zeroed = calls.global_sections
    addresses = initialised.addresses(0x7000) | zeroed.addresses(0x9000)
    assert addresses[".nv.global"] == addresses["scratch"] == 0x9000
    bank = calls.kernel("calls").placed_constant_banks(addresses)[4]
    relocations = calls.kernel("calls").constant_sections[4].relocations
    for relocation in relocations:
        (found,) = struct.unpack_from("<Q", bank, relocation.offset)
        assert found == addresses[relocation.symbol]
    assert {r.symbol for r in relocations} == {"counter", "scratch", "operations", "pointer_to_counter"}
    pointer = next(v for v in initialised.variables if v.name == "pointer_to_counter")
    placed = initialised.placed(addresses)
    assert struct.unpack_from("<Q", placed, pointer.offset) == (addresses["counter"],)


def test_a_call_into_the_runtime_is_a_relocation_that_cannot_be_filled_in(tmp_path: Path) -> None:
    cubin = kernel_of('__global__ void k(int n) { printf("%d", n); }', tmp_path)
    (data,) = cubin.global_sections
    with pytest.raises(GpuemuError) as caught:
        cubin.kernel("k").constant_sections[4].placed(data.addresses(0x7000))
    assert "found the address of 'vprintf' (relocation 2)" in str(caught.value)


def test_large_parameters_are_read_from_their_own_attribute(tmp_path: Path) -> None:
    source = "struct B { int a[6000]; }; __global__ void k(int *o, B b, int n) { o[n] = b.a[n]; }"
    kernel = kernel_of(source, tmp_path).kernel()
    assert [(p.offset, p.size) for p in kernel.parameters] == [(0, 8), (8, 24000), (24008, 4)]


# The words that ptxas writes for a pointer to global memory whose data is aligned to 128 bytes, for one to anything,
# for a whole number, a structure of 128 bytes, and cuTile for a pointer in a kernel that copies by TMA.
WORDS = [
    (Attribute.KPARAM_INFO, 0x0021F407, 8, True),
    (Attribute.KPARAM_INFO, 0x0021F508, 8, True),
    (Attribute.KPARAM_INFO, 0x0011F000, 4, False),
    (Attribute.KPARAM_INFO, 0x0201F000, 128, False),
    (Attribute.KPARAM_INFO_V2, 0x04070008, 8, True),
    (Attribute.KPARAM_INFO_V2, 0x05080008, 8, True),
    (Attribute.KPARAM_INFO_V2, 0x00000004, 4, False),
    (Attribute.KPARAM_INFO_V2, 0x00007FFC, 32764, False),
    (Attribute.KPARAM_INFO_V2, 0x04000008, 8, True),
]


@pytest.mark.parametrize(("attribute", "word", "size", "is_pointer"), WORDS)
def test_a_parameters_word_has_its_size_and_the_space_it_points_to(
    attribute: Attribute, word: int, size: int, is_pointer: bool
) -> None:
    data = struct.pack("<BBHIHHI", 4, attribute, 12, 0, 3, 0x30, word)
    assert kernel_info(data).parameters == {3: Parameter(0x30, size, is_pointer)}


POINTERS = """.version 8.1
.target sm_90
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 128 a, .param .u64 .ptr .shared .align 16 b, .param .u64 .ptr c,
    .param .u64 d, .param .align 8 .b8 e[BYTES]) { ret; }
"""


@pytest.mark.parametrize("size", [16, 5000])
def test_pointers_are_known_in_either_attribute(size: int, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(POINTERS.replace("BYTES", str(size)))
    kernel = load_cubin(tmp_path / "k.ptx", "sm_90").kernel("k")
    assert [(p.offset, p.size) for p in kernel.parameters] == [(0, 8), (8, 8), (16, 8), (24, 8), (32, size)]
    assert [p.is_pointer for p in kernel.parameters] == [True, True, True, False, False]


# As cuTile has them: what the attributes do not describe.
HIDDEN = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 k_param_0, .param .u32 k_param_1,
    .hidden .param .align 64 .b8 k_param_2[128], .hidden .param .align 64 .b8 k_param_3[128])
{
    .reg .b64 %r<3>;
    ld.param.u64 %r0, [k_param_0];
    ld.param.u64 %r1, [k_param_2+8];
    ld.param.u64 %r2, [k_param_3+8];
    st.global.u64 [%r0], %r1;
    st.global.u64 [%r0+8], %r2;
    ret;
}
"""


def test_parameters_that_the_driver_fills_in_come_last(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(HIDDEN)
    kernel = load_cubin(tmp_path / "k.ptx", "sm_90").kernel("k")
    assert [(p.offset, p.size) for p in kernel.parameters] == [(0, 8), (8, 4), (48, 128), (176, 128)]
    assert (kernel.driver_parameters, kernel.parameter_bytes) == (2, 304)
    out = np.zeros(2, np.uint64)
    maps = [np.arange(16, dtype=np.uint64) + 100 * n for n in (1, 2)]
    trace_kernel(tmp_path / "k.ptx", args=[out, 7, *(one.tobytes() for one in maps)], arch="sm_90")
    assert out.tolist() == [101, 201]
    said = r"k: found 2 arguments"
    with pytest.raises(GpuemuError, match=said):
        trace_kernel(tmp_path / "k.ptx", args=[out, 7], arch="sm_90")


def test_cluster_and_block_sizes_are_read(tmp_path: Path) -> None:
    cubin = kernel_of(
        "__global__ void __cluster_dims__(2, 1, 1) c(int *o) { *o = 1; }\n"
        "__global__ void __block_size__((64, 2, 1)) b(int *o) { *o = 1; }\n",
        tmp_path,
    )
    assert cubin.kernel("c").cluster == (2, 1, 1)
    assert cubin.kernel("b").required_block == (64, 2, 1)
    assert cubin.kernel("b").cluster == (1, 1, 1)


def test_device_functions_have_their_offsets(calls: Cubin) -> None:
    functions = calls.kernel("calls").device_functions
    assert functions["calls"] == 0
    assert 0 < functions["$calls$_Z6seriesfi"] < len(calls.kernel("calls").machine_code)


def test_branch_targets_are_offsets_of_instructions(calls: Cubin) -> None:
    kernel = calls.kernel("switching")
    assert kernel.branch_targets
    size = len(kernel.machine_code)
    for branch, targets in kernel.branch_targets.items():
        assert len(targets) >= 3
        assert all(at % 16 == 0 and at < size for at in (branch, *targets))


def test_jump_tables_hold_these_targets(calls: Cubin) -> None:
    kernel = calls.kernel("switching")
    table = kernel.constant_banks[2]
    entries = set(struct.unpack(f"<{len(table) // 4}I", table))
    assert entries == {target for targets in kernel.branch_targets.values() for target in targets}


def test_source_lines_lead_from_a_header_to_the_kernel(compiled: Compile, kernel_sources: Path) -> None:
    kernel = compiled("tensor", "sm_89").kernel("wmma_half")
    source = kernel_sources / "tensor.cu"
    assert kernel.source_file == str(source)
    text = source.read_text().splitlines()
    inlined = [line for line in kernel.source_lines if line is not None and line.inlined_at is not None]
    assert any(line.file.endswith("mma.hpp") for line in inlined)
    assert {text[line.outermost.line - 1].split("(")[0].strip() for line in inlined} >= {
        "wmma::load_matrix_sync", "wmma::mma_sync", "wmma::store_matrix_sync",
    }  # fmt: skip
    for offset in range(0, 16 * len(inlined), 16):
        place = kernel.source_line(offset)
        assert place is not None
        assert place[0] == str(source)


def test_a_place_tells_its_line_in_a_file() -> None:
    call = SourceLine("k.cu", 9, SourceLine("k.cu", 20))
    place = SourceLine("mma.hpp", 300, call)
    assert place.in_file("k.cu") == 9
    assert place.in_file("other.cu") is None
    assert place.outermost.line == 20


def test_a_cubin_without_lines_has_none(compiled: Compile) -> None:
    content = compiled("calls", "sm_89").content.replace(b".debug_line\0", b".hidden_abc\0")
    kernel = read_cubin(content).kernel("calls")
    assert set(kernel.source_lines) == {None}
    assert kernel.source_file is None
    assert kernel.source_line(0) is None


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("gemm", "gemm"),
        ("_Z4gemmPfS_", "gemm"),
        ("_Z8reversedILi32EEvPi", "reversed"),
        ("_ZN5inner6assignEPi", "inner::assign"),
        ("_ZN3a_b5outer5innerIiEEvPT_", "a_b::outer::inner"),
        ("_ZL6hiddenPi", "hidden"),
        ("_ZN12_GLOBAL__N_16hiddenEPi", "hidden"),
        ("_Z", "_Z"),
    ],
)
def test_the_name_in_the_source_is_read_from_the_symbol(symbol: str, name: str) -> None:
    assert source_name(symbol) == name


def test_a_kernel_is_found_by_its_symbol_or_its_name(calls: Cubin) -> None:
    assert calls.kernel("_Z9switchingPiPKii") is calls.kernel("switching")
    assert calls.kernel("inner::assign") is calls.kernel("assign")


def test_an_unknown_kernel_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(GpuemuError) as caught:
        choose_kernel("gem", ["_Z4gemmPfS_", "copy"], "k.cubin")
    assert str(caught.value).startswith("k.cubin: kernel: no kernel is called 'gem'")


def test_a_name_that_two_kernels_have_is_refused_with_their_symbols(calls: Cubin) -> None:
    with pytest.raises(GpuemuError) as caught:
        calls.kernel("reversed")
    assert "kernel: 2 kernels are called 'reversed'" in str(caught.value)


@pytest.mark.parametrize(
    ("symbol", "arguments"),
    [
        ("_Z4gemmPfS_", ""), ("_Z8reversedILi32EEvPi", "<32>"), ("_Z1kIfLi4ELin1ELb1EEvPT_", "<float, 4, -1, true>"),
        ("_ZN5outer5innerIiEEvPi", "<int>"), ("_ZN5outerIiE5innerEvPi", ""), ("_Z1kI6__halfPKjEvv", "<__half, const unsigned*>"),
        ("_Z1kIN2ns1AEEvv", "<ns::A>"), ("_Z1kIJifEEvv", "<int, float>"), ("_Z1kIXaaT_EEvv", ""), ("_Z", ""), ("plain", ""),
    ],
)  # fmt: skip
def test_template_arguments_are_spelled_as_in_the_source_where_no_expression_is_among_them(
    symbol: str, arguments: str
) -> None:
    assert template_arguments(symbol) == arguments


@pytest.mark.parametrize(
    ("wanted", "symbol"),
    [
        ("reversed<32>", "_Z8reversedILi32EEvPi"), ("reversed<64, float>", "_ZN1n8reversedILi64EfEEvPi"),
        ("n::reversed<64,float>", "_ZN1n8reversedILi64EfEEvPi"), ("sum<unsigned int>", "_Z3sumIjLi8EEvPT_"),
        ("sum< half, 8 >", "_Z3sumI6__halfLi8EEvPT_"),
    ],
)  # fmt: skip
def test_an_instance_of_a_template_is_found_as_a_launch_writes_it(wanted: str, symbol: str) -> None:
    symbols = [
        "_Z8reversedILi32EEvPi", "_Z8reversedILi3EEvPi", "_ZN1n8reversedILi64EfEEvPi", "_ZN1n8reversedILi64EdEEvPi",
        "_Z3sumIjLi8EEvPT_", "_Z3sumI6__halfLi8EEvPT_", "_Z3sumIfLi8EEvPT_",
    ]  # fmt: skip
    assert choose_kernel(wanted, symbols, "k.cubin") == symbol


def test_many_kernels_are_listed_by_name_and_a_name_tells_its_instances() -> None:
    symbols = ["copy", *(f"_Z3sumILi{n}EEvPf" for n in range(9))]
    with pytest.raises(GpuemuError) as caught:
        choose_kernel(None, symbols, "k.cubin")
    right = "Choose one with --kernel: copy, sum (9 instances); a name alone lists its instances"
    assert caught.value.problems[0].right == right
    with pytest.raises(
        GpuemuError, match=r"9 kernels are called 'sum'\. Choose one with --kernel: sum<0> \(_Z3sumILi0EEvPf\), "
    ):
        choose_kernel("sum", symbols, "k.cubin")


def test_the_name_may_be_left_out_for_a_single_kernel_only() -> None:
    assert choose_kernel(None, ["one"], "k.cubin") == "one"
    with pytest.raises(GpuemuError, match=r"kernel: the file has 2 kernels"):
        choose_kernel(None, ["a", "b"], "k.cubin")
    with pytest.raises(GpuemuError, match=r"kernel: there is no __global__ function"):
        choose_kernel("a", [], "k.cubin")


def elf_header(machine: int, osabi: int = 0, bits: int = 2) -> bytes:
    return b"\x7fELF" + bytes([bits, 1, 1, osabi]) + bytes(8) + struct.pack("<HH", 2, machine) + bytes(44)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04", "a file of an unknown format"),
        (b"\x50\xed\x55\xba\x01\0", "a fat binary"),
        (
            b"// PTX\n.version 8.0\n.target sm_80\n",
            "PTX text",
        ),
        (
            elf_header(62),
            "an ELF file for x86-64, not for an NVIDIA GPU",
        ),
        (
            elf_header(40),
            "an ELF file for machine 40, not for an NVIDIA GPU",
        ),
        (
            elf_header(190, bits=1),
            "an ELF file that is not 64-bit little-endian",
        ),
        (elf_header(190, 5), "a cubin of an unknown ABI (0x5)"),
        (b"\x7fELF\2\1", "a damaged cubin"),
    ],
)
def test_what_is_no_cubin_is_refused_with_a_way_to_one(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "k.bin"
    path.write_bytes(content)
    with pytest.raises(GpuemuError) as caught:
        read_cubin(path)
    assert str(caught.value).startswith((f"{path}: found {sentence}", f"{path}: {sentence}. Extract the cubins"))


def test_a_missing_cubin_is_refused() -> None:
    with pytest.raises(GpuemuError, match=r"^no\.cubin: cannot read the file \(No such file"):
        read_cubin("no.cubin")


def damaged(content: bytes, seed: int, changes: int, cut: bool) -> str:
    """What comes of a cubin in which some bytes are others, or that ends early: "read" or "refused"."""
    changed = bytearray(content)
    choose = random.Random(seed)
    (sections,) = struct.unpack_from("<Q", content, 40)
    for _ in range(changes):
        first = choose.choice((8, 64, sections))
        changed[choose.randrange(first, len(content))] = choose.randrange(256)
    if cut:
        del changed[choose.randrange(len(content)) :]
    try:
        cubin = read_cubin(bytes(changed))
    except GpuemuError:
        return "refused"
    for kernel in cubin.kernels.values():
        kernel.source_line(0)
    return "read"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 40), cut=st.booleans())
def test_a_damaged_cubin_is_read_or_refused_but_never_breaks(
    compiled: Compile, seed: int, changes: int, cut: bool
) -> None:
    assert damaged(compiled("memory", "sm_90").content, seed, changes, cut) in ("read", "refused")


def test_of_damaged_cubins_those_are_refused_that_need_be(compiled: Compile) -> None:
    content = compiled("memory", "sm_90").content
    assert damaged(content, 0, 0, cut=False) == "read"
    assert {damaged(content, seed, 0, cut=True) for seed in range(20)} == {"refused"}
    few, many = ([damaged(content, seed, changes, cut=False) for seed in range(30)] for changes in (1, 200))
    assert few.count("read") > 20
    assert many.count("refused") > 20


def test_sections_without_bytes_are_refused_by_their_size(compiled: Compile) -> None:
    content = bytearray(compiled("memory", "sm_90").content)
    (table,), (count,) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<H", content, 60)
    nobits = [at for at in range(table, table + 64 * count, 64) if struct.unpack_from("<I", content, at + 4) == (8,)]
    struct.pack_into("<Q", content, nobits[0] + 32, 1 << 30)
    with pytest.raises(GpuemuError, match=r"^k: found sections of 1,073,\d{3},\d{3} bytes"):
        read_cubin(bytes(content), "k")
