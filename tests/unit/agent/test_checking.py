"""The search of `agent check` for the endpoint, and its report of the endpoint."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from forewarn.agent.checking import Finding, findings
from forewarn.agent.settings import load_settings
from forewarn.agent.wire.endpoint import Endpoint
from forewarn.clock import SystemClock
from tests.support.scripted import Scripted, plain, scripted

pytestmark = pytest.mark.clause("8.2")

DOCUMENT = plain(b'{"DocumentIncarnation":1,"Events":[]}')
NAME = plain(b'{"compute":{"name":"web_0"}}')
MISSING = plain(b"", status="404 Not Found")


def at(server: Scripted) -> Endpoint:
    return Endpoint(lambda: (server.url,), clock=SystemClock())


def told(
    directory: Path, first: Scripted, others: Sequence[Scripted], heard: Sequence[str]
) -> list[Finding]:
    """Return what is found of the endpoint where others may be it."""
    endpoints = [at(address) for address in (first, *others)]
    environ = {"FOREWARN_AGENT_STATE": f"{directory}/agent.db"}
    environ["FOREWARN_AGENT_LISTEN"] = ""
    all_findings = list(
        findings(
            load_settings(environ=environ, flags={}),
            endpoint=endpoints[0],
            elsewhere=lambda: [(endpoints[1:2], ()), (endpoints[2:], heard)],
            checks=(),
        )
    )
    for endpoint in endpoints:
        endpoint.close()
    return [
        finding
        for finding in all_findings
        if finding.subject in {"endpoint", "dhcp", "name"}
    ]


def test_other_addresses_are_tried_if_the_first_does_not_answer(tmp_path: Path) -> None:
    with (
        scripted(MISSING) as first,
        scripted(MISSING) as second,
        scripted(DOCUMENT, NAME) as third,
        scripted() as fourth,
    ):
        results = told(tmp_path, first, [second, third, fourth], ["option 245"])
        assert all(finding.is_well for finding in results)
        assert [f"{finding.subject}: {finding.text}" for finding in results] == [
            "dhcp: option 245",
            f"endpoint: {third.url} answers with version 2020-07-01: 0 events",
            "name: web_0, by the endpoint",
        ]
        assert not fourth.requests


def test_no_address_answers(tmp_path: Path) -> None:
    with scripted(MISSING) as first, scripted(MISSING) as second:
        results = told(tmp_path, first, [second], ["no server"])
        assert not any(finding.is_well for finding in results)
        assert [f"{finding.subject}: {finding.text}" for finding in results] == [
            "dhcp: no server",
            f"endpoint: {first.url} returned no document: status 404",
            f"endpoint: {second.url} returned no document: status 404",
        ]


def test_answer_from_a_leased_address_is_enough(tmp_path: Path) -> None:
    with (
        scripted(MISSING) as first,
        scripted(DOCUMENT, NAME) as leased,
        scripted() as heard_of,
    ):
        results = told(tmp_path, first, [leased, heard_of], ["no search was needed"])
        assert [finding.subject for finding in results] == ["endpoint", "name"]
        assert not heard_of.requests


def test_answer_from_the_first_address_is_enough(tmp_path: Path) -> None:
    with scripted(DOCUMENT, NAME) as first, scripted() as second:
        results = told(tmp_path, first, [second], ["not to be heard"])
        assert [finding.subject for finding in results] == ["endpoint", "name"]
        assert not second.requests


@pytest.mark.parametrize(
    ("name", "answers", "told"),
    [
        ("", (DOCUMENT, NAME), "web_0"),
        ("web_7", (DOCUMENT,), "web_7"),
        ("web_7", (MISSING,), "web_7"),
        ("", (DOCUMENT, MISSING), ""),
        ("", (MISSING,), ""),
    ],
    ids=["endpoint", "settings", "no-endpoint", "nobody", "nothing"],
)
def test_handler_checks_use_the_name_of_this_vm(
    tmp_path: Path, name: str, answers: tuple[bytes, ...], told: str
) -> None:
    environ = {"FOREWARN_AGENT_STATE": f"{tmp_path}/agent.db"}
    environ["FOREWARN_AGENT_LISTEN"] = ""
    environ |= {"FOREWARN_AGENT_NAME": name} if name else {}
    heard: list[str] = []
    with scripted(*answers) as server:
        endpoint = at(server)
        results = findings(
            load_settings(environ=environ, flags={}),
            endpoint=endpoint,
            checks=[("handler drain", lambda vm: heard.append(vm) or [f"not {vm}"])],
        )
        bad = [
            finding.text for finding in results if finding.subject == "handler drain"
        ]
        endpoint.close()
    assert heard == [told]
    assert bad == [f"not {told}"]
