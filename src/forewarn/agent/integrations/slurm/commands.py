"""Slurm, asked and told by its own commands about one node: `scontrol` and `squeue`.

It promises to ask again while the controller is away and there is time, and to say in
a sentence what Slurm refused. It decides nothing.
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
"""What Slurm says where it does not help to ask again."""

_AWAY = re.compile(r"contact slurm|timed out|connection refused", re.IGNORECASE)
"""What it says when its controller is away."""

_OWNER = re.compile(r"^SlurmUser\s*=\s*(\S+?)\(([0-9]+)\)", re.MULTILINE)


class Slurm:
    """Slurm, as far as one node goes."""

    def __init__(self, node: str, environment: Mapping[str, str]) -> None:
        """Ask nobody yet."""
        self.node = node
        self.commands = Commands(_plain(environment))

    def look(self, context: RunContext) -> Node:
        """Return the node as it is now; raises HandlerError."""
        name = self.node
        words = ["scontrol", "--all", "--oneliner", "show", "node", name]
        output = self._ask(words, context, f"asking Slurm about node {name}")
        if output.status != 0 and "not found" in output.said.lower():
            raise HandlerError(
                f"Slurm knows no node {name}: write its name as `node` ({output.said})"
            )
        return node_of(output.good(f"node {name} cannot be looked at"), name)

    def jobs(self, context: RunContext) -> tuple[SlurmJob, ...]:
        """Return the jobs that have something on the node; raises HandlerError."""
        words = [
            *("squeue", "--all", "--array", "--noheader", f"--nodelist={self.node}"),
            *(f"--states={JOB_STATES}", f"--format={JOB_FORMAT}"),
        ]
        output = self._ask(
            words, context, f"asking Slurm about the jobs on {self.node}"
        )
        return jobs_of(output.good(f"the jobs on {self.node} cannot be listed"))

    def update(self, context: RunContext, state: str, *more: str) -> None:
        """Change the node's state; raises HandlerError."""
        words = ["scontrol", "update", f"nodename={self.node}", f"state={state}", *more]
        output = self._ask(words, context, f"having Slurm {state} node {self.node}")
        output.good(f"Slurm would not {state} node {self.node}")

    def requeue(self, job: SlurmJob, context: RunContext) -> str:
        """Have a job begin again elsewhere; return why Slurm would not, or nothing."""
        output = self.commands.patiently(
            ["scontrol", "requeue", job.id],
            context,
            doing=f"requeuing {job}",
            may_pass=lambda output: _AWAY.search(output.err) is not None,
        )
        return output.said if output.status != 0 else ""

    def rights(self, context: RunContext) -> Sequence[str]:
        """Return why Slurm would not let this process drain a node, if so."""
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
            f"the agent runs as {user}, which is neither root nor {owner[1]} nor an "
            "operator of Slurm: it may not drain nodes"
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
    """Return the environment without what would filter or write answers otherwise."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(("SQUEUE_", "SCONTROL_"))
    }
    return {**kept, "SLURM_TIME_FORMAT": "standard"}
