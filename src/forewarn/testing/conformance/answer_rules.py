"""Rules for every answer: its status, error body, content type and ETag."""

import re
from collections.abc import Iterator
from http import HTTPStatus

from forewarn.protocol.versions import NEWEST
from forewarn.testing.answers import How
from forewarn.testing.conformance.check import Rule, Witness, against, judged
from forewarn.testing.conformance.documents import (
    Exchange,
    brief,
    decode,
    describe,
    target,
    texts,
)
from forewarn.testing.conformance.inquiry import INSTANCE_TARGET
from forewarn.testing.conformance.transcript import Transcript

AN_APPROVAL = "--approve, and an event"


IDENTITY = "identity"
"""The Content-Encoding of an uncompressed body."""


def _read(transcript: Transcript) -> Iterator[Witness]:
    for exchange in transcript.unread:
        if exchange.target == target() and exchange.status != HTTPStatus.NOT_MODIFIED:
            yield against(f"a GET of the document got {exchange.outcome}", exchange)
    for version in transcript.newest:
        yield Witness(
            saw=f"{version.reads} reads, each with 200",
            exchanges=(version.document.exchange, version.last),
        )


def _refusals(transcript: Transcript) -> Iterator[Witness]:
    for exchange in transcript.exchanges:
        if exchange.status < HTTPStatus.BAD_REQUEST or exchange.method == "HEAD":
            continue
        request = f"{exchange.method} {exchange.target}"
        try:
            sentence = decode(exchange.payload).get("error")
        except ValueError as error:
            yield against(f"{request}: {error}: {exchange.outcome}", exchange)
        else:
            yield judged(
                f"{request}: {exchange.status}",
                exchange,
                is_right=isinstance(sentence, str) and bool(sentence),
                wrong=f"{request}: `error` has no message: {exchange.outcome}",
            )


def _content_types(transcript: Transcript) -> Iterator[Witness]:
    for exchange in transcript.exchanges:
        try:
            decode(exchange.payload)
        except ValueError:
            continue
        content_type = exchange.header("Content-Type") or ""
        bare = re.sub(r'[\s"]', "", content_type).lower()
        answer = f"{exchange.method} {exchange.target}: {exchange.status}"
        yield judged(
            answer,
            exchange,
            is_right=bare == "application/json;charset=utf-8",
            wrong=f"{answer}: expected application/json; charset=utf-8, got {content_type!r}",
        )


def _as_they_are(transcript: Transcript) -> Iterator[Witness]:
    for exchange in transcript.exchanges:
        if exchange.payload:
            coding = exchange.header("Content-Encoding") or IDENTITY
            answer = f"{exchange.method} {exchange.target}: Content-Encoding {coding}"
            yield judged(
                answer,
                exchange,
                is_right=coding.strip().lower() == IDENTITY,
                wrong=f"{answer}, without Accept-Encoding",
            )


def _whole_bodies(transcript: Transcript) -> Iterator[Witness]:
    for exchange in transcript.exchanges:
        request = f"{exchange.method} {exchange.target}"
        if exchange.broken and exchange.broken is not How.MALFORMED:
            yield against(f"{request}: {exchange.failure}", exchange)
        elif exchange.payload:
            yield Witness(
                saw=f"{request}: {len(exchange.payload)} bytes, as announced",
                exchanges=(exchange,),
            )


def _well_formed(transcript: Transcript) -> Iterator[Witness]:
    for exchange in transcript.exchanges:
        request = f"{exchange.method} {exchange.target}"
        if exchange.broken is How.MALFORMED:
            yield against(f"{request}: {exchange.failure}", exchange)
        elif exchange.answer is not None:
            yield Witness(saw=f"{request}: {exchange.status}", exchanges=(exchange,))


def _first_answer(transcript: Transcript) -> Iterator[Witness]:
    reads = [
        shown.document.exchange for shown in transcript.newest[:1]
    ] + transcript.unread[:1]
    reads += [shown.document.exchange for shown in transcript.shown[NEWEST.name][:1]]
    first = min(reads, key=lambda exchange: exchange.number, default=None)
    if (
        first is None
        or not transcript.newest
        or first.status == HTTPStatus.TOO_MANY_REQUESTS
    ):
        return
    shown = transcript.newest[0].document.exchange
    saw = f"the first request got {first.outcome}"
    if shown is first:
        yield Witness(saw=saw, exchanges=(first,))
    else:
        yield against(f"{saw}; request {shown.number} got a document", first, shown)


