"""Where settings come from: flag, environment, file, default, in this order.

Everything that is wrong is told together, each with its file and line, its
variable or its flag, so that whoever mends one need not come back for the next.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from forewarn.fleet.problems import Problem, did_you_mean, quoted
from forewarn.fleet.values import split_listener
from forewarn.protocol.errors import ForewarnError
from forewarn.service import options
from forewarn.service.options import OPTIONS, SECTIONS
from forewarn.service.values import Settings, impacts, policy

__all__ = [
    "SettingRow",
    "Settings",
    "SettingsError",
    "describe",
    "impacts",
    "is_loopback",
    "load_settings",
    "policy",
    "problem",
    "value_of",
]

SETTINGS_BYTES_MAX = 1024 * 1024
"""A settings file is a screen long; a larger one is another file."""

NEAR = 0.9
"""How like a setting's a variable must be to be a slip: a letter or two."""

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_HEADER = re.compile(r"[ \t]*\[[ \t]*([A-Za-z0-9_.\" \t-]+?)[ \t]*\]")
_KEY = re.compile(r"[ \t]*([A-Za-z0-9_-]+)[ \t]*[=.]")


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
    return tuple(
        SettingRow(
            key=name,
            value=options.shown(option, value_of(settings, name)),
            origin=settings.origins.get(name, "default"),
        )
        for name, option in OPTIONS.items()
    )


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its whole name."""
    section, _, key = name.rpartition(".")
    return getattr(getattr(settings, section.rpartition(".")[2]), key)


def problem(settings: Settings, name: str, message: str) -> SettingsError:
    """Return the error for a value that turns out wrong when it is used."""
    origin = settings.origins.get(name, "default")
    return SettingsError((Problem(file=origin, line=0, key=name, message=message),))


class _Reader:
    """Values found so far; a later source replaces an earlier one."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._values: dict[str, Any] = {}
        self._origins: dict[str, str] = {}

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
        return Settings(**groups, origins=self._origins, warnings=warnings)

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
            tables = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            at = _AT_LINE.search(str(error))
            message = str(error)[: at.start()] if at else str(error)
            line = int(at[1]) if at else 0
            self._blame(str(file), line, "", f"this is not TOML: {message}")
            return
        lines = _lines_of(text)
        for name, value in _leaves(tables):
            line = lines.get(name, lines.get(name.rpartition(".")[0], 0))
            self._take(str(file), line, name, value)

    def _text_of(self, file: Path) -> str | None:
        try:
            with file.open("rb") as opened:
                data = opened.read(SETTINGS_BYTES_MAX + 1)
            if len(data) > SETTINGS_BYTES_MAX:
                self._blame(str(file), 0, "", "is too large for a settings file")
                return None
            return data.decode("utf-8-sig")
        except OSError as error:
            self._blame(str(file), 0, "", f"cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            self._blame(str(file), 0, "", "is not UTF-8")
        return None

    def _take(self, file: str, line: int, name: str, value: object) -> None:
        option = OPTIONS.get(name)
        if option is None or isinstance(value, dict):
            self._blame(file, line, name, _unknown(name))
            return
        try:
            self._values[name] = options.from_toml(option, value)
            self._origins[name] = f"{file}:{line}" if line else file
        except ValueError as error:
            self._blame(file, line, name, str(error))

    def _blame(self, file: str, line: int, key: str, message: str) -> None:
        self.problems.append(Problem(file=file, line=line, key=key, message=message))


def _leaves(tables: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield each value by its whole name, unknown tables as they are."""
    for key, value in tables.items():
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


def _unknown(name: str) -> str:
    section, _, key = name.rpartition(".")
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
    return f"there is no such table{did_you_mean(name, SECTIONS)}"


def _lines_of(text: str) -> dict[str, int]:
    """Return the line of each table and key, in a text that is valid TOML.

    Inside a text of several lines it may see keys that are none; the settings
    have no such texts, so this could only misplace the report of a mistake.
    """
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = re.sub(r"[\s\"]", "", header[1])
            found.setdefault(section, number)
        elif key := _KEY.match(line):
            found.setdefault(f"{section}.{key[1]}" if section else key[1], number)
    return found


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


def is_loopback(listen: str) -> bool:
    """Tell whether only this machine reaches a listener."""
    address = split_listener(listen)
    assert address is not None, listen
    host = address[0]
    return host in {"localhost", "::1"} or host.startswith("127.")


def _check_together(settings: Settings) -> None:
    if not is_loopback(settings.admin.listen) and not settings.admin.token_file:
        raise problem(
            settings,
            "admin.listen",
            f"{settings.admin.listen} is reachable from other machines, so "
            "admin.token_file must name a file of tokens",
        )
