"""Notes as receivers get them."""

from forewarn.agent.core.model import Note, NoteKind, StepState
from forewarn.agent.sinks.port import Notification
from forewarn.instants import parse_instant
from forewarn.protocol.notices import Notice

AT = parse_instant("2026-11-21T22:00:00.25Z")

REBOOT = Notice(
    event_id="4F2C8A10-3B5D-4E6F-8A9B-0C1D2E3F4A5B",
    event_type="Reboot",
    status="Scheduled",
    source="Platform",
    resources=("web_0", "web_1"),
    resource_type="VirtualMachine",
    not_before=parse_instant("2026-11-21T22:15:00Z"),
    duration_seconds=9,
    description="Host “h1” is to be\r\nmaintained",
)


def told_of(
    kind: NoteKind = NoteKind.SEEN,
    detail: str = "",
    *,
    vm: str = "web_0",
    handler: str = "",
    ended: StepState | None = None,
    notice: Notice | None = REBOOT,
) -> Notification:
    """Return a note about a reboot, or about no event."""
    note = Note(
        at=AT,
        kind=kind,
        event_id=notice.event_id if notice else "",
        handler=handler,
        detail=detail,
        ended=ended,
        notice=notice,
    )
    return Notification(vm=vm, note=note)
