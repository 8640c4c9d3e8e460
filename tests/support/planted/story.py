"""The story of a small fleet: five steps that repeat, by the protocol's life cycle.

Values and decisions only: every method takes the time, and nothing waits. What is due
is applied in the order of its time at the next request, so the documents do not depend
on how often they are asked for. A defect overrides one method.
"""

import hashlib
import heapq
import itertools
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from forewarn.instants import DAY, MINUTE, SECOND, Micros
from tests.support.planted.fleet import FLEET, LEADING, SCOPES, Plan, all_at_once, steps

SCHEDULED = "Scheduled"
STARTED = "Started"

LEAST_NOTICE = {
    "Freeze": 15 * MINUTE,
    "Reboot": 15 * MINUTE,
    "Redeploy": 10 * MINUTE,
    "Preempt": 30 * SECOND,
    "Terminate": 5 * MINUTE,
}
"""Notice by type of event (clause 5.1)."""

DISABLED_AFTER = DAY
"""Silence after which a scope is disabled (clause 7.3)."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The durations of the phases of the story."""

    notice: Micros | None = SECOND
    """Time before NotBefore, which is rounded up to a second; None: that of clause 5.1."""
    started: Micros = SECOND // 2
    gap: Micros = SECOND // 5
    """Time between two steps, without an event in the document."""
    announced: Micros = SECOND
    """Before an event that is cancelled is taken back."""
    at_once: bool = False
    """One event of each type is there from the beginning, and waits for approval."""


QUICK = Pace()
"""A round takes about ten seconds, half of it where each event is approved."""

STEADY = Pace(
    notice=3 * SECOND, started=2 * SECOND, gap=2 * SECOND, announced=2 * SECOND
)
"""Each document lasts for two seconds: for who polls once a second."""

APPROVED = replace(QUICK, notice=None)
"""Notices are whole, so the story only continues when its events are approved."""

AT_ONCE = replace(APPROVED, at_once=True)
"""Everything is in the first document, with whole notices."""


@dataclass(slots=True)
class Event:
    """The event that one scope sees of one operation."""

    event_id: str
    plan: Plan
    not_before: Micros
    status: str = SCHEDULED
    is_due: bool = False
    approved_by: set[str] = field(default_factory=set[str])

    @property
    def has_started(self) -> bool:
        """Whether the impact may have begun."""
        return self.status == STARTED


@dataclass(slots=True)
class View:
    """The state of the document of one VM."""

    asked: Micros
    incarnation: int = 1
    content: tuple[object, ...] = ()
    is_answered: bool = False


