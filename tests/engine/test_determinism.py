"""Both drivers log the same bytes, on every trace that ships and on kernels and machines at random.

`python tests/engine/test_determinism.py 5000` compares so many at random.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from probes import builder, emit, kernels, logs, machine, machines

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError

at_random = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def compare(trace: gpuemu.Trace, arch: Architecture) -> None:
    """Both drivers log the same, entry for entry, or refuse in the same words."""
    found = []
    for engine in ("simpy", "compiled"):
        try:
            found.append(logs(gpuemu.run(trace, arch, engine=engine)))
        except GpuemuError as refused:
            found.append(str(refused))
    assert found[0] == found[1]


SHIPPED = [name for name in resources.names("traces") if "/" not in name]
OTHERS = [name for name in resources.names("traces") if "/" in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SHIPPED, *OTHERS[::2]])
def test_traces_that_ship_run_alike(name):
    """Each kernel on one machine, and every second on another as it is compiled for another architecture."""
    compare(gpuemu.load_trace(name), machine("sm_75" if "/" in name else "sm_90"))


@pytest.mark.slow
@at_random
@given(kernels(), machines())
def test_kernels_and_machines_at_random_run_alike(trace, arch):
    compare(trace, arch)


MMA, OTHER_MMA = "HMMA.16816.F32 R0, R4, R8, R12", "HMMA.16816.F32 R40, R4, R8, R12"
COPY, COPY_KEEPS = "LDGSTS.E.BYPASS.128 [R16], [R12.64]", "LDGSTS.E.BYPASS.128 [R12], [R8.64] | R0 S1"
ATOMIC, SHORT_MMA = "ATOMS.ADD R0, [R16], R8 | B02 W2 S1", "HMMA.1688.F16 R8, R20, R16, R8 | B2 S1"
LAST = "EXIT | S1"
ONCE_APART = {  # machines, and what each warp executes; (times, lines) is a loop
    "a store that waits to be served when an mma holds back its registers": (
        machine("sm_80", sm__sub_cores=1, address_divergence__queue_latency_cycles=1),
        [[MMA, "EXIT"], ["STS.128 [R0], R12", "REDUX.SUM UR4, R8", "IMAD.WIDE R0, R12, R20, R0", "EXIT"]],
    ),
    "a load half back when older writes are forgotten": (
        machine(),
        [[MMA, (24, ["LDS.128 R24, [R20]", *["NOP"] * 12, MMA, *["NOP"] * 16, OTHER_MMA, "IADD3 R28, R24, R24, RZ"]),
          "EXIT"]],
    ),
    "atomics that leave the pool before copies that came first": (
        machine("sm_80", mio__pool_entries=3, mio__pool_release_cycles=1),
        [[LAST], [ATOMIC, SHORT_MMA, COPY_KEEPS, ATOMIC, LAST], [COPY_KEEPS, LAST], [COPY_KEEPS, LAST],
         [ATOMIC, SHORT_MMA, COPY_KEEPS, ATOMIC, LAST], [ATOMIC, COPY_KEEPS, ATOMIC, SHORT_MMA, LAST]],
    ),
    "copies that are sent on at once": (
        machine(mio__pool_entries=1, mio__copy_latency_cycles=0), [[COPY, "EXIT"], [COPY, "EXIT"]],
    ),
    "a line of code that comes while an mma holds up what is before it": (
        machine(sm__sub_cores=1, issue__next_line_cycles=20),
        [[*["NOP | S1"] * 7, (2, ["FFMA R16, R4, R0, R20 | S2", "NOP | S1", "@P0 BRA 0x70 | S1"]), LAST],
         ["NOP | S12", f"{MMA} | S1", LAST]],
    ),
    "a barrier for whose last warp another sub-core ran ahead": (
        machine("sm_89", issue__policy="loose_round_robin", barrier__latency_cycles=1),
        [*[["EXIT"]] * 5, ["BAR.SYNC.DEFER_BLOCKING 0x0", "ATOMS.ADD R0, [R16], R12", "EXIT"]],
    ),
}  # fmt: skip


def addresses(line: str) -> str:
    if "LDGSTS" in line:
        return "128*(lane % 16)"
    return "16*lane" if ".128" in line else "4*lane"


@pytest.mark.parametrize("case", ONCE_APART)
def test_programs_of_which_the_two_once_logged_different_cycles(case):
    arch, warps = ONCE_APART[case]
    trace = builder(len(warps))
    for number, lines in enumerate(warps):
        with trace.only(warps=number):
            for part in lines:
                times, repeated = (1, [part]) if isinstance(part, str) else part
                with trace.repeat(times):
                    for line in repeated:
                        emit(trace, line, addresses(line))
    compare(trace.build(), arch)


def test_a_branch_into_a_line_that_the_one_before_still_fetches_brings_the_line_itself():
    """The two once disagreed; the second branch's target is there after its own cycle, not after the first's 50."""
    arch = machine(sm__sub_cores=1, issue__next_line_cycles=50, issue__taken_branch_cycles=1)
    trace = builder(2)
    for _ in range(3):
        emit(trace, "NOP | S1")
    with trace.repeat(2):
        emit(trace, "NOP | S1")
        emit(trace, "NOP | S1")
        emit(trace, "@P0 BRA 0x0 | S1")
    emit(trace, "@P0 BRA 0x0 | S1")
    with trace.only(warps=1):
        emit(trace, "NOP | S1")
    emit(trace, "NOP | S1")
    emit(trace, LAST)
    built = trace.build()
    compare(built, arch)
    assert gpuemu.run(built, arch).warps[0].end_cycle < 50


def test_a_request_that_an_mma_delays_moves_what_its_sub_core_waits_for():
    """It stops where the request could matter; when an mma has put that off, it must go on by itself."""
    trace = builder(7)
    for warp in range(7):
        with trace.only(warps=warp):
            emit(trace, f"NOP | S{2 * warp + 1}")
    emit(trace, "HMMA.16816.F32 R0, R0, R0, R0 | S1")
    emit(trace, "LDGDEPBAR | S8")
    emit(trace, "LDGDEPBAR | W0 S1")
    emit(trace, "IADD3 R8, R8, R8, RZ | B0 S1")
    emit(trace, "EXIT | S1")
    arch = machine(sm__sub_cores=1, issue__policy="oldest_first")
    compare(trace.build(), arch)


@pytest.mark.slow
@at_random
@given(st.randoms(use_true_random=False), st.sampled_from([(1, 17), (10, 17), (10, 5)]))
def test_what_comes_back_meets_what_an_mma_or_a_special_function_writes(random, cycles):
    """Also where an mma or a special function writes sooner behind its begin than arithmetic behind its entry."""
    write_cycles, special_cycles = cycles
    warps = random.choice([4, 8, 12])
    trace = builder(warps, registers_per_thread=128)
    kinds = ("LDS {0}, [R0]", "LDS.64 {0}, [R0]", "LDS.128 {0}, [R0]", "FFMA {0}, R24, R25, R26", "NOP")
    kinds += ("HMMA.1688.F32 {0}, R8, R12, {0}", "IMMA.16816.S8.S8 {0}, R8, R12, {0}", "MUFU.RCP {0}, R9")
    for group in range(random.choice([1, 4])):
        with trace.only(warps=f"{group}-{warps - 1}"):
            for _ in range(random.randint(4, 14)):
                line = random.choice(kinds).format(f"R{4 * random.randint(1, 20)}")
                counter = f"W{random.randint(0, 2)}" if line.startswith(("LDS", "MUFU")) else ""
                wait = f"B{random.randint(0, 2)}" if random.random() < 0.3 else ""
                emit(trace, f"{line} | {wait} {counter} S{random.randint(1, 6)}", "16*lane")
    emit(trace, "EXIT | S5")
    arch = machine(
        tensor_core__operands__float_write_cycles=write_cycles, operations__mufu__latency_cycles=special_cycles
    )
    compare(trace.build(), arch)


def busy_trace() -> gpuemu.Trace:
    trace = builder(8, grid=(5, 1, 1), registers_per_thread=128)
    with trace.repeat(5):
        emit(trace, "LDS.128 R4, [R0]", "16*lane + 512*warp")
        emit(trace, "LDG.E R8, [R2.64]", "4*lane + 128*cta")
        emit(trace, "HMMA.16816.F32 R4, R8, R12, R4")
        emit(trace, "STS [R0], R4", "128*lane")
        emit(trace, "BAR.SYNC 0x0")
    emit(trace, "EXIT")
    return trace.build()


def test_two_runs_of_a_trace_log_the_same_bytes():
    trace = busy_trace()
    first, second = gpuemu.run(trace, machine()), gpuemu.run(trace, machine())
    assert logs(first) == logs(second)


def test_two_builds_of_a_trace_log_the_same_bytes():
    assert logs(gpuemu.run(busy_trace(), machine())) == logs(gpuemu.run(busy_trace(), machine()))


if __name__ == "__main__":

    @settings(max_examples=int(sys.argv[1]), deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(kernels(), machines())
    def many(trace, arch):
        compare(trace, arch)

    many()
