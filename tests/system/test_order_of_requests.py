"""`kill -9` with many due operations: they continue in the order of the requests."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.processes import Serving, eventually
from tests.support.profiles import some

pytestmark = [pytest.mark.system, pytest.mark.slow]

COUNT = 40

FLEET = '[[tenant]]\nname = "shop"\n' + "".join(
    f'[[host]]\nname = "h{number}"\n'
    f'[[vm]]\nname = "vm_{number}"\nhost = "h{number}"\ntenant = "shop"\n'
    for number in range(COUNT)
)

SPEED = {"timing_speed": "1000"}
"""Notices take at least a second, so that a time can be set by hand."""

KILLED_AFTER = (None, 0, 7)
"""Started operations at the kill; None: killed before any is due."""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[list[Serving]]:
    started = [Serving(tmp_path, FLEET, **SPEED).wait_ready()]
    yield started
    for service in started:
        service.process.kill()
        service.process.wait()


def started(service: Serving) -> list[str]:
    """Return the hosts whose operations have started, in the order of the decisions."""
    lines = service.admin("/v1/history?limit=1000")["entries"]
    return [
        subject.removeprefix("host:")
        for line in lines
        if line["what"] == "operation impacting"
        for subject in line["subjects"]
        if subject.startswith("host:")
    ]


@pytest.mark.parametrize("after", some(KILLED_AFTER, usual=[7]))
def test_order_survives_a_kill(
    tmp_path: Path, services: list[Serving], after: int | None
) -> None:
    service = services[0]
    numbers = Random(7).sample(range(COUNT), COUNT)
    first, *others = numbers
    body = {"hosts": [f"h{first}"], "impact": "freeze", "not_before": "+8s"}
    response = service.admin("/v1/maintain", body)
    [operation] = service.admin("/v1/operations")["operations"]
    assert response["request"] == operation["request"]
    for number in others:
        service.admin(
            "/v1/maintain",
            {
                "hosts": [f"h{number}"],
                "impact": "freeze",
                "not_before": operation["not_before"],
            },
        )
    if after is not None:
        eventually(lambda: len(started(service)), lambda count: count > after)
    service.kill()
    service = Serving(tmp_path, FLEET, **SPEED).wait_ready()
    services.append(service)
    hosts = eventually(lambda: started(service), lambda values: len(values) == COUNT)
    assert hosts == [f"h{number}" for number in numbers]
