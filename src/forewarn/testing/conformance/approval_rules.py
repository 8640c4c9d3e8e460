"""Rules for the effects of approvals, and of refused ones."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

from forewarn.instants import MINUTE, Micros, describe_duration, format_http_date
from forewarn.protocol.versions import VERSIONS
from forewarn.testing.conformance.check import (
    Rule,
    Witness,
    against,
    has_status,
    judged,
)
from forewarn.testing.conformance.documents import (
    Exchange,
    Members,
    approved_ids,
    describe,
    event_id,
    is_busy,
    is_order,
    not_before,
    target,
    texts,
)
from forewarn.testing.conformance.transcript import (
    DATES_APART,
    Shown,
    Step,
    Transcript,
    early_starts,
    is_begun,
    is_same_cause,
    names_only_this_vm,
)

CANCELLED_WITHIN: Micros = MINUTE
"""If an event is removed within this time after its approval, the approval cancelled
it. Later, the platform may have cancelled it for another reason (4.5)."""


START_WITHIN: Micros = 2 * MINUTE
"""Maximum time until an event is Started, once it has all approvals or is due and
nothing delays it."""

AN_EVENT = "--approve, and a Scheduled event"
AN_ORDER = (
    "--approve, a longer --watch, and a Reboot or Redeploy of one VM that a user "
    "requested"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """An event that was Scheduled when this client approved it."""

    key: str
    event: Members
    """The event before the approval."""
    post: Exchange
    """The first approval."""
    before: Shown
    """The last document before the approval."""
    after: tuple[Shown, ...]
    """Documents that were read after the approval; the first may equal `before`."""

    def events_after(self) -> Iterator[tuple[Shown, Members]]:
        """Yield the event in each document after the approval."""
        for shown in self.after:
            event = shown.document.by_id.get(self.key)
            if event is not None:
                yield shown, event

    @property
    def started(self) -> tuple[Shown, Members] | None:
        """Return the first document that shows the event as Started, or None."""
        for shown, event in self.events_after():
            if event.get("EventStatus") == "Started":
                return shown, event
        return None


def _approved(transcript: Transcript) -> Iterator[Approved]:
    for key, posts in transcript.approved.items():
        number = posts[0].number
        before = [
            shown
            for shown in transcript.newest
            if shown.document.exchange.number < number and key in shown.document.by_id
        ]
        event = before[-1].document.by_id[key] if before else {}
        if event.get("EventStatus") == "Scheduled":
            yield Approved(
                key=key,
                event=event,
                post=posts[0],
                before=before[-1],
                after=tuple(
                    step for step in transcript.newest if step.last.number > number
                ),
            )


def _approved_starts(transcript: Transcript) -> Iterator[Witness]:
    """Judge whether approved events are shown as Started.

    The platform may cancel an event at any time (4.5), also right after its approval.
    So one event that disappears proves nothing. Two events with different causes, while
    no event is shown as Started, are a violation.
    """
    gone: list[tuple[Approved, Step]] = []
    approved = list(_approved(transcript))
    for approval in approved:
        if approval.started is not None:
            yield Witness(
                saw=f"{approval.key} was approved and is Started",
                exchanges=(approval.post, approval.started[0].document.exchange),
            )
        elif (step := _vanished(approval)) is not None:
            gone.append((approval, step))
    if any(accepted.started for accepted in approved):
        return
    for (one, step), (other, its) in combinations(gone, 2):
        if not is_same_cause(one.event, other.event):
            yield against(
                f"{one.key} and {other.key} were approved and then removed, but never "
                "shown as Started",
                *(one.post, *step.exchanges, other.post, *its.exchanges),
            )


def _vanished(approved: Approved) -> Step | None:
    """Return the step in which the approval of an event removed it, or None."""
    before = approved.before
    for shown in approved.after:
        if approved.key in shown.document.by_id:
            before = shown
            continue
        event = before.document.by_id[approved.key]
        if any(is_begun(event, other) for other in shown.document.events):
            # The event continues with another ID; a rule of 2.3 judges that.
            return None
        step = Step(before=before, after=shown)
        soon = shown.document.exchange.at - approved.post.at <= CANCELLED_WITHIN
        return step if step.is_single and soon else None
    return None


def _takes_effect(transcript: Transcript, *, together: bool) -> Iterator[Witness]:
    """Judge approvals of events that a user requested for one VM.

    Only another Started event of that VM may delay such an event. If one approval has
    several events, each of them is judged.
    """
    for approval in _approved(transcript):
        due = not_before(approval.event)
        is_together = len(approved_ids(approval.post.body)) > 1
        if not is_order(approval.event) or due is None or is_together != together:
            continue
        how = " with others" if together else ""
        waits = [
            shown.last
            for shown, event in approval.events_after()
            if event.get("EventStatus") == "Scheduled"
        ]
        busy = [
            shown.last.at
            for shown in approval.after
            if is_busy(shown.document, approval.event)
        ]
        waited = waits[-1].at - max([approval.post.at, *busy]) if waits else 0
        if waited > START_WITHIN:
            yield against(
                f"{describe(approval.event)} was approved{how} and is still waiting "
                f"{describe_duration(waited)} after the approval, or after the last "
                "Started event of its VM",
                *(approval.post, waits[-1]),
            )
        elif approval.started and approval.started[0].document.at < due - DATES_APART:
            yield Witness(
                saw=f"{approval.key} was approved{how} and is Started before NotBefore",
                exchanges=(approval.post, approval.started[0].document.exchange),
            )


def _covers_all(transcript: Transcript) -> Iterator[Witness]:
    for approval in _approved(transcript):
        names = texts(approval.event.get("Resources")) or []
        if len(names) <= 1 or approval.started is None:
            continue
        shown, event = approval.started
        resources = texts(event.get("Resources")) or []
        left = (
            {*names} - {*resources} - _leaving(transcript, approval.key, before=shown)
        )
        if left or len(resources) > 1:
            yield judged(
                f"{approval.key} was approved and is Started for {', '.join(resources)}",
                approval.post,
                shown.document.exchange,
                is_right=not left,
                wrong=f"{approval.key} named {names} when it was approved, but is Started "
                f"for {resources}",
            )


def _leaving(transcript: Transcript, key: str, *, before: Shown) -> set[str]:
    """Return the VMs of other events, which may delete these VMs or move them away."""
    names: set[str] = set()
    for shown in transcript.newest:
        if shown.document.exchange.number < before.document.exchange.number:
            for other, event in shown.document.by_id.items():
                if other != key:
                    names.update(texts(event.get("Resources")) or [])
    return names


def _postpones_nothing(transcript: Transcript) -> Iterator[Witness]:
    for approval in _approved(transcript):
        due = not_before(approval.event)
        if due is None:
            continue
        for shown, event in approval.events_after():
            later = not_before(event)
            if later is not None and later > due:
                yield against(
                    f"NotBefore of {approval.key} was {format_http_date(due)} when it was "
                    f"approved; now it is {format_http_date(later)}",
                    *(approval.post, shown.last),
                )
            yield Witness(
                saw=f"{approval.key} is {event.get('EventStatus')} after its approval",
                exchanges=(approval.post, shown.last),
            )


def _refusals_approve_nothing(transcript: Transcript) -> Iterator[Witness]:
    named: dict[str, Exchange] = {}
    for shown in transcript.newest:
        for key, event in shown.document.by_id.items():
            if key not in named and (posts := transcript.refusals(key)):
                named[key] = posts[0]
            post = named.get(key)
            is_scheduled = event.get("EventStatus") == "Scheduled"
            if post and is_scheduled and shown.last.number > post.number:
                yield Witness(
                    saw=f"{key} is Scheduled after a refusal",
                    exchanges=(post, shown.last),
                )
    for step in transcript.steps() if not transcript.others_approve else ():
        for start in early_starts(transcript, step):
            key = event_id(start.event)
            posts = transcript.refusals(key, before=step.after.document.exchange)
            # Only the refused requests can have started it.
            if posts and names_only_this_vm(transcript, start.event):
                yield against(
                    f"{key} was Started {describe_duration(start.early)} before its "
                    f"NotBefore, but only refused requests named it: "
                    f"{posts[-1].body!r} got {posts[-1].outcome}",
                    *(posts[-1], *step.exchanges),
                )


def _heads(
    is_wrong: Callable[[Exchange], str],
) -> Callable[[Transcript], Iterator[Witness]]:
    """Judge approvals of existing events with an error in the request's head."""

    def witnesses(transcript: Transcript) -> Iterator[Witness]:
        for post in transcript.exchanges:
            ids = approved_ids(post.body) if post.method == "POST" else []
            if ids and (problem := is_wrong(post)):
                yield has_status(post, 400, f"an approval of {ids[0]} {problem}")

    return witnesses


