"""Questions about connections and rates: one connection, a burst, a pause.

If an answer has a byte too many or too few, only the next answer on the connection
shows it. None of these questions approves an event.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus

from forewarn.testing.client import METADATA, Sent
from forewarn.testing.conformance.check import Question, Witness, has_status, judged
from forewarn.testing.conformance.documents import Exchange, target
from forewarn.testing.conformance.inquiry import Inquiry, UntriedError
from forewarn.testing.conformance.request_questions import MALFORMED, is_first

A_KEPT_CONNECTION = "an endpoint that accepts two requests on one connection"

PLAIN = Sent(target=target())

BURST = 150
"""Number of requests in a burst: enough to exceed a usual limit."""

RETRY_SECONDS_MAX = 10
"""Maximum wait after a 429, in seconds, even if Retry-After is longer."""

POLLS = 3
"""Number of requests, one per second, that no limit may refuse."""

AT_FIRST = 2
"""Maximum first incarnation of a scope: it is 2 if there are events already."""

SILENT_SECONDS = 3
"""Length of a pause that must not disable events, in seconds: a client's restart takes
longer."""

_SECONDS = re.compile(r"[0-9]+")
_DIGITS_MAX = 18
"""Maximum number of digits that are read: Python refuses to convert thousands of them,
and a longer wait makes no difference."""


# On one connection.


def _second(first: Exchange, second: Exchange, request: str) -> Witness:
    """Judge the answer to a plain GET that follows another request on a connection."""
    both = f"{request}, and then a GET on the same connection"
    return judged(
        f"{both}: {second.status}",
        *(first, second),
        is_right=second.status == HTTPStatus.OK,
        wrong=f"{both}: expected 200, got {second.outcome}",
    )


def _pairs(inquiry: Inquiry, *firsts: Sent) -> Iterator[Witness]:
    """Send a GET after each request, if the connection stays open, and judge it."""
    for sent in firsts:
        exchanges = inquiry.ask_in_turn(sent, PLAIN)
        if len(exchanges) > 1:
            first, second = exchanges
            yield _second(first, second, f"{sent.method}: {first.status}")


def _goes_on(inquiry: Inquiry) -> Iterator[Witness]:
    return _pairs(
        inquiry,
        PLAIN,
        Sent(method="POST", target=target(), body=MALFORMED),
        Sent(method="POST", target=target(), headers=(), body=MALFORMED),
        Sent(method="PUT", target=target(), body=MALFORMED),
    )


def _need_kept(inquiry: Inquiry) -> None:
    """Raise UntriedError unless two plain GETs are answered on one connection."""
    exchanges = inquiry.ask_in_turn(PLAIN, PLAIN)
    if [exchange.status for exchange in exchanges] != [HTTPStatus.OK, HTTPStatus.OK]:
        raise UntriedError(A_KEPT_CONNECTION)


def _bare_head(inquiry: Inquiry) -> Iterator[Witness]:
    _need_kept(inquiry)
    return _pairs(inquiry, Sent(method="HEAD", target=target()))


def _bare_304(inquiry: Inquiry) -> Iterator[Witness]:
    tag = inquiry.read().exchange.header("ETag")
    if tag is None:
        raise UntriedError("a document with an ETag")
    _need_kept(inquiry)
    headers = (*METADATA, ("If-None-Match", tag))
    first, *others = inquiry.ask_in_turn(Sent(target=target(), headers=headers), PLAIN)
    if first.status != HTTPStatus.NOT_MODIFIED:
        raise UntriedError("a document that does not change, and a 304 for its tag")
    for second in others:
        yield _second(first, second, "a 304")


def _header_of_approvals(inquiry: Inquiry) -> Iterator[Witness]:
    """Judge whether the missing header, not the body, is the reason for a refusal."""
    return is_first(
        inquiry.ask("POST", target(), headers=(), body=MALFORMED),
        inquiry.ask("GET", target(), headers=()),
        inquiry.post(MALFORMED),
        "a malformed POST without the header is refused because of the header",
    )


# How often.


def _limit(inquiry: Inquiry) -> Iterator[Witness]:
    for _ in range(BURST):
        exchange = inquiry.ask("GET", target(), patient=False)
        if exchange.status == HTTPStatus.OK:
            continue
        yield has_status(exchange, 429, "one request of many")
        wait = exchange.header("Retry-After") or ""
        yield judged(
            f"Retry-After: {wait}",
            exchange,
            is_right=_SECONDS.fullmatch(wait) is not None,
            wrong=f"429 with Retry-After {wait!r}: expected seconds",
        )
        if inquiry.seen.newest:
            # The endpoint has answered before, so a slow client must be accepted.
            yield from _allowed(inquiry, int(wait[:_DIGITS_MAX]))
        return


def _allowed(inquiry: Inquiry, seconds: int) -> Iterator[Witness]:
    """Send one request per second after the wait of a 429, and judge the answers."""
    for _ in range(min(max(seconds, 1), RETRY_SECONDS_MAX)):
        inquiry.wait()
    for _ in range(POLLS):
        exchange = inquiry.ask("GET", target(), patient=False)
        yield judged(
            f"one request a second: {exchange.status}",
            exchange,
            is_right=exchange.status != HTTPStatus.TOO_MANY_REQUESTS,
            wrong=f"one request a second got {exchange.outcome}",
        )
        inquiry.wait()


def _silence(inquiry: Inquiry) -> Iterator[Witness]:
    number = inquiry.read().incarnation
    if number is not None and number > AT_FIRST:
        last = inquiry.seen.newest[-1].last
        for _ in range(SILENT_SECONDS):
            inquiry.wait()
        after = inquiry.read().incarnation
        saw = f"incarnation {number}, and {after} after a pause of {SILENT_SECONDS} s"
        yield judged(
            saw,
            *(last, inquiry.seen.newest[-1].last),
            is_right=after is None or after >= number,
            wrong=f"{saw}: the count restarted",
        )


ON_ONE_CONNECTION = (
    Question(
        "1.2",
        "nothing follows the refusal of a HEAD",
        _bare_head,
        needs=A_KEPT_CONNECTION,
    ),
    Question(
        "1.6",
        "a POST without the header gets the error about it",
        _header_of_approvals,
        needs="an endpoint whose errors differ by their cause",
    ),
    Question("1.10", "nothing follows a 304", _bare_304, needs=A_KEPT_CONNECTION),
    Question(
        "1.12",
        "a connection stays usable after each answer",
        _goes_on,
        needs=A_KEPT_CONNECTION,
    ),
)

QUESTIONS = (
    *ON_ONE_CONNECTION,
    Question(
        "1.9",
        "a burst meets 429 with Retry-After",
        _limit,
        needs=f"a limit: {BURST} successive requests did not reach one",
    ),
    Question(
        "7.3",
        "a pause of seconds does not disable events",
        _silence,
        needs="a document that has changed twice",
    ),
)
