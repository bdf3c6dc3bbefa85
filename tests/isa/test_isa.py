import re
from pathlib import Path

import pytest

from gpuemu.isa.opcodes import Kind, Operation, Row, UnknownOpcodeError, describe, reads_clock
from gpuemu.isa.table import TABLE as ROWS

TRACES = sorted((Path(__file__).parents[2] / "traces").rglob("*.yaml"))


def fixed(operation: str) -> Operation:
    return Operation(Kind.FIXED, operation)


def variable(operation: str) -> Operation:
    return Operation(Kind.VARIABLE, operation)


def tensor(mode: str) -> Operation:
    return Operation(Kind.FIXED, mode, tensor=True)


def shared(row: Row, bits: int, **more) -> Operation:
    return Operation(Kind.SHARED, "shared", row=row, width_bits=bits, **more)


TABLE = {
    "IADD3": fixed("integer"),
    "IADD3.X": fixed("integer"),
    "LOP3.LUT": fixed("integer"),
    "ISETP.GE.U32.AND": fixed("integer"),
    "PLOP3.LUT": fixed("integer"),
    "SHF.R.U32.HI": fixed("integer"),
    "LEA.HI.X": fixed("integer"),
    "SEL": fixed("integer"),
    "PRMT": fixed("integer"),
    "VOTE.ANY": fixed("integer"),
    "I2FP.F32.S32": fixed("integer"),
    "F2FP.BF16.PACK_AB": fixed("integer"),
    "VIMNMX": fixed("integer"),
    "FSETP.GT.AND": fixed("integer"),
    "FMNMX": fixed("integer"),
    "MOV": fixed("move"),
    "CS2R": fixed("move"),
    "CS2R.32": fixed("move"),
    "R2UR": fixed("move"),
    "FFMA": fixed("ffma"),
    "FADD.FTZ": fixed("ffma"),
    "FMUL": fixed("ffma"),
    "IMAD": fixed("imad"),
    "IMAD.MOV.U32": fixed("imad"),
    "IMAD.HI.U32": fixed("imad_wide"),
    "IMAD.WIDE": fixed("imad_wide"),
    "IMAD.WIDE.U32": fixed("imad_wide"),
    "HFMA2": fixed("half"),
    "HFMA2.MMA": fixed("half_mma"),
    "DFMA": fixed("fp64"),
    "ULDC.64": fixed("uniform_move"),
    "UIADD3": fixed("uniform"),
    "USHF.L.U32": fixed("uniform"),
    "UMOV": fixed("uniform_move"),
    "VIADD": fixed("imad"),
    "HADD2.F32": fixed("imad"),
    "HADD2": fixed("half"),
    "NOP": fixed("nop"),
    "MUFU.EX2": variable("mufu"),
    "F2F.F16.F32": variable("conversion"),
    "POPC": variable("conversion"),
    "S2R": variable("special_register"),
    "S2UR": variable("uniform_special_register"),
    "REDUX.SUM.S32": variable("reduction"),
    "MATCH.ANY": variable("match"),
    "MOVM.16.MT88": variable("matrix_move"),
    "LDC.64": variable("constant_load"),
    "MEMBAR.SC.GPU": Operation(Kind.VARIABLE, "fences", unit="fences"),
    "HMMA.16816.F32": tensor("m16n8k16.f32.f16"),
    "HMMA.16816.F16": tensor("m16n8k16.f16.f16"),
    "HMMA.16816.F32.BF16": tensor("m16n8k16.f32.bf16"),
    "HGMMA.64x128x16.F32.BF16": Operation(Kind.PRODUCT, "m64n8k16.f32.bf16", warpgroup_columns=128, unit="warpgroup"),
    "HGMMA.64x8x8.F32.TF32": Operation(Kind.PRODUCT, "m64n8k8.f32.tf32", warpgroup_columns=8, unit="warpgroup"),
    "HGMMA.64x24x16.F16": Operation(Kind.PRODUCT, "m64n8k16.f16.f16", warpgroup_columns=24, unit="warpgroup"),
    "IGMMA.64x256x32.S8.U8.SAT": Operation(Kind.PRODUCT, "m64n8k32.s32.s8", warpgroup_columns=256, unit="warpgroup"),
    "WARPGROUP.ARRIVE": Operation(Kind.PRODUCT_WAIT, "nop"),
    "WARPGROUP.DEPBAR.LE": Operation(Kind.PRODUCT_WAIT, "nop"),
    "HMMA.1688.F32": tensor("m16n8k8.f32.f16"),
    "HMMA.1688.F16": tensor("m16n8k8.f16.f16"),
    "HMMA.1688.F32.BF16": tensor("m16n8k8.f32.bf16"),
    "HMMA.1688.F32.TF32": tensor("m16n8k8.f32.tf32"),
    "HMMA.1684.F32.TF32": tensor("m16n8k4.f32.tf32"),
    "IMMA.16832.S8.S8": tensor("m16n8k32.s32.s8"),
    "IMMA.16816.U8.S8.SAT": tensor("m16n8k16.s32.s8"),
    "IMMA.8816.S8.U8": tensor("m8n8k16.s32.s8"),
    "IMMA.8832.S4.S4": tensor("m8n8k32.s32.s4"),
    "IMMA.16832.U4.S4": tensor("m16n8k32.s32.s4"),
    "IMMA.16864.S4.S4.SAT": tensor("m16n8k64.s32.s4"),
    "BMMA.168256.AND.POPC": tensor("m16n8k256.s32.b1"),
    "DMMA.884": tensor("m8n8k4.f64.f64"),
    "DMMA.16x8x8": tensor("m16n8k8.f64.f64"),
    "ELECT": fixed("uniform"),
    "LDS": shared(Row.LOAD, 32),
    "LDS.64": shared(Row.LOAD, 64),
    "LDS.128": shared(Row.LOAD, 128),
    "LDS.U8": shared(Row.LOAD, 8),
    "LDS.S16": shared(Row.LOAD, 16),
    "LDS.U.128": shared(Row.LOAD, 128),
    "STS": shared(Row.STORE, 32, store=True),
    "STS.U16": shared(Row.STORE, 16, store=True),
    "STS.128": shared(Row.STORE, 128, store=True),
    "LDSM.16.M88": shared(Row.LOAD_MATRIX, 32, matrices=1),
    "LDSM.16.M88.2": shared(Row.LOAD_MATRIX, 32, matrices=2),
    "LDSM.16.MT88.4": shared(Row.LOAD_MATRIX, 32, matrices=4),
    "STSM.16.M88.4": shared(Row.STORE_MATRIX, 32, matrices=4, store=True),
    "ATOMS.ADD": shared(Row.ATOMIC, 32, atomic=True),
    "ATOMS.POPC.INC.32": shared(Row.ATOMIC, 32, atomic=True),
    "ATOMS.CAS.64": shared(Row.ATOMIC, 64, atomic=True),
    "LDGSTS.E.BYPASS.128": Operation(Kind.GLOBAL, "copy", row=Row.COPY, width_bits=128, store=True),
    "LDGSTS.E.BYPASS.LTC128B.64": Operation(Kind.GLOBAL, "copy", row=Row.COPY, width_bits=64, store=True),
    "LDG.E": Operation(Kind.GLOBAL, "load", width_bits=32, cached=True),
    "LDG.E.STRONG.GPU": Operation(Kind.GLOBAL, "load", width_bits=32),
    "LDG.E.STRONG.SM": Operation(Kind.GLOBAL, "load", width_bits=32, cached=True),
    "LDG.E.128.CONSTANT": Operation(Kind.GLOBAL, "load", width_bits=128, cached=True),
    "LDG.E.U16": Operation(Kind.GLOBAL, "load", width_bits=16, cached=True),
    "STG.E.64": Operation(Kind.GLOBAL, "store", width_bits=64, store=True),
    "LDL": Operation(Kind.GLOBAL, "load", width_bits=32, cached=True, local=True),
    "STL.128": Operation(Kind.GLOBAL, "store", width_bits=128, store=True, local=True),
    "ATOMG.E.ADD.STRONG.GPU": Operation(Kind.GLOBAL, "atomic", width_bits=32, atomic=True),
    "RED.E.ADD.F32.FTZ.RN.STRONG.GPU": Operation(Kind.GLOBAL, "reduction", width_bits=32, store=True, atomic=True),
    "SHFL.IDX": Operation(Kind.SHUFFLE, "shuffle", width_bits=32),
    "BAR.SYNC.DEFER_BLOCKING": Operation(Kind.BARRIER, "barrier"),
    "BAR.ARV": Operation(Kind.BARRIER, "barrier"),
    "BRA": Operation(Kind.BRANCH, "branch"),
    "BSSY": Operation(Kind.BRANCH, "branch"),
    "WARPSYNC": Operation(Kind.BRANCH, "branch"),
    "WARPSYNC.COLLECTIVE": Operation(Kind.BRANCH, "branch"),
    "ENDCOLLECTIVE": Operation(Kind.BRANCH, "branch"),
    "EXIT": Operation(Kind.EXIT, "branch"),
    "DEPBAR.LE": Operation(Kind.COUNTER_WAIT, "nop"),
    "LDGDEPBAR": Operation(Kind.COPY_COMMIT, "commit"),
}


