"""`slurm`: drains this node for an event, and resumes it afterwards.

It promises to drain a node that takes jobs, with a reason by which it is known again,
and to be done when no job has anything there any more. It resumes only what it drained:
a node whose reason is another one, or that was held before, stays as it is. It knows
Slurm by its commands, `scontrol` and `squeue`, and by nothing else.

A crash leaves: before `scontrol update`, a memory of a drain that did not happen, which
only means that the node is looked at; after it, a drained node with our reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.agent.handlers.ground import Ground
from forewarn.agent.handlers.port import (
    Forgetful,
    HandlerError,
    Job,
    OverError,
    Result,
    faults_within,
)
from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind, too_long
from forewarn.agent.integrations.memo import Memo
from forewarn.agent.integrations.slurm.commands import PROGRAMS, Slurm
from forewarn.agent.integrations.slurm.state import (
    MARK,
    Node,
    SlurmJob,
    Undo,
    counted,
    undo_of,
)
from forewarn.agent.integrations.waiting import Aim
from forewarn.agent.naming import host_name
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.clock import Clock
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

WAIT, REQUEUE, LATE = "wait", "requeue", "wait then requeue"

REQUEUE_BEFORE = MINUTE
"""Slurm gives a job that is to end KillWait, 30 s by default, and then there is an
epilog."""

CHECK_SECONDS = 5.0
"""For `agent check`, in all."""

_UNSPOKEN = re.compile(r"[^A-Za-z0-9 ._:-]+", re.ASCII)


@frozen_dataclass
class Plan:
    """The settings of one such handler."""

    jobs: str = WAIT
    requeue_before: Micros = REQUEUE_BEFORE
    returns: bool = True


class SlurmWorker(Forgetful):
    """Drains and resumes one node."""

    def __init__(self, plan: Plan, *, slurm: Slurm, memo: Memo, clock: Clock) -> None:
        """Ask nobody yet."""
        self._plan = plan
        self._slurm = slurm
        self._memo = memo
        self._clock = clock

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Drain the node and wait until no job is there; raises HandlerError."""
        aim = Aim(context)
        refused: dict[str, str] = {}
        with aim.told():
            while True:
                node = self._slurm.look(context)
                if node.takes_jobs:
                    self._drain(job, context)
                    node = self._slurm.look(context)
                jobs = self._slurm.jobs(context)
                if not jobs and not node.is_busy and not node.takes_jobs:
                    return Result(detail=_prepared(node))
                if self._requeues_now(context):
                    self._requeue(jobs, refused, context)
                aim.recheck(_awaited(node, jobs, refused))

    def recover(self, job: Job, context: RunContext) -> Result:
        """Resume the node if it was drained here; raises HandlerError."""
        del job
        name = self._slurm.node
        node = self._slurm.look(context)
        is_remembered = self._memo.read().get("node") == name
        if not is_remembered and not node.is_ours:
            return Result(detail=f"{name} was not drained by forewarn")
        if not is_remembered:
            # Slurm forgets the reason when it resumes a node, and this goes on then.
            self._memo.keep({"node": name})
        last, aim = None, Aim(context)
        with aim.told():
            while True:
                undo = undo_of(node, is_remembered=True, returns=self._plan.returns)
                if undo in {Undo.DONE, Undo.LEAVE}:
                    self._memo.keep({})
                    return Result(detail=_recovered(node, undo))
                if undo in {Undo.WAIT, last}:
                    aim.recheck(f"for {name}, which is {node.shown}")
                if undo is not Undo.WAIT:
                    self._slurm.update(context, undo.value)
                last = undo
                node = self._slurm.look(context)

    def check(self, vm: str = "") -> Sequence[str]:
        """Return what would keep it from draining the node; changes nothing."""
        del vm
        missing = self._slurm.commands.missing(PROGRAMS, "Slurm (slurm-client)")
        return missing or faults_within(CHECK_SECONDS, self._clock, self._wrong)

    def _wrong(self, context: RunContext) -> Sequence[str]:
        self._slurm.look(context)
        self._slurm.jobs(context)
        return self._slurm.rights(context)

    def _drain(self, job: Job, context: RunContext) -> None:
        # Before it is done: what is not remembered is not undone.
        self._memo.keep({"node": self._slurm.node})
        try:
            self._slurm.update(context, "drain", f"reason={_reason(job)}")
        except OverError:
            raise
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
        """Have each job begin again elsewhere; one that was refused is not asked again."""
        for each in jobs:
            if each.state == "COMPLETING" or each.id in refused:
                continue
            if why := self._slurm.requeue(each, context):
                refused[each.id] = why


