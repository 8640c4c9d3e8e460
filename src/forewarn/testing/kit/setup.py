"""What a test wants its world to be, and how such a world is put on a stage.

Settings are the service's own, read by its own reader, so a test says
`{"timing.preempt_notice": "10s"}` as an operator would. A scenario brings a fleet and
settings of its own; what a test says goes before them.
"""

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from forewarn.fleet.model import Vm, VmState
from forewarn.fleet.validators import name_fault
from forewarn.protocol.errors import RefusedError
from forewarn.service import open_files
from forewarn.service.listening import StartError
from forewarn.service.option_table import OPTIONS
from forewarn.sim import fleets, profiles
from forewarn.sim.engine import Engine, World
from forewarn.sim.profiles import Profile
from forewarn.sim.scenario import casting
from forewarn.sim.scenario import setup as scenario_setup
from forewarn.sim.scenario.file import SETTINGS
from forewarn.sim.scenario.model import Fleet, Scenario
from forewarn.sim.scenario.setup import Setup
from forewarn.sim.sim_server import SimServer
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.testing.kit.files import fleet_text

ClockKind: TypeAlias = Literal["machine", "virtual"]
"""`machine`: NotBefore is true to the machine's clock, and timers run by themselves.
`virtual`: time stands still until a test lets it pass; it begins in 2030."""

HEEDED = (*sorted(SETTINGS.values()), "policy.hosts_at_once", "store.retention")
"""The settings that change something in a world."""

ProfileName: TypeAlias = Literal["lenient", "real", "strict"]
"""`lenient`: answers at once, no limit. `real`: slow to begin and limited, as Azure's
public behaviour. `strict`: lenient, and every deviation of a client is a failure."""


ExpectName: TypeAlias = Literal["scenario", "asked", "approved", "none"]
"""How much of clients a scenario demands. `scenario`: what it says. `asked`: that they
ask for their events. `approved`: that they ask, and approve in time each event that names
them. `none`: nothing is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A world as a test wants it."""

    vms: int | None = None
    together: bool = False
    fleet: str | Path = ""
    clock: ClockKind = "machine"
    speed: float | None = None
    """None: what the scenario's name says, or on the machine's clock its file; else 1."""
    settings: Mapping[str, str] | None = None
    profile: ProfileName = "lenient"
    enabled: bool | None = None
    """None: unless the profile is the real one's."""
    seed: int | None = None
    scenario: str | Path = ""
    expect: ExpectName = "scenario"
    replay: str | Path = ""
    names: Collection[str] = ()
    """Of the first VMs; of a fleet with a scenario, those that play its first roles."""

    def cast(self, scenario: Scenario | None) -> Scenario | None:
        """Return the scenario as VMs of this world play it.

        Raises RefusedError where they cannot, or a name cannot be.
        """
        names = tuple(self.names)
        casting.check_names(names)
        for name in names:
            if wrong := name_fault(name):
                raise RefusedError(wrong)
        if names and self.fleet and scenario is None:
            raise RefusedError(
                "names say nothing beside a fleet without a scenario",
                hint="leave one of them out",
            )
        if scenario is None:
            return None
        if self.fleet:
            text = fleet_text(self.fleet)
            return next(casting.casts(scenario, text, names=names))
        if not names:
            return scenario
        if not scenario.fleet.text:
            own = Fleet(
                vms=self._count(scenario.fleet.vms),
                together=self.together or scenario.fleet.together,
            )
            scenario = replace(scenario, fleet=own)
        return casting.with_names(scenario, names)

    def _count(self, least: int | None) -> int:
        """Return how many VMs the usual fleet has."""
        return self.vms or max(fleets.VMS, least or 0, len(self.names))

    @property
    def is_enabled(self) -> bool:
        """Tell whether everybody has asked before the world begins (7.1)."""
        return self.profile != "real" if self.enabled is None else self.enabled

    def setup(self, scenario: Scenario | None) -> Setup:
        """Return its fleet and settings; raises RefusedError for what cannot be.

        `scenario`: what `scenario` names. Raises OSError for a fleet file that is not
        there.
        """
        self._check_fleets(scenario)
        if self.vms is not None and not 1 <= self.vms <= fleets.VMS_MAX:
            raise RefusedError(f"a world has 1 to {fleets.VMS_MAX} VMs, not {self.vms}")
        check_settings(self.settings or {})
        speed = 1.0 if self.speed is None else self.speed
        setup = Setup(fleet=self._own_fleet(), speed=speed)
        if scenario is not None:
            needed = scenario_setup.setup_for(
                [scenario],
                vms=self.vms,
                speed=self.speed,
                usual_speed=1.0 if self.clock == "machine" else None,
            )
            has_own = (bool(self.fleet) or self.together) and not self.names
            setup = Setup(
                fleet=setup.fleet if has_own else needed.fleet,
                settings=needed.settings,
                speed=needed.speed,
            )
        profile = profiles.settings_of(Profile(self.profile), speed=setup.speed)
        return Setup(
            fleet=setup.fleet,
            settings={**profile, **setup.settings, **(self.settings or {})},
            speed=setup.speed,
        )

    def _check_fleets(self, scenario: Scenario | None) -> None:
        """Refuse two fleets at once: one of them would be passed over in silence."""
        said = [
            name
            for name, is_said in (("vms", self.vms), ("together", self.together))
            if is_said
        ]
        if said and self.fleet:
            raise RefusedError(
                f"{said[0]} says nothing beside a fleet", hint="leave one of them out"
            )
        if self.vms is not None and self.vms < len(self.names):
            raise RefusedError(
                f"there are {len(self.names)} names for {self.vms} VMs",
                hint="leave vms out",
            )
        if said and scenario is not None and scenario.fleet.text and not self.names:
            raise RefusedError(
                f"{scenario.name} brings its own fleet, so {said[0]} says nothing",
                hint=f"leave {said[0]} out, or give a fleet with the VMs that it names",
            )

    def _own_fleet(self) -> str:
        if self.fleet:
            return fleet_text(self.fleet)
        text = fleets.fleet_text(self._count(None), together=self.together)
        names = tuple(self.names)
        return casting.named_text(text, names)[0] if names else text


