"""Faults over real sockets: a careful client lives on, and a naive one suffers.

A harmless fault proves nothing, so each must break a client.
"""

import http.client
import json
import socket
import time
from collections.abc import Iterator

import pytest

from forewarn.protocol.events import EventStatus
from forewarn.sim.faults.fault import FAULTS, Approval
from forewarn.sim.loop import LoopThread
from tests.support.stages import StagedFleet, staged_fleet
from tests.system.clients import QUERY, Careful, Naive

pytestmark = pytest.mark.system

DIES = "dies"
HANGS = "hangs"
TWICE = "acts twice"
AGAIN = "plans again"
MISSES = "misses the event"
DECEIVED = "misses the event, as everybody does"

HARMS = {
    "delay 400ms": HANGS,
    "timeout": HANGS,
    "refuse": DIES,
    "reset": DIES,
    "reset 0": DIES,
    "reset lost": DIES,
    "slow 60/80ms": HANGS,
    "400": DIES,
    "404": DIES,
    "410": DIES,
    "429": DIES,
    "500": DIES,
    "500 flapping": DIES,
    "503 retry-after 1": DIES,
    "empty": DIES,
    "text": DIES,
    "html": DIES,
    "mistyped": DIES,
    "broken": DIES,
    "newline": DIES,
    "no-events": DIES,
    "null-events": DIES,
    "duplicate-events": TWICE,
    "reordered-events x2 flapping": AGAIN,
    "stale x2 flapping": TWICE,
    "stuck": DECEIVED,
    "incarnation-reset": MISSES,
    "iso-dates": DIES,
    "500, empty, timeout, ok": DIES,
}


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture
def fleet(loop: LoopThread) -> Iterator[StagedFleet]:
    with staged_fleet(loop) as fleet:
        yield fleet


def kind_of(line: str) -> str:
    return line.partition(" ")[0].rstrip(",")


def harm(naive: Naive, last: str) -> str:
    if naive.hangs:
        return HANGS
    if naive.error is not None:
        return DIES
    if len({*naive.acted}) < len(naive.acted):
        return TWICE
    if last not in naive.acted:
        return MISSES
    return AGAIN if naive.plans > 2 else ""


def live(fleet: StagedFleet, line: str) -> tuple[Careful, Naive, list[str], str]:
    """Have both poll before, under and after a fault."""
    careful = Careful(*fleet.at["web_0"], fault=line)
    trusts = line.startswith("incarnation")
    naive = Naive(*fleet.at["web_1"], trusts_number=trusts)
    first = fleet.event("web_0")
    careful.poll()
    naive.poll()
    if line:
        fleet.set("", line)
    second = fleet.event("web_1")
    for _ in range(4):
        careful.poll()
        naive.poll()
    suffered = harm(naive, second)
    knew = second in careful.acted
    fleet.call(lambda stage: stage.faults.clear())
    careful.poll()
    if suffered == MISSES and not knew:
        suffered = DECEIVED
    return careful, naive, [first, second], suffered


def test_both_clients_work_without_faults(fleet: StagedFleet) -> None:
    careful, naive, events, suffered = live(fleet, "")
    assert suffered == ""
    assert careful.acted == naive.acted == events
    assert careful.troubles == 0


@pytest.mark.parametrize("line", HARMS)
def test_fault_harms_the_naive_client_and_not_the_careful_one(
    fleet: StagedFleet, line: str
) -> None:
    careful, _, events, suffered = live(fleet, line)
    assert suffered == HARMS[line]
    assert sorted(careful.acted) == sorted(events)
    kinds = fleet.call(lambda stage: stage.faults.counts())
    assert kind_of(line) in kinds
    played = fleet.call(lambda stage: [entry.fault for entry in stage.journal])
    assert sum(kinds.values()) == sum(fault != "" for fault in played)


def test_every_kind_of_fault_is_shown_to_harm() -> None:
    shown = {kind_of(line) for line in HARMS}
    assert shown == {*FAULTS} - {"ok", "replace"}


@pytest.mark.parametrize(
    ("kind", "approval"),
    [
        (kind.name, approval)
        for kind in FAULTS.values()
        for approval in kind.approvals
        if kind.name not in {"ok", "replace"}
    ],
)
def test_approval_is_lost_or_accepted_as_the_fault_specifies(
    fleet: StagedFleet, kind: str, approval: Approval
) -> None:
    argument = {"delay": " 400ms", "slow": " 20/80ms"}.get(kind, "")
    client = Careful(*fleet.at["web_0"], fault=kind)
    client.poll()
    event_id = fleet.event()
    fleet.set("web_0", f"{kind}{argument} post {approval.value} x1")
    was_told = client.approve(event_id)
    (exchange,) = fleet.call(lambda stage: stage.journal.find(method="POST"))[:1] or (
        # A refused connection never says what it is for.
        fleet.call(lambda stage: stage.journal.find(method=""))
    )
    is_taken = approval is Approval.TAKEN
    assert exchange.took_effect == is_taken
    (event,) = fleet.events()
    started = event.status is EventStatus.STARTED
    assert started == is_taken
    # Some faults leave the status good: a client that reads no more is content.
    assert was_told == (kind in {"empty", "text", "html"})
    assert client.approve(event_id)
    (event,) = fleet.events()
    assert event.status is EventStatus.STARTED
    counted = fleet.call(lambda stage: stage.journal.approvals(event_id))
    assert len(counted) == 1 + is_taken


