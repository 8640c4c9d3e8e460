"""The scenario file: TOML text in, a scenario out, or everything that is wrong.

The keys are described in `docs/how-to/test/scenarios.md`. What is wrong with a step by itself
is found by `steps`, with the fleet by `fleets`; settings are those of the service,
read by its own reader. All problems are told together, with line and key.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from forewarn import toml
from forewarn.inputs import read_file
from forewarn.problems import Problem, did_you_mean, not_toml, unreadable
from forewarn.service import options
from forewarn.service.options import OPTIONS
from forewarn.settings.forms import Option, from_toml, shown
from forewarn.sim.scenario import clients, fleets, validators
from forewarn.sim.scenario.errors import ScenarioError, Spots
from forewarn.sim.scenario.model import Alias, Client, Fleet, Scenario, Step
from forewarn.sim.scenario.steps import Known, StepReader
from forewarn.sim.scenario.validators import Keys

SCENARIO_BYTES_MAX = 1024 * 1024
"""A scenario is a few screens long; a larger file is another one."""

STEPS_MAX = 1_000
"""Steps of a scenario: more are written by a program, which has the library."""

SETTING_TABLES = ("timing", "metadata", "driver", "driver.simulated")
"""Tables of forewarn.toml with settings that a simulation heeds."""

_UNHEEDED = frozenset(
    {
        "timing.speed",
        "metadata.listen",
        "metadata.own_events",
        "metadata.push",
        "metadata.push_longest_wait",
        "metadata.signed_secret_file",
        "driver.kind",
    }
)
"""Settings of those tables that belong to whoever runs the scenario."""

SETTINGS: Mapping[str, str] = {
    name.removeprefix(f"{section}."): name
    for section in reversed(SETTING_TABLES)
    for name in OPTIONS
    if name.rpartition(".")[0] == section and name not in _UNHEEDED
}
"""Settings by their short names, such as `recovery`."""

_SPEED = validators.number(0.001, options.SPEED_MAX)


def is_file(word: str) -> bool:
    """Tell whether a word means a file, and no scenario by its name."""
    return word.endswith(".toml") or "/" in word


def load_scenario(file: Path) -> Scenario:
    """Return the scenario of a file; raises ScenarioError."""
    try:
        text = read_file(file, most=SCENARIO_BYTES_MAX).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError([unreadable(error, file=str(file))]) from error
    return read_scenario(text, file=str(file), folder=file.parent)


def read_scenario(text: str, *, file: str, folder: Path | None = None) -> Scenario:
    """Return the scenario that `text` describes; `file` is its name for messages.

    `folder` has the fleet file that it may name. Raises ScenarioError with all
    problems that were found.
    """
    try:
        tables = toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError([not_toml(error, file=file, text=text)]) from error
    reader = _Reader(tables, text=text, file=file, folder=folder)
    scenario = reader.read()
    if reader.problems:
        raise ScenarioError(reader.problems)
    return scenario


class _Reader:
    """The reading of one file."""

    def __init__(
        self,
        tables: Mapping[str, object],
        *,
        text: str,
        file: str,
        folder: Path | None,
    ) -> None:
        self.problems: list[Problem] = []
        self._tables = tables
        self._text = text
        self._file = file
        self._folder = folder
        self._spots = Spots(text)

    def read(self) -> Scenario:
        keys = Keys(self._tables, self._blame_root)
        usual = Path(self._file).stem or "scenario"
        fleet = self._fleet(keys)
        known = self._known(fleet)
        scenario = Scenario(
            name=keys.take("name", validators.name, usual),
            file=self._file,
            description=keys.take("description", validators.text, ""),
            aliases=keys.take("aliases", _aliases, ()),
            own_speed=keys.take("speed", _SPEED, None),
            fleet=fleet,
            settings=self._settings(keys),
            steps=self._steps(keys, known),
            clients=self._clients(keys, known),
        )
        keys.close()
        return scenario

    def _fleet(self, keys: Keys) -> Fleet:
        table = keys.take("fleet", validators.table, {})
        return fleets.read(
            table,
            Keys(table, partial(self._blame_inner, "fleet")),
            text=self._text,
            file=self._file,
            folder=self._folder,
            problems=self.problems,
        )

    def _settings(self, keys: Keys) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in keys.take("settings", validators.table, {}).items():
            name = SETTINGS.get(key, "")
            if not name:
                meant = did_you_mean(key, SETTINGS)
                if f"timing.{key}" in _UNHEEDED:
                    meant = ": `speed` is a key of the scenario itself"
                self._blame_inner("settings", key, f"there is no such setting{meant}")
                continue
            option = OPTIONS[name]
            try:
                found[name] = _as_flag(option, from_toml(option, value))
            except ValueError as error:
                self._blame_inner("settings", key, str(error))
        return found

    def _known(self, fleet: Fleet) -> Known:
        """Return the names of the fleet; none, if there is a problem with it."""
        if self.problems:
            return Known()
        wanted = fleets.wanted(fleet)
        return Known(vms=frozenset(wanted.vms), hosts=frozenset(wanted.hosts))

    def _clients(self, keys: Keys, known: Known) -> tuple[Client, ...]:
        return clients.read(
            keys.take("client", _tables("client", clients.CLIENTS_MAX), []),
            known=known,
            line_of=partial(self._spots.entry, "client"),
            blame=self._blame_client,
        )

    def _steps(self, keys: Keys, known: Known) -> tuple[Step, ...]:
        tables = keys.need("step", _tables("step", STEPS_MAX), [])
        steps: list[Step] = []
        for index, table in enumerate(tables):
            reader = StepReader(
                table,
                known=known,
                blame=partial(self._blame_step, index),
            )
            step = reader.read(self._spots.entry("step", index))
            if step is not None:
                steps.append(step)
        return tuple(steps)

    def _blame_root(self, key: str, message: str) -> None:
        line = self._spots.root(key) if key in self._tables else 0
        self._blame(line, key, message)

    def _blame_inner(self, table: str, key: str, message: str) -> None:
        self._blame(self._spots.inner(table, key), f"{table}.{key}", message)

    def _blame_step(self, index: int, key: str, inner: str, message: str) -> None:
        line = self._spots.entry("step", index, key, inner)
        whole = ".".join(part for part in ("step", key, inner) if part)
        self._blame(line, whole, message)

    def _blame_client(self, index: int, key: str, message: str) -> None:
        line = self._spots.entry("client", index, key)
        self._blame(line, f"client.{key}", message)

    def _blame(self, line: int, key: str, message: str) -> None:
        self.problems.append(
            Problem(file=self._file, line=line, key=key, message=message)
        )


def _tables(name: str, most: int) -> Callable[[object], Sequence[Mapping[str, object]]]:
    """Return a reader of the tables `[[name]]`."""

    def read(value: object) -> Sequence[Mapping[str, object]]:
        found = cast("list[object]", value) if isinstance(value, list) else []
        if not found or not all(isinstance(each, dict) for each in found):
            raise ValueError(f"is written as [[{name}]], once for each")
        if len(found) > most:
            raise ValueError(f"a scenario has at most {most} {name}s")
        return cast("list[Mapping[str, object]]", found)

    return read


def _aliases(value: object) -> tuple[Alias, ...]:
    """Return other names: texts, or tables with a name and a speed."""
    found = cast("list[object]", value) if isinstance(value, list) else [None]
    aliases: list[Alias] = []
    for each in found:
        if isinstance(each, str):
            aliases.append(Alias(name=validators.text(each)))
            continue
        if not isinstance(each, dict):
            raise ValueError('must be a list such as ["Live Migration"]')  # noqa: TRY004
        table = cast("dict[str, object]", each)
        strange = table.keys() - {"name", "speed"}
        if strange or "name" not in table:
            raise ValueError("an alias is a text, or a table of `name` and `speed`")
        speed = table.get("speed")
        aliases.append(
            Alias(
                name=validators.text(table["name"]),
                speed=None if speed is None else _SPEED(speed),
            )
        )
    return tuple(aliases)


def _as_flag(option: Option, value: object) -> str:
    """Return a setting's value as a flag writes it."""
    return shown(option, value)
