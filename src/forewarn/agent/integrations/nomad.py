"""Drains this Nomad client node, waits until its allocations have ended, undoes that.

The drain bears our mark in its metadata, which Nomad keeps as the node's last drain:
what an operator has begun bears another or none, and stays. It speaks to the agent of
Nomad on this machine, and knows nothing of jobs but their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.agent.foreign import members
from forewarn.agent.forms import percent_quoted
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.api import (
    NOT_FOUND,
    ApiError,
    Ask,
    Shape,
)
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.hashicorp import (
    connection_keys,
    local_agent,
)
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind, too_long
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.agent.wire.answers import Answer
from forewarn.instants import HOUR, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

URL = "http://127.0.0.1:4646"
"""Where Nomad's agent listens unless somebody says otherwise."""

FORCE_BEFORE: Micros = 20 * SECOND
"""Before our deadline: a task has five seconds to end, unless its job says otherwise,
and then its allocation is told of."""

NEVER = 0
AT_ONCE = -1
"""What Nomad takes these for as the deadline of a drain."""

PAUSE_SECONDS = 1.0
"""Between two looks at a node that is being drained."""

NAMES_SHOWN = 5
"""Allocations that a sentence names."""

MARK = "forewarn"
WAS = "forewarn_was"
"""Members of a drain's metadata: which drain of ours it is, and what the node was."""

ELIGIBLE = "eligible"
"""A node that may get new allocations."""

POLICY = 'agent { policy = "read" } node { policy = "write" } namespace "*" { policy = "read" }'
"""What a token must allow, for a sentence."""

_NANOSECONDS = 1_000
"""Of one microsecond."""

_ENDED = frozenset({"complete", "failed", "lost"})
"""Statuses of allocations that run no more."""


@frozen_dataclass
class Node:
    """How a node stands."""

    node_id: str
    name: str
    is_draining: bool
    eligibility: str
    last: Mapping[str, Any]
    """Its last drain, which may be the present one."""

    @property
    def mark(self) -> str:
        """Return which drain of ours was the last; empty: it was not ours."""
        return str(members(self.last.get("Meta")).get(MARK, ""))

    @property
    def was(self) -> str:
        """Return what the node was before our drain."""
        return str(members(self.last.get("Meta")).get(WAS, "")) or ELIGIBLE

    @property
    def is_cancelled(self) -> bool:
        """Tell whether somebody has ended the last drain before it was done."""
        return not self.is_draining and self.last.get("Status") == "canceled"


@frozen_dataclass
class Drain:
    """A drain of ours."""

    mark: str
    was: str
    """What the node was before it: eligible or not."""
    why: str
    """The event's type."""