TABLE |= {
    "HMMA.SP.16832.F32": Operation(Kind.FIXED, "m16n8k16.f32.f16", tensor=True),
    "HMMA.SP.16816.F16": Operation(Kind.FIXED, "m16n8k8.f16.f16", tensor=True),
    "HMMA.SP.16816.F32.TF32": Operation(Kind.FIXED, "m16n8k8.f32.tf32", tensor=True),
    "HMMA.SP.1688.F32.TF32": Operation(Kind.FIXED, "m16n8k4.f32.tf32", tensor=True),
    "IMMA.SP.16864.S8.S8": Operation(Kind.FIXED, "m16n8k32.s32.s8", tensor=True),
    "IMMA.SP.168128.U4.S4": Operation(Kind.FIXED, "m16n8k64.s32.s4", tensor=True),
    "QMMA.16832.F32.E4M3.E4M3": Operation(Kind.FIXED, "m16n8k32.f32.f8", tensor=True),
    "QMMA.16832.F16.E4M3.E2M1": Operation(Kind.FIXED, "m16n8k32.f16.f6", tensor=True),
    "QMMA.SP.16864.F32.E3M2.E2M3": Operation(Kind.FIXED, "m16n8k32.f32.f6", tensor=True),
    "QMMA.SF.16832.F32.E4M3.E5M2.E8": Operation(Kind.FIXED, "m16n8k32.f32.mxf8", tensor=True),
    "QMMA.SF.SP.16864.F32.E4M3.E2M1.E8": Operation(Kind.FIXED, "m16n8k32.f32.mxf6", tensor=True),
    "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X": Operation(Kind.FIXED, "m16n8k64.f32.mxf4", tensor=True),
    "OMMA.SF.SP.168128.F32.E2M1.E2M1.E8": Operation(Kind.FIXED, "m16n8k64.f32.mxf4", tensor=True),
    "QGMMA.64x128x32.F32.E4M3.E5M2": Operation(
        Kind.PRODUCT, "m64n8k32.s32.s8", warpgroup_columns=128, unit="warpgroup"
    ),
    "UCGABAR_WAIT": Operation(Kind.BARRIER, "barrier"),
    "UTMALDG.2D": Operation(Kind.ASYNCHRONOUS, "copy_engine", has_events=True, unit="copy_engine"),
    "UBLKCP.S.G": Operation(Kind.ASYNCHRONOUS, "copy_engine", has_events=True, unit="copy_engine"),
    "USETMAXREG.TRY_ALLOC.CTAPOOL": Operation(Kind.VARIABLE, "registers", unit="registers"),
}
"""Sparse products and those of 8-bit floats have the time of others; bulk copies only that of their issue."""


