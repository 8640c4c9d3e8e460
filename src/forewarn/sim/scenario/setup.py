"""What a scenario needs around it: the fleet and the settings of its stage.

Several scenarios at once share one stage, so they must agree. Where they do not,
they are run one after the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forewarn.clock import Clock, SystemClock
from forewarn.drivers.faults import parse_fault
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.ids import RandomIds
from forewarn.instants import Micros, parse_duration
from forewarn.protocol.errors import RefusedError
from forewarn.service.options import environment_name
from forewarn.service.settings import load_settings
from forewarn.service.settings_model import Settings, impacts, policy
from forewarn.sim.engine import Engine, World
from forewarn.sim.scenario import fleets
from forewarn.sim.scenario.file import SETTINGS
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.sim_server import CLIENTS, SimServer
from forewarn.store.memory import MemoryStore

ENDED_MAX = 1_000
"""Operations that a simulation remembers when they have ended, some 12 KiB each with
their history: a program may order them by the dozen each second, for days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A fleet and settings."""

    fleet: str
    """A fleet file."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """By their whole names, as flags write them; the others are as ever."""
    speed: float = 1.0
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables of the environment; those of settings that a simulation heeds go before
    `settings`."""

    def load(self) -> Settings:
        """Return the settings; raises SettingsError."""
        variables = {name: environment_name(name) for name in SETTINGS.values()}
        heeded = {
            variable: self.environ[variable]
            for variable in variables.values()
            if variable in self.environ
        }
        flags = {
            name: value
            for name, value in self.settings.items()
            if variables.get(name) not in heeded
        }
        flags["timing.speed"] = f"{self.speed:.9g}"
        return load_settings(file=None, environ=heeded, flags=flags)


def setup_for(
    scenarios: Sequence[Scenario],
    *,
    vms: int | None = None,
    speed: float | None = None,
    usual_speed: float | None = None,
) -> Setup:
    """Return what these scenarios need to run at once; `vms` of the usual fleet.

    The speed is the first of these: `speed`; that of the name by which a scenario was
    asked for; that of its file; `usual_speed`. None for `usual_speed` means a virtual
    clock, on which nobody has to wait: the file's does not count, and 1 is usual. Of
    different durations the shorter counts.

    Raises RefusedError where they need different fleets, settings or speeds.
    """
    assert scenarios, "nothing to run"

    def wanted_speed(scenario: Scenario) -> float | None:
        own_counts = usual_speed is not None
        return scenario.speed or (scenario.own_speed if own_counts else None)

    first = scenarios[0]
    number = vms or max((scenario.fleet.vms or 0 for scenario in scenarios), default=0)
    fleet = fleets.usual_text(first.fleet, vms=number or None)
    settings: dict[str, str] = {}
    for scenario in scenarios:
        what = ""
        if fleets.usual_text(scenario.fleet, vms=number or None) != fleet:
            what = "another fleet"
        elif speed is None and wanted_speed(scenario) != wanted_speed(first):
            what = "another speed"
        for name, value in scenario.settings.items():
            other = settings.setdefault(name, value)
            settings[name] = shorter = _shorter(value, other)
            if not shorter:
                what = f"another {name}"
        if what:
            hint = "run them one after the other"
            if what == "another speed":
                hint += ", or name one speed for both"
            raise RefusedError(
                f"{scenario.name} cannot run at once with {first.name}: "
                f"it needs {what}",
                hint=hint,
            )
    speed = speed or wanted_speed(first) or usual_speed or 1.0
    return Setup(fleet=fleet, settings=settings, speed=speed)


def _shorter(one: str, other: str) -> str:
    """Return what both can live with: of two durations the shorter; empty: nothing.

    What takes less time than a scenario is used to, keeps none of its expectations
    waiting.
    """
    if one == other:
        return one
    try:
        return min(one, other, key=parse_duration)
    except ValueError:
        return ""


def virtual_stage(
    setup: Setup, *, seed: int | None = 0, limited: bool = False
) -> SimServer:
    """Return a stage on a virtual clock, which listens nowhere yet.

    `limited`: requests are, as settings say, for each second of that clock.
    """
    settings = setup.load()
    driver = _driver(settings)
    world = World(
        store=MemoryStore(),
        driver=driver,
        fleet=setup.fleet,
        policy=policy(settings),
        seed=seed,
        rate_limit=settings.metadata.rate_limit if limited else 0,
    )
    return SimServer(world, driver)


def running_stage(
    setup: Setup, *, clock: Clock | None = None, seed: int | None = None
) -> SimServer:
    """Return a stage on the machine's clock; it listens nowhere, nothing runs yet.

    However fast it is, a client that polls once a second can meet each notice.
    """
    settings = setup.load()
    driver = _driver(settings, floor=CLIENTS.impact)
    engine = Engine(
        clock=clock or SystemClock(),
        store=MemoryStore(),
        driver=driver,
        ids=RandomIds(seed),
        policy=replace(
            policy(settings, notice_floor=CLIENTS.notice), ended_max=ENDED_MAX
        ),
        rate_limit=settings.metadata.rate_limit,
    )
    engine.apply_fleet(setup.fleet)
    return SimServer(engine, driver, floors=CLIENTS)


def _driver(settings: Settings, *, floor: Micros = 0) -> SimulatedDriver:
    """Return the driver of a simulation, with the faults that settings name."""
    driver = SimulatedDriver(impacts=impacts(settings, floor=floor))
    for text in settings.simulated.faults:
        driver.inject(parse_fault(text))
    return driver
