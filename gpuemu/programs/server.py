"""Runs a program with gpuemu's library in place of CUDA, and answers the library's requests from `Device` objects.

    code = run_program(["./app", "1000"], lambda process, heap, file: MyDevice(heap))

The program inherits one end of a socket pair, the door. When one of its processes begins to use CUDA, the process sends
a socket and a heap of its own through the door. Processes never share a device.
"""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import selectors
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gpuemu.programs.child import environment_for
from gpuemu.programs.fields import Reader, Writer
from gpuemu.programs.protocol import (
    HEAP_BYTES,
    Copy,
    Device,
    DeviceError,
    DeviceMaker,
    Direction,
    LaunchRequest,
    MemoryKind,
    Request,
)

_NO_RESERVE = 0x4000
"""MAP_NORESERVE, which Python's mmap has no name for."""
_HEAD, _ANSWER = struct.Struct("<II"), struct.Struct("<IIIQ")
_WAITING = frozenset((Request.SYNCHRONIZE, Request.COPY, Request.ELAPSED))
"""After these requests, the answer includes the text that kernels have printed."""


class Connection:
    """One process of the program: its socket, its heap and its device."""

    def __init__(self, line: socket.socket, heap_file: int, process: int, make: DeviceMaker, refusals: list[str]):
        self._line = line
        self._stream = line.makefile("rb")
        self._heap = mmap.mmap(heap_file, HEAP_BYTES, flags=mmap.MAP_SHARED | _NO_RESERVE)
        self._heap_file = heap_file
        self.device: Device = make(process, np.frombuffer(self._heap, np.uint8), heap_file)
        self._refusals = refusals

    def fileno(self) -> int:
        return self._line.fileno()

    def serve(self) -> bool:
        """Answer one request. Returns False if the process has ended."""
        head = self._stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return False
        number, length = _HEAD.unpack(head)
        request = Request(number)
        answer, status, printed = Writer(), 0, b""
        try:
            _ANSWERS[request](self, Reader(self._stream.read(length)), answer)
        except DeviceError as error:
            status, answer = error.code, Writer()
        if request in _WAITING:
            printed = self.device.printed()
        head = _ANSWER.pack(status, len(printed), len(answer.content), self.device.clock())
        try:
            self._line.sendall(head + printed + answer.content)
        except OSError:  # killed while it waited
            return False
        return True

    def close(self) -> None:
        self.device.close()
        self._stream.close()
        self._line.close()
        os.close(self._heap_file)

    def _hello(self, given: Reader, answer: Writer) -> None:
        chip = self.device.chip()
        answer.text(chip.name).u64(chip.memory_bytes).data(chip.uuid).u32(len(chip.attributes))
        for number, value in sorted(chip.attributes.items()):
            answer.u32(number).i32(value)

    def _allocate(self, given: Reader, answer: Writer) -> None:
        self.device.allocate(given.u64(), given.u64(), given.u64(), MemoryKind(given.u32()))

    def _free(self, given: Reader, answer: Writer) -> None:
        self.device.free(given.u64())

    def _copy(self, given: Reader, answer: Writer) -> None:
        to, to_span, source, source_span, size = (given.u64() for _ in range(5))
        direction, stream, waits = Direction(given.u32()), given.u64(), bool(given.u32())
        self.device.copy(Copy(to, to_span, source, source_span, size, direction, stream, waits))

    def _fill(self, given: Reader, answer: Writer) -> None:
        self.device.fill(given.u64(), given.u64(), given.u64(), given.u64())

    def _load(self, given: Reader, answer: Writer) -> None:
        answer.u32(self.device.load(given.data()))

    def _unload(self, given: Reader, answer: Writer) -> None:
        self.device.unload(given.u32())

    def _link(self, given: Reader, answer: Writer) -> None:
        answer.data(self.device.link([given.data() for _ in range(given.u32())]))

    def _function(self, given: Reader, answer: Writer) -> None:
        found = self.device.function(given.u32(), given.text())
        for value in (
            found.number, found.registers, found.static_shared_bytes, found.constant_bytes, found.local_bytes,
            found.max_threads, found.ptx_version, found.binary_version, *found.cluster,
            found.parameter_bytes, len(found.parameters),
        ):  # fmt: skip
            answer.u32(value)
        for offset, size in found.parameters:
            answer.u32(offset).u32(size)
        answer.data(found.host_code)

    def _kernels(self, given: Reader, answer: Writer) -> None:
        names = self.device.kernels(given.u32())
        answer.u32(len(names))
        for name in names:
            answer.text(name)

    def _variable(self, given: Reader, answer: Writer) -> None:
        address, size = self.device.variable(given.u32(), given.text(), bool(given.u32()))
        answer.u64(address).u64(size)

    def _launch(self, given: Reader, answer: Writer) -> None:
        function, grid, block, cluster = given.u32(), given.dim(), given.dim(), given.dim()
        shared, cooperative, stream = given.u32(), bool(given.u32()), given.u64()
        self.device.launch(LaunchRequest(function, grid, block, cluster, shared, cooperative, stream, given.data()))

    def _synchronize(self, given: Reader, answer: Writer) -> None:
        self.device.synchronize(given.u64())

    def _record(self, given: Reader, answer: Writer) -> None:
        self.device.record(given.u64(), given.u64())

    def _wait(self, given: Reader, answer: Writer) -> None:
        self.device.wait(given.u64(), given.u64())

    def _elapsed(self, given: Reader, answer: Writer) -> None:
        answer.f32(self.device.elapsed(given.u64(), given.u64()))

    def _occupancy(self, given: Reader, answer: Writer) -> None:
        answer.u32(self.device.occupancy(given.u32(), given.u32(), given.u32()))

    def _clusters(self, given: Reader, answer: Writer) -> None:
        answer.u32(self.device.clusters(given.u32(), given.dim(), given.dim(), given.u32()))

    def _limit(self, given: Reader, answer: Writer) -> None:
        self.device.limit(given.u32(), given.u64())

    def _refused(self, given: Reader, answer: Writer) -> None:
        self._refusals.append(given.text())


