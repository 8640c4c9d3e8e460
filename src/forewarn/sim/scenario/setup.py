"""The setup of a scenario: the fleet and the settings of its simulated server.

Scenarios that run at the same time share one server, so they need the same setup.
Otherwise run them one after the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forewarn.clock import Clock, SystemClock
from forewarn.drivers.limited import parse_limited
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import parse_fault
from forewarn.ids import RandomIds
from forewarn.instants import Micros, parse_duration
from forewarn.protocol.errors import RefusedError
from forewarn.service.options import environment_name
from forewarn.service.settings import load_settings
from forewarn.service.settings_model import Settings, impacts, policy
from forewarn.sim.engine import Engine, World
from forewarn.sim.scenario import file
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.sim_server import CLIENTS, SimServer
from forewarn.store.memory import MemoryStore

ENDED_MAX = 1_000
"""Maximum number of ended operations that a simulation keeps, some 12 KiB each with their
history. A program may request dozens each second, for days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A fleet and settings."""

    fleet: str
    """A fleet file."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings by full name, in the form of flags; other settings have their defaults."""
    speed: float = 1.0
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables. Variables of settings that apply to a simulation override
    `settings`."""

    def load(self) -> Settings:
        """Return the settings; raises SettingsError."""
        variables = {name: environment_name(name) for name in file.SETTINGS.values()}
        applicable = {
            variable: self.environ[variable]
            for variable in variables.values()
            if variable in self.environ
        }
        flags = {
            name: value
            for name, value in self.settings.items()
            if variables.get(name) not in applicable
        }
        flags["timing.speed"] = f"{self.speed:.9g}"
        return load_settings(file=None, environ=applicable, flags=flags)


def setup_for(
    scenarios: Sequence[Scenario],
    *,
    vms: int | None = None,
    speed: float | None = None,
    usual_speed: float | None = None,
) -> Setup:
    """Return the setup to run scenarios at the same time; `vms` is for the default fleet.

    The speed is the first of these that is set: `speed`, the speed of the alias, the speed
    in the file, `usual_speed`. If `usual_speed` is None, the clock is virtual: the speed in
    the file is ignored, and the default is 1. Of different durations, the shorter is used.

    Raises RefusedError if the scenarios need different fleets, settings or speeds.
    """
    assert scenarios, "there is no scenario to run"

    def wanted_speed(scenario: Scenario) -> float | None:
        own_counts = usual_speed is not None
        return scenario.speed or (scenario.own_speed if own_counts else None)

    first = scenarios[0]
    number = vms or max((scenario.fleet.vms or 0 for scenario in scenarios), default=0)
    fleet = file.usual_text(first.fleet, vms=number or None)
    settings: dict[str, str] = {}
    for scenario in scenarios:
        difference = ""
        if file.usual_text(scenario.fleet, vms=number or None) != fleet:
            difference = "another fleet"
        elif speed is None and wanted_speed(scenario) != wanted_speed(first):
            difference = "another speed"
        for name, value in scenario.settings.items():
            other = settings.setdefault(name, value)
            settings[name] = shorter = _shorter(value, other)
            if not shorter:
                difference = f"another {name}"
        if difference:
            hint = "Run them one after the other"
            if difference == "another speed":
                hint += ", or use --speed"
            raise RefusedError(
                f"{scenario.name} cannot run at the same time as {first.name}: "
                f"it needs {difference}",
                hint=f"{hint}.",
            )
    speed = speed or wanted_speed(first) or usual_speed or 1.0
    return Setup(fleet=fleet, settings=settings, speed=speed)


def _shorter(one: str, other: str) -> str:
    """Return the shorter of two durations; empty if the values cannot be combined.

    A shorter duration than expected delays no expectation.
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
    """Return a simulated server on a virtual clock, which does not listen yet.

    `limited`: apply the rate limit of the settings, per second of this clock.
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
    """Return a simulated server on the machine's clock, which does not listen or run yet.

    At any speed, a client that polls once a second can react to each notice.
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
    """Return the driver of a simulation, with the faults in the settings."""
    driver = SimulatedDriver(
        impacts=impacts(settings, floor=floor),
        targets=settings.simulated.target_hosts,
        limited=[parse_limited(text) for text in settings.simulated.limited],
    )
    for text in settings.simulated.faults:
        driver.inject(parse_fault(text))
    return driver
