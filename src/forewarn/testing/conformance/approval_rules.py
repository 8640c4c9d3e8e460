"""Rules of what follows from an approval, and from one that was refused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

from forewarn.instants import MINUTE, Micros, describe_duration, format_http_date
from forewarn.protocol.versions import VERSIONS
from forewarn.testing.conformance import starts
from forewarn.testing.conformance.check import Rule
from forewarn.testing.conformance.documents import (
    Members,
    approved_ids,
    describe,
    event_id,
    is_busy,
    is_order,
    not_before,
    texts,
)
from forewarn.testing.conformance.exchanges import Exchange, target
from forewarn.testing.conformance.starts import DATES_APART, Start
from forewarn.testing.conformance.transcript import Shown, Step, Transcript
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge

CANCELLED_WITHIN: Micros = MINUTE
"""An event that is removed so soon after its approval was cancelled by it. Later the
platform may have cancelled it for another reason, as it may at any time (4.5)."""


START_WITHIN: Micros = 2 * MINUTE
"""So soon what nobody else holds is Started: all approvals are in, or it is due."""

BAD_REQUEST = 400

AN_ORDER = (
    "--approve, a longer --watch, and a Reboot or Redeploy of one VM that a user "
    "ordered"
)
AND_ANOTHER = ", in one document with another event"


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
    """Judge what becomes of approved events.

    One that goes without being Started may have been cancelled in this very moment, as
    it may at any time (4.5). Two of different causes, and none that is Started, are no
    chance.
    """

    def witnesses() -> Iterator[Witness]:
        gone: list[tuple[Approved, Step]] = []
        approved = list(_approved(seen))
        for each in approved:
            if each.started is not None:
                exchanges = (each.post, each.started[0].document.exchange)
                saw = f"{each.key} was approved, and is Started"
                yield Witness(saw=saw, exchanges=exchanges)
            elif (step := _vanished(each)) is not None:
                gone.append((each, step))
        if any(each.started for each in approved):
            return
        for (one, step), (other, its) in combinations(gone, 2):
            if not starts.is_same_cause(one.event, other.event):
                wrong = f"{one.key} and {other.key} were approved, and removed without "
                wrong += "being shown Started"
                exchanges = (one.post, *step.exchanges, other.post, *its.exchanges)
                yield Witness(saw=wrong, exchanges=exchanges, complaint=wrong)

    return judge(
        witnesses(),
        needs="--approve, and an event that is Started after its approval (others may "
        "have to approve it too), or two that are removed without",
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


def _takes_effect(seen: Transcript, *, together: bool) -> Verdict:
    """Judge approvals of what a user ordered for one VM: nobody else holds it.

    What else is done to that VM does, for as long as it is Started. Of several events in one approval each is judged, also those after the first.
    """

    def witnesses() -> Iterator[Witness]:
        for each in _approved(seen):
            due = not_before(each.event)
            is_together = len(approved_ids(each.post.body)) > 1
            if not is_order(each.event) or due is None or is_together != together:
                continue
            how = " with others" if together else ""
            waits = [
                shown.last
                for shown, event in each.events_after()
                if event.get("EventStatus") == "Scheduled"
            ]
            busy = [
                shown.last.at
                for shown in each.after
                if is_busy(shown.document, each.event)
            ]
            waited = waits[-1].at - max([each.post.at, *busy]) if waits else 0
            if waited > START_WITHIN:
                wrong = f"{describe(each.event)} was approved{how}, and still waits "
                wrong += (
                    f"{describe_duration(waited)} later, or after the last Started "
                )
                wrong += "event of its VM"
                exchanges = (each.post, waits[-1])
                yield Witness(saw=wrong, exchanges=exchanges, complaint=wrong)
            elif each.started and each.started[0].document.at < due - DATES_APART:
                saw = f"{each.key} was approved{how}, and is Started before NotBefore"
                exchanges = (each.post, each.started[0].document.exchange)
                yield Witness(saw=saw, exchanges=exchanges)

    return judge(witnesses(), needs=AN_ORDER + (AND_ANOTHER if together else ""))


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


def _heads(seen: Transcript, is_wrong: Callable[[Exchange], str]) -> Verdict:
    """Judge approvals of known events with something wrong in their heads."""

    def witnesses() -> Iterator[Witness]:
        for post in seen.exchanges:
            ids = approved_ids(post.body) if post.method == "POST" else []
            if ids and (what := is_wrong(post)):
                saw = f"an approval of {ids[0]} {what}: {post.status}"
                wrong = f"an approval of {ids[0]} {what}: expected 400, got "
                wrong += post.outcome
                is_refused = post.status == BAD_REQUEST
                complaint = "" if is_refused else wrong
                yield Witness(saw=saw, exchanges=(post,), complaint=complaint)

    return judge(witnesses(), needs="--approve, and a Scheduled event")


def _headless(post: Exchange) -> str:
    is_preview = post.target == target(VERSIONS[0].name)
    headers = [value for name, value in post.headers if name.lower() == "metadata"]
    is_right = [each.lower() for each in headers] == ["true"]
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
        lambda seen: _heads(seen, _unversioned),
    ),
    Rule("1.6", "an approval needs the header", lambda seen: _heads(seen, _headless)),
    Rule("1.7", "no approval is forwarded", lambda seen: _heads(seen, _forwarded)),
    Rule(
        "3.1",
        "each event of one approval is approved",
        lambda seen: _takes_effect(seen, together=True),
    ),
    Rule(
        "3.2",
        "an approval has an effect",
        lambda seen: _takes_effect(seen, together=False),
    ),
    Rule("3.3", "a refusal approves nothing", _refusals_approve_nothing),
    Rule("3.4", "an approval counts for all named", _covers_all),
    Rule("3.4", "an approval postpones nothing", _postpones_nothing),
    Rule("4.2", "what is approved is shown Started", _approved_starts),
)
