"""Views: VMs that see the same list of events.

A view is a scope. A zonal scale set has one view per zone (clause 7.2), and a GPU scope
with one fault domain has one view per VM (clause 6.2). A view owns the incarnation of
its document. Views with the same *enabling key* are enabled together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.frozen import frozen_dataclass, same_as
from forewarn.protocol.lifecycle import VIEW_STEPS, ViewInput, ViewState, look_up

FIRST_INCARNATION = 1
"""Incarnation of the first, empty document of a view (2.10)."""


@frozen_dataclass
class View:
    """A list of events that some VMs share, with its incarnation."""

    view_id: str
    scope: str
    enabling: str
    """Views with the same key are enabled and disabled together (7.2)."""
    vm: str = ""
    """The VM that it is for (6.2); empty: all VMs of the scope and zone."""
    state: ViewState = ViewState.DISABLED
    epoch: int = 0
    """Another one since it was created, and each time it is enabled, always above all that
    the store has had. Incarnations can be compared within an epoch only."""
    incarnation: int = 0
    digest: str = ""
    """Digest of the published document. It detects an upgrade that renders differently."""
    ready_at: Micros = 0
    """End of the delay of the first answer (7.1); 0: no delay, or it has ended."""
    events_from: Micros = 0
    """End of the delay of the first events (7.1); 0: no delay, or it has ended."""
    due_at: Micros = 0
    """Time of the timer that ends a delay; 0: no delay.

    Only the timer ends a delay, by setting it to 0. Readers never compare it with the
    clock: a clock step could hide events again that a VM has seen.
    """
    last_seen: Micros = 0
    revision: int = 0

    key = same_as("view_id")
    """The key in a store."""

    @property
    def was_enabled(self) -> bool:
        """Return whether Scheduled Events are enabled, or have been."""
        return self.incarnation >= FIRST_INCARNATION

    @property
    def is_enabled(self) -> bool:
        """Return whether Scheduled Events are enabled."""
        return self.state is ViewState.ENABLED

    @property
    def shows_events(self) -> bool:
        """Return whether the view's document shows events: enabled, without a delay
        (7.1)."""
        return self.state is ViewState.ENABLED and not self.events_from


END_OF_TIME: Micros = 2**62
"""A time after all others that still fits into a 64-bit column."""


def sees(view: View, event: Event) -> bool:
    """Return whether `event` belongs to the list of the view (6.1, 6.2)."""
    return event.scope == view.scope and (not view.vm or event.names(view.vm))


ANY_VIEW = "*"
"""Mark of an event that an earlier version stored. Its views are unknown, so each view
of its scope counts."""


NUMBERS_OF_MARK = 2
"""Number of integers in a mark: epoch and incarnation."""


def mark_of(view: View) -> str:
    """Return a mark of the current document of a view: ID, epoch and incarnation.

    Marks of one view can be ordered without a clock, because both numbers only rise.
    """
    return f"{view.view_id} {view.epoch} {view.incarnation}"


def is_mark(text: str) -> bool:
    """Return whether a string is a mark."""
    _, *numbers = text.split(" ")
    return text == ANY_VIEW or (
        len(numbers) == NUMBERS_OF_MARK and all(map(str.isdecimal, numbers))
    )


def was_shown_in(event: Event, view: View) -> bool:
    """Return whether a mark says that the view has shown the event.

    In the store of an earlier version, a view that was deleted and created again can have
    lower numbers than old marks.
    """
    now = view.epoch, view.incarnation
    return any(
        mark == ANY_VIEW or (parsed[0] == view.view_id and parsed[1] <= now)
        for mark in event.shown_in
        for parsed in [_parsed(mark)]
    )


def with_marks(marks: Iterable[str], views: Iterable[View]) -> tuple[str, ...]:
    """Return the marks, with the marks of these views replaced by current ones."""
    new = {view.view_id: mark_of(view) for view in views}
    return (*(mark for mark in marks if _parsed(mark)[0] not in new), *new.values())


def has_mark(event: Event, view: View) -> bool:
    """Return whether the view has ever shown the event."""
    names = {_parsed(mark)[0] for mark in event.shown_in}
    return view.view_id in names or (ANY_VIEW in names and sees(view, event))


def was_shown_before(event: Event, left: Iterable[str]) -> bool:
    """Return whether a view that a VM has left had shown the event.

    `left` has a mark of each such view, from the time when the VM left.
    """
    first = dict(map(_parsed, event.shown_in))
    return any(
        (view_id in first and first[view_id] <= numbers)
        or (ANY_VIEW in first and scope_of(view_id) == event.scope)
        for view_id, numbers in map(_parsed, left)
    )


def scope_of(view_id: str) -> str:
    """Return the scope of a view. No name contains `@` or `/`."""
    return view_id.partition("/")[0].partition("@")[0]


def _parsed(mark: str) -> tuple[str, tuple[int, int]]:
    if mark == ANY_VIEW:
        return mark, (0, 0)
    view_id, epoch, incarnation = mark.split(" ")
    return view_id, (int(epoch), int(incarnation))


def step_view(
    view: View,
    trigger: ViewInput,
    *,
    now: Micros,
    epoch: int = 0,
    ready_at: Micros = 0,
    events_from: Micros = 0,
) -> View:
    """Return the view after `trigger`.

    Enabling starts a new epoch, `epoch` unless the view has had a higher one, at
    incarnation 1 with an empty digest. The caller renders the document and raises the
    incarnation if it is not empty. `ready_at` and `events_from` are the ends of the
    delays; values up to `now` mean no delay.
    """
    state = look_up(VIEW_STEPS, view.state, trigger)
    if trigger is ViewInput.SILENT:
        return replace(view, state=state, ready_at=0, events_from=0, due_at=0)
    if view.state is ViewState.ENABLED:
        return replace(view, last_seen=max(view.last_seen, now))
    return replace(
        view,
        state=state,
        epoch=max(view.epoch + 1, epoch),
        incarnation=FIRST_INCARNATION,
        digest="",
        last_seen=now,
        **_delays(ready_at, events_from, now=now),
    )


def end_delays(view: View, *, until: Micros) -> View:
    """Return the view without the delays that end at or before `until`."""
    return replace(view, **_delays(view.ready_at, view.events_from, now=until))


def _delays(ready_at: Micros, events_from: Micros, *, now: Micros) -> dict[str, Micros]:
    left = {
        "ready_at": ready_at if ready_at > now else 0,
        "events_from": events_from if events_from > now else 0,
    }
    return {**left, "due_at": min((end for end in left.values() if end), default=0)}
