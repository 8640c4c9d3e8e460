"""The record of an examination: exchanges, documents in their order, and early starts.

Rules about the life of an event need a sequence of documents: an event keeps its ID, a
status never goes back, and equal incarnations have equal content. So the transcript
keeps every document that differs from the one before, whichever check requested it.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.events import EventType
from forewarn.protocol.versions import NEWEST
from forewarn.testing.conformance.documents import (
    Document,
    Exchange,
    Members,
    describe,
    event_id,
    not_before,
    read_document,
    texts,
)

KEPT_BYTES_MAX = 64 << 20
"""Maximum size of the record, in bytes: a document of 4 KiB that changes every second
fills it in four hours."""

EXCHANGE_BYTES = 1024
"""Size that is counted for an exchange in addition to its body, in bytes."""

DELETIONS = (EventType.PREEMPT.value, EventType.TERMINATE.value)
"""Types of events that delete the VM."""

ENABLING_MAX: Micros = 5 * MINUTE
"""Maximum delay after the first request until existing events are shown (7.1)."""


@dataclass(slots=True, kw_only=True)
class Shown:
    """A document, with the reads that returned it."""

    document: Document
    last: Exchange
    """The last read that returned the document."""
    settled: bool
    """Whether the document shows all events that existed when the examination began.
    That takes at most five minutes (7.1), or until the first event is shown."""
    reads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One document as each api-version shows it.

    The newest version was read before and after the others and did not change.
    """

    newest: Document
    again: Exchange
    """The second read of the newest version."""
    others: tuple[Document, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRead:
    """A GET with `If-None-Match`, sent after the document had changed."""

    exchange: Exchange
    old: Document
    """The document that had this tag."""
    new: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Two successive documents of the newest version."""

    before: Shown
    after: Shown

    @property
    def incarnations(self) -> tuple[int | None, int | None]:
        """Return the incarnations of both documents."""
        return self.before.document.incarnation, self.after.document.incarnation

    @property
    def is_single(self) -> bool:
        """Return whether no other document can have existed between the two (2.10)."""
        one, other = self.incarnations
        return one is not None and other is not None and other <= one + 1

    @property
    def exchanges(self) -> tuple[Exchange, Exchange]:
        """Return the last read of the old document and the first of the new one."""
        return self.before.last, self.after.document.exchange

    def pairs(self) -> Iterator[tuple[Members, Members]]:
        """Yield each event that is in both documents: its old and its new form."""
        old, new = self.before.document.by_id, self.after.document.by_id
        for key in old:
            if key in new:
                yield old[key], new[key]


@dataclass(slots=True, kw_only=True)
class Transcript:
    """The record of one examination."""

    others_approve: bool = False
    """Whether other clients may approve events too. Then an early start proves
    nothing."""
    speed: float = 1.0
    """The factor by which the endpoint shortens its notices."""
    name: str = ""
    """Name of the VM as the endpoint reports it; empty if it does not."""
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    """All exchanges in order, without repeated reads of the same document."""
    shown: dict[str, list[Shown]] = field(
        default_factory=lambda: defaultdict[str, list[Shown]](list)
    )
    """The documents by api-version. Each differs from the one before."""
    newest: list[Shown] = field(default_factory=list[Shown])
    """The readable documents of the newest version."""
    unread: list[Exchange] = field(default_factory=list[Exchange])
    """Plain GETs of the document that got another status, or no answer."""
    moments: list[Moment] = field(default_factory=list[Moment])
    tag_reads: list[TagRead] = field(default_factory=list[TagRead])
    approved: dict[str, list[Exchange]] = field(
        default_factory=lambda: defaultdict[str, list[Exchange]](list)
    )
    """POSTs that were answered with 200, by each EventId in them, in upper case."""
    refused: list[Exchange] = field(default_factory=list[Exchange])
    """POSTs that were answered with another status."""
    own_events: list[Exchange] = field(default_factory=list[Exchange])
    """Answers of forewarn's extension about events that started early (`starts`)."""
    deleted_by: str = ""
    """The event that presumably deleted this VM: its endpoint no longer answers."""
    kept_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Return whether the record has reached its maximum, so that a watch must end."""
        return self.kept_bytes >= KEPT_BYTES_MAX

    @property
    def documents(self) -> Iterator[Document]:
        """Yield every document, version by version."""
        for shown in self.shown.values():
            for step in shown:
                yield step.document

    def steps(self) -> Iterator[Step]:
        """Yield each change of the document."""
        for before, after in pairwise(self.newest):
            yield Step(before=before, after=after)

    def show(self, document: Document) -> None:
        """Add a document that differs from the one before."""
        exchange = document.exchange
        self.keep(exchange)
        settled = False
        if self.newest:
            first, last = self.newest[0].document, self.newest[-1]
            waited = document.at - first.at > ENABLING_MAX
            settled = last.settled or bool(last.document.events) or waited
        shown = Shown(document=document, last=exchange, settled=settled)
        self.shown[document.version.name].append(shown)
        if document.version is NEWEST and not document.fault:
            self.newest.append(shown)

    def deletion(self, unread: Exchange) -> str:
        """Return the event that deleted this VM, if that explains a missing answer.

        A deleted VM gets no answer, so the event is in the last document.
        """
        for event in self.newest[-1].document.events if self.newest else ():
            names = texts(event.get("Resources")) or []
            is_own = self.name in names if self.name else len(names) == 1
            if not is_own or event.get("EventType") not in DELETIONS:
                continue
            due = not_before(event)
            is_due = due is not None and unread.at >= due
            is_started = event.get("EventStatus") == "Started"
            if is_started or is_due or event_id(event) in self.approved:
                return describe(event)
        return ""

    def is_approved(self, key: str, *, before: Exchange) -> bool:
        """Return whether an approval was answered with 200 before an exchange."""
        posts = self.approved.get(key, ())
        return any(post.number < before.number for post in posts)

    def refusals(self, key: str, *, before: Exchange | None = None) -> list[Exchange]:
        """Return the refused POSTs whose bodies contain an ID, in any form."""
        part = key.encode(errors="replace")
        return [
            post
            for post in self.refused
            if part in (post.body or b"").upper()
            and (before is None or post.number < before.number)
        ]

    def keep(self, exchange: Exchange) -> None:
        """Add an exchange."""
        self.exchanges.append(exchange)
        self.kept_bytes += EXCHANGE_BYTES + len(exchange.payload)


SAME_CAUSE = ("EventType", "Resources", "EventSource", "Description")
"""Members that identify an event. If one event disappears and another one with the same
values appears as Started, both are the same event."""

CLOCKS_APART: Micros = MINUTE
"""Maximum difference between the client's clock and the platform's."""

DATES_APART: Micros = 10 * SECOND
"""Maximum difference between the endpoint's clock and the one that starts events."""


def clocks_apart(*, is_dated: bool) -> Micros:
    """Return how far two clocks may differ.

    `is_dated`: the time comes from the endpoint's Date header, not from the client.
    """
    return DATES_APART if is_dated else CLOCKS_APART


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An event that was shown as Scheduled and then as Started."""

    event: Members
    """The event while it was Scheduled."""
    due: Micros
    """Its NotBefore."""
    early: Micros
    """Time from the read that showed the event as Started until NotBefore; may be
    negative."""
    step: Step

    @property
    def is_early(self) -> bool:
        """Return whether the event started earlier than a difference of clocks can
        explain."""
        return self.early > clocks_apart(is_dated=self.step.after.document.is_dated)


def starts_of(step: Step) -> list[Start]:
    """Return the events that a step started, even if their IDs changed."""
    after = step.after.document
    starts: list[Start] = []
    for key, event in step.before.document.by_id.items():
        due = not_before(event)
        others = after.events if step.is_single else ()
        now = after.by_id.get(key) or next(
            (other for other in others if is_begun(event, other)), None
        )
        if due is None or now is None or now.get("EventStatus") != "Started":
            continue
        starts.append(Start(event=event, due=due, early=due - after.at, step=step))
    return starts


def early_starts(transcript: Transcript, step: Step) -> list[Start]:
    """Return the events that started too early without an approval by this client."""
    shown = step.after.document.exchange
    return [
        start
        for start in starts_of(step)
        if start.is_early
        and not transcript.is_approved(event_id(start.event), before=shown)
    ]


def names_only_this_vm(transcript: Transcript, event: Members) -> bool:
    """Return whether an event names one VM, and it is this one if its name is known."""
    names = texts(event.get("Resources")) or []
    return len(names) == 1 and (not transcript.name or names[0] == transcript.name)


def is_begun(old: Members, new: Members) -> bool:
    """Return whether the new event is the old one, now Started and with another ID."""
    statuses = (old.get("EventStatus"), new.get("EventStatus"))
    return statuses == ("Scheduled", "Started") and is_same_cause(old, new)


def is_same_cause(old: Members, new: Members) -> bool:
    """Return whether two events agree in all members that identify an event."""
    return all(old.get(member) == new.get(member) for member in SAME_CAUSE)


def is_known_approved(transcript: Transcript, key: str) -> bool | None:
    """Return whether an event was approved according to forewarn's extension.

    None: the extension did not show this event.
    """
    for exchange in transcript.own_events:
        for event in read_document(exchange, NEWEST).events:
            approved: object = event.get("Approved")
            if event_id(event) == key and isinstance(approved, bool):
                return approved
    return None
