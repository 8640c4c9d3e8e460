"""The times that the hosts of a campaign waited before their work, by cause.

The history of a campaign says when it was halted or paused, and when its stages began. Its
windows and blackouts say when it may announce hosts. Each operation has the times for which
tenants held it. The rest of the time, hosts wait for their turn: for budgets, free capacity
and the hosts before them. For operators only.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import campaign_gate
from forewarn.fleet.calendars import free_times
from forewarn.instants import Micros
from forewarn.protocol.operations import TenantCause, TenantWait
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind

HALTED, PAUSED, CLOSED, SOAK, TURN = "halted", "paused", "closed", "soak", "turn"
STAGE_APPROVAL = "stage_approval"
"""The next stage waits only for its approval by an operator."""
DEFERRAL, WINDOW = TenantCause.DEFERRAL.value, TenantCause.WINDOW.value
FAILED = "failed"
"""The host failed before, and was retried after this time or was not yet."""

CAUSES = (
    *(HALTED, PAUSED, CLOSED, STAGE_APPROVAL, SOAK),
    *(DEFERRAL, WINDOW, FAILED, TURN),
)
"""All causes before a notice. Of several at a time, the first one counts."""

APPROVAL, START = "approval", "start"
"""An announced host waits until all its events are approved or NotBefore has come, and
then for its start: for other fault domains, the brake or the driver."""

NOTICE_CAUSES = (APPROVAL, WINDOW, START)
"""All causes after an announcement."""

_OPENED: Mapping[AuditKind, str] = {
    AuditKind.CAMPAIGN_HALTED: HALTED,
    AuditKind.CAMPAIGN_PAUSED: PAUSED,
}
_APPROVED = frozenset(
    {AuditKind.CAMPAIGN_STAGE_APPROVED, AuditKind.CAMPAIGN_STAGE_BEGUN}
)
_ENDED = frozenset(
    {
        AuditKind.CAMPAIGN_RESUMED,
        AuditKind.CAMPAIGN_ABORTED,
        AuditKind.CAMPAIGN_DONE,
    }
)


class Stretch(NamedTuple):
    """A time in which a cause held the whole campaign."""

    cause: str
    begins: Micros
    ends: Micros


class Wait(NamedTuple):
    """The time for which an attempt waited for its announcement."""

    begins: Micros
    ends: Micros
    has_failed: bool
    """Whether an attempt on the host had failed at the beginning."""
    by_tenants: Sequence[TenantWait] = ()
    """The times for which tenants held it."""


def history(reader: Reader, campaign: CampaignRecord) -> list[AuditEntry]:
    """Return the entries of the history about a campaign, the oldest first."""
    return list(every(reader, kinds.AUDIT_OF_SUBJECT, campaign.subject))


def stretches(
    reader: Reader,
    campaign: CampaignRecord,
    entries: Sequence[AuditEntry],
    stage_ends: Mapping[int, Sequence[Micros]],
    *,
    now: Micros,
) -> list[Stretch]:
    """Return the times in which something held the whole campaign.

    `stage_ends` has the ends of the attempts of each stage.
    """
    end = campaign.ended or now
    return [
        *_stopped(entries, end),
        *_closed(reader, campaign, end),
        *_unapproved(entries, end),
        *_soaks(campaign, entries, stage_ends, end),
    ]


def _stopped(entries: Iterable[AuditEntry], end: Micros) -> Iterator[Stretch]:
    """Yield the halts and pauses. An operator who resumes a campaign ends both."""
    since: dict[str, Micros] = {}
    for entry in entries:
        cause = _OPENED.get(entry.kind)
        if cause is not None:
            since.setdefault(cause, entry.at)
        elif entry.kind in _ENDED:
            yield from (Stretch(cause, at, entry.at) for cause, at in since.items())
            since.clear()
    yield from (Stretch(cause, at, end) for cause, at in since.items())


def _closed(reader: Reader, campaign: CampaignRecord, end: Micros) -> Iterator[Stretch]:
    """Yield the times outside of the windows, and those of blackouts."""
    hours = campaign_gate.hours_of(reader, campaign)
    last = campaign.created
    blackouts = (*hours.blackouts, *hours.wide)
    for opening in free_times(hours.windows, blackouts, campaign.created, end):
        yield Stretch(CLOSED, last, opening.opens)
        last = opening.closes
    yield Stretch(CLOSED, last, end)


def _unapproved(entries: Iterable[AuditEntry], end: Micros) -> Iterator[Stretch]:
    """Yield the times in which a stage waited only for its approval."""
    since: dict[int | None, Micros] = {}
    for entry in entries:
        stage = entry.facts.stage
        if entry.kind is AuditKind.CAMPAIGN_APPROVAL_NEEDED:
            since.setdefault(stage, entry.at)
        elif entry.kind in _APPROVED and stage in since:
            yield Stretch(STAGE_APPROVAL, since.pop(stage), entry.at)
    yield from (Stretch(STAGE_APPROVAL, at, end) for at in since.values())


def _soaks(
    campaign: CampaignRecord,
    entries: Iterable[AuditEntry],
    stage_ends: Mapping[int, Sequence[Micros]],
    end: Micros,
) -> Iterator[Stretch]:
    """Yield the times from the last host of a stage to the beginning of the next stage."""
    begun = {
        entry.facts.stage: entry.at
        for entry in entries
        if entry.kind is AuditKind.CAMPAIGN_STAGE_BEGUN
    }
    for stage in range(1, len(campaign.stages)):
        follows = begun.get(stage + 1)
        is_over = follows is not None or (
            stage == campaign.stage and campaign.stage_left <= 0
        )
        until = end if follows is None else follows
        before = [at for at in stage_ends.get(stage, ()) if at <= until]
        if is_over and before:
            yield Stretch(SOAK, max(before), until)


def sums(found: Iterable[Stretch], waits: Iterable[Wait]) -> dict[str, Micros]:
    """Return how long the hosts waited for each cause, all together."""
    parts = list(
        _disjoint([stretch for stretch in found if stretch.begins < stretch.ends])
    )
    all_begin, all_end = ([part[side] for part in parts] for side in (1, 2))
    total = Counter[str]()
    for wait in waits:
        rest = max(0, wait.ends - wait.begins)
        first, last = (
            bisect_right(all_end, wait.begins),
            bisect_left(all_begin, wait.ends),
        )
        there = parts[first:last]
        for cause, begins, ends in there:
            shared = min(ends, wait.ends) - max(begins, wait.begins)
            if shared > 0:
                total[cause] += shared
                rest -= shared
        for cause, begins, ends in held_between(
            wait.by_tenants, wait.begins, wait.ends
        ):
            own = ends - begins
            for _, other_begins, other_ends in there:
                own -= max(0, min(ends, other_ends) - max(begins, other_begins))
            total[cause] += own
            rest -= own
        total[FAILED if wait.has_failed else TURN] += rest
    return {cause: total[cause] for cause in CAUSES}


def held_between(
    tenant_waits: Iterable[TenantWait], begins: Micros, ends: Micros
) -> Iterator[Stretch]:
    """Yield the parts of these times that are between two instants."""
    for wait in tenant_waits:
        first, last = max(begins, wait.begins), min(ends, wait.ends or ends)
        if first < last:
            yield Stretch(wait.cause.value, first, last)


def _disjoint(found: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield the same time, each instant with the first of its causes."""
    edges = sorted({at for stretch in found for at in (stretch.begins, stretch.ends)})
    for begins, ends in pairwise(edges):
        there = [e.cause for e in found if e.begins <= begins and e.ends >= ends]
        if there:
            yield Stretch(min(there, key=CAUSES.index), begins, ends)


class Decision(NamedTuple):
    """The decision about a failed host."""

    what: str
    """retried or skipped."""
    by: str
    at: Micros
    reason: str


_DECIDED: Mapping[AuditKind, str] = {
    AuditKind.CAMPAIGN_HOSTS_RETRIED: "retried",
    AuditKind.CAMPAIGN_HOSTS_SKIPPED: "skipped",
}


def decision_after(
    entries: Iterable[AuditEntry], host: str, failed: Micros
) -> Decision | None:
    """Return the first decision about a host after its failure; None: there is none."""
    subject = f"host:{host}"
    for entry in entries:
        decision = _DECIDED.get(entry.kind)
        if decision is not None and entry.at >= failed and subject in entry.subjects:
            return Decision(decision, entry.actor.text, entry.at, entry.why)
    return None
