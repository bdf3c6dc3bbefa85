"""The effect of each instruction on the lanes, with one file per family of instructions.

A family registers a builder for each mnemonic:

    @semantics("IADD3", "VIADD")
    def iadd3(site: Site) -> Step:
        ...                          # parse operands and modifiers once
        def step(mask: Mask) -> None:
            ...                      # compute on all lanes, store those of `mask`
        return step

A builder raises `site.unsupported("...")` for an unknown form, and never guesses.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from gpuemu.sass.machine.operands import Site, Step

Builder = Callable[[Site], Step]
_BUILDERS: dict[str, Builder] = {}
_FAMILIES = (
    "integer",
    "multiplication",
    "shifts",
    "logic",
    "comparison",
    "uniform",
    "floating",
    "packed_floats",
    "mixed_floats",
    "double",
    "multifunction",
    "half",
    "half_extremes",
    "conversion",
    "packing",
    "predicates",
    "crosslane",
    "special",
    "tensor",
    "sparse",
    "scaled",
    "access",
    "constants",
    "matrices",
    "ordering",
    "atomics",
    "mbarriers",
    "warpgroup",
    "bulk",
    "bulk_tiles",
    "launch_control",
    "tensor_memory",
    "async_products",
    "tensor_copies",
    "register_pool",
)


def semantics(*mnemonics: str) -> Callable[[Builder], Builder]:
    """Register the builder of these mnemonics."""

    def register(builder: Builder) -> Builder:
        for mnemonic in mnemonics:
            assert mnemonic not in _BUILDERS, mnemonic
            _BUILDERS[mnemonic] = builder
        return builder

    return register


def build(site: Site) -> Step:
    """Return the step of an instruction. Raises UnsupportedError, whose message names it."""
    builder = _BUILDERS.get(site.mnemonic)
    if builder is None:
        for family in _FAMILIES:  # importing a module again costs nothing
            import_module(f"gpuemu.sass.semantics.{family}")
        builder = _BUILDERS.get(site.mnemonic)
    if builder is None:
        raise site.unsupported("the executor does not know this instruction")
    return builder(site)
