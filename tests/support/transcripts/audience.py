"""The polling VMs of a story, which report what changed.

Each polling VM also checks clause 2.10: equal incarnations mean
equal content, and a document never gets older, whatever crashes in between.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from forewarn.instants import SECOND
from forewarn.protocol.events import DURATION_UNKNOWN
from forewarn.protocol.views import View
from tests.support.transcripts import moments
from tests.support.transcripts.names import Names
from tests.support.worlds import Answer, World


@dataclass(slots=True)
class Known:
    """The last known state of one view."""

    epoch: int = 0
    incarnation: int = 0
    bodies: dict[int, bytes] = field(default_factory=dict[int, bytes])
    told: int = 0
    """The last reported incarnation."""


class Audience:
    """The VMs of a story that listen."""

    def __init__(self, names: Names, tell: Callable[[str], None]) -> None:
        """Start without VMs; pass each line to `tell`."""
        self._names = names
        self._tell = tell
        self._listeners: dict[str, None] = {}
        self._views: dict[str, Known] = {}

    def join(self, vm: str) -> None:
        """Have a VM listen from now on."""
        self._listeners[vm] = None

    def leave(self, vm: str) -> None:
        """Have a VM listen no longer."""
        self._listeners.pop(vm, None)

    def known(self, view: str) -> Known:
        """Return the last known state of a view that was served."""
        return self._views[view]

    def forget_what_was_told(self) -> None:
        """Tell every document again at the next look, as after a restart."""
        for known in self._views.values():
            known.told = 0

    def ask(self, world: World) -> None:
        """Have everybody ask as a client does, which keeps the scopes enabled."""
        for vm in list(self._listeners):
            self._take(world, vm, world.vm(vm).get())

    def look(self, world: World) -> None:
        """Have everybody ask who gets an answer at once."""
        for vm in list(self._listeners):
            answer = world.vm(vm).glance()
            if answer is not None:
                self._take(world, vm, answer)

    def _take(self, world: World, vm: str, answer: Answer) -> None:
        if answer.status != HTTPStatus.OK:
            self.leave(vm)
            self._tell(f"{vm} is answered {answer.status}")
            return
        view = world.read(lambda reader: reader.get(View, world.stored_vm(vm).view))
        assert view is not None, vm
        known = self._views.setdefault(view.view_id, Known())
        if known.epoch != view.epoch:
            known = self._views[view.view_id] = Known(epoch=view.epoch)
        number = answer.incarnation
        assert number >= known.incarnation, f"{view.view_id} fell to {number}"
        body = known.bodies.setdefault(number, answer.body)
        assert body == answer.body, f"{view.view_id} has two documents {number}"
        known.incarnation = number
        if known.told != number:
            known.told = number
            self._tell(self._told(view.view_id, answer))

    def _told(self, view: str, answer: Answer) -> str:
        start = f"{view} ({answer.incarnation}) "
        lines = [
            f"{self._names.meet(event['EventId'])} {summary(event)}"
            for event in answer.events
        ]
        return start + f"\n{' ' * len(start)}".join(lines or ["empty"])


def summary(event: dict[str, Any]) -> str:
    """Return an event of a document in few words."""
    parts = [event["EventStatus"], event["EventType"]]
    parts.append(f"[{', '.join(event['Resources'])}] by {event['EventSource']}")
    text = " ".join(parts)
    seconds = event["DurationInSeconds"]
    if seconds != DURATION_UNKNOWN:
        text += f", {seconds} s"
    if event["NotBefore"]:
        instant = int(parsedate_to_datetime(event["NotBefore"]).timestamp()) * SECOND
        text += f", from {moments.told(instant)}"
    return text