class Story:
    """The events of the fleet, and what each VM sees of them."""

    def __init__(self, pace: Pace = QUICK) -> None:
        self.pace = pace
        self.events: list[Event] = []
        self.gone: list[Event] = []
        self.views: dict[str, View] = {}
        self._timers: list[tuple[Micros, int, Callable[[Micros], None]]] = []
        self._order = itertools.count()
        self._step = itertools.count()
        self._round = 0
        self._moved: Micros | None = None

    # -- what is asked ---------------------------------------------------------------

    def enable(self, vm: str, now: Micros) -> None:
        """Take a valid GET: it begins the scope's documents, or keeps them."""
        self.advance(now)
        if self._moved is None:
            self._moved = now
            self.after(now, self.pace.gap if not self.pace.at_once else 0, self._play)
        for member in SCOPES[FLEET[vm].scope]:
            view = self.views.get(member)
            if view is None or self.is_over(view, now):
                self.views[member] = View(asked=now)
            else:
                view.asked = now
        self.advance(now)
        self.commit()

    def keep(self, vm: str, now: Micros) -> None:
        """Take a valid POST: an enabled scope stays so."""
        for member in SCOPES[FLEET[vm].scope]:
            if member in self.views:
                self.views[member].asked = now

    def visible(self, vm: str) -> list[Event]:
        """Return the events of a VM's document."""
        return [event for event in self.events if self.sees(vm, event)]

    def known(self, vm: str) -> dict[str, Event]:
        """Return by id what is or was in a VM's document."""
        if vm not in self.views:
            return {}
        return {
            event.event_id: event
            for event in (*self.gone, *self.events)
            if self.sees(vm, event)
        }

    def approve(self, vm: str, events: Iterable[Event], now: Micros) -> None:
        """Take approvals of events that the VM sees."""
        for event in events:
            event.approved_by.add(vm)
        self._settle(now)
        self.commit()

    def advance(self, now: Micros) -> None:
        """Apply everything that is due, each in its own transaction."""
        if self._moved is not None and now - self._moved >= DISABLED_AFTER:
            # No VM polled for a day, so the events of that time are not played.
            self.gone += self.events
            self.events.clear()
            self._timers.clear()
            self.after(now, self.pace.gap, self._play)
            self.commit()
        if self._moved is not None:
            self._moved = max(now, self._moved)
        while self._timers and self._timers[0][0] <= now:
            at, _, action = heapq.heappop(self._timers)
            action(at)
            self._settle(at)
            self.commit()

    # -- what a defect may change ----------------------------------------------------

    def is_over(self, view: View, now: Micros) -> bool:
        """Whether a scope has been silent for so long that it is disabled."""
        return now - view.asked >= DISABLED_AFTER

    def plans(self, number: int) -> tuple[Plan, ...]:
        """Return what the step with a number announces."""
        if self.pace.at_once:
            return all_at_once()
        played = steps(0)
        return steps(number // len(played))[number % len(played)]

    def event_id(self, plan: Plan, number: int) -> str:
        """Return an id that no other event has, the same in each run."""
        digest = hashlib.sha256(f"{number} {plan.key}".encode()).digest()
        return str(uuid.UUID(bytes=digest[:16], version=4)).upper()

    def notice(self, plan: Plan) -> Micros:
        """Return how long before its NotBefore an event is announced."""
        if plan.is_withdrawn or self.pace.notice is None:
            return LEAST_NOTICE[plan.event_type]
        return self.pace.notice

    def sees(self, vm: str, event: Event) -> bool:
        """Whether an event is in a VM's document (6.1, 6.2)."""
        if FLEET[vm].scope != event.plan.scope:
            return False
        return not FLEET[vm].sees_own_only or vm in event.plan.resources

    def content(self, vm: str) -> tuple[object, ...]:
        """Return what the incarnation stands for."""
        return tuple((event.event_id, event.status) for event in self.visible(vm))

    def counted(self, view: View, content: tuple[object, ...]) -> int:
        """Return the incarnation of a view after a transaction."""
        return view.incarnation + (content != view.content)

    def is_approved(self, event: Event) -> bool:
        """Whether all approvals are there, for a host or for one deletion."""
        return all(
            other.approved_by
            for other in self.events
            if other.plan.group == event.plan.group
        )

    def is_held(self, event: Event) -> bool:
        """Whether another fault domain of the scope is down (6.3)."""
        if not event.plan.is_routine:
            return False
        domains = event.plan.fault_domains
        return any(
            other.has_started
            and other.plan.scope == event.plan.scope
            and other.plan.fault_domains - domains
            for other in self.events
        )

    def start(self, event: Event, now: Micros) -> None:
        """Begin the impact."""
        event.status = STARTED
        lasts = self.pace.started if event.plan.lasts is None else event.plan.lasts
        self.after(now, lasts, lambda at: self.remove(event, at))

    def cancel(self, event: Event, now: Micros) -> None:
        """Take an event back that has not started."""
        if event.status == SCHEDULED and event in self.events:
            self.remove(event, now)

    def remove(self, event: Event, now: Micros) -> None:
        """End an event; the next step follows the last one of the leading scope."""
        self.events.remove(event)
        self.gone.append(event)
        left = {each.plan.scope for each in self.events}
        if event.plan.scope == LEADING and LEADING not in left:
            self.after(now, self.pace.gap, self._play)

    def commit(self) -> None:
        """Give each view that has changed its next incarnation."""
        for vm, view in self.views.items():
            content = self.content(vm)
            view.incarnation = self.counted(view, content)
            view.content = content

    # -- its continuation --------------------------------------------------------------

    def after(
        self, now: Micros, wait: Micros, action: Callable[[Micros], None]
    ) -> None:
        """Have something done a while later."""
        heapq.heappush(self._timers, (now + wait, next(self._order), action))

    def announce(self, plan: Plan, number: int, now: Micros) -> None:
        """Put an event into the documents."""
        at = now + self.notice(plan)
        event = Event(
            event_id=self.event_id(plan, number),
            plan=plan,
            not_before=-(-at // SECOND) * SECOND,
        )
        self.events.append(event)
        if plan.is_failure:
            self.start(event, now)
            return
        self.after(event.not_before, 0, lambda at: self._fall_due(event))
        if plan.is_withdrawn:
            self.after(now, self.pace.announced, lambda at: self.cancel(event, at))

    def _play(self, now: Micros) -> None:
        number = next(self._step)
        going_on = {event.plan.key for event in self.events}
        for plan in self.plans(number):
            # If there is no approval for another scope, its event may still exist.
            if plan.key not in going_on:
                self.announce(plan, number, now)

    def _fall_due(self, event: Event) -> None:
        event.is_due = True

    def _settle(self, now: Micros) -> None:
        for event in list(self.events):
            if event.status != SCHEDULED or self.is_held(event):
                continue
            if event.is_due or self.is_approved(event):
                self.start(event, now)