@pytest.mark.parametrize("opcode", TABLE)
def test_an_opcode_is_described_with_its_unit_width_and_profiler_row(opcode):
    assert describe(opcode) == TABLE[opcode]


@pytest.mark.parametrize(
    "mnemonic", sorted(set(ROWS) - {"HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA"})
)
def test_every_known_mnemonic_is_described(mnemonic):
    operation = describe(mnemonic)
    assert operation.operation
    assert (operation.width_bits > 0) == (operation.kind in (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE))
    assert (operation.row is not None) == (operation.kind is Kind.SHARED or mnemonic == "LDGSTS")


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_opcode_of_the_shipped_machine_code_is_known(trace):
    opcodes = re.findall(r"^  [0-9a-f]{4}: \[[^]]*\] (?:@!?U?P\d )?([A-Z][\w.]*)", trace.read_text(), re.MULTILINE)
    assert len(opcodes) >= 15
    assert [describe(opcode).operation for opcode in opcodes]


@pytest.mark.parametrize(
    ("opcode", "found", "right"),
    [
        ("LDSX.64", "unknown instruction 'LDSX.64'", "Did you mean 'LDS'?"),
        ("MOOV", "unknown instruction 'MOOV'", "Did you mean 'MOV'?"),
        ("iadd3.x", "unknown instruction 'iadd3.x'", "Did you mean 'IADD3'?"),
        (
            "FROBNICATE",
            "unknown instruction 'FROBNICATE'",
            "gpuemu/isa/table.py has the known instructions",
        ),
        ("", "unknown instruction ''", "gpuemu/isa/table.py has the known instructions"),
        (
            "LDTRAM",
            "the model leaves out 'LDTRAM'",
            "gpuemu/isa/table.py has the known instructions",
        ),
        ("HMMA.884.F32", "'HMMA.884.F32'", "expected one of the shapes 16816, 1688, 1684 for HMMA"),
        (
            "IMMA.8864.S4.S4",
            "'IMMA.8864.S4.S4'",
            "expected one of the shapes 16832, 16816, 8816, 8832, 16864 for IMMA",
        ),
        ("IMMA.16832.S2.S2", "'IMMA.16832.S2.S2'", "expected one of the inputs S8, U8, S4, U4 for IMMA"),
        (
            "HGMMA.SP.64x8x32.F32",
            "sparse instruction 'HGMMA.SP.64x8x32.F32'",
            "The model knows only the dense ones of this kind",
        ),
        ("IGMMA.S8.S8", "'IGMMA.S8.S8'", "expected a shape 64xNxK for IGMMA"),
        ("HMMA.SP.1688.F32", "'HMMA.SP.1688.F32'", "expected one of the shapes 16832, 16816 for HMMA"),
    ],
)
def test_an_opcode_that_the_model_lacks_is_refused_by_name(opcode, found, right):
    with pytest.raises(UnknownOpcodeError) as caught:
        describe(opcode)
    assert (caught.value.found, caught.value.right) == (found, right)
    assert str(caught.value).startswith(f"{found}; {right}")


@pytest.mark.parametrize(
    ("operands", "reads"),
    [
        ("R2, SR_CLOCKLO", True),
        ("R2, SR_CLOCKHI", True),
        ("R2, SR_CLOCK", True),
        ("R2, SR_TID.X", False),
        ("R2, SRZ", False),
        ("R2, SR_CLOCKWISE", False),
    ],
)
def test_a_clock_read_is_told_by_its_operands(operands, reads):
    assert reads_clock(operands) is reads