class NomadWorker(Integration):
    """One handler that drains."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Ask nobody yet."""
        super().__init__(settings, ground)
        more = settings.more
        self._forces: bool = more.get("force", True)
        self._force_before: Micros = more.get("force_before", FORCE_BEFORE)
        self._drains_system: bool = more.get("system_jobs", False)
        self._api = local_agent(more, ground.clock, url=URL, header="X-Nomad-Token")

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Drain the node, and wait until it is empty; raises HandlerError."""
        node = self._node(self._node_id(context), context)
        owed = str(self._memo.read().get("mark", ""))
        is_mine = bool(owed) and node.mark == owed and not node.is_cancelled
        if node.is_draining and not is_mine:
            self._wait_until_empty(node.node_id, context)
            said = f"node {node.name} is drained; the drain is somebody else's"
            return Result(detail=said)
        drain = Drain(
            mark=owed if is_mine else job.run_id,
            was=node.was if is_mine else node.eligibility,
            why=job.notice.event_type if job.notice is not None else "",
        )
        # First, so that a crash leaves a drain that somebody undoes.
        self._memo.keep({"mark": drain.mark})
        self._drain(node.node_id, drain, context, deadline=self._deadline(context))
        stopped = self._wait_until_empty(node.node_id, context, mine=drain)
        said = f"; stopped by force: {_shown(stopped)}" if stopped else ""
        return Result(detail=f"node {node.name} is drained{said}")

    def recover(self, job: Job, context: RunContext) -> Result:
        """End the drain if it is this handler's; raises HandlerError."""
        owed = str(self._memo.read().get("mark", ""))
        if not owed and job.notice is not None:
            return Result(detail="it drained nothing")
        node = self._node(self._node_id(context), context)
        # Without a journal the memo may be gone too: then any mark of ours will do.
        if not node.mark or owed not in {"", node.mark} or node.is_cancelled:
            self._memo.keep({})
            said = f"the last drain of node {node.name} is not its own, or was ended"
            return Result(detail=said)
        if node.was != ELIGIBLE and not node.is_draining:
            self._memo.keep({})
            return Result(detail=f"node {node.name} was {node.was} before, and stays")
        self._end_drain(node, context)
        self._memo.keep({})
        if node.was != ELIGIBLE:
            return Result(detail=f"the drain ended; node {node.name} stays {node.was}")
        return Result(detail=f"node {node.name} is eligible again")

    def _wrong(self, context: RunContext) -> Sequence[str]:
        # Once, since a person waits to hear that nobody is there.
        node_id = self._node_id(context, again=False)
        self._node(node_id, context)
        self._allocations(node_id, context)
        return ()

    # What is done

    def _deadline(self, context: RunContext) -> Micros:
        """Return how long Nomad is to wait before it stops what still runs."""
        if not self._forces:
            return NEVER
        left = round(context.remaining() * SECOND) - self._force_before
        return left if left > 0 else AT_ONCE

    def _drain(
        self, node_id: str, drain: Drain, context: RunContext, *, deadline: Micros
    ) -> None:
        """Begin a drain, or change its deadline; raises HandlerError."""
        body = {
            "NodeID": node_id,
            "DrainSpec": {
                "Deadline": deadline * _NANOSECONDS,
                "IgnoreSystemJobs": not self._drains_system,
            },
            "Meta": {
                MARK: drain.mark,
                WAS: drain.was,
                "message": f"{drain.why or 'event'}, by forewarn's handler {self._name}",
            },
        }
        path = f"/v1/node/{node_id}/drain"
        self._answered(Ask(method="POST", path=path, json=body), context)

    def _end_drain(self, node: Node, context: RunContext) -> None:
        """Have a node drain no more, and be eligible if it was; until that is so."""
        restores = node.was == ELIGIBLE
        body = {"NodeID": node.node_id, "DrainSpec": None, "MarkEligible": restores}
        path = f"/v1/node/{node.node_id}/drain"
        while True:
            self._answered(Ask(method="POST", path=path, json=body), context)
            found = self._node(node.node_id, context)
            is_back = found.eligibility == ELIGIBLE or not restores
            if is_back and not found.is_draining:
                return
            context.pause(PAUSE_SECONDS, f"waiting for node {node.name} to be eligible")

    def _wait_until_empty(
        self, node_id: str, context: RunContext, *, mine: Drain | None = None
    ) -> tuple[str, ...]:
        """Wait until a drain is done; return what was stopped by force.

        Of a drain of ours Nomad knows the deadline. It is told again when that has
        come, since it may have been away, or had its clock set.
        """
        stopped: tuple[str, ...] | None = None
        while True:
            node = self._node(node_id, context)
            left = self._allocations(node_id, context)
            is_due = stopped is None and self._deadline(context) == AT_ONCE
            if mine is not None and node.is_draining and is_due:
                self._drain(node_id, mine, context, deadline=AT_ONCE)
                stopped = left
            if mine is not None and node.is_cancelled:
                raise HandlerError(f"somebody has ended the drain of node {node.name}")
            if not node.is_draining and not left:
                if mine is not None and node.eligibility == ELIGIBLE:
                    raise HandlerError(
                        f"node {node.name} is eligible: Nomad has not kept its drain, or "
                        "somebody has made it eligible again"
                    )
                return stopped or ()
            waits_for = _shown(left) if left else "Nomad to call the drain done"
            context.recheck(f"for {waits_for}", seconds=PAUSE_SECONDS)

    # What Nomad is asked

    def _node_id(self, context: RunContext, *, again: bool = True) -> str:
        """Return this node's id; raises HandlerError where it is no client node."""
        ask = Ask(method="GET", path="/v1/agent/self", again=again)
        answer, found = self._answered(ask, context)
        if not isinstance(found.get("stats"), dict):
            raise ask.odd(answer, "no agent of Nomad")
        stats = members(found.get("stats"))
        node_id = str(members(stats.get("client")).get("node_id", ""))
        if not node_id:
            raise HandlerError(
                f"Nomad's agent at {self._api.base} is no client: it has no node"
            )
        return percent_quoted(node_id)

    def _node(self, node_id: str, context: RunContext) -> Node:
        ask = Ask(method="GET", path=f"/v1/node/{node_id}")
        answer, found = self._answered(ask, context)
        is_there = "DrainStrategy" in found and found.get("SchedulingEligibility")
        if percent_quoted(str(found.get("ID", ""))) != node_id or not is_there:
            raise ask.odd(answer, "no such node of Nomad")
        if "LastDrain" not in found:
            raise HandlerError(
                "this Nomad keeps no metadata of drains, by which its own are known: "
                "1.1 is the first that does"
            )
        return Node(
            node_id=node_id,
            name=str(found.get("Name", "")) or node_id,
            is_draining=found.get("DrainStrategy") is not None,
            eligibility=str(found.get("SchedulingEligibility", "")),
            last=members(found.get("LastDrain")),
        )

    def _allocations(self, node_id: str, context: RunContext) -> tuple[str, ...]:
        """Return the names of the allocations that still run and are to end."""
        path = f"/v1/node/{node_id}/allocations"
        ask = Ask(method="GET", path=path, shape=Shape.LIST)
        answer, found = self._answered(ask, context)
        running: list[str] = []
        for each in found:
            if not (each.get("ID") and each.get("ClientStatus")):
                raise ask.odd(answer, "no allocations of Nomad")
            if each.get("ClientStatus") in _ENDED:
                continue
            kind = members(each.get("Job")).get("Type")
            if kind != "system" or self._drains_system:
                running.append(str(each.get("Name") or each.get("ID", "")))
        return tuple(running)

    def _answered(self, ask: Ask, context: RunContext) -> tuple[Answer, Any]:
        try:
            return self._api.allowed(ask, context, f"a policy with {POLICY}")
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise HandlerError(
                    f"{error.message}; has the node left the cluster?"
                ) from error
            raise


