"""A client of Slurm for one node, through `scontrol` and `squeue`.

It understands the states of a node from Slurm 18 on, as words (`IDLE+DRAIN`) and with
suffixes (`idle*`), and raises an error for other output. If the controller is
unavailable, commands are repeated until the deadline. Errors contain Slurm's message.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Mapping, Sequence

from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import Commands, Output
from forewarn.problems import listed
from forewarn.protocol.frozen import frozen_dataclass

MARK = "forewarn:"
"""The prefix of the reason of a node that this handler has drained. Slurm stores it with
the node, so the drain is recognized even if all data of the VM is lost."""

JOB_FORMAT = "%i|%u|%T"
"""The format of `squeue` that `jobs_of` parses: ID, user and state."""

JOB_STATES = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING"
"""States of jobs that use a node."""

NAMED_MAX = 8
"""Maximum number of jobs that a message names."""

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
"""Suffixes of a state; see NODE STATE CODES in sinfo(1)."""

_SAME = {
    "ALLOC": "ALLOCATED",
    "COMP": "COMPLETING",
    "DRAINED": "DRAIN",
    "DRAINING": "DRAIN",
    "FAILING": "FAIL",
    "MIX": "MIXED",
    "NO_RESPOND": "NOT_RESPONDING",
}
"""Other names of states, in other versions and commands."""

_HELD = frozenset({"DRAIN", "DOWN", "FAIL", "FUTURE"})
_LEAVING = frozenset({"POWER_DOWN", "POWERING_DOWN"})
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_AWAY = frozenset({"NOT_RESPONDING", "UNKNOWN", "REBOOT_ISSUED"})

_OF_REBOOT = ("Node unexpectedly rebooted", "Not responding")
"""Prefixes of the reasons that Slurm writes after a node was unreachable."""

_NODE = re.compile(r"NodeName=(\S+) ")
_STATE = re.compile(r" State=(\S+)")
_REASON = re.compile(r" Reason=(.*?) \[[^\s@\[\]]*@[^\s\[\]]*\]")
_JOB = re.compile(r"([0-9][0-9A-Za-z_+\[\],%-]*)\|([^|]+)\|([A-Z_]+)")

PROGRAMS = ("scontrol", "squeue")

_FINAL = re.compile(
    r"not found|invalid node name|access/permission denied|invalid user|invalid option",
    re.IGNORECASE,
)
"""Errors of Slurm that are permanent."""

_UNREACHABLE = re.compile(r"contact slurm|timed out|connection refused", re.IGNORECASE)
"""Errors while the controller is unavailable."""

_OWNER = re.compile(r"^SlurmUser\s*=\s*(\S+?)\(([0-9]+)\)", re.MULTILINE)


@frozen_dataclass
class Node:
    """The state of a node in the controller."""

    name: str
    states: frozenset[str]
    """Base state and flags of the node, as words."""
    shown: str
    """States of the node as Slurm writes them."""
    reason: str = ""
    """The reason of a drain; empty: none."""

    @property
    def takes_jobs(self) -> bool:
        """Return whether Slurm can start jobs there, now or when it responds again."""
        return not self.states & (_HELD | _LEAVING)

    @property
    def is_leaving(self) -> bool:
        """Return whether Slurm is powering the node down."""
        return bool(self.states & _LEAVING)

    @property
    def is_busy(self) -> bool:
        """Return whether a job uses the node."""
        return bool(self.states & _BUSY)

    @property
    def is_ours(self) -> bool:
        """Return whether the node's reason has the handler's mark."""
        return self.reason.startswith(MARK)


@frozen_dataclass
class SlurmJob:
    """A job that uses the node."""

    id: str
    """`12`, or `12_3` for a task of an array."""
    user: str
    state: str

    def __str__(self) -> str:
        """Return the node for a message."""
        return f"{self.id} ({self.user})"


class Undo(enum.Enum):
    """The next step of a recovery; the value is the state for `scontrol update`."""

    DONE = "done"
    """The node accepts jobs, or stays as the settings require."""
    LEAVE = "leave"
    """The node is drained for another reason."""
    RESUME = "resume"
    UNDRAIN = "undrain"
    """End the drain and leave the node DOWN."""
    WAIT = "wait"
    """The node does not respond yet."""


def undo_of(node: Node, *, is_remembered: bool, returns: bool) -> Undo:
    """Return the next step for a node that this handler may have drained.

    `is_remembered`: the memo has the drain. `returns`: resume a node that is DOWN because
    of its reboot, too.
    """
    by_reboot = is_remembered and node.reason.startswith(_OF_REBOOT)
    is_down = "DOWN" in node.states
    if "DRAIN" in node.states:
        if not (node.is_ours or by_reboot):
            return Undo.LEAVE
        if "UNKNOWN" in node.states:
            # Right after a start of the controller, nodes cannot be resumed.
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
    """Parse `scontrol --oneliner show node NAME`; raises HandlerError."""
    # A reason can have several lines.
    line = " ".join(text.split())
    named, state = _NODE.match(line), _STATE.search(line)
    if named is None or state is None or named[1] != name:
        raise HandlerError(
            f"cannot parse scontrol's output for node {name}: {line[:100]}"
        )
    reason = _REASON.search(line, state.end())
    return Node(
        name=name,
        states=_states(state[1]),
        shown=state[1],
        reason=reason[1] if reason else "",
    )


def jobs_of(text: str) -> tuple[SlurmJob, ...]:
    """Parse the output of `squeue` in JOB_FORMAT; raises HandlerError."""
    jobs: list[SlurmJob] = []
    for line in text.splitlines():
        if (match := _JOB.fullmatch(line.strip())) is None:
            raise HandlerError(f"cannot parse squeue's output: {line[:100]}")
        jobs.append(SlurmJob(id=match[1], user=match[2], state=match[3]))
    return tuple(jobs)


def counted(jobs: Sequence[SlurmJob]) -> str:
    """Return the number, IDs and users of jobs for a message."""
    names = listed([str(job) for job in jobs], NAMED_MAX)
    return f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}, {names},"


def _states(shown: str) -> frozenset[str]:
    states: set[str] = set()
    for part in shown.upper().split("+"):
        word = part.rstrip("".join(_SIGNS))
        states.add(_SAME.get(word, word))
        states.update(_SIGNS[sign] for sign in part[len(word) :])
    return frozenset(states)


class Slurm:
    """A client of Slurm for one node."""

    def __init__(self, node: str, environment: Mapping[str, str]) -> None:
        """Run nothing yet."""
        self.node = node
        self.commands = Commands(_environment_of(environment))

    def read_node(self, context: RunContext) -> Node:
        """Return the current state of the node; raises HandlerError."""
        name = self.node
        command = ["scontrol", "--all", "--oneliner", "show", "node", name]
        output = self._ask(command, context, f"asking Slurm about node {name}")
        if output.status != 0 and "not found" in output.said.lower():
            raise HandlerError(
                f"Slurm has no node {name}: set `node` to its name ({output.said})"
            )
        return node_of(output.good(f"cannot read node {name}"), name)

    def jobs(self, context: RunContext) -> tuple[SlurmJob, ...]:
        """Return the jobs that use the node; raises HandlerError."""
        command = [
            *("squeue", "--all", "--array", "--noheader", f"--nodelist={self.node}"),
            *(f"--states={JOB_STATES}", f"--format={JOB_FORMAT}"),
        ]
        output = self._ask(
            command, context, f"asking Slurm about the jobs on {self.node}"
        )
        return jobs_of(output.good(f"cannot list the jobs on {self.node}"))

    def update(self, context: RunContext, state: str, *more: str) -> None:
        """Change the state of the node; raises HandlerError."""
        command = [
            "scontrol",
            "update",
            f"nodename={self.node}",
            f"state={state}",
            *more,
        ]
        output = self._ask(
            command, context, f"asking Slurm to {state} node {self.node}"
        )
        output.good(f"Slurm refused to {state} node {self.node}")

    def requeue(self, job: SlurmJob, context: RunContext) -> str:
        """Requeue a job; return why Slurm refused, or an empty text."""
        output = self.commands.patiently(
            ["scontrol", "requeue", job.id],
            context,
            doing=f"requeuing {job}",
            may_pass=lambda output: _UNREACHABLE.search(output.err) is not None,
        )
        return output.said if output.status != 0 else ""

    def rights(self, context: RunContext) -> Sequence[str]:
        """Return why this process may not drain nodes; empty: it may."""
        if os.name != "posix" or os.geteuid() == 0:
            return ()
        output = self._ask(
            ["scontrol", "show", "config"], context, "asking Slurm about its settings"
        )
        owner = _OWNER.search(output.out)
        if owner is None or int(owner[2]) == os.geteuid():
            return ()
        user = self.commands.run(["id", "-un"], context).good("id -un").strip()
        if self.commands.find("sacctmgr"):
            command = ["sacctmgr", "--noheader", "--parsable2", "show", "user", user]
            level = self.commands.run(
                [*command, "format=AdminLevel"], context
            ).out.strip()
            if level in {"Operator", "Administrator"}:
                return ()
        sentence = (
            f"the agent runs as {user}, which cannot drain nodes: run it as root or "
            f"{owner[1]}, or make {user} an operator of Slurm"
        )
        return (sentence,)

    def _ask(self, command: Sequence[str], context: RunContext, doing: str) -> Output:
        return self.commands.patiently(
            command,
            context,
            doing=doing,
            may_pass=lambda output: _FINAL.search(output.err + output.out) is None,
        )


def _environment_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that change the output of commands."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(("SQUEUE_", "SCONTROL_"))
    } | {"SLURM_TIME_FORMAT": "standard"}
