"""The scenario file: TOML text in, a scenario out, or everything that is wrong.

The keys are described in `docs/how-to/test/scenarios.md`. Those of a step and of a client
are in `steps` and `clients`, those of the fleet in `fleets`; settings are those of the
service. All problems are told together, with line and key.
"""

from collections.abc import Mapping
from pathlib import Path

from forewarn.problems import unreadable
from forewarn.service.option_table import OPTIONS, SPEED_MAX
from forewarn.settings.files import read_file
from forewarn.settings.forms import Form, Option, shown
from forewarn.settings.tables import Tables
from forewarn.sim.scenario import clients, fleets, steps, validators
from forewarn.sim.scenario.errors import ScenarioError
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.steps import Known
from forewarn.sim.scenario.validators import Forms

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
        "metadata.event_details",
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


def _elsewhere(_option: Option, _value: object) -> None:
    raise ValueError(
        "there is no such setting: `speed` is a key of the scenario itself"
    )


_ROOT: Mapping[str, Option] = {
    "name": Option(form=Forms.NAME),
    "description": validators.TEXT,
    "aliases": Option(form=Forms.ALIASES, least=0.001, most=SPEED_MAX),
    "speed": Option(form=Forms.NUMBER, least=0.001, most=SPEED_MAX),
    "fleet": Option(form=Forms.TABLE, keys=fleets.KEYS),
    "settings": Option(
        form=Forms.TABLE,
        keys={
            **{short: OPTIONS[name] for short, name in SETTINGS.items()},
            "speed": Option(form=Form(told="", read=_elsewhere)),
        },
    ),
    "client": Option(form=Forms.TABLES, keys=clients.KEYS, most=clients.CLIENTS_MAX),
    "step": Option(form=Forms.TABLES, most=STEPS_MAX, is_needed=True),
}


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
    tables = Tables(file)
    found = tables.parse(text)
    if found is None:
        raise ScenarioError(tables.problems)
    root = tables.take("", found, _ROOT)
    told = [each for each in tables.problems if not each.key.startswith("fleet")]
    fleet = fleets.read(tables, root.get("fleet", {}), text=text, folder=folder)
    known = Known()
    if len(tables.problems) == len(told):
        wanted = fleets.wanted(fleet)
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
        clients=clients.read(tables, root.get("client", ()), known),
    )
    if tables.problems:
        raise ScenarioError(tables.problems)
    return scenario
