"""What an examination has seen so far: exchanges, and documents in their order.

What a life cycle promises shows only in a sequence of documents: that an event keeps
its id, that nothing goes backwards, that equal numbers mean equal content. So every
document is kept that differs from the one before, whoever asked for it.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from forewarn.instants import MINUTE, Micros
from forewarn.protocol.events import EventType
from forewarn.protocol.versions import NEWEST
from forewarn.testing.conformance.documents import (
    Document,
    Members,
    describe,
    event_id,
    not_before,
    texts,
)
from forewarn.testing.conformance.exchanges import Exchange

KEPT_BYTES_MAX = 64 << 20
"""Maximum size of what is kept, in bytes: a document of 4 KiB that changes each second
fills it in four hours."""

EXCHANGE_BYTES = 1024
"""What an exchange counts apart from its body, in bytes."""

DELETIONS = (EventType.PREEMPT.value, EventType.TERMINATE.value)
"""Types after which there is no VM any more."""

ENABLING_MAX: Micros = 5 * MINUTE
"""By so much later than the first request events may appear that were there (7.1)."""


@dataclass(slots=True, kw_only=True)
class Shown:
    """A document, for as long as it was shown."""

    document: Document
    last: Exchange
    """The last read of it."""
    settled: bool
    """Events that were under way when the examination began are shown by now, since
    that takes five minutes at most (7.1), or one was shown before."""
    reads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What each version shows of one document.

    The newest version was read before and after the others, and had not changed.
    """

    newest: Document
    again: Exchange
    """The second read of the newest version."""
    others: tuple[Document, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRead:
    """A GET with `If-None-Match`, sent when the document had changed since."""

    exchange: Exchange
    old: Document
    """The document of that tag."""
    new: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Two documents of the newest version, one after the other."""

    before: Shown
    after: Shown

    @property
    def incarnations(self) -> tuple[int | None, int | None]:
        """Return the numbers of both."""
        return self.before.document.incarnation, self.after.document.incarnation

    @property
    def is_single(self) -> bool:
        """Tell whether it is sure that no document was between the two (2.10)."""
        one, other = self.incarnations
        return one is not None and other is not None and other <= one + 1

    @property
    def exchanges(self) -> tuple[Exchange, Exchange]:
        """Return where it was seen: the last read before, the first one after."""
        return self.before.last, self.after.document.exchange

    def pairs(self) -> Iterator[tuple[Members, Members]]:
        """Yield the events that are in both documents, as each has them."""
        old, new = self.before.document.by_id, self.after.document.by_id
        for key in old:
            if key in new:
                yield old[key], new[key]


@dataclass(slots=True, kw_only=True)
class Transcript:
    """Everything that was seen."""

    others_approve: bool = False
    """Somebody else approves events meanwhile, so what starts early proves nothing."""
    speed: float = 1.0
    """What the endpoint divides its notices by."""
    name: str = ""
    """What the VM is called, as the endpoint said; empty: it did not."""
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    """In order, without reads that gave the same as the one before."""
    shown: dict[str, list[Shown]] = field(
        default_factory=lambda: defaultdict[str, list[Shown]](list)
    )
    """By api-version, what it showed: each differs from the one before."""
    newest: list[Shown] = field(default_factory=list[Shown])
    """What the newest version showed, where it was a document."""
    unread: list[Exchange] = field(default_factory=list[Exchange])
    """Plain GETs of the document that got something else, or nothing."""
    moments: list[Moment] = field(default_factory=list[Moment])
    tag_reads: list[TagRead] = field(default_factory=list[TagRead])
    approved: dict[str, list[Exchange]] = field(
        default_factory=lambda: defaultdict[str, list[Exchange]](list)
    )
    """By id in upper case, the POSTs with it that were answered with 200."""
    refused: list[Exchange] = field(default_factory=list[Exchange])
    """POSTs that were answered otherwise."""
    own_events: list[Exchange] = field(default_factory=list[Exchange])
    """What forewarn's extension said of events that started early (see `starts`)."""
    deleted_by: str = ""
    """The event that deleted this VM, as it seems: its endpoint answers no more."""
    kept_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Tell whether nothing more can be kept, so that a watch has to end."""
        return self.kept_bytes >= KEPT_BYTES_MAX

    @property
    def documents(self) -> Iterator[Document]:
        """Yield every document that was shown, by version."""
        for shown in self.shown.values():
            for each in shown:
                yield each.document

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
        """Return the event that deleted this VM, if nothing was read because of that.

        Nobody answers a VM that does not exist, so it is in the last document.
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
        """Tell whether an approval had been answered with 200 before an exchange."""
        posts = self.approved.get(key, ())
        return any(post.number < before.number for post in posts)

    def refusals(self, key: str, *, before: Exchange | None = None) -> list[Exchange]:
        """Return the refused POSTs with an id in their bodies, in whatever form."""
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
