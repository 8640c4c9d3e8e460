"""`slurm`: drains this node for an event, and resumes it afterwards.

The handler drains a node that accepts jobs, with a reason that marks the drain. The
preparation ends when no job uses the node. The handler resumes only a node that it has
drained: a node with another reason, or one that was drained before, is not changed. It
uses only Slurm's commands `scontrol` and `squeue`.

A crash before `scontrol update` leaves a memo of a drain that did not happen; recovery
then only checks the node. A crash after it leaves a drained node with the mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind, too_long
from forewarn.agent.integrations.slurm.client import (
    MARK,
    PROGRAMS,
    Node,
    Slurm,
    SlurmJob,
    Undo,
    counted,
    undo_of,
)
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings, host_name
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

WAIT, REQUEUE, LATE = "wait", "requeue", "wait then requeue"

REQUEUE_BEFORE = MINUTE
"""Default of `requeue_before`: a job may take KillWait, 30 s by default, to end, and the
epilog runs after that."""

_UNSPOKEN = re.compile(r"[^A-Za-z0-9 ._:-]+", re.ASCII)


@frozen_dataclass
class Plan:
    """The keys of the settings."""

    node: str = ""
    """The name of this node in Slurm; empty: derived from the environment."""
    jobs: str = WAIT
    requeue_before: Micros = REQUEUE_BEFORE
    return_after_reboot: bool = True


class SlurmWorker(Integration):
    """Drains and resumes one node."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is run."""
        super().__init__(settings, ground)
        self._plan = Plan(**settings.more)
        node = self._plan.node or own_node(ground.environment)
        self._slurm = Slurm(node, ground.environment)

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Drain the node and wait until no job uses it; raises HandlerError."""
        refused: dict[str, str] = {}
        while True:
            node = self._slurm.read_node(context)
            if node.takes_jobs:
                self._drain(job, context)
                node = self._slurm.read_node(context)
            jobs = self._slurm.jobs(context)
            if not jobs and not node.is_busy and not node.takes_jobs:
                return Result(detail=_prepared(node))
            if self._requeues_now(context):
                self._requeue(jobs, refused, context)
            context.recheck(_awaited(node, jobs, refused))

    def recover(self, _job: Job, context: RunContext) -> Result:
        """Resume the node if this handler drained it; raises HandlerError."""
        name = self._slurm.node
        node = self._slurm.read_node(context)
        is_remembered = self._memo.read().get("node") == name
        if not is_remembered and not node.is_ours:
            return Result(detail=f"{name} was not drained by forewarn")
        if not is_remembered:
            # Slurm clears the reason when it resumes a node, but the recovery continues.
            self._memo.keep({"node": name})
        last = None
        while True:
            undo = undo_of(
                node, is_remembered=True, returns=self._plan.return_after_reboot
            )
            if undo in {Undo.DONE, Undo.LEAVE}:
                self._memo.keep({})
                return Result(detail=_recovered(node, undo))
            if undo in {Undo.WAIT, last}:
                context.recheck(f"for {name}, which is {node.shown}")
            if undo is not Undo.WAIT:
                self._slurm.update(context, undo.value)
            last = undo
            node = self._slurm.read_node(context)

    def _wrong(self, context: RunContext) -> Sequence[str]:
        if missing := self._slurm.commands.missing(PROGRAMS, "Slurm (slurm-client)"):
            return missing
        self._slurm.read_node(context)
        self._slurm.jobs(context)
        return self._slurm.rights(context)

    def _drain(self, job: Job, context: RunContext) -> None:
        # Record the drain before it starts, since only recorded changes are undone.
        self._memo.keep({"node": self._slurm.node})
        try:
            self._slurm.update(context, "drain", f"reason={_reason(job)}")
        except HandlerError:
            self._memo.keep({})
            raise

    def _requeues_now(self, context: RunContext) -> bool:
        if self._plan.jobs == REQUEUE:
            return True
        late = self._plan.requeue_before / SECOND
        return self._plan.jobs == LATE and context.remaining() <= late

    def _requeue(
        self, jobs: Sequence[SlurmJob], refused: dict[str, str], context: RunContext
    ) -> None:
        """Requeue each job once; a job that Slurm refuses to requeue is not tried again."""
        for job in jobs:
            if job.state == "COMPLETING" or job.id in refused:
                continue
            if why := self._slurm.requeue(job, context):
                refused[job.id] = why


def own_node(environment: Mapping[str, str]) -> str:
    """Return the name of this node in Slurm, from the environment or the host name."""
    return environment.get("SLURMD_NODENAME") or host_name()


def _faults(entry: Entry) -> Faults:
    if "requeue_before" in entry and entry.get("jobs", WAIT) != LATE:
        yield "requeue_before", f'requires jobs = "{LATE}"'
    if entry.get("jobs") == LATE:
        yield from too_long(entry, "requeue_before", REQUEUE_BEFORE)


def _reason(job: Job) -> str:
    parts = (
        ("an event",)
        if job.notice is None
        else (job.notice.event_type, job.notice.event_id)
    )
    # Values of the endpoint must not contain syntax of scontrol.
    return f"{MARK} {_UNSPOKEN.sub('', ' '.join(parts))[:100]}"


def _awaited(node: Node, jobs: Sequence[SlurmJob], refused: Mapping[str, str]) -> str:
    if not jobs:
        return f"for {node.name}, which is {node.shown}"
    sentence = f"for {counted(jobs)} on {node.name}"
    if not refused:
        return sentence
    first, why = next(iter(refused.items()))
    others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    return f"{sentence}; {first}{others} could not be requeued: {why}"


def _prepared(node: Node) -> str:
    if node.is_ours:
        return f"{node.name} is drained, and no job is left"
    if node.is_leaving:
        return f"Slurm is powering {node.name} down, and no job is left"
    because = f": {node.reason}" if node.reason else ""
    return f"{node.name} was already {node.shown}{because}; no job is left"


def _recovered(node: Node, undo: Undo) -> str:
    if undo is Undo.DONE and node.takes_jobs:
        return f"{node.name} accepts jobs again"
    because = f": {node.reason}" if node.reason else ""
    return f"{node.name} stays {node.shown}{because}"


KIND = HandlerKind(
    make=SlurmWorker,
    keys={
        "node": Option(
            form=Forms.NAME,
            text="The name of this node in Slurm. Default: `SLURMD_NODENAME` of the "
            "agent's environment, otherwise the short host name.",
        ),
        "jobs": Option(
            form=Forms.WORD,
            words=(WAIT, REQUEUE, LATE),
            text="What to do with the jobs on the node. `wait`: wait until they end. "
            "`requeue`: requeue them immediately. `wait then requeue`: wait, and "
            "requeue the remaining jobs `requeue_before` the deadline. Default: "
            "`wait`.",
        ),
        "requeue_before": Option(
            form=Forms.DURATION,
            least=SECOND,
            most=12 * HOUR,
            text="How long before the deadline the remaining jobs are requeued, so "
            "that Slurm can end them properly. Default: `1m`.",
        ),
        "return_after_reboot": Option(
            form=Forms.SWITCH,
            text="Whether to resume a drained node even if Slurm has set it DOWN in "
            "the meantime, because of the reboot or missing responses. Default: "
            "`true`.",
        ),
    },
    faults=_faults,
    marks_there=True,
)
