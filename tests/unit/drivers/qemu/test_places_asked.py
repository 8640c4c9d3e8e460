"""The monitors that are asked about a VM: of the expected hosts before all others."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers.qemu import answers, processes
from tests.unit.drivers.qemu.living import Living

HOSTS = 400


@pytest.fixture
def living(tmp_path: Path) -> Living:
    """Return a fleet whose other hosts all have an old socket of web_0."""
    living = Living(tmp_path)
    for number in range(HOSTS - 1):
        path = living.places.monitor_of("web_0", f"old{number}")
        path.parent.mkdir()
        path.touch()
    return living


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the hosts whose monitors were opened, in order."""
    hosts: list[str] = []
    open_monitor = processes.open_monitor

    def counted(path: Path, *, seconds: float) -> Any:
        hosts.append(path.parent.name)
        return open_monitor(path, seconds=seconds)

    monkeypatch.setattr(processes, "open_monitor", counted)
    return hosts


def observation(living: Living, expected: Sequence[str]) -> dict[str, Any]:
    """Return what is observed of web_0, which runs on h1."""
    lines: list[str] = []

    async def story() -> None:
        await living.start(host="h1")
        lines.extend(await answers.observe(living.places, {"web_0": expected}))

    living.run(story())
    [line] = lines
    return json.loads(line)


HERE = {"vm": "web_0", "running": True, "host": "h1"}


def test_vm_that_is_where_it_is_expected_opens_one_monitor(
    living: Living, opened: list[str]
) -> None:
    assert observation(living, ["h2", "h1"]) == HERE
    assert opened == ["h1"]


def test_vm_that_is_elsewhere_is_asked_of_all(
    living: Living, opened: list[str]
) -> None:
    assert observation(living, ["old7"]) == HERE
    assert set(opened) == {"h1", *(f"old{number}" for number in range(HOSTS - 1))}


def test_questions_of_the_driver_name_the_expected_hosts() -> None:
    lines = ['{"vm": "a", "hosts": ["h1", "h2"]}', '{"vm": "b"}', "not JSON"]
    assert answers.vms_in(lines) == {"a": ["h1", "h2"], "b": ()}
