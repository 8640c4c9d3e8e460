"""A relay in this process, and a service whose lines and answers the test chooses."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.admin.limits import TENANT_BYTES_MAX
from forewarn.clock import SystemClock
from forewarn.forwarding import limits as forwarding_limits
from forewarn.forwarding.forwarder import INVALID
from forewarn.instants import SECOND
from forewarn.protocol.errors import ForewarnError
from forewarn.relay import limits, messages, upstream
from forewarn.relay.memory import Memory
from forewarn.relay.process import Relay
from forewarn.relay.settings import Settings, load_settings
from tests.unit.relay.service import PATIENCE_SECONDS, Service
from tests.unit.relay.test_knowledge import AT, HELD, known, view

WEB_0 = "127.0.0.1"
"""The address of the VM, which is also that of the test."""

HERE = replace(HELD, guests={**HELD.guests, "web_0": known("web_0", address=WEB_0)})
WHOLE = messages.text_of(HERE)
SECRET = "s3cret-of-h1"


def settings_of(tmp_path: Path, *urls: str, **more: str) -> Settings:
    (tmp_path / "token").write_text(f"{SECRET}\n", encoding="ascii")
    flags = {
        "url": ",".join(urls),
        "token_file": str(tmp_path / "token"),
        "listen": "127.0.0.1:0",
        **more,
    }
    return load_settings(file="", environ={}, flags=flags)


@asynccontextmanager
async def relaying(
    settings: Settings, memory: Path | None = None
) -> AsyncGenerator[Any]:
    relay: Any = Relay(
        settings, memory=None if memory is None else Memory(memory), draw=lambda: 0.0
    )
    _, relay.port = await relay.start()
    try:
        yield relay
    finally:
        await relay.stop()


@asynccontextmanager
async def knowing(
    tmp_path: Path, whole: str = WHOLE
) -> AsyncGenerator[tuple[Service, Any]]:
    """Begin a service, and a relay that answers from its first line."""
    async with (
        Service() as service,
        relaying(settings_of(tmp_path, service.url)) as relay,
    ):
        await service.stream()
        service.tell(whole)
        await until(lambda: relay.endpoint.is_open(SystemClock().monotonic()))
        yield service, relay


async def ask(relay: Any, body: Any = None) -> tuple[int, Any]:
    """Return the status and the document of web_0."""
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    data = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    writer.write(
        f"{method} /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
        f"Host: x\r\nMetadata: true\r\nContent-Length: {len(data)}\r\n"
        "Connection: close\r\n\r\n".encode()
        + data
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await reader.read()
    writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(text) if text else None


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():  # noqa: ASYNC110 -- nothing tells when
            await asyncio.sleep(0)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def change(incarnation: int, number: int = 8) -> str:
    """Return a line with a new document of web."""
    line = json.loads(
        messages.text_of(
            replace(
                HERE,
                position=replace(AT, number=number),
                views={"web": view("web", incarnation)},
                guests={},
            )
        )
    )
    del line["whole"], line["host"]
    return json.dumps({**line, "since": 7}) + "\n"


APPROVAL = {"StartRequests": [{"EventId": "602D9444-D2CD-49C7-8624-8643E7171297"}]}


def test_a_vm_gets_503_until_the_service_has_sent_its_document(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            Service() as service,
            relaying(settings_of(tmp_path, service.url)) as relay,
        ):
            assert (await ask(relay))[0] == 503
            await service.stream()
            service.tell(WHOLE)
            await until(lambda: relay.endpoint.is_open(SystemClock().monotonic()))
            assert (await ask(relay))[1]["DocumentIncarnation"] == 5
            service.tell(change(6))
            await until(lambda: relay.knowledge.position.number == 8)
            assert (await ask(relay))[1]["DocumentIncarnation"] == 6
            assert set(service.tokens) == {SECRET}

    run(story())


def test_a_change_is_in_the_file_before_it_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "relay.json"

    async def story() -> None:
        async with Service() as service:
            settings = settings_of(tmp_path, service.url)
            async with relaying(settings, file) as relay:
                published: list[Any] = []
                publish = relay.endpoint.publish

                def checked(change: Any) -> None:
                    published.append(Memory(file).read()[0].views["web"])
                    publish(change)

                monkeypatch.setattr(relay.endpoint, "publish", checked)
                await service.stream()
                service.tell(WHOLE)
                service.tell(change(6))
                await until(lambda: len(published) == 2)
                assert [document.incarnation for document in published] == [5, 6]
        # The service is gone: a new relay answers from the file.
        async with relaying(settings, file) as relay:
            assert (await ask(relay))[1]["DocumentIncarnation"] == 6

    run(story())


@pytest.mark.parametrize("digest", ["", "d1"])
def test_a_relay_takes_the_next_service_and_continues_its_position(
    tmp_path: Path, digest: str
) -> None:
    whole = WHOLE.replace('"digest":""', f'"digest":"{digest}"')
    holds = f"&holds={digest}" if digest else ""

    async def story() -> None:
        async with Service(status=503) as first, Service() as second:
            settings = settings_of(tmp_path, first.url, second.url)
            async with relaying(settings) as relay:
                await second.stream()
                second.tell(whole)
                await until(lambda: relay.upstream.is_connected)
                second.drop()
                await second.stream()
                assert (
                    second.asked[-1][1]
                    == f"/v1/relay/stream?after=3.7.abc&confirms=true{holds}"
                )
                assert (await ask(relay))[0] == 200

    run(story())


def test_a_relay_goes_to_the_leader_that_a_follower_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with Service() as leader, Service(status=503) as lost:
            names = {"kind": "follows", "leader": f"{leader.url}/"}
            async with Service(status=503, body=json.dumps(names)) as first:
                settings = settings_of(tmp_path, first.url, lost.url, leader.url)
                async with relaying(settings) as relay:
                    await leader.stream()
                    leader.tell(WHOLE)
                    await until(lambda: relay.upstream.is_connected)
                    assert lost.asked == []
                    assert len(first.asked) == 1

    run(story())


def test_a_relay_sends_its_token_to_no_url_that_an_answer_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with Service() as stranger, Service() as second:
            names = {"kind": "follows", "leader": stranger.url}
            async with Service(status=503, body=json.dumps(names)) as first:
                settings = settings_of(tmp_path, first.url, second.url)
                async with relaying(settings) as relay:
                    await second.stream()
                    second.tell(WHOLE)
                    await until(lambda: relay.upstream.is_connected)
                    assert stranger.asked == []

    run(story())


@pytest.mark.parametrize(
    ("body", "leader"),
    [
        ('{"kind": "follows", "leader": "https://r1:8200/"}', "https://r1:8200"),
        ('{"kind": "follows", "leader": null}', ""),
        ('{"kind": "unavailable"}', None),
        ("[]", None),
        ("busy", None),
    ],
)
def test_leader_is_read_only_from_the_answer_of_a_replica(
    body: str, leader: str | None
) -> None:
    assert upstream.leader_in(body.encode()) == leader


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{}\n", "invalid line"),
        ("]\n", "invalid line"),
        (change(9, number=9).replace('"since": 7', '"since": 8'), "lines between"),
        (WHOLE.replace("3.7.abc", "2.9.xyz"), "is behind"),
        # It has a later term and an earlier document: its store was restored.
        (
            WHOLE.replace("3.7.abc", "4.1.xyz").replace(
                '"incarnation":5', '"incarnation":4'
            ),
            "is behind",
        ),
    ],
)
def test_a_line_that_does_not_fit_ends_the_stream(
    tmp_path: Path, line: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with (
            Service() as service,
            relaying(settings_of(tmp_path, service.url)) as relay,
        ):
            await service.stream()
            service.tell(WHOLE)
            await until(lambda: relay.upstream.is_connected)
            streams = len(service.asked)
            service.tell(line)
            await until(lambda: len(service.asked) > streams)
            assert (await ask(relay))[1]["DocumentIncarnation"] == 5

    run(story())
    assert told in caplog.text
    assert SECRET not in caplog.text


def test_approvals_that_come_together_are_one_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):

            def answer(_path: str, body: Any) -> Any:
                service.tell(change(6))
                refusals = [None, "no such event"][: len(body["approvals"])]
                return {"refusals": refusals, "position": "3.8.abc"}

            service.answer = answer
            gateway = relay.gateway
            results = await asyncio.gather(
                gateway.approve("web_0", ["E1"]), gateway.approve("web_0", ["E2"])
            )
            assert results == [None, "no such event"]
            # The result came with the document that shows it.
            assert relay.knowledge.position.number == 8
            posts = [request for request in service.asked if request[0] == "POST"]
            assert len(posts) == 1
            assert (await ask(relay, APPROVAL))[0] == 200

    run(story())


def test_an_approval_without_a_durable_word_is_503(tmp_path: Path) -> None:
    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):
            for wrong in ({}, {"refusals": []}, {"refusals": [None, None]}, []):
                service.answer = lambda _path, _body, wrong=wrong: wrong
                assert (await ask(relay, APPROVAL))[0] == 503
            service.status = 500
            assert (await ask(relay, APPROVAL))[0] == 503

    run(story())


def test_a_request_has_no_more_events_than_the_service_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding_limits, "EVENTS_TOGETHER_MAX", 3)

    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):
            service.answer = lambda _path, body: {
                "refusals": [None] * len(body["approvals"]),
                "position": "3.7.abc",
            }
            wanted = [["E1", "E2"], ["E3"], ["E4"], ["E5", "E6", "E7", "E8"], ["E9"]]
            await asyncio.gather(
                *(relay.gateway.approve("web_0", ids) for ids in wanted)
            )
            sent = [
                [approval["event_ids"] for approval in body["approvals"]]
                for method, _, body in service.asked
                if method == "POST"
            ]
            assert sent == [[["E1", "E2"], ["E3"]], [["E4"]], [wanted[3]], [["E9"]]]

    run(story())


def test_an_approval_that_is_not_valid_costs_other_vms_nothing(tmp_path: Path) -> None:
    long = "E" * 300

    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):

            def answer(_path: str, body: Any) -> Any:
                ids = [approval["event_ids"] for approval in body["approvals"]]
                service.status = 422 if [long] in ids else 200
                return {"refusals": [None] * len(ids), "position": "3.7.abc"}

            service.answer = answer
            results = await asyncio.gather(
                *(
                    relay.gateway.approve("web_0", [event_id])
                    for event_id in ("E1", long, "E2")
                )
            )
            assert results == [None, INVALID, None]

    run(story())


def test_no_request_for_several_vms_is_longer_than_the_service_takes(
    tmp_path: Path,
) -> None:
    # Each character is six bytes in JSON.
    vms = [f"{number:04}" + "\u00e9" * 124 for number in range(2_000)]

    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):
            service.answer = lambda _path, body: {
                "refusals": [None] * len(body.get("approvals", ())),
                "position": "3.7.abc",
            }
            await relay.gateway.report_seen(dict.fromkeys(vms, 3 * SECOND))
            reports = [body["seconds_ago"] for *_, body in service.asked if body]
            assert {vm: age for part in reports for vm, age in part.items()} == (
                dict.fromkeys(vms, 3)
            )
            assert len(reports) > 1
            short = {f"vm-{number}": SECOND for number in range(2_001)}
            await relay.gateway.report_seen(short)
            assert [len(body["seconds_ago"]) for *_, body in service.asked[-2:]] == [
                2_000,
                1,
            ]
            before = len(service.asked)
            ids = ["E" * 200] * 50
            await asyncio.gather(*(relay.gateway.approve(vm, ids) for vm in vms[:64]))
            approvals = [body["approvals"] for *_, body in service.asked[before:]]
            assert [row["vm"] for some in approvals for row in some] == vms[:64]
            for _, _, body in service.asked:
                assert len(json.dumps(body)) <= TENANT_BYTES_MAX

    run(story())


def test_a_token_that_is_gone_for_a_while_ends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):
            service.answer = lambda _path, body: {
                "refusals": [None] * len(body.get("approvals", ())),
                "position": "3.7.abc",
            }
            (tmp_path / "token").rename(tmp_path / "later")
            assert (await ask(relay, APPROVAL))[0] == 503
            await relay._report_now()
            assert (await ask(relay))[0] == 200
            (tmp_path / "later").rename(tmp_path / "token")
            assert (await ask(relay, APPROVAL))[0] == 200

    run(story())


def test_a_lost_connection_is_replaced_and_the_request_is_repeated(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with knowing(tmp_path) as (service, relay):
            service.answer = lambda _path, _body: {
                "refusals": [None],
                "position": "3.7.abc",
            }
            assert (await ask(relay, APPROVAL))[0] == 200
            service.drop()
            assert (await ask(relay, APPROVAL))[0] == 200

    run(story())


def test_last_requests_are_reported_when_the_relay_stops(tmp_path: Path) -> None:
    async def story() -> None:
        async with Service() as service:
            async with relaying(settings_of(tmp_path, service.url)) as relay:
                await service.stream()
                service.tell(WHOLE)
                await until(lambda: relay.upstream.is_connected)
                assert (await ask(relay))[0] == 200
            method, path, body = service.asked[-1]
            assert (method, path) == ("POST", "/v1/relay/seen")
            assert body["seconds_ago"].keys() == {"web_0"}

    run(story())


def test_misspelled_variable_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "token").write_text(SECRET, encoding="ascii")
    settings = load_settings(
        file="",
        environ={"FOREWARN_RELAY_LISTN": "192.0.2.1:80", "FOREWARN_RELAY_PORT": "80"},
        flags={"url": "http://127.0.0.1:9", "token_file": str(tmp_path / "token")},
    )

    async def story() -> None:
        Relay(settings)

    run(story())
    (record,) = caplog.records
    assert record.getMessage() == (
        'the variable "FOREWARN_RELAY_LISTN" is not used (did you mean '
        '"FOREWARN_RELAY_LISTEN"?)'
    )


def test_a_relay_without_a_token_does_not_start(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "http://127.0.0.1:9")
    file = tmp_path / "token"

    async def story() -> None:
        Relay(settings)

    for text in ("", "two words", "x\ny", "ü"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ForewarnError, match="no token on one line") as refused:
            run(story())
        assert not text or text not in refused.value.message
    file.unlink()
    with pytest.raises(ForewarnError, match="cannot be read"):
        run(story())


def test_pauses_are_spread_and_bounded() -> None:
    assert upstream.pause(0, 1.0) == limits.FIRST_PAUSE_SECONDS
    assert upstream.pause(0, 0.5) == limits.FIRST_PAUSE_SECONDS / 2
    assert [upstream.pause(n, 1.0) for n in (1, 2, 3, 99)] == [2.0, 4.0, 5.0, 5.0]
    # Such a service stays as it is until an operator acts.
    assert upstream.pause(0, 0.5, has_lost=True) == limits.LOST_PAUSE_SECONDS_MAX / 2
