"""`forewarn serve` with its store in PostgreSQL: the same promises as with a file."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

FLEET = "".join(
    f'[[host]]\nname = "h{number}"\n[[vm]]\nname = "web_{number}"\n'
    f'host = "h{number}"\nlisten = "127.0.0.1:0"\n'
    for number in range(3)
)

Start = Callable[..., Serving]


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.one_database(is_empty=True) as database:
        yield database


@pytest.fixture
def start(tmp_path: Path, url: str) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(**settings: str) -> Serving:
        started.append(Serving(tmp_path, FLEET, store_url=url, **settings))
        return started[-1]

    yield begin
    for service in started:
        service.process.kill()
        service.process.wait()


def test_what_was_answered_survives_a_crash(start: Start) -> None:
    fast = {"driver_simulated_reboot": "1s", "timing_recovery": "200ms"}
    service = start(**fast).wait_ready()
    assert service.document("web_0") == {"DocumentIncarnation": 1, "Events": []}
    service.admin("/v1/maintain", {"hosts": ["h0"], "impact": "reboot"})
    [event] = eventually(lambda: service.document("web_0")["Events"], bool)
    ordered = service.document("web_0")
    service.kill()

    service = start(**fast).wait_ready()
    assert service.document("web_0") == ordered
    assert service.approve("web_0", event["EventId"]) == 200
    service.kill()

    service = start(**fast).wait_ready()
    eventually(lambda: service.document("web_0")["Events"], lambda events: not events)
    # The process of the operator API reads the database itself.
    [ended] = service.admin("/v1/events?all=true&limit=100")["events"]
    assert ended["approved_by"]
    assert service.terminate() == 0
    assert "Traceback" not in service.log()


def test_second_service_follows_and_takes_over_when_the_first_is_killed(
    start: Start,
) -> None:
    quick = {"cluster_lease": "1s", "metadata_listen": "127.0.0.1:0"}
    first = start(**quick).wait_ready()
    second = start(**quick).wait_ready()
    eventually(first.role, "leads".__eq__)
    eventually(second.role, "follows".__eq__)
    eventually(lambda: second.document("web_0"), bool)
    for replica in (first, second):
        # Each process of the operator API asks its own service.
        shown = eventually(
            lambda server=replica: server.admin("/v1/cluster"),
            lambda found: len(found["replicas"]) == 2 and found["leader"],
        )
        assert {one["role"] for one in shown["replicas"]} == {"leads", "follows"}
        assert shown["synchronous_standby"] == "not set"
    first.admin("/v1/maintain", {"hosts": ["h0"], "impact": "reboot"})
    [event] = eventually(lambda: second.document("web_0")["Events"], bool)
    first.kill()
    assert second.document("web_0")["Events"] == [event]
    eventually(
        lambda: second.approve("web_0", event["EventId"]), lambda code: code == 200
    )
    eventually(second.role, "leads".__eq__)
    assert second.terminate() == 0
    assert "Traceback" not in second.log()


def test_leader_that_is_stopped_hands_over(start: Start) -> None:
    first = start().wait_ready()
    second = start().wait_ready()
    assert first.terminate() == 0
    eventually(second.role, "leads".__eq__)
    assert "Traceback" not in first.log() + second.log()


def test_lost_connections_are_opened_again(start: Start, url: str) -> None:
    service = start().wait_ready()
    postgres.lose_connections(url)
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "reboot"})
    assert eventually(lambda: service.document("web_1")["Events"], bool)
    assert service.process.poll() is None
