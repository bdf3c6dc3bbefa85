"""The frame around a sequence, and the kernel that is its container.

Two passes, the second of which counts, its code by then in the caches; every warp stores its two clocks, and between
them those that the body reads itself (`CS2R.32 R7, SR_CLOCKLO`), each in a register of its own:

    setup; for (pass = 0; pass < 2; ++pass) { barrier; before; t0 = clock; BODY; t1 = clock; barrier }

The container is compiled and its code then replaced. The frame keeps registers R112 to R117, UR40, UR41 and P6 to
itself; c[0x0][0x218] holds the address of input words. The body begins on a line of code (128 bytes).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.sass.tools.disassembly import disassemble, load_cubin
from gpuemu.sass.tools.toolchain import compile_cuda
from gpuemu.trace.listing import INSTRUCTION_BYTES, parse_listing
from gpuemu.trace.model import Instruction
from validation.sequences.assembler import assemble, is_branch, yields
from validation.sequences.files import Snippet
from validation.sequences.forms import ALL_SET, Forms, form_of, text_of
from validation.sequences.running import KERNEL, WORDS_PER_THREAD

ARCH = "sm_90"
REGISTERS = 120
_FREE = {"R": 112, "UR": 40, "P": 6, "!P": 6}
"""The first of each kind of register that the frame keeps."""
_VALUES = 112
"""Live at once in the container, so that the compiler gives it all registers that 512 threads leave a thread."""
_LINE_INSTRUCTIONS = 8

_START = f"""
[B------:R-:W0:-:S01] S2R R112, SR_TID.X
[B------:R-:W1:-:S01] LDC.64 R114, c[0x0][0x210]
[B------:R-:W-:-:S08] ULDC.64 UR40, c[0x0][0x208]
[B01----:R-:W-:Y:S15] IMAD.WIDE.U32 R114, R112, {4 * WORDS_PER_THREAD:#x}, R114
[B------:R-:W-:-:S08] MOV R113, RZ
"""
_NOTHING = "[B------:R-:W-:Y:S00] NOP\n"
_PASS = """
[B012345:R-:W-:Y:S15] NOP
[B------:R-:W-:-:S01] BAR.SYNC.DEFER_BLOCKING 0x0
"""
_FIRST_CLOCK = "[B------:R-:W-:-:S01] CS2R.32 R116, SR_CLOCKLO"
_LAST_CLOCK = """
[B------:R-:W-:-:S02] CS2R.32 R117, SR_CLOCKLO
[B------:R-:W-:-:S11] BAR.SYNC.DEFER_BLOCKING 0x0
[B012345:R-:W-:Y:S15] NOP
[B------:R-:W-:-:S08] VIADD R113, R113, 0x1
[B------:R-:W-:Y:S15] ISETP.GE.AND P6, PT, R113, 0x2, PT
"""
_AGAIN = "[B------:R-:W-:-:S05] @!P6 BRA -{back:#x}\n"
_STORE = "[B------:R0:W-:-:S02] STG.E desc[UR40][R114.64{offset}], {register}\n"
_EXIT = "[B0-----:R-:W-:-:S05] EXIT\n"

Code = tuple[Instruction, ...]


def framed(snippet: Snippet) -> Code:
    """The whole code of a kernel around the snippet."""
    start = _parts(_START) + snippet.setup
    again = _parts(_PASS) + snippet.before + _parts(_FIRST_CLOCK)
    start += _parts(_NOTHING * (-(len(start) + len(again)) % _LINE_INSTRUCTIONS))
    again += snippet.body + _parts(_LAST_CLOCK)
    clocks = ["R116", *clock_registers(snippet), "R117"]
    stores = [_STORE.format(offset=f"+{4 * i:#x}" if i else "", register=one) for i, one in enumerate(clocks)]
    end = _AGAIN.format(back=INSTRUCTION_BYTES * (len(again) + 1)) + "".join(stores) + _EXIT
    return start + again + _parts(end)


def clock_registers(snippet: Snippet) -> list[str]:
    """The registers into which the body reads the clock, in the order of its code."""
    return [one.operands[0] for one in snippet.body if one.opcode == "CS2R.32" and one.operands[-1] == "SR_CLOCKLO"]


def cubin_of(snippet: Snippet, forms: Forms, file: str, check: bool = True) -> bytes:
    """The cubin of a snippet from `file`; `check` has nvdisasm read it back. Raises GpuemuError."""
    _check_registers(snippet, file)
    code = framed(snippet)
    container = _container(-(-len(code) // 256) * 256)
    room = len(container[1]) // INSTRUCTION_BYTES - len(code)
    machine_code = assemble(code, forms, file) + assemble(_parts(_NOTHING), forms, file) * room
    content = container[0].replace(container[1], machine_code, 1)
    if check:
        _read_back(content, code, file)
    return content


def _check_registers(snippet: Snippet, file: str) -> None:
    """Refuse the frame's registers, and what a thread does not have."""
    problems = []
    for instruction in snippet.setup + snippet.before + snippet.body:
        _, operands = form_of(f"{instruction.guard.removeprefix('@')} {text_of(instruction)}")
        if any(kind in _FREE and _FREE[kind] <= number < ALL_SET[kind] for kind, number in operands):
            right = "Use registers below R112, UR40 and P6: the others belong to the frame"
            problems.append(Problem(file, instruction.line, "code", f"'{instruction}'", right))
    clocks = clock_registers(snippet)
    if len(set(clocks)) < len(clocks):
        twice = next(one for one in clocks if clocks.count(one) > 1)
        right = "Read each clock into a register of its own"
        problems.append(Problem(file, snippet.body[0].line, "code", f"two clocks read into {twice}", right))
    if problems:
        raise GpuemuError(problems)


def _read_back(content: bytes, code: Code, file: str) -> None:
    """Refuse what nvdisasm reads otherwise than it was written: a form was learnt wrong, or an operand does not fit."""
    cubin = load_cubin(content)
    for at, (written, found) in enumerate(zip(code, disassemble(cubin, cubin.kernel(KERNEL)), strict=False)):
        if _in_place(written, at) != _in_place(found, at) or not _same_control(written, found):
            right = "nvdisasm must read back the same instruction"
            raise GpuemuError.one(file, written.line, "code", f"'{written}', written as '{found}'", right)


def _in_place(instruction: Instruction, at: int) -> str:
    """Guard and text, a branch's distance as the offset that it goes to."""
    text = text_of(instruction)
    if is_branch(instruction) and instruction.operands[0][0] in "+-":
        text = f"{instruction.opcode} {INSTRUCTION_BYTES * (at + 1) + int(instruction.operands[0], 16):#x}"
    return f"{instruction.guard} {text}"


def _same_control(written: Instruction, found: Instruction) -> bool:
    assert written.control is not None
    assert found.control is not None
    return str(written.control).replace(":-:S", ":Y:S") == str(found.control).replace(":-:S", ":Y:S") and (
        yields(written.control) == found.control.yields
    )


@lru_cache(maxsize=64)
def _parts(listing: str) -> Code:
    return parse_listing(listing, "frame", None)


def container_source(instructions: int) -> str:
    """CUDA C++ of a kernel with at least so many instructions, a barrier and dynamic shared memory."""
    return f"""\
extern "C" __global__ void __launch_bounds__(512, 1) {KERNEL}(unsigned *out, const unsigned *in, int n)
{{
    extern __shared__ unsigned shared[];
    unsigned x[{_VALUES}];
    shared[threadIdx.x] = n;
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < {_VALUES}; ++i) x[i] = in[i + threadIdx.x];
    for (int j = 0; j < n; ++j) {{
        #pragma unroll
        for (int i = 0; i < {instructions}; ++i)
            x[i % {_VALUES}] = x[i % {_VALUES}] * x[(7 * i + 3) % {_VALUES}] + x[(13 * i + 5) % {_VALUES}];
    }}
    #pragma unroll
    for (int i = 0; i < {_VALUES}; ++i) out[512 * i + threadIdx.x] = x[i] + shared[x[i] & 511];
}}
"""


@lru_cache(maxsize=8)
def _container(instructions: int) -> tuple[bytes, bytes]:
    """A compiled kernel with room for so many instructions, and the code in it that is to be replaced."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{KERNEL}.cu"
        source.write_text(container_source(instructions))
        content = compile_cuda(source, ARCH)
    kernel = load_cubin(content).kernel(KERNEL)
    if kernel.registers_per_thread < REGISTERS or content.count(kernel.machine_code) != 1:
        found = f"a container with {kernel.registers_per_thread} registers a thread"
        raise GpuemuError.one(f"{KERNEL}.cu", None, "", found, f"Use a compiler that gives it {REGISTERS}")
    return content, kernel.machine_code


def build_all(
    snippets: Sequence[Snippet], forms: Forms, file: str, progress: Callable[[int, int], None] | None = None
) -> list[bytes]:
    """The cubin of each snippet; of those that begin alike only the longest is read back."""
    cubins = []
    for one in snippets:
        cubins.append(cubin_of(one, forms, file, check=one.whole))
        if progress is not None:
            progress(len(cubins), len(snippets))
    return cubins
