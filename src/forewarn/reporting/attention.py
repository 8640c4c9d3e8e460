"""Problems that need attention, as values, the worst first.

The work is bounded: only operations that are running, ready or due soon are read, and
at most `ROWS_MAX` in each state. A tenant gets its VMs that are down, its late
approvals, and its held operations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2s
from itertools import islice
from typing import Any, TypeAlias

from forewarn.campaigns import troubles
from forewarn.campaigns.troubles import TroubleKind
from forewarn.cluster.view import View
from forewarn.control.redaction import tenant_reader
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.rules import (
    campaign_gate,
    guard,
    obstacles,
    relay_links,
    waits,
)
from forewarn.control.rules.brake import blocker_of
from forewarn.control.rules.late_approvals import LATE, late_from
from forewarn.control.rules.remedies import actionable_first, commands_for
from forewarn.control.rules.sightings import NOTHING_SEEN, Seen
from forewarn.fleet.model import Scope
from forewarn.instants import (
    Micros,
    cut_to_second,
    instant_or_none,
    parse_instant,
)
from forewarn.protocol.blockers import AnyBlocker, NoCommonWindow
from forewarn.protocol.events import Event
from forewarn.protocol.operations import (
    CallState,
    Operation,
    OperationState,
    Verb,
)
from forewarn.reporting import (
    apart_hosts,
    blackout_problems,
    cordon_problems,
    failure_causes,
    replicas,
    stopped_vms,
    visit_problems,
)
from forewarn.reporting.campaigns import held_stage, why_waiting
from forewarn.reporting.problem import Problem, ProblemKind, sighted, sighting_report
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import BRAKE_KEY, Brake
from forewarn.wording import explained, holds, operators, places, rollouts

Json: TypeAlias = dict[str, Any]

ROWS_MAX = 5_000
"""Maximum operations that are read in each state: a tenth of a second's work."""

OBSERVED_MAX = 1_000
"""Maximum VMs on hosts where forewarn did not place them that are read, with all VMs of
these hosts: a tenth of a second's work."""

NAME_BYTES = 4
"""Bytes of a digest that distinguish the few problems of a service."""

FAILED_NAMED_MAX = 100
"""Maximum failed hosts that a problem of a campaign names: more would only be read by
programs, and `campaign show --json` has all."""

_FOR_TENANTS = frozenset(
    {ProblemKind.VM_DOWN, ProblemKind.APPROVAL_LATE, ProblemKind.HELD}
)
"""Kinds that a tenant gets. The others are about the platform."""

_CAMPAIGN_TROUBLES: Mapping[TroubleKind, tuple[ProblemKind, tuple[str, ...]]] = {
    TroubleKind.HALTED: (
        ProblemKind.CAMPAIGN_HALTED,
        ("campaign resume", "campaign abort"),
    ),
    TroubleKind.FAILED_HOSTS: (
        ProblemKind.CAMPAIGN_FAILED_HOSTS,
        ("campaign retry", "campaign skip"),
    ),
    TroubleKind.CHECKS: (
        ProblemKind.CAMPAIGN_WAITS,
        ("check run", "campaign resume"),
    ),
    TroubleKind.WAITS: (ProblemKind.CAMPAIGN_WAITS, ("campaign approve",)),
    TroubleKind.HELD: (
        ProblemKind.CAMPAIGN_STALLED,
        ("expedite", "window set", "campaign skip"),
    ),
    TroubleKind.STALLED: (ProblemKind.CAMPAIGN_STALLED, ("explain",)),
}
"""The kind of problem of each trouble of a campaign, and commands that can end it."""

