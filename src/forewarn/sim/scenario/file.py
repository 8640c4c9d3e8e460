"""The reader of scenario files: it returns a scenario, or reports all problems.

The keys are described in `docs/how-to/test/scenarios.md`. Those of a step are in `steps`;
settings are those of the service. The fleet is the default fleet, a fleet file, or
tables: `[[fleet.vm]]` and others are those of a fleet file with a prefix, and the reader
of fleet files reads them. All problems are reported together, with line and key.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import WantedFleet, read_fleet
from forewarn.problems import unreadable
from forewarn.protocol.events import EventStatus
from forewarn.service.option_table import OPTIONS, SPEED_MAX
from forewarn.settings.files import read_file
from forewarn.settings.forms import Form, Option, shown
from forewarn.settings.tables import FileError, Tables
from forewarn.sim import fleets
from forewarn.sim.scenario import steps, validators
from forewarn.sim.scenario.model import OTHERS, Client, Demand, Fleet, Scenario
from forewarn.sim.scenario.validators import Forms

FLEET_BYTES_MAX = 16 * 1024 * 1024
"""Maximum bytes of a fleet file: more VMs than a simulation has."""

_FLEET: Mapping[str, Option] = {
    "vms": Option(form=Forms.COUNT, least=1, most=fleets.VMS_MAX),
    "together": validators.SWITCH,
    "file": validators.TEXT,
    **dict.fromkeys(fleets.KINDS, Option(form=Forms.ANY)),
}
"""The keys of `[fleet]`."""


def usual_text(fleet: Fleet, *, vms: int | None = None) -> str:
    """Return the fleet file of a scenario; `vms` overrides the number of VMs."""
    if fleet.text:
        return fleet.text
    number = vms or fleet.vms or fleets.VMS
    return fleets.fleet_text(number, together=fleet.together)


def _read_fleet_of(
    tables: Tables, members: Mapping[str, Any], *, text: str, directory: Path | None
) -> Fleet:
    """Return the fleet from the valid keys of `[fleet]`; `text` is the whole file."""
    own = {kind: members[kind] for kind in fleets.KINDS if kind in members}
    usual = "vms" if members.get("vms") or members.get("together") else ""
    ways = [way for way in (usual, "file" if "file" in members else "", *own) if way]
    if len(ways) > 1 and ways[0] not in own:
        tables.blame(
            f"fleet.{ways[1]}",
            "a fleet has `vms` and `together`, or a `file`, or tables",
        )
        return Fleet()
    try:
        if own:
            read_fleet(text, name=tables.file, within="fleet", tables=own)
            return Fleet(text=fleets.write_tables(own))
        if "file" in members:
            beside = _beside(members["file"], directory)
            read_fleet(beside, name=members["file"])
            return Fleet(text=beside)
    except FleetFileError as error:
        tables.problems += error.problems
    except ValueError as error:
        tables.blame("fleet.file", str(error))
    return Fleet(vms=members.get("vms"), together=members.get("together", False))


def wanted_fleet(fleet: Fleet) -> WantedFleet:
    """Return the fleet as values."""
    return read_fleet(usual_text(fleet), name="fleet")


def _beside(named: str, directory: Path | None) -> str:
    """Return the text of a file; raises ValueError with a message."""
    if directory is None:
        raise ValueError("this scenario has no directory with a fleet file")
    try:
        return read_file(
            directory / named, bytes_max=FLEET_BYTES_MAX, pipes=False
        ).decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{named} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{named} is not UTF-8") from None


SCENARIO_BYTES_MAX = 1024 * 1024
"""Maximum bytes of a scenario file, which is usually a few screens long."""

STEPS_MAX = 1_000
"""Maximum number of steps. A program can use the library for more."""

CLIENTS_MAX = 1_000
"""Maximum number of clients: the same as the names in a step."""

SETTING_TABLES = ("timing", "metadata", "driver", "driver.simulated")
"""Tables of forewarn.toml with settings that apply to a simulation."""

UNHEEDED = frozenset(
    {
        "timing.speed",
        "metadata.listen",
        "metadata.event_details",
        "metadata.push",
        "metadata.push_longest_wait",
        "metadata.signed_secret_file",
        "driver.kind",
        "driver.simulated.marks",
    }
)
"""Settings of these tables that a scenario cannot set."""

SETTINGS: Mapping[str, str] = {
    name.removeprefix(f"{section}."): name
    for section in reversed(SETTING_TABLES)
    for name in OPTIONS
    if name.rpartition(".")[0] == section and name not in UNHEEDED
}
"""Settings by their short names, such as `recovery`."""


class ScenarioError(FileError):
    """A scenario file is invalid; nothing was run."""

    advice = "Fix the scenario file; nothing was run."


def _elsewhere(_option: Option, _value: object) -> None:
    raise ValueError(
        "there is no such setting: `speed` is a key of the scenario itself"
    )


_CLIENT: Mapping[str, Option] = {
    "vm": Option(form=Forms.NAME, is_needed=True),
    "optional": validators.SWITCH,
    Demand.APPROVES.value: validators.YES,
    Demand.SEES.value: Option(form=Forms.WORD, words=steps.STATUSES),
    Demand.IGNORES_OTHERS.value: validators.YES,
    Demand.COMES_BACK.value: Option(form=Forms.YES_OR_DURATION),
}

_ROOT: Mapping[str, Option] = {
    "name": Option(form=Forms.NAME),
    "description": validators.TEXT,
    "aliases": Option(form=Forms.ALIASES, least=0.001, most=SPEED_MAX),
    "speed": Option(form=Forms.NUMBER, least=0.001, most=SPEED_MAX),
    "fleet": Option(form=Forms.TABLE, keys=_FLEET),
    "settings": Option(
        form=Forms.TABLE,
        keys={
            **{short: OPTIONS[name] for short, name in SETTINGS.items()},
            "speed": Option(form=Form(expected="", read=_elsewhere)),
        },
    ),
    "client": Option(form=Forms.TABLES, keys=_CLIENT, most=CLIENTS_MAX),
    "step": Option(form=Forms.TABLES, most=STEPS_MAX, is_needed=True),
}


def is_file(word: str) -> bool:
    """Return whether an argument is a file and not the name of a scenario."""
    return word.endswith(".toml") or "/" in word


def load_scenario(file: Path) -> Scenario:
    """Read the scenario in a file; raises ScenarioError."""
    try:
        text = read_file(file, bytes_max=SCENARIO_BYTES_MAX).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError([unreadable(error, file=str(file))]) from error
    return read_scenario(text, file=str(file), directory=file.parent)


def read_scenario(text: str, *, file: str, directory: Path | None = None) -> Scenario:
    """Read the scenario in `text`; `file` is its name for messages.

    `directory` is the directory of the fleet file that it may name. Raises ScenarioError with
    all problems.
    """
    tables = Tables(file)
    members = tables.parse(text)
    if members is None:
        raise ScenarioError(tables.problems)
    root = tables.take("", members, _ROOT)
    others = [
        problem for problem in tables.problems if not problem.key.startswith("fleet")
    ]
    fleet = _read_fleet_of(
        tables, root.get("fleet", {}), text=text, directory=directory
    )
    known = steps.Known()
    if len(tables.problems) == len(others):
        wanted = wanted_fleet(fleet)
        known.names = {"vm": wanted.vms.keys(), "host": wanted.hosts.keys()}
    scenario = Scenario(
        name=root.get("name") or Path(file).stem or "scenario",
        file=file,
        description=root.get("description", ""),
        aliases=root.get("aliases", ()),
        own_speed=root.get("speed"),
        fleet=fleet,
        settings={
            SETTINGS[short]: shown(OPTIONS[SETTINGS[short]], value)
            for short, value in root.get("settings", {}).items()
        },
        steps=steps.read(tables, root.get("step", ()), known),
        clients=_clients(tables, root.get("client", ()), known),
    )
    if tables.problems:
        raise ScenarioError(tables.problems)
    return scenario


def _clients(
    tables: Tables, entries: Sequence[Mapping[str, Any]], known: steps.Known
) -> tuple[Client, ...]:
    """Return the clients from the valid keys of each table, and report problems."""
    clients: list[Client] = []
    for number, entry in enumerate(entries, start=1):
        where = f"client.{number}"
        vm = entry.get("vm", "")
        if vm and vm != OTHERS:
            known.check(tables, f"{where}.vm", (vm,), "vm")
        if vm and vm in {other.vm for other in clients}:
            tables.blame(f"{where}.vm", f"there is already a client of {vm}")
        sees = entry.get(Demand.SEES.value)
        clients.append(
            Client(
                vm=vm,
                line=tables.line(where),
                is_optional=entry.get("optional", False) or vm == OTHERS,
                approves=Demand.APPROVES.value in entry,
                sees=None if sees is None else EventStatus(sees),
                ignores_others=Demand.IGNORES_OTHERS.value in entry,
                comes_back=entry.get(Demand.COMES_BACK.value, 0),
            )
        )
    return tuple(clients)