def _headless(post: Exchange) -> str:
    is_preview = post.target == target(VERSIONS[0].name)
    headers = [value for name, value in post.headers if name.lower() == "metadata"]
    is_right = [header.lower() for header in headers] == ["true"]
    return "" if is_right or is_preview else f"with Metadata {headers}"


def _forwarded(post: Exchange) -> str:
    names = [name.lower() for name, _ in post.headers]
    return "with X-Forwarded-For" if "x-forwarded-for" in names else ""


def _unversioned(post: Exchange) -> str:
    is_known = any(post.target == target(version.name) for version in VERSIONS)
    return "" if is_known else f"to {post.target}"


RULES = (
    Rule(
        "1.3",
        "an approval needs a version",
        _heads(_unversioned),
        needs=AN_EVENT,
    ),
    Rule("1.6", "an approval needs the header", _heads(_headless), needs=AN_EVENT),
    Rule("1.7", "no approval is forwarded", _heads(_forwarded), needs=AN_EVENT),
    Rule(
        "3.1",
        "each event of one approval is approved",
        lambda transcript: _takes_effect(transcript, together=True),
        needs=f"{AN_ORDER}, in one document with another event",
    ),
    Rule(
        "3.2",
        "an approval has an effect",
        lambda transcript: _takes_effect(transcript, together=False),
        needs=AN_ORDER,
    ),
    Rule(
        "3.3",
        "a refusal approves nothing",
        _refusals_approve_nothing,
        needs=AN_EVENT,
    ),
    Rule(
        "3.4",
        "an approval covers every named VM",
        _covers_all,
        needs="--approve, and an event that names two VMs and is Started after its "
        "approval",
    ),
    Rule(
        "3.4",
        "an approval postpones nothing",
        _postpones_nothing,
        needs=AN_EVENT,
    ),
    Rule(
        "4.2",
        "an approved event is shown as Started",
        _approved_starts,
        needs="--approve, and an event that is Started after its approval (other VMs "
        "may have to approve it too), or two events that are removed without a start",
    ),
)
