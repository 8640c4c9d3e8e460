"""Set and remove blackouts of the service, in which no planned work begins.

Setting one withdraws the announced hosts of rollouts and campaigns that would start in
it, in pages after the transaction, as the brake does: they are planned again, and
announced with a full notice after it. Work that has started continues.
"""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.rules import wide_blackouts
from forewarn.control.transactions.work import Work
from forewarn.fleet.blackout_fields import (
    BLACKOUTS_MAX,
    NAME,
    blackout_of,
    line_of_blackout,
)
from forewarn.fleet.blackouts import Blackout, coming
from forewarn.fleet.calendars import Calendar
from forewarn.fleet.model import LABEL, PLACES, Vm, place
from forewarn.instants import Micros
from forewarn.problems import quoted
from forewarn.protocol.blockers import HinderedError
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.protocol.operations import Operation
from forewarn.protocol.verbs import PLANNED_VERBS, Verb
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditKind, Facts
from forewarn.store.wide_blackouts import WideBlackout
from forewarn.texts import count

SUBJECT = "blackout"
"""Kind of the subjects of audit entries about blackouts of the service."""

PLACES_MAX = 100
"""Maximum places of a blackout: each decision about a host compares all of them."""


def set_blackout(
    work: Work, name: str, time: str, places: Sequence[str] = ()
) -> WideBlackout:
    """Set a blackout, or change the one with this name; raises RefusedError.

    `time` is its time as in a line of a blackout, and `places` are the part of the fleet.
    If the same actor has set the same, nothing happens.
    """
    _check_reason(work)
    blackout = _read(name, time)
    _check_has_time(work, blackout)
    old = work.tx.get(WideBlackout, name)
    new = WideBlackout(
        name=name,
        time=blackout,
        places=_places(work.tx, places),
        by=work.who.actor,
        reason=work.who.reason,
        since=work.now,
    )
    if old is not None and _is_same(old, new):
        return old
    if old is None and len(wide_blackouts.all_of(work.tx)) >= BLACKOUTS_MAX:
        raise RefusedError(
            f"the service has at most {BLACKOUTS_MAX} blackouts",
            hint="Run `forewarn blackout remove NAME` for one that has ended.",
        )
    _check_ends(work, new)
    _note(work, AuditKind.BLACKOUT_SET, new)
    stored = (
        work.tx.add(new)
        if old is None
        else work.tx.replace(old, replace(new, revision=old.revision))
    )
    work.withdraw()
    _changed(work, name)
    return stored


def _is_same(found: WideBlackout, new: WideBlackout) -> bool:
    same_by = found.by.is_same_as(new.by)
    return same_by and found == replace(
        new, by=found.by, since=found.since, revision=found.revision
    )


def remove(work: Work, name: str) -> None:
    """Remove a blackout, and check the work that it held; raises NotFoundError."""
    _check_reason(work)
    stored = work.tx.get(WideBlackout, name)
    if stored is None:
        raise NotFoundError(
            f"there is no blackout {quoted(name)}",
            hint="Run `forewarn blackout show` to list them.",
        )
    _note(work, AuditKind.BLACKOUT_REMOVED, stored)
    work.tx.remove(stored)
    _changed(work, name)


def check_vms(work: Work, vms: Sequence[Vm], verb: Verb, not_before: Micros) -> None:
    """Refuse planned work on VMs that would be announced or start in a blackout.

    A host waits in its rollout; only another request repeats work on a VM.
    """
    if verb not in PLANNED_VERBS:
        return
    for host in sorted({vm.host for vm in vms}):
        times = wide_blackouts.of_host(work.tx, host)
        at_once = wide_blackouts.why_at(times, work.now, work.now)
        banned = at_once or wide_blackouts.why_at(times, not_before, not_before)
        if banned is not None:
            raise HinderedError(
                "no planned work is announced for this time",
                because=(banned,),
                hint="Run `forewarn blackout show` to see the blackouts.",
            )


