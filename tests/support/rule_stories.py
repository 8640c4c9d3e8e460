"""Stories in which rules see what they are about, and helpers to tell them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from forewarn.testing.answers import BrokenAnswerError, How
from forewarn.testing.client import METADATA, Answer, Headers
from forewarn.testing.conformance.documents import target
from forewarn.testing.conformance.inquiry import start_requests
from tests.support.shown_documents import Story, event, key

Told = Callable[[], Story]


def life(**members: Any) -> Story:
    """Return the life of an event: Scheduled, Started at its time, removed."""
    story = Story().show()
    story.show(event(**members)).wait()
    story.show(event(status="Started", **members), after=899)
    return story.show(after=60).wait()


def approved(*events: dict[str, Any]) -> Story:
    """Return a story in which an event is approved, and then what follows."""
    story = Story().show().show(event()).approve(1)
    for shown in events:
        story.show(shown)
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
        headers = [header for header in answer.headers if header[0] != name]
        return replace(answer, headers=(*headers, (name, value)))

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


def posted(where: str = target(), headers: Headers = METADATA) -> Story:
    """Return a story in which an approval is sent with a head of its own."""
    story = Story().show(event())
    story.inquiry.ask("POST", where, headers=headers, body=start_requests(key(1)))
    return story


def cut(where: str, answer: Answer) -> Answer:
    """End in the middle of an answer."""
    if where == OLD:
        raise BrokenAnswerError(How.CUT, "the answer is cut short")
    return answer


def malformed(where: str, answer: Answer) -> Answer:
    """Send a chunk of a negative size."""
    if where == OLD:
        problem = "the size of a chunk is invalid"
        raise BrokenAnswerError(How.MALFORMED, problem, quoted=b"-5\r\n")
    return answer


def once(answer: Answer) -> Story:
    """Return a story whose first document is something else."""
    answers = [answer]
    return Story(
        bend=lambda where, good: (
            answers.pop() if answers and where == target() else good
        )
    ).show()


RESTARTED = "Virtual machine is going to be restarted as requested by authorized user."
FAILED = "Virtual machine has encountered a failure."
ORDER: dict[str, Any] = {"EventSource": "User", "Description": RESTARTED}

OLD = target("2017-08-01")
OLDEST = target("2017-03-01")
PREEMPT = {"kind": "Preempt"}
TERMINATE = {"kind": "Terminate"}


def nulled(where: str, answer: Answer) -> Answer:
    """Write null for an array, as serializers do that were told nothing else."""
    body = b'{"DocumentIncarnation":1,"Events":null}'
    return replace(answer, body=body) if where == target() else answer


def taken(where: str = target(), headers: Headers = METADATA) -> Story:
    """Return a story in which an approval with any head is taken."""
    ok = answered(200, b"")
    story = Story(bend=lambda _, answer: answer if answer.body[:2] == b'{"D' else ok)
    story.show(event())
    story.inquiry.ask("POST", where, headers=headers, body=start_requests(key(1)))
    return story


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


KEPT: dict[str, Told] = {
    "each GET of the document is answered": life,
    "a refusal is JSON with a message": refused,
    "the ETag is the incarnation": life,
    "a GET without a tag gets the whole document": life,
    "an earlier tag gets the new document": life,
    "JSON has its content type, in UTF-8": life,
    "an approval has an empty answer": approved,
    "instance and events have the same name": life,
    "no body is compressed without a request for it": life,
    "each answer is complete": life,
    "each answer is well-formed": life,
    "the first request gets a document": life,
    "an approval needs a version": lambda: posted("/metadata/scheduledevents"),
    "an approval needs the header": lambda: posted(headers=()),
    "no approval is forwarded": lambda: posted(
        headers=(*METADATA, ("X-Forwarded-For", "192.0.2.1"))
    ),
    "each event of one approval is approved": lambda: (
        Story()
        .show(event(1, **ORDER), event(2, **ORDER))
        .approve(1, 2)
        .show(event(1, "Started", **ORDER), event(2, "Started", **ORDER))
    ),
    "an approval has an effect": lambda: (
        Story().show(event(**ORDER)).approve(1).show(event(1, "Started", **ORDER))
    ),
    "a user's request starts at its NotBefore": lambda: life(**ORDER),
    "a deletion is announced at most 15 minutes ahead": lambda: life(**TERMINATE),
    "a failure has no notice: it is Started at once": lambda: Story().show(
        event(status="Started", Description=FAILED)
    ),
    "the text fits the type and the source": lambda: life(**ORDER),
    "every version is served": life,
    "older versions do not show later members": life,
    "the preview's names begin with _": life,
    "everything else is the same in each version": life,
    "Preempt is hidden before 2017-11-01": lambda: life(**PREEMPT),
    "Terminate is hidden before 2019-01-01": lambda: life(**TERMINATE),
    "a version hides nothing else": life,
    "two members: DocumentIncarnation, Events": life,
    "Events is an array, empty without events": life,
    "compact: no blanks outside strings": life,
    "an event's members and their order": life,
    "ids are GUIDs in upper case": life,
    "two events have two ids": lambda: Story().show(event(1), event(2)),
    "the type is one of five": life,
    "the resource type is VirtualMachine": life,
    "resources are names of VMs": life,
    "EventStatus is Scheduled or Started": life,
    "NotBefore of a Scheduled event is RFC 1123": life,
    "NotBefore of a Started event is empty": life,
    "EventSource is Platform or User": life,
    "the description is a string": life,
    "the duration is whole seconds": life,
    "the incarnation is an integer from 1 on": life,
    "one incarnation has one content": life,
    "all versions have one incarnation": life,
    "the source fits the type": lambda: life(**PREEMPT),
    "a refusal approves nothing": refused,
    "an approval covers every named VM": lambda: (
        Story()
        .show(event(Resources=["vm_0", "vm_1"]))
        .approve(1)
        .show(event(status="Started", Resources=["vm_0", "vm_1"]))
    ),
    "an approval postpones nothing": lambda: approved().wait(),
    "an approved event is shown as Started": lambda: approved(event(status="Started")),
    "an event keeps its id when it is Started": life,
    "the id of a removed event is not shown again": life,
    "NotBefore is never moved to an earlier time": lambda: (
        Story().show(event(1)).show(event(1), event(2))
    ),
    "the incarnation rises with a change, and only then": life,
    "the incarnation never falls": life,
    "an event begins Scheduled": life,
    "a status never goes back": life,
    "an event does not start before its NotBefore": life,
    "an event keeps its type and source": life,
    "the notice is long enough": lambda: (
        Story().show(event(1)).show(event(1), event(2, due=902))
    ),
}
"""For each rule, a story that follows it."""
