"""Lines that LLVM adds in inline assembly, from PTX without its directives and comments, as it is in a cubin."""

from __future__ import annotations

import pytest

from gpuemu.sass.image.inline_assembly import added_lines

KERNEL = """
.version 9.4
.target sm_90a
.visible .entry add(
.param .u64 add_param_0
)
{
.reg .b32 \t%r<11>;

ld.param.b64 \t%rd3, [add_param_0];
"""
HEADER = "\n" * 3
"""The rest of LLVM's comment."""


def added(body: str, header: str = HEADER) -> dict[str, int]:
    """Statement → the lines that LLVM added to its source line. `!` stands for a directive or a comment."""
    text = ["" if line == "!" else line for line in (header + KERNEL + body).split("\n")]
    found = added_lines("\0".join(text).encode())
    return {text[line - 1]: more for line, more in found.items()}


LOAD = """!
!
!
mov.u32 %r1, 0x0;
!
mov.u32 %r2, 0x0;
!
ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];

!
add.f32 \t%r3, %r1, %r1;
!
add.f32 \t%r4, %r2, %r2;
"""


def test_the_statements_of_a_load_and_what_has_its_directive() -> None:
    found = added(LOAD)
    load, first = "ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];", "add.f32 \t%r3, %r1, %r1;"
    assert found == {"mov.u32 %r2, 0x0;": 1, load: 2, first: 2}


def test_two_loads_are_apart() -> None:
    found = added(
        LOAD[: LOAD.index("add")] + "!\n!\nmov.u32 %r5, 0x0;\n!\nld.global.b32 { %r5 }, [ %rd2 + 0 ];\n\n!\n!\nret;\n"
    )
    assert {line.split()[0]: more for line, more in found.items()} == {
        "mov.u32": 1, "ld.global.v2.b32": 2, "ld.global.b32": 1,
    }  # fmt: skip


def test_a_predicated_statement_has_no_directive_of_its_own() -> None:
    assert added("!\n!\n!\nmov.u32 %r2, %r1;\n@%p1 ld.global.b32 { %r2 }, [ %rd1 + 0 ];\n\n!\n") == {}


def test_a_loop_that_waits_begins_with_an_empty_line() -> None:
    body = (
        "!\n!\n\n{\n.reg .pred complete;\n!\nwaitLoop:\n!\nmbarrier.try_wait.parity.shared.b64 complete, [%r7], %r8;\n"
    )
    found = added(body + "@!complete bra.uni waitLoop;\n}\n\n\n!\nadd.s32 \t%r2, %r7, 1;\n")
    assert {line.split()[0]: more for line, more in found.items()} == {
        "waitLoop:": 3, "mbarrier.try_wait.parity.shared.b64": 4, "@!complete": 4, "}": 4, "add.s32": 4,
    }  # fmt: skip


def test_a_wait_for_products_has_a_comment_before_it() -> None:
    found = added("mov.b32 \t%r5, %r6;\n!\n!\n!\nwgmma.wait_group.sync.aligned 0;\n\n!\n!\nadd.f32 \t%r1, %r1, %r5;\n")
    assert found == {"wgmma.wait_group.sync.aligned 0;": 1}


def test_a_scope_on_one_line_with_its_first_statement_below() -> None:
    found = added(
        "mov.b16 \t%rs1, %rs2;\n!\n{\n!\ncvt.rn.f16x2.e4m3x2 %r3, %rs1;\n}\n\n!\nmov.b32 \t%r4, %r3;\n!\nret;\n"
    )
    assert {line.split()[0]: more for line, more in found.items()} == {"cvt.rn.f16x2.e4m3x2": 1, "}": 1, "mov.b32": 1}


@pytest.mark.parametrize(
    "body",
    [
        "!\n!\nmov.u32 %r1, 0x0;\nmov.u32 %r2, 0x0;\nld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];\n\n!\nret;\n",
        "!\nmul.f32 \t%r1, %r2, %r3;\n!\nadd.f32 \t%r1, %r1, %r3;\n!\nst.shared.b32 \t[%r5], %r1;\n",
        "!\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [%r4];\n!\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5}, [%r6];\n",
        "!\n!\ncp.async.cg.shared.global [ %r9 + 0 ], [ %rd4 + 0 ], 0x10, %r1;\n\n!\ncp.async.commit_group;\n",
    ],
    ids=["an earlier LLVM", "statements of LLVM", "statements of LLVM without tabs", "a statement without operands"],
)  # fmt: skip
def test_nothing_is_added_here(body: str) -> None:
    assert added(body) == {}


def test_nvidias_compiler_adds_nothing() -> None:
    assert added(LOAD, header="\n" * 8) == {}
