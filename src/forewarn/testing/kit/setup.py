"""The configuration of a world, and the setup of its simulated server.

Settings are those of the service, parsed by the same code: a test writes
`{"timing.preempt_notice": "10s"}` as an operator does. A scenario has a fleet and
settings, which the test can override.
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
"""`machine`: NotBefore follows the machine's clock, and timers run automatically.
`virtual`: the clock begins in 2030 and stands still until a test advances it."""

EFFECTIVE_SETTINGS = (
    *sorted(SETTINGS.values()),
    "policy.hosts_at_once",
    "store.retention",
)
"""The settings that have an effect in a world."""

ProfileName: TypeAlias = Literal["lenient", "real", "strict"]
"""`lenient`: immediate answers without a limit. `real`: a slow first answer and a rate
limit, like Azure. `strict`: like `lenient`, but every deviation of a client is a
failure."""


ExpectName: TypeAlias = Literal["scenario", "asked", "approved", "none"]
"""The expectations about clients. `scenario`: those of the scenario. `asked`: clients
poll. `approved`: clients poll, and approve in time each event that names them. `none`:
no expectations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The configuration of a world."""

    vms: int | None = None
    together: bool = False
    fleet: str | Path = ""
    clock: ClockKind = "machine"
    speed: float | None = None
    """None: the speed of the scenario's name, or of its file on the machine's clock. 1 if
    there is none."""
    settings: Mapping[str, str] | None = None
    profile: ProfileName = "lenient"
    enabled: bool | None = None
    """None: enabled unless the profile is `real`."""
    seed: int | None = None
    scenario: str | Path = ""
    expect: ExpectName = "scenario"
    replay: str | Path = ""
    names: Collection[str] = ()
    """Names of the first VMs, or VMs of a fleet that play the scenario's first roles."""

    def cast(self, scenario: Scenario | None) -> Scenario | None:
        """Return the scenario with VMs of this world in its roles.

        Raises RefusedError if the VMs do not fit or a name is invalid.
        """
        names = tuple(self.names)
        casting.check_names(names)
        for name in names:
            if wrong := name_fault(name):
                raise RefusedError(wrong)
        if names and self.fleet and scenario is None:
            raise RefusedError(
                "names have no effect with a fleet and no scenario",
                hint="Remove one of them.",
            )
        if scenario is None:
            return None
        if self.fleet:
            return next(casting.casts(scenario, fleet_text(self.fleet), names=names))
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
        """Return the number of VMs of the generated fleet."""
        return self.vms or max(fleets.VMS, least or 0, len(self.names))

    @property
    def is_enabled(self) -> bool:
        """Return whether events are enabled before the first request (7.1)."""
        return self.profile != "real" if self.enabled is None else self.enabled

    def setup(self, scenario: Scenario | None) -> Setup:
        """Return the world's fleet and settings; raises RefusedError for invalid
        combinations.

        `scenario`: the scenario of this configuration. Raises OSError if the fleet file
        cannot be read.
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
        """Refuse two definitions of the fleet: one of them would be ignored."""
        sources = [
            name
            for name, is_said in (("vms", self.vms), ("together", self.together))
            if is_said
        ]
        if sources and self.fleet:
            raise RefusedError(
                f"{sources[0]} has no effect with a fleet", hint="Remove one of them."
            )
        if self.vms is not None and self.vms < len(self.names):
            raise RefusedError(
                f"there are {len(self.names)} names for {self.vms} VMs",
                hint="Remove vms.",
            )
        if sources and scenario is not None and scenario.fleet.text and not self.names:
            raise RefusedError(
                f"{scenario.name} has its own fleet, so {sources[0]} has no effect",
                hint=f"Remove {sources[0]}, or use a fleet with the scenario's VMs.",
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
    """Raise RefusedError for an empty name, or for `expect` without effect."""
    for name, value in (("scenario", scenario), ("replay", replay)):
        if value == "":
            raise RefusedError(
                f"{name} is empty, so nothing would be judged",
                hint=f"Name one, or remove {name}. Check that no variable is unset.",
            )
    if expect is not None and scenario is None and replay is None:
        raise RefusedError(
            "expect has no effect without a scenario or a replay",
            hint="Name a scenario, such as scenario='spot-preemption'.",
        )


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise RefusedError for settings that have no effect in a world."""
    for name in settings:
        if name == "timing.speed":
            raise RefusedError(
                "a world does not use the setting timing.speed",
                hint="Use the argument speed, such as speed=60.",
            )
        if name in OPTIONS and name not in EFFECTIVE_SETTINGS:
            raise RefusedError(
                f"the setting {name} has no effect in a world; settings with an effect: "
                f"{', '.join(EFFECTIVE_SETTINGS)}"
            )


async def set_up(wanted: Wanted, setup: Setup) -> SimServer:
    """Start the simulated server of a world, on the running loop.

    Every VM has a listener.

    Raises FleetFileError, RefusedError, SettingsError, and StartError if a listener
    cannot be opened.
    """
    if wanted.clock == "virtual":
        sim_server = scenario_setup.virtual_stage(setup, seed=wanted.seed, limited=True)
    else:
        sim_server = scenario_setup.running_stage(setup, seed=wanted.seed)
    engine = sim_server.engine
    try:
        places = {name: place for place, name in enumerate(wanted.names)}
        for vm in sorted(vms_of(engine), key=lambda vm: places.get(vm, len(places))):
            await listen(sim_server, vm)
            if wanted.is_enabled:
                engine.plane.enable(vm, now=engine.now)
    except StartError:
        await sim_server.end()
        raise
    if not isinstance(engine, World):
        sim_server.begin()
    return sim_server


@contextmanager
def listening(vm: str) -> Generator[None]:
    """Raise StartError if no listener for a VM can be opened."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"cannot open a listener for VM {vm}: {error.strerror or error}",
            hint=open_files.hint(error, "A world needs free ports of 127.0.0.1."),
        ) from error


async def listen(sim_server: SimServer, vm: str) -> None:
    """Open a listener for a VM, on the loop; raises StartError."""
    with listening(vm):
        await sim_server.open(vm)


def vms_of(engine: Engine) -> list[str]:
    """Return the names of the existing VMs."""
    vms = engine.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    return [vm.name for vm in vms if vm.state is not VmState.DELETED]


def host_of(engine: Engine, vm: str) -> str:
    """Return the host of a VM; empty if there is no such VM."""
    stored = engine.read(lambda reader: reader.get(Vm, vm))
    return stored.host if stored is not None else ""
