"""A VM that approves at one replica reads its approval at the other one at once.

Nothing of the two processes is imported here: what they answer is judged.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from tests.support import postgres
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

VMS = 12

BOUND_SECONDS = 2.0
"""An answer that waits for so long is given in any case."""

FLEET = "".join(
    f'[[host]]\nname = "h{number}"\n[[vm]]\nname = "web_{number}"\n'
    f'host = "h{number}"\nlisten = "127.0.0.1:0"\n'
    for number in range(VMS)
)


def start(directory: Path, url: str, name: str) -> Serving:
    return Serving(
        directory,
        FLEET,
        store_url=url,
        cluster_name=name,
        metadata_listen="127.0.0.1:0",
        driver_simulated_freeze="10m",
    ).wait_ready()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[tuple[Serving, Serving]]:
    """Yield the replica that leads, and one that follows."""
    with postgres.one_database(is_empty=True) as url:
        first, second = (start(tmp_path / name, url, name) for name in ("a", "b"))
        yield first, second
        for replica in (first, second):
            replica.process.kill()
            replica.process.wait()


def test_other_replica_serves_an_approval_when_it_is_answered(
    replicas: tuple[Serving, Serving],
) -> None:
    clock, statuses = SystemClock(), dict[str, str]()
    for replica in replicas:
        for number in range(VMS):
            assert replica.document(f"web_{number}")["Events"] == []
    for number in range(VMS):
        vm = f"web_{number}"
        body = {"hosts": [f"h{number}"], "impact": "freeze"}
        replicas[0].admin("/v1/maintain", body)
        [event] = eventually(
            lambda vm=vm: replicas[1].document(vm)["Events"], bool, what=vm
        )
        # Each of them takes approvals.
        here, there = replicas[:: 1 if number % 2 else -1]
        began = clock.monotonic()
        assert here.approve(vm, event["EventId"]) == 200
        took = clock.monotonic() - began
        [read] = there.document(vm)["Events"]
        # Nothing is promised beyond the bound, as on a machine that is too busy.
        if took < BOUND_SECONDS:
            statuses[vm] = read["EventStatus"]
    assert set(statuses.values()) == {"Started"}, statuses
