"""The agent's output: pages, metrics, texts, and systemd's watchdog."""

import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from forewarn.agent.agent import AgentStatus
from forewarn.agent.core.model import (
    Consent,
    Memory,
    Note,
    NoteKind,
    Phase,
    Presence,
    Stage,
    Step,
    StepState,
    Task,
)
from forewarn.agent.observability import metric_definitions, metrics, status
from forewarn.agent.observability import server as server_module
from forewarn.agent.observability.feeding import Feeder
from forewarn.agent.observability.metrics import Metrics
from forewarn.agent.observability.pages import Pages, PeerPages
from forewarn.agent.observability.server import (
    ListenError,
    Listeners,
    Reply,
    Request,
    Server,
)
from forewarn.agent.watcher import Watched
from forewarn.agent.wire.endpoint import OUTCOMES
from forewarn.clock import SystemClock, VirtualClock
from forewarn.instants import MINUTE, SECOND
from forewarn.protocol.notices import Notice
from forewarn.supervisor import Supervisor
from tests.support.processes import eventually
from tests.support.unpacked import find, needs

NOTICE = Notice(
    event_id="E1",
    event_type="Reboot",
    status="Scheduled",
    source="Platform",
    resources=("web_0",),
    not_before=15 * MINUTE,
    description="Host \x1b[31m",
)
RUNNING = Step(
    handler="drain",
    phase=Phase.PREPARE,
    attempt=1,
    state=StepState.RUNNING,
    began=SECOND,
    stop_at=60 * SECOND,
    kill_at=65 * SECOND,
)
ENDED = Step(
    handler="drain",
    phase=Phase.PREPARE,
    attempt=1,
    state=StepState.DONE,
    began=SECOND,
    stop_at=60 * SECOND,
    kill_at=65 * SECOND,
    ended=4 * SECOND,
)


def task(**changes: object) -> Task:
    fields: dict[str, object] = {
        "event_id": "E1",
        "notice": NOTICE,
        "mine": True,
        "rule": "rule 1",
        "seen": SECOND,
        **changes,
    }
    return Task(**fields)  # pyright: ignore[reportArgumentType]


class Scene:
    """that a test sets."""

    def __init__(self) -> None:
        self.clock = VirtualClock(SECOND)
        self.status = AgentStatus(memory=Memory(name="web_0"), turned=0.001)
        self.watched = Watched(url="http://h", polls=dict.fromkeys(OUTCOMES, 0))
        self.is_watching = True
        self.age: int | None = 2 * SECOND
        self.metrics = Metrics(Memory(), handlers=["drain"])
        self.pages = Pages(
            agent=lambda: self.status,
            watched=lambda: self.watched,
            is_watching=lambda: self.is_watching,
            age=lambda: self.age,
            history=lambda: [Note(at=SECOND, kind=NoteKind.SEEN, notice=NOTICE)],
            metrics=self.metrics,
            clock=self.clock,
            began=0,
        )

    def get(self, path: str) -> Reply:
        return self.pages.answer(Request(path=path))


def test_health_fails_only_if_a_loop_has_stopped() -> None:
    scene = Scene()
    scene.age = 10 * MINUTE
    scene.watched = Watched(detail="timed out", failures=600)
    assert scene.get("/healthz") == Reply(body="ok\n")
    assert scene.get("/readyz").status == 503
    assert "not answered for 10 m: timed out" in scene.get("/readyz").body
    scene.is_watching = False
    assert scene.get("/healthz").body == "polling of the endpoint has stopped\n"
    scene.is_watching = True
    scene.clock.advance_to(MINUTE)
    assert scene.get("/healthz").body == "no decision was made for 59 s\n"
    assert not scene.pages.is_alive()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"age": None}, "the endpoint has not answered yet"),
        ({"status": AgentStatus(memory=Memory())}, "name is not known"),
        (
            {"status": AgentStatus(memory=Memory(name="a"), journal_fault="disk full")},
            "the journal cannot be used: disk full",
        ),
    ],
)
def test_readiness_reports_what_is_missing(
    change: dict[str, object], reason: str
) -> None:
    scene = Scene()
    assert scene.get("/readyz").status == 200
    for name, value in change.items():
        setattr(scene, name, value)
    assert reason in scene.get("/readyz").body
    assert reason in scene.pages.summary()


