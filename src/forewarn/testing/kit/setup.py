"""What a test wants its world to be, and how such a world is put on a stage.

Settings are the service's own, read by its own reader, so a test says
`{"timing.preempt_notice": "10s"}` as an operator would. A scenario brings a fleet and
settings of its own; what a test says goes before them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from forewarn.fleet.model import Vm, VmState
from forewarn.protocol.errors import RefusedError
from forewarn.service import open_files
from forewarn.service.listening import StartError
from forewarn.sim import fleets, profiles
from forewarn.sim.engine import Engine
from forewarn.sim.profiles import Profile
from forewarn.sim.scenario import setup as scenario_setup
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.setup import Setup
from forewarn.sim.stage import Stage
from forewarn.sim.world import World
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.testing.kit import forms
from forewarn.testing.kit.files import text_of

ClockKind: TypeAlias = Literal["machine", "virtual"]
"""`machine`: NotBefore is true to the machine's clock, and timers run by themselves.
`virtual`: time stands still until a test lets it pass; it begins in 2030."""

ProfileName: TypeAlias = Literal["lenient", "real", "strict"]
"""`lenient`: answers at once, no limit. `real`: slow to begin and limited, as Azure's
public behaviour. `strict`: lenient, and every deviation of a client is a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A world as a test wants it."""

    vms: int | None = None
    together: bool = False
    fleet: str | Path = ""
    clock: ClockKind = "machine"
    speed: float | None = None
    """None: what the scenario's name says, and else 1."""
    settings: Mapping[str, str] | None = None
    profile: ProfileName = "lenient"
    enabled: bool | None = None
    """None: unless the profile is the real one's."""
    seed: int | None = None
    faults: str | Path = ""
    scenario: str | Path = ""

    def check(self) -> None:
        """Raise RefusedError for a value of another form than its type says."""
        forms.check({each.name: getattr(self, each.name) for each in fields(self)})

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
        _check(self.clock, get_args(ClockKind), "clock")
        _check(self.profile, get_args(ProfileName), "profile")
        speed = 1.0 if self.speed is None else self.speed
        setup = Setup(fleet=self._own_fleet(), speed=speed)
        if scenario is not None:
            needed = scenario_setup.setup_for(
                [scenario], vms=self.vms, speed=self.speed
            )
            has_own = bool(self.fleet) or self.together
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
        if said and scenario is not None and scenario.fleet.text:
            raise RefusedError(
                f"{scenario.name} brings its own fleet, so {said[0]} says nothing",
                hint=f"leave {said[0]} out, or give a fleet with the VMs that it names",
            )

    def _own_fleet(self) -> str:
        if isinstance(self.fleet, Path):
            return text_of(self.fleet)
        return self.fleet or fleets.fleet_text(
            self.vms or fleets.VMS, together=self.together
        )


def _check(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise RefusedError(f"there is no {what} {value!r}", hint=" or ".join(known))


async def set_up(wanted: Wanted, setup: Setup) -> Stage:
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
        for vm in vms_of(engine):
            await listen(stage, vm)
            if wanted.is_enabled:
                engine.plane.enable(vm, now=engine.now)
    except StartError:
        await stage.end()
        raise
    if not isinstance(engine, World):
        stage.begin()
    return stage


async def listen(stage: Stage, vm: str) -> None:
    """Have a VM listen, on the loop; raises StartError where nothing can."""
    try:
        await stage.open(vm)
    except OSError as error:
        raise StartError(
            f"vm {vm} cannot listen: {error.strerror or error}",
            hint=open_files.hint(error, "a world needs ports of 127.0.0.1"),
        ) from error


def vms_of(engine: Engine) -> list[str]:
    """Return the keys of the VMs that are there."""
    found = engine.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    return [vm.name for vm in found if vm.state is not VmState.DELETED]


def host_of(engine: Engine, vm: str) -> str:
    """Return the host of a VM; empty for one that is not there."""
    found = engine.read(lambda reader: reader.get(Vm, vm))
    return found.host if found is not None else ""