_ANSWERS: Mapping[Request, Callable[[Connection, Reader, Writer], None]] = {
    request: getattr(Connection, f"_{request.name.lower()}") for request in Request
}


class Server:
    """Answers the processes of one program, one request at a time."""

    def __init__(self, make: DeviceMaker):
        self.refusals: list[str] = []
        self._make = make
        self._ours, self.door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._ours, selectors.EVENT_READ)
        self._connections: list[Connection] = []

    def serve_until(self, process: subprocess.Popen[bytes]) -> int:
        """Answer until the program's first process ends. Returns its exit code, which is negative for a signal."""
        ended = os.pidfd_open(process.pid)
        self._selector.register(ended, selectors.EVENT_READ)
        try:
            while True:
                ready = [key.fileobj for key, _ in self._selector.select()]
                for one in ready:
                    if one is self._ours:
                        self._welcome()
                    elif isinstance(one, Connection) and not one.serve():
                        self._forget(one)
                if ready == [ended]:
                    return process.wait()
        finally:
            os.close(ended)
            self.close()

    def close(self) -> None:
        for one in list(self._connections):
            self._forget(one)
        self._ours.close()
        self.door.close()
        self._selector.close()

    def _welcome(self) -> None:
        files = array.array("i")
        with contextlib.suppress(OSError):
            message, control, _, _ = self._ours.recvmsg(4, socket.CMSG_SPACE(2 * files.itemsize))
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    files.frombytes(data[: len(data) // files.itemsize * files.itemsize])
            if len(files) == 2:
                line, process = socket.socket(fileno=files[0]), int.from_bytes(message, "little")
                made = Connection(line, files[1], process, self._make, self.refusals)
                self._connections.append(made)
                self._selector.register(made, selectors.EVENT_READ)

    def _forget(self, one: Connection) -> None:
        self._selector.unregister(one)
        self._connections.remove(one)
        one.close()


def run_program(
    command: Sequence[str], make: DeviceMaker, environment: Mapping[str, str] | None = None
) -> tuple[int, list[str]]:
    """Run a program on devices from `make`. Returns its exit code (negative for a signal) and the refusals.

    The program inherits the standard streams. Raises GpuemuError for a program that cannot use gpuemu's CUDA.
    """
    server = Server(make)
    surroundings = environment_for(command[0], server.door.fileno(), os.environ if environment is None else environment)
    process = subprocess.Popen(command, env=surroundings, pass_fds=(server.door.fileno(),))
    try:
        return server.serve_until(process), server.refusals
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
