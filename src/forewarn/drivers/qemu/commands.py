"""The programs of the driver for QEMU, as the driver that runs programs gets them.

Each VM of a call has its own process, so a call continues while the service is down, and
a monitor that hangs delays only its own call.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from forewarn.drivers.programs import Programs, Words
from forewarn.drivers.qemu.places import Places
from forewarn.protocol.host_steps import NO_STEPS, StepRules
from forewarn.protocol.operations import Action

_PROGRAM = str(Path(__file__).absolute().with_name("program.py"))

_ALWAYS = (Action.FREEZE, Action.REBOOT, Action.DELETE, Action.PAUSE, Action.RESUME)
_WITH_START = (Action.REDEPLOY, Action.STOP, Action.START)


def actions_of(places: Places) -> frozenset[Action]:
    """Return the actions that the settings allow."""
    return frozenset(
        (
            *_ALWAYS,
            *(_WITH_START if places.start else ()),
            *((Action.LIVE_MIGRATE,) if places.receive else ()),
        )
    )


def programs_of(
    places: Places,
    *,
    steps: Mapping[str, Words] | None = None,
    step_rules: StepRules = NO_STEPS,
    parallel: int = 4,
) -> Programs:
    """Return the programs for VMs, and the operator's programs for host steps."""
    command = (sys.executable, "-I", "-S", _PROGRAM, places.text)
    about = ("{action}", "{vm}", "{host}", "{to_host}", "{mark}")
    return Programs(
        actions=dict.fromkeys(actions_of(places), (*command, "work")),
        abortable=frozenset({Action.LIVE_MIGRATE}),
        timeouts={},
        steps=steps or {},
        step_rules=step_rules,
        observe_many=(*command, "observe"),
        probe=(*command, "probe", *about),
        marks=(*command, "marks"),
        abilities=(*command, "abilities"),
        watch=(*command, "watch") if places.events else (),
        parallel=parallel,
    )
