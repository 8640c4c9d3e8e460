"""Demands on the clients of a replay, and their findings.

A recording does not say what a client should do. So by default the only demand is that a
client asks, because a replay without a client tests nothing. Approvals can be demanded in
addition.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from forewarn.protocol.events import Event, EventStatus
from forewarn.sim.recording import Recording
from forewarn.sim.replay import Replay
from forewarn.sim.scenario.model import (
    Expected,
    Finding,
    Outcome,
    Scenario,
    Verdict,
    bad,
    good,
    length,
    skipped,
    untried,
)
from forewarn.sim.scenario.run import Result

ID_TOLD = 8
"""Shown characters of an EventId: the first group, which is enough to identify it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts by which clients of a replay are judged, at one instant."""

    recording: Recording
    events: Sequence[Event]
    """The events so far, in order."""
    vms: Sequence[str]
    """The served VMs; the first one is the recorded one."""
    asked: Collection[str]
    """The VMs that were answered with their events."""
    is_over: bool
    """The recording has ended, so everything must be decided."""


def findings(facts: Facts, expected: Expected) -> list[Finding]:
    """Return the findings about clients, without undecided ones."""
    if expected is Expected.NONE:
        return []
    first = facts.vms[0]
    findings_: list[Finding] = []
    if first in facts.asked:
        findings_.append(good("").about(f"client {first} asks for its events"))
    elif facts.is_over:
        unasked = untried(f"no client asked for the events of {first}")
        findings_.append(unasked.about(f"client {first} asks for its events"))
    if expected is Expected.APPROVED:
        for vm in facts.vms:
            if vm == first or vm in facts.asked:
                findings_ += _approvals(facts, vm)
    return findings_


def _approvals(facts: Facts, vm: str) -> list[Finding]:
    # Without the name of the VM, it is unknown which events name it.
    is_known = bool(facts.recording.header.vm)
    events = [
        event
        for event in facts.events
        if _was_scheduled(event) and (event.names(vm) or not is_known)
    ]
    findings_: list[Finding] = []
    for event in events:
        verdict = _approval(event, vm, is_over=facts.is_over)
        if verdict is not None:
            findings_.append(verdict.about(f"client {vm} approves {_told(event)}"))
    if not facts.is_over or vm != facts.vms[0]:
        return findings_
    sentence = ""
    if not events:
        sentence = f"the recording shows no event that {vm} could approve"
    elif all(finding.outcome is Outcome.SKIPPED for finding in findings_):
        # Without this, a recording that ends too early would always pass.
        names = ", ".join(map(_told, events))
        sentence = (
            f"no event could be judged: {names} {'was' if len(events) == 1 else 'were'} "
            "still Scheduled at the end, and not approved"
        )
    if sentence:
        findings_.append(untried(sentence).about(f"client {vm} approves its events"))
    return findings_


def _approval(event: Event, vm: str, *, is_over: bool) -> Verdict | None:
    name = _told(event)
    if event.is_approved:
        after = length(event.approved_at - event.created)
        return good(f"{event.approved_by} approved {name} after {after}")
    if event.status is EventStatus.SCHEDULED:
        sentence = f"{name} was still Scheduled at the end of the recording"
        return skipped(sentence) if is_over else None
    ended = event.started_at or event.removed_at
    end_text = "Started" if event.started_at else "removed"
    return bad(
        f"{vm} did not approve {name} in the {length(ended - event.created)} before it "
        f"was {end_text}"
    )


def _was_scheduled(event: Event) -> bool:
    """Return whether there was time for an approval."""
    return not event.started_at or event.started_at > event.created


def _told(event: Event) -> str:
    names = ", ".join(resource.name for resource in event.resources)
    return f"{event.event_type.value} {event.event_id[:ID_TOLD]} of {names}"


def judge(
    replay: Replay,
    *,
    name: str,
    file: str,
    expected: Expected,
    is_over: bool,
    cut: str = "",
) -> Result:
    """Return the result of a replay, in the form of a scenario.

    `cut`: why the replay ended early, which is an error.
    """
    facts = Facts(
        recording=replay.recording,
        events=replay.events.all,
        vms=replay.vms,
        asked=replay.asked,
        is_over=is_over,
    )
    findings_ = findings(facts, expected)
    if cut:
        findings_.append(untried(cut).about("the recording comes to its end"))
    if not findings_:
        why = "nothing is expected of clients"
        if expected is not Expected.NONE:
            why = "the recording was interrupted"
        findings_ = [skipped(f"not judged: {why}").about("clients")]
    return Result(
        scenario=Scenario(name=name, file=file, description="", steps=()),
        findings=tuple(findings_),
        took=max(round(replay.elapsed / replay.speed), 0),
        expected=expected,
    )