def note_ignored(work: Work, operation: Operation) -> None:
    """Note the blackouts that an emergency repair of a host ignores."""
    if not operation.is_emergency:
        return
    usual = replace(operation, is_emergency=False)
    start = max(work.now, operation.not_before)
    ignored = {
        blackout.blackout: blackout
        for at in (work.now, start)
        if (blackout := wide_blackouts.in_force(work.tx, usual, now=at)) is not None
    }
    if ignored:
        work.note(
            AuditKind.BLACKOUTS_IGNORED,
            (f"request:{operation.request}", f"host:{operation.host}"),
            Facts(blockers=tuple(ignored.values())),
        )


def _note(work: Work, kind: AuditKind, blackout: WideBlackout) -> None:
    facts = Facts(text=line_of_blackout(blackout.time), places=blackout.places)
    work.note(kind, (f"{SUBJECT}:{blackout.name}",), facts)


def _changed(work: Work, name: str) -> None:
    """Check the work that a blackout has held, and the campaigns, which have timers."""
    work.free_blackout(name)
    for campaign in list(every(work.tx, kinds.CAMPAIGNS_OPEN)):
        work.take_turn(campaign.request)


def _check_reason(work: Work) -> None:
    if not work.who.reason:
        raise BadRequestError("a blackout needs a reason", hint="Add --reason TEXT.")


def _read(name: str, time: str) -> Blackout:
    if not NAME.fullmatch(name):
        raise BadRequestError(
            f"{quoted(name)} is not a name of a blackout",
            hint="Use letters, digits, dots, hyphens and underscores, such as year-end.",
        )
    try:
        return blackout_of(name + " " + time)
    except ValueError as error:
        raise BadRequestError(
            f"{quoted(time)} is not a time of a blackout: {error}",
            hint="Write it like '2026-12-24T18:00 2027-01-02T06:00 Europe/Berlin', or "
            "'mon,fri 09:00 8h Europe/Berlin'.",
        ) from error


def _check_has_time(work: Work, blackout: Blackout) -> None:
    """Refuse a time that has passed: a mistyped year would stop nothing."""
    if next(coming([blackout], work.now, work.now), None) is None:
        raise RefusedError(
            f"blackout {blackout.name} would have ended already",
            hint="Use a later end, and check the year and the time zone.",
        )


def _check_ends(work: Work, new: WideBlackout) -> None:
    """Refuse a blackout after which planned work could never begin."""
    others = (
        blackout.time
        for blackout in wide_blackouts.all_of(work.tx)
        if blackout.name != new.name and blackout.is_of_fleet
    )
    if Calendar((), work.now, (new.time, *others)).next_start(work.now, 0) is None:
        raise RefusedError(
            f"with blackout {new.name}, no planned work could ever begin",
            hint="Leave free time between its times, or run `forewarn brake on`.",
        )


def _places(reader: Reader, places: Sequence[str]) -> tuple[str, ...]:
    """Return the places of a blackout, each once; raises RefusedError."""
    if len(places) > PLACES_MAX:
        raise BadRequestError(
            f"a blackout has at most {count(PLACES_MAX, 'place')}, not {len(places):,}",
            hint="Use a place with more hosts, such as a cluster instead of racks.",
        )
    unique: dict[str, None] = {}
    for text in places:
        kind, _, name = text.partition("=")
        if not kind or not name:
            raise BadRequestError(
                f"{quoted(text)} is not a place",
                hint="Write it like zone=1, cluster=a, rack=r7, pool=p1 or the label "
                "model=r7525.",
            )
        at = text if kind in {*PLACES, LABEL} else place(LABEL, text)
        if not reader.select(kinds.HOSTS_AT_PLACE, at, limit=1):
            raise RefusedError(
                f"no host stands at {text}",
                hint="Run `forewarn fleet show` to see the places of hosts.",
            )
        unique[at] = None
    return tuple(unique)
