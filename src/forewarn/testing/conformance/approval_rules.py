"""Rules of what follows from an approval, and from one that was refused."""

from collections.abc import Iterator
from dataclasses import dataclass

from forewarn.instants import MINUTE, Micros, describe_duration, format_http_date
from forewarn.testing.conformance import starts
from forewarn.testing.conformance.check import Rule
from forewarn.testing.conformance.documents import (
    Members,
    event_id,
    not_before,
    texts,
)
from forewarn.testing.conformance.exchanges import Exchange
from forewarn.testing.conformance.starts import Start
from forewarn.testing.conformance.transcript import Shown, Step, Transcript
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge

CANCELLED_WITHIN: Micros = MINUTE
"""An event that is removed so soon after its approval was cancelled by it. Later the
platform may have cancelled it for another reason, as it may at any time (4.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """An event that was Scheduled when it was approved from here."""

    key: str
    event: Members
    """As it was shown before."""
    post: Exchange
    """The first approval."""
    before: Shown
    """The last document before it."""
    after: tuple[Shown, ...]
    """Documents that were read after it; the first may be the same as before."""

    def events_after(self) -> Iterator[tuple[Shown, Members]]:
        """Yield the event as it was shown afterwards."""
        for shown in self.after:
            event = shown.document.by_id.get(self.key)
            if event is not None:
                yield shown, event

    @property
    def started(self) -> tuple[Shown, Members] | None:
        """Return where it was shown Started first, or None."""
        for shown, event in self.events_after():
            if event.get("EventStatus") == "Started":
                return shown, event
        return None


def _approved(seen: Transcript) -> Iterator[Approved]:
    for key, posts in seen.approved.items():
        post = posts[0]
        before = [
            shown
            for shown in seen.newest
            if shown.document.exchange.number < post.number
            and key in shown.document.by_id
        ]
        after = [shown for shown in seen.newest if shown.last.number > post.number]
        if not before:
            continue
        event = before[-1].document.by_id[key]
        if event.get("EventStatus") == "Scheduled":
            yield Approved(
                key=key,
                event=event,
                post=post,
                before=before[-1],
                after=tuple(after),
            )


def _approved_starts(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for each in _approved(seen):
            if each.started is not None:
                exchanges = (each.post, each.started[0].document.exchange)
                saw = f"{each.key} was approved, and is Started"
                yield Witness(saw=saw, exchanges=exchanges)
            elif (step := _vanished(each)) is not None:
                wrong = f"{each.key} was approved, and removed without being shown "
                yield Witness(
                    saw=f"{each.key} was approved, and removed",
                    exchanges=(each.post, *step.exchanges),
                    complaint=f"{wrong}Started",
                )

    return judge(
        witnesses(),
        needs="--approve, and an event that is Started after its approval (others may "
        "have to approve it too)",
    )


def _vanished(approved: Approved) -> Step | None:
    """Return the step that removed an event because it was approved, or None."""
    before = approved.before
    for shown in approved.after:
        if approved.key in shown.document.by_id:
            before = shown
            continue
        event = before.document.by_id[approved.key]
        if any(starts.is_begun(event, each) for each in shown.document.events):
            # It goes on under another id, which is for a rule of 2.3 to say.
            return None
        step = Step(before=before, after=shown)
        soon = shown.document.exchange.at - approved.post.at <= CANCELLED_WITHIN
        return step if step.is_single and soon else None
    return None


def _covers_all(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for each in _approved(seen):
            names = texts(each.event.get("Resources")) or []
            if len(names) <= 1 or each.started is None:
                continue
            shown, event = each.started
            found = texts(event.get("Resources")) or []
            left = {*names} - {*found} - _leaving(seen, each.key, before=shown)
            if not left and len(found) <= 1:
                continue
            saw = f"{each.key} was approved, and is Started for {', '.join(found)}"
            wrong = ""
            if left:
                wrong = f"{each.key} named {names} when it was approved, and is "
                wrong += f"Started for {found}"
            yield Witness(
                saw=saw,
                exchanges=(each.post, shown.document.exchange),
                complaint=wrong,
            )

    return judge(
        witnesses(),
        needs="--approve, and an event that names two VMs and is Started after its "
        "approval",
    )


def _leaving(seen: Transcript, key: str, *, before: Shown) -> set[str]:
    """Return VMs that other events name: these may delete them, or move them away."""
    found: set[str] = set()
    for shown in seen.newest:
        if shown.document.exchange.number < before.document.exchange.number:
            for other, event in shown.document.by_id.items():
                if other != key:
                    found.update(texts(event.get("Resources")) or [])
    return found


def _postpones_nothing(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for each in _approved(seen):
            due = not_before(each.event)
            if due is None:
                continue
            for shown, event in each.events_after():
                later = not_before(event)
                saw = f"{each.key} is {event.get('EventStatus')} after its approval"
                wrong = ""
                if later is not None and later > due:
                    wrong = f"NotBefore of {each.key} was {format_http_date(due)} when "
                    wrong += f"it was approved, and is {format_http_date(later)}"
                exchanges = (each.post, shown.last)
                yield Witness(saw=saw, exchanges=exchanges, complaint=wrong)

    return judge(witnesses(), needs="--approve, and a Scheduled event")


def _refusals_approve_nothing(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        named: dict[str, Exchange] = {}
        for shown in seen.newest:
            for key, event in shown.document.by_id.items():
                if key not in named and (posts := seen.refusals(key)):
                    named[key] = posts[0]
                post = named.get(key)
                is_scheduled = event.get("EventStatus") == "Scheduled"
                if post and is_scheduled and shown.last.number > post.number:
                    yield Witness(
                        saw=f"{key} is Scheduled after a refusal",
                        exchanges=(post, shown.last),
                    )
        for step in seen.steps():
            for start in starts.early(seen, step):
                if (witness := _taken(seen, start)) is not None:
                    yield witness

    return judge(witnesses(), needs="--approve, and a Scheduled event")


def _taken(seen: Transcript, start: Start) -> Witness | None:
    """Return a witness of an event that only refused requests can have started."""
    key = event_id(start.event)
    posts = seen.refusals(key, before=start.step.after.document.exchange)
    if not posts or seen.others_approve:
        return None
    if not starts.names_only_this_vm(seen, start.event):
        return None
    wrong = f"{key} was Started {describe_duration(start.early)} before its NotBefore, "
    wrong += f"and only refused requests named it: {posts[-1].body!r} got "
    wrong += posts[-1].outcome
    return Witness(
        saw=f"{key} is Started after a refusal",
        exchanges=(posts[-1], *start.step.exchanges),
        complaint=wrong,
    )


RULES = (
    Rule("3.3", "a refusal approves nothing", _refusals_approve_nothing),
    Rule("3.4", "an approval counts for all named", _covers_all),
    Rule("3.4", "an approval postpones nothing", _postpones_nothing),
    Rule("4.2", "what is approved is shown Started", _approved_starts),
)
