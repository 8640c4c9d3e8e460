"""Where an agent's settings come from: flag, environment, file, default.

Everything that is wrong is told together, each with its file and line, its variable
or its flag, so that whoever mends one need not come back for the next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from forewarn import toml
from forewarn.agent import checks, files, keys, options
from forewarn.agent.core.policy import GoneAfter
from forewarn.agent.entries import ARRAYS, ENTRIES, has_kind, keys_of, needed_of
from forewarn.agent.keys import OPTIONS, TABLES
from forewarn.agent.values import (
    GateSettings,
    HandlerSettings,
    HistorySettings,
    LockSettings,
    LogSettings,
    NotifySettings,
    PeerSettings,
    Settings,
    StandbySettings,
    WatchSettings,
)
from forewarn.problems import (
    Problem,
    did_you_mean,
    not_toml,
    quoted,
    toml_lines,
    unreadable,
)
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

SETTINGS_BYTES_MAX = 1024 * 1024
"""A settings file is a screen long; a larger one is another file."""

ENTRIES_MAX = 100
"""Tables of one array: a VM has a few handlers and rules."""


OWN_VARIABLES = "FOREWARN_AGENT_"
"""How the agent's variables begin. Others of forewarn's are the endpoint's, which each
program may read, and the service's: they are none of the agent's to judge."""

_OF_KUBERNETES = re.compile(
    r"FOREWARN_AGENT_(?:.+_)?(?:SERVICE_(?:HOST|PORT)|PORT)(?:_.*)?", re.ASCII
)
"""What Kubernetes tells every pod of a Service that is called `forewarn-agent`."""


class AgentSettingsError(ForewarnError):
    """The settings cannot be used; nothing was started."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Tell of all problems, in the order of their lines."""
        self.problems = tuple(sorted(problems, key=lambda each: each.line))
        super().__init__(
            "\n".join(str(problem) for problem in self.problems),
            hint="the page 'Settings of the agent' has every setting",
        )


@frozen_dataclass
class SettingRow:
    """A setting as `agent check --settings` prints it."""

    key: str
    value: str
    origin: str


