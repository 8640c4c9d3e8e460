"""`nomad`: drains this client node, and makes it eligible again after the event.

The handler marks its drain in the drain's metadata, which Nomad keeps as the node's last
drain. A drain that an operator has started has no such mark and stays. The handler only
uses Nomad's agent on this machine.
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
"""Nomad's default address of its local agent."""

FORCE_BEFORE: Micros = 20 * SECOND
"""Time before the handler's deadline at which Nomad stops the rest. By default a task has
five seconds to end, and then Nomad reports its allocation as ended."""

NEVER = 0
AT_ONCE = -1
"""Special values of a drain's deadline in Nomad's API."""

PAUSE_SECONDS = 1.0
"""Seconds between two checks of a node that is draining."""

NAMES_SHOWN = 5
"""Maximum number of allocations that a message names."""

MARK = "forewarn"
WAS = "forewarn_was"
"""Members of a drain's metadata: the handler's mark, and the eligibility before."""

ELIGIBLE = "eligible"
"""The eligibility of a node that can get new allocations."""

POLICY = 'agent { policy = "read" } node { policy = "write" } namespace "*" { policy = "read" }'
"""The policy that a token needs, for messages."""

_NANOSECONDS = 1_000
"""Nanoseconds of one microsecond."""

_ENDED = frozenset({"complete", "failed", "lost"})
"""Statuses of allocations that have ended."""


@frozen_dataclass
class Node:
    """The state of a node."""

    node_id: str
    name: str
    is_draining: bool
    eligibility: str
    last: Mapping[str, Any]
    """Last drain of the node, which may still be active."""

    @property
    def mark(self) -> str:
        """Return the mark of the last drain; empty: it is not from a handler."""
        return str(members(self.last.get("Meta")).get(MARK, ""))

    @property
    def previous_eligibility(self) -> str:
        """Return the eligibility of the node before the drain."""
        return str(members(self.last.get("Meta")).get(WAS, "")) or ELIGIBLE

    @property
    def is_cancelled(self) -> bool:
        """Return whether the last drain was cancelled before it was complete."""
        return not self.is_draining and self.last.get("Status") == "canceled"


