"""The settings that decisions depend on, as one frozen value.

Durations here have been divided by `speed` already where they are notices,
impacts or recoveries; retention, disabling and driver time-outs never are.
"""

from dataclasses import dataclass

from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.events import Event, EventType
from forewarn.store.outbox import EventChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A receiver, and what it may and wants to hear of."""

    name: str
    tenant: str = ""
    """Whose events it hears of; empty: everybody's."""
    types: frozenset[EventType] = frozenset(EventType)
    changes: frozenset[EventChange] = frozenset(EventChange)

    def wants(self, event: Event, change: EventChange) -> bool:
        """Tell whether a change of the event is told to it."""
        return (
            (not self.tenant or event.tenant == self.tenant)
            and event.event_type in self.types
            and change in self.changes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How much notice, how long a recovery: all that `speed` divides."""

    speed: float = 1.0
    """What notices and recoveries were divided by; scopes' own notices too."""
    freeze_notice: Micros = 15 * MINUTE
    reboot_notice: Micros = 15 * MINUTE
    redeploy_notice: Micros = 10 * MINUTE
    preempt_notice: Micros = 30 * SECOND
    terminate_notice: Micros | None = None
    """Instead of each scope's own, where terminate notification is on."""
    failure_notice: Micros = 7 * DAY
    """How far ahead a predicted failure is dated (clause 5.4)."""
    failure_event: EventType = EventType.REBOOT
    """What a failure shows: Reboot, or Redeploy as a newer page says (5.5)."""
    recovery: Micros = 10 * MINUTE
    """From the end of the impact until the event is removed (clause 4.6)."""
    hold_max: Micros = 24 * HOUR
    """How long after NotBefore the guard may hold a routine operation before it
    is cancelled and announced again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Timing):
    """How much notice, how long a recovery, and every bound of a wait."""

    notice_floor: Micros = 0
    """The shortest notice that `speed` makes of a longer one; 0: it divides them all."""
    hosts_at_once: int = 1
    """How many hosts of one order are announced or worked on at once."""
    first_answer_delay: Micros = 0
    first_events_delay: Micros = 0
    disable_after: Micros = 24 * HOUR
    driver_timeout: Micros = 30 * MINUTE
    """How long a driver call may take before it is probed and stopped."""
    driver_attempts: int = 3
    """How often a failing call is made before the operation fails."""
    retry_delay: Micros = 10 * SECOND
    retention: Micros = 30 * DAY
    """How long ended operations, their events and their trail are kept."""
    ended_max: int = 0
    """How many ended operations are kept at most, each with what is as old; 0: all."""
    subscribers: tuple[Subscriber, ...] = ()
    """Who is told of changes of events; empty: nothing is written for anybody."""

    def notice_for(self, event_type: EventType) -> Micros:
        """Return the least notice of a type (clause 5.1); Terminate has its own."""
        return {
            EventType.FREEZE: self.freeze_notice,
            EventType.REBOOT: self.reboot_notice,
            EventType.REDEPLOY: self.redeploy_notice,
            EventType.PREEMPT: self.preempt_notice,
        }[event_type]

    def terminate_notice_of(self, wanted: Micros) -> Micros:
        """Return the notice of a scope whose fleet file wants `wanted` (5.7)."""
        if self.terminate_notice is not None:
            return self.terminate_notice
        return self.notice_of(wanted)

    def notice_of(self, wanted: Micros) -> Micros:
        """Return a notice from a fleet file or an order, divided by `speed`."""
        return divided(wanted, self.speed, floor=self.notice_floor)

    def sped_up(self, duration: Micros) -> Micros:
        """Return a duration that is no notice, divided by `speed`."""
        return divided(duration, self.speed)


def divided(duration: Micros, speed: float, *, floor: Micros = 0) -> Micros:
    """Return a duration divided by `speed`, but not below `floor`.

    A duration that is shorter than the floor is not divided, and not lengthened.
    """
    return max(round(duration / speed), min(duration, floor))
