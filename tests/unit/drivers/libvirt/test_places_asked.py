"""The hosts that are asked about a VM: those where it is expected, before all others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers.libvirt import workers
from forewarn.drivers.libvirt.answers import observation_of
from forewarn.drivers.libvirt.worker_process import Line
from forewarn.drivers.libvirt.workers import Workers
from forewarn.drivers.port import Observation

HOSTS = [f"h{number}" for number in range(400)]

HANGING = "h399"


class Answering:
    """A worker whose hosts answer at once, and count the questions."""

    asked: list[tuple[str, str]]
    """Each host with each VM that it was asked about; tests set it."""
    places: Mapping[str, tuple[str, ...]]
    """The hosts on which each VM runs."""
    hosts: tuple[str, ...] = ()
    trouble = ""

    def __init__(
        self, _words: object, *, on_line: Callable[[Line], None], **_more: object
    ) -> None:
        self._on_line = on_line

    def start(self) -> None:
        """Run no process."""

    def stop(self) -> None:
        """End no process."""

    def send(self, line: dict[str, Any]) -> bool:
        for host in line["of"]:
            assert host in self.hosts
            self.asked += [(host, vm) for vm in line["vms"]]
            if host != HANGING:
                domains = [
                    {"vm": vm, "presence": "here", "mark": None}
                    for vm in line["vms"]
                    if host in self.places.get(vm, ())
                ]
                self._on_line({"id": line["id"], "host": host, "found": domains})
        return True


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(workers, "WorkerProcess", Answering)
    monkeypatch.setattr(workers, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(workers, "EXPECTED_SECONDS", 0.05)
    Answering.asked = []
    Answering.places = {"web_0": ("h7",), "web_1": ("h8",), "far": (HANGING,)}
    pool = Workers(("worker",), clock=SystemClock(), wake=lambda: None)
    pool.watch_hosts(HOSTS)
    return pool


def observations(
    pool: Workers, vms: Sequence[str], expected: Mapping[str, Sequence[str]]
) -> dict[str, Observation]:
    answers = pool.ask(vms, expected=expected)
    return {
        vm: observation_of(vm, answers.hosts, missing=answers.missing) for vm in vms
    }


def test_vm_that_is_where_it_is_expected_costs_one_question(pool: Workers) -> None:
    states = observations(pool, ["web_0"], {"web_0": ["h7"]})
    assert states == {"web_0": Observation(running=True, host="h7")}
    assert Answering.asked == [("h7", "web_0")]


def test_moved_vm_costs_a_question_to_its_source_and_its_destination(
    pool: Workers,
) -> None:
    states = observations(pool, ["web_0"], {"web_0": ["h7", "h3"]})
    assert states == {"web_0": Observation(running=True, host="h7")}
    assert sorted(Answering.asked) == [("h3", "web_0"), ("h7", "web_0")]


def test_others_are_asked_only_about_the_vm_that_is_elsewhere(pool: Workers) -> None:
    states = observations(pool, ["web_0", "web_1"], {"web_0": ["h7"], "web_1": ["h7"]})
    assert states["web_1"] == Observation(running=True, host="h8")
    assert Answering.asked[:2] == [("h7", "web_0"), ("h7", "web_1")]
    others = Answering.asked[2:]
    assert {vm for _, vm in others} == {"web_1"}
    assert len(others) == len(HOSTS) - 1


def test_expected_host_that_hangs_leaves_time_for_the_others(pool: Workers) -> None:
    states = observations(pool, ["web_0"], {"web_0": [HANGING]})
    assert states == {"web_0": Observation(running=True, host="h7")}


def test_vm_that_runs_nowhere_is_asked_of_each_host_once(pool: Workers) -> None:
    states = observations(pool, ["lost"], {"lost": ["h7"]})
    assert states == {"lost": Observation()}
    assert sorted(host for host, _ in Answering.asked) == sorted(HOSTS)


def test_vm_without_an_expected_host_is_asked_of_all(pool: Workers) -> None:
    assert observations(pool, ["web_0"], {})["web_0"].host == "h7"
    assert len(Answering.asked) == len(HOSTS)


def test_host_that_is_not_in_the_fleet_is_not_asked(pool: Workers) -> None:
    assert observations(pool, ["web_0"], {"web_0": ["h999"]})["web_0"].host == "h7"
