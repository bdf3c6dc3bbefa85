"""Read the parts of a mangled C++ kernel symbol: its template arguments, and the types of its parameters.

    signature("_Z4axpyIfEvT_PKS0_PS0_")      arguments ("float",), parameters ("float", "const float*", "float*")

This module knows the part of the Itanium C++ ABI that kernels use: types, templates and their packs, and back
references to both. Typedefs and macros are already resolved in a symbol. Expressions, as in decltype, are not
supported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

_BUILTIN = {
    "a": "signed char", "b": "bool", "c": "char", "d": "double", "e": "long double", "f": "float", "g": "__float128",
    "h": "unsigned char", "i": "int", "j": "unsigned", "l": "long", "m": "unsigned long", "n": "__int128",
    "o": "unsigned __int128", "s": "short", "t": "unsigned short", "v": "void", "w": "wchar_t", "x": "long long",
    "y": "unsigned long long", "z": "...", "Dh": "_Float16", "DF16_": "_Float16", "DF16b": "__bf16", "Dn": "nullptr_t",
    "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t",
}  # fmt: skip
_STANDARD = {"t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
             "o": "std::ostream", "d": "std::iostream"}  # fmt: skip
_LENGTH = re.compile(r"\d+")
_SEQUENCE = re.compile(r"([0-9A-Z]*)_")
_LITERAL = re.compile(r"(n?)(\d+)E")
_ARRAY = re.compile(r"(\d+)_")
_ENDINGS = {"P": "*", "R": "&", "O": "&&"}
_QUALIFIERS = {"r": "restrict", "V": "volatile", "K": "const"}
_MOST_DEPTH, _MOST_LETTERS = 64, 4096


@dataclass(frozen=True)
class Signature:
    """The arguments of a kernel's template and the types of its parameters, each as written in C++."""

    arguments: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def signature(symbol: str) -> Signature:
    """Read a mangled symbol. A part that is absent or not supported is ()."""
    reader = _Reader(symbol, 2)
    arguments: tuple[str, ...] = ()
    if not symbol.startswith("_Z"):
        return Signature()
    try:
        reader.name(of_function=True)
        arguments = tuple(word for argument in reader.arguments for word in argument)
        if reader.is_template:
            reader.type()  # a template's symbol begins with its return type
        parameters: list[str] = []
        while reader.at < len(symbol):
            parameters += reader.types()
    except (IndexError, ValueError):
        return Signature(arguments)
    return Signature(arguments, () if parameters == ["void"] else tuple(parameters))


