"""The resource that a value of the hardware belongs to, as metadata of its field.

    class BarrierTimes(Part, owner=BARRIER_WAIT):                                 # for all values of the section
        latency_cycles: int = cycles("fixed part")
        arrival_interval_cycles: int = BARRIER_UNIT.owns(cycles("part per warp"))  # for one value

If a value set free would gain, a bound of its resource shows by how much at most (`views.bounds`), and one of its
causes shows the gain (`studies.why`). Cycles are free at their least value, and counts and rates at their most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEAST, MOST, NO_END = "least", "most", None
"""The end of its range at which a value is free; NO_END: it says how things are, not how many or how fast."""
BY_UNIT = ""
"""LEAST for cycles, MOST for all other units."""

LATENCY = "latency of one warp"
"""The cycles of one warp alone. With a comma and a stall reason, the cycles that it waits for that reason."""
SLOTS = "issue slots"
PIPES = "pipe"
"""A placeholder for the bound of the value's own pipe."""
DATA_STAGE, DATA_PORTS = "data stage", "ports"
"""The data stage of shared memory or L1. With separate ports, the ports for reads and for writes."""
PATH = "one warp's accesses"
"""One warp's accesses to shared memory or L1."""
SENDING = "registers sent to the load/store unit"
QUEUES = "queues to the load/store unit"
UNIT = "load/store unit"
ENTRIES = "entries of the load/store unit"
STORE_DATA = "path of stored registers"
WAY_BACK = "way back to the registers"
DIVERGENCE = "address divergence unit"
COPIES = "copies through L1"
BARRIER = "barrier unit"
BANDWIDTH = "global-memory bandwidth"
STORES = "path of global stores"
LAUNCH = "launch"
PORTS = "ports of the register file"
RESIDENCY = "residency"
"""The profiler's theoretical occupancy and the resource that limits it. It is no bound."""


@dataclass(frozen=True)
class Owner:
    """A resource, the causes of `gpuemu why` that set its values free, and the end at which they are free."""

    resource: str
    causes: tuple[str, ...]
    free: str | None = BY_UNIT

    def owns(self, field: Any, free: str | None = BY_UNIT) -> Any:
        """The field with this owner; `free` differs from the owner's."""
        field.json_schema_extra["owner"] = self if free == BY_UNIT else Owner(self.resource, self.causes, free)
        return field

    def of(self, unit: str) -> Owner:
        """The owner of a value in this unit, with the end at which the value is free."""
        if self.free != BY_UNIT:
            return self
        return Owner(self.resource, self.causes, LEAST if unit == "cycles" else MOST)


def _waits(reason: str, *causes: str) -> Owner:
    return Owner(f"{LATENCY}, {reason}", causes or (f"stall.{reason}",))


FACT = Owner("", (), NO_END)
OCCUPANCY, OCCUPANCY_FACT = Owner(RESIDENCY, ("occupancy",)), Owner(RESIDENCY, ("occupancy",), NO_END)
LAUNCHING = Owner(LAUNCH, ("launch",))
SUB_CORES = Owner(SLOTS, ("issue_slots",), NO_END)
"""Each sub-core has pipes and queues of its own."""
CONSTANTS, SHORT, LONG = _waits("imc_miss"), _waits("short_scoreboard"), _waits("long_scoreboard")
SLEEPING, CODE, BRANCHES, WAIT = (
    _waits("sleeping"),
    _waits("no_instruction"),
    _waits("branch_resolving"),
    _waits("wait"),
)
GMMA, DRAIN, BARRIER_WAIT = _waits("gmma"), _waits("drain"), _waits("barrier", "barrier_unit")
FIRST_TOUCH = Owner(LONG.resource, ("first_touch",), NO_END)
L1_CAPACITY = Owner(LONG.resource, ("l1_capacity",))
RESULTS = Owner(LATENCY, ("stall.wait", "stall.short_scoreboard"))
EARLY_PRODUCTS = Owner(LATENCY, ("stall.wait",), MOST)
BARRIER_UNIT = Owner(BARRIER, ("barrier_unit",))
PIPE = Owner(PIPES, ("pipe", "stall.math_pipe_throttle"))
SPECIAL_QUEUE = Owner(PIPES, ("stall.math_pipe_throttle", "stall.mio_throttle"))
PRODUCT_QUEUE = Owner(PIPES, ("stall.mio_throttle",))
REGISTER_PORTS = Owner(PORTS, ("stall.dispatch_stall",))
DIVERGENCE_UNIT = Owner(DIVERGENCE, ("address_divergence_unit",))
DIVERGENCE_QUEUES = Owner(DIVERGENCE, ("address_divergence_unit", "stall.mio_throttle"))
MIO_QUEUES = Owner(QUEUES, ("stall.mio_throttle",))
SENDER, SENT_DATA = Owner(SENDING, ("sending",)), Owner(STORE_DATA, ("sending",))
LOAD_STORE_UNIT = Owner(UNIT, ("load_store_unit",))
POOLS, STORE_POOLS = Owner(ENTRIES, ("pools",)), Owner(ENTRIES, ("store_pools",))
DATA_PASS, BANKS = Owner(DATA_STAGE, ("data_stage",)), Owner(DATA_STAGE, ("conflicts", "data_stage"))
WARP_PATH, WRITEBACK = Owner(PATH, ("warp_path",)), Owner(WAY_BACK, ("way_back",))
LOAD_BANDWIDTH, L1_COPIES = Owner(BANDWIDTH, ("global_bandwidth",)), Owner(COPIES, ("copies",))
STORE_BANDWIDTH, STORE_BUFFER = Owner(STORES, ("global_stores",)), Owner(STORES, ("stall.drain",))
