"""The effect of maintenance on each VM: its event, text and duration (table 5.9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forewarn.campaigns.prepared import Prepared
from forewarn.protocol.events import DURATION_UNKNOWN, EventSource, EventType
from forewarn.protocol.host_steps import HostStep
from forewarn.protocol.operations import Action, is_in_halves


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The effect of a verb on each VM, as in table 5.9."""

    action: Action
    event_type: EventType
    source: EventSource = EventSource.USER
    description: str = ""
    duration_seconds: int = DURATION_UNKNOWN
    routine: bool = False
    """Whether the guard applies, and one request is one rollout (6.3)."""
    is_emergency: bool = False
    """Whether it is an emergency repair, which keeps to no maintenance window."""


_FREEZE = Change(
    action=Action.FREEZE,
    event_type=EventType.FREEZE,
    source=EventSource.PLATFORM,
    description="Host server is undergoing maintenance.",
    duration_seconds=9,
    routine=True,
)

MAINTENANCE: Mapping[Action, Change] = {
    Action.FREEZE: _FREEZE,
    Action.LIVE_MIGRATE: replace(
        _FREEZE,
        action=Action.LIVE_MIGRATE,
        description="Virtual machine is being paused because of a memory-preserving "
        "Live Migration operation.",
        duration_seconds=5,
    ),
    Action.REBOOT: replace(
        _FREEZE,
        action=Action.REBOOT,
        event_type=EventType.REBOOT,
        duration_seconds=DURATION_UNKNOWN,
    ),
    Action.REDEPLOY: replace(
        _FREEZE,
        action=Action.REDEPLOY,
        event_type=EventType.REDEPLOY,
        duration_seconds=DURATION_UNKNOWN,
    ),
    # Host steps only: the VMs feel nothing, and there is no event.
    Action.NONE: replace(_FREEZE, action=Action.NONE, duration_seconds=0),
}
"""Maintenance of a host, by impact."""


REPAIRING = "Host server is undergoing an emergency repair."
"""Description of the events of emergency work."""

LEAVING = Change(
    action=Action.REDEPLOY,
    event_type=EventType.REDEPLOY,
    source=EventSource.PLATFORM,
    description=REPAIRING,
    routine=True,
)
"""The effect of a predicted failure of a host, whose VMs leave it."""


def in_emergency(change: Change) -> Change:
    """Return the change as emergency work, which windows and deferrals do not stop."""
    return replace(change, description=REPAIRING, is_emergency=True)


def maintenance_by_campaign(prepared: Prepared, steps: tuple[HostStep, ...]) -> Change:
    """Return the change that a campaign makes to each host."""
    change = maintenance_of(Action(prepared.impact.value), steps)
    assert change is not None, "a campaign file allows impacts of maintenance only"
    if prepared.is_emergency:
        change = in_emergency(change)
    if not prepared.description:
        return change
    # Tenants still read that a repair is an emergency.
    usual = (change.description,) if prepared.is_emergency else ()
    return replace(change, description=" ".join((*usual, prepared.description)))


def maintenance_of(action: Action, steps: Sequence[HostStep]) -> Change | None:
    """Return the effect of the maintenance of a host; None: no impact of maintenance.

    VMs that wait for a step `work` are paused for an unknown time.
    """
    usual = MAINTENANCE.get(action)
    if usual is None or not is_in_halves(action, steps):
        return usual
    return replace(usual, duration_seconds=DURATION_UNKNOWN)
