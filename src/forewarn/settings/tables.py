"""Read the tables of a TOML file by what is declared of them, and keep every problem.

A format declares its keys as options and takes each table with them. What is wrong
with one value is found here, with its file, line and key; what must hold between values
is told by each format, through `blame`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, cast

from forewarn import toml
from forewarn.problems import PROBLEMS_MAX, Problem, did_you_mean, not_toml, quoted
from forewarn.protocol.errors import ForewarnError
from forewarn.settings.forms import Forms, Option, from_toml
from forewarn.settings.lines import Lines

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class FileError(ForewarnError):
    """A file cannot be used; nothing was done with it."""

    advice = ""
    """What to do next; each format has its own."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Tell of the first problems, in the order of their lines.

        No more of them are asked for than are told.
        """
        found = tuple(islice(problems, PROBLEMS_MAX + 1))
        told = sorted(found[:PROBLEMS_MAX], key=lambda each: each.line)
        self.problems = tuple(told)
        lines = [str(problem) for problem in told]
        if len(found) > PROBLEMS_MAX:
            lines.append(f"and more: these are the first {PROBLEMS_MAX}")
        super().__init__("\n".join(lines), hint=self.advice)


class Tables:
    """The tables of one file, and everything that is wrong with them."""

    noun = "key"
    """What messages call a key."""

    def __init__(self, file: str) -> None:
        """Begin with nothing; `file` is its name for messages."""
        self.problems: list[Problem] = []
        self.file = file
        self._text = ""
        self._lines: Lines | None = None

    def parse(self, text: str) -> dict[str, Any] | None:
        """Return the tables of a text; None, and a problem, where it is not TOML."""
        try:
            tables = toml.loads(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(not_toml(error, file=self.file, text=text))
            return None
        self._text, self._lines = text, None
        return tables

    def take(
        self,
        where: str,
        table: Mapping[str, object],
        options: Mapping[str, Option],
        *,
        of: str = "",
    ) -> dict[str, Any]:
        """Return the sound values of a table, whose whole name is `where`.

        Problems are kept: keys that there are not, wrong values, missing keys. `of`
        ends the sentence about a key that there is not: for what there is none.
        """
        sound: dict[str, Any] = {}
        for key, value in table.items():
            option = options.get(key)
            name = f"{where}.{key}" if where else key
            if option is None:
                near = did_you_mean(key, options)
                self.blame(name, f"there is no such {self.noun}{of}{near}")
                continue
            try:
                sound[key] = self._value(name, option, value)
            except ValueError as error:
                self.blame(name, str(error))
            else:
                self.note(name)
        for key, option in options.items():
            if option.is_needed and key not in table:
                self.blame(f"{where}.{key}" if where else key, "is missing")
        return sound

    def entries(self, name: str, value: object, most: float) -> list[dict[str, Any]]:
        """Return the tables of an array; none where it is no array, or too long."""
        found = cast("list[object]", value) if isinstance(value, list) else []
        if not found or not all(isinstance(each, dict) for each in found):
            self.blame(name, f"must be an array of tables: [[{name}]]")
        elif len(found) > most:
            self.blame(f"{name}.{most + 1:.0f}", f"there may be {most} at most")
        else:
            return cast("list[dict[str, Any]]", found)
        return []

    def blame(self, name: str, message: str) -> None:
        """Tell of a fault of a key by its whole name, where it was written."""
        first, *parts = name.split(".")
        shown = [first, *(part for part in parts if not part.isdigit())]
        key = ".".join(
            part if not part or _BARE.fullmatch(part) else quoted(part)
            for part in shown
        )
        self.tell(self.file, self.line(name), key, message)

    def tell(self, file: str, line: int, key: str, message: str) -> None:
        """Keep a problem."""
        self.problems.append(Problem(file=file, line=line, key=key, message=message))

    def line(self, name: str) -> int:
        """Return the line of a key by its whole name, or of the table that it is in."""
        if self._lines is None:
            self._lines = Lines(self._text)
        return self._lines.line(name)

    def note(self, name: str) -> None:
        """Take note of a sound key: for those who want to know where it was written."""

    def _value(self, name: str, option: Option, value: object) -> Any:
        if option.form is Forms.TABLES:
            found = self.entries(name, value, option.most)
            if option.keys is None:
                return found
            return [
                self.take(f"{name}.{number}", entry, option.keys)
                for number, entry in enumerate(found, start=1)
            ]
        read = from_toml(option, value)
        return read if option.keys is None else self.take(name, read, option.keys)
