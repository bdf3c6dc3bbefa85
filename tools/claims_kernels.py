"""The claims of section A: five versions of a 16x16x16 product by one warp."""

from __future__ import annotations

import numpy as np
from claim import Finding, claim, conflicts, judge, wavefronts
from measured import measured
from port_study import counted, shared_accesses

import gpuemu
from gpuemu.isa.fragments import matrix_fragment
from gpuemu.isa.opcodes import Row

HARDWARE = measured()["example_kernels"]


def _accesses(kernel: str, opcode: str) -> list[gpuemu.SharedAccess]:
    return [access for name, access in shared_accesses(gpuemu.load_trace(kernel)) if name.startswith(opcode)]


def _first_bank(access: gpuemu.SharedAccess, lane: int) -> int:
    return access.lane_byte_addresses[lane] // access.geometry.bank_width_bytes % access.geometry.banks


def _phase(access: gpuemu.SharedAccess, lane: int) -> int:
    return next(phase.index for phase in access.phases if lane in phase.lanes)


@claim(
    "A1",
    "v2: 8 bank conflicts of matrix loads, 4 for each ldmatrix.x4: each of its 4 phases is 2-way conflicted "
    "and counts once, as even a 4-way conflict would",
    "gpuemu run v2_shared_memory --arch sm_89",
    "gpuemu banks LDSM.4 --lanes '32*(lane%16) + 16*(lane//16)'",
    "gpuemu banks LDSM.4 --lanes '64*(lane%16) + 16*(lane//16)'",
)
def _matrix_loads_of_v2() -> Finding:
    found, loads = conflicts("v2_shared_memory", Row.LOAD_MATRIX), _accesses("v2_shared_memory", "LDSM")
    ways = [[phase.wavefronts for phase in access.phases] for access in loads]
    once = all(
        access.excess_wavefronts == 4 and ways_of == [2] * 4 for access, ways_of in zip(loads, ways, strict=True)
    )
    hardware = HARDWARE["v2_shared_memory"]["matrix_load_conflicts"]
    text = f"{found} conflicts; wavefronts of the phases: {'; '.join(', '.join(map(str, w)) for w in ways)}"
    four = gpuemu.shared_access(
        gpuemu.load_arch("sm_89"), "LDSM.4", [64 * (lane % 16) + 16 * (lane // 16) for lane in range(32)]
    )
    text += f"; where a phase is 4-way conflicted it counts {four.excess_wavefronts // 4}"
    return Finding(text, judge(found == hardware == 8, once, four.excess_wavefronts == 4), f"{hardware} conflicts")


@claim(
    "A2",
    "v2: the 128-bit copy into shared memory has no conflict, though lanes 0, 8, 16 and 24 start in one bank",
    "gpuemu banks STS.128 --lanes '16*lane'",
)
def _copies_of_v2() -> Finding:
    copies = _accesses("v2_shared_memory", "STS.128")
    clean = all(access.excess_wavefronts == 0 for access in copies)
    one_bank = {_first_bank(access, lane) for access in copies for lane in (0, 8, 16, 24)} == {0}
    apart = all(len({_phase(access, lane) for lane in (0, 8, 16, 24)}) == 4 for access in copies)
    where = "one bank" if one_bank else "different banks"
    excess = sum(access.excess_wavefronts for access in copies)
    text = f"{excess} conflicts in {len(copies)} copies; the four lanes start in {where}, "
    text += f"in {'four' if apart else 'fewer than four'} phases"
    return Finding(text, judge(clean, one_bank and apart))


@claim(
    "A3",
    "Writes to different words of one bank do not conflict, because banks have several write ports; reads do",
    "gpuemu run v3_padded --arch sm_89",
    "gpuemu banks STS.128 --lanes '48*(lane//2) + 16*(lane%2)'",
)
def _several_write_ports() -> Finding:
    hardware, ours = HARDWARE["v3_padded"], conflicts("v3_padded", Row.STORE)
    stores = [counted("v3_padded", 1, ports)[1] for ports in (1, 2)]
    free = ours == 0 and hardware["store_conflicts"] == 0
    text = f"v3: {ours} store conflicts, {stores[0]} wavefronts; "
    text += f"with two write ports a bank it would be {stores[1]} ([ports](ports.md))"
    return Finding(text, judge(free), f"{hardware['store_conflicts']} store conflicts, {hardware['stores']} wavefronts")


@claim(
    "A4",
    "v3: no conflicts of matrix loads, 12 of shared stores",
    "gpuemu run v3_padded --arch sm_89",
)
def _v3() -> Finding:
    loads, stores = conflicts("v3_padded", Row.LOAD_MATRIX), conflicts("v3_padded", Row.STORE)
    hardware = HARDWARE["v3_padded"]
    there = (hardware["matrix_load_conflicts"], hardware["store_conflicts"])
    verdict = judge(loads == there[0] == 0, stores == there[1] == 12)
    return Finding(f"matrix loads {loads}, stores {stores}", verdict, "matrix loads {}, stores {}".format(*there))


@claim(
    "A5",
    "v3: lanes 0 and 20 share bank 0 and still do not conflict, because they are in different phases",
    "gpuemu banks LDSM.4 --lanes '48*(lane%16) + 16*(lane//16)'",
)
def _lanes_0_and_20() -> Finding:
    """Lane 20 as the one that receives: row 5 of the third matrix, its word 0."""
    access = _accesses("v3_padded", "LDSM")[0]
    receives = matrix_fragment()
    row, column = int(receives.row[0, 20, 0]), int(receives.column[0, 20, 0])
    lane = 8 * 2 + row  # who gives the address of that row of the third matrix
    word = access.lane_byte_addresses[lane] // 4 + column // 2
    bank, first = word % access.geometry.banks, _first_bank(access, 0)
    clean = all(a.excess_wavefronts == 0 for a in _accesses("v3_padded", "LDSM"))
    apart = _phase(access, lane) != _phase(access, 0)
    text = (
        f"of the third matrix lane 20 receives row {row}, word {word}, bank {bank}; lane 0 of the first bank {first}; "
    )
    text += f"{'other phases' if apart else 'one phase'}, {'no' if clean else 'some'} conflicts"
    return Finding(text, judge(bank == first == 0, apart and clean))


@claim(
    "A6",
    "v5: no conflicts left anywhere",
    "gpuemu run v5_swizzle --arch sm_89",
)
def _v5() -> Finding:
    found = {row: conflicts("v5_swizzle", row) for row in Row}
    hardware = HARDWARE["v5_swizzle"]
    there = hardware["load_conflicts"] + hardware["store_conflicts"]
    text = f"{sum(found.values())} conflicts in {sum(wavefronts('v5_swizzle', row) for row in Row)} wavefronts"
    return Finding(text, judge(sum(found.values()) == there == 0), f"{there} conflicts")


@claim(
    "A7",
    "Under swizzle<3,1,3> threads 8 to 15 swap places in pairs (8 with 9, ...), threads 0 to 7 stay",
    "gpuemu search --tile 16x16:f16 --access copy-in --threads 32",
)
def _threads_that_swap() -> Finding:
    at = gpuemu.search(gpuemu.load_arch("sm_89"), "16x16:f16", ["copy-in"], threads=32)
    layout = next(c.layout for c in at.candidates if c.label == "Swizzle<1,3,3>")
    piece = (layout.places(at.tile)[::8] // 8).tolist()
    first, second = piece[:8] == list(range(8)), piece[8:16] == [t ^ 1 for t in range(8, 16)]
    return Finding(f"threads 0 to 15 store at pieces {', '.join(map(str, piece[:16]))}", judge(first, second))


@claim(
    "A8",
    "Recipe: M and B name the index bits that repeat, S reaches those that vary; where bits 1 and 2 repeat, "
    "swizzle<3,2,1>",
    "gpuemu banks LDS.32 --lanes '4*(lane%2 + 8*(lane//2))'",
)
def _recipe() -> Finding:
    """A warp whose word numbers have the low bits xx00x: bits 1 and 2 repeat, those from bit 3 on vary."""
    arch = gpuemu.load_arch("sm_89")
    words = [lane % 2 + 8 * (lane // 2) for lane in range(32)]

    def wavefronts_of(shift: int) -> int:
        return gpuemu.shared_access(arch, "LDS.32", [4 * (w ^ ((w >> shift) & 0b110)) for w in words]).wavefronts

    plain = gpuemu.shared_access(arch, "LDS.32", [4 * w for w in words]).wavefronts
    found, better = wavefronts_of(3), wavefronts_of(4)
    text = (
        f"{plain} wavefronts, with swizzle<3,2,1> {found}, with swizzle<4,2,1> {better}: bit 4 chooses a bank already"
    )
    return Finding(text, judge(found < plain, found == 1))


@claim(
    "A9",
    "The bank is the low five bits of the address (of a text that counts halves)",
    "gpuemu banks LDS.U16 --lanes '2*lane'",
)
def _low_five_bits() -> Finding:
    arch = gpuemu.load_arch("sm_89")

    def agree(element_bytes: int, op: str) -> float:
        numbers = np.arange(256)
        banks = [
            gpuemu.shared_access(arch, op, np.full(32, n * element_bytes), 1).phases[0].served[0][0].bank
            for n in numbers
        ]
        return float(np.mean(np.array(banks) == numbers % 32))

    words, halves = agree(4, "LDS.32"), agree(2, "LDS.U16")
    text = f"for addresses in 4-byte words right in {words:.0%} of 256, in halves in {halves:.0%}"
    return Finding(text, judge(words == 1, halves == 1))


@claim(
    "A10",
    "Which lanes make up a group of eight does not matter for 128-bit accesses",
    "gpuemu banks LDS.128 --lanes '16*lane'",
    "gpuemu banks LDS.128 --lanes '16*(8*(lane%4) + lane//4)'",
)
def _groups_of_eight() -> Finding:
    arch = gpuemu.load_arch("sm_89")
    orders = [list(range(32)), [8 * (lane % 4) + lane // 4 for lane in range(32)]]
    counts = [gpuemu.shared_access(arch, "LDS.128", [16 * piece for piece in order]).wavefronts for order in orders]
    text = f"the same 32 pieces in order {counts[0]} wavefronts, in another order of lanes {counts[1]}"
    return Finding(text, judge(counts[0] == counts[1]))


@claim("A11", "Writes of several lanes to one word conflict", "gpuemu banks STS.32 --lanes '0'")
def _writes_to_one_word() -> Finding:
    access = gpuemu.shared_access(gpuemu.load_arch("sm_89"), "STS.32", [0] * 32)
    text = f"32 lanes on one word: {access.wavefronts} wavefront, {access.excess_wavefronts} conflicts"
    return Finding(text, judge(access.excess_wavefronts > 0))


@claim(
    "A12",
    "v4 and v5 as written, with a generic pointer in place of stmatrix: v4 keeps v2's conflicts, v5 has none",
    "gpuemu diff v4_generic v5_generic --arch sm_89",
)
def _generic_stores() -> Finding:
    four, five = (sum(conflicts(name, row) for row in Row) for name in ("v4_generic", "v5_generic"))
    stores = [wavefronts(name, Row.STORE) for name in ("v4_generic", "v5_generic")]
    there = [HARDWARE[name]["stores"] for name in ("v4_ldmatrix", "v5_swizzle")]
    text = f"{four} and {five} conflicts; stores {stores[0]} and {stores[1]} wavefronts"
    return Finding(
        text, judge(four == 12, five == 0 and stores == there), f"stores {there[0]} and {there[1]} wavefronts"
    )
