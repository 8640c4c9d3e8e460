"""The checks find faults: each server here has one, and some check says so."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from forewarn.testing.checks import CHECKS, Result, checks_of, run_checks
from forewarn.testing.client import Answer, Headers, HttpClient
from tests.spec import support
from tests.spec.support import Bend, BentClient, ServedWorld, WorldClient, make_world


def changed(answer: Answer, **changes: Any) -> Answer:
    return Answer(
        status=changes.get("status", answer.status),
        headers=changes.get("headers", answer.headers),
        body=changes.get("body", answer.body),
    )


def document_bent(change: Callable[[dict[str, Any]], None], **dumping: Any) -> Bend:
    """Return a fault in every document."""

    def bend(
        method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
    ) -> Answer:
        if method != "GET" or answer.status != 200 or "scheduledevents" not in target:
            return answer
        members = answer.json
        change(members)
        dumping.setdefault("separators", (",", ":"))
        return changed(answer, body=json.dumps(members, **dumping).encode())

    return bend


def event_bent(member: str, value: object) -> Bend:
    """Return a fault in one member of every event."""

    def change(members: dict[str, Any]) -> None:
        for event in members["Events"]:
            if member in event:
                event[member] = value

    return document_bent(change)


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


def headerless(
    method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
) -> Answer:
    return changed(answer, headers=())


def same_error(
    method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
) -> Answer:
    if answer.status < 400:
        return answer
    return changed(answer, body=b'{"error":"Bad request"}')


def no_json(
    method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
) -> Answer:
    return changed(answer, body=b"OK")


def blind(
    method: str, target: str, headers: Headers, body: bytes | None, answer: Answer
) -> Answer:
    if method != "GET" or answer.status != 200 or "2017-08-01" not in target:
        return answer
    return changed(answer, body=json.dumps({**answer.json, "Events": []}).encode())


def without_underscores(members: dict[str, Any]) -> None:
    for event in members["Events"]:
        event["Resources"] = [name.lstrip("_") for name in event["Resources"]]


def nothing(_members: dict[str, Any]) -> None:
    pass


FAULTS: dict[str, tuple[str, Bend]] = {
    "POST is no verb": ("1.1", status_bent(lambda m, *_: m == "POST", 405)),
    "the case of the path counts": (
        "1.2",
        status_bent(lambda _m, t, *_: "scheduledEvents" in t, 404),
    ),
    "an unknown path is the document": (
        "1.2",
        status_bent(lambda _m, t, *_: t.startswith("/metadata/nothing"), 200),
    ),
    "latest is a version": (
        "1.3",
        status_bent(lambda _m, t, *_: t.endswith("=latest"), 200),
    ),
    "names have no underscore": ("1.4", document_bent(without_underscores)),
    "an old version sees nothing": ("1.5", blind),
    "the header may be missing": ("1.6", status_bent(lambda _m, _t, h, _b: not h, 200)),
    "proxies may ask": (
        "1.7",
        status_bent(lambda _m, _t, h, _b: any("forw" in n.lower() for n, _ in h), 200),
    ),
    "errors are all the same": ("1.8", same_error),
    "there is no tag": ("1.10", headerless),
    "tags mean nothing": (
        "1.10",
        status_bent(lambda m, _t, h, _b: m == "GET" and len(h) > 1, 200),
    ),
    "nobody knows who it is": (
        "1.11",
        status_bent(lambda _m, t, *_: "instance" in t, 404),
    ),
    "answers have no type": ("1.12", headerless),
    "the document is pretty": ("2.1", document_bent(nothing, indent=2)),
    "members are sorted": ("2.2", document_bent(nothing, sort_keys=True)),
    "ids are in lower case": (
        "2.3",
        event_bent("EventId", "c7061bac-afdc-4513-b24b-aa5f13a16123"),
    ),
    "there is a type Pause": ("2.4", event_bent("EventType", "Pause")),
    "resources are one text": ("2.5", event_bent("Resources", "m_0")),
    "there is a status Completed": ("2.6", event_bent("EventStatus", "Completed")),
    "NotBefore is ISO 8601": ("2.7", event_bent("NotBefore", "2030-01-01T00:00:00Z")),
    "there is no description": ("2.8", event_bent("Description", None)),
    "the duration is a text": ("2.9", event_bent("DurationInSeconds", "9")),
    "the incarnation is a text": (
        "2.10",
        document_bent(
            lambda doc: doc.update(DocumentIncarnation=str(doc["DocumentIncarnation"]))
        ),
    ),
    "old members are refused": (
        "3.1",
        status_bent(lambda _m, _t, _h, b: b is not None and b"Incarn" in b, 400),
    ),
    "an approval says OK": (
        "3.2",
        lambda m, _t, _h, _b, answer: (
            changed(answer, body=b"OK") if m == "POST" else answer
        ),
    ),
    "everything is approved": ("3.3", status_bent(lambda m, *_: m == "POST", 200)),
}


def failed(results: list[Result]) -> set[str]:
    return {
        result.check.clause
        for result in results
        if not result.passed and not result.skipped
    }


@pytest.mark.system
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(endpoint: ServedWorld, fault: str) -> None:
    clause, bend = FAULTS[fault]
    client = BentClient(WorldClient(endpoint.world, "m_0"), bend)
    assert clause in failed(list(run_checks(client, approve=True)))


@pytest.mark.system
def test_an_answer_that_is_no_json_is_a_failure_and_no_crash(
    endpoint: ServedWorld,
) -> None:
    client = BentClient(WorldClient(endpoint.world, "m_0"), no_json)
    assert failed(list(run_checks(client))) >= {"1.8", "2.1", "2.10", "3.3"}


@pytest.mark.system
def test_a_good_endpoint_passes_everything(endpoint: ServedWorld) -> None:
    results = list(run_checks(endpoint.client("m_0"), approve=True))
    assert [result.note for result in results if not result.passed] == []
    assert [result.check for result in results] == list(CHECKS)


@pytest.mark.system
def test_unless_told_to_nothing_is_approved(endpoint: ServedWorld) -> None:
    before = endpoint.do(lambda world: world.live_events())
    results = list(run_checks(endpoint.client("m_0")))
    assert {r.check.title for r in results if r.skipped} == {
        check.title for check in CHECKS if check.approves
    }
    assert endpoint.do(lambda world: world.live_events()) == before


def test_the_checks_are_of_sections_one_to_three_and_in_order() -> None:
    clauses = [tuple(map(int, check.clause.split("."))) for check in CHECKS]
    assert clauses == sorted(clauses)
    assert {section for section, _ in clauses} == {1, 2, 3}
    assert len({check.title for check in CHECKS}) == len(CHECKS)
    # 3.5 and 3.6 need several VMs and a hypervisor.
    assert {*map(str, ("3.5", "3.6"))}.isdisjoint(check.clause for check in CHECKS)


def test_what_cannot_be_seen_now_is_skipped() -> None:
    results = list(run_checks(WorldClient(make_world(), "web_0"), approve=True))
    assert failed(results) == set()
    skipped = {result.check.clause for result in results if result.skipped}
    assert {"2.2", "2.7", "3.2"} <= skipped


@pytest.mark.system
def test_a_patient_client_waits_out_a_limit() -> None:
    world = make_world(rate_limit=1)
    with support.served(world) as limited:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            limited.do(lambda world: world.advance("1s"))

        client = HttpClient(limited.url("web_0"), timeout_seconds=10, pause=pause)
        for check in checks_of("1.3"):
            check.run(client)
        assert pauses
        assert set(pauses) == {1.0}


@pytest.mark.parametrize(
    "url", ["", "x", "https://127.0.0.1", "http://", "http://[::1", "http://x:99999"]
)
def test_a_url_is_http(url: str) -> None:
    with pytest.raises(ValueError, match="is not a URL such as"):
        HttpClient(url)


@pytest.mark.system
def test_nobody_there_is_an_error_of_the_network() -> None:
    with support.served(make_world()) as gone:
        client = gone.client("web_0")
    with pytest.raises(OSError, match="refused"):
        client.ask("GET", "/")
