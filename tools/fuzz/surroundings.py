"""What lies around an input: damaged caches, names that would be commands, and outputs that are no plain files."""

from __future__ import annotations

import os
import random
import re
import shutil
import stat
import unicodedata
from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import mutators

from gpuemu.base import cache
from gpuemu.base.errors import GpuemuError
from gpuemu.base.shown import name_of_a_line, shown, shown_in_a_line
from gpuemu.base.whole_files import write_whole
from gpuemu.sass.tools import nvcc
from gpuemu.sass.tools.options import ELF, sorted_options

PIECES = (
    "$(touch X)", "`touch X`", ";touch X;", "'", '"', "\\", "\n", "\r", "\t", "\x1b[2J", "\x9b2J", "\x07", "-",
    "--help", "@", "#", " ", "  ", "%s", "\u00e9", "\u202e", "\udcff", "*", "?", "a", "k", "\x7f", "&", "|", ">X",
    "<", ",", "=",
)  # fmt: skip
SAFE = re.compile(r"[\w@%+=:,./-]+")


class Surroundings:
    """Kinds of inputs beside those of `Inputs`, which has the folder."""

    folder: Path

    def cache(self, choose: random.Random) -> None:
        """Compiled code that is kept, one file of it damaged: it is as it was, or it is thrown away."""
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        home, single = self.folder / "cache" / "code", self.folder / "cache" / "cubins" / "one"
        content = {f"part{n}": choose.randbytes(choose.choice((1, 100, 3000))) for n in range(choose.choice((1, 3)))}
        place, _ = cache.ready(home)
        for name, data in content.items():
            (place / name).write_bytes(data)
        cache.keep(place, home)
        cache.keep_file(single, b"".join(content.values()), 1 << 20)
        for path in (choose.choice((home / choose.choice([*content, cache.LIST]), home)), single):
            self._damage(choose, path)
        with redirect_stderr(StringIO()) as said:
            whole, alone = cache.is_whole(home), cache.kept_file(single)
        assert not whole or all((home / name).read_bytes() == data for name, data in content.items())
        assert alone in (None, b"".join(content.values()))
        assert whole or not home.exists()
        assert len(said.getvalue().splitlines()) <= 2
        assert cache.ready(home)[1] == whole

    def _damage(self, choose: random.Random, path: Path) -> None:
        how = choose.choice(("none", "bytes", "gone", "a folder", "a link"))
        if how == "none":
            return
        if how == "bytes" and path.is_file():
            path.write_bytes(mutators.data(choose, path.read_bytes()))
            return
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        if how == "a folder":
            path.mkdir()
        elif how == "a link":
            path.symlink_to(choose.choice(("/dev/null", "nowhere", path.name)))

    def name(self, choose: random.Random) -> None:
        """A file, definitions, folders and flags of any letters: none stands in a command line, none is sent."""
        file, value, folder, flag = ("".join(choose.choices(PIECES, k=choose.choice((1, 2, 5)))) for _ in range(4))
        options = [choose.choice(("-DA=", "-D", "-DA")) + value, f"-I{folder}"]
        options += [f"-Xptxas={flag}"] if choose.random() < 0.3 else []

        def run(command: Sequence[str]) -> CompletedProcess[str]:
            assert all(SAFE.fullmatch(word) for word in command if word != f"-Xptxas={flag}"), command
            Path(command[command.index("-o") + 1]).write_bytes(ELF)
            return CompletedProcess(command, 0, "", "")

        for text in (file, value, folder):
            sent = shown(text).translate({9: None, 10: None, 13: None})
            assert all(unicodedata.category(c) not in ("Cc", "Cs") for c in sent)
            assert shown_in_a_line(text).splitlines() == [shown_in_a_line(text)]
        assert not {'"', "\\", "\n"} & {*name_of_a_line(file)}
        sorted_options(options)
        with nvcc.prepared("nvcc", b"", file, "sm_89", options) as compilation:
            assert compilation.compiled(run) == ("", ELF)

    def output(self, choose: random.Random) -> None:
        """A place to write to of any kind: what it was it stays, and what it holds is whole."""
        place = self.folder / "outputs"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        target, kind, data = place / "out", choose.choice(tuple(MAKE)), choose.randbytes(choose.choice((0, 10, 9000)))
        MAKE[kind](target)
        before = _kind_of(target)
        try:
            write_whole(target, data)
        except GpuemuError:
            assert kind in ("a folder", "full", "a link to a link", "nowhere")
        else:
            assert kind in ("device", "full") or target.read_bytes() == data
        assert kind == "none" or _kind_of(target) == before
        assert {path.name for path in place.iterdir()} <= {"out", "other"}


def _kind_of(path: Path) -> tuple[Any, ...]:
    if not os.path.lexists(path):
        return ()
    own = path.lstat()
    there = path.stat() if path.exists() else own
    links = there.st_nlink if stat.S_ISREG(there.st_mode) else 0
    return stat.S_IFMT(own.st_mode), there.st_mode, there.st_uid, links


def _with_content(path: Path, mode: int = 0o640) -> None:
    path.write_bytes(b"before" * 100)
    path.chmod(mode)


MAKE: dict[str, Any] = {
    "none": lambda path: None,
    "a file": _with_content,
    "a private file": lambda path: _with_content(path, 0o600),
    "a link": lambda path: (_with_content(path.with_name("other")), path.symlink_to("other")),
    "two names": lambda path: (_with_content(path.with_name("other")), path.hardlink_to(path.with_name("other"))),
    "a link to a link": lambda path: path.symlink_to("out"),
    "nowhere": lambda path: path.symlink_to("no/where"),
    "a folder": lambda path: path.mkdir(),
    "device": lambda path: path.symlink_to("/dev/null"),
    "full": lambda path: path.symlink_to("/dev/full"),
}
