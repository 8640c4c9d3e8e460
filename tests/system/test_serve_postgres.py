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
    with postgres.one_database(is_empty=True) as made:
        yield made


@pytest.fixture
def start(tmp_path: Path, url: str) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(**settings: str) -> Serving:
        started.append(Serving(tmp_path, FLEET, store_url=url, **settings))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait()


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


def test_a_second_service_on_the_same_database_is_refused(start: Start) -> None:
    start().wait_ready()
    another = start()
    assert another.process.wait(60) != 0
    assert "another service uses the store postgresql://" in another.log()


def test_lost_connections_are_opened_again(start: Start, url: str) -> None:
    service = start().wait_ready()
    postgres.lose_connections(url)
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "reboot"})
    assert eventually(lambda: service.document("web_1")["Events"], bool)
    assert service.process.poll() is None