def _own_resources(transcript: Transcript) -> Iterator[Witness]:
    """Compare compute.name with Resources, which must not have the guest's host name.

    Names of other VMs prove nothing, so only a name that resembles compute.name is a
    violation.
    """

    own_reads = [
        exchange
        for exchange in transcript.exchanges
        if exchange.target == INSTANCE_TARGET and exchange.status == HTTPStatus.OK
    ]
    if not own_reads or not transcript.name:
        return
    named: dict[str, Exchange] = {}
    for shown in transcript.newest:
        for event in shown.document.events:
            for name in texts(event.get("Resources")) or []:
                named.setdefault(name, shown.document.exchange)
    if transcript.name in named:
        yield Witness(
            saw=f"compute.name and Resources both have {transcript.name}",
            exchanges=(own_reads[0], named[transcript.name]),
        )
        return
    for name, exchange in named.items():
        if _letters(name) == _letters(transcript.name.partition(".")[0]):
            yield against(
                f"compute.name is {brief(transcript.name)}, but Resources has {brief(name)}: "
                "one VM has two names",
                own_reads[0],
                exchange,
            )


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def _empty_answers(transcript: Transcript) -> Iterator[Witness]:
    for event_id, exchanges in transcript.approved.items():
        for exchange in exchanges:
            yield judged(
                f"an approval of {event_id}: 200 and no body",
                exchange,
                is_right=not exchange.payload,
                wrong=f"an approval of {event_id} was answered with {exchange.outcome}",
            )


def _tags(transcript: Transcript) -> Iterator[Witness]:
    for document in transcript.documents:
        number, tag = document.incarnation, document.exchange.header("ETag")
        if number is not None:
            yield judged(
                f"ETag {tag}",
                document.exchange,
                is_right=tag is not None and tag.strip('"') == str(number),
                wrong=f"expected the incarnation {number} as ETag, got {brief(tag)}",
            )


def _whole(transcript: Transcript) -> Iterator[Witness]:
    for exchange in transcript.unread:
        if exchange.status == HTTPStatus.NOT_MODIFIED:
            yield against("a GET without If-None-Match got 304", exchange)
    for version in transcript.newest:
        if version.reads > 1:
            yield Witness(
                saw=f"{version.reads} reads of one document, each complete",
                exchanges=(version.document.exchange, version.last),
            )


def _old_tags(transcript: Transcript) -> Iterator[Witness]:
    for read in transcript.tag_reads:
        tag = read.old.exchange.header("ETag")
        request = f"If-None-Match: {tag}, the tag of an earlier document"
        events = ", ".join(map(describe, read.new.events)) or "no events"
        yield judged(
            f"{request}: {read.exchange.status}",
            read.new.exchange,
            read.exchange,
            is_right=read.exchange.status == read.new.exchange.status,
            wrong=f"{request}: the document has {events}, but the answer is "
            f"{read.exchange.outcome}",
        )


RULES = (
    Rule(
        "1.1",
        "each GET of the document is answered",
        _read,
        needs="an endpoint that accepts this many requests",
    ),
    Rule(
        "1.8",
        "a refusal is JSON with a message",
        _refusals,
        needs="a request that is refused",
    ),
    Rule(
        "1.10",
        "the ETag is the incarnation",
        _tags,
        needs="a document that can be read",
    ),
    Rule(
        "1.10",
        "a GET without a tag gets the whole document",
        _whole,
        needs="two reads of one document",
    ),
    Rule(
        "1.10",
        "an earlier tag gets the new document",
        _old_tags,
        needs="a document that changes",
    ),
    Rule(
        "1.11",
        "instance and events have the same name",
        _own_resources,
        needs="an event that names this VM",
    ),
    Rule(
        "1.12",
        "JSON has its content type, in UTF-8",
        _content_types,
        needs="an answer that is JSON",
    ),
    Rule(
        "1.12",
        "no body is compressed without a request for it",
        _as_they_are,
        needs="an answer with a body",
    ),
    Rule(
        "1.12",
        "each answer is complete",
        _whole_bodies,
        needs="an answer with a body",
    ),
    Rule("1.12", "each answer is well-formed", _well_formed, needs="an answer"),
    Rule("1.12", "an approval has an empty answer", _empty_answers, needs=AN_APPROVAL),
    Rule(
        "7.1",
        "the first request gets a document",
        _first_answer,
        needs="an answer of 200 to a plain GET",
    ),
)
