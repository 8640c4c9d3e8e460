"""Rules for the differences between api-versions of one document (1.3 to 1.5).

A moment contains one document in all versions. The newest version did not change
meanwhile, so the versions can be compared.
"""

from collections.abc import Callable, Iterator

from forewarn.protocol.events import EventType
from forewarn.protocol.versions import NEWEST, VERSIONS, ApiVersion
from forewarn.testing.conformance.check import Rule, Witness, against, judged
from forewarn.testing.conformance.document_rules import (
    AN_EVENT,
    LATER_MEMBERS,
    members_of,
    of_document,
)
from forewarn.testing.conformance.documents import (
    Document,
    Members,
    brief,
    describe,
    event_id,
    target,
    texts,
)
from forewarn.testing.conformance.transcript import Transcript

OLD_EVENT = "a Freeze, Reboot or Redeploy event"
"""An event of a type that every version shows."""


def _served(transcript: Transcript) -> Iterator[Witness]:
    for version in VERSIONS:
        request = f"GET at {version.name}"
        for shown in transcript.shown[version.name][:1]:
            yield Witness(saw=f"{request}: 200", exchanges=(shown.document.exchange,))
        for exchange in transcript.unread:
            if version is not NEWEST and exchange.target == target(version.name):
                yield against(
                    f"{request}: expected 200, got {exchange.outcome}", exchange
                )


def _of_older(
    complain: Callable[[Members, Members, ApiVersion], str],
    *,
    where: Callable[[ApiVersion], bool] = lambda _version: True,
) -> Callable[[Transcript], Iterator[Witness]]:
    """Return a rule that compares each event of the newest version with older ones.

    `complain` returns a description of the violation, or an empty string.
    """

    def witnesses(transcript: Transcript) -> Iterator[Witness]:
        for newest, other in _at_once(transcript):
            for key, event in newest.by_id.items():
                if key in other.by_id and where(other.version):
                    wrong = complain(event, other.by_id[key], other.version)
                    yield of_document(other, describe(event), wrong)

    return witnesses


def _at_once(transcript: Transcript) -> Iterator[tuple[Document, Document]]:
    """Yield each document in the newest version and in one older version."""
    for moment in transcript.moments:
        for other in moment.others:
            if other.incarnation == moment.newest.incarnation:
                yield moment.newest, other


def _later_members(event: Members, older: Members, version: ApiVersion) -> str:
    wanted = members_of(version)
    for name in LATER_MEMBERS:
        if name in older and name not in wanted:
            return f"it shows {name}, which only later versions have: {brief(older)}"
        if name not in older and name in wanted and name in event:
            return f"it lacks {name}: {brief(older)}"
    return ""


def _same_members(event: Members, older: Members, version: ApiVersion) -> str:
    for name in older.keys() & event.keys() - {"Resources"}:
        if older[name] != event[name]:
            return f"{name} is {brief(older[name])}, not {brief(event[name])}"
    return "" if version.underscore else _names(event, older, version)


def _names(event: Members, older: Members, version: ApiVersion) -> str:
    names = texts(event.get("Resources"))
    prefix = "_" if version.underscore else ""
    wanted = None if names is None else [prefix + name for name in names]
    resources: object = older.get("Resources")
    is_right = wanted is None or resources == wanted
    return "" if is_right else f"Resources is {brief(resources)}, not {wanted}"


def _hidden(hidden: EventType) -> Callable[[Transcript], Iterator[Witness]]:
    def witnesses(transcript: Transcript) -> Iterator[Witness]:
        for moment in transcript.moments:
            for other in moment.others:
                for key, event in moment.newest.by_id.items():
                    is_meant = event.get("EventType") == hidden.value
                    if is_meant and hidden in other.version.hidden:
                        wrong = f"it shows {describe(event)}"
                        is_there = key in other.by_id
                        yield of_document(
                            other, f"no {describe(event)}", wrong if is_there else ""
                        )

    return witnesses


def _not_hidden(transcript: Transcript) -> Iterator[Witness]:
    for newest, other in _at_once(transcript):
        hidden = [event_type.value for event_type in other.version.hidden]
        wanted, actual = (
            [
                event_id(event)
                for event in document.events
                if event.get("EventType") not in hidden
            ]
            for document in (newest, other)
        )
        wrong = "" if actual == wanted else f"expected {wanted}, got {actual}"
        if wanted or wrong:
            yield of_document(other, f"{len(wanted)} events", wrong)


def _one_number(transcript: Transcript) -> Iterator[Witness]:
    for moment in transcript.moments:
        for other in moment.others:
            one, two = moment.newest.incarnation, other.incarnation
            subject = f"incarnation {two} at {other.version.name}"
            yield judged(
                subject,
                *(other.exchange, moment.again),
                is_right=one == two,
                wrong=f"{subject}, and {one} at {NEWEST.name}",
            )


RULES = (
    Rule(
        "1.3",
        "every version is served",
        _served,
        needs="an answer of 200 to a plain GET",
    ),
    Rule(
        "1.4",
        "older versions do not show later members",
        _of_older(_later_members, where=lambda version: not version.duration),
        needs=AN_EVENT,
    ),
    Rule(
        "1.4",
        "the preview's names begin with _",
        _of_older(_names, where=lambda version: version.underscore),
        needs=OLD_EVENT,
    ),
    Rule(
        "1.4",
        "everything else is the same in each version",
        _of_older(_same_members),
        needs=AN_EVENT,
    ),
    Rule(
        "1.5",
        "Preempt is hidden before 2017-11-01",
        _hidden(EventType.PREEMPT),
        needs="a Preempt event",
    ),
    Rule(
        "1.5",
        "Terminate is hidden before 2019-01-01",
        _hidden(EventType.TERMINATE),
        needs="a Terminate event",
    ),
    Rule("1.5", "a version hides nothing else", _not_hidden, needs=OLD_EVENT),
    Rule(
        "2.10",
        "all versions have one incarnation",
        _one_number,
        needs="a document that does not change while eight requests read it",
    ),
)
