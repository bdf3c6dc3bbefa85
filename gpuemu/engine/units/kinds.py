"""How instructions are treated, as numbers: those of `isa.kind.Kind`, by name; and the kinds of pipes."""

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
"""Pipes from QUEUE on are queues: it is not an instruction's issue interval that closes them."""
