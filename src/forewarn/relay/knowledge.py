"""The knowledge of a relay: frozen values, and one table for the lines that come.

The service sends all VMs and views of the host (a *whole*), then each change, then lines
that only say that nothing has changed. A relay that comes back with the digest of all that
it knows gets one line instead of a whole, if that is still true. Lines can be lost, repeated,
late or from another service. `VERDICTS` has what each of them does. No line makes a view
older: its document is replaced only by a newer one (`protocol.published.rank`). A service
with an older document has lost its store, and is left. Pure.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from forewarn.fleet.instance import InstanceFacts
from forewarn.protocol import documents
from forewarn.protocol.published import Guest, Publication, ViewSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in the stream of one process of the service."""

    term: int
    """The term of the service: a service that was started later has a higher one."""
    number: int
    """The number of the latest change that is known."""
    start: str
    """The process. Numbers of different processes cannot be compared."""

    @property
    def text(self) -> str:
        """Return the position as the service writes it."""
        return f"{self.term}.{self.number}.{self.start}"

    def reaches(self, other: "Position") -> bool:
        """Return whether what is known here includes what is known at `other`.

        A relay whose position is from another process has read everything since.
        """
        return self.start != other.start or self.number >= other.number


def position_of(text: str) -> Position:
    """Parse a position; raises ValueError."""
    term, _, rest = text.partition(".")
    number, _, start = rest.partition(".")
    if not (term.isdecimal() and number.isdecimal() and start):
        raise ValueError("position is not TERM.NUMBER.START")
    return Position(term=int(term), number=int(number), start=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A VM of the host."""

    guest: Guest
    instance: InstanceFacts


class Form(enum.Enum):
    """The forms of lines."""

    WHOLE = "all VMs and views"
    SAME = "all is as the relay has said"
    CHANGES = "the changes, or none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the stream."""

    position: Position
    is_whole: bool = False
    is_same: bool = False
    digest: str = ""
    """The service's digest of all that is known after this line; empty: it sends none."""
    host: str = ""
    """The host, in a whole."""
    since: int = 0
    """In other lines, the number after which the changes begin."""
    views: tuple[ViewSnapshot, ...] = ()
    views_gone: tuple[str, ...] = ()
    guests: tuple[Known, ...] = ()
    guests_gone: tuple[str, ...] = ()

    @property
    def form(self) -> Form:
        """Return its form."""
        if self.is_whole:
            return Form.WHOLE
        return Form.SAME if self.is_same else Form.CHANGES

    @property
    def has_content(self) -> bool:
        """Return whether the service waits until the relay has applied the line."""
        return self.is_whole or bool(
            self.views or self.views_gone or self.guests or self.guests_gone
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """All VMs and views of the host, as the relay serves them."""

    position: Position | None = None
    """None: nothing is known."""
    host: str = ""
    digest: str = ""
    """The service's digest of all of it; empty: it is not known."""
    views: Mapping[str, ViewSnapshot] = field(default_factory=dict[str, ViewSnapshot])
    guests: Mapping[str, Known] = field(default_factory=dict[str, Known])


class Place(enum.Enum):
    """The position of a line, compared with the position of the relay."""

    FIRST = "the relay knows nothing"
    NEXT = "the line goes on from what the relay knows"
    GAP = "lines between are missing"
    OLD = "the relay knows all of it already"
    OTHER = "the line is from another process"
    BEHIND = "the line is from an earlier term"
    LOST = "the line has an older document than the relay has served"


class Verdict(enum.Enum):
    """The effect of a line."""

    REPLACE = "replace everything"
    MERGE = "apply the changes"
    KEEP = "go on from the position of the line"
    IGNORE = "change nothing"
    LEAVE = "leave this stream, and connect again"


VERDICTS: Mapping[tuple[Form, Place], Verdict] = {
    (Form.WHOLE, Place.FIRST): Verdict.REPLACE,
    (Form.WHOLE, Place.NEXT): Verdict.REPLACE,
    (Form.WHOLE, Place.OLD): Verdict.IGNORE,
    (Form.WHOLE, Place.OTHER): Verdict.REPLACE,
    (Form.WHOLE, Place.BEHIND): Verdict.LEAVE,
    (Form.WHOLE, Place.LOST): Verdict.LEAVE,
    (Form.SAME, Place.FIRST): Verdict.LEAVE,
    (Form.SAME, Place.NEXT): Verdict.KEEP,
    (Form.SAME, Place.OLD): Verdict.IGNORE,
    (Form.SAME, Place.OTHER): Verdict.KEEP,
    (Form.SAME, Place.BEHIND): Verdict.LEAVE,
    (Form.CHANGES, Place.FIRST): Verdict.LEAVE,
    (Form.CHANGES, Place.NEXT): Verdict.MERGE,
    (Form.CHANGES, Place.GAP): Verdict.LEAVE,
    (Form.CHANGES, Place.OLD): Verdict.IGNORE,
    (Form.CHANGES, Place.OTHER): Verdict.LEAVE,
    (Form.CHANGES, Place.BEHIND): Verdict.LEAVE,
    (Form.CHANGES, Place.LOST): Verdict.LEAVE,
}
"""The effect of a line, by its form and its place. Only changes can have a gap, and a line
without a document has no older one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of a line."""

    verdict: Verdict
    place: Place
    knowledge: Knowledge
    change: Publication
    """The changes for the endpoint."""


def place_of(knowledge: Knowledge, line: Line) -> Place:
    """Return where a line is, compared with what is known."""
    position = knowledge.position
    if position is None:
        return Place.FIRST
    if line.position.term < position.term:
        return Place.BEHIND
    is_other = line.position.start != position.start
    if not is_other and line.position.number < position.number:
        return Place.OLD
    if not is_other and line.form is Form.CHANGES and line.since > position.number:
        return Place.GAP
    if any(_is_older(view, knowledge.views.get(view.view_id)) for view in line.views):
        return Place.LOST
    return Place.OTHER if is_other else Place.NEXT


def take(knowledge: Knowledge, line: Line) -> Step:
    """Return what a line changes."""
    place = place_of(knowledge, line)
    verdict = VERDICTS[line.form, place]
    if verdict is Verdict.REPLACE:
        after, change = _replaced(knowledge, line)
    elif verdict is Verdict.MERGE:
        after, change = _merged(knowledge, line)
    elif verdict is Verdict.KEEP:
        after, change = replace(knowledge, position=line.position), Publication()
    else:
        after, change = knowledge, Publication()
    return Step(verdict=verdict, place=place, knowledge=after, change=change)


def everything(knowledge: Knowledge) -> Publication:
    """Return all that is known, for an endpoint that has nothing yet."""
    return Publication(
        views=tuple(knowledge.views.values()),
        guests=tuple(known.guest for known in knowledge.guests.values()),
    )


def last_seen(
    knowledge: Knowledge, seen: Mapping[str, int], *, now: int
) -> dict[str, int]:
    """Return how long ago views were requested, by one VM of each view."""
    one = {known.guest.view_id: vm for vm, known in knowledge.guests.items()}
    return {one[view]: max(0, now - at) for view, at in seen.items() if view in one}


def is_stale(*, silent_for: float, stale_max: float | None) -> bool:
    """Return whether the service was silent for longer than the relay may answer alone.

    Both are in seconds. Without a limit, the relay answers for as long as it runs.
    """
    return stale_max is not None and silent_for > stale_max


def _replaced(old: Knowledge, line: Line) -> tuple[Knowledge, Publication]:
    views = {view.view_id: _newest(old, view) for view in line.views}
    guests = {known.guest.vm: known for known in line.guests}
    after = Knowledge(
        position=line.position,
        host=line.host,
        digest=line.digest,
        views=views,
        guests=guests,
    )
    return after, Publication(
        views=_changed(old.views, views),
        views_gone=tuple(name for name in old.views if name not in views),
        guests=tuple(
            fresh.guest
            for name, fresh in guests.items()
            if old.guests.get(name) != fresh
        ),
        guests_gone=tuple(name for name in old.guests if name not in guests),
    )


def _merged(old: Knowledge, line: Line) -> tuple[Knowledge, Publication]:
    newest = {view.view_id: _newest(old, view) for view in line.views}
    came = {known.guest.vm: known for known in line.guests}
    views_gone = tuple(
        name for name in line.views_gone if name in old.views and name not in newest
    )
    guests_gone = tuple(
        name for name in line.guests_gone if name in old.guests and name not in came
    )
    views: Mapping[str, ViewSnapshot] = {**old.views, **newest}
    guests: Mapping[str, Known] = {**old.guests, **came}
    after = replace(
        old,
        position=line.position,
        digest=line.digest or ("" if line.has_content else old.digest),
        views={name: view for name, view in views.items() if name not in views_gone},
        guests={
            name: known for name, known in guests.items() if name not in guests_gone
        },
    )
    return after, Publication(
        views=_changed(old.views, newest),
        views_gone=views_gone,
        guests=tuple(
            fresh.guest for name, fresh in came.items() if old.guests.get(name) != fresh
        ),
        guests_gone=guests_gone,
    )


def _is_older(view: ViewSnapshot, held: ViewSnapshot | None) -> bool:
    """Return whether the store of a view does not know what is held of it.

    One store gives a place to one document only. So with another document, one of the two
    is of a store that is gone.
    """
    if held is None or view.rank > held.rank:
        return False
    return view.rank < held.rank or (
        view.events != held.events
        and documents.digest(view.events) != documents.digest(held.events)
    )


def _newest(old: Knowledge, view: ViewSnapshot) -> ViewSnapshot:
    """Return a view that is not older than the held one: the held one if both are equal."""
    held = old.views.get(view.view_id)
    return view if held is None or view.rank > held.rank else held


def _changed(
    old: Mapping[str, ViewSnapshot], new: Mapping[str, ViewSnapshot]
) -> tuple[ViewSnapshot, ...]:
    return tuple(view for name, view in new.items() if old.get(name) is not view)
