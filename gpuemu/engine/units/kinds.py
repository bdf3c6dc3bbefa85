"""Kinds of instructions as numbers, which are those of `isa.kind.Kind`, and kinds of pipes."""

from __future__ import annotations

from gpuemu.isa.kind import Kind

SHARED = Kind.SHARED.value
GLOBAL = Kind.GLOBAL.value
SHUFFLE = Kind.SHUFFLE.value
BRANCH = Kind.BRANCH.value
COPY_COMMIT = Kind.COPY_COMMIT.value
PRODUCT = Kind.PRODUCT.value
PRODUCT_WAIT = Kind.PRODUCT_WAIT.value
LANE_REGISTER = Kind.LANE_REGISTER.value

PLAIN, SHARED_PARTS, QUEUE, SPECIAL_QUEUE = range(4)
"""Pipes from QUEUE on are queues, which an instruction's issue interval does not close."""
