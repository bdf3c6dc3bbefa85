"""The values of the tensor core: modes, operands, warpgroups and sums."""

from __future__ import annotations

import re

from gpuemu.arch.owners import EARLY_PRODUCTS, FACT, GMMA, PIPE, PRODUCT_QUEUE, REGISTER_PORTS, RESULTS
from gpuemu.arch.schema import Frozen, Part, PowerOfTwo, cycles, power_of_two, table, whole

TENSOR_MODE = re.compile(r"m\d{1,3}n\d{1,3}k\d{1,3}\.(f16|f32|f64|s32)\.[a-z]+\d+[a-z0-9]*")


class TensorOperation(Part, owner=RESULTS):
    """An mma.sync shape with its accumulator and input types."""

    latency_cycles: int = cycles("issue to the issue of a dependent mma")
    issue_interval_cycles: int = PIPE.owns(cycles("one warp instruction per this many cycles and sub-core"))


class TensorTurnaround(Part, owner=PIPE):
    """Cycles that the tensor pipe loses between two operations whose results leave it at different depths."""

    f32_to_f16: int = cycles("loss from an f32 accumulator to an f16 one", low=0)
    f32_to_s32: int = cycles("loss from an f32 accumulator to an s32 one", low=0)
    f16_to_s32: int = cycles("loss from an f16 accumulator to an s32 one", low=0)
    mma_to_fma: int = cycles("loss from any mma to scalar arithmetic on the tensor pipe", low=0)


class TensorOperands(Part, owner=REGISTER_PORTS):
    """How an mma and its neighbors share the ports of the register file."""

    first_read_cycles: int = cycles("time from the issue of an mma to the read of A", low=0)
    registers_per_cycle: int = whole("registers of a fragment that are read together", 1, 4, "registers")
    accumulator_read_cycles: int = cycles("time to read C of four registers; two take its second half", low=0)
    pause_cycles: int = cycles("pause between the reads of a 16 x 32 byte A and of B", low=0)
    memory_instruction_cycles: int = cycles("loss of an mma that starts while a memory instruction reads", low=0)
    scalar_write_cycles: int = FACT.owns(cycles("additional time until scalar arithmetic on the tensor pipe writes"))
    float_write_cycles: int = FACT.owns(
        cycles("time from the end of an mma's issue interval to the write of f32 or f16 results")
    )
    s32_write_cycles: int = FACT.owns(cycles("the same for s32 results"))
    result_cycles: int = cycles("in which f32 or s32 results are written")
    f16_result_cycles: int = cycles("the same of f16 results")
    f16_free_cycles: int = FACT.owns(
        cycles("of which an mma with f16 accumulators leaves one to memory instructions", low=0)
    )


class Warpgroup(Part, owner=PRODUCT_QUEUE):
    """The asynchronous side of the tensor cores: products of 64 x N by the four warps of a group.

    A product takes the time of its columns, or the time to read its operands from shared memory. A product with A in
    registers takes at least `register_interval_cycles`.
    """

    queue_entries: int = whole("products of a sub-core that may wait or execute", 1, 64, "products")
    arrive_cycles: int = GMMA.owns(cycles("time from the last warp's WARPGROUP.ARRIVE to the first product after it"))
    first_read_cycles: int = REGISTER_PORTS.owns(
        cycles("time from a product's start until it reads and writes its accumulators", low=0)
    )
    give_way_after_cycles: int = REGISTER_PORTS.owns(
        cycles("wait of an instruction that reads twice until products pause", low=0)
    )
    give_way_cycles: int = REGISTER_PORTS.owns(cycles("such a pause"))
    give_way_instructions: int = whole("instructions that read twice in a pause", 1, 64, "instructions")
    tensor_pipe_cycles: int = PIPE.owns(
        cycles("time from the end of products to other work for the tensor pipe", low=0)
    )
    register_interval_cycles: int = PIPE.owns(cycles("minimum time of a product with A in registers"))
    register_early_cycles: int = EARLY_PRODUCTS.owns(
        cycles("reduction of its latency compared with A in shared memory", low=0)
    )


class TensorNumerics(Part):
    """How the tensor core sums floating-point products; `gpuemu.tensor.mma` has the whole rule."""

    kept_fraction_bits: int = whole("bits of an addend kept below the largest exponent", 1, 40, "bits")
    products_per_block_16_bit: PowerOfTwo = power_of_two("f16 or bf16 products summed at once", 64, "products")
    products_per_block_tf32: PowerOfTwo = power_of_two("tf32 products summed at once", 64, "products")
    kept_fraction_bits_8_bit: int = whole("as kept_fraction_bits, for products of 8-bit floats", 1, 40, "bits")
    products_per_block_8_bit: PowerOfTwo = power_of_two("8-bit float products summed at once", 64, "products")
    result_fraction_bits_8_bit: int = whole("fraction bits that their f32 results have", 1, 23, "bits")
    kept_fraction_bits_4_bit: int = whole("as kept_fraction_bits, for sums of 4-bit floats with scales", 1, 40, "bits")


class TensorCore(Part):
    """The tensor core of a sub-core."""

    operations: Frozen[TensorOperation] = table(
        "modes, each named shape.accumulator.input",
        TensorOperation,
        TENSOR_MODE,
        "expected a mode such as m16n8k16.f32.f16 (shape.accumulator.input)",
    )
    turnaround: TensorTurnaround
    operands: TensorOperands
    warpgroup: Warpgroup
    numerics: TensorNumerics
