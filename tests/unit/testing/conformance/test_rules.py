"""Each rule in three stories: it saw nothing, it saw it kept, it saw it broken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from forewarn.testing.client import Answer
from forewarn.testing.conformance.check import Rule
from forewarn.testing.conformance.checks import RULES
from forewarn.testing.conformance.exchanges import target
from forewarn.testing.conformance.transcript import Transcript
from forewarn.testing.conformance.verdicts import Failed, NotTried, Passed
from tests.support.shown_documents import Story, event, key

Told = Callable[[], Story]

RULE_BY_TITLE = {rule.title: rule for rule in RULES}


def life(**members: Any) -> Story:
    """Return the life of an event: Scheduled, Started at its time, removed."""
    story = Story().show()
    story.show(event(**members)).wait()
    story.show(event(status="Started", **members), after=899)
    return story.show(after=60).wait()


def approved(*events: dict[str, Any]) -> Story:
    """Return a story in which an event is approved, and then what follows."""
    story = Story().show().show(event()).approve(1)
    for each in events:
        story.show(each)
    return story


def bent(change: Callable[[Answer], Answer], *, at: str = target()) -> Story:
    """Return a story whose answers at a target are changed."""
    story = Story(bend=lambda where, answer: change(answer) if where == at else answer)
    return story.show(event()).wait()


def rewritten(old: bytes, new: bytes, *, at: str = target()) -> Story:
    return bent(
        lambda answer: replace(answer, body=answer.body.replace(old, new)), at=at
    )


def answered(status: int, body: bytes) -> Answer:
    return Answer(status=status, headers=(), body=body)


def headed(name: str, value: str) -> Story:
    def change(answer: Answer) -> Answer:
        kept = [each for each in answer.headers if each[0] != name]
        return replace(answer, headers=(*kept, (name, value)))

    return bent(change)


def refused_and_taken() -> Story:
    """A refused approval that starts the event nevertheless."""
    story = Story().show(event())
    story.inquiry.ask("POST", "/x", body=key(1).lower().encode())
    return story.show(event(status="Started"))


def refused() -> Story:
    story = Story().show(event())
    story.inquiry.ask("POST", "/x", body=key(1).lower().encode())
    return story.wait()


OLD = target("2017-08-01")
OLDEST = target("2017-03-01")
PREEMPT = {"kind": "Preempt"}
TERMINATE = {"kind": "Terminate"}

KEPT: dict[str, Told] = {
    "each GET of the document is answered": life,
    "a refusal is JSON with a sentence": refused,
    "the ETag is the incarnation": life,
    "without a tag the document is whole": life,
    "an earlier tag gets the new document": life,
    "JSON is typed as such, in UTF-8": life,
    "an approval has an empty answer": approved,
    "every version is served": life,
    "a member is shown from its version on": life,
    "the preview's names begin with _": life,
    "everything else is the same in each version": life,
    "Preempt is hidden before 2017-11-01": lambda: life(**PREEMPT),
    "Terminate is hidden before 2019-01-01": lambda: life(**TERMINATE),
    "a version hides nothing else": life,
    "two members: DocumentIncarnation, Events": life,
    "Events is an array, empty without events": life,
    "compact: no blanks outside of strings": life,
    "an event's members and their order": life,
    "ids are GUIDs in upper case": life,
    "two events have two ids": lambda: Story().show(event(1), event(2)),
    "the type is one of five": life,
    "the resource type is VirtualMachine": life,
    "resources are names of VMs": life,
    "the status is one of two": life,
    "NotBefore of a Scheduled event is RFC 1123": life,
    "NotBefore of a Started event is empty": life,
    "the source is one of two": life,
    "the description is a text": life,
    "the duration is whole seconds": life,
    "the incarnation is an integer from 1 on": life,
    "one incarnation has one content": life,
    "all versions have one incarnation": life,
    "the source fits the type": lambda: life(**PREEMPT),
    "a refusal approves nothing": refused,
    "an approval counts for all named": lambda: (
        Story()
        .show(event(Resources=["vm_0", "vm_1"]))
        .approve(1)
        .show(event(status="Started", Resources=["vm_0", "vm_1"]))
    ),
    "an approval postpones nothing": lambda: approved().wait(),
    "what is approved is shown Started": lambda: approved(event(status="Started")),
    "an event keeps its id when it is Started": life,
    "no id returns": life,
    "NotBefore is never moved to an earlier time": lambda: (
        Story().show(event(1)).show(event(1), event(2))
    ),
    "the incarnation rises with a change, and only then": life,
    "the incarnation never falls": life,
    "an event begins Scheduled": life,
    "nothing goes backwards": life,
    "nothing starts before its time": life,
    "an event stays what it is": life,
    "the notice is long enough": lambda: (
        Story().show(event(1)).show(event(1), event(2, due=902))
    ),
}
"""Of each rule the title, and a story in which it is seen to be kept."""

BROKEN: dict[str, list[tuple[Told, str]]] = {
    "each GET of the document is answered": [
        (lambda: bent(lambda answer: replace(answer, status=500)), "got 500"),
        (lambda: bent(lambda answer: replace(answer, status=204)), "got 204"),
    ],
    "a refusal is JSON with a sentence": [
        (lambda: bent(lambda _: answered(405, b"<p>no</p>")), "405 b'<p>no"),
        (lambda: bent(lambda _: answered(400, b'{"error":""}')), "no sentence"),
    ],
    "the ETag is the incarnation": [
        (lambda: headed("ETag", '"7"'), "the incarnation 1 as ETag, got '\"7\"'"),
    ],
    "without a tag the document is whole": [
        (lambda: bent(lambda _: answered(304, b"")), "got 304"),
    ],
    "an earlier tag gets the new document": [
        (
            lambda: Story(tags_are_equal=True).show().show(event()),
            "is 304 b''",
        ),
    ],
    "JSON is typed as such, in UTF-8": [
        (lambda: headed("Content-Type", "application/json"), "'application/json'"),
    ],
    "an approval has an empty answer": [
        (
            lambda: (
                Story(bend=lambda _, answer: replace(answer, body=answer.body or b"OK"))
                .show(event())
                .approve(1)
            ),
            "200 b'OK'",
        ),
    ],
    "every version is served": [
        (lambda: bent(lambda _: answered(400, b"{}"), at=OLD), "expected 200"),
    ],
    "a member is shown from its version on": [
        (
            lambda: rewritten(b'"EventId"', b'"Description":"","EventId"', at=OLD),
            "at 2017-08-01: it shows Description",
        ),
        (
            lambda: rewritten(b'"Description"', b'"D"', at=target("2019-04-01")),
            "at 2019-04-01: it lacks Description",
        ),
    ],
    "the preview's names begin with _": [
        (lambda: rewritten(b'"_vm_0"', b'"vm_0"', at=OLDEST), "not ['_vm_0']"),
    ],
    "everything else is the same in each version": [
        (lambda: rewritten(b'"vm_0"', b'"_vm_0"', at=OLD), "not ['vm_0']"),
        (
            lambda: rewritten(b'"Scheduled"', b'"Started"', at=OLDEST),
            "EventStatus is 'Started', not 'Scheduled'",
        ),
    ],
    "Preempt is hidden before 2017-11-01": [
        (
            lambda: shown_at(OLD, "Preempt"),
            "at 2017-08-01: it shows Preempt",
        ),
    ],
    "Terminate is hidden before 2019-01-01": [
        (
            lambda: shown_at(target("2017-11-01"), "Terminate"),
            "at 2017-11-01: it shows Terminate",
        ),
    ],
    "a version hides nothing else": [
        (
            lambda: bent(
                lambda answer: replace(
                    answer, body=b'{"DocumentIncarnation":1,"Events":[]}'
                ),
                at=OLD,
            ),
            "got []",
        ),
    ],
    "two members: DocumentIncarnation, Events": [
        (lambda: rewritten(b',"Events"', b',"x":1,"Events"'), "'x', 'Events']"),
        (lambda: bent(lambda answer: replace(answer, body=b"")), "not JSON: b''"),
        (
            lambda: rewritten(b'{"Doc', b'{"Events":[],"Doc'),
            "the member 'Events' is there twice",
        ),
    ],
    "Events is an array, empty without events": [
        (lambda: Story(bend=nulled).show(event()), "Events is None, not an array"),
        (lambda: rewritten(b'"Events":[{', b'"Events":[7,{'), "has 7, which is not"),
    ],
    "compact: no blanks outside of strings": [
        (lambda: rewritten(b",", b", "), "byte 25 is a blank outside"),
        (lambda: rewritten(b"]}", b"]}\n\n"), "is a blank outside"),
    ],
    "an event's members and their order": [
        (lambda: Story().show({**event(), "x": 1}), "'x')"),
        (lambda: Story().show(dict(sorted(event().items()))), "got ('Description'"),
        (
            lambda: rewritten(b'"ResourceType"', b'"resourceType"', at=OLDEST),
            "at 2017-03-01: expected the members",
        ),
    ],
    "ids are GUIDs in upper case": [
        (lambda: Story().show(event(EventId=key(1).lower())), "is not a GUID"),
        (lambda: Story().show(event(EventId=7)), "EventId 7 is not"),
    ],
    "two events have two ids": [
        (lambda: Story().show(event(1), event(1, due=1000)), "two events have the"),
    ],
    "the type is one of five": [
        (lambda: Story().show(event(kind="Pause")), "EventType is 'Pause'"),
    ],
    "the resource type is VirtualMachine": [
        (lambda: Story().show(event(ResourceType="VM")), "ResourceType is 'VM'"),
    ],
    "resources are names of VMs": [
        (lambda: Story().show(event(Resources=[])), "Resources is []"),
        (lambda: Story().show(event(Resources="vm_0")), "Resources is 'vm_0'"),
        (lambda: Story().show(event(Resources=["a", "a"])), "not an array of diff"),
    ],
    "the status is one of two": [
        (lambda: life_with("Completed"), "EventStatus is 'Completed'"),
    ],
    "NotBefore of a Scheduled event is RFC 1123": [
        (
            lambda: Story().show(event(NotBefore="2030-01-01T00:00:00Z")),
            "is not like 'Mon",
        ),
        (
            lambda: Story().show(event(NotBefore="Mon, 17 Mar 2030 17:46:40 GMT")),
            "which is 'Sun, 17 Mar 2030",
        ),
        (
            lambda: Story().show(event(NotBefore="Fri, 31 Feb 2031 17:46:40 GMT")),
            "is no date of the calendar",
        ),
    ],
    "NotBefore of a Started event is empty": [
        (
            lambda: (
                Story()
                .show(event())
                .show(event(status="Started", NotBefore=event()["NotBefore"]))
            ),
            "not ''",
        ),
        (lambda: Story().show(event(status="Started", NotBefore=None)), "is None"),
    ],
    "the source is one of two": [
        (lambda: Story().show(event(EventSource="Azure")), "EventSource is 'Azure'"),
    ],
    "the description is a text": [
        (lambda: Story().show(event(Description=None)), "Description is None"),
    ],
    "the duration is whole seconds": [
        (lambda: Story().show(event(DurationInSeconds="9")), "is '9', not an"),
        (lambda: Story().show(event(DurationInSeconds=-2)), "is -2, not an"),
        (lambda: Story().show(event(DurationInSeconds=True)), "is True, not an"),
        (lambda: Story().show(event(DurationInSeconds=9.0)), "is 9.0, not an"),
    ],
    "the incarnation is an integer from 1 on": [
        (lambda: Story().show(number="1"), "DocumentIncarnation is '1'"),
        (lambda: Story().show(number=0), "DocumentIncarnation is 0"),
        (lambda: Story().show(number=-4), "DocumentIncarnation is -4"),
    ],
    "one incarnation has one content": [
        (
            lambda: Story().show(event(), number=3).show(number=3),
            "incarnation 3 at 2020-07-01 has two contents",
        ),
    ],
    "all versions have one incarnation": [
        (
            lambda: rewritten(b":1,", b":4,", at=OLD),
            "incarnation 4 at 2017-08-01, and 1 at 2020-07-01",
        ),
    ],
    "the source fits the type": [
        (
            lambda: Story().show(event(kind="Freeze", EventSource="User")),
            "of a Freeze is 'User', not Platform",
        ),
    ],
    "a refusal approves nothing": [
        (refused_and_taken, "and only refused requests named it"),
    ],
    "an approval counts for all named": [
        (
            lambda: (
                Story()
                .show(event(Resources=["vm_0", "vm_1"]))
                .approve(1)
                .show(event(status="Started"))
            ),
            "Started for ['vm_0']",
        ),
    ],
    "an approval postpones nothing": [
        (lambda: approved(event(due=1800)), "when it was approved, and is"),
    ],
    "what is approved is shown Started": [
        (lambda: approved().show(), "without being shown Started"),
    ],
    "an event keeps its id when it is Started": [
        (
            lambda: (
                Story()
                .show(event(1, Description="x"))
                .show(event(2, "Started", Description="x"))
            ),
            "one event, two ids",
        ),
        (
            lambda: (
                Story()
                .show(event(1, "Started", "Freeze"))
                .show(event(2, "Started", "Freeze"))
            ),
            "which is Started too: one event, two ids",
        ),
    ],
    "no id returns": [
        (lambda: Story().show(event()).show().show(event()), "is there again"),
    ],
    "NotBefore is never moved to an earlier time": [
        (lambda: Story().show(event()).show(event(due=60)), "GMT, and was"),
    ],
    "the incarnation rises with a change, and only then": [
        (
            lambda: Story().show(event()).show(event()),
            "rose from 1 to 2, and Events are as before",
        ),
    ],
    "the incarnation never falls": [
        (lambda: Story().show(event(), number=5).show(number=1), "from 5 to 1"),
    ],
    "an event begins Scheduled": [
        (
            lambda: Story().show(event()).show(event(), event(2, "Started", "Freeze")),
            "it was never Scheduled",
        ),
    ],
    "nothing goes backwards": [
        (
            lambda: Story().show(event(status="Started")).show(event()),
            "was Started, and is Scheduled",
        ),
    ],
    "nothing starts before its time": [
        (
            lambda: Story().show(event()).show(event(status="Started")),
            "before its NotBefore, and not approved from here",
        ),
    ],
    "an event stays what it is": [
        (
            lambda: Story().show(event()).show(event(kind="Freeze")),
            "was 'Reboot', and is 'Freeze'",
        ),
    ],
    "the notice is long enough": [
        (
            lambda: Story().show(event(1)).show(event(1), event(2, due=600)),
            "expected 15 m",
        ),
    ],
}
"""Of each rule stories in which it is broken, each with a part of what is said."""


def nulled(where: str, answer: Answer) -> Answer:
    """Write null for an array, as serializers do that were told nothing else."""
    body = b'{"DocumentIncarnation":1,"Events":null}'
    return replace(answer, body=body) if where == target() else answer


def shown_at(where: str, kind: str) -> Story:
    """Show an event at a version that is older than its type."""
    story = Story(
        bend=lambda at, answer: (
            replace(answer, body=story.newest_body) if at == where else answer
        )
    )
    return story.show(event(kind=kind))


def life_with(status: str) -> Story:
    """Show the end of an event as a status of its own."""
    started = event(status="Started")
    return Story().show(started).show({**started, "EventStatus": status})


def test_every_rule_has_its_stories() -> None:
    assert set(KEPT) == set(BROKEN) == set(RULE_BY_TITLE)
    assert all(BROKEN.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.title)
def test_what_saw_nothing_is_not_tried(rule: Rule) -> None:
    verdict = rule.judge(Transcript())
    assert isinstance(verdict, NotTried)
    assert verdict.needs


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.title)
def test_what_was_seen_is_kept(rule: Rule) -> None:
    story = KEPT[rule.title]()
    verdict = rule.judge(story.seen)
    assert isinstance(verdict, Passed), verdict
    asked = {*range(1, len(story.requests) + 1)}
    for witness in verdict.witnesses:
        assert {each.number for each in witness.exchanges} <= asked


@pytest.mark.parametrize(
    ("title", "told", "part"),
    [(title, *each) for title, stories in BROKEN.items() for each in stories],
)
def test_what_was_seen_otherwise_is_broken(title: str, told: Told, part: str) -> None:
    verdict = RULE_BY_TITLE[title].judge(told().seen)
    assert isinstance(verdict, Failed), verdict
    assert part in verdict.witness.complaint


WITHOUT_EVENTS = (
    "1.1 each GET of the document is answered",
    "1.10 the ETag is the incarnation",
    "1.10 without a tag the document is whole",
    "1.12 JSON is typed as such, in UTF-8",
    "1.3 every version is served",
    "2.1 compact: no blanks outside of strings",
    "2.1 Events is an array, empty without events",
    "2.1 two members: DocumentIncarnation, Events",
    "2.10 all versions have one incarnation",
    "2.10 one incarnation has one content",
    "2.10 the incarnation is an integer from 1 on",
)


def test_an_empty_document_shows_nothing_of_events() -> None:
    seen = Story().show().wait().seen
    kept = [
        f"{rule.clause} {rule.title}"
        for rule in RULES
        if isinstance(rule.judge(seen), Passed)
    ]
    assert sorted(kept) == sorted(WITHOUT_EVENTS)
