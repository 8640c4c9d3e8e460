"""What a test wants its world to be, and how such a world is put on a stage.

Settings are the service's own, read by its own reader, so a test says
`{"timing.preempt_notice": "10s"}` as an operator would. A scenario brings a fleet and
settings of its own; what a test says goes before them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from forewarn.fleet.model import Vm, VmState
from forewarn.protocol.errors import RefusedError
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
    speed: float = 1.0
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    profile: ProfileName = "lenient"
    enabled: bool = True
    seed: int | None = None
    scenario: Scenario | None = None

    def setup(self) -> Setup:
        """Return its fleet and settings; raises RefusedError for what cannot be.

        Raises OSError for a fleet file that is not there.
        """
        if self.vms is not None and not 1 <= self.vms <= fleets.VMS_MAX:
            raise RefusedError(f"a world has 1 to {fleets.VMS_MAX} VMs, not {self.vms}")
        _check(self.clock, get_args(ClockKind), "clock")
        _check(self.profile, get_args(ProfileName), "profile")
        setup = Setup(fleet=self._own_fleet(), speed=self.speed)
        if self.scenario is not None:
            needed = scenario_setup.setup_for(
                [self.scenario], vms=self.vms, speed=self.speed
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
            settings={**profile, **setup.settings, **self.settings},
            speed=setup.speed,
        )

    def _own_fleet(self) -> str:
        if isinstance(self.fleet, Path):
            return self.fleet.read_text(encoding="utf-8")
        return self.fleet or fleets.fleet_text(
            self.vms or fleets.VMS, together=self.together
        )


def _check(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise RefusedError(f"there is no {what} {value!r}", hint=" or ".join(known))


async def set_up(wanted: Wanted) -> Stage:
    """Return the stage of a new world, on the running loop; every VM listens.

    Raises FleetFileError, RefusedError, SettingsError, and OSError where there is
    no room for another listener.
    """
    setup = wanted.setup()
    if wanted.clock == "virtual":
        stage = scenario_setup.virtual_stage(setup, seed=wanted.seed, limited=True)
    else:
        stage = scenario_setup.running_stage(setup, seed=wanted.seed)
    engine = stage.engine
    try:
        for vm in vms_of(engine):
            await stage.open(vm)
            if wanted.enabled:
                engine.plane.enable(vm, now=engine.now)
    except OSError:
        await stage.end()
        raise
    if not isinstance(engine, World):
        stage.begin()
    return stage


def vms_of(engine: Engine) -> list[str]:
    """Return the keys of the VMs that are there."""
    found = engine.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    return [vm.name for vm in found if vm.state is not VmState.DELETED]


def host_of(engine: Engine, vm: str) -> str:
    """Return the host of a VM; empty for one that is not there."""
    found = engine.read(lambda reader: reader.get(Vm, vm))
    return found.host if found is not None else ""