def _make(settings: HandlerSettings, ground: Ground) -> SlurmWorker:
    more = settings.more
    plan = Plan(
        jobs=more.get("jobs", WAIT),
        requeue_before=more.get("requeue_before", REQUEUE_BEFORE),
        returns=more.get("return_after_reboot", True),
    )
    return SlurmWorker(
        plan,
        slurm=Slurm(
            more.get("node", "") or own_node(ground.environment), ground.environment
        ),
        memo=Memo(ground.memos, settings),
        clock=ground.clock,
    )


def own_node(environment: Mapping[str, str]) -> str:
    """Return what Slurm calls this node, as far as the machine tells."""
    return environment.get("SLURMD_NODENAME") or host_name()


def _faults(entry: Entry) -> Faults:
    if "requeue_before" in entry and entry.get("jobs", WAIT) != LATE:
        yield "requeue_before", f'means something only with jobs = "{LATE}"'
    if entry.get("jobs") == LATE:
        yield from too_long(entry, "requeue_before", REQUEUE_BEFORE)


def _reason(job: Job) -> str:
    words = (
        ("an event",)
        if job.notice is None
        else (job.notice.event_type, job.notice.event_id)
    )
    # The endpoint's words go into a command of Slurm's own little language.
    return f"{MARK} {_UNSPOKEN.sub('', ' '.join(words))[:100]}"


def _awaited(node: Node, jobs: Sequence[SlurmJob], refused: Mapping[str, str]) -> str:
    if not jobs:
        return f"for {node.name}, which is {node.shown}"
    said = f"for {counted(jobs)} on {node.name}"
    if not refused:
        return said
    each, why = next(iter(refused.items()))
    others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    return f"{said}; {each}{others} could not be requeued: {why}"


def _prepared(node: Node) -> str:
    if node.is_ours:
        return f"{node.name} is drained, and no job is left"
    if node.is_leaving:
        return f"Slurm is powering {node.name} down, and no job is left"
    because = f": {node.reason}" if node.reason else ""
    return f"{node.name} was {node.shown} already{because}; no job is left"


def _recovered(node: Node, undo: Undo) -> str:
    if undo is Undo.DONE and node.takes_jobs:
        return f"{node.name} takes jobs again"
    because = f": {node.reason}" if node.reason else ""
    return f"{node.name} stays {node.shown}{because}"


_KEYS: Mapping[str, Any] = {
    "node": Option(
        form=Forms.NAME,
        text="This node's name in Slurm. Default: `SLURMD_NODENAME` of the agent's "
        "environment, or else the short host name.",
    ),
    "jobs": Option(
        form=Forms.WORD,
        words=(WAIT, REQUEUE, LATE),
        text="What becomes of the jobs on the node. `wait`: they end by themselves. "
        "`requeue`: they are requeued at once. `wait then requeue`: those that are "
        "left `requeue_before` the deadline are. Default: `wait`.",
    ),
    "requeue_before": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=12 * HOUR,
        text="How long before its deadline it requeues what is left, so that Slurm "
        "can end it properly. Default: `1m`.",
    ),
    "return_after_reboot": Option(
        form=Forms.SWITCH,
        text="Whether a node that it drained is resumed also where Slurm has set it "
        "DOWN meanwhile, since it was rebooted or did not answer. Default: `true`.",
    ),
}

KIND = HandlerKind(make=_make, keys=_KEYS, faults=_faults, marks_there=True)
