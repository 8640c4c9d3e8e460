"""Read TOML files and settings as declared by a format, and collect all problems.

A format declares its keys as options and reads each table with them. This module
checks single values and reports problems with file, line and key. Each format checks
its rules between values and reports problems through `blame`. `Reader` also reads
settings from the environment and flags, and reports their variable or flag. All
problems are reported together, so that the user can fix them in one go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

from forewarn import toml
from forewarn.problems import (
    PROBLEMS_MAX,
    Problem,
    did_you_mean,
    not_toml,
    quoted,
    unreadable,
)
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Forms, Option, from_text, from_toml, shown
from forewarn.settings.lines import Lines

SETTINGS_BYTES_MAX = 1024 * 1024
"""Maximum size of a settings file: real ones have a few kilobytes."""

ENTRIES_MAX = 100
"""Maximum tables of one array: handlers, rules and receivers are few."""

NEAR = 0.9
"""Minimum similarity, from 0 to 1, at which an unknown variable counts as a typo of a
setting: one or two letters differ. Container platforms set other FOREWARN_ variables."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class FileError(ForewarnError):
    """A file that cannot be used; nothing was done with it."""

    advice = ""
    """The hint; each format has its own."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Report the first problems, in the order of their lines.

        It consumes no more of `problems` than it reports.
        """
        first = tuple(islice(problems, PROBLEMS_MAX + 1))
        shown = sorted(first[:PROBLEMS_MAX], key=lambda problem: problem.line)
        self.problems = tuple(shown)
        lines = [str(problem) for problem in shown]
        if len(first) > PROBLEMS_MAX:
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
        """Return the tables of a string; if it is not TOML, report that and return None."""
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
        items = cast("list[object]", value) if isinstance(value, list) else []
        if not items or not all(isinstance(item, dict) for item in items):
            self.blame(name, f"must be an array of tables: [[{name}]]")
        elif len(items) > most:
            self.blame(
                f"{name}.{most + 1:.0f}",
                f"has more than {most:.0f} tables, the maximum",
            )
        else:
            return cast("list[dict[str, Any]]", items)
        return []

    def blame(self, name: str, message: str) -> None:
        """Report a problem of the key with the full name `name`, at its line."""
        first, *parts = name.split(".")
        parts = [first, *(part for part in parts if not part.isdigit())]
        key = ".".join(
            part if not part or _BARE.fullmatch(part) else quoted(part)
            for part in parts
        )
        self.report(self.file, self.line(name), key, message)

    def report(self, file: str, line: int, key: str, message: str) -> None:
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
            items = self.entries(name, value, option.most)
            if option.keys is None:
                return items
            return [
                self.take(f"{name}.{number}", entry, option.keys)
                for number, entry in enumerate(items, start=1)
            ]
        read = from_toml(option, value)
        return read if option.keys is None else self.take(name, read, option.keys)


@frozen_dataclass
class SettingRow:
    """A setting in force, as a command prints it."""

    key: str
    value: str
    origin: str


@frozen_dataclass
class Format:
    """The allowed content of a settings file."""

    options: Mapping[str, Option]
    """The settings outside arrays, by full name, in the order of the file."""
    tables: Collection[str]
    """The names of the tables, `driver.simulated`."""
    arrays: Mapping[str, Mapping[str, Option]]
    """The keys that every table of an array can have."""
    variable: Callable[[str], str]
    """Returns the environment variable for a setting."""
    flag: Callable[[str], str]
    """Returns the name of a setting's flag for messages."""
    named: Mapping[str, Mapping[str, Option]]
    """The keys of tables whose names the author chooses, `[host_step.NAME]`."""

    def keys_of(self, table: str) -> list[str]:
        """Return the names of the settings of a table, without the table's name.

        "" means no table.
        """
        return [
            name.rpartition(".")[2]
            for name in self.options
            if name.rpartition(".")[0] == table
        ]

    def rows(
        self, value_of: Callable[[str], Any], origins: Mapping[str, str]
    ) -> Iterable[SettingRow]:
        """Yield each setting outside arrays with its value and its origin."""
        for name, option in self.options.items():
            yield SettingRow(
                key=name,
                value=shown(option, value_of(name)),
                origin=origins.get(name, "default"),
            )


