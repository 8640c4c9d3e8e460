"""The checks find faults: each server here has one, and some check says so."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from forewarn.control.requests import failures
from forewarn.testing.client import EVENTS_PATH, Answer, Client, Headers, HttpClient
from forewarn.testing.conformance.check import Failed, NotTried, Passed, Verdict
from forewarn.testing.conformance.checks import CHECKS, QUESTIONS, UNTRIED, checks_of
from forewarn.testing.conformance.examination import Examination
from forewarn.testing.conformance.inquiry import (
    INSTANCE_TARGET,
    Inquiry,
    UntriedError,
    start_requests,
)
from tests.spec import support
from tests.spec.conftest import everything
from tests.spec.support import Bend, BentClient, WorldClient, make_world
from tests.support.worlds import World


def changed(answer: Answer, **changes: Any) -> Answer:
    return Answer(
        status=changes.get("status", answer.status),
        headers=changes.get("headers", answer.headers),
        body=changes.get("body", answer.body),
    )


def status_bent(
    wanted: Callable[[str, str, Headers, bytes | None], bool], status: int
) -> Bend:
    """Return a fault in the status of some answers."""

    def bend(
        method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
    ) -> Answer:
        if wanted(method, target, headers, body):
            return changed(answer, status=status)
        return answer

    return bend


def same_error(
    method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
) -> Answer:
    if answer.status < 400:
        return answer
    return changed(answer, body=b'{"error":"Bad request"}')


def first_only(
    method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
) -> Answer:
    """Look at the first entry of an approval only."""
    refused = (
        method == "POST" and answer.status == 400 and (body or b"").count(b":") > 2
    )
    return changed(answer, status=200, body=b"") if refused else answer


def named(
    method: str, part: bytes
) -> Callable[[str, str, Headers, bytes | None], bool]:
    """Tell requests with a part in their body."""
    return lambda m, _t, _h, body: m == method and part in (body or b"")


def is_get(method: str, *_: object) -> bool:
    return method == "GET"


def approves(times: int) -> Callable[[str, str, Headers, bytes | None], bool]:
    """Tell POSTs with ids after so many of them."""
    count = [0]

    def wanted(method: str, _t: str, _h: Headers, body: bytes | None) -> bool:
        count[0] += method == "POST" and b"-" in (body or b"")
        return count[0] > times

    return wanted


def has(headers: Headers, name: str) -> bool:
    return any(name in header_name.lower() for header_name, _ in headers)


def entries(body: bytes | None) -> int:
    return (body or b"").count(b"EventId")


def limited(wait: str, *, after: int) -> Bend:
    """Answer 429 after so many requests."""
    count = [0]

    def bend(_m: str, _t: str, _h: Headers, _b: bytes | None, answer: Answer) -> Answer:
        count[0] += 1
        if count[0] <= after:
            return answer
        headers = (
            ("Content-Type", "application/json; charset=utf-8"),
            ("Retry-After", wait),
        )
        return changed(answer, status=429, headers=headers, body=b'{"error":"Wait"}')

    return bend


def after(what: str) -> Bend:
    """Answer what follows a method, or a tag, as if it were something else."""
    last: list[set[str]] = [set()]

    def bend(
        method: str, _t: str, headers: Headers, _b: bytes | None, answer: Answer
    ) -> Answer:
        follows = what in last[0]
        last[0] = {method, *(name for name, _ in headers)}
        return (
            changed(answer, status=400) if follows and answer.status == 200 else answer
        )

    return bend


def headless(
    method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
) -> Answer:
    """Do not look for the header of a POST."""
    if method == "POST" and not headers:
        return changed(
            answer, body=b'{"error":"Bad request. The body is not valid JSON"}'
        )
    return answer


def falling() -> Bend:
    """Give each answer a lower incarnation."""
    numbers = iter(range(1000, 0, -1))

    def bend(_m: str, _t: str, _h: Headers, _b: bytes | None, answer: Answer) -> Answer:
        number = b'"DocumentIncarnation":%d' % next(numbers)
        body = re.sub(rb'"DocumentIncarnation":\d+', number, answer.body)
        return changed(answer, body=body)

    return bend


FAULTS: dict[str, Bend] = {
    "the address answers a POST": status_bent(lambda m, *_: m == "POST", 405),
    "paths have no case": status_bent(lambda _m, t, *_: "scheduledEvents" in t, 404),
    "unknown paths are 404": status_bent(lambda _m, t, *_: "nothing" in t, 200),
    "other verbs are 405": status_bent(lambda m, *_: m == "HEAD", 200),
    "unknown versions are refused": status_bent(
        lambda _m, t, *_: t.endswith("=latest"), 200
    ),
    "other parameters are ignored": status_bent(lambda _m, t, *_: "x=1" in t, 400),
    "the header is required": status_bent(lambda _m, _t, h, _b: not h, 200),
    "the header has no case": status_bent(
        lambda m, _t, h, _b: m == "GET" and ("Metadata", "True") in h, 400
    ),
    "the preview needs no header": status_bent(
        lambda _m, t, h, _b: not h and "2017-03-01" in t, 400
    ),
    "the first error decides": status_bent(
        lambda m, t, *_: m == "PUT" and "nothing" in t, 405
    ),
    "forwarded requests are refused": status_bent(
        lambda _m, _t, h, _b: has(h, "forwarded"), 200
    ),
    "a missing header gets a fixed text": same_error,
    "an unknown version gets the newest three": same_error,
    "a burst meets 429 with Retry-After": limited("soon", after=50),
    "an equal tag gets 304": status_bent(is_get, 200),
    "other tags have no effect": status_bent(
        lambda _m, _t, h, _b: ("If-None-Match", "*") in h, 304
    ),
    "a VM can read its name": status_bent(lambda _m, t, *_: "instance" in t, 404),
    "each value can be read as text": status_bent(lambda _m, t, *_: "text" in t, 404),
    "the instance has its own versions": status_bent(
        lambda _m, t, *_: t.endswith("instance"), 200
    ),
    "Expect: 100-continue gets 100": status_bent(lambda m, *_: m == "POST", 417),
    "nothing follows the refusal of a HEAD": after("HEAD"),
    "a POST without the header gets the error about it": headless,
    "nothing follows a 304": after("If-None-Match"),
    "a connection stays usable after each answer": after("POST"),
    "a pause of seconds does not disable events": falling(),
    "malformed bodies are 400": status_bent(named("POST", b"null"), 200),
    "unknown ids are 400": status_bent(named("POST", b"4000-8000"), 200),
    "one bad entry refuses all": first_only,
    "an id in a malformed body is 400": status_bent(named("POST", b"null]"), 200),
    "an approval is 200": status_bent(lambda m, *_: m == "POST", 409),
    "an approval of a user's request is 200": status_bent(
        lambda m, *_: m == "POST", 409
    ),
    "an approval may come in chunks": status_bent(
        lambda _m, _t, h, _b: has(h, "transfer-encoding"), 411
    ),
    "several events in one approval": status_bent(
        lambda _m, _t, _h, body: entries(body) > 2, 400
    ),
    "old clients' members are accepted": status_bent(named("POST", b"Incarn"), 400),
    "an id is accepted in any case": status_bent(
        lambda _m, _t, _h, body: re.search(rb'"[0-9a-f]{8}-', body or b"") is not None,
        400,
    ),
    "repeats are 200": status_bent(approves(1), 409),
    "an approval of a Started event is 200": status_bent(approves(0), 409),
    "an approval of a removed event is 200": status_bent(approves(0), 404),
    "a POST may have any type": status_bent(
        lambda _m, _t, h, _b: has(h, "content-type"), 415
    ),
    "a hidden event can be approved": status_bent(
        lambda m, t, *_: m == "POST" and "2017-03-01" in t, 400
    ),
    "an event of two VMs can be approved": status_bent(approves(0), 400),
    "any VM that sees an event approves": status_bent(approves(0), 403),
}
"""For each check, a fault that it finds."""


class FaultyClient(BentClient):
    """Bends also what follows a 100."""

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        return True, self.ask("POST", target, body=body)


def test_every_question_has_a_planted_fault() -> None:
    assert set(FAULTS) == {question.title for question in QUESTIONS}


def prepared(title: str, world: World) -> None:
    """Do what a question needs before its fault comes."""
    if title == "an approval of a removed event is 200":
        world.order(lambda work: failures.restore_vm(work, "m_3"))


def ask(title: str, client: Client, world: World) -> Verdict:
    """Return what a question finds at an endpoint."""
    question = next(question for question in QUESTIONS if question.title == title)
    inquiry = Inquiry(client, now=lambda: world.now)
    inquiry.ask("GET", INSTANCE_TARGET)
    inquiry.look_around()
    if title in {"repeats are 200", "an approval may come in chunks"}:
        inquiry.post(start_requests(inquiry.events()[0]["EventId"]))
    prepared(title, world)
    inquiry.watch_once()
    try:
        return question.ask(inquiry)
    except UntriedError as error:
        return NotTried(needs=error.needs)


@pytest.mark.parametrize("title", FAULTS)
def test_question_detects_its_fault(title: str) -> None:
    world = everything()
    client = FaultyClient(WorldClient(world, "m_0"), FAULTS[title])
    assert isinstance(ask(title, client, world), Failed)


@pytest.mark.parametrize("title", FAULTS)
def test_correct_endpoint_passes(title: str) -> None:
    world = everything()
    verdict = ask(title, WorldClient(world, "m_0"), world)
    if title == "a burst meets 429 with Retry-After":
        assert isinstance(verdict, NotTried), verdict
    else:
        assert isinstance(verdict, Passed), verdict


def test_error_order_passes_if_all_messages_are_the_same() -> None:
    """An endpoint with one sentence for everything keeps its order to itself."""
    world = everything()
    client = FaultyClient(WorldClient(world, "m_0"), same_error)
    assert isinstance(ask("the first error decides", client, world), Passed)


@pytest.mark.parametrize(
    ("both", "fault"),
    [
        ("a missing version is refused before a malformed body", "{"),
        ("a missing header is refused before a missing version", "newest-versions"),
    ],
)
def test_wrong_error_order_is_found_by_the_messages(both: str, fault: str) -> None:
    world = everything()
    inner = WorldClient(world, "m_0")
    unversioned = inner.ask("GET", EVENTS_PATH).body
    malformed = inner.ask("POST", f"{EVENTS_PATH}?api-version=2020-07-01", body=b"{")

    def order(
        method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
    ) -> Answer:
        if target == EVENTS_PATH and fault == "{" and body == b"{":
            return malformed
        if target == EVENTS_PATH and fault != "{" and not headers:
            return changed(answer, body=unversioned)
        return answer

    verdict = ask("the first error decides", FaultyClient(inner, order), world)
    assert isinstance(verdict, Failed)
    assert both in verdict.witness.complaint


def test_questions_cover_sections_1_to_3_and_7() -> None:
    sections = {question.clause.partition(".")[0] for question in QUESTIONS}
    assert sections == {"1", "2", "3", "7"}
    assert len({check.title for check in CHECKS}) == len(CHECKS)
    tried = {check.clause for check in CHECKS}
    assert tried.isdisjoint(clause for clause, _title, _needs in UNTRIED)


@pytest.mark.system
def test_client_waits_out_a_rate_limit() -> None:
    world = make_world(rate_limit=1)
    with support.served(world) as limited:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            limited.do(lambda world: world.advance("1s"))

        client = HttpClient(limited.url("web_0"), timeout_seconds=10, pause=pause)
        for check in checks_of("1.3"):
            support.assert_kept(check, client)
        assert pauses
        assert set(pauses) == {1.0}


def test_permanent_rate_limit_leaves_most_checks_untried() -> None:
    world = everything()
    client = FaultyClient(WorldClient(world, "m_0"), limited("1", after=0))
    examination = Examination(client, approve=True, now=lambda: world.now)
    verdicts = {finding.expected: finding.verdict for finding in examination.run(0)}
    passed = [
        title for title, verdict in verdicts.items() if isinstance(verdict, Passed)
    ]
    assert passed == [
        "a burst meets 429 with Retry-After",
        "a refusal is JSON with a message",
        "JSON has its content type, in UTF-8",
        "no body is compressed without a request for it",
        "each answer is complete",
        "each answer is well-formed",
    ]
    assert not any(isinstance(verdict, Failed) for verdict in verdicts.values())


@pytest.mark.parametrize(
    "url", ["", "x", "https://127.0.0.1", "http://", "http://[::1", "http://x:99999"]
)
def test_url_that_is_not_http_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="is not a URL such as"):
        HttpClient(url)


@pytest.mark.system
def test_closed_port_raises_a_network_error() -> None:
    with support.served(make_world()) as gone:
        client = gone.client("web_0")
    with pytest.raises(OSError, match="refused"):
        client.ask("GET", "/")
