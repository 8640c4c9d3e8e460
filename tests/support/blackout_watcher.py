"""Invariants of the blackouts of the service (4.2), for any kind of request.

Like the watcher of campaigns, it reads the rows of each commit and shares no code with
the service. K1: no planned work is announced in a blackout of its host, nor for a time in
one. K9: none starts in one. A campaign also keeps its `slow` time clear of them.
"""

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.model import Host
from forewarn.instants import Micros
from forewarn.protocol.operations import (
    ENDED_STATES,
    WAITING_STATES,
    Operation,
    OperationState,
)
from forewarn.protocol.verbs import PLANNED_VERBS, Verb
from forewarn.store.wide_blackouts import WideBlackout
from tests.support.campaign_terms import banned
from tests.support.moments import Moment

UNTOLD = {OperationState.PLANNED, *ENDED_STATES}


def blackouts_are_kept(moment: Moment) -> None:
    """K1, K9: judge what a commit has announced and started."""
    if not moment.mirror.table(WideBlackout):
        return
    for before, after in moment.changed():
        was_told = before is not None and before.state is not OperationState.PLANNED
        if after.state not in UNTOLD and not was_told:
            _k1_announced(moment, after)
    for operation in moment.started():
        now = moment.now
        overlapping = banned(
            _over(moment, operation), now, now + _slow(moment, operation)
        )
        assert not overlapping, f"K9: {operation} started beside {overlapping}"


def _k1_announced(moment: Moment, operation: Operation) -> None:
    over = _over(moment, operation)
    now = banned(over, moment.now, moment.now)
    assert not now, f"K1: {operation} is announced in {now}"
    if moment.mirror.events_of(operation.operation_id):
        starts = operation.not_before
        overlapping = banned(over, starts, starts + _slow(moment, operation))
        assert not overlapping, f"K1: {operation} would be in work in {overlapping}"


def announced_hosts_fit(moment: Moment) -> None:
    """4.2: what would start in a blackout is withdrawn when the blackout is set."""
    for operation in moment.mirror.operations.values():
        if operation.verb is Verb.MAINTAIN and operation.state in WAITING_STATES:
            starts = max(moment.now, operation.not_before)
            overlapping = banned(
                _over(moment, operation), starts, starts + _slow(moment, operation)
            )
            assert not overlapping, (
                f"K1: {operation} is still announced for {overlapping}"
            )


def _over(moment: Moment, operation: Operation) -> tuple[Blackout, ...]:
    """Return the blackouts that stop an operation: planned work on their hosts."""
    if operation.verb not in PLANNED_VERBS or operation.is_emergency:
        return ()
    host = moment.mirror.hosts.get(operation.host)
    wide_blackouts = moment.mirror.table(WideBlackout).values()
    return tuple(
        blackout.time for blackout in wide_blackouts if _is_there(host, blackout.places)
    )


def _is_there(host: Host | None, places: tuple[str, ...]) -> bool:
    """Return whether a host stands at one of the places of each kind."""
    at: dict[str, bool] = {}
    for place in places:
        kind, _, name = place.partition("=")
        if kind == "label":
            key, _, value = name.partition("=")
            kind = place.rpartition("=")[0]
            is_met = host is not None and (key, value) in host.labels
        else:
            is_met = host is not None and getattr(host, kind) == name
        at[kind] = at.get(kind, False) or is_met
    return all(at.values())


def _slow(moment: Moment, operation: Operation) -> Micros:
    request = moment.mirror.requests.get(operation.request)
    if request is None or not request.campaign:
        return 0
    return moment.mirror.table(CampaignRecord)[request.campaign].slow