_TENANT_ACTIONS = frozenset({"approve", "redeploy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The health of the service and its receivers, which is not in the store."""

    problems: tuple[str, ...] = ()
    """The problems in `/readyz` for operators."""
    seen: Seen = NOTHING_SEEN
    """Observations of VMs by drivers that are not recorded."""
    webhooks: Sequence[Mapping[str, Any]] = ()
    """Reports of the receivers."""
    cluster: View | None = None
    """The replicas; None: the service runs alone."""


NO_SURROUNDINGS = Surroundings()


def problems(
    reader: Reader, around: Surroundings = NO_SURROUNDINGS, *, now: Micros
) -> list[Problem]:
    """Return the problems, the worst first."""
    is_tenant = isinstance(reader, TenantReader)
    all_problems = _Search(reader, now).found()
    if is_tenant:
        all_problems = [
            problem for problem in all_problems if problem.kind in _FOR_TENANTS
        ]
    else:
        all_problems = [sighted(problem, around.seen.early) for problem in all_problems]
        all_problems += _around(around)
        all_problems += stopped_vms.problems(reader, around.seen)
    return sorted(all_problems, key=lambda problem: problem.key)


def report(problem: Problem) -> Json:
    """Return a problem as JSON."""
    return {
        "problem": problem.problem_id,
        "kind": problem.kind.value,
        "since": instant_or_none(problem.since),
        "text": problem.text,
        "text_shortly": problem.short or problem.text,
        "cause": problem.cause,
        "actions": list(problem.actions),
        "operation": problem.operation or None,
        "target": problem.target or None,
        "tenants": list(problem.tenants),
        "scopes": list(problem.scopes),
        "vms": list(problem.vms),
        "hosts": list(problem.hosts),
        "events": list(problem.events),
        "webhook": problem.webhook or None,
        "campaign": problem.campaign or None,
        "sighted": list(map(sighting_report, problem.sighted)),
    }


def counts(found: Iterable[Problem]) -> dict[str, int]:
    """Return the number of problems of each kind."""
    sums = dict.fromkeys((kind.value for kind in ProblemKind), 0)
    for problem in found:
        sums[problem.kind.value] += 1
    return sums


class _Search:
    """One search for problems, with a cache of scopes."""

    def __init__(self, reader: Reader, now: Micros) -> None:
        self._reader = reader
        self._now = now
        self._is_tenant = isinstance(reader, TenantReader)
        self._tenants: dict[str, str] = {}
        self._enabled: dict[str, bool] = {}

    def found(self) -> list[Problem]:
        """Return the problems in the store, unordered."""
        problem_lists = (self._of(operation) for operation in self._operations())
        problems = [problem for problem in problem_lists if problem is not None]
        return [
            *problems,
            *self._brake(),
            *self._campaigns(),
            *self._visits(),
            *self._shared_hosts(),
            *self._cordoned(),
            *self._without_window(),
            *self._blackouts(),
            *self._relays(),
        ]

    def _shared_hosts(self) -> Iterator[Problem]:
        """Yield the hosts that have several fault domains of a scope.

        At least one of the VMs was observed there. A tenant's reader shows none.
        """
        observed = islice(every(self._reader, kinds.VMS_OBSERVED), OBSERVED_MAX)
        for host in sorted({vm.host for vm in observed}):
            there = list(every(self._reader, kinds.VMS_ON_HOST, host))
            for shared in guard.shares(host, there):
                yield Problem(
                    kind=ProblemKind.SHARED_HOST,
                    name=f"{host}:{shared.scope}",
                    text=explained.shared_host(shared),
                    target=host,
                    tenants=tuple(filter(None, [self._tenant_of(shared.scope)])),
                    scopes=(shared.scope,),
                    vms=tuple(vm.name for vm in there if vm.scope == shared.scope),
                    hosts=(host,),
                    actions=("maintain", "redeploy"),
                )

    def _brake(self) -> Iterator[Problem]:
        """Yield the brake if it is on: all planned work waits for it."""
        brake = None if self._is_tenant else self._reader.get(Brake, BRAKE_KEY)
        if brake is not None:
            yield Problem(
                kind=ProblemKind.BRAKE,
                name=BRAKE_KEY,
                text=holds.brake(blocker_of(brake)),
                since=brake.since,
                actions=("brake off",),
            )

    def _campaigns(self) -> Iterator[Problem]:
        """Yield the reasons why open campaigns need an operator."""
        if self._is_tenant:
            return
        for campaign in every(self._reader, kinds.CAMPAIGNS_OPEN):
            waits = why_waiting(self._reader, campaign, now=self._now)
            held = held_stage(self._reader, campaign)
            for trouble in troubles.of(
                campaign,
                at_once=campaign_gate.at_once(campaign),
                waits_until=waits.until,
                held_until=held.until if held else 0,
                now=self._now,
            ):
                kind, actions = _CAMPAIGN_TROUBLES[trouble.kind]
                text, short = (
                    rollouts.trouble(campaign, trouble.kind, waits=text)
                    for text in (waits.text, waits.short or waits.text)
                )
                if held is not None and trouble.kind is TroubleKind.HELD:
                    why = operators.reason(held.blocker)
                    text = short = rollouts.held_stage(campaign.name, held.host, why)
                yield Problem(
                    kind=kind,
                    name=campaign.campaign_id,
                    text=text,
                    short=short,
                    since=trouble.since,
                    request=campaign.request,
                    hosts=campaign.failed_hosts[:FAILED_NAMED_MAX],
                    campaign=campaign.name,
                    actions=actions,
                )

    def _visits(self) -> Iterator[Problem]:
        """Yield the visits that are late, and those that only an operator can end."""
        if self._is_tenant:
            return
        for visit in islice(every(self._reader, kinds.OPEN_VISITS), ROWS_MAX):
            problem = visit_problems.problem_of(self._reader, visit, now=self._now)
            if problem is not None:
                yield problem

    def _cordoned(self) -> Iterator[Problem]:
        """Yield the hosts whose cordons may be forgotten."""
        if not self._is_tenant:
            yield from cordon_problems.problems(self._reader, now=self._now)

    def _without_window(self) -> Iterator[Problem]:
        """Yield the hosts whose maintenance waits because its windows are not open together."""
        if self._is_tenant:
            return
        operations = every(self._reader, kinds.OPERATIONS_THAT_WAIT, waits.NO_WINDOW)
        for operation in islice(operations, ROWS_MAX):
            scopes = tuple(
                scope
                for blocker in operation.held_by
                if isinstance(blocker, NoCommonWindow)
                for scope in blocker.scopes
            )
            why = operators.JOINT.join(operators.reasons(operation.held_by))
            sentence = f"host {operation.host} cannot be maintained: {why}"
            ends = apart_hosts.way_out(self._reader, operation, operation.held_by)
            yield Problem(
                kind=ProblemKind.NO_COMMON_WINDOW,
                name=operation.operation_id,
                text=operators.JOINT.join(filter(None, (sentence, ends))),
                since=operation.created,
                operation=operation.operation_id,
                request=operation.request,
                target=operation.target,
                tenants=tuple(sorted({*map(self._tenant_of, scopes)} - {""})),
                scopes=scopes,
                hosts=(operation.host,),
                actions=("expedite", "window set", "cancel"),
            )

    def _blackouts(self) -> Iterator[Problem]:
        """Yield the blackouts of the service for which work waits long."""
        if not self._is_tenant:
            yield from blackout_problems.problems(self._reader, now=self._now)

    def _relays(self) -> Iterator[Problem]:
        """Yield the silent relays: planned work on their hosts waits."""
        if self._is_tenant:
            return
        for host, since in relay_links.all_silent(self._reader, now=self._now):
            yield Problem(
                kind=ProblemKind.RELAY_SILENT,
                name=host,
                text=places.relay_silent(host, since),
                since=since,
                target=host,
                hosts=(host,),
                actions=("relay list", "token revoke"),
            )

    def _operations(self) -> Iterator[Operation]:
        """Yield the operations that can be problems, each once."""
        if self._is_tenant:
            # A tenant's reader finds open operations by scope, not by state.
            yield from islice(every(self._reader, kinds.OPEN_OPERATIONS), ROWS_MAX)
            return
        for state in (OperationState.IMPACTING, OperationState.READY):
            yield from islice(
                every(self._reader, kinds.OPERATIONS_IN_STATE, state.value), ROWS_MAX
            )
        until = self._now + LATE
        for operation in self._reader.due(kinds.OPERATIONS_DUE, until, limit=ROWS_MAX):
            if operation.state is OperationState.ANNOUNCED:
                yield operation

    def _of(self, operation: Operation) -> Problem | None:
        if operation.state is OperationState.IMPACTING:
            return self._under_way(operation)
        if operation.state is OperationState.ANNOUNCED:
            return self._late(operation)
        if operation.state is OperationState.READY:
            return self._held(operation)
        return None

    def _under_way(self, operation: Operation) -> Problem | None:
        if operation.verb is Verb.FAIL:
            text, actions = explained.down(operation), ("restore", "redeploy")
            down = self._problem(ProblemKind.VM_DOWN, operation, text, actions=actions)
            cause = (
                "" if self._is_tenant else failure_causes.cause(self._reader, operation)
            )
            return replace(down, cause=cause)
        if operation.call_state is CallState.UNKNOWN:
            text = explained.outcome_unknown(operation)
            kind = ProblemKind.OUTCOME_UNKNOWN
            return self._problem(kind, operation, text, actions=("resolve",))
        if operation.call_state is CallState.RETRY:
            text = explained.driver_failing(operation, now=self._now)
            kind = ProblemKind.DRIVER_FAILING
            return self._problem(kind, operation, text, actions=("explain",))
        return None

    def _late(self, operation: Operation) -> Problem | None:
        since = late_from(operation)
        if self._now < since:
            return None
        missing = [
            event
            for event in self._events(operation)
            if event.awaits_approval and self._is_enabled(event.scope)
        ]
        if not missing:
            return None
        tenants = tuple(sorted({event.tenant for event in missing}))
        return self._problem(
            ProblemKind.APPROVAL_LATE,
            operation,
            explained.approval_late(operation, tenants, now=self._now),
            # Several tenants can see this time, and a fraction could prove it.
            since=cut_to_second(since),
            events=missing,
            actions=("approve", "cancel"),
        )

    def _held(self, operation: Operation) -> Problem | None:
        # The last result of the guard is stored, so it is not computed again.
        blockers: Iterable[AnyBlocker] = operation.held_by
        if self._is_tenant:
            blockers = tenant_reader.blockers(self._reader, operation, now=self._now)
        reasons = actionable_first(blockers)
        if not reasons:
            return None
        return self._problem(
            ProblemKind.HELD,
            operation,
            explained.held(operation, operators.JOINT.join(operators.reasons(reasons))),
            since=self._ready_since(operation),
            actions=(*commands_for(reasons[0]), "cancel"),
        )

    def _ready_since(self, operation: Operation) -> Micros:
        """Return when the operation became ready: by the last approval, or NotBefore."""
        events = self._events(operation)
        if events and all(event.is_approved for event in events):
            return min(operation.not_before, max(event.approved_at for event in events))
        return operation.not_before

    def _problem(
        self,
        kind: ProblemKind,
        operation: Operation,
        text: str,
        *,
        actions: tuple[str, ...],
        since: Micros | None = None,
        events: Sequence[Event] = (),
    ) -> Problem:
        if self._is_tenant:
            actions = tuple(action for action in actions if action in _TENANT_ACTIONS)
        scopes = {event.scope for event in events} or set(operation.scopes)
        vms = [resource.vm for event in events for resource in event.resources]
        return Problem(
            kind=kind,
            name=operation.operation_id,
            text=text,
            since=operation.started_at if since is None else since,
            operation=operation.operation_id,
            request=operation.request,
            target=operation.target,
            tenants=tuple(sorted({self._tenant_of(scope) for scope in scopes} - {""})),
            scopes=tuple(sorted(scopes)),
            vms=tuple(vms) or operation.vms,
            hosts=(operation.host,) if operation.host else (),
            events=tuple(event.event_id for event in events),
            actions=actions,
        )

    def _events(self, operation: Operation) -> list[Event]:
        return list(
            every(self._reader, kinds.EVENTS_OF_OPERATION, operation.operation_id)
        )

    def _tenant_of(self, name: str) -> str:
        if name not in self._tenants:
            scope = self._reader.get(Scope, name)
            self._tenants[name] = scope.tenant if scope else ""
        return self._tenants[name]

    def _is_enabled(self, scope: str) -> bool:
        if scope not in self._enabled:
            self._enabled[scope] = obstacles.is_enabled(self._reader, scope)
        return self._enabled[scope]


def _name_of(text: str) -> str:
    """Return a name that a problem of the service keeps, whichever others come and end."""
    return blake2s(text.encode(), digest_size=NAME_BYTES).hexdigest()


def _around(around: Surroundings) -> list[Problem]:
    """Return the problems of the service and its receivers."""
    collected = [
        Problem(kind=ProblemKind.NOT_READY, name=_name_of(text), text=text)
        for text in dict.fromkeys(around.problems)
    ]
    for receiver in around.webhooks:
        if receiver["state"] == "failing":
            name, oldest = str(receiver["webhook"]), receiver["oldest"]
            collected.append(
                Problem(
                    kind=ProblemKind.WEBHOOK_LATE,
                    name=name,
                    text=explained.webhook_late(
                        name, int(receiver["pending"]), receiver["last_error"] or ""
                    ),
                    since=parse_instant(oldest) if oldest else 0,
                    tenants=(receiver["tenant"],) if receiver["tenant"] else (),
                    webhook=name,
                    actions=("webhook test",),
                )
            )
    collected.extend(replicas.problems(around.cluster))
    return collected
