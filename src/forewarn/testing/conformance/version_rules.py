"""Rules of what each api-version shows of one document (1.3 to 1.5).

A moment holds what all versions showed while the newest did not change, so that they
can be compared.
"""

from collections.abc import Callable, Iterator

from forewarn.protocol.events import EventType
from forewarn.protocol.versions import NEWEST, VERSIONS, ApiVersion
from forewarn.testing.conformance.check import Rule
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
    texts,
)
from forewarn.testing.conformance.exchanges import target
from forewarn.testing.conformance.transcript import Transcript
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge

OLD_EVENT = "a Freeze, Reboot or Redeploy event"
"""Of the types that every version shows."""

A_QUIET_MOMENT = "a document that stays the same while eight requests read it"


def _served(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for version in VERSIONS:
            what = f"GET at {version.name}"
            for shown in seen.shown[version.name][:1]:
                saw = f"{what}: 200"
                yield Witness(saw=saw, exchanges=(shown.document.exchange,))
            for exchange in seen.unread:
                if version is not NEWEST and exchange.target == target(version.name):
                    wrong = f"{what}: expected 200, got {exchange.outcome}"
                    yield Witness(saw=what, exchanges=(exchange,), complaint=wrong)

    return judge(witnesses(), needs="an answer of 200 to a plain GET")


Compared = Callable[[Members, Members, Document], str]
"""Returns what is wrong with how an older version shows an event of the newest."""


def _of_older(
    seen: Transcript,
    complain: Compared,
    *,
    where: Callable[[ApiVersion], bool],
    needs: str,
) -> Verdict:
    """Compare what older versions show of each event with what the newest does."""

    def witnesses() -> Iterator[Witness]:
        for moment in seen.moments:
            for other in moment.others:
                if not where(other.version):
                    continue
                if other.incarnation != moment.newest.incarnation:
                    continue
                for key, event in moment.newest.by_id.items():
                    if key in other.by_id:
                        wrong = complain(event, other.by_id[key], other)
                        yield of_document(other, describe(event), wrong)

    return judge(witnesses(), needs=needs)


def _later_members(seen: Transcript) -> Verdict:
    def complain(event: Members, older: Members, document: Document) -> str:
        wanted = members_of(document.version)
        for name in LATER_MEMBERS:
            if name in older and name not in wanted:
                return f"it shows {name}, which came later: {brief(older)}"
            if name not in older and name in wanted and name in event:
                return f"it lacks {name}: {brief(older)}"
        return ""

    return _of_older(
        seen,
        complain,
        where=lambda version: not version.duration,
        needs=AN_EVENT,
    )


def _same_members(seen: Transcript) -> Verdict:
    def complain(event: Members, older: Members, document: Document) -> str:
        for name in older.keys() & event.keys() - {"Resources"}:
            if older[name] != event[name]:
                return f"{name} is {brief(older[name])}, not {brief(event[name])}"
        if document.version.underscore:
            return ""
        return _complain_of_names(event, older, prefix="")

    return _of_older(seen, complain, where=lambda _version: True, needs=AN_EVENT)


def _underscores(seen: Transcript) -> Verdict:
    def complain(event: Members, older: Members, _document: Document) -> str:
        return _complain_of_names(event, older, prefix="_")

    return _of_older(
        seen, complain, where=lambda version: version.underscore, needs=OLD_EVENT
    )


def _complain_of_names(event: Members, older: Members, *, prefix: str) -> str:
    names = texts(event.get("Resources"))
    wanted = None if names is None else [prefix + name for name in names]
    found: object = older.get("Resources")
    if wanted is None or found == wanted:
        return ""
    return f"Resources is {brief(found)}, not {wanted}"


def _hidden(seen: Transcript, hidden: EventType) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for moment in seen.moments:
            for key, event in moment.newest.by_id.items():
                if event.get("EventType") != hidden.value:
                    continue
                for other in moment.others:
                    if hidden in other.version.hidden:
                        is_there = key in other.by_id
                        wrong = f"it shows {describe(event)}" if is_there else ""
                        yield of_document(other, f"no {describe(event)}", wrong)

    return judge(witnesses(), needs=f"a {hidden.value} event")


def _not_hidden(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for moment in seen.moments:
            for other in moment.others:
                if other.incarnation != moment.newest.incarnation:
                    continue
                hidden = [each.value for each in other.version.hidden]
                wanted = [
                    event_id(event)
                    for event in moment.newest.events
                    if event.get("EventType") not in hidden
                ]
                found = [
                    event_id(event)
                    for event in other.events
                    if event.get("EventType") not in hidden
                ]
                wrong = "" if found == wanted else f"expected {wanted}, got {found}"
                if wanted or wrong:
                    yield of_document(other, f"{len(wanted)} events", wrong)

    return judge(witnesses(), needs=OLD_EVENT)


def _one_number(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for moment in seen.moments:
            newest = moment.newest
            for other in moment.others:
                one, two = newest.incarnation, other.incarnation
                what = f"incarnation {two} at {other.version.name}"
                wrong = "" if one == two else f"{what}, and {one} at {NEWEST.name}"
                yield Witness(
                    saw=what,
                    exchanges=(other.exchange, moment.again),
                    complaint=wrong,
                )

    return judge(witnesses(), needs=A_QUIET_MOMENT)


RULES = (
    Rule("1.3", "every version is served", _served),
    Rule("1.4", "a member is shown from its version on", _later_members),
    Rule("1.4", "the preview's names begin with _", _underscores),
    Rule("1.4", "everything else is the same in each version", _same_members),
    Rule(
        "1.5",
        "Preempt is hidden before 2017-11-01",
        lambda seen: _hidden(seen, EventType.PREEMPT),
    ),
    Rule(
        "1.5",
        "Terminate is hidden before 2019-01-01",
        lambda seen: _hidden(seen, EventType.TERMINATE),
    ),
    Rule("1.5", "a version hides nothing else", _not_hidden),
    Rule("2.10", "all versions have one incarnation", _one_number),
)
