import pytest

from gpuemu import load_trace
from gpuemu.base import resources
from gpuemu.isa.registers import source_words, written_and_read
from gpuemu.trace.listing import parse_listing

TRACES = resources.names("traces")


def named(register: int) -> str:
    for base, prefix in ((700, "UP"), (400, "UR"), (300, "P"), (0, "R")):
        if register >= base:
            return f"{prefix}{register - base}"
    raise AssertionError(register)


def read_and_write(sass: str) -> tuple[str, str]:
    """What is written and what is read, as names in order."""
    (instruction,) = parse_listing(sass, "t", None)
    written, read = written_and_read(instruction.opcode, instruction.operands, instruction.guard)
    return " ".join(map(named, written)), " ".join(map(named, read))


@pytest.mark.parametrize(
    ("sass", "written", "read"),
    [
        # Widths of loads, stores and atomics.
        ("LDS R4, [R2]", "R4", "R2"),
        ("LDS.U8 R4, [R2]", "R4", "R2"),
        ("LDS.64 R4, [R2+0x10]", "R4 R5", "R2"),
        ("LDG.E.ENL2.256 R8, R4, desc[UR4][R2.64]", "R8 R9 R10 R11 R4 R5 R6 R7", "UR4 UR5 R2 R3"),
        ("STG.E.ENL2.256 desc[UR4][R2.64], R8, R4", "", "UR4 UR5 R2 R3 R8 R9 R10 R11 R4 R5 R6 R7"),
        ("LDS.128 R4, [R2+UR5+0x1000]", "R4 R5 R6 R7", "R2 UR5"),
        ("LDS R8, [R2.X4+0x600]", "R8", "R2"),
        ("LDSM.16.M88 R39, [R8]", "R39", "R8"),
        ("LDSM.16.M88.2 R8, [R51]", "R8 R9", "R51"),
        ("LDSM.16.MT88.4 R16, [R22+0x200]", "R16 R17 R18 R19", "R22"),
        ("STS [R2], R4", "", "R2 R4"),
        ("STS [R2], RZ", "", "R2"),
        ("STS.64 [R10+UR5], R8.reuse", "", "R10 UR5 R8 R9"),
        ("STS.128 [R20+0x200], R8", "", "R20 R8 R9 R10 R11"),
        ("STSM.16.M88.4 [R2], R4", "", "R2 R4 R5 R6 R7"),
        ("STSM.16.M88.2 [R2], R4", "", "R2 R4 R5"),
        ("ATOMS.ADD R5, [R2], R3", "R5", "R2 R3"),
        ("ATOMS.ADD RZ, [R2], R3", "", "R2 R3"),
        ("ATOMS.CAS.64 R4, [R0], R6, R8", "R4 R5", "R0 R6 R7 R8 R9"),
        ("ATOMS.POPC.INC.32 RZ, [R2+URZ]", "", "R2"),
        ("LDG.E R0, [R10.64]", "R0", "R10 R11"),
        ("LDG.E.128 R4, [R4.64+0x100]", "R4 R5 R6 R7", "R4 R5"),
        ("LDG.E.64 R6, desc[UR6][R2.64+0x80]", "R6 R7", "UR6 UR7 R2 R3"),
        ("STG.E.128 [R2.64], R20", "", "R2 R3 R20 R21 R22 R23"),
        ("STG.E desc[UR6][R2.64], R29", "", "UR6 UR7 R2 R3 R29"),
        ("STG.E.U8 [R2.64], R29", "", "R2 R3 R29"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R5, [R2.64], R7", "R5", "R2 R3 R7"),
        ("RED.E.ADD.STRONG.GPU [R2.64], R5", "", "R2 R3 R5"),
        ("LDGSTS.E.BYPASS.128 [R5], [R2.64], !P0", "", "R5 R2 R3 P0"),
        ("LDC.64 R2, c[0x0][0x210]", "R2 R3", ""),
        ("LDC R2, c[0x0][R4+0x10]", "R2", "R4"),
        ("ULDC.64 UR4, c[0x0][0x118]", "UR4 UR5", ""),
        # Matrix products.
        ("HGMMA.64x8x16.F32 R24, gdesc[UR8], RZ, !UPT", "R24 R25 R26 R27", "UR8 UR9 UR10 UR11"),
        (
            "HGMMA.64x8x16.F16 R24, R40, gdesc[UR8].tnspB, R24, gsb0",
            "R24 R25",
            "R40 R41 R42 R43 UR8 UR9 UR10 UR11 R24 R25",
        ),
        ("IGMMA.64x8x32.S8.S8 R4, gdesc[UR4], R4, UP0, gsb0", "R4 R5 R6 R7", "UR4 UR5 UR6 UR7 R4 R5 R6 R7 UP0"),
        ("HMMA.16816.F32 R4, R8.reuse, R12, R4", "R4 R5 R6 R7", "R8 R9 R10 R11 R12 R13 R4 R5 R6 R7"),
        ("HMMA.16816.F16 R16, R12.reuse, R16, RZ", "R16 R17", "R12 R13 R14 R15 R16 R17"),
        (
            "HMMA.16816.F32.BF16 R20, R4, R2, R20",
            "R20 R21 R22 R23",
            "R4 R5 R6 R7 R2 R3 R20 R21 R22 R23",
        ),
        ("HMMA.1688.F32 R8, R6, R13, R8", "R8 R9 R10 R11", "R6 R7 R13 R8 R9 R10 R11"),
        ("HMMA.1688.F16 R4, R2, R13, R4", "R4 R5", "R2 R3 R13 R4 R5"),
        ("HMMA.1688.F32.TF32 R20, R4, R2, RZ", "R20 R21 R22 R23", "R4 R5 R6 R7 R2 R3"),
        ("HMMA.1684.F32.TF32 R20, R4, R2, RZ", "R20 R21 R22 R23", "R4 R5 R2"),
        ("IMMA.16832.S8.S8 R20, R4.ROW, R2.COL, RZ", "R20 R21 R22 R23", "R4 R5 R6 R7 R2 R3"),
        ("QMMA.16832.F16.E4M3.E4M3 R20, R4, R2, R8", "R20 R21", "R4 R5 R6 R7 R2 R3 R8 R9"),
        ("QMMA.16832.F16.E3M2.E2M1 R20, R4, R2, R8", "R20 R21", "R4 R5 R6 R7 R2 R3 R8 R9"),
        (
            "OMMA.SF.16864.F32.E2M1.E2M1.E8 R20, R4, R2, R8, R30, R31, UR6",
            "R20 R21 R22 R23",
            "R4 R5 R6 R7 R2 R3 R8 R9 R10 R11 R30 R31 UR6",
        ),
        (
            "QMMA.SF.SP.16864.F32.E4M3.E4M3.E8 R20, R4, R12, R8, R30, R36, UR6, 0x0",
            "R20 R21 R22 R23",
            "R4 R5 R6 R7 R12 R13 R14 R15 R8 R9 R10 R11 R30 R31 R36 UR6",
        ),
        ("HMMA.SP.16816.F32 R20, R4, R8, R12, R16, 0x1", "R20 R21 R22 R23", "R4 R5 R8 R9 R12 R13 R14 R15 R16"),
        ("HMMA.SP.16832.F16 R20, R4, R8, RZ, R16, 0x1", "R20 R21", "R4 R5 R6 R7 R8 R9 R10 R11 R16"),
        ("IMMA.SP.16864.S8.S8 R20, R4.ROW, R8.COL, RZ, R16, 0x0", "R20 R21 R22 R23", "R4 R5 R6 R7 R8 R9 R10 R11 R16"),
        ("IMMA.SP.16864.S4.S4 R20, R4.ROW, R8.COL, RZ, R16, 0x0", "R20 R21 R22 R23", "R4 R5 R8 R9 R16"),
        ("IMMA.16816.S8.S8 R20, R4.ROW, R2.COL, RZ", "R20 R21 R22 R23", "R4 R5 R2"),
        ("IMMA.16864.S4.S4 R20, R4.ROW, R2.COL, RZ", "R20 R21 R22 R23", "R4 R5 R6 R7 R2 R3"),
        # Integers.
        ("IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]", "R1", ""),
        ("IMAD R13, R13, 0x3, R14", "R13", "R13 R14"),
        ("IMAD.WIDE R4, R3, R0, c[0x0][0x160]", "R4 R5", "R3 R0"),
        ("IMAD.WIDE R8, R3.reuse, R0, R6", "R8 R9", "R3 R0 R6 R7"),
        ("IMAD.WIDE.U32 R2, P0, R5, R8, R2.reuse", "R2 R3 P0", "R5 R8 R2 R3"),
        ("IMAD.HI.U32 R5, R5, R7, R4", "R5", "R5 R7 R4"),
        ("IMAD.HI.U32 R9, R5, R7, R10", "R9", "R5 R7 R10 R11"),
        ("IMAD.X R3, RZ, RZ, UR5, P0", "R3", "UR5 P0"),
        ("UIMAD.WIDE.U32 UR4, UR6, UR7, UR8", "UR4 UR5", "UR6 UR7 UR8 UR9"),
        ("IADD3 R2, P0, P1, R6, UR4, -R7", "R2 P0 P1", "R6 UR4 R7"),
        ("IADD3.X R3, R5, ~R6, RZ, P0, !PT", "R3", "R5 R6 P0"),
        ("LEA R10, P0, R2, c[0x0][0x168], 0x2", "R10 P0", "R2"),
        ("LEA.HI.X R11, R2, UR5, R3, 0x2, P0", "R11", "R2 UR5 R3 P0"),
        ("LOP3.LUT R20, R3, 0x8, R2, 0x78, !PT", "R20", "R3 R2"),
        ("LOP3.LUT P0, RZ, R3, 0x8, RZ, 0xc0, !PT", "P0", "R3"),
        ("LOP3.LUT P2, R4, R3, R5, RZ, 0xc0, !P1", "P2 R4", "R3 R5 P1"),
        ("SEL R4, R5, R6, !P3", "R4", "R5 R6 P3"),
        ("CS2R R58, SRZ", "R58 R59", ""),
        ("CS2R.32 R29, SR_CLOCKLO", "R29", ""),
        ("S2R R11, SR_TID.X", "R11", ""),
        ("S2UR UR5, SR_CgaCtaId", "UR5", ""),
        ("R2UR UR4, R2", "UR4", "R2"),
        ("USHF.R.U32.HI UR4, URZ, 0x5, UR4", "UR4", "UR4"),
        # Predicates.
        ("ISETP.GE.AND P0, PT, R2, R3, PT", "P0", "R2 R3"),
        ("ISETP.GT.U32.AND P0, P1, R2.reuse, 0x1fff, P2", "P0 P1", "R2 P2"),
        ("FSETP.GT.AND P0, PT, |R2|, -R3, PT", "P0", "R2 R3"),
        ("HSETP2.GT.AND P0, PT, R2, R3, PT", "P0", "R2 R3"),
        ("DSETP.GT.AND P0, PT, R2, R4, P3", "P0", "R2 R3 R4 R5 P3"),
        ("UISETP.GE.AND UP0, UPT, UR4, UR5, UPT", "UP0", "UR4 UR5"),
        ("PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x0", "P0", "P1 P2"),
        ("PLOP3.LUT P0, P3, PT, PT, UP0, 0x80, 0x0", "P0 P3", "UP0"),
        ("FCHK P0, R2, R3", "P0", "R2 R3"),
        ("VOTE.ANY R0, PT, P0", "R0", "P0"),
        ("VOTE.ALL P1, P0", "P1", "P0"),
        ("VOTEU.ANY UP0, P2", "UP0", "P2"),
        ("VOTEU.ANY UR4, UPT, P2", "UR4", "P2"),
        ("P2R R2, PR, RZ, 0x7f", "R2", "P0 P1 P2 P3 P4 P5 P6"),
        ("R2P PR, R3, 0x7f", "P0 P1 P2 P3 P4 P5 P6", "R3"),
        ("SHFL.IDX PT, R24, R21, R22, 0x1f", "R24", "R21 R22"),
        ("SHFL.BFLY P1, R4, R5, 0x10, 0x1f", "P1 R4", "R5"),
        # Doubles and conversions.
        ("DFMA R2, R4, R6, -R8", "R2 R3", "R4 R5 R6 R7 R8 R9"),
        ("F2F.F64.F32 R2, R4", "R2 R3", "R4"),
        ("F2F.F32.F64 R2, R4", "R2", "R4 R5"),
        ("F2F.F16.F32 R2, R4", "R2", "R4"),
        ("I2F.F64 R2, R4", "R2 R3", "R4"),
        ("I2F.U64.RP R2, R4", "R2", "R4 R5"),
        ("F2I.FTZ.U32.TRUNC.NTZ R13, R12", "R13", "R12"),
        ("F2I.S64.F64.TRUNC R2, R4", "R2 R3", "R4 R5"),
        ("FRND.F64 R2, R4", "R2 R3", "R4 R5"),
        ("MUFU.RCP R14, R14", "R14", "R14"),
        ("HFMA2 R19, R16.H0_H0, R17.reuse, R19", "R19", "R16 R17 R19"),
        ("FFMA R36, R27, -R35, |R26|", "R36", "R27 R35 R26"),
        ("MOVM.16.MT88 R16, R0", "R16", "R0"),
        ("ELECT P0, UR4, PT", "P0 UR4", ""),
        ("IMMA.8816.S8.S8 R0, R8.ROW, R12.COL, R16", "R0 R1", "R8 R12 R16 R17"),
        ("BMMA.168256.AND.POPC R0, R8.ROW, R12.COL, RZ", "R0 R1 R2 R3", "R8 R9 R10 R11 R12 R13"),
        ("DMMA.884 R0, R8, R12, R16", "R0 R1 R2 R3", "R8 R9 R12 R13 R16 R17 R18 R19"),
        # Control flow.
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
        ("BAR.SYNC R2, R3", "", "R2 R3"),
        ("BRA 0x120", "", ""),
        ("BRX R2 -0x10", "", "R2"),
        ("JMX R2", "", "R2"),
        ("BRA.DIV UR4, `(.L_x_12)", "", "UR4"),
        ("BSSY B0, `(.L_R2)", "", ""),
        ("EXIT", "", ""),
        ("NOP", "", ""),
        ("DEPBAR.LE SB0, 0x1", "", ""),
        ("LDGDEPBAR", "", ""),
        # Guards.
        ("@P1 EXIT", "", "P1"),
        ("@!P0 IMAD.WIDE.U32 R2, R5, 0x4, R2", "R2 R3", "P0 R5 R2 R3"),
        ("@UP1 UIADD3 UR4, UR4, 0x1, URZ", "UR4", "UP1 UR4"),
        ("@!PT MOV R2, R3", "R2", "R3"),
    ],
)
def test_registers_written_and_read(sass, written, read):
    assert read_and_write(sass) == (written, read)


@pytest.mark.parametrize("trace", TRACES)
def test_constant_registers_never_appear(trace):
    known = {*range(255), *range(300, 307), *range(400, 655), *range(700, 707)}
    for instruction in load_trace(trace).code:
        written, read = written_and_read(instruction.opcode, instruction.operands, instruction.guard)
        assert {*written, *read} <= known
        assert len(set(written)) == len(written)
        assert len(set(read)) == len(read)


def test_an_instruction_of_constants_alone_touches_no_register():
    assert read_and_write("@PT IMAD RZ, RZ, URZ, RZ") == ("", "")
    assert read_and_write("ISETP.NE.AND PT, PT, RZ, RZ, PT") == ("", "")


@pytest.mark.parametrize(
    ("sass", "words"),
    [
        ("LDS R4, [R2]", 1),
        ("LDS.128 R4, [R2+UR5]", 1),
        ("LDS R4, [UR5]", 1),
        ("LDS R4, [RZ]", 1),
        ("LDSM.16.M88.4 R4, [R2]", 1),
        ("STS [R2], R4", 2),
        ("STS.64 [R2], R4", 3),
        ("STS.128 [R2+0x10], R4.reuse", 5),
        ("STS.128 [R2], RZ", 5),
        ("STS.U8 [R2], R4", 2),
        ("STSM.16.M88.4 [R2], R4", 5),
        ("STSM.16.M88 [R2], R4", 2),
        ("LDG.E.128 R4, [R2.64]", 2),
        ("LDG.E R4, desc[UR4][R2.64]", 2),
        ("STG.E [R2.64], R4", 3),
        ("STG.E.128 desc[UR4][R2.64], R4", 6),
        ("ATOMS.ADD R5, [R2], R3", 2),
        ("ATOMS.CAS.64 R4, [R0], R6, R8", 5),
        ("ATOMG.E.ADD.STRONG.GPU PT, R5, [R2.64], R7", 3),
        ("RED.E.ADD.STRONG.GPU [R2.64], R5", 3),
        ("LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64]", 3),
        ("SHFL.IDX PT, R24, R21, R22, 0x1f", 2),
        ("SHFL.BFLY PT, R4, R5, 0x10, 0x1f", 1),
        ("LDGDEPBAR", 1),
    ],
)
def test_registers_sent_to_the_load_store_unit(sass, words):
    (instruction,) = parse_listing(sass, "t", None)
    assert source_words(instruction.opcode, instruction.operands) == words