def test_status_is_available_as_json_and_text() -> None:
    scene = Scene()
    memory = Memory(
        name="web_0",
        tasks=(
            task(stage=Stage.PREPARING, steps=(RUNNING,)),
            task(event_id="E2", mine=False, consent=Consent.GIVEN),
            task(event_id="E3", stage=Stage.FINISHED),
        ),
    )
    scene.status = AgentStatus(memory=memory, waits=(("E1", "it is being prepared"),))
    document = json.loads(scene.get("/status").body)
    assert [event["EventId"] for event in document["events"]] == ["E1", "E2", "E3"]
    assert document["events"][0]["waits_for"] == "it is being prepared"
    assert document["events"][0]["runs"][0]["deadline"] == "1970-01-01T00:01:00Z"
    assert (document["vm"], document["alive"], document["ready"]) == (
        "web_0",
        True,
        True,
    )
    message = "\n".join(status.words_of(document, now=MINUTE))
    assert "endpoint  http://h answered 2 s ago" in message
    assert "not before  1970-01-01T00:15:00Z (in 14 m)" in message
    assert "prepare     drain running, until 1970-01-01T00:01:00Z" in message
    assert "approval    not yet: it is being prepared" in message
    assert "E2  of another VM" in message
    assert "E3" not in message
    assert "1970-01-01T00:00:01Z  Reboot seen" in message


def test_status_does_not_claim_another_vm_before_the_name_is_known() -> None:
    document = status.document_of(Memory(tasks=(task(mine=False),)))
    message = "\n".join(status.words_of(document, now=MINUTE))
    assert "E1  (this VM's name is not known yet)" in message
    assert "of another VM" not in message


def test_status_explains_why_an_event_is_kept() -> None:
    scene = Scene()
    doubted = task(presence=Presence.MISSING, absent_at=SECOND)
    left = task(event_id="E2", stage=Stage.RECOVERING, presence=Presence.GONE)
    why = "no document lists it since 1970-01-01T00:00:01Z"
    memory = Memory(name="web_0", tasks=(doubted, left))
    scene.status = AgentStatus(memory=memory, doubts=(("E1", why),))
    document = json.loads(scene.get("/status").body)
    assert [event["presence"] for event in document["events"]] == ["missing", "gone"]
    assert [event["doubt"] for event in document["events"]] == [why, ""]
    messages = list(status.words_of(document, now=MINUTE))
    assert f"  presence    {why}" in messages
    assert "\n".join(messages).count("presence") == 1


def test_status_explains_that_missing_answers_end_no_event() -> None:
    scene = Scene()
    scene.watched = Watched(failures=3, detail="timed out")
    scene.status = AgentStatus(memory=Memory(name="web_0", tasks=(task(),)))
    document = json.loads(scene.get("/status").body)
    lines = list(status.words_of(document, now=MINUTE))
    assert (
        "  presence    as in the last document; missing answers do not end an event"
        in lines
    )
    document["events"][0]["doubt"] = "no document lists it"
    text = "\n".join(status.words_of(document, now=MINUTE))
    assert (
        "no document lists it; this time does not count while the endpoint is silent"
        in text
    )


def test_dry_run_shows_an_approval_as_hypothetical() -> None:
    memory = Memory(name="web_0", tasks=(task(consent=Consent.GIVEN),))
    for mode, words in (("dry run", "would be given: dry run"), ("normal", "given")):
        document = status.document_of(memory, about={"mode": mode})
        messages = list(status.words_of(document, now=MINUTE))
        assert f"  approval    {words}" in messages


def test_status_reports_an_unreachable_agent() -> None:
    document = status.document_of(Memory(name="a"), about={"unreachable": "timeout"})
    message = "\n".join(status.words_of(document, now=0))
    assert "no answer: timeout" in message
    assert "no events" in message


def test_root_page_links_metrics_and_unknown_page_is_404() -> None:
    scene = Scene()
    assert "/metrics" in scene.get("/").body
    assert scene.get("/x").status == 404


def test_peers_with_the_token_get_the_status_of_an_event() -> None:
    memory = Memory(
        name="web_0",
        tasks=(task(stage=Stage.PREPARED), task(event_id="E2", stage=Stage.PREPARING)),
    )
    pages = PeerPages(lambda: AgentStatus(memory=memory), token="t0ken")

    def ask(path: str, token: str = "t0ken") -> Reply:
        headers = {"authorization": f"Bearer {token}"}
        return pages.answer(Request(path=path, headers=headers))

    assert json.loads(ask("/v1/events/e1").body)["prepared"]
    assert not json.loads(ask("/v1/events/E2").body)["prepared"]
    assert not json.loads(ask("/v1/events/E%33").body)["known"]
    assert ask("/v1/events/E1", "other").status == 401
    assert pages.answer(Request(path="/v1/events/E1")).status == 401
    assert ask("/v1/events/A%2Fb").status == 200
    for path in ("/v1/events/", "/v1/events/a/b", "/status"):
        assert ask(path).status == 404


