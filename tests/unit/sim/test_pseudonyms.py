"""Pseudonyms: originals are removed, and the course of events is kept."""

import json
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from forewarn.sim.pseudonyms import LEFT_OUT, LEFT_OUT_JSON, Pseudonyms
from forewarn.sim.recording import Answer, Failed, Failure

EVENT: dict[str, Any] = {
    "EventId": "D4713D60-C8A7-4639-AB11-67B367A9C378",
    "EventStatus": "Scheduled",
    "EventType": "Freeze",
    "ResourceType": "VirtualMachine",
    "Resources": ["payroll-7", "Ünïq vm"],
    "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
    "Description": "Host server is undergoing maintenance.",
    "EventSource": "Platform",
    "DurationInSeconds": 5,
}


def answer(body: object, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(
        status=200,
        headers=tuple((k.replace("_", "-"), v) for k, v in headers.items()),
        body=data,
    )


def document(*events: dict[str, Any]) -> Answer:
    return answer({"DocumentIncarnation": 7, "Events": list(events)})


def hidden(hide: Pseudonyms, given: Answer) -> Any:
    outcome = hide(given)
    assert isinstance(outcome, Answer)
    return json.loads(outcome.body)


def test_pseudonyms_keep_the_structure_of_a_document() -> None:
    hide = Pseudonyms()
    renamed = hidden(hide, document(EVENT))
    assert renamed == {
        "DocumentIncarnation": 7,
        "Events": [
            {
                **EVENT,
                "EventId": "00000000-0000-4000-8000-000000000001",
                "Resources": ["vm_1", "vm_2"],
            }
        ],
    }
    assert list(renamed["Events"][0]) == list(EVENT)
    # Equal originals in any case have equal pseudonyms; others differ.
    other = {**EVENT, "EventId": EVENT["EventId"].lower(), "Resources": ["Ünïq vm"]}
    again = hidden(hide, document(other, {**EVENT, "EventId": "x"}))["Events"]
    assert again[0]["EventId"].endswith("001")
    assert again[0]["Resources"] == ["vm_2"]
    assert again[1]["EventId"].endswith("002")


def test_description_keeps_the_platform_text() -> None:
    hide = Pseudonyms()
    text = (
        "Virtual machine payroll-7 (Ünïq vm, 10.1.2.3, node7.corp.example) is being "
        "paused for 9 seconds because of 3F2504E0-4F89-11D3-9A0C-0305E82C3301, Bob."
    )
    renamed = hidden(hide, document({**EVENT, "Description": text}))
    assert renamed["Events"][0]["Description"] == (
        "Virtual machine vm_1 (vm_2, word_1, word_2) is being paused for 9 seconds "
        "because of 00000000-0000-4000-8000-000000000002, word_3."
    )


def test_underscore_of_the_oldest_version_is_kept() -> None:
    hide = Pseudonyms(underscore=True)
    renamed = hidden(hide, document({**EVENT, "Resources": ["_web_0", "web_0"]}))
    assert renamed["Events"][0]["Resources"] == ["_vm_1", "vm_1"]


def test_unparsable_content_is_omitted() -> None:
    hide = Pseudonyms()

    def body(given: bytes) -> bytes:
        outcome = hide(answer(given))
        assert isinstance(outcome, Answer)
        return outcome.body

    assert body(b"<html>payroll-7</html>") == LEFT_OUT
    assert body(b'{"DocumentIncarnation":1,"Events":[{"Resources":["payro') == LEFT_OUT
    assert body(b'{"error":"payroll-7 is gone"}') == LEFT_OUT_JSON
    assert body(b"[" * 100_000) == LEFT_OUT
    assert body(b"") == b""
    assert body(b'{"DocumentIncarnation":1,"Events":null}') == (
        b'{"DocumentIncarnation":1,"Events":null}'
    )
    assert hide(Failed(failure=Failure.RESET, detail="payroll-7")) == Failed(
        failure=Failure.RESET
    )


def test_headers_of_known_form_are_kept() -> None:
    outcome = Pseudonyms()(
        answer(
            b"payroll-7",
            Server="payroll-7",
            ETag='"payroll-7"',
            Content_Type="text/html; charset=utf-8",
            Content_Length="9",
            Retry_After="payroll-7",
        )
    )
    assert isinstance(outcome, Answer)
    assert dict(outcome.headers) == {
        "ETag": '"tag-1"',
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": str(len(LEFT_OUT)),
    }


SECRET = "Zq9payroll"

values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-10, 10),
        st.sampled_from([SECRET, f"a {SECRET} b", f"x-{SECRET}.y", f"{SECRET}!", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*EVENT, SECRET]), inner, max_size=4),
    ),
    max_leaves=12,
)


@hypothesis.given(
    st.lists(st.dictionaries(st.sampled_from([*EVENT, SECRET]), values)), values
)
def test_secret_is_removed_from_every_body(
    events: list[dict[str, Any]], other: Any
) -> None:
    hide = Pseudonyms()
    for body in (
        {"DocumentIncarnation": other, "Events": events},
        {"Events": other, SECRET: other},
        other,
    ):
        outcome = hide(answer(body))
        assert isinstance(outcome, Answer)
        assert SECRET.encode() not in outcome.body


@pytest.mark.parametrize("member", [key for key in EVENT if key != "DurationInSeconds"])
def test_secret_is_removed_from_every_member(member: str) -> None:
    for secret in (SECRET, SECRET.lower(), f"{SECRET} {SECRET}"):
        outcome = Pseudonyms()(document({**EVENT, member: secret}))
        assert isinstance(outcome, Answer)
        assert secret.encode() not in outcome.body
