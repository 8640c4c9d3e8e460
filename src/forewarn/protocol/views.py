"""A view: who sees the same list of events.

A view is a scope, split by zone where a scale set is zonal (enabling is per
zone, clause 7.2), and by VM for GPU scopes with one fault domain (clause 6.2).
It owns the incarnation of its document. Its *enabling key* groups the views
that one request enables together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.lifecycle import VIEW_STEPS, ViewInput, ViewState, look_up

FIRST_INCARNATION = 1
"""The incarnation of the empty document with which a view begins (2.10)."""


@frozen_dataclass
class View:
    """The list of events that some VMs share, and how far it has come."""

    view_id: str
    scope: str
    enabling: str
    """Views with the same key are enabled and disabled together (7.2)."""
    vm: str = ""
    """The only VM that it is for (6.2); empty: all of the scope and zone."""
    state: ViewState = ViewState.DISABLED
    epoch: int = 0
    """Raised at each enabling; incarnations compare within an epoch only."""
    incarnation: int = 0
    digest: str = ""
    """Of the rendered document: an upgrade that renders otherwise shows here."""
    ready_at: Micros = 0
    """End of the delay of the first answer (7.1); 0: no delay, or it is over."""
    events_from: Micros = 0
    """End of the delay of the first events (7.1); 0: no delay, or it is over."""
    due_at: Micros = 0
    """When the timer must end a delay; 0: none is left.

    A delay ends only by the timer, which sets it to 0. Readers never compare it with
    the clock: a step of the clock could hide events again that a VM has seen.
    """
    last_seen: Micros = 0
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.view_id

    @property
    def is_enabled(self) -> bool:
        """Tell whether somebody listens."""
        return self.state is ViewState.ENABLED

    @property
    def shows_events(self) -> bool:
        """Tell whether its document shows events: enabled, without a delay (7.1)."""
        return self.state is ViewState.ENABLED and not self.events_from


END_OF_TIME: Micros = 2**62
"""An instant after all others, which a 64-bit column still holds."""


def sees(view: View, event: Event) -> bool:
    """Tell whether `event` belongs to the view's list (6.1, 6.2)."""
    return event.scope == view.scope and (not view.vm or event.names(view.vm))


ANY_VIEW = "*"
"""The mark of an event that an earlier version stored: in which views it was shown is
not known, so each view of its scope counts."""


NUMBERS_OF_MARK = 2
"""Numbers of a mark: epoch and incarnation."""


def mark_of(view: View) -> str:
    """Return a mark of what a view shows now: its id, epoch and incarnation.

    Marks of one view are ordered without a clock, since both numbers only rise.
    """
    return f"{view.view_id} {view.epoch} {view.incarnation}"


def is_mark(text: str) -> bool:
    """Tell whether a text is a mark."""
    _, *numbers = text.split(" ")
    return text == ANY_VIEW or (
        len(numbers) == NUMBERS_OF_MARK and all(map(str.isdecimal, numbers))
    )


def was_shown_in(event: Event, view: View) -> bool:
    """Tell whether a mark says that the event was shown in the view by now.

    A view that was dropped and made again may stand below its old marks.
    """
    now = view.epoch, view.incarnation
    return any(
        mark == ANY_VIEW or (parsed[0] == view.view_id and parsed[1] <= now)
        for mark in event.shown_in
        for parsed in [_parsed(mark)]
    )


def with_marks(marks: Iterable[str], views: Iterable[View]) -> tuple[str, ...]:
    """Return the marks with those of these views, instead of older ones of theirs."""
    new = {view.view_id: mark_of(view) for view in views}
    return (*(mark for mark in marks if _parsed(mark)[0] not in new), *new.values())


def has_mark(event: Event, view: View) -> bool:
    """Tell whether the view has ever shown the event."""
    names = {_parsed(mark)[0] for mark in event.shown_in}
    return view.view_id in names or (ANY_VIEW in names and sees(view, event))


def was_shown_before(event: Event, left: Iterable[str]) -> bool:
    """Tell whether the event was shown in one of the views that a VM has left.

    `left` has a mark of each of them, of the time when the VM left.
    """
    first = dict(map(_parsed, event.shown_in))
    return any(
        (view_id in first and first[view_id] <= numbers)
        or (ANY_VIEW in first and scope_of(view_id) == event.scope)
        for view_id, numbers in map(_parsed, left)
    )


def scope_of(view_id: str) -> str:
    """Return the scope of a view; `@` and `/` are in no name."""
    return view_id.partition("/")[0].partition("@")[0]


def _parsed(mark: str) -> tuple[str, tuple[int, int]]:
    if mark == ANY_VIEW:
        return mark, (0, 0)
    view_id, epoch, incarnation = mark.split(" ")
    return view_id, (int(epoch), int(incarnation))


def step_view(
    view: View,
    given: ViewInput,
    *,
    now: Micros,
    ready_at: Micros = 0,
    events_from: Micros = 0,
) -> View:
    """Return the view after `given`.

    Enabling begins a new epoch at incarnation 1 with an empty digest; the
    caller renders the document and raises the incarnation if it is not empty.
    `ready_at` and `events_from` are the ends of the delays; not after `now`: none.
    """
    state = look_up(VIEW_STEPS, view.state, given)
    if given is ViewInput.SILENT:
        return replace(view, state=state, ready_at=0, events_from=0, due_at=0)
    if view.state is ViewState.ENABLED:
        return replace(view, last_seen=max(view.last_seen, now))
    return replace(
        view,
        state=state,
        epoch=view.epoch + 1,
        incarnation=FIRST_INCARNATION,
        digest="",
        last_seen=now,
        **_delays(ready_at, events_from, now=now),
    )


def end_delays(view: View, *, until: Micros) -> View:
    """Return the view without the delays that end at `until` or before."""
    return replace(view, **_delays(view.ready_at, view.events_from, now=until))


def _delays(ready_at: Micros, events_from: Micros, *, now: Micros) -> dict[str, Micros]:
    left = {
        "ready_at": ready_at if ready_at > now else 0,
        "events_from": events_from if events_from > now else 0,
    }
    return {**left, "due_at": min((end for end in left.values() if end), default=0)}
