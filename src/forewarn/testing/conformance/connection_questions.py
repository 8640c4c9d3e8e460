"""Questions of what is sent on one connection: where an answer ends, and what follows.

A byte too much or too few shows in the next answer only. None of them approves but the
last one.
"""

from collections.abc import Iterator
from http import HTTPStatus

from forewarn.testing.client import METADATA, Sent
from forewarn.testing.conformance.check import Question
from forewarn.testing.conformance.documents import event_id
from forewarn.testing.conformance.exchanges import Exchange, target
from forewarn.testing.conformance.inquiry import (
    Inquiry,
    UntriedError,
    start_requests,
)
from forewarn.testing.conformance.request_questions import (
    MALFORMED,
    has_status,
    is_first,
)
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge

A_KEPT_CONNECTION = "an endpoint that takes two requests on one connection"

CHUNKED = ("Transfer-Encoding", "chunked")


def _second(first: Exchange, second: Exchange, what: str) -> Witness:
    """Judge the answer to a plain GET that follows another one on a connection."""
    complaint = ""
    if second.status != HTTPStatus.OK:
        complaint = f"{what}, and then a GET on the same connection: expected 200, got "
        complaint += second.outcome
    saw = f"{what}, and then a GET on the same connection: {second.status}"
    return Witness(saw=saw, exchanges=(first, second), complaint=complaint)


def _pairs(inquiry: Inquiry, *firsts: Sent) -> Iterator[Witness]:
    """Judge what a GET gets after each of those, where the connection is kept."""
    for sent in firsts:
        exchanges = inquiry.ask_in_turn(sent, Sent(target=target()))
        if len(exchanges) > 1:
            first, second = exchanges
            yield _second(first, second, f"{sent.method}: {first.status}")


def _goes_on(inquiry: Inquiry) -> Verdict:
    firsts = (
        Sent(target=target()),
        Sent(method="POST", target=target(), body=MALFORMED),
        Sent(method="POST", target=target(), headers=(), body=MALFORMED),
        Sent(method="PUT", target=target(), body=MALFORMED),
    )
    return judge(_pairs(inquiry, *firsts), needs=A_KEPT_CONNECTION)


def _need_kept(inquiry: Inquiry) -> None:
    """Raise UntriedError unless two plain GETs are answered on one connection."""
    plain = Sent(target=target())
    exchanges = inquiry.ask_in_turn(plain, plain)
    if [each.status for each in exchanges] != [HTTPStatus.OK, HTTPStatus.OK]:
        raise UntriedError(A_KEPT_CONNECTION)


def _bare_head(inquiry: Inquiry) -> Verdict:
    _need_kept(inquiry)
    head = Sent(method="HEAD", target=target())
    return judge(_pairs(inquiry, head), needs=A_KEPT_CONNECTION)


def _bare_304(inquiry: Inquiry) -> Verdict:
    tag = inquiry.read().exchange.header("ETag")
    if tag is None:
        raise UntriedError("a document with an ETag")
    _need_kept(inquiry)
    headers = (*METADATA, ("If-None-Match", tag))
    exchanges = inquiry.ask_in_turn(
        Sent(target=target(), headers=headers), Sent(target=target())
    )
    first = exchanges[0]
    if first.status != HTTPStatus.NOT_MODIFIED:
        raise UntriedError("a document that does not change, and a 304 for its tag")

    def witnesses() -> Iterator[Witness]:
        for second in exchanges[1:]:
            yield _second(first, second, "a 304")

    return judge(witnesses(), needs=A_KEPT_CONNECTION)


def _header_of_approvals(inquiry: Inquiry) -> Verdict:
    """Whether a POST is refused for want of the header, and not because of its body."""

    what = "a malformed POST without the header is refused because of the header"
    witnesses = is_first(
        inquiry.ask("POST", target(), headers=(), body=MALFORMED),
        inquiry.ask("GET", target(), headers=()),
        inquiry.post(MALFORMED),
        what,
    )
    return judge(witnesses, needs="an endpoint that says which of two things is wrong")


def _chunked(inquiry: Inquiry) -> Verdict:
    approved = inquiry.seen.approved
    key = next((k for e in inquiry.events() if (k := event_id(e)) in approved), "")
    if not key:
        raise UntriedError("an event that was approved from here")
    headers = (*METADATA, CHUNKED)
    exchange = inquiry.ask("POST", target(), headers=headers, body=start_requests(key))
    what = f"an approval of {key} in chunks"
    return judge((has_status(exchange, 200, what),), needs=A_KEPT_CONNECTION)


QUESTIONS = (
    Question("1.2", "nothing follows the refusal of a HEAD", _bare_head),
    Question("1.6", "a POST without the header is told so", _header_of_approvals),
    Question("1.10", "nothing follows a 304", _bare_304),
    Question("1.12", "a connection goes on after each answer", _goes_on),
)

APPROVING = (
    Question("1.12", "an approval may come in chunks", _chunked, approves=True),
)
"""To be asked when something was approved."""