class NomadWorker(Integration):
    """Drains the node and ends the drain."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        super().__init__(settings, ground)
        more = settings.more
        self._forces: bool = more.get("force", True)
        self._force_before: Micros = more.get("force_before", FORCE_BEFORE)
        self._drains_system: bool = more.get("system_jobs", False)
        self._api = local_agent(more, ground.clock, url=URL, header="X-Nomad-Token")

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Drain the node, and wait until it is empty; raises HandlerError."""
        node = self._node(self._node_id(context), context)
        recorded = str(self._memo.read().get("mark", ""))
        is_mine = bool(recorded) and node.mark == recorded and not node.is_cancelled
        if node.is_draining and not is_mine:
            self._wait_until_empty(node.node_id, context)
            return Result(
                detail=f"node {node.name} is drained; this handler did not start the drain"
            )
        why = (job.notice.event_type if job.notice is not None else "") or "event"
        meta = {
            MARK: recorded if is_mine else job.run_id,
            WAS: node.previous_eligibility if is_mine else node.eligibility,
            "message": f"{why}, by forewarn's handler {self._name}",
        }
        # Record the drain before it starts, so that it is undone after a crash.
        self._memo.keep({"mark": meta[MARK]})
        self._drain(node.node_id, meta, context, deadline=self._deadline(context))
        stopped = self._wait_until_empty(node.node_id, context, own=meta)
        sentence = f"; stopped by force: {_shown(stopped)}" if stopped else ""
        return Result(detail=f"node {node.name} is drained{sentence}")

    def recover(self, job: Job, context: RunContext) -> Result:
        """End the drain if this handler started it; raises HandlerError."""
        recorded = str(self._memo.read().get("mark", ""))
        if not recorded and job.notice is not None:
            return Result(detail="this handler drained nothing")
        node = self._node(self._node_id(context), context)
        # If the journal is lost, the memo may be lost too: then any mark of a handler counts.
        stays = f"node {node.name} stays {node.previous_eligibility}, as before"
        if not node.mark or recorded not in {"", node.mark} or node.is_cancelled:
            sentence = (
                f"the last drain of node {node.name} has another owner, or was ended"
            )
        elif node.is_draining or node.previous_eligibility == ELIGIBLE:
            self._end_drain(node, context)
            sentence = f"ended the drain; {stays}"
            if node.previous_eligibility == ELIGIBLE:
                sentence = f"node {node.name} is eligible again"
        else:
            sentence = stays
        self._memo.keep({})
        return Result(detail=sentence)

    def _wrong(self, context: RunContext) -> Sequence[str]:
        # Do not retry, since a person waits for the result.
        node_id = self._node_id(context, again=False)
        self._node(node_id, context)
        self._allocations(node_id, context)
        return ()

    # Changes

    def _deadline(self, context: RunContext) -> Micros:
        """Return the deadline of the drain, after which Nomad stops the rest."""
        if not self._forces:
            return NEVER
        left = round(context.remaining() * SECOND) - self._force_before
        return left if left > 0 else AT_ONCE

    def _drain(
        self,
        node_id: str,
        meta: Mapping[str, str],
        context: RunContext,
        *,
        deadline: Micros,
    ) -> None:
        """Start a drain, or change its deadline; raises HandlerError."""
        body = {
            "NodeID": node_id,
            "DrainSpec": {
                "Deadline": deadline * _NANOSECONDS,
                "IgnoreSystemJobs": not self._drains_system,
            },
            "Meta": meta,
        }
        path = f"/v1/node/{node_id}/drain"
        self._answered(Ask(method="POST", path=path, json=body), context)

    def _end_drain(self, node: Node, context: RunContext) -> None:
        """End a drain, restore the eligibility, and wait until both are visible."""
        restores = node.previous_eligibility == ELIGIBLE
        body = {"NodeID": node.node_id, "DrainSpec": None, "MarkEligible": restores}
        path = f"/v1/node/{node.node_id}/drain"
        while True:
            self._answered(Ask(method="POST", path=path, json=body), context)
            node_now = self._node(node.node_id, context)
            is_back = node_now.eligibility == ELIGIBLE or not restores
            if is_back and not node_now.is_draining:
                return
            context.pause(PAUSE_SECONDS, f"waiting for node {node.name} to be eligible")

    def _wait_until_empty(
        self,
        node_id: str,
        context: RunContext,
        *,
        own: Mapping[str, str] | None = None,
    ) -> tuple[str, ...]:
        """Wait until a drain is complete; return the allocations stopped by force.

        `own` is the metadata of the handler's drain; None: another drain.
        Nomad knows the deadline of the handler's drain. When it has come, the handler
        sends it again, since the server may have been down or its clock may be wrong.
        """
        stopped: tuple[str, ...] | None = None
        while True:
            node = self._node(node_id, context)
            left = self._allocations(node_id, context)
            is_due = stopped is None and self._deadline(context) == AT_ONCE
            if own is not None and node.is_draining and is_due:
                self._drain(node_id, own, context, deadline=AT_ONCE)
                stopped = left
            if own is not None and node.is_cancelled:
                raise HandlerError(
                    f"the drain of node {node.name} was cancelled by others"
                )
            if not node.is_draining and not left:
                if own is not None and node.eligibility == ELIGIBLE:
                    raise HandlerError(
                        f"node {node.name} is eligible: Nomad has lost its drain, or "
                        "others have made it eligible again"
                    )
                return stopped or ()
            waits_for = _shown(left) if left else "Nomad to complete the drain"
            context.recheck(f"for {waits_for}", seconds=PAUSE_SECONDS)

    # Requests to Nomad

    def _node_id(self, context: RunContext, *, again: bool = True) -> str:
        """Return the ID of this node; raises HandlerError if it is not a client node."""
        ask = Ask(method="GET", path="/v1/agent/self", again=again)
        answer, members_read = self._answered(ask, context)
        if not isinstance(members_read.get("stats"), dict):
            raise ask.unexpected(answer, "no agent of Nomad")
        stats = members(members_read.get("stats"))
        if not (node_id := str(members(stats.get("client")).get("node_id", ""))):
            raise HandlerError(
                f"Nomad's agent at {self._api.base} is not a client and has no node"
            )
        return percent_quoted(node_id)

    def _node(self, node_id: str, context: RunContext) -> Node:
        ask = Ask(method="GET", path=f"/v1/node/{node_id}")
        answer, members_read = self._answered(ask, context)
        is_there = "DrainStrategy" in members_read and members_read.get(
            "SchedulingEligibility"
        )
        if percent_quoted(str(members_read.get("ID", ""))) != node_id or not is_there:
            raise ask.unexpected(answer, "no such node of Nomad")
        if "LastDrain" not in members_read:
            raise HandlerError(
                "this version of Nomad does not store the metadata of drains, which the "
                "handler needs: use Nomad 1.1 or newer"
            )
        return Node(
            node_id=node_id,
            name=str(members_read.get("Name", "")) or node_id,
            is_draining=members_read.get("DrainStrategy") is not None,
            eligibility=str(members_read.get("SchedulingEligibility", "")),
            last=members(members_read.get("LastDrain")),
        )

    def _allocations(self, node_id: str, context: RunContext) -> tuple[str, ...]:
        """Return the names of the allocations that must still end."""
        path = f"/v1/node/{node_id}/allocations"
        ask = Ask(method="GET", path=path, shape=Shape.LIST)
        answer, allocations = self._answered(ask, context)
        if not all(
            allocation.get("ID") and allocation.get("ClientStatus")
            for allocation in allocations
        ):
            raise ask.unexpected(answer, "no allocations of Nomad")
        return tuple(
            str(allocation.get("Name") or allocation["ID"])
            for allocation in allocations
            if allocation["ClientStatus"] not in _ENDED
            and (
                self._drains_system
                or members(allocation.get("Job")).get("Type") != "system"
            )
        )

    def _answered(self, ask: Ask, context: RunContext) -> tuple[Answer, Any]:
        try:
            right = f"its token needs a policy with {POLICY}"
            return self._api.allowed(ask, context, right)
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise HandlerError(
                    f"{error.message}; has the node left the cluster?"
                ) from error
            raise


def _shown(left: Sequence[str]) -> str:
    """Return allocations for a message: `2 allocations: web.web[0], db.db[1]`."""
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
            text="Whether Nomad stops the remaining allocations shortly before the "
            "handler's deadline, as `nomad node drain -deadline` does. `false`: the "
            "handler waits for batch jobs, and fails if they do not end. Default: `true`.",
        ),
        "force_before": Option(
            form=Forms.DURATION,
            least=SECOND,
            most=HOUR,
            text="How long before that deadline. Set it to at least the longest "
            "`kill_timeout` of any task plus five seconds. Default: `20s`.",
        ),
        "system_jobs": Option(
            form=Forms.SWITCH,
            text="Whether system jobs are stopped too, after all others. Default: "
            "`false`.",
        ),
    },
)
