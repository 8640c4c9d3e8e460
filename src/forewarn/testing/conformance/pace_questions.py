"""Questions of how often a client asks: as often as it likes, or not for a while.

None of them approves.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus

from forewarn.testing.conformance.check import Question
from forewarn.testing.conformance.exchanges import target
from forewarn.testing.conformance.inquiry import Inquiry, UntriedError
from forewarn.testing.conformance.request_questions import has_status
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge

BURST = 150
"""Requests that are sent at once to meet a limit, if there is a usual one."""

RETRY_SECONDS_MAX = 10
"""So long is waited at most, in seconds, where a 429 asks for more."""

POLLS = 3
"""Requests, one a second, that no limit may refuse."""

AT_FIRST = 2
"""The highest incarnation with which a scope may begin: with events under way."""

SILENT_SECONDS = 3
"""A pause that disables nothing, in seconds: whoever restarts makes a longer one."""

_SECONDS = re.compile(r"[0-9]+")
_DIGITS_MAX = 18
"""Digits of a number that is read; Python refuses to read thousands. What has more is
longer than anybody waits."""


def _limit(inquiry: Inquiry) -> Verdict:
    def witnesses() -> Iterator[Witness]:
        for _ in range(BURST):
            exchange = inquiry.ask("GET", target(), patient=False)
            if exchange.status == HTTPStatus.OK:
                continue
            what = "one request of many"
            yield has_status(exchange, 429, what)
            wait = exchange.header("Retry-After") or ""
            complaint = ""
            is_number = _SECONDS.fullmatch(wait)
            if not is_number:
                complaint = f"429 with Retry-After {wait!r}: expected seconds"
            yield Witness(
                saw=f"Retry-After: {wait}", exchanges=(exchange,), complaint=complaint
            )
            if inquiry.seen.newest and is_number:
                # It answers at times, so its limit is none that nobody can keep.
                yield from _allowed(inquiry, int(wait[:_DIGITS_MAX]))
            return

    return judge(
        witnesses(),
        needs=f"a limit: {BURST} requests, one after the other, met none",
    )


def _allowed(inquiry: Inquiry, seconds: int) -> Iterator[Witness]:
    """Judge what a client gets that asks once a second, some while after a 429."""
    for _ in range(min(max(seconds, 1), RETRY_SECONDS_MAX)):
        inquiry.wait()
    for _ in range(POLLS):
        exchange = inquiry.ask("GET", target(), patient=False)
        saw = f"one request a second: {exchange.status}"
        wrong = f"one request a second got {exchange.outcome}"
        is_limited = exchange.status == HTTPStatus.TOO_MANY_REQUESTS
        yield Witness(
            saw=saw, exchanges=(exchange,), complaint=wrong if is_limited else ""
        )
        inquiry.wait()


def _silence(inquiry: Inquiry) -> Verdict:
    before = inquiry.read()
    number = before.incarnation
    if number is None or number <= AT_FIRST:
        raise UntriedError("a document that has changed twice")
    last = inquiry.seen.newest[-1].last
    for _ in range(SILENT_SECONDS):
        inquiry.wait()
    after = inquiry.read()
    exchange = inquiry.seen.newest[-1].last
    saw = f"incarnation {number}, and {after.incarnation} after a silence of "
    saw += f"{SILENT_SECONDS} s"
    is_less = after.incarnation is not None and after.incarnation < number
    complaint = f"{saw}: it began anew" if is_less else ""
    witness = Witness(saw=saw, exchanges=(last, exchange), complaint=complaint)
    return judge((witness,), needs="a document that has changed twice")


QUESTIONS = (
    Question("1.9", "a burst meets 429 with Retry-After", _limit),
    Question("7.3", "a silence of seconds disables nothing", _silence),
)
