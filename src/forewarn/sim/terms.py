"""What a simulated world begins with: fleet, settings, how strict it is, and faults.

The settings are those of the service, read by its own reader, so that whatever
`forewarn serve` can be told, a simulation can be told in the same words.
"""

from dataclasses import dataclass, field, replace

from forewarn.clock import Clock
from forewarn.sim import fleets, profiles
from forewarn.sim.faults.fault import Playbook
from forewarn.sim.profiles import Profile
from forewarn.sim.scenario.setup import Setup, running_stage
from forewarn.sim.sim_server import SimServer

SPEED = 60.0
"""Unless somebody says otherwise: a quarter of an hour's notice is a quarter of a
minute's, and a reboot takes a second."""

RETENTION = "1h"
"""What has ended is kept for so long, that a simulation may run for ever."""


def usual_setup(vms: int | None = None, *, speed: float = SPEED) -> Setup:
    """Return the fleet of a simulation that names none, at this speed."""
    return Setup(fleet=fleets.fleet_text(vms or fleets.VMS), speed=speed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a world begins."""

    setup: Setup = field(default_factory=usual_setup)
    """Its settings have their way before the profile's."""
    profile: Profile = Profile.LENIENT
    faults: tuple[Playbook, ...] = ()
    """What is wrong with answers from the beginning."""
    first: tuple[str, ...] = ()
    """VMs that are at the first addresses, in this order; the others follow."""

    def staged(self, clock: Clock) -> SimServer:
        """Return a stage that begins so; it listens nowhere, and nothing runs yet.

        Raises SettingsError, FleetFileError, RefusedError, and FaultFileError where
        a fault names no VM.
        """
        setup = self.setup
        settings = {
            "store.retention": RETENTION,
            **profiles.settings_of(self.profile, speed=setup.speed),
            **setup.settings,
        }
        stage = running_stage(replace(setup, settings=settings), clock=clock)
        stage.faults.play_file(self.faults)
        return stage
