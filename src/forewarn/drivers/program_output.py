"""The lines on which a program reports more than its exit status. Pure."""

import contextlib
import re

from forewarn.fleet.validators import name_fault
from forewarn.instants import Micros, parse_duration

_PAUSED = re.compile(r"^paused: *(\S+)[ \r]*$", re.MULTILINE)
"""The line on which a program reports the measured pause of a VM."""

_VM_HOST = re.compile(r"^vm-host: *(\S+)[ \r]*$", re.MULTILINE)
"""The line on which a program reports the host that its VM is on."""


def host_in(output: str) -> str:
    """Return the host that a program reported for its VM; empty: it reported none."""
    hosts = _VM_HOST.findall(output)
    return hosts[-1] if hosts and not name_fault(hosts[-1]) else ""


def pause_in(output: str) -> Micros | None:
    """Return the pause that a program reported; None: it reported none."""
    durations = _PAUSED.findall(output)
    with contextlib.suppress(ValueError):
        return parse_duration(durations[-1]) if durations else None
    return None
