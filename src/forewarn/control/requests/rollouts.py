"""Rollouts: announce hosts one after the other.

A request creates one Planned operation per host, which is not announced. It checks all
hosts and stores the whole list in pages, with the IDs of the future operations, and
creates the operations of the first page. Each further page is a separate transaction,
which reads and removes only this page, and no host is announced before the last one. No
transaction after the request therefore grows with the list. Code that must know all open
operations of a host calls `complete` first. A host whose operation is not created yet is
therefore treated like a Planned one.

Each host is announced in its own transaction, with a full notice from then on and with
the VMs and scopes of that time. `rolling` decides which host is next.

A crash leaves nothing incomplete. Between two pages, the next start of the service finds
the rest of the list in the request. Before a commit, the host still waits. After the
commit, the host is announced, and the next start checks all rollouts again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from forewarn.control.execution import calls, ending, replanning, visits
from forewarn.control.requests import (
    admission,
    approvals,
    blackouts,
    campaign_turns,
    looks,
    stops,
    taking_over,
)
from forewarn.control.rules import (
    abilities,
    campaign_gate,
    lasting,
    rolling,
    shared_limit,
    unplanned,
    waits,
)
from forewarn.control.rules.maintenance import MAINTENANCE
from forewarn.control.transactions.work import Work
from forewarn.ids import place_in
from forewarn.instants import HOUR, Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.events import EventSource
from forewarn.protocol.frozen import changed
from forewarn.protocol.lifecycle import RequestInput
from forewarn.protocol.notes import AnyNote, RolloutStopped
from forewarn.protocol.operations import (
    Operation,
    OperationState,
    Request,
    RequestState,
)
from forewarn.protocol.turn_blockers import ScopeReserved
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditKind, Facts
from forewarn.store.unplanned import UnplannedPage

CANCELLED_MAX = 50
"""Maximum Planned operations that one transaction cancels, so that it stays short."""

PATIENCE: Micros = HOUR
"""Time for which a host is skipped before it reserves its scopes."""


def is_due(reader: Reader, request_id: str) -> bool:
    """Return whether `go_on` has work for a rollout."""
    request = reader.get(Request, request_id)
    if request is None or not request.at_once:
        return False
    if request.campaign:
        # The campaign decides, in a transaction: it may have to note its own progress.
        return True
    if request.state is not RequestState.OPEN:
        return bool(reader.select(kinds.PLANNED_OF_REQUEST, request_id, limit=1))
    if request.hosts_unplanned or not campaign_turns.is_open(reader, request):
        return False
    return bool(
        reader.select(kinds.OPERATIONS_THAT_WAIT, waits.turn(request_id), limit=1)
    )


def go_on(work: Work, request_id: str) -> bool:
    """Announce the next host of a rollout; return whether one was announced.

    If none was, another campaign may use the place that is free under the shared limit.
    """
    is_announced = _go_on(work, request_id)
    if not is_announced:
        share(work, after=request_id)
    elif not work.request(request_id).campaign:
        # A stored campaign gets another turn, even if none of its hosts waits for one.
        work.share()
    return is_announced


def share(work: Work, *, after: str = "") -> None:
    """Give the turn to the campaign that may use a place under the shared limit.

    `after` is the rollout whose turn has just ended without an announcement.
    """
    most = work.policy.campaigns_in_flight
    following = shared_limit.next_in_line(work.tx, most, now=work.now)
    if following and following != after:
        work.take_turn(following)


def _go_on(work: Work, request_id: str) -> bool:
    """Announce the next host of a rollout, if it is its turn.

    Hosts that cannot be announced are skipped. If the rollout has stopped, its remaining
    hosts are cancelled.
    """
    request = work.request(request_id)
    if request.state is not RequestState.OPEN:
        if cancel_planned(work, request, note=RolloutStopped()):
            work.take_turn(request_id)
        return False
    if not request.at_once or request.hosts_unplanned:
        # The rollout continues when its list of hosts is complete.
        return False
    turn = campaign_turns.prepare(work, request)
    if not turn:
        _free_those_behind(work, request_id)
        return False
    next_operations = looks.next_in_turn(work, request, turn)
    if not next_operations:
        return False
    if stops.wait_if_stopped(work, request, next_operations[0]):
        return False
    campaign = campaign_gate.campaign_of(work.tx, request)
    if campaign is not None and campaign.is_emergency:
        taking_over.take_over(work, campaign, next_operations)
    next_operations = [
        calls.renew_chooser(work, next_operation) for next_operation in next_operations
    ]
    overlap = campaign_gate.overlap_of(work.tx, request_id)
    standings = looks.Standings(work, request_id, overlap)
    passed_over: list[rolling.Waiting] = []
    announced: Operation | None = None
    # One after the other: most turns announce the first host, and read no other.
    for operation, waiting in looks.look_at(work, next_operations):
        if rolling.why_not_announced(waiting, standings.of(waiting)) is None:
            announced = operation
            break
        passed_over.append(waiting)
    for waiting in passed_over:
        _pass_over(work, waiting, standings)
    if announced is not None:
        _announce(work, work.operation(announced.operation_id))
    work.take_turn(request_id)
    return announced is not None


def _pass_over(
    work: Work, waiting: rolling.Waiting, standings: looks.Standings
) -> None:
    """Store why a host must wait, and when it is checked again."""
    operation = work.operation(waiting.operation)
    blockers = tuple(rolling.in_the_way(waiting, standings.of(waiting)))
    names = rolling.names_for(operation, waiting, blockers[0])
    if isinstance(blockers[0], ScopeReserved):
        names = (*names, waits.behind(work.operation(blockers[0].operation).request))
    reserved = [waits.reserved_by(name) for name in operation.waits_for]
    if any(reserved) and (waiting.holds or not _is_helped(work, operation, blockers)):
        # Other hosts must not wait for this one meanwhile.
        names = tuple(name for name in names if not waits.is_reservation(name))
        work.free_turns(filter(None, reserved))
    changed_to = replace(
        operation, waits_for=names, held_by=waiting.holds or blockers[:1]
    )
    if waiting.holds:
        changed_to = replace(changed_to, promises=waiting.promises)
        due_at = max(work.now + 1, waiting.look_at)
    else:
        # The time counts from the first time that the host was skipped.
        due_at = operation.due_at or work.now + work.policy.sped_up(PATIENCE)
    work.save_operation(operation, replace(changed_to, due_at=due_at))


def _free_those_behind(work: Work, rollout: str) -> None:
    """Check hosts that wait for reservations of a rollout that announces no host now."""
    name = waits.behind(rollout)
    if work.tx.select(kinds.OPERATIONS_THAT_WAIT, name, limit=1) and (
        not rolling.announces(work.tx, rollout, now=work.now)
    ):
        work.free_behind(rollout)


def _is_helped(
    work: Work, operation: Operation, blockers: Iterable[AnyBlocker]
) -> bool:
    """Return whether a host gets its turn when no later host is announced in its scopes."""
    notice = stops.notice_of(work, operation, is_empty=False)
    soon = work.now + max(notice, work.policy.sped_up(PATIENCE))
    return lasting.ends_with_work(work.tx, operation, blockers, soon)


def _announce(work: Work, operation: Operation) -> None:
    """Announce a host to the VMs that are on it now, with a full notice.

    If the request has host steps, `needed` runs first: the host gets its turn again.
    """
    if (admitted := visits.admit(work, operation)) is None:
        return
    operation = admitted
    vms = rolling.vms_of(work.tx, operation)
    start = looks.earliest(work, operation, vms)
    notice = stops.notice_of(work, operation, is_empty=not vms)
    draft = admission.draft_like(
        operation,
        vms,
        event_type=MAINTENANCE[operation.action].event_type,
        source=EventSource.PLATFORM,
        not_before=start,
    )
    if work.request(operation.request).campaign and start > work.now + notice:
        # A host without VMs waits for the opening of a window, too.
        draft = replace(draft, operation=replace(draft.operation, is_timed=True))
    admission.announce(work, operation, draft)
    campaign_turns.announced(work, work.request(operation.request))
    campaign_turns.note_ignored(work, operation, vms, start)
    blackouts.note_ignored(work, work.operation(operation.operation_id))
    approvals.approve_expedited(work, operation, vms)
    # Other hosts of the same fault domains can be announced in parallel.
    work.free_turns({vm.scope for vm in vms})


def call_up(work: Work, operation_id: str) -> bool:
    """Try to announce a skipped host again; return whether it was announced.

    If its rollout has no free slot, the host is among the first when one becomes free.
    """
    operation = work.operation(operation_id)
    if operation.state is not OperationState.PLANNED:
        return False
    request = work.request(operation.request)
    has_slot = bool(request.campaign) or campaign_turns.is_open(work.tx, request)
    reservations = filter(waits.is_reservation, operation.waits_for)
    work.save_operation(
        operation,
        replace(
            operation,
            waits_for=(*replanning.turns_of(work, operation), *reservations),
            held_by=(),
            # Without a free slot, the host is not skipped and needs no timer.
            due_at=operation.due_at if has_slot else 0,
        ),
    )
    return go_on(work, operation.request)


def waited_long(work: Work, operation_id: str) -> None:
    """Check again a host that its rollout has skipped for a long time.

    It reserves its scopes if it is the first host of its rollout, or the first one that
    waits for the scope that it waits for: no later host is announced there before it, in
    this or another rollout. Reservations yield to those of earlier hosts, so hosts never
    wait for each other. A host that work under way does not help gives them up at once, and
    has them again at the latest after the same time, when it can be helped.
    """
    operation = work.operation(operation_id)
    if operation.state is not OperationState.PLANNED:
        # Another timer of the same round has announced it. Its timer is now NotBefore.
        return
    names = operation.waits_for
    is_held = any(map(waits.is_turn_for_hold, names))
    if not is_held and _may_reserve(work, operation):
        scopes = sorted({vm.scope for vm in rolling.vms_of(work.tx, operation)})
        names = (
            *(name for name in names if not waits.is_reservation(name)),
            *map(waits.reserved, scopes),
        )
    # If the rollout skips the host now, the host waits for the same time again.
    work.save_operation(operation, replace(operation, waits_for=names, due_at=0))
    call_up(work, operation_id)


def _may_reserve(work: Work, operation: Operation) -> bool:
    """Return whether a host is the first of its rollout, or of a scope without reservation.

    The first host of a rollout can wait for something else for days, such as a window. The
    hosts behind a reservation keep none: otherwise each would wait for the one before it,
    and those of one fault domain could not be announced together.
    """
    me = {operation.operation_id}
    first = work.tx.select(kinds.PLANNED_OF_REQUEST, operation.request, limit=1)
    if me == {other.operation_id for other in first}:
        return True
    for family in (waits.TURNS, waits.OVERLAPPING_TURNS):
        # The first name is that of the whole scope.
        name = next(filter(family.is_one, operation.waits_for), "")
        if name:
            reserved = waits.reserved(family.scope_of(name))
            if work.tx.select(kinds.OPERATIONS_THAT_WAIT, reserved, limit=1):
                return False
            waiting = work.tx.select(kinds.OPERATIONS_THAT_WAIT, name, limit=1)
            return me == {other.operation_id for other in waiting}
    return False


def end_pause(work: Work, request: Request, host: str) -> bool:
    """Give a host its turn whose VMs could not be moved away; return whether it had none."""
    name = waits.for_pause(host)
    for operation in work.tx.select(kinds.OPERATIONS_THAT_WAIT, name):
        if operation.request == request.request_id:
            names = replanning.turns_of(work, operation)
            work.save_operation(
                operation, replace(operation, waits_for=names, held_by=(), due_at=0)
            )
            return True
    return False


def cancel_unstarted(work: Work, request: Request, *, note: AnyNote) -> list[Operation]:
    """Cancel the announced hosts of a request, and the first Planned ones.

    There can be many Planned hosts: the rest follows in later steps, because the request
    is not open any more. The actor of the transaction has cancelled them.
    """
    by = work.who.actor
    waiting = list(every(work.tx, kinds.ANNOUNCED_OF_REQUEST, request.request_id))
    work.lock_scopes(scope for operation in waiting for scope in operation.scopes)
    if request.state is RequestState.OPEN:
        request = work.step_request(request, RequestInput.CANCEL)
    for operation in waiting:
        ending.cancel(work, work.operation(operation.operation_id), note=note, by=by)
    unannounced = cancel_planned(work, request, note=note, by=by)
    return [
        *(work.operation(operation.operation_id) for operation in waiting),
        *unannounced,
    ]


def cancel_planned(
    work: Work, request: Request, *, note: AnyNote, by: Actor | None = None
) -> list[Operation]:
    """Cancel some Planned hosts; the others follow in later steps."""
    planned = work.tx.select(
        kinds.PLANNED_OF_REQUEST, request.request_id, limit=CANCELLED_MAX
    )
    for operation in planned:
        ending.cancel(work, work.operation(operation.operation_id), note=note, by=by)
    if len(planned) == CANCELLED_MAX:
        work.take_turn(request.request_id)
    return [work.operation(operation.operation_id) for operation in planned]


PAGE = 25
"""Maximum hosts per transaction. Creating and storing one operation takes about 0.1 ms, so
other approvals and requests wait for about 3 ms."""


def plan(
    work: Work, request: Request, hosts: Sequence[str], pattern: Operation
) -> None:
    """Store the list of hosts, and create the Planned operations of its first page.

    None is announced. `pattern` has the common fields of the operations.
    """
    actions = abilities.actions_of(pattern.action, request.steps)
    abilities.check_actions(work.abilities, actions)
    ids = work.ids.shorts("op", len(hosts), place=place_in(request.request_id))
    # One history entry for all: a thousand hosts must not write a thousand entries.
    work.note(
        AuditKind.HOSTS_PLANNED,
        (
            f"request:{request.request_id}",
            *(f"operation:{operation_id}" for operation_id in ids),
        ),
        Facts(count=len(hosts), at_once=request.at_once),
    )
    listed = tuple(zip(ids, hosts, strict=True))
    for first in range(PAGE, len(listed), PAGE):
        page = listed[first : first + PAGE]
        work.tx.add(
            UnplannedPage(page_id=page[0][0], request=request.request_id, hosts=page)
        )
    request = work.tx.replace(request, replace(request, hosts_unplanned=len(listed)))
    _make(work, request, pattern, listed[:PAGE])


def plan_page(work: Work, request_id: str) -> None:
    """Create the Planned operations of the next page of a list.

    If the rollout was cancelled, they are cancelled afterwards.
    """
    request = work.request(request_id)
    if request.hosts_unplanned:
        page = _take(work, request, count=PAGE)
        _make(work, request, like_the_first(work, request), page)


def complete(work: Work, hosts: Iterable[str]) -> None:
    """Create the operations of these hosts, if a list contains any of them.

    All operations up to the last of these hosts are created, so a list stays in order.
    """
    for request_id, last in sorted(unplanned.last_of(work.tx, {*hosts}).items()):
        request = work.request(request_id)
        left = unplanned.hosts_of(work.tx, request_id)
        count = sum(1 for _ in takewhile(lambda pair, last=last: pair[0] <= last, left))
        page = _take(work, request, count=count)
        _make(work, request, like_the_first(work, request), page)


def like_the_first(work: Work, request: Request) -> Operation:
    """Return the common fields of the operations of a list, from its first one.

    The first one was not announced, because the list is not complete. It can have ended.
    """
    (first,) = work.tx.select(kinds.OPERATIONS_OF_REQUEST, request.request_id, limit=1)
    like = replanning.host_pattern(first, first.not_before)
    return replace(like, created=first.created, deferrals=(), promises=())


def _take(work: Work, request: Request, *, count: int) -> list[tuple[str, str]]:
    """Remove the first hosts of the rest of a list, and return them."""
    taken: list[tuple[str, str]] = []
    # The rest of a list from an old version has pages of one host.
    pages = every(work.tx, kinds.UNPLANNED_OF_REQUEST, request.request_id, page=1)
    while len(taken) < count and (page := next(pages, None)) is not None:
        wanted = count - len(taken)
        taken += page.hosts[:wanted]
        if rest := page.hosts[wanted:]:
            work.tx.replace(page, replace(page, hosts=rest))
        else:
            work.tx.remove(page)
    return taken


def _make(
    work: Work,
    request: Request,
    pattern: Operation,
    page: Sequence[tuple[str, str]],
) -> None:
    """Create the operations of the next hosts of a list, which are stored nowhere else."""
    left = request.hosts_unplanned - len(page)
    work.tx.replace(request, replace(request, hosts_unplanned=left))
    position = request.hosts - request.hosts_unplanned
    for operation_id, host in page:
        position += 1
        planned = changed(
            pattern,
            operation_id=operation_id,
            request=request.request_id,
            target=host,
            host=host,
            not_before=work.not_before(operation_id, pattern.not_before),
            position=position,
        )
        turn = replanning.turn_of(work, planned)
        work.add_operation(changed(planned, waits_for=(turn,)))
    if left:
        work.take_page(request.request_id)
    else:
        work.take_turn(request.request_id)
