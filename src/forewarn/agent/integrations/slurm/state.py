"""Reads what Slurm's commands print about one node and its jobs.

It promises to understand a node's states as versions from 18 on write them, with words
(`IDLE+DRAIN`) and with marks (`idle*`), and to say so where it does not. It runs
nothing, and knows nothing of what is done about a state.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from forewarn.agent.handlers.run_context import HandlerError
from forewarn.protocol.frozen import frozen_dataclass

MARK = "forewarn:"
"""How the reason of a node begins that this handler has drained. Slurm keeps it with
the node, so that it is known again when everything in the VM is lost."""

JOB_FORMAT = "%i|%u|%T"
"""What `squeue` is asked for, as `jobs_of` reads it: id, user and state."""

JOB_STATES = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING"
"""Of jobs that have something on a node."""

NAMED_MAX = 8
"""Jobs named in one sentence; of more, the number is told."""

_SIGNS = {
    "*": "NOT_RESPONDING",
    "$": "MAINT",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""What Slurm puts behind a state's word; see NODE STATE CODES in sinfo(1)."""

_SAME = {
    "ALLOC": "ALLOCATED",
    "COMP": "COMPLETING",
    "DRAINED": "DRAIN",
    "DRAINING": "DRAIN",
    "FAILING": "FAIL",
    "MIX": "MIXED",
    "NO_RESPOND": "NOT_RESPONDING",
}
"""Words of other versions and other commands for one thing."""

_HELD = frozenset({"DRAIN", "DOWN", "FAIL", "FUTURE"})
_LEAVING = frozenset({"POWER_DOWN", "POWERING_DOWN"})
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_AWAY = frozenset({"NOT_RESPONDING", "UNKNOWN", "REBOOT_ISSUED"})

_OF_REBOOT = ("Node unexpectedly rebooted", "Not responding")
"""How the reasons begin that Slurm itself writes when a node was gone for a while."""

_NODE = re.compile(r"NodeName=(\S+) ")
_STATE = re.compile(r" State=(\S+)")
_REASON = re.compile(r" Reason=(.*?) \[[^\s@\[\]]*@[^\s\[\]]*\]")
_JOB = re.compile(r"([0-9][0-9A-Za-z_+\[\],%-]*)\|([^|]+)\|([A-Z_]+)")


@frozen_dataclass
class Node:
    """A node, as the controller sees it."""

    name: str
    states: frozenset[str]
    """Its base state and its flags, in words."""
    shown: str
    """Its states as Slurm writes them."""
    reason: str = ""
    """Why it is held; empty: nobody gave a reason."""

    @property
    def takes_jobs(self) -> bool:
        """Tell whether a job may be started there, now or when it answers again."""
        return not self.states & (_HELD | _LEAVING)

    @property
    def is_leaving(self) -> bool:
        """Tell whether Slurm itself is powering it down."""
        return bool(self.states & _LEAVING)

    @property
    def is_busy(self) -> bool:
        """Tell whether something of a job is there."""
        return bool(self.states & _BUSY)

    @property
    def is_ours(self) -> bool:
        """Tell whether its reason is this handler's."""
        return self.reason.startswith(MARK)


@frozen_dataclass
class SlurmJob:
    """A job that has something on the node."""

    id: str
    """As people type it: `12`, or `12_3` for a task of an array."""
    user: str
    state: str

    def __str__(self) -> str:
        """Return it for a sentence."""
        return f"{self.id} ({self.user})"


class Undo(enum.Enum):
    """What is next on the way back."""

    DONE = "done"
    """It takes jobs, or stays as the settings want it."""
    LEAVE = "leave"
    """It is held for a reason that is not ours."""
    RESUME = "resume"
    UNDRAIN = "undrain"
    """Take back the drain and leave it DOWN."""
    WAIT = "wait"
    """It does not answer yet."""


def undo_of(node: Node, *, is_remembered: bool, returns: bool) -> Undo:
    """Return what is next for a node that this handler may have drained.

    `is_remembered`: it has, by its own memory. `returns`: also a node that is DOWN
    since it was rebooted is to take jobs again.
    """
    by_reboot = is_remembered and node.reason.startswith(_OF_REBOOT)
    is_down = "DOWN" in node.states
    if "DRAIN" in node.states:
        if not (node.is_ours or by_reboot):
            return Undo.LEAVE
        if "UNKNOWN" in node.states:
            # Just after the controller was started, nodes cannot be resumed.
            return Undo.WAIT
        return Undo.UNDRAIN if is_down and not returns else Undo.RESUME
    if is_down:
        if not (node.is_ours or by_reboot):
            return Undo.LEAVE
        return Undo.RESUME if returns else Undo.DONE
    if not node.takes_jobs:
        return Undo.LEAVE
    return Undo.WAIT if node.states & _AWAY else Undo.DONE


def node_of(text: str, name: str) -> Node:
    """Read what `scontrol --oneliner show node NAME` printed; raises HandlerError."""
    # A reason may have several lines.
    line = " ".join(text.split())
    named, state = _NODE.match(line), _STATE.search(line)
    if named is None or state is None or named[1] != name:
        raise HandlerError(
            f"what scontrol says of node {name} is not understood: {line[:100]}"
        )
    reason = _REASON.search(line, state.end())
    return Node(
        name=name,
        states=_states(state[1]),
        shown=state[1],
        reason=reason[1] if reason else "",
    )


def jobs_of(text: str) -> tuple[SlurmJob, ...]:
    """Read what `squeue` printed by JOB_FORMAT; raises HandlerError."""
    jobs: list[SlurmJob] = []
    for line in text.splitlines():
        found = _JOB.fullmatch(line.strip())
        if found is None:
            raise HandlerError(f"what squeue says is not understood: {line[:100]}")
        jobs.append(SlurmJob(id=found[1], user=found[2], state=found[3]))
    return tuple(jobs)


def counted(jobs: Sequence[SlurmJob]) -> str:
    """Return jobs for a sentence: how many, and whose they are."""
    names = ", ".join(map(str, jobs[:NAMED_MAX]))
    more = f" and {len(jobs) - NAMED_MAX} more" if len(jobs) > NAMED_MAX else ""
    return f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}, {names}{more},"


def _states(shown: str) -> frozenset[str]:
    found: set[str] = set()
    for part in shown.upper().split("+"):
        word = part.rstrip("".join(_SIGNS))
        found.add(_SAME.get(word, word))
        found.update(_SIGNS[sign] for sign in part[len(word) :])
    return frozenset(found)
