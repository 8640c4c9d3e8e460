"""Where settings come from: flag, environment, file, default, in this order.

Everything that is wrong is told together, each with its file and line, its
variable or its flag, so that whoever mends one need not come back for the next.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from forewarn import toml
from forewarn.fleet.values import is_loopback, split_listener
from forewarn.inputs import read_file
from forewarn.problems import (
    Problem,
    did_you_mean,
    not_toml,
    quoted,
    toml_lines,
    unreadable,
)
from forewarn.protocol.errors import ForewarnError
from forewarn.service import entries, options
from forewarn.service.options import OPTIONS, SECTIONS, is_socket
from forewarn.service.values import Settings, impacts, policy

__all__ = [
    "SettingRow",
    "Settings",
    "SettingsError",
    "describe",
    "impacts",
    "load_settings",
    "policy",
    "problem",
    "value_of",
]

SETTINGS_BYTES_MAX = 1024 * 1024
"""A settings file is a screen long; a larger one is another file."""

NEAR = 0.9
"""How like a setting's a variable must be to be a slip: a letter or two."""


class SettingsError(ForewarnError):
    """The settings cannot be used; nothing was started."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Tell of all problems."""
        self.problems = problems
        super().__init__(
            "\n".join(str(problem) for problem in problems),
            hint="`forewarn config show` prints the settings in force, and from where",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """A setting as `forewarn config show` prints it."""

    key: str
    value: str
    origin: str


def load_settings(
    *, file: Path | None, environ: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    """Return the settings in force; `flags` are by whole name, `timing.speed`.

    Raises SettingsError with everything that is wrong.
    """
    reader = _Reader()
    if file is not None:
        reader.read_file(file)
    reader.read_texts(
        {
            name: (environ[variable], f"environment {variable}")
            for name in OPTIONS
            if (variable := options.environment_name(name)) in environ
        }
    )
    reader.read_texts({name: (text, f"flag {name}") for name, text in flags.items()})
    if reader.problems:
        raise SettingsError(tuple(reader.problems))
    loaded = reader.settings(tuple(_strangers(environ)))
    _check_together(loaded)
    return loaded


def describe(settings: Settings) -> tuple[SettingRow, ...]:
    """Return every setting with its value and its origin, in the file's order."""
    return (
        *(
            SettingRow(
                key=name,
                value=options.shown(option, value_of(settings, name)),
                origin=settings.origins.get(name, "default"),
            )
            for name, option in OPTIONS.items()
        ),
        *_entry_rows(settings),
    )


def _entry_rows(settings: Settings) -> Iterator[SettingRow]:
    """Yield the keys of arrays' tables, each table by its own name."""
    for array, kind in entries.ARRAYS.items():
        for number, entry in enumerate(getattr(settings, array), start=1):
            for key in (each.name for each in fields(kind)):
                option = entries.OPTIONS[f"{array}.{key}"]
                yield SettingRow(
                    key=f"{array}.{entry.name}.{key}",
                    value=options.shown(option, getattr(entry, key)),
                    origin=settings.origins.get(f"{array}.{number}.{key}", "default"),
                )


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its whole name."""
    section, _, key = name.rpartition(".")
    return getattr(getattr(settings, section.rpartition(".")[2]), key)


def problem(settings: Settings, name: str, message: str) -> SettingsError:
    """Return the error for a value that turns out wrong when it is used."""
    origin = settings.origins.get(name, "default")
    # A flag is called what its setting is called.
    key = "" if origin == f"flag {name}" else entries.plain(name)
    return SettingsError((Problem(file=origin, line=0, key=key, message=message),))


class _Reader:
    """Values found so far; a later source replaces an earlier one."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._values: dict[str, Any] = {}
        self._origins: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        """How many tables each array has."""

    def settings(self, warnings: tuple[str, ...]) -> Settings:
        groups = {
            section.rpartition(".")[2]: group(
                **{
                    name.rpartition(".")[2]: value
                    for name, value in self._values.items()
                    if name.rpartition(".")[0] == section
                }
            )
            for section, group in SECTIONS.items()
        }
        arrays: dict[str, Any] = {
            array: tuple(kind(**entry) for entry in self._entries(array))
            for array, kind in entries.ARRAYS.items()
        }
        return Settings(**groups, **arrays, origins=self._origins, warnings=warnings)

    def _entries(self, array: str) -> list[dict[str, Any]]:
        """Return the sound keys of each table of an array."""
        found: list[dict[str, Any]] = []
        for number in range(1, self._counts.get(array, 0) + 1):
            prefix = f"{array}.{number}."
            found.append(
                {
                    name.removeprefix(prefix): value
                    for name, value in self._values.items()
                    if name.startswith(prefix)
                }
            )
        return found

    def read_texts(self, texts: Mapping[str, tuple[str, str]]) -> None:
        for name, (text, origin) in texts.items():
            option = OPTIONS.get(name)
            if option is None:
                message = f"there is no such setting{did_you_mean(name, OPTIONS)}"
                self._blame(origin, 0, "", message)
                continue
            try:
                self._values[name] = options.from_text(option, text)
                self._origins[name] = origin
            except ValueError as error:
                self._blame(origin, 0, "", str(error))

    def read_file(self, file: Path) -> None:
        text = self._text_of(file)
        if text is None:
            return
        try:
            tables = toml.loads(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(not_toml(error, file=str(file), text=text))
            return
        lines = toml_lines(text)
        for name, value in _leaves(tables):
            line = lines.get(name, lines.get(name.rpartition(".")[0], 0))
            self._take(str(file), line, name, value)
        for array in entries.ARRAYS.keys() & tables.keys():
            if _is_array(tables[array]):
                self._take_array(str(file), lines, array, tables[array])

    def _take_array(
        self, file: str, lines: Mapping[str, int], array: str, tables: list[Any]
    ) -> None:
        """Look at the tables of an array as wholes, and at all of them together."""
        self._counts[array] = len(tables)
        for number, table in enumerate(tables, start=1):
            where = f"{array}.{number}"
            for key in entries.NEEDED[array]:
                if key not in table:
                    line = lines.get(where, 0)
                    self._blame(file, line, f"{array}.{key}", "is missing")
        for name, message in entries.wrong(array, self._entries(array)):
            self._blame(file, lines.get(name, 0), entries.plain(name), message)

    def _text_of(self, file: Path) -> str | None:
        try:
            return read_file(file, most=SETTINGS_BYTES_MAX).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(unreadable(error, file=str(file)))
        return None

    def _take(self, file: str, line: int, name: str, value: object) -> None:
        known = entries.plain(name)
        option = entries.OPTIONS.get(known) if known != name else OPTIONS.get(name)
        if option is None or isinstance(value, dict):
            self._blame(file, line, known, _unknown(known))
            return
        try:
            self._values[name] = options.from_toml(option, value)
            self._origins[name] = f"{file}:{line}" if line else file
        except ValueError as error:
            self._blame(file, line, known, str(error))

    def _blame(self, file: str, line: int, key: str, message: str) -> None:
        self.problems.append(Problem(file=file, line=line, key=key, message=message))


def _leaves(tables: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield each value by its whole name, unknown tables as they are."""
    for key, value in tables.items():
        if key in entries.ARRAYS and _is_array(value):
            for number, entry in enumerate(value, start=1):
                for inner, leaf in entry.items():
                    yield f"{key}.{number}.{inner}", leaf
            continue
        if key not in SECTIONS or not isinstance(value, dict):
            yield key, value
            continue
        for inner, leaf in cast("dict[str, Any]", value).items():
            name = f"{key}.{inner}"
            if name in SECTIONS and isinstance(leaf, dict):
                for last, deep in cast("dict[str, Any]", leaf).items():
                    yield f"{name}.{last}", deep
            else:
                yield name, leaf


def _is_array(value: object) -> bool:
    """Tell whether a value is an array of tables, and nothing else."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return bool(items) and all(isinstance(item, dict) for item in items)


def _unknown(name: str) -> str:
    section, _, key = name.rpartition(".")
    if name in entries.ARRAYS:
        return f"must be an array of tables: [[{name}]]"
    if section in entries.ARRAYS:
        keys = [known.partition(".")[2] for known in entries.OPTIONS]
        return f"there is no such setting{did_you_mean(key, keys)}"
    if name in SECTIONS:
        return f"must be a table: [{name}]"
    if section in SECTIONS:
        keys = [
            known.rpartition(".")[2]
            for known in OPTIONS
            if known.rpartition(".")[0] == section
        ]
        elsewhere = [known for known in OPTIONS if known.rpartition(".")[2] == key]
        hint = did_you_mean(key, keys)
        if not hint and elsewhere:
            hint = f" (it belongs to [{elsewhere[0].rpartition('.')[0]}])"
        return f"there is no such setting{hint}"
    return f"there is no such table{did_you_mean(name, (*SECTIONS, *entries.ARRAYS))}"


def _strangers(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with variables that nearly name a setting.

    Others may have any name: container platforms make variables of ours.
    """
    variables = [options.environment_name(name) for name in OPTIONS]
    for variable in environ:
        if not variable.startswith("FOREWARN_") or variable in variables:
            continue
        near = difflib.get_close_matches(variable, variables, n=1, cutoff=NEAR)
        if near:
            yield (
                f"the variable {quoted(variable)} is not used "
                f"(did you mean {quoted(near[0])}?)"
            )


def _check_together(settings: Settings) -> None:
    admin = settings.admin
    if bool(admin.tls_certificate) is not bool(admin.tls_key):
        named, missing = (
            ("tls_certificate", "tls_key")
            if admin.tls_certificate
            else ("tls_key", "tls_certificate")
        )
        raise problem(settings, f"admin.{named}", f"needs admin.{missing} beside it")
    if is_socket(admin.listen):
        if admin.tls_certificate:
            raise problem(
                settings, "admin.tls_certificate", "has no use at a Unix socket"
            )
        return
    address = split_listener(admin.listen)
    assert address is not None, admin.listen
    if not is_loopback(address[0]) and not settings.admin.token_file:
        raise problem(
            settings,
            "admin.listen",
            f"{settings.admin.listen} is reachable from other machines, so "
            "admin.token_file must name a file of tokens",
        )