def check_expected(
    *,
    scenario: str | Path | None,
    replay: str | Path | None,
    expect: ExpectName | None,
) -> None:
    """Refuse what would judge nothing: no name, or nothing to expect it of."""
    for name, said in (("scenario", scenario), ("replay", replay)):
        if said == "":
            raise RefusedError(
                f"{name} is empty, and nothing would be judged",
                hint=f"name one, or leave {name} out; is a variable not set?",
            )
    if expect is not None and scenario is None and replay is None:
        raise RefusedError(
            "expect says nothing without a scenario or a replay",
            hint="say what is played, such as scenario='spot-preemption'",
        )


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings that a world does not heed: they would change nothing."""
    for name in settings:
        if name == "timing.speed":
            raise RefusedError(
                "the setting timing.speed is not for a world", hint="say speed=60"
            )
        if name in OPTIONS and name not in HEEDED:
            raise RefusedError(
                f"the setting {name} changes nothing in a world; what does: "
                f"{', '.join(HEEDED)}"
            )


async def set_up(wanted: Wanted, setup: Setup) -> SimServer:
    """Return the stage of a world that is set up so, on the running loop.

    Every VM listens.

    Raises FleetFileError, RefusedError, SettingsError, and StartError where there is
    no room for another listener.
    """
    if wanted.clock == "virtual":
        stage = scenario_setup.virtual_stage(setup, seed=wanted.seed, limited=True)
    else:
        stage = scenario_setup.running_stage(setup, seed=wanted.seed)
    engine = stage.engine
    try:
        places = {name: place for place, name in enumerate(wanted.names)}
        in_order = sorted(vms_of(engine), key=lambda vm: places.get(vm, len(places)))
        for vm in in_order:
            await listen(stage, vm)
            if wanted.is_enabled:
                engine.plane.enable(vm, now=engine.now)
    except StartError:
        await stage.end()
        raise
    if not isinstance(engine, World):
        stage.begin()
    return stage


@contextmanager
def listening(vm: str) -> Generator[None]:
    """Raise StartError where no address is to be had for a VM."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"vm {vm} cannot listen: {error.strerror or error}",
            hint=open_files.hint(error, "a world needs ports of 127.0.0.1"),
        ) from error


async def listen(stage: SimServer, vm: str) -> None:
    """Have a VM listen, on the loop; raises StartError where nothing can."""
    with listening(vm):
        await stage.open(vm)


def vms_of(engine: Engine) -> list[str]:
    """Return the keys of the VMs that are there."""
    found = engine.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    return [vm.name for vm in found if vm.state is not VmState.DELETED]


def host_of(engine: Engine, vm: str) -> str:
    """Return the host of a VM; empty for one that is not there."""
    found = engine.read(lambda reader: reader.get(Vm, vm))
    return found.host if found is not None else ""