@dataclass
class _Reader:
    """A position in a symbol. `known` are the meanings of S_, S0_ etc., `arguments` those of T_, T0_: type packs."""

    text: str
    at: int
    known: list[tuple[str, ...]] = field(default_factory=list)
    arguments: list[tuple[str, ...]] = field(default_factory=list)
    is_template: bool = False
    depth: int = 0

    def take(self, letters: str) -> str:
        """Return the next letter if it is one of these, otherwise ""."""
        if self.at < len(self.text) and self.text[self.at] in letters:
            self.at += 1
            return self.text[self.at - 1]
        return ""

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            self.unread()
        self.at = found.end()
        return found

    def unread(self) -> NoReturn:
        raise ValueError(self.text)

    def name(self, of_function: bool = False) -> str:
        """Read a name with its template arguments; a function's last ones are the meaning of T_ in its parameters."""
        nested = bool(self.take("N"))
        while nested and self.take("rVKRO"):
            pass
        found, given = "", ""
        while True:
            start = self.at
            if self.take("I"):
                if start == 2:
                    self.unread()
                arguments = self.template_arguments()
                given = f"<{', '.join(word for argument in arguments for word in argument)}>"
                found += given
                if of_function:
                    self.arguments, self.is_template = arguments, True
            elif self.take("T"):
                found, given = self.arguments[self.number()][0], ""
            elif self.text[self.at] == "S":
                found, given = self.substitution()[0], ""
                if found == "std":  # std itself has no number
                    found = f"std::{self.part()}"
            else:
                found, given = f"{found}::{self.part()}" if found else self.part(), ""
            if len(found) > _MOST_LETTERS:
                self.unread()
            if nested and self.take("E"):
                break
            last = not nested and (self.at >= len(self.text) or self.text[self.at] != "I" or bool(given))
            if last:
                break
            if self.text[start] != "S" or self.text[start : start + 2] == "St":
                self.known.append((found,))
        if of_function and not given:
            self.arguments, self.is_template = [], False
        return found

    def part(self) -> str:
        """Read a name as it is in the source."""
        self.take("L")  # internal linkage
        length = int(self.match(_LENGTH)[0])
        self.at += length
        if self.at > len(self.text):
            self.unread()
        return self.text[self.at - length : self.at]

    def template_arguments(self) -> list[tuple[str, ...]]:
        """Read the template arguments after an I, up to its E."""
        found = []
        while not self.take("E"):
            if self.take("J"):
                pack: list[str] = []
                while not self.take("E"):
                    pack += self.argument()
                found.append(tuple(pack))
            else:
                found.append(self.argument())
        return found

    def argument(self) -> tuple[str, ...]:
        if not self.take("L"):
            return self.types()
        kind = self.type()
        minus, digits = self.match(_LITERAL).groups()
        if kind == "bool":
            return (("false", "true")[int(digits) & 1],)
        return ("-" * bool(minus) + digits,)

    def substitution(self) -> tuple[str, ...]:
        """Return the meaning of an S with its number."""
        self.at += 1
        if standard := self.take("".join(_STANDARD)):
            return (_STANDARD[standard],)
        return self.known[self.number()]

    def number(self) -> int:
        """Return the index that _, 0_, 1_ ... mean, in base 36."""
        digits = self.match(_SEQUENCE)[1]
        return int(digits, 36) + 1 if digits else 0

    def type(self) -> str:
        found = self.types()
        if len(found) != 1:
            self.unread()
        return found[0]

    def types(self) -> tuple[str, ...]:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            self.unread()
        try:
            return self.one_kind_of_type()
        finally:
            self.depth -= 1

    def one_kind_of_type(self) -> tuple[str, ...]:
        letter = self.text[self.at]
        for code in (letter, self.text[self.at : self.at + 2], self.text[self.at : self.at + 5]):
            if code in _BUILTIN:
                self.at += len(code)
                return (_BUILTIN[code],)
        if self.text.startswith("Dp", self.at):
            self.at += 2
            return self.kept(self.types())
        if self.take("T"):
            found = self.kept(self.arguments[self.number()])
        elif letter == "S" and self.text[self.at + 1] != "t":
            found = self.substitution()
        elif letter in _QUALIFIERS:
            words = []
            while word := self.take("".join(_QUALIFIERS)):
                words.append(_QUALIFIERS[word])
            words = [word for word in words if word != "restrict"]
            return self.kept(tuple(" ".join([*words, inner]) for inner in self.types()))
        elif ending := self.take("".join(_ENDINGS)):
            return self.kept(tuple(inner + _ENDINGS[ending] for inner in self.types()))
        elif self.take("A"):
            length = self.match(_ARRAY)[1]
            return self.kept((f"{self.type()}[{length}]",))
        elif self.take("F"):
            self.take("Y")
            returned = self.type()
            given: list[str] = []
            while not self.take("E"):
                given += self.types()
            return self.kept((f"{returned}({', '.join(given)})",))
        elif letter == "N" or letter.isdigit() or letter == "S":
            return self.kept((self.name(),))
        else:
            self.unread()
        if self.text[self.at : self.at + 1] == "I" and letter == "S":
            self.at += 1
            words = [word for argument in self.template_arguments() for word in argument]
            return self.kept((f"{found[0]}<{', '.join(words)}>",))
        return found

    def kept(self, found: tuple[str, ...]) -> tuple[str, ...]:
        """Number a type, so that later parts can refer to it."""
        if sum(map(len, found)) > _MOST_LETTERS:
            self.unread()
        self.known.append(found)
        return found
