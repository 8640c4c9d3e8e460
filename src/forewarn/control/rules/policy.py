"""The settings that decisions depend on, as one frozen value.

Notices, impacts and recoveries are already divided by `speed`. Retention, disabling and
driver timeouts are never divided.
"""

from dataclasses import dataclass

from forewarn.control.rules.sightings import SightingAct
from forewarn.fleet.reserve import NO_RESERVE
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.events import Event, EventType
from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import MOVING_ACTIONS, Operation
from forewarn.settings.amounts import Amount
from forewarn.store.notices import NoticeKind
from forewarn.store.records import EventChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A webhook receiver, and the changes that it gets.

    Delivery and addresses are not known here.
    """

    name: str
    tenant: str = ""
    """Tenant whose events the receiver gets; empty: the events of all tenants."""
    types: frozenset[EventType] = frozenset(EventType)
    changes: frozenset[EventChange] = frozenset(EventChange)
    notices: frozenset[NoticeKind] = frozenset()
    """Notices that it gets. A tenant's receiver gets none."""

    def wants(self, event: Event, change: EventChange) -> bool:
        """Return whether the receiver gets a message about this change of the event."""
        return (
            (not self.tenant or event.tenant == self.tenant)
            and event.event_type in self.types
            and change in self.changes
        )

    def wants_notice(self, kind: NoticeKind) -> bool:
        """Return whether the receiver gets this kind of notice."""
        return not self.tenant and kind in self.notices


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Notices, recovery time, and limits of waits."""

    speed: float = 1.0
    """Divisor of notices and recoveries, including the notices of scopes."""
    freeze_notice: Micros = 15 * MINUTE
    reboot_notice: Micros = 15 * MINUTE
    redeploy_notice: Micros = 10 * MINUTE
    preempt_notice: Micros = 30 * SECOND
    terminate_notice: Micros | None = None
    """Replaces the notice of each scope with terminate notification; None: does not."""
    failure_notice: Micros = 7 * DAY
    """Notice of a predicted failure (clause 5.4)."""
    failure_event: EventType = EventType.REBOOT
    """Event type of a failure: Reboot, or Redeploy as in newer documentation (5.5)."""
    recovery: Micros = 10 * MINUTE
    """Time from the end of the impact until the event is removed (clause 4.6)."""
    hold_max: Micros = 24 * HOUR
    """Maximum time after NotBefore for which the guard holds a routine operation. After
    it, the operation is cancelled and announced again."""

    verify_settle: Micros = 2 * MINUTE
    """Time over which the step `verify` of a visit must succeed several times."""


LOST_HOSTS_MAX = Amount(value=3)
"""Lost hosts that are tolerated: single failures are usual, and a rack that fails is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeLimits:
    """How many hosts and VMs may be lost within a span before the brake comes on.

    The durations are not divided by `speed`: real failures do not come faster.
    """

    hosts: Amount = LOST_HOSTS_MAX
    """Maximum lost hosts, also as a percentage of the fleet; 0: no limit."""
    vms: int = 0
    """Maximum lost VMs, including those of lost hosts; 0: no limit."""
    per_rack: int = 0
    """Maximum lost hosts of one rack; 0: no limit."""
    within: Micros = 10 * MINUTE
    """The span."""
    calm: Micros = 0
    """Time without further losses after which a brake that came on by itself is taken off;
    0: only an operator takes it off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Timing):
    """Notices, recovery time, and all limits."""

    notice_floor: Micros = 0
    """Minimum of a notice after the division by `speed`; 0: no minimum."""
    hosts_at_once: int = 1
    """Maximum hosts of one request that are announced or running at once."""
    reserve: Amount = NO_RESERVE
    """Free capacity of each pool that routine work leaves: hosts, or a percentage."""
    second_person: bool = False
    """Whether another operator than the starter of a campaign must approve its stages and
    override its checks."""
    campaigns_in_flight: int = 0
    """Maximum hosts in flight for all campaigns; 0: no limit."""
    verify_times: int = 3
    """Number of successes in a row of the step `verify` of a visit."""
    verify_within: Micros = 30 * MINUTE
    """Maximum time until `verify` has succeeded; then the visit fails. `speed` does not
    divide it, because hosts restart in real time."""
    answers_within: Micros = 30 * MINUTE
    """Maximum time until a host answers after its work; then its visit fails. `speed`
    does not divide it: large servers take a quarter of an hour to boot."""
    first_answer_delay: Micros = 0
    first_events_delay: Micros = 0
    disable_after: Micros = 24 * HOUR
    driver_timeout: Micros = 30 * MINUTE
    """Maximum time of a driver call before it is probed and stopped."""
    driver_attempts: int = 3
    """Maximum attempts of a call before the operation fails."""
    retry_delay: Micros = 10 * SECOND
    driver_chooses: bool = False
    """Whether the driver chooses the hosts that VMs move to. forewarn then reserves no
    places, and checks no capacity, reserve or spread."""
    sighting_acts: frozenset[SightingAct] = frozenset(SightingAct)
    """Reactions to unrequested changes that the driver saw."""
    sighting_confirm: Micros = 30 * SECOND
    """Time within which no other sighting of the VM may contradict a sighting."""
    sightings_max: int = 20
    """Maximum VMs that stop within `sighting_confirm` and are failed. If more stop, the
    network or the driver is faulty."""
    brake: BrakeLimits = BrakeLimits()
    retention: Micros = 30 * DAY
    """Time for which ended operations, their events and their history are kept."""
    ended_max: int = 0
    """Maximum ended operations that are kept, with all data as old as they; 0: no limit."""
    subscribers: tuple[Subscriber, ...] = ()
    """Webhook receivers; empty: no messages are stored."""

    def notice_for(self, event_type: EventType) -> Micros:
        """Return the minimum notice of an event type (clause 5.1), except Terminate."""
        return {
            EventType.FREEZE: self.freeze_notice,
            EventType.REBOOT: self.reboot_notice,
            EventType.REDEPLOY: self.redeploy_notice,
            EventType.PREEMPT: self.preempt_notice,
        }[event_type]

    def terminate_notice_of(self, wanted: Micros) -> Micros:
        """Return the notice of a scope whose fleet file sets `wanted` (5.7)."""
        if self.terminate_notice is not None:
            return self.terminate_notice
        return self.notice_of(wanted)

    def notice_of(self, wanted: Micros) -> Micros:
        """Return a notice from a fleet file or a request, divided by `speed`."""
        return divided(wanted, self.speed, floor=self.notice_floor)

    def sped_up(self, duration: Micros) -> Micros:
        """Return a duration other than a notice, divided by `speed`."""
        return divided(duration, self.speed)

    def with_chooser(self, operation: Operation) -> Operation:
        """Return an operation with the present setting of who chooses destinations."""
        chooses = self.driver_chooses and operation.action in MOVING_ACTIONS
        if operation.driver_chooses is chooses:
            return operation
        return changed(operation, driver_chooses=chooses)


def divided(duration: Micros, speed: float, *, floor: Micros = 0) -> Micros:
    """Return a duration divided by `speed`, but not below `floor`.

    A duration that is shorter than the floor is neither divided nor lengthened.
    """
    return max(round(duration / speed), min(duration, floor))