def _shown(left: Sequence[str]) -> str:
    """Return allocations for a sentence: `2 allocations: web.web[0], db.db[1]`."""
    count = f"{len(left)} allocations" if len(left) > 1 else "1 allocation"
    more = "" if len(left) <= NAMES_SHOWN else ", …"
    return f"{count}: {', '.join(left[:NAMES_SHOWN])}{more}"


def _faults(entry: Entry) -> Faults:
    if entry.get("force", True):
        yield from too_long(entry, "force_before", FORCE_BEFORE)


KIND = HandlerKind(
    make=NomadWorker,
    faults=_faults,
    marks_there=True,
    keys={
        **connection_keys("Nomad", URL),
        "force": Option(
            form=Forms.SWITCH,
            text="Whether Nomad stops what still runs shortly before the handler's "
            "deadline, as `nomad node drain -deadline` does. `false`: it waits for "
            "batch jobs to end, and fails if they do not. Default: `true`.",
        ),
        "force_before": Option(
            form=Forms.DURATION,
            least=SECOND,
            most=HOUR,
            text="How long before that deadline: longer than `kill_timeout` of any "
            "task, and five seconds. Default: `20s`.",
        ),
        "system_jobs": Option(
            form=Forms.SWITCH,
            text="Whether system jobs are stopped too, the last of all. Default: "
            "`false`, they stay.",
        ),
    },
)