def load_settings(
    *, file: str = "", environ: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    """Return the settings in force; `flags` are by whole name, `log.level`.

    An empty `file` is none. Raises AgentSettingsError with everything that is wrong.
    """
    reader = _Reader(file)
    if file:
        reader.read_file()
    reader.read_texts(
        {
            name: (environ[variable], f"environment {variable}")
            for name in OPTIONS
            if (variable := options.environment_name(name)) in environ
        }
    )
    reader.read_texts(
        {name: (text, f"flag {options.flag_of(name)}") for name, text in flags.items()}
    )
    reader.refuse_strangers(environ)
    found = reader.settings()
    if reader.problems:
        raise AgentSettingsError(tuple(reader.problems))
    return found


def describe(settings: Settings) -> tuple[SettingRow, ...]:
    """Return every setting that is there once, with its value and its origin."""
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
    table, _, key = name.rpartition(".")
    if table == "standby":
        standby = settings.policy.standby
        if standby is None:
            return getattr(StandbySettings(), key)
        return {
            "names": tuple(sorted(standby.names)),
            "after": standby.after,
            "source": tuple(sorted(standby.sources)),
        }[key]
    if table == "gone_after":
        return getattr(settings.policy.gone_after, key)
    if name == "peers.url":
        return settings.peers.url or settings.peers.urls
    return getattr(getattr(settings, table or "watch"), key)


class _Reader:
    """Values found so far; a later source replaces an earlier one."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._lines: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        self._origins: dict[str, str] = {}
        self._entries: dict[str, list[dict[str, Any]]] = {name: [] for name in ARRAYS}
        self._is_blank = False
        self._partial: set[str] = set()
        """The arrays' tables of which not every key is sound, as `rule.2`."""

    def settings(self) -> Settings:
        """Return what was found, after a look at all of it together."""
        peers = self._table("peers")
        url = peers.pop("url", "")
        if isinstance(url, tuple):
            peers["urls"] = url
        else:
            peers["url"] = url
        watch = WatchSettings(**self._table(""))
        others = PeerSettings(**peers)
        lock = LockSettings(**self._table("lock"))
        gate = GateSettings(**self._table("gate"))
        judge = checks.Judge(
            self._entries,
            watch=watch,
            peers=others,
            standby=StandbySettings(**self._table("standby")),
            gone_after=GoneAfter(**self._table("gone_after")),
            lock=lock,
            gate=gate,
            partial=self._partial,
        )
        policy = judge.policy()
        for name, message in judge.faults:
            self._blame(name, message)
        return Settings(
            watch=watch,
            log=LogSettings(**self._table("log")),
            history=HistorySettings(**self._table("history")),
            peers=others,
            lock=lock,
            gate=gate,
            handlers=tuple(
                HandlerSettings(**_parted("handler", entry))
                for entry in self._entries["handler"]
                if {"name", "kind"} <= entry.keys()
            ),
            notify=tuple(
                NotifySettings(**_parted("notify", entry))
                for entry in self._entries["notify"]
                if "kind" in entry
            ),
            policy=policy,
            origins=self._origins,
            warnings=tuple(judge.warnings),
            file=self._file,
            is_blank=self._is_blank,
        )

    def read_texts(self, texts: Mapping[str, tuple[str, str]]) -> None:
        """Take flags, or variables of the environment, each with its origin."""
        for name, (text, origin) in texts.items():
            option = OPTIONS.get(name)
            if option is None:
                message = f"there is no such setting{did_you_mean(name, OPTIONS)}"
                self._tell(origin, 0, "", message)
                continue
            try:
                self._values[name] = options.from_text(option, text)
                self._origins[name] = origin
            except ValueError as error:
                self._tell(origin, 0, "", str(error))

    def refuse_strangers(self, environ: Mapping[str, str]) -> None:
        """Tell of variables of the agent's that name no setting, as of keys.

        Whoever mistypes the one for a dry run must not get an agent that acts.
        """
        variables = [options.environment_name(name) for name in OPTIONS]
        for variable in sorted(environ):
            if variable in variables or _OF_KUBERNETES.fullmatch(variable):
                continue
            if variable.startswith(OWN_VARIABLES):
                near = did_you_mean(variable, variables)
                message = f"there is no such setting{near}"
                self._tell(f"environment {quoted(variable)}", 0, "", message)

    def read_file(self) -> None:
        """Take everything from the file."""
        text = self._text()
        if text is None:
            return
        try:
            tables = toml.loads(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(not_toml(error, file=self._file, text=text))
            return
        self._lines = toml_lines(text)
        self._is_blank = not tables
        for key, value in tables.items():
            if key in ARRAYS:
                self._take_array(key, value)
            elif key in TABLES and key:
                self._take_table(key, value)
            else:
                self._take(key, value)

    def _take_table(self, table: str, value: object) -> None:
        if not isinstance(value, dict):
            self._blame(table, f"must be a table: [{table}]")
            return
        for key, leaf in cast("dict[str, object]", value).items():
            self._take(f"{table}.{key}", leaf)

    def _take(self, name: str, value: object) -> None:
        option = OPTIONS.get(name)
        if option is None:
            self._blame(name, _unknown(name, value))
            return
        try:
            self._values[name] = options.from_toml(option, value)
            line = self._line(name)
            self._origins[name] = f"{self._file}:{line}" if line else self._file
        except ValueError as error:
            self._blame(name, str(error))

    def _take_array(self, array: str, value: object) -> None:
        tables = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(table, dict) for table in tables):
            self._blame(array, f"must be an array of tables: [[{array}]]")
            return
        if len(tables) > ENTRIES_MAX:
            self._blame(array, f"there may be {ENTRIES_MAX} at most")
            return
        for number, table in enumerate(tables, start=1):
            entry = cast("dict[str, object]", table)
            where = f"{array}.{number}"
            self._entries[array].append(self._entry(array, where, entry))
            for key in needed_of(array, entry.get("kind")):
                if key not in entry:
                    self._blame(where, f"{key} is missing")

    def _entry(
        self, array: str, where: str, table: Mapping[str, object]
    ) -> dict[str, Any]:
        """Return the sound keys of one table of an array."""
        sound: dict[str, Any] = {}
        known = keys_of(array, table.get("kind"))
        for key, value in table.items():
            option = known.get(key)
            if option is None and not has_kind(array, table.get("kind")):
                # Of which kind the key could be is not known.
                continue
            if option is None:
                near = did_you_mean(key, known)
                self._blame(f"{where}.{key}", f"there is no such setting{near}")
                self._partial.add(where)
                continue
            try:
                sound[key] = options.from_toml(option, value)
            except ValueError as error:
                self._blame(f"{where}.{key}", str(error))
                self._partial.add(where)
        return sound

    def _table(self, table: str) -> dict[str, Any]:
        return {
            name.rpartition(".")[2]: value
            for name, value in self._values.items()
            if name.rpartition(".")[0] == table
        }

    def _text(self) -> str | None:
        try:
            data = files.begin_of(self._file, SETTINGS_BYTES_MAX + 1)
            if len(data) > SETTINGS_BYTES_MAX:
                self._tell(self._file, 0, "", "is too large for a settings file")
                return None
            return data.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(unreadable(error, file=self._file))
        return None

    def _line(self, name: str) -> int:
        """Return the line of a key, or of the table that it is in."""
        while name:
            if name in self._lines:
                return self._lines[name]
            name = name.rpartition(".")[0]
        return 0

    def _blame(self, name: str, message: str) -> None:
        """Tell of a fault of a key by its whole name, where it was written."""
        shown = ".".join(part for part in name.split(".") if not part.isdigit())
        origin = self._origins.get(name, "")
        if origin.startswith(("flag", "environment")):
            self._tell(origin, 0, "", message)
        else:
            self._tell(self._file or "settings", self._line(name), shown, message)

    def _tell(self, file: str, line: int, key: str, message: str) -> None:
        self.problems.append(Problem(file=file, line=line, key=key, message=message))


def _parted(array: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's keys, those of its kind's own apart."""
    known, common = keys_of(array, entry["kind"]), ENTRIES[array]
    mine = {key for key in entry if known[key] is not common.get(key)}
    return {
        **{key: value for key, value in entry.items() if key not in mine},
        "more": {key: value for key, value in entry.items() if key in mine},
    }


def _unknown(name: str, value: object) -> str:
    table, _, key = name.rpartition(".")
    if table:
        known = [each.rpartition(".")[2] for each in OPTIONS if each.startswith(table)]
        return f"there is no such setting{did_you_mean(key, known)}"
    if isinstance(value, (dict, list)):
        known = [*(each for each in TABLES if each), *ARRAYS]
        return f"there is no such table{did_you_mean(name, known)}"
    top = [each for each in OPTIONS if "." not in each]
    near = did_you_mean(name, top)
    if not near:
        homes = [
            (f"[{table}]", option)
            for whole, option in OPTIONS.items()
            for table, _, key in [whole.rpartition(".")]
            if key == name
        ]
        homes += [
            (f"[[{array}]]", known[name])
            for array, known in ENTRIES.items()
            if name in known
        ]
        taken = [home for home, option in homes if _takes(option, value)]
        found = [*taken, *(home for home, _ in homes)]
        near = f" (it belongs to {found[0]})" if found else ""
    return f"there is no such setting{near}"


def _takes(option: options.Option, value: object) -> bool:
    try:
        options.from_toml(option, value)
    except ValueError:
        return False
    return True


def problem(settings: Settings, name: str, message: str) -> AgentSettingsError:
    """Return the error for a value that turns out wrong when it is used."""
    assert name in keys.OPTIONS, name
    origin = settings.origins.get(name, "default")
    return AgentSettingsError(
        (Problem(file=origin, line=0, key=name, message=message),)
    )
