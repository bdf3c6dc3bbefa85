"""The rows of step_cost.py: kinds of instructions, and what their registers hold."""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS, FLOATS, HALVES, DOUBLES, BRAINS = 16, 32, 48, 64, 72
"""First of the registers that hold whole numbers, float32, pairs of float16, float64, pairs of bfloat16."""
SHARED, WIDE_SHARED, ROWS, ATOMIC, GLOBAL = 2, 3, 4, 5, 6
"""Registers with addresses: 4 bytes a lane, 16 bytes a lane, rows of matrices, a few counters, global memory."""
METADATA = 21
"""Which two of four elements of a sparse matrix are there."""
FEW, LANE, FEW_GLOBAL = 20, 19, 22
"""Registers with one of four numbers, with the number of another lane, and with one of four addresses."""
A, B, C, END = 80, 144, 176, 240
"""First registers of the matrices, and the one behind them."""


@dataclass(frozen=True)
class Kind:
    """A row of the table.

    `text`: the instruction; {i} in it goes up by 16, {next} is the address behind it, {a}, {b} and {c} are matrices.
    `matrices`: what those hold. `counts`: their registers. `full`: whether all of shared memory has been written.
    """

    name: str
    text: str
    matrices: str = ""
    full: bool = True
    counts: tuple[int, int, int] = (4, 2, 4)
    arch: str = "sm_90"


NOTHING = Kind("a CTA that only exits", "")

