"""The number of further reasons of one kind, in words. Pure."""

from collections.abc import Mapping

from forewarn.protocol.blockers import More

NOUNS: Mapping[str, tuple[str, str]] = {
    "approval": ("approval is missing", "approvals are missing"),
    "not before": ("event waits for NotBefore", "events wait for NotBefore"),
    "notice": ("notice has not ended", "notices have not ended"),
    "batch": (
        "approval of this deletion is missing",
        "approvals of this deletion are missing",
    ),
    "fault domain": ("fault domain is down", "fault domains are down"),
    "migration": (
        "live migration has not ended",
        "live migrations have not ended",
    ),
    "shared host": (
        "host has several fault domains of a scope",
        "hosts have several fault domains of a scope",
    ),
    "vm busy": ("VM is busy", "VMs are busy"),
    "vm down": ("VM is down", "VMs are down"),
    "brake": ("operation is held by the brake", "operations are held by the brake"),
    "window closed": (
        "maintenance window is closed",
        "maintenance windows are closed",
    ),
    "no common window": (
        "host has no common window",
        "hosts have no common window",
    ),
    "deferred": ("tenant has deferred it", "tenants have deferred it"),
    "no capacity": (
        "VM has no host with capacity",
        "VMs have no host with capacity",
    ),
    "driver unable": (
        "action is not possible for the driver",
        "actions are not possible for the driver",
    ),
    "relay silent": ("relay is silent", "relays are silent"),
    "driver retry": (
        "call of the driver is repeated later",
        "calls of the driver are repeated later",
    ),
    "driver asked": (
        "call of the driver has no answer yet",
        "calls of the driver have no answer yet",
    ),
    "driver unknown": (
        "call of the driver has an unknown outcome",
        "calls of the driver have an unknown outcome",
    ),
    "still down": (
        "host or VM is down until it is restored",
        "hosts or VMs are down until they are restored",
    ),
    "turn": ("host waits for its turn", "hosts wait for their turn"),
    "scope in use": ("fault domain is in use", "fault domains are in use"),
    "scope reserved": ("operation comes first", "operations come first"),
    "host in use": ("host is in use", "hosts are in use"),
    "campaign stopped": (
        "campaign is paused or halted",
        "campaigns are paused or halted",
    ),
    "stage": ("stage has not begun", "stages have not begun"),
    "campaign window": (
        "campaign is outside its windows",
        "campaigns are outside their windows",
    ),
    "blackout": ("blackout forbids it", "blackouts forbid it"),
    "budget": ("budget is used up", "budgets are used up"),
    "reserve": ("reserve is kept free", "reserves are kept free"),
    "check": ("check is unknown", "checks are unknown"),
    "drain failed": (
        "host could not be emptied",
        "hosts could not be emptied",
    ),
}
"""Words for the further reasons of each kind: for one, and for several."""


def more(blocker: More) -> str:
    """Return the number of further reasons, such as `4 more VMs are busy`.

    Stored entries of other versions can have kinds that this one does not know.
    """
    one, several = NOUNS.get(
        blocker.of,
        (f"reason ({blocker.of})", f"reasons ({blocker.of})"),
    )
    return f"{blocker.count:,} more {one if blocker.count == 1 else several}"
