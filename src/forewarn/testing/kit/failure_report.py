"""What a failed expectation says: a sentence, and what had happened until then.

The sentence is what a developer reads first, so it names the VM, the time and what
was expected. Below it are the events that stand, and the last requests.
"""

from collections.abc import Sequence
from datetime import timedelta

from forewarn.instants import MINUTE, Micros, describe_duration
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.sim.journal import Seen
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.durations import told

REQUESTS_TOLD = 8
"""Requests below a failure: what came before them rarely matters."""

EVENTS_TOLD = 20
"""Events below a failure: more than a test of a few VMs ever has."""

ID_TOLD = 8
"""Characters of an EventId: the first group, which people tell them apart by."""


class NotSeenError(ForewarnError, AssertionError):
    """What a test expects of the program under test has not been seen.

    It is an AssertionError, so test runners count it as a failure.
    """


def failure(
    core: AnyCore, sentence: str, *, vms: Sequence[str], reasons: Sequence[str] = ()
) -> NotSeenError:
    """Return the error for an expectation that was not met, on the loop."""
    lines = [sentence]
    lines += [f"  because {reason}" for reason in reasons]
    return NotSeenError("\n".join([*lines, *story(core, vms=vms)]))


def story(core: AnyCore, *, vms: Sequence[str] = ()) -> list[str]:
    """Return the events that stand and the last requests of VMs, on the loop."""
    lines = ["events:"]
    events = core.live_events()
    lines += [f"  {event_line(event)}" for event in events[:EVENTS_TOLD]]
    if len(events) > EVENTS_TOLD:
        lines.append(f"  and {len(events) - EVENTS_TOLD} more")
    if not events:
        lines.append("  none")
    whose = f" of {', '.join(vms)}" if vms else ""
    requests = core.requests(vms)
    if not requests:
        return [*lines, f"requests{whose}: none"]
    more = len(requests) - REQUESTS_TOLD
    before = f" ({more} before)" if more > 0 else ""
    lines.append(f"requests{whose}{before}:")
    now = core.instant
    lines += [f"  {request_line(each, now=now)}" for each in requests[-REQUESTS_TOLD:]]
    return lines


def event_line(event: Event) -> str:
    """Return an event in a line: `Preempt 1A2B3C4D of web_0 (Scheduled)`."""
    names = ", ".join(resource.vm for resource in event.resources)
    state = event.status.value
    if event.status is EventStatus.REMOVED:
        state = "Cancelled" if event.outcome is Outcome.CANCELLED else "Removed"
    if event.approved_by:
        state += f", approved by {event.approved_by}"
    return f"{event.event_type.value} {event.event_id[:ID_TOLD]} of {names} ({state})"


def approval(by: str, after: timedelta) -> str:
    """Return who approved, and when: `web_0 approved 3 s after the event`."""
    length = told(after // timedelta(microseconds=1))
    return f"{by} approved {length} after the event"


def request_line(seen: Seen, *, now: Micros) -> str:
    """Return a request in a line, with how long ago it was."""
    ago = now - seen.at
    when = told(ago) if ago < MINUTE else describe_duration(ago)
    what = f"{seen.method} {seen.target}" if seen.method else "a connection"
    line = f"{when} ago {seen.vm or 'a stranger'}: {what}"
    line += f" -> {seen.status or 'no answer'}"
    if seen.fault:
        line += f" ({seen.fault})"
    if seen.approved:
        line += f", approves {', '.join(each[:ID_TOLD] for each in seen.approved)}"
    return line
