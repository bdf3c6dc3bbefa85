import dataclasses
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import brief

from gpuemu import load_arch, load_trace, run
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.opcodes import Row
from gpuemu.trace.recorded import write_trace

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "traces"


def _tool(name: str):
    location = ROOT / "tools" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, location)
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


EXAMPLES = _tool("example_kernels").EXAMPLES
TOOL = _tool("record_traces")


def refusal(*args, **more) -> str:
    with pytest.raises(GpuemuError) as caught:
        load_trace(*args, **more)
    return "\n".join(brief(caught.value))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "arch"),
    [(e, arch) for e in EXAMPLES for arch in TOOL.folders(e)],
    ids=lambda x: getattr(x, "kernel", x),
)
def test_recording_again_gives_the_trace_that_ships(example, arch, tmp_path):
    again, naming = TOOL.recording(example, arch)
    shipped = TRACES / TOOL.folders(example)[arch] / f"{example.kernel}.yaml"
    known = load_trace(shipped)
    if [str(i) for i in again.code] != [str(i) for i in known.code]:
        # Another compiler made other code of it; what it does to memory is still the same.
        again, known = (run(trace, load_arch(arch)).shared_memory for trace in (again, known))
        assert [counts.bank_conflicts for counts in again.values()] == [c.bank_conflicts for c in known.values()]
        return
    files = write_trace(dataclasses.replace(again, file="again"), tmp_path / shipped.name, naming)
    assert [f.name for f in files] == [shipped.name]
    assert files[0].read_bytes() == shipped.read_bytes()