KINDS = [
    Kind("IADD3", "IADD3 R8, R16, R17, R18"),
    Kind("IADD3 with carry", "IADD3 R8, P0, R16, R17, RZ"),
    Kind("IADD3.X", "IADD3.X R8, R16, R17, RZ, P0, !PT"),
    Kind("IMAD", "IMAD R8, R16, R17, R18"),
    Kind("IMAD.WIDE", "IMAD.WIDE R8, R16, 0x4, R18"),
    Kind("IMAD.HI.U32", "IMAD.HI.U32 R8, R16, R17, RZ"),
    Kind("LOP3.LUT", "LOP3.LUT R8, R16, R17, R18, 0x96, !PT"),
    Kind("SHF.R.U32.HI", "SHF.R.U32.HI R8, RZ, 0x5, R16"),
    Kind("LEA.HI", "LEA.HI R8, R16, R17, RZ, 0x3"),
    Kind("PRMT", "PRMT R8, R16, 0x5410, R17"),
    Kind("SEL", "SEL R8, R16, R17, P0"),
    Kind("IMNMX", "IMNMX R8, R16, R17, PT"),
    Kind("POPC", "POPC R8, R16"),
    Kind("FLO", "FLO.U32 R8, R16"),
    Kind("BMSK", "BMSK R8, R20, R19"),
    Kind("SGXT", "SGXT R8, R16, 0x7"),
    Kind("IDP.4A", "IDP.4A.S8.S8 R8, R16, R17, R18"),
    Kind("VABSDIFF", "VABSDIFF R8, R16, R17, R18"),
    Kind("LDC", "LDC R8, c[0x0][R5]"),
    Kind("MOV", "MOV R8, R16"),
    Kind("IADD3, guarded", "@P0 IADD3 R8, R16, R17, R18"),
    Kind("ISETP", "ISETP.GE.AND P1, PT, R16, R17, PT"),
    Kind("PLOP3", "PLOP3.LUT P1, PT, P0, P2, P3, 0x80, 0x0"),
    Kind("P2R", "P2R R8, PR, RZ, 0x7f"),
    Kind("R2P", "R2P PR, R16, 0x3"),
    Kind("UIADD3", "UIADD3 UR8, UR16, UR17, URZ"),
    Kind("ULOP3.LUT", "ULOP3.LUT UR8, UR16, UR17, URZ, 0xc0, !UPT"),
    Kind("UISETP", "UISETP.GE.AND UP1, UPT, UR16, UR17, UPT"),
    Kind("R2UR", "R2UR UR8, R16"),
    Kind("S2R", "S2R R8, SR_TID.X"),
    Kind("CS2R", "CS2R R8, SR_CLOCKLO"),
    Kind("LOP3.LUT, predicate", "LOP3.LUT P1, RZ, R16, R17, RZ, 0xc0, !PT"),
    Kind("IADD3, two carries", "IADD3 R8, P0, P1, R16, R17, R18"),
    Kind("IADD3.X, two carries", "IADD3.X R8, P0, P1, R16, R17, R18, P0, P1"),
    Kind("IMAD.X", "IMAD.X R8, R16, R17, R18, P0"),
    Kind("IMAD.WIDE.U32, carry", "IMAD.WIDE.U32 R8, P0, R16, R17, R18"),
    Kind("LEA.HI.X", "LEA.HI.X R8, R16, R17, R18, 0x3, P0"),
    Kind("IABS", "IABS R8, R16"),
    Kind("PRMT, selector in a register", "PRMT R8, R16, R20, R17"),
    Kind("PRMT, sign", "PRMT R8, R16, 0x9910, RZ"),
    Kind("SHF.L.U64.HI", "SHF.L.U64.HI R8, R16, R20, R17"),
    Kind("BREV", "BREV R8, R16"),
    Kind("VIMNMX", "VIMNMX R8, R16, R17, PT"),
    Kind("VIMNMX.S16x2", "VIMNMX.S16x2 R8, R16, R17, PT"),
    Kind("VIMNMX3", "VIMNMX3 R8, R16, R17, R18, PT"),
    Kind("VIADDMNMX", "VIADDMNMX R8, R16, R17, R18, PT"),
    Kind("VIADDMNMX.S16x2.RELU", "VIADDMNMX.S16x2.RELU R8, R16, R17, R18, PT"),
    Kind("IMNMX, predicate", "IMNMX R8, R16, R17, P0"),
    Kind("VABSDIFF4", "VABSDIFF4.U8.ACC R8, R16, R17, R18"),
    Kind("IDP.2A", "IDP.2A.LO.S16.S8 R8, R16, R17, R18"),
    Kind("ISETP.EX", "ISETP.GE.U32.AND.EX P1, PT, R16, R17, PT, P0"),
    Kind("R2P, all", "R2P PR, R16, 0x7f"),
    Kind("UIMAD", "UIMAD UR8, UR16, UR17, UR18"),
    Kind("UIMAD.WIDE", "UIMAD.WIDE UR8, UR16, UR17, UR18"),
    Kind("USHF", "USHF.L.U32 UR8, UR16, 0x3, URZ"),
    Kind("I2IP", "I2IP.S8.S32.SAT R8, R16, R17, R18"),
    Kind("FADD", "FADD R8, R32, R33"),
    Kind("FMUL", "FMUL R8, R32, R33"),
    Kind("FFMA", "FFMA R8, R32, R33, R34"),
    Kind("FFMA.FTZ", "FFMA.FTZ R8, R32, R33, R34"),
    Kind("FSETP", "FSETP.GEU.AND P1, PT, R32, R33, PT"),
    Kind("FMNMX", "FMNMX R8, R32, R33, PT"),
    Kind("FSEL", "FSEL R8, R32, R33, P0"),
    Kind("DADD", "DADD R8, R64, R66"),
    Kind("DFMA", "DFMA R8, R64, R66, R68"),
    Kind("DSETP", "DSETP.GEU.AND P0, PT, R64, R66, PT"),
    Kind("HADD2", "HADD2 R8, R48, R49"),
    Kind("HMUL2", "HMUL2 R8, R48, R49"),
    Kind("HFMA2", "HFMA2 R8, R48, R49, R50"),
    Kind("HFMA2.BF16_V2", "HFMA2.BF16_V2 R8, R72, R73, R74"),
    Kind("HMNMX2", "HMNMX2 R8, R48, R49, PT"),
    Kind("HSET2", "HSET2.BF.GE.AND R8, R48, R49, PT"),
    Kind("HSETP2", "HSETP2.GE.AND P1, PT, R48, R49, PT"),
    Kind("I2F", "I2F.U32 R8, R16"),
    Kind("F2I", "F2I.TRUNC.NTZ R8, R32"),
    Kind("F2FP", "F2FP.F16.F32.PACK_AB R8, R32, R33"),
    Kind("F2F.F64.F32", "F2F.F64.F32 R8, R32"),
    Kind("FRND", "FRND.FLOOR R8, R32"),
    Kind("MUFU.RCP", "MUFU.RCP R8, R32"),
    Kind("MUFU.EX2", "MUFU.EX2 R8, R32"),
    Kind("MUFU.SIN", "MUFU.SIN R8, R32"),
    Kind("MUFU.RSQ", "MUFU.RSQ R8, R35"),
    Kind("FADD.FTZ", "FADD.FTZ R8, R32, -R33"),
    Kind("FADD.RZ", "FADD.RZ R8, R32, R33"),
    Kind("FFMA, constant", "FFMA R8, R32, 2, R34"),
    Kind("FFMA.SAT", "FFMA.SAT R8, R32, R33, R34"),
    Kind("FFMA.RM", "FFMA.RM R8, R32, R33, R34"),
    Kind("FMNMX.FTZ", "FMNMX.FTZ R8, R32, R33, !PT"),
    Kind("FSET", "FSET.BF.GEU.AND R8, R32, R33, PT"),
    Kind("FCHK", "FCHK P0, R32, R33"),
    Kind("DADD, negative", "DADD R8, R64, -R66"),
    Kind("DMUL", "DMUL R8, R64, R66"),
    Kind("DSETP.MAX", "DSETP.MAX.AND P0, P1, R64, R66, PT"),
    Kind("HADD2.BF16_V2", "HADD2.BF16_V2 R8, R72, R73"),
    Kind("HADD2, immediate", "HADD2 R8, R48, 1, 1"),
    Kind("HFMA2, constant", "HFMA2 R8, R48, 1, 2, R50"),
    Kind("HFMA2.RELU", "HFMA2.RELU R8, R48, R49, R50"),
    Kind("HSET2.BF16", "HSET2.BF.BF16_V2.GE.AND R8, R72, R73, PT"),
    Kind("HSETP2.BF16", "HSETP2.BF16_V2.GE.AND P1, P2, R72, R73, PT"),
    Kind("I2F.F16", "I2F.F16 R8, R16"),
    Kind("I2F.F64", "I2F.F64 R8, R16"),
    Kind("I2F.U64", "I2F.U64 R8, R16"),
    Kind("F2I.F64", "F2I.F64.TRUNC R8, R64"),
    Kind("F2I.S64", "F2I.S64.TRUNC R8, R32"),
    Kind("F2F.F32.F64", "F2F.F32.F64 R8, R64"),
    Kind("F2FP.BF16", "F2FP.BF16.F32.PACK_AB R8, R32, R33"),
    Kind("F2FP.RELU", "F2FP.RELU.F16.F32.PACK_AB R8, R32, R33"),
    Kind("F2FP.E4M3", "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R8, R32, R33, RZ"),
    Kind("F2FP.F16.E4M3", "F2FP.F16.E4M3.UNPACK_B R8, R48"),
    Kind("FRND.F64", "FRND.F64.FLOOR R8, R64"),
    Kind("MUFU.LG2", "MUFU.LG2 R8, R35"),
    Kind("MUFU.SQRT", "MUFU.SQRT R8, R35"),
    Kind("MUFU.TANH", "MUFU.TANH R8, R32"),
    Kind("MUFU.COS", "MUFU.COS R8, R32"),
    Kind("MUFU.EX2.F16", "MUFU.EX2.F16 R8, R48"),
    Kind("MUFU.RCP64H", "MUFU.RCP64H R8, R65"),
    Kind("SHFL.BFLY", "SHFL.BFLY PT, R8, R16, 0x10, 0x1f"),
    Kind("SHFL.UP", "SHFL.UP P1, R8, R16, 0x1, RZ"),
    Kind("SHFL.IDX", "SHFL.IDX PT, R8, R16, R19, 0x1f"),
    Kind("VOTE.ANY", "VOTE.ANY R8, PT, P0"),
    Kind("MATCH.ANY", "MATCH.ANY R8, R20"),
    Kind("MATCH.ALL", "MATCH.ALL P1, R8, R20"),
    Kind("MOVM", "MOVM.16.MT88 R8, R16"),
    Kind("ELECT", "ELECT P1, UR8, PT"),
    Kind("REDUX", "REDUX.SUM UR8, R16"),
    Kind("SHFL.DOWN", "SHFL.DOWN PT, R8, R16, 0x1, 0x1f"),
    Kind("SHFL.DOWN, guarded", "@P0 SHFL.DOWN PT, R8, R16, 0x1, 0x1f"),
    Kind("VOTEU.ANY", "VOTEU.ANY UR8, UPT, P0"),
    Kind("VOTE.ALL", "VOTE.ALL P1, P0"),
    Kind("VOTE.ANY, guarded", "@P0 VOTE.ANY R8, PT, P1"),
    Kind("MATCH.ANY, guarded", "@P0 MATCH.ANY R8, R20"),
    Kind("BRA, not taken", "@!PT BRA 0x0"),
    Kind("BRA, taken by all", "BRA {next}"),
    Kind("BSSY and BSYNC", "BSSY B0, {next}\nBSYNC B0"),
    Kind("BAR.SYNC", "BAR.SYNC.DEFER_BLOCKING 0x0"),
    Kind("WARPSYNC", "WARPSYNC 0xffffffff"),
    Kind("NOP", "NOP"),
    *(
        Kind(f"{name}{'' if full else ', unwritten rest'}", f"{text}", full=full)
        for full in (True, False)
        for name, text in (
            ("LDS", "LDS R8, [R2+{i}]"),
            ("LDS.64", "LDS.64 R8, [R3+{i}]"),
            ("LDS.128", "LDS.128 R8, [R3+{i}]"),
            ("LDS.U16", "LDS.U16 R8, [R2+{i}]"),
            ("STS", "STS [R2+{i}], R16"),
            ("STS.64", "STS.64 [R3+{i}], R16"),
            ("STS.128", "STS.128 [R3+{i}], R16"),
            ("LDSM.16.M88.4", "LDSM.16.M88.4 R8, [R4+{i}]"),
            ("LDSM.16.MT88.4", "LDSM.16.MT88.4 R8, [R4+{i}]"),
            ("LDSM.16.M88.2", "LDSM.16.M88.2 R8, [R4+{i}]"),
            ("STSM.16.M88.4", "STSM.16.M88.4 [R4+{i}], R16"),
        )
    ),
    Kind("LDS, guarded", "@P0 LDS R8, [R2+{i}]"),
    Kind("STS, guarded", "@P0 STS [R2+{i}], R16"),
    Kind("LDS, one address", "LDS.128 R8, [UR4+{i}]"),
    Kind("LDS.128, guarded", "@P0 LDS.128 R8, [R3+{i}]"),
    Kind("STS.128, guarded", "@P0 STS.128 [R3+{i}], R16"),
    Kind("LDSM.16.M88", "LDSM.16.M88 R8, [R4+{i}]"),
    Kind("LDSM.16.MT88.2", "LDSM.16.MT88.2 R8, [R4+{i}]"),
    Kind("STSM.16.MT88.4", "STSM.16.MT88.4 [R4+{i}], R16"),
    Kind("LDG.E", "LDG.E R8, [R6.64+{i}]"),
    Kind("LDG.E.128", "LDG.E.128 R8, [R6.64+{i}]"),
    Kind("LDG.E, descriptor", "LDG.E R8, desc[UR10][R6.64+{i}]"),
    Kind("LDG.E, guarded", "@P0 LDG.E R8, [R6.64+{i}]"),
    Kind("STG.E", "STG.E [R6.64+{i}], R16"),
    Kind("STG.E.128", "STG.E.128 [R6.64+{i}], R16"),
    Kind("LDGSTS.E.BYPASS.128", "LDGSTS.E.BYPASS.128 [R3+{i}], [R6.64+{i}]"),
    Kind("LDL", "LDL R8, [{i}]"),
    Kind("STL", "STL [{i}], R16"),
    Kind("LD.E", "LD.E R8, [R6.64+{i}]"),
    Kind("LD.E.128", "LD.E.128 R8, [R6.64+{i}]"),
    Kind("ST.E", "ST.E [R6.64+{i}], R16"),
    Kind("LDG.E.64", "LDG.E.64 R8, [R6.64+{i}]"),
    Kind("LDG.E.U8", "LDG.E.U8 R8, [R6.64+{i}]"),
    Kind("LDG.E.128, guarded", "@P0 LDG.E.128 R8, [R6.64+{i}]"),
    Kind("STG.E, guarded", "@P0 STG.E [R6.64+{i}], R16"),
    Kind("STG.E.64", "STG.E.64 [R6.64+{i}], R16"),
    Kind("STG.E.128, guarded", "@P0 STG.E.128 [R6.64+{i}], R16"),
    Kind("STG.E.U16", "STG.E.U16 [R6.64+{i}], R16"),
    Kind("LDGSTS.E, predicate", "LDGSTS.E.BYPASS.128 [R3+{i}], [R6.64+{i}], P0"),
    Kind("LDL.128", "LDL.128 R8, [{i}]"),
    Kind("STL.128", "STL.128 [{i}], R16"),
    Kind("ATOMS.ADD", "ATOMS.ADD R8, [R2+{i}], R16"),
    Kind("ATOMS.ADD, shared", "ATOMS.ADD RZ, [R5+{i}], R16"),
    Kind("ATOMS.POPC.INC", "ATOMS.POPC.INC.32 RZ, [R5+{i}]"),
    Kind("ATOMG.E.ADD", "ATOMG.E.ADD.STRONG.GPU PT, R8, [R6.64+{i}], R16"),
    Kind("RED.E.ADD", "RED.E.ADD.STRONG.GPU [R6.64+{i}], R16"),
    Kind("ATOMS.ADD, shared, returning", "ATOMS.ADD R8, [R5+{i}], R16"),
    Kind("ATOMS.CAS", "ATOMS.CAS R8, [R2+{i}], R16, R17"),
    Kind("ATOMS.CAS, shared", "ATOMS.CAS R8, [R5+{i}], R16, R17"),
    Kind("ATOMS.MAX, shared", "ATOMS.MAX.S32 RZ, [R5+{i}], R16"),
    Kind("ATOMS.EXCH", "ATOMS.EXCH R8, [R2+{i}], R16"),
    Kind("ATOM.CAS", "ATOM.E.CAS.STRONG.GPU PT, R8, [R6.64+{i}], R16, R17"),
    Kind("ATOMG.E.CAS", "ATOMG.E.CAS.STRONG.GPU PT, R8, [R6.64+{i}], R16, R17"),
    Kind("ATOMG.E.ADD, few", "ATOMG.E.ADD.STRONG.GPU PT, R8, [R22.64+{i}], R16"),
    Kind("RED.E.ADD, few", "RED.E.ADD.STRONG.GPU [R22.64+{i}], R16"),
    Kind("RED.E.ADD.F32", "RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R6.64+{i}], R32"),
    Kind("RED.E.ADD.F32, few", "RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R22.64+{i}], R32"),
    *(
        Kind(f"{name}, {data}", f"{name} {{c}}, {{a}}, {{b}}, {{c}}", data, counts=counts)
        for name, counts, exact in (
            ("HMMA.16816.F32", (4, 2, 4), "f16"),
            ("HMMA.16816.F16", (4, 2, 2), "f16"),
            ("HMMA.16816.F32.BF16", (4, 2, 4), "bf16"),
            ("HMMA.1688.F32", (2, 1, 4), "f16"),
            ("HMMA.1688.F32.TF32", (4, 2, 4), "tf32"),
            ("HMMA.1684.F32.TF32", (2, 1, 4), "tf32"),
        )
        for data in (
            f"{exact} whole numbers, blocked",
            f"{exact} whole numbers",
            f"{exact} normal, blocked",
            f"{exact} normal",
        )
    ),
    *(
        Kind(f"HMMA.16816.F32, {data}", "HMMA.16816.F32 {c}, {a}, {b}, {c}", data)
        for data in ("f16 whole numbers, unchanged", "f16 normal, unchanged")
    ),
    Kind("HMMA.16816.F32, sm_80, normal", "HMMA.16816.F32 {c}, {a}, {b}, {c}", "f16 normal", arch="sm_80"),
    Kind("IMMA.16832.S8.S8", "IMMA.16832.S8.S8 {c}, {a}.ROW, {b}.COL, {c}", "s8"),
    Kind("IMMA.16816.S8.S8", "IMMA.16816.S8.S8 {c}, {a}.ROW, {b}.COL, {c}", "s8", counts=(2, 1, 4)),
    Kind("IMMA.16864.S4.S4", "IMMA.16864.S4.S4 {c}, {a}.ROW, {b}.COL, {c}", "s8"),
    Kind("BMMA.168256", "BMMA.168256.XOR.POPC {c}, {a}.ROW, {b}.COL, {c}", "s8"),
    Kind("DMMA.8x8x4", "DMMA.8x8x4 R8, R64, R66, R68"),
    Kind("QMMA.16832.F32.E4M3", "QMMA.16832.F32.E4M3.E4M3 {c}, {a}, {b}, {c}", "e4m3", arch="sm_89"),
    Kind(
        "HMMA.SP.16832.F32", "HMMA.SP.16832.F32 {c}, {a}, {b}, {c}, R21, 0x0", "f16 normal, blocked", counts=(4, 4, 4)
    ),
    Kind(
        "HMMA.SP.16816.F32.TF32",
        "HMMA.SP.16816.F32.TF32 {c}, {a}, {b}, {c}, R21, 0x0",
        "tf32 normal, blocked",
        counts=(4, 4, 4),
    ),
    Kind("IMMA.SP.16864.S8.S8", "IMMA.SP.16864.S8.S8 {c}, {a}.ROW, {b}.COL, {c}, R21, 0x0", "s8", counts=(4, 4, 4)),
]