def test_playbook_is_played_in_order(fleet: StagedFleet) -> None:
    fleet.call(
        lambda stage: stage.faults.play(["500", "500", "timeout", "empty", "ok", "404"])
    )
    client = Careful(*fleet.at["web_0"], fault="timeout")
    for _ in range(7):
        client.poll()
    exchanges = fleet.call(lambda stage: [*stage.journal])
    assert [exchange.fault for exchange in exchanges] == [
        *["500 x1"] * 2,
        "timeout x1",
        "empty x1",
        "",
        "404 x1",
        "",
    ]
    assert [exchange.status for exchange in exchanges] == [
        500,
        500,
        0,
        200,
        200,
        404,
        200,
    ]
    assert [exchange.genuine for exchange in exchanges] == [0, 0, 0, 200, 200, 0, 200]


def test_parallel_worlds_share_no_faults(loop: LoopThread) -> None:
    with staged_fleet(loop) as one, staged_fleet(loop) as other:
        one.set("", "500")
        clients = [Careful(*fleet.at["web_0"]) for fleet in (one, other)]
        for client in clients:
            client.poll()
        assert [client.troubles for client in clients] == [1, 0]
        assert one.call(lambda stage: len(stage.journal)) == 1
        (exchange,) = other.call(lambda stage: [*stage.journal])
        assert exchange.fault == ""


def test_fault_of_one_vm_does_not_affect_its_neighbor(fleet: StagedFleet) -> None:
    fleet.set("web_0", "reset")
    clients = [Careful(*fleet.at[vm]) for vm in ("web_0", "web_1")]
    for client in clients:
        client.poll()
    assert [client.troubles for client in clients] == [1, 0]


def test_connection_survives_slow_and_delayed_responses(fleet: StagedFleet) -> None:
    connection = http.client.HTTPConnection(*fleet.at["web_0"], timeout=5)
    fleet.set("web_0", "slow 100/10ms, delay 100ms, 500, ok")
    bodies: list[bytes] = []
    for _ in range(5):
        connection.request("GET", QUERY, headers={"Metadata": "true"})
        answer = connection.getresponse()
        bodies.append(answer.read())
        wire = connection.sock
        assert wire is not None, "the connection stays"
    assert bodies[0] == bodies[1] == bodies[3] == bodies[4]
    assert json.loads(bodies[2]) == {"error": "Internal server error"}
    connection.close()


def test_pipelined_requests_are_answered_in_order(fleet: StagedFleet) -> None:
    request = f"GET {QUERY} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n".encode()
    fleet.set("web_0", "slow 60/5ms, 404, delay 20ms")
    with socket.create_connection(fleet.at["web_0"], 5) as wire:
        wire.sendall(request * 4)
        wire.shutdown(socket.SHUT_WR)
        received = b""
        while part := wire.recv(65_536):
            received += part
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200", b"200"]


def test_silent_connection_ends_when_the_client_disconnects(fleet: StagedFleet) -> None:
    fleet.set("web_0", "timeout")
    client = Careful(*fleet.at["web_0"], fault="timeout")
    client.poll()
    until = time.monotonic() + 5
    while fleet.call(lambda stage: stage.server.open_connections):
        assert time.monotonic() < until, "the connection is still there"
        time.sleep(0.01)


def test_matching_tag_does_not_prevent_a_faulty_document(fleet: StagedFleet) -> None:
    connection = http.client.HTTPConnection(*fleet.at["web_0"], timeout=5)
    statuses: list[int] = []
    for line in ("", "null-events", "500"):
        if line:
            fleet.set("web_0", line)
        headers = {"Metadata": "true", "If-None-Match": '"1"'}
        for _ in range(2):
            connection.request("GET", QUERY, headers=headers)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
    assert statuses == [200, 304, 200, 200, 500, 500]
    connection.close()


def test_poller_with_a_cached_response_is_recorded_and_affected(
    fleet: StagedFleet,
) -> None:
    connection = http.client.HTTPConnection(*fleet.at["web_0"], timeout=5)
    statuses: list[int] = []

    def poll(times: int, tag: str = "") -> None:
        for _ in range(times):
            headers = {"Metadata": "true"}
            if tag:
                headers["If-None-Match"] = tag
            connection.request("GET", QUERY, headers=headers)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)

    poll(5)
    poll(5, '"1"')
    fleet.set("web_0", "500 x2")
    poll(5, '"1"')
    poll(5)
    fleet.event()
    poll(3, '"1"')
    wanted = [*[200] * 5, *[304] * 5, 500, 500, *[304] * 3, *[200] * 8]
    assert statuses == wanted
    exchanges = fleet.call(lambda stage: [*stage.journal])
    assert [exchange.status for exchange in exchanges] == wanted
    assert [exchange.number for exchange in exchanges] == [*range(1, len(wanted) + 1)]
    tags = ["if-none-match" in exchange.headers for exchange in exchanges]
    assert tags == [False] * 5 + [True] * 10 + [False] * 5 + [True] * 3
    hasty = fleet.call(lambda stage: stage.journal.deviations(vm="web_0"))
    assert {deviation.name for _, deviation in hasty} == {"too-often"}
    connection.close()


def test_faults_hit_the_instance_endpoint_only_if_named(fleet: StagedFleet) -> None:
    path = "/metadata/instance?api-version=2021-02-01"
    connection = http.client.HTTPConnection(*fleet.at["web_0"], timeout=5)
    statuses: list[int] = []
    for line in ("500", "500 on instance", "empty on all"):
        fleet.set("web_0", line)
        connection.request("GET", path, headers={"Metadata": "true"})
        answer = connection.getresponse()
        body = answer.read()
        statuses.append(answer.status)
    assert statuses == [200, 500, 200]
    assert body == b""
    connection.close()
