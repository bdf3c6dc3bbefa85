"""Emulated time: the durations of launches, copies and fills, in the order of their streams.

Kernels use all SMs and run one after another. Copies to the device, from it and within it each have an engine, and may
overlap a kernel of another stream. The host's own work takes no time. Its clock advances when it waits for the device.
"""

from __future__ import annotations

from collections import defaultdict

from gpuemu.programs.protocol import ALL_STREAMS, DEFAULT_STREAM, Direction

BUS_BYTES_PER_NANOSECOND = 25.0
"""Between host and device: PCIe 4.0 x16, as copies of pinned memory reach it."""
COPY_NANOSECONDS, FILL_NANOSECONDS = 1500.0, 1500.0
"""That a copy or a fill takes beside its bytes: about what an empty kernel does."""


class Clock:
    """The times at which the host, each stream and each engine finish their work."""

    def __init__(self, dram_bytes_per_nanosecond: float):
        self.host = 0.0
        self._dram = dram_bytes_per_nanosecond
        self._streams: dict[int, float] = defaultdict(float)
        self._engines: dict[str, float] = defaultdict(float)
        self._events: dict[int, float] = {}

    def work(self, stream: int, engine: str, nanoseconds: float) -> float:
        """Give an engine work from a stream, and return the time when the work begins."""
        begins = max(self.host, self._ready(stream), self._engines[engine])
        self._streams[stream] = self._engines[engine] = begins + nanoseconds
        return begins

    def copy_nanoseconds(self, size: int, direction: Direction) -> float:
        if direction is Direction.HOST_TO_HOST:
            return 0.0
        if direction is Direction.DEVICE_TO_DEVICE:  # each byte is read and written
            return COPY_NANOSECONDS + 2 * size / self._dram
        return COPY_NANOSECONDS + size / BUS_BYTES_PER_NANOSECOND

    def fill_nanoseconds(self, size: int) -> float:
        return FILL_NANOSECONDS + size / self._dram

    def wait_for(self, stream: int) -> None:
        """The host waits for one stream, or for all streams."""
        done = max(self._streams.values(), default=0.0) if stream == ALL_STREAMS else self._ready(stream)
        self.host = max(self.host, done)

    def record(self, event: int, stream: int) -> None:
        self._events[event] = max(self.host, self._ready(stream))

    def wait(self, stream: int, event: int) -> None:
        """A stream waits for an event, unless nobody has recorded the event."""
        self._streams[stream] = max(self._streams[stream], self._events.get(event, 0.0))

    def elapsed(self, first: int, second: int) -> float | None:
        """Nanoseconds between two events, or None if one of them was not recorded."""
        if first not in self._events or second not in self._events:
            return None
        return self._events[second] - self._events[first]

    def _ready(self, stream: int) -> float:
        """When a stream may begin its next work. The legacy default stream and the others wait for each other."""
        if stream == DEFAULT_STREAM:
            return max(self._streams.values(), default=0.0)
        return max(self._streams[stream], self._streams[DEFAULT_STREAM])