# Metrics


def value(text: str, series: str) -> float:
    [line] = [line for line in text.splitlines() if line.startswith(f"{series} ")]
    return float(line.rpartition(" ")[2])


def test_decisions_runs_and_approvals_are_counted() -> None:
    counted = Metrics(Memory(), handlers=["drain"])
    memory = Memory(tasks=(task(steps=(RUNNING,)),))
    counted.decided(memory, [Note(at=0, kind=NoteKind.SEEN)])
    counted.decided(Memory(tasks=(task(steps=(ENDED,), tries=1),)))
    approved = task(steps=(ENDED,), tries=2, consent=Consent.GIVEN)
    counted.decided(Memory(tasks=(approved,)))
    counted.decided(Memory(tasks=(approved,)))
    text = counted.text(metrics.now_of(Memory(tasks=(approved,))))
    assert value(text, 'forewarn_agent_decisions_total{kind="seen"}') == 1
    assert value(text, 'forewarn_agent_events_seen_total{type="Reboot"}') == 1
    assert value(text, 'forewarn_agent_notice_seconds_sum{type="Reboot"}') == 899
    run = 'handler="drain",phase="prepare"'
    assert value(text, f'forewarn_agent_handler_runs_total{{{run},result="done"}}') == 1
    assert value(text, f'forewarn_agent_handler_seconds_bucket{{{run},le="2"}}') == 0
    assert value(text, f'forewarn_agent_handler_seconds_bucket{{{run},le="5"}}') == 1
    assert value(text, 'forewarn_agent_approvals_total{result="given"}') == 1
    assert value(text, 'forewarn_agent_approvals_total{result="unanswered"}') == 1
    assert value(text, 'forewarn_agent_events{type="Reboot",status="Scheduled"}') == 1


def test_not_before_of_the_next_event_is_a_metric() -> None:
    def due(*tasks: Task) -> float:
        text = Metrics(Memory()).text(metrics.now_of(Memory(tasks=tasks)))
        name = "forewarn_agent_not_before_timestamp_seconds"
        return value(text, f'{name}{{type="Reboot"}}')

    late = task(event_id="E2", notice=replace(NOTICE, not_before=30 * MINUTE))
    begun = replace(NOTICE, status="Started", not_before=MINUTE)
    unknown = replace(NOTICE, not_before=None)
    assert due() == 0
    assert due(late) == 1800
    assert due(late, task()) == 900
    assert due(late, task(notice=begun), task(notice=unknown)) == 1800
    assert due(late, task(mine=False)) == 1800


def test_work_from_before_the_start_is_not_counted_again() -> None:
    memory = Memory(tasks=(task(steps=(ENDED,), consent=Consent.GIVEN, tries=1),))
    counted = Metrics(memory, handlers=["drain"])
    counted.decided(memory)
    text = counted.text({})
    assert value(text, 'forewarn_agent_events_seen_total{type="Reboot"}') == 0


