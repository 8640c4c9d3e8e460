"""Rules for every answer: that there is one, its errors, its type and its tag."""

import re
from collections.abc import Iterator

from forewarn.protocol.versions import NEWEST
from forewarn.testing.answers import How
from forewarn.testing.conformance.check import Rule
from forewarn.testing.conformance.documents import brief, decode, describe, texts
from forewarn.testing.conformance.exchanges import Exchange, target
from forewarn.testing.conformance.inquiry import INSTANCE_TARGET
from forewarn.testing.conformance.transcript import Transcript
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge

AN_APPROVAL = "--approve, and an event"

OK = 200
NOT_MODIFIED = 304
REFUSED_FROM = 400
TOO_MANY_REQUESTS = 429

IDENTITY = "identity"
"""The Content-Encoding of a body that is not compressed."""


def _read(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for exchange in seen.unread:
            if exchange.target == target() and exchange.status != NOT_MODIFIED:
                wrong = f"a GET of the document got {exchange.outcome}"
                yield Witness(saw=wrong, exchanges=(exchange,), complaint=wrong)
        for each in seen.newest:
            yield Witness(
                saw=f"{each.reads} reads, each with 200",
                exchanges=(each.document.exchange, each.last),
            )

    return judge(witnesses(), needs="an endpoint that takes so many requests")


def _refusals(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for exchange in seen.exchanges:
            if exchange.status < REFUSED_FROM or exchange.method == "HEAD":
                continue
            what = f"{exchange.method} {exchange.target}: {exchange.status}"
            wrong = ""
            try:
                sentence = decode(exchange.payload).get("error")
            except ValueError as error:
                wrong = f"{error}: {exchange.outcome}"
            else:
                if not isinstance(sentence, str) or not sentence:
                    wrong = f"no sentence in `error`: {exchange.outcome}"
            yield Witness(
                saw=what,
                exchanges=(exchange,),
                complaint=f"{exchange.method} {exchange.target}: {wrong}"
                if wrong
                else "",
            )

    return judge(witnesses(), needs="a request that is refused")


def _content_types(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for exchange in seen.exchanges:
            if not _is_json(exchange):
                continue
            said = exchange.header("Content-Type") or ""
            found = re.sub(r'[\s"]', "", said).lower()
            what = f"{exchange.method} {exchange.target}: {exchange.status}"
            wrong = ""
            if found != "application/json;charset=utf-8":
                wrong = (
                    f"{what}: expected application/json; charset=utf-8, got {said!r}"
                )
            yield Witness(saw=what, exchanges=(exchange,), complaint=wrong)

    return judge(witnesses(), needs="an answer that is JSON")


def _is_json(exchange: Exchange) -> bool:
    try:
        decode(exchange.payload)
    except ValueError:
        return False
    return True


def _as_they_are(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for exchange in seen.exchanges:
            if not exchange.payload:
                continue
            coding = exchange.header("Content-Encoding") or IDENTITY
            what = f"{exchange.method} {exchange.target}: Content-Encoding {coding}"
            is_plain = coding.strip().lower() == IDENTITY
            yield Witness(
                saw=what,
                exchanges=(exchange,),
                complaint="" if is_plain else f"{what}, without Accept-Encoding",
            )

    return judge(witnesses(), needs="an answer with a body")


def _whole_bodies(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for exchange in seen.exchanges:
            what = f"{exchange.method} {exchange.target}"
            if exchange.broken and exchange.broken is not How.MALFORMED:
                wrong = f"{what}: {exchange.failure}"
                yield Witness(saw=wrong, exchanges=(exchange,), complaint=wrong)
            elif exchange.payload:
                saw = f"{what}: {len(exchange.payload)} bytes, as it says"
                yield Witness(saw=saw, exchanges=(exchange,))

    return judge(witnesses(), needs="an answer with a body")


def _well_formed(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for exchange in seen.exchanges:
            what = f"{exchange.method} {exchange.target}"
            if exchange.broken is How.MALFORMED:
                wrong = f"{what}: {exchange.failure}"
                yield Witness(saw=wrong, exchanges=(exchange,), complaint=wrong)
            elif exchange.answer is not None:
                saw = f"{what}: {exchange.status}"
                yield Witness(saw=saw, exchanges=(exchange,))

    return judge(witnesses(), needs="an answer")


def _first_answer(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        reads = [each.document.exchange for each in seen.newest[:1]] + seen.unread[:1]
        reads += [each.document.exchange for each in seen.shown[NEWEST.name][:1]]
        first = min(reads, key=lambda each: each.number, default=None)
        if first is None or not seen.newest or first.status == TOO_MANY_REQUESTS:
            return
        shown = seen.newest[0].document.exchange
        saw = f"the first request got {first.outcome}"
        if shown is first:
            yield Witness(saw=saw, exchanges=(first,))
        else:
            wrong = f"{saw}, and request {shown.number} a document"
            yield Witness(saw=saw, exchanges=(first, shown), complaint=wrong)

    return judge(witnesses(), needs="an answer of 200 to a plain GET")


def _own_resources(seen: Transcript) -> Verdict:
    """Compare compute.name with Resources: the name of a guest's host is none of them.

    Others' names say nothing, so only one that looks like it is a complaint.
    """

    def witnesses() -> Iterator[Witness]:
        asked = [
            each
            for each in seen.exchanges
            if each.target == INSTANCE_TARGET and each.status == OK
        ]
        if not asked or not seen.name:
            return
        named: dict[str, Exchange] = {}
        for shown in seen.newest:
            for event in shown.document.events:
                for name in texts(event.get("Resources")) or []:
                    named.setdefault(name, shown.document.exchange)
        if seen.name in named:
            saw = f"compute.name and Resources say {seen.name}"
            yield Witness(saw=saw, exchanges=(asked[0], named[seen.name]))
            return
        for name, exchange in named.items():
            if _letters(name) == _letters(seen.name.partition(".")[0]):
                wrong = f"compute.name is {brief(seen.name)}, and Resources has "
                wrong += f"{brief(name)}: one VM, two names"
                exchanges = (asked[0], exchange)
                yield Witness(saw=wrong, exchanges=exchanges, complaint=wrong)

    return judge(witnesses(), needs="an event that names this VM")


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def _empty_answers(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for event_id, exchanges in seen.approved.items():
            for exchange in exchanges:
                wrong = f"an approval of {event_id} is answered with {exchange.outcome}"
                yield Witness(
                    saw=f"an approval of {event_id}: 200 and no body",
                    exchanges=(exchange,),
                    complaint=wrong if exchange.payload else "",
                )

    return judge(witnesses(), needs=AN_APPROVAL)


def _tags(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for document in seen.documents:
            number = document.incarnation
            if number is None:
                continue
            tag = document.exchange.header("ETag")
            wrong = ""
            if tag is None or tag.strip('"') != str(number):
                wrong = f"expected the incarnation {number} as ETag, got {brief(tag)}"
            yield Witness(
                saw=f"ETag {tag}", exchanges=(document.exchange,), complaint=wrong
            )

    return judge(witnesses(), needs="a document that can be read")


def _whole(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for exchange in seen.unread:
            if exchange.status == NOT_MODIFIED:
                wrong = "a GET without If-None-Match got 304"
                yield Witness(saw=wrong, exchanges=(exchange,), complaint=wrong)
        for each in seen.newest:
            if each.reads > 1:
                yield Witness(
                    saw=f"{each.reads} reads of one document, each with all of it",
                    exchanges=(each.document.exchange, each.last),
                )

    return judge(witnesses(), needs="two reads of one document")


def _old_tags(seen: Transcript) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for each in seen.tag_reads:
            tag = each.old.exchange.header("ETag")
            what = f"If-None-Match: {tag}, the tag of an earlier document"
            wrong = ""
            if each.exchange.status != each.new.exchange.status:
                events = ", ".join(map(describe, each.new.events)) or "no events"
                wrong = f"{what}: the document has {events}, and the answer is "
                wrong += each.exchange.outcome
            yield Witness(
                saw=f"{what}: {each.exchange.status}",
                exchanges=(each.new.exchange, each.exchange),
                complaint=wrong,
            )

    return judge(witnesses(), needs="a document that changes")


RULES = (
    Rule("1.1", "each GET of the document is answered", _read),
    Rule("1.8", "a refusal is JSON with a sentence", _refusals),
    Rule("1.10", "the ETag is the incarnation", _tags),
    Rule("1.10", "without a tag the document is whole", _whole),
    Rule("1.10", "an earlier tag gets the new document", _old_tags),
    Rule("1.11", "the instance has the name that events have", _own_resources),
    Rule("1.12", "JSON is typed as such, in UTF-8", _content_types),
    Rule("1.12", "nothing is compressed unasked", _as_they_are),
    Rule("1.12", "each answer goes on to its end", _whole_bodies),
    Rule("1.12", "each answer is well-formed", _well_formed),
    Rule("1.12", "an approval has an empty answer", _empty_answers),
    Rule("7.1", "the first request gets a document", _first_answer),
)