class Reader(Tables):
    """The values read so far; a later source overrides an earlier one."""

    noun = "setting"

    def __init__(
        self, known: Format, *, file: str, read: Callable[[str, int], bytes]
    ) -> None:
        """Start empty; `read_file` reads `file`.

        `read` returns the content of a file, up to a number of bytes; it raises OSError.
        """
        super().__init__(file)
        self.origins: dict[str, str] = {}
        """The origin of each value, by full name, such as `webhook.2.url`."""
        self.arrays: dict[str, list[dict[str, Any]]] = {
            name: [] for name in known.arrays
        }
        """The valid keys of each table of each array."""
        self.named: dict[str, dict[str, dict[str, Any]]] = {
            group: {} for group in known.named
        }
        """The valid keys of each table with a chosen name, by group and name."""
        self.partial: set[str] = set()
        """Tables of arrays with an invalid key, such as `rule.2`."""
        self.is_blank = False
        """Whether the file exists but has no setting."""
        self._known = known
        self._read = read
        self._values: dict[str, Any] = {}

    # Hook for formats

    def entry_keys(
        self, array: str, _entry: Mapping[str, object], /
    ) -> Mapping[str, Option] | None:
        """Return the possible keys of a table in an array; None if its kind is unknown."""
        return self._known.arrays[array]

    # Sources, in the order in which callers must read them

    def read_file(self) -> None:
        """Read the file."""
        text = self._file_text()
        tables = None if text is None else self.parse(text)
        if tables is not None:
            self.is_blank = not tables
            self._take_table("", tables)

    def read_environment(self, environ: Mapping[str, str]) -> None:
        """Read the environment variables of settings."""
        for name in self._known.options:
            variable = self._known.variable(name)
            if variable in environ:
                self._read_text(name, environ[variable], f"environment {variable}")

    def read_flags(self, flags: Mapping[str, str]) -> None:
        """Read the values of flags, by the full names of the settings."""
        for name, text in flags.items():
            self._read_text(name, text, f"flag {self._known.flag(name)}")

    # Results

    def table(self, table: str) -> dict[str, Any]:
        """Return the values of a table by their names within it; "" means no table."""
        return {
            name.rpartition(".")[2]: value
            for name, value in self._values.items()
            if name.rpartition(".")[0] == table
        }

    def blame(self, name: str, message: str) -> None:
        """Report a problem with a key, and the file line, flag or variable that set
        it."""
        origin = self.origins.get(name, "")
        if origin.startswith(("flag", "environment")):
            self.report(origin, 0, "", message)
        else:
            super().blame(name, message)

    def note(self, name: str) -> None:
        """Record where a key is set."""
        line = self.line(name)
        self.origins[name] = f"{self.file}:{line}" if line else self.file

    def _read_text(self, name: str, text: str, origin: str) -> None:
        option = self._known.options.get(name)
        if option is None:
            near = did_you_mean(name, self._known.options)
            self.report(origin, 0, "", f"there is no such setting{near}")
            return
        try:
            self._values[name] = from_text(option, text)
            self.origins[name] = origin
        except ValueError as error:
            self.report(origin, 0, "", str(error))

    def _file_text(self) -> str | None:
        try:
            data = self._read(self.file, SETTINGS_BYTES_MAX + 1)
            if len(data) > SETTINGS_BYTES_MAX:
                self.report(self.file, 0, "", "is too large for a settings file")
                return None
            return data.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(unreadable(error, file=self.file))
        return None

    def _take_table(self, table: str, values: Mapping[str, object]) -> None:
        for key, value in values.items():
            name = f"{table}.{key}" if table else key
            if name in self._known.arrays:
                self._take_array(name, value)
            elif name in self._known.named:
                self._take_named(name, value)
            elif name in self._known.options:
                one = self.take(table, {key: value}, {key: self._known.options[name]})
                self._values.update((name, item) for item in one.values())
            elif name not in self._known.tables:
                self.blame(name, self._unknown(name, value))
            elif isinstance(value, dict):
                self._take_table(name, cast("dict[str, object]", value))
            else:
                self.blame(name, f"must be a table: [{name}]")

    def _take_array(self, array: str, value: object) -> None:
        entries = self.entries(array, value, ENTRIES_MAX)
        for number, entry in enumerate(entries, start=1):
            where = f"{array}.{number}"
            keys = self.entry_keys(array, entry)
            if keys is None:
                # The kind is unknown, so its other keys cannot be checked.
                keys = self._known.arrays[array]
                entry = {key: entry[key] for key in entry if key in keys}  # noqa: PLW2901
            sound = self.take(where, entry, keys)
            self.arrays[array].append(sound)
            if len(sound) < len(entry):
                self.partial.add(where)

    def _take_named(self, group: str, value: object) -> None:
        tables = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        if not tables or not all(isinstance(row, dict) for row in tables.values()):
            self.blame(group, f"must contain tables with a name: [{group}.NAME]")
            return
        if len(tables) > ENTRIES_MAX:
            self.blame(group, f"has more than {ENTRIES_MAX} tables, the maximum")
            return
        for name, table in tables.items():
            entry = cast("dict[str, object]", table)
            self.named[group][name] = self.take(
                f"{group}.{name}", entry, self._known.named[group]
            )

    def _unknown(self, name: str, value: object) -> str:
        """Return the message about an unknown key."""
        known = self._known
        table, _, key = name.rpartition(".")
        keys = known.keys_of(table)
        if not table and (isinstance(value, (dict, list)) or not keys):
            near = did_you_mean(name, [*known.tables, *known.arrays, *known.named])
            return f"there is no such table{near}"
        near = did_you_mean(key, keys)
        if near:
            return f"there is no such setting{near}"
        homes = [
            (f"[{whole.rpartition('.')[0]}]", option)
            for whole, option in known.options.items()
            if whole.rpartition(".")[2] == key and "." in whole
        ]
        homes += [
            (f"[[{array}]]", options[key])
            for array, options in known.arrays.items()
            if key in options
        ]
        homes += [
            (f"[{group}.NAME]", options[key])
            for group, options in known.named.items()
            if key in options
        ]
        homes_named = [home for home, option in homes if _takes(option, value)]
        homes_named += [home for home, _ in homes]
        home = f" (it belongs to {homes_named[0]})" if homes_named else ""
        return f"there is no such setting{home}"


def _takes(option: Option, value: object) -> bool:
    try:
        from_toml(option, value)
    except ValueError:
        return False
    return True


def slips(
    environ: Mapping[str, str], prefix: str, known: Collection[str]
) -> Iterator[str]:
    """Yield a message for each unknown variable that looks like a typo of a known one."""
    for variable in environ:
        if not variable.startswith(prefix) or variable in known:
            continue
        near = did_you_mean(variable, known, likeness=NEAR)
        if near:
            yield f"the variable {quoted(variable)} is not used{near}"