def test_every_shipped_trace_is_recorded_from_an_example():
    names = {Path(below, e.kernel).as_posix() for e in EXAMPLES for below in TOOL.folders(e).values()}
    assert names == set(resources.names("traces"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
@pytest.mark.parametrize(
    ("kernel", "loads", "of_these_matrix_loads", "stores"),
    [
        ("v1_global", (0, 0), 0, (0, 0)),
        ("v2_shared_memory", (20, 8), 16, (16, 4)),
        ("v3_padded", (12, 0), 8, (24, 12)),
        ("v4_ldmatrix", (20, 8), 16, (16, 4)),
        ("v5_swizzle", (12, 0), 8, (12, 0)),
    ],
)
def test_counters_equal_what_the_profiler_counted_on_hardware(kernel, loads, of_these_matrix_loads, stores, arch):
    """Wavefronts and, in brackets, conflicts, as profiled on an H200; readings of an RTX 4060 Ti agree."""
    result = run(load_trace(kernel, arch=arch), load_arch(arch))
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
    counters = result.counters
    assert (counters[f"{wavefronts}_ld.sum"], counters[f"{conflicts}_ld.sum"]) == loads
    assert (counters[f"{wavefronts}_st.sum"], counters[f"{conflicts}_st.sum"]) == stores
    assert counters["sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"] == of_these_matrix_loads
    assert result.shared_memory[Row.LOAD_MATRIX].wavefronts == of_these_matrix_loads
    assert counters["sm__inst_executed_pipe_tensor_op_hmma.sum"] == 2


@pytest.mark.parametrize("name", resources.names("traces"))
def test_every_shipped_trace_loads_by_its_name(name):
    trace = load_trace(name)
    assert trace.file == f"traces/{name}.yaml"
    assert trace.name == Path(name).name
    assert trace.about
    assert trace.executed_instructions >= len(trace.warps)
    assert any(len(w.rows) for w in trace.warps)
    assert trace.has_control_words


@pytest.mark.parametrize("kernel", ["v1_global", "v2_shared_memory", "v3_padded", "v4_ldmatrix", "v5_swizzle"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_the_five_versions_are_there_for_both_architectures(kernel, arch):
    trace = load_trace(kernel, arch=arch)
    assert (trace.name, trace.arch) == (kernel, arch)
    assert trace.has_control_words
    assert trace.launch.warps_per_cta * trace.launch.ctas == len(trace.warps) == 1
    assert trace.warps[0].path.tolist() == list(range(len(trace.code)))


def test_a_name_alone_means_the_plain_trace():
    assert load_trace("v5_swizzle").arch == "sm_89"
    assert load_trace("v5_swizzle", arch="sm_80").arch == "sm_80"
    assert load_trace("v5_swizzle", arch="sm_90").arch == "sm_89"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("sm_80/v5_swizzle", "traces/sm_80/v5_swizzle.yaml"),
        ("v5_swizzle.yaml", "traces/v5_swizzle.yaml"),
        ("traces/v5_swizzle.yaml", "traces/v5_swizzle.yaml"),
        ("traces/sm_80/v5_swizzle", "traces/sm_80/v5_swizzle.yaml"),
    ],
)
def test_a_shipped_trace_is_found_from_any_folder(tmp_path, monkeypatch, name, label):
    monkeypatch.chdir(tmp_path)
    assert load_trace(name).file == label


def test_the_architecture_chooses_under_a_name_with_its_ending_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_trace("traces/v5_swizzle.yaml", arch="sm_80").arch == "sm_80"


def test_a_path_is_read_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_bytes((TRACES / "v3_padded.yaml").read_bytes())
    Path("v5_swizzle.yaml").write_bytes((TRACES / "v3_padded.yaml").read_bytes())
    Path("no_ending").write_bytes((TRACES / "v3_padded.yaml").read_bytes())
    for path in ("mine.yaml", tmp_path / "mine.yaml", "v5_swizzle.yaml", "no_ending"):
        trace = load_trace(path)
        assert trace.name == "v3_padded"
        assert trace.file == str(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v5_swizle", "v5_swizle: no trace of that name"),
        (
            "v5_swizle.yaml",
            "v5_swizle.yaml: no such file",
        ),
        (
            "../v5_swizzle",
            "../v5_swizzle: no such file",
        ),
        (
            "no/such.yml",
            "no/such.yml: no such file",
        ),
    ],
)
def test_a_trace_that_is_not_there_is_refused(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    assert refusal(name) == message
    assert refusal(name, arch="sm_80") == message


def test_a_name_like_no_other_is_refused_with_the_command_that_lists_them():
    assert refusal("qqqq") == "qqqq: no trace of that name"


def addresses(trace, opcode: str) -> list[np.ndarray]:
    """What the instructions of an opcode were given, in order of execution."""
    warp = trace.warps[0]
    memory = [i for i in warp.path.tolist() if trace.code[i].accesses_memory]
    return [
        trace.addresses[row]
        for i, row in zip(memory, warp.rows.tolist(), strict=True)
        if trace.code[i].opcode == opcode
    ]


def swizzled(element: int) -> int:
    return 2 * (element ^ ((element >> 3) & 0b1000))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_the_swizzled_version_permutes_every_shared_index(arch):
    trace = load_trace("v5_swizzle", arch=arch)
    copies = [swizzled(8 * t) for t in range(32)]
    rows = [swizzled(16 * (t % 16) + 8 * (t // 16)) for t in range(32)]
    assert [a.tolist() for a in addresses(trace, "STS.128")] == [copies, [512 + a for a in copies]]
    assert [a.tolist() for a in addresses(trace, "LDSM.16.M88.4")] == [rows]
    assert [a.tolist() for a in addresses(trace, "LDSM.16.MT88.4")] == [[512 + a for a in rows]]
    assert [a.tolist() for a in addresses(trace, "LDS.128")] == [[1024 + a for a in copies]]
    stored = {int(a) for row in addresses(trace, "STS") for a in row}
    assert stored == set(range(1024, 1536, 4))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
@pytest.mark.parametrize(("kernel", "row_bytes"), [("v2_shared_memory", 32), ("v3_padded", 48), ("v4_ldmatrix", 32)])
def test_matrix_rows_start_where_the_version_puts_them(kernel, row_bytes, arch):
    trace = load_trace(kernel, arch=arch)
    rows = [row_bytes * (t % 16) + 16 * (t // 16) for t in range(32)]
    assert [a.tolist() for a in addresses(trace, "LDSM.16.M88.4")] == [rows]
    stored = [a for row in addresses(trace, "STS.128") for a in row.tolist()]
    read = {a for name in ("LDSM.16.M88.4", "LDSM.16.MT88.4") for row in addresses(trace, name) for a in row.tolist()}
    assert read == set(stored)
    assert len(stored) == 64


@pytest.mark.parametrize("kernel", ["v1_global", "v2_shared_memory", "v3_padded", "v4_ldmatrix", "v5_swizzle"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_each_kernel_reads_and_writes_whole_matrices(kernel, arch):
    trace = load_trace(kernel, arch=arch)
    bases = [0x7F0000000000 + k * 0x200000 for k in range(3)]
    touched = {base: set() for base in bases}
    for opcode, width in (("LDG.E", 4), ("STG.E", 4), ("LDG.E.128", 16), ("STG.E.128", 16)):
        for row in addresses(trace, opcode):
            for address in row.tolist():
                touched[address & ~0x1FFFFF].update(range(address, address + width))
    for base, touched_bytes in touched.items():
        assert touched_bytes == set(range(base, base + 512))


def test_a_name_that_the_system_takes_for_too_long_is_no_file():
    assert "no trace of that name" in refusal("9" * 5000)
    assert "no such file" in refusal("9" * 5000 + ".yaml")
