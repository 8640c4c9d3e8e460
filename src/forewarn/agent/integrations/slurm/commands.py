"""A client of Slurm for one node, through `scontrol` and `squeue`.

If the controller is unavailable, commands are repeated until the deadline. Errors contain
Slurm's message. The client does not decide anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import Commands, Output
from forewarn.agent.integrations.slurm.state import (
    JOB_FORMAT,
    JOB_STATES,
    Node,
    SlurmJob,
    jobs_of,
    node_of,
)

PROGRAMS = ("scontrol", "squeue")

_FINAL = re.compile(
    r"not found|invalid node name|access/permission denied|invalid user|invalid option",
    re.IGNORECASE,
)
"""Errors of Slurm that are permanent."""

_AWAY = re.compile(r"contact slurm|timed out|connection refused", re.IGNORECASE)
"""Errors while the controller is unavailable."""

_OWNER = re.compile(r"^SlurmUser\s*=\s*(\S+?)\(([0-9]+)\)", re.MULTILINE)


class Slurm:
    """A client of Slurm for one node."""

    def __init__(self, node: str, environment: Mapping[str, str]) -> None:
        """Run nothing yet."""
        self.node = node
        self.commands = Commands(_plain(environment))

    def look(self, context: RunContext) -> Node:
        """Return the current state of the node; raises HandlerError."""
        name = self.node
        words = ["scontrol", "--all", "--oneliner", "show", "node", name]
        output = self._ask(words, context, f"asking Slurm about node {name}")
        if output.status != 0 and "not found" in output.said.lower():
            raise HandlerError(
                f"Slurm has no node {name}: set `node` to its name ({output.said})"
            )
        return node_of(output.good(f"cannot read node {name}"), name)

    def jobs(self, context: RunContext) -> tuple[SlurmJob, ...]:
        """Return the jobs that use the node; raises HandlerError."""
        words = [
            *("squeue", "--all", "--array", "--noheader", f"--nodelist={self.node}"),
            *(f"--states={JOB_STATES}", f"--format={JOB_FORMAT}"),
        ]
        output = self._ask(
            words, context, f"asking Slurm about the jobs on {self.node}"
        )
        return jobs_of(output.good(f"cannot list the jobs on {self.node}"))

    def update(self, context: RunContext, state: str, *more: str) -> None:
        """Change the state of the node; raises HandlerError."""
        words = ["scontrol", "update", f"nodename={self.node}", f"state={state}", *more]
        output = self._ask(words, context, f"asking Slurm to {state} node {self.node}")
        output.good(f"Slurm refused to {state} node {self.node}")

    def requeue(self, job: SlurmJob, context: RunContext) -> str:
        """Requeue a job; return why Slurm refused, or an empty text."""
        output = self.commands.patiently(
            ["scontrol", "requeue", job.id],
            context,
            doing=f"requeuing {job}",
            may_pass=lambda output: _AWAY.search(output.err) is not None,
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
            words = ["sacctmgr", "--noheader", "--parsable2", "show", "user", user]
            level = self.commands.run(
                [*words, "format=AdminLevel"], context
            ).out.strip()
            if level in {"Operator", "Administrator"}:
                return ()
        said = (
            f"the agent runs as {user}, which cannot drain nodes: run it as root or "
            f"{owner[1]}, or make {user} an operator of Slurm"
        )
        return (said,)

    def _ask(self, words: Sequence[str], context: RunContext, doing: str) -> Output:
        return self.commands.patiently(
            words,
            context,
            doing=doing,
            may_pass=lambda output: _FINAL.search(output.err + output.out) is None,
        )


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that change the output of commands."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(("SQUEUE_", "SCONTROL_"))
    }
    return {**kept, "SLURM_TIME_FORMAT": "standard"}
