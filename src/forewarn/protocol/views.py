"""A view: who sees the same list of events.

A view is a scope, split by zone where a scale set is zonal (enabling is per
zone, clause 7.2), and by VM for GPU scopes with one fault domain (clause 6.2).
It owns the incarnation of its document. Its *enabling key* groups the views
that one request enables together.
"""

from dataclasses import dataclass, replace

from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.lifecycle import VIEW_STEPS, ViewInput, ViewState, look_up

FIRST_INCARNATION = 1
"""The incarnation of the empty document with which a view begins (2.10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """When the first answer after the enabling may be given (7.1)."""
    events_from: Micros = 0
    """When events begin to be shown after the enabling (7.1)."""
    due_at: Micros = 0
    """When the ticker must render it anew because of that; 0: never."""
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


def sees(view: View, event: Event) -> bool:
    """Tell whether `event` belongs to the view's list (6.1, 6.2)."""
    return event.scope == view.scope and (not view.vm or event.names(view.vm))


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
    """
    state = look_up(VIEW_STEPS, view.state, given)
    if given is ViewInput.SILENT:
        return replace(view, state=state, due_at=0)
    if view.state is ViewState.ENABLED:
        return replace(view, last_seen=max(view.last_seen, now))
    return replace(
        view,
        state=state,
        epoch=view.epoch + 1,
        incarnation=FIRST_INCARNATION,
        digest="",
        ready_at=ready_at,
        events_from=events_from,
        due_at=events_from if events_from > now else 0,
        last_seen=now,
    )