def test_every_series_exists_at_start_and_promtool_accepts_it() -> None:
    text = Scene().get("/metrics").body
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert names == {meter.name for meter in metric_definitions.METERS}
    assert value(text, 'forewarn_agent_polls_total{result="timeout"}') == 0
    if why := needs("promtool"):
        pytest.skip(why)
    done = subprocess.run(
        [find("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# systemd


class Hearing(Supervisor):
    """Stores the messages that it gets."""

    told: list[tuple[str, ...]] = []  # noqa: RUF012 - one test has one

    def notify(self, *lines: str) -> None:
        self.told.append(lines)


def test_watchdog_is_notified_while_the_agent_is_alive() -> None:
    clock, alive = VirtualClock(0), [True]
    hearing = Hearing(address="x", watchdog_seconds=30)
    hearing.told.clear()
    feeder = Feeder(
        hearing, is_alive=lambda: alive[0], status=lambda: "well", clock=clock
    )
    feeder.begin()
    for second in range(1, 31):
        feeder.tick()
        clock.advance_to(second * SECOND)
    assert hearing.told[0] == ("READY=1", "STATUS=well")
    assert hearing.told[1:] == [("WATCHDOG=1", "STATUS=well")] * 3
    alive[0] = False
    feeder.tick()
    feeder.end()
    assert hearing.told[-1] == ("STOPPING=1", "STATUS=stopping")
    assert len(hearing.told) == 5


# The server, on real sockets


@pytest.fixture
def served() -> Iterator[tuple[str, int]]:
    def answer(request: Request) -> Reply:
        if request.path == "/fault":
            raise ValueError("no")
        return Reply(body=f"{request.path} {request.headers.get('x', '')}\n")

    server = Server(clock=SystemClock())
    place = server.listen("127.0.0.1:0", answer)
    server.start()
    yield place
    server.stop()


def said(place: tuple[str, int], *pieces: bytes) -> str:
    with socket.create_connection(place, timeout=5) as connection:
        with contextlib.suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65_536):
                received += piece
    return received.decode()


def test_a_request_in_pieces_is_answered_once(served: tuple[str, int]) -> None:
    answer = said(served, b"GET /a?b HTTP/1.1\r\nX", b": y\r\n", b"\r\n")
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert answer.endswith("\r\n\r\n/a y\n")
    assert said(served, b"HEAD /a HTTP/1.1\r\n\r\n").endswith("\r\n\r\n")


def test_invalid_request_gets_an_error_status(served: tuple[str, int]) -> None:
    for request, status_line in (
        (b"POST / HTTP/1.1\r\n\r\n", "405"),
        (b"hello\r\n\r\n", "400"),
        (b"GET / " + b"x" * 9_000, "431"),
        (b"GET /fault HTTP/1.1\r\n\r\n", "500"),
    ):
        assert said(served, request).startswith(f"HTTP/1.1 {status_line} "), request


def test_idle_connections_do_not_block_other_clients(served: tuple[str, int]) -> None:
    crowd = [socket.create_connection(served, timeout=5) for _ in range(40)]
    assert "200" in said(served, b"GET / HTTP/1.1\r\n\r\n")
    for client in crowd:
        client.close()


def test_occupied_address_is_reported(served: tuple[str, int]) -> None:
    other = Server(clock=SystemClock())
    with pytest.raises(ListenError, match="cannot listen at"):
        other.listen(f"127.0.0.1:{served[1]}", lambda _: Reply())
    other.stop()


def test_server_listens_when_a_used_address_becomes_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    place: tuple[str, int] = taken.getsockname()
    address = f"127.0.0.1:{place[1]}"
    server = Server(clock=SystemClock())
    assert server.listen_when_free(address, lambda _: Reply(body="here")) is None
    server.retry()
    assert list(server.faults) == [address]
    assert "cannot listen at" in server.faults[address]
    assert "the agent continues without it" in caplog.text
    taken.close()
    server.retry()
    server.start()
    assert said(place, b"GET / HTTP/1.1\r\n\r\n").endswith("here")
    assert not server.faults
    assert f"the agent listens at {address} now" in caplog.text
    server.stop()


def test_server_retries_listening_automatically(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "RETRY_SECONDS", 0.01)
    taken = socket.create_server(("127.0.0.1", 0))
    place: tuple[str, int] = taken.getsockname()
    server = Server(clock=SystemClock())
    server.listen_when_free(f"127.0.0.1:{place[1]}", lambda _: Reply(body="here"))
    server.start()
    taken.close()
    eventually(lambda: server.faults, lambda faults: not faults)
    assert said(place, b"GET / HTTP/1.1\r\n\r\n").endswith("here")
    server.stop()


def test_second_server_takes_over_without_refused_connections() -> None:
    listeners = Listeners()

    def serving(word: str) -> tuple[Server, tuple[str, int]]:
        server = Server(clock=SystemClock(), listeners=listeners)
        return server, server.listen("127.0.0.1:0", lambda _: Reply(body=word))

    first, place = serving("first")
    first.start()
    half = socket.create_connection(place, timeout=5)
    half.sendall(b"GET / HT")
    eventually(lambda: len(first._peers), (1).__eq__)
    ending = threading.Thread(target=first.stop)
    ending.start()
    half.sendall(b"TP/1.1\r\n\r\n")
    assert half.recv(4_096).endswith(b"first")
    ending.join()
    half.close()
    # Between the two servers, new connections wait.
    early = socket.create_connection(place, timeout=5)
    early.sendall(b"GET / HTTP/1.1\r\n\r\n")
    second, again = serving("second")
    assert again == place
    second.start()
    assert early.recv(4_096).endswith(b"second")
    early.close()
    second.stop()
    listeners.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place, timeout=5)
