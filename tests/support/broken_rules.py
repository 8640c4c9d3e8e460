"""Stories in which rules see what is broken."""

from dataclasses import replace

from forewarn.testing.client import METADATA
from forewarn.testing.conformance.documents import target
from tests.support.rule_stories import (
    FAILED,
    OLD,
    OLDEST,
    ORDER,
    RESTARTED,
    Told,
    answered,
    approved,
    bent,
    cut,
    headed,
    life_with,
    malformed,
    nulled,
    once,
    refused_and_taken,
    rewritten,
    shown_at,
    taken,
)
from tests.support.shown_documents import Story, event, key

BROKEN: dict[str, list[tuple[Told, str]]] = {
    "each GET of the document is answered": [
        (lambda: bent(lambda answer: replace(answer, status=500)), "got 500"),
        (lambda: bent(lambda answer: replace(answer, status=204)), "got 204"),
    ],
    "a refusal is JSON with a message": [
        (lambda: bent(lambda _: answered(405, b"<p>no</p>")), "405 b'<p>no"),
        (lambda: bent(lambda _: answered(400, b'{"error":""}')), "has no message"),
    ],
    "the ETag is the incarnation": [
        (lambda: headed("ETag", '"7"'), "the incarnation 1 as ETag, got '\"7\"'"),
    ],
    "a GET without a tag gets the whole document": [
        (lambda: bent(lambda _: answered(304, b"")), "got 304"),
    ],
    "an earlier tag gets the new document": [
        (
            lambda: Story(tags_are_equal=True).show().show(event()),
            "is 304 b''",
        ),
    ],
    "JSON has its content type, in UTF-8": [
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
    "instance and events have the same name": [
        (lambda: Story(name="vm0.local").show(event()), "one VM has two names"),
    ],
    "no body is compressed without a request for it": [
        (lambda: headed("Content-Encoding", "gzip"), "gzip, without Accept-Encoding"),
    ],
    "each answer is complete": [
        (lambda: Story(bend=cut).show(), "cut short"),
    ],
    "each answer is well-formed": [
        (lambda: Story(bend=malformed).show(), "a chunk is invalid: b'-5\\r\\n'"),
    ],
    "the first request gets a document": [
        (lambda: once(answered(503, b"{}")).wait(), "the first request got 503"),
        (lambda: once(answered(200, b"")).wait(), "the first request got 200 b''"),
    ],
    "an approval needs a version": [
        (lambda: taken("/x"), "to /x: expected 400, got 200"),
    ],
    "an approval needs the header": [
        (lambda: taken(headers=()), "with Metadata []: expected 400, got 200"),
        (
            lambda: taken(headers=(("metadata", "false"),)),
            "with Metadata ['false']: expected 400",
        ),
    ],
    "no approval is forwarded": [
        (
            lambda: taken(headers=(*METADATA, ("X-Forwarded-For", "192.0.2.1"))),
            "with X-Forwarded-For: expected 400",
        ),
    ],
    "each event of one approval is approved": [
        (
            lambda: (
                Story()
                .show(event(1, **ORDER), event(2, **ORDER))
                .approve(1, 2)
                .show(event(1, "Started", **ORDER), event(2, **ORDER))
                .show(event(2, **ORDER))
                .wait(150)
            ),
            f"Reboot {key(2)} Scheduled was approved with others and is still waiting 2 m 31 s",
        ),
    ],
    "an approval has an effect": [
        (
            lambda: Story().show(event(**ORDER)).approve(1).wait(150),
            "was approved and is still waiting 2 m 30 s",
        ),
    ],
    "a user's request starts at its NotBefore": [
        (
            lambda: Story().show(event(**ORDER)).wait(1200),
            "is still Scheduled, 5 m 1 s after",
        ),
    ],
    "a deletion is announced at most 15 minutes ahead": [
        (
            lambda: Story().show(event(kind="Terminate", due=1200)),
            "expected 15 m at most",
        ),
    ],
    "a failure has no notice: it is Started at once": [
        (lambda: Story().show(event(Description=FAILED)), "it was announced: Reboot"),
    ],
    "the text fits the type and the source": [
        (
            lambda: Story().show(event(kind="Freeze", **ORDER)),
            "expected ('Reboot', 'User')",
        ),
        (
            lambda: Story().show(event(Description=RESTARTED)),
            "describes ('Reboot', 'Platform')",
        ),
    ],
    "every version is served": [
        (lambda: bent(lambda _: answered(400, b"{}"), at=OLD), "expected 200"),
    ],
    "older versions do not show later members": [
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
            "the member 'Events' occurs twice",
        ),
    ],
    "Events is an array, empty without events": [
        (lambda: Story(bend=nulled).show(event()), "Events is None, not an array"),
        (lambda: rewritten(b'"Events":[{', b'"Events":[7,{'), "has 7, which is not"),
        (lambda: once(answered(204, b"")).wait(), "an empty array, got 204"),
        (lambda: once(answered(404, b"{}")).wait(), "an empty array, got 404"),
    ],
    "compact: no blanks outside strings": [
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
        (lambda: Story().show(event(Resources=["a", "a"])), "not an array of dist"),
        (lambda: Story().show(event(Resources=["/a/b"])), "not the name of a VM"),
    ],
    "EventStatus is Scheduled or Started": [
        (lambda: life_with("Completed"), "EventStatus is 'Completed'"),
    ],
    "NotBefore of a Scheduled event is RFC 1123": [
        (
            lambda: Story().show(event(NotBefore="2030-01-01T00:00:00Z")),
            "is not like 'Mon",
        ),
        (
            lambda: Story().show(event(NotBefore="Mon, 17 Mar 2030 17:46:40 GMT")),
            "expected 'Sun, 17 Mar 2030",
        ),
        (
            lambda: Story().show(event(NotBefore="Fri, 31 Feb 2031 17:46:40 GMT")),
            "is not a valid date",
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
    "EventSource is Platform or User": [
        (lambda: Story().show(event(EventSource="Azure")), "EventSource is 'Azure'"),
    ],
    "the description is a string": [
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
        (refused_and_taken, "but only refused requests named it"),
    ],
    "an approval covers every named VM": [
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
        (lambda: approved(event(due=1800)), "when it was approved; now it is"),
    ],
    "an approved event is shown as Started": [
        (
            lambda: approved().show(event(2, kind="Freeze")).approve(2).show(),
            f"{key(1)} and {key(2)} were approved and then removed, but never",
        ),
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
    "the id of a removed event is not shown again": [
        (lambda: Story().show(event()).show().show(event()), "is shown again"),
    ],
    "NotBefore is never moved to an earlier time": [
        (lambda: Story().show(event()).show(event(due=60)), "GMT, and was"),
    ],
    "the incarnation rises with a change, and only then": [
        (
            lambda: Story().show(event()).show(event()),
            "rose from 1 to 2, but Events did not change",
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
    "a status never goes back": [
        (
            lambda: Story().show(event(status="Started")).show(event()),
            "was Started and is Scheduled again",
        ),
    ],
    "an event does not start before its NotBefore": [
        (
            lambda: Story().show(event()).show(event(status="Started")),
            "before its NotBefore, and this client did not approve it",
        ),
    ],
    "an event keeps its type and source": [
        (
            lambda: Story().show(event()).show(event(kind="Freeze")),
            "was 'Reboot' and is now 'Freeze'",
        ),
    ],
    "the notice is long enough": [
        (
            lambda: Story().show(event(1)).show(event(1), event(2, due=600)),
            "expected 15 m",
        ),
    ],
}
"""For each rule, stories that violate it, each with a part of the complaint."""
