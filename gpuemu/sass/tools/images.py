"""Load kernels as the driver does: a fat binary, a cubin or PTX becomes a cubin for one compute capability.

cubin = load_image(content, "a.out", (9, 0))
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.image.fat_binary import MAGIC, FatEntry, choose, read_containers
from gpuemu.sass.tools.options import ELF
from gpuemu.sass.tools.toolchain import assembled, linked

_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)


@dataclass(frozen=True)
class LoadedImage:
    """The code that an image has for a GPU. `ptx_version`: ten times the compute capability of its PTX."""

    cubin: Cubin
    ptx_version: int


class NoImageError(GpuemuError):
    """The image has only code for other GPUs: cudaErrorNoKernelImageForDevice."""


def load_image(content: bytes, file: str, capability: tuple[int, int]) -> LoadedImage:
    """Return the cubin of an image for a GPU of this compute capability; messages call the image `file`.

    `choose` selects a fat binary's entry. If its first container has none, as in a program compiled with -rdc=true for
    PTX only, the relocatable entries of the other containers are linked. Raises NoImageError if no entry runs on such a
    GPU, and GpuemuError.
    """
    if content.startswith(MAGIC):
        first, *others = read_containers(content, file)
        entry = choose(first, capability)
        if entry is not None:
            return LoadedImage(read_cubin(_machine_code(entry, capability), file), _version(entry.capability))
        chosen = [choose(entries, capability) for entries in others]
        parts = [one for one in chosen if one is not None]
        if not parts or len(parts) < len(others):
            raise _no_image(file, [entry for entries in (first, *others) for entry in entries], capability)
        arch = _name(capability, max(one.suffix for one in parts))
        cubin = read_cubin(linked([_machine_code(one, capability) for one in parts], file, arch), file)
        return LoadedImage(cubin, _version(min(one.capability for one in parts)))
    if content.startswith(ELF):
        cubin = read_cubin(content, file)
        return LoadedImage(cubin, int(cubin.arch.removeprefix("sm_")))
    text = content.rstrip(b"\0")
    target = _TARGET.search(text)
    cubin = read_cubin(_assembled(text, file, capability, ()), file)
    return LoadedImage(cubin, int(target[1]) if target else _version(capability))


def link_images(contents: Sequence[bytes], file: str, capability: tuple[int, int]) -> bytes:
    """One cubin of several images for a GPU of this compute capability, as the driver's linker makes it.

    PTX and relocatable cubins are linked by nvlink, and a single image of PTX needs ptxas only. Raises NoImageError and
    GpuemuError.
    """
    if len(contents) == 1 and not contents[0].startswith((ELF, MAGIC)):
        return _assembled(contents[0].rstrip(b"\0"), file, capability, ())
    parts, suffixes = [], [""]
    for number, content in enumerate(contents, 1):
        name = f"{file}, image {number}"
        if content.startswith(MAGIC):
            first, *_ = read_containers(content, name)
            entry = choose(first, capability)
            if entry is None:
                raise _no_image(name, first, capability)
            suffixes.append(entry.suffix)
            content = entry.content()
        if not content.startswith(ELF):
            target = _TARGET.search(content)
            suffixes.append(target[2].decode() if target else "")
            content = _assembled(content.rstrip(b"\0"), name, capability, ("-c",))
        parts.append(content)
    return linked(parts, file, _name(capability, max(suffixes)))


def _version(capability: tuple[int, int]) -> int:
    return 10 * capability[0] + capability[1]


def _machine_code(entry: FatEntry, capability: tuple[int, int]) -> bytes:
    content = entry.content()
    if entry.kind == "cubin":
        return content
    return _assembled(content.rstrip(b"\0"), entry.file, capability, shlex.split(entry.options))


def _assembled(ptx: bytes, file: str, capability: tuple[int, int], options: Iterable[str]) -> bytes:
    target = _TARGET.search(ptx)
    suffix = target[2].decode() if target else ""
    return assembled(ptx, f"{file} (PTX)", _name(capability, suffix), tuple(options))


def _name(capability: tuple[int, int], suffix: str) -> str:
    return f"sm_{_version(capability)}{suffix}"


def _no_image(file: str, entries: Iterable[FatEntry], capability: tuple[int, int]) -> NoImageError:
    there = dict.fromkeys(f"PTX for {e.name}" if e.kind == "ptx" else e.name for e in entries)
    found = f"no code for {_name(capability, '')} ({', '.join(there) or 'none at all'} is there)"
    return NoImageError([Problem(file, None, "", found, f"Build it with nvcc -arch={_name(capability, '')}")])
