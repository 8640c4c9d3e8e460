"""The message of a failed expectation, with the state of the world.

Its first sentence names the VM, the time and the expectation, because developers read
it first. Below that sentence are the current events and the last requests.
"""

from collections.abc import Sequence
from datetime import timedelta

from forewarn.instants import MINUTE, Micros, describe_duration
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.sim.journal import JournalEntry
from forewarn.testing.kit.core import AnyCore
from forewarn.testing.kit.durations import length_text

REQUESTS_SHOWN = 8
"""Maximum number of requests in a failure: older ones rarely matter."""

EVENTS_SHOWN = 20
"""Maximum number of events in a failure: more than a test with a few VMs has."""

ID_SHOWN = 8
"""Number of characters of an EventId in a failure: its first group identifies it."""


class NotSeenError(ForewarnError, AssertionError):
    """The program under test did not do what a test expects.

    It is an AssertionError, so test runners count it as a failure.
    """


def failure(
    core: AnyCore, sentence: str, *, vms: Sequence[str], reasons: Sequence[str] = ()
) -> NotSeenError:
    """Return the error for an unmet expectation; call it on the loop."""
    lines = [sentence]
    lines += [f"  because {reason}" for reason in reasons]
    return NotSeenError("\n".join([*lines, *story(core, vms=vms)]))


def story(core: AnyCore, *, vms: Sequence[str] = ()) -> list[str]:
    """Return the current events and the last requests of VMs; call it on the loop."""
    lines = ["events:"]
    events = core.live_events()
    lines += [f"  {event_line(event)}" for event in events[:EVENTS_SHOWN]]
    if len(events) > EVENTS_SHOWN:
        lines.append(f"  and {len(events) - EVENTS_SHOWN} more")
    if not events:
        lines.append("  none")
    whose = f" of {', '.join(vms)}" if vms else ""
    requests = core.requests(vms)
    if not requests:
        return [*lines, f"requests{whose}: none"]
    more = len(requests) - REQUESTS_SHOWN
    before = f" ({more} before)" if more > 0 else ""
    lines.append(f"requests{whose}{before}:")
    now = core.instant
    lines += [
        f"  {request_line(request, now=now)}" for request in requests[-REQUESTS_SHOWN:]
    ]
    return lines


def event_line(event: Event) -> str:
    """Return an event as one line: `Preempt 1A2B3C4D of web_0 (Scheduled)`."""
    names = ", ".join(resource.vm for resource in event.resources)
    state = event.status.value
    if event.status is EventStatus.REMOVED:
        state = "Cancelled" if event.outcome is Outcome.CANCELLED else "Removed"
    if event.approved_by:
        state += f", approved by {event.approved_by}"
    return f"{event.event_type.value} {event.event_id[:ID_SHOWN]} of {names} ({state})"


def approval(by: str, after: timedelta) -> str:
    """Return who approved, and when: `web_0 approved 3 s after the announcement`."""
    length = length_text(after // timedelta(microseconds=1))
    return f"{by} approved {length} after the announcement"


def request_line(entry: JournalEntry, *, now: Micros) -> str:
    """Return a request as one line, with its age."""
    ago = now - entry.at
    when = length_text(ago) if ago < MINUTE else describe_duration(ago)
    request = f"{entry.method} {entry.target}" if entry.method else "a connection"
    line = f"{when} ago {entry.vm or 'an unknown caller'}: {request}"
    line += f" -> {entry.status or 'no answer'}"
    if entry.fault:
        line += f" ({entry.fault})"
    if entry.approved:
        line += f", approves {', '.join(event_id[:ID_SHOWN] for event_id in entry.approved)}"
    return line
