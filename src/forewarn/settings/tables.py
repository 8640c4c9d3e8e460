"""Read the tables of a TOML file as declared by a format, and collect all problems.

A format declares its keys as options and reads each table with them. This module
checks single values and reports problems with file, line and key. Each format checks
its rules between values and reports problems through `blame`.
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
    """A file that cannot be used; nothing was done with it."""

    advice = ""
    """The hint; each format has its own."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Report the first problems, in the order of their lines.

        It consumes no more of `problems` than it reports.
        """
        found = tuple(islice(problems, PROBLEMS_MAX + 1))
        told = sorted(found[:PROBLEMS_MAX], key=lambda each: each.line)
        self.problems = tuple(told)
        lines = [str(problem) for problem in told]
        if len(found) > PROBLEMS_MAX:
            lines.append(f"and more: these are the first {PROBLEMS_MAX}")
        super().__init__("\n".join(lines), hint=self.advice)


class Tables:
    """The tables of one file and their problems."""

    noun = "key"
    """The word for a key in messages."""

    def __init__(self, file: str) -> None:
        """Start empty; `file` is the file name in messages."""
        self.problems: list[Problem] = []
        self.file = file
        self._text = ""
        self._lines: Lines | None = None

    def parse(self, text: str) -> dict[str, Any] | None:
        """Return the tables of a text; if it is not TOML, report that and return None."""
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
        """Return the valid values of the table with the full name `where`.

        Unknown keys, invalid values and missing keys are reported. `of` is appended to
        the message about an unknown key.
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
        """Return the tables of an array; empty if it is not an array or is too long."""
        found = cast("list[object]", value) if isinstance(value, list) else []
        if not found or not all(isinstance(each, dict) for each in found):
            self.blame(name, f"must be an array of tables: [[{name}]]")
        elif len(found) > most:
            self.blame(
                f"{name}.{most + 1:.0f}",
                f"has more than {most:.0f} tables, the maximum",
            )
        else:
            return cast("list[dict[str, Any]]", found)
        return []

    def blame(self, name: str, message: str) -> None:
        """Report a problem of the key with the full name `name`, at its line."""
        first, *parts = name.split(".")
        shown = [first, *(part for part in parts if not part.isdigit())]
        key = ".".join(
            part if not part or _BARE.fullmatch(part) else quoted(part)
            for part in shown
        )
        self.tell(self.file, self.line(name), key, message)

    def tell(self, file: str, line: int, key: str, message: str) -> None:
        """Record a problem."""
        self.problems.append(Problem(file=file, line=line, key=key, message=message))

    def line(self, name: str) -> int:
        """Return the line of a key, given its full name, or of its table."""
        if self._lines is None:
            self._lines = Lines(self._text)
        return self._lines.line(name)

    def note(self, name: str) -> None:
        """Record where a valid key is set; subclasses override this."""

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
