"""Workers as processes: they end, hang, and are started again."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers import restarts
from forewarn.drivers.libvirt import worker_process, workers
from forewarn.drivers.libvirt.answers import abilities_of
from forewarn.drivers.libvirt.commands import module_problem, worker_words
from forewarn.drivers.libvirt.workers import Workers
from forewarn.drivers.port import StopCause
from forewarn.protocol.abilities import Able, answer_about
from forewarn.protocol.operations import Action
from tests.support.fake_libvirts import FakeLibvirts, fake_python
from tests.support.processes import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]


class World:
    """Two hosts, and the workers for them."""

    def __init__(self, directory: Path) -> None:
        self.libvirts = FakeLibvirts(directory / "libvirt", "h1", "h2")
        self.libvirts.start("web_0", "h1")
        self.woken = threading.Event()
        self.python = fake_python(directory)
        command = (
            *worker_words(self.python),
            self.libvirts.connections().text,
            "serve",
        )
        self.workers = Workers(command, clock=SystemClock(), wake=self.woken.set)

    def until_seen(self, vm: str, *, running: bool) -> Any:
        guests: list[Any] = []

        def look() -> list[Any]:
            guests.extend(self.workers.take())
            return [
                guest for guest in guests if (guest.vm, guest.running) == (vm, running)
            ]

        return eventually(look, bool, what="a sighting")[-1]

    def processes(self) -> list[Any]:
        return [worker._process for worker in self.workers._workers]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(restarts, "AGAIN_SECONDS", 0.05)
    # A worker starts slowly on a busy machine.
    monkeypatch.setattr(workers, "ASK_SECONDS", PATIENCE_SECONDS)
    world = World(tmp_path)
    yield world
    world.workers.stop()


def test_workers_see_and_answer_for_all_hosts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "HOSTS_PER_WORKER", 1)
    world.workers.watch_hosts(["h1", "h2"])
    answers = world.workers.ask(["web_0"])
    assert answers.hosts["h1"]["web_0"].presence == "here"
    assert len(world.workers._workers) == 2
    world.until_seen("web_0", running=True)
    assert world.woken.is_set()
    world.libvirts.domain("web_0", "h1").crash()
    guest = world.until_seen("web_0", running=False)
    assert (guest.host, guest.text) == (
        "h1",
        "libvirt: QEMU was killed or has crashed",
    )


def test_without_hosts_nothing_is_known(world: World) -> None:
    answers = world.workers.ask(["web_0"])
    assert (answers.hosts, answers.missing) == ({}, frozenset())


def test_host_that_is_added_or_removed_changes_its_worker_only(world: World) -> None:
    world.workers.watch_hosts(["h1"])
    assert world.workers.ask(["web_0", "x"]).hosts.keys() == {"h1"}
    [first] = world.processes()
    world.workers.watch_hosts(["h1", "h2"])
    assert world.workers.ask(["web_0", "x"]).hosts.keys() == {"h1", "h2"}
    world.workers.watch_hosts(["h2"])
    assert world.workers.ask(["x"]).hosts.keys() == {"h2"}
    assert world.processes() == [first]


def test_worker_that_dies_is_started_again_and_lists_its_hosts(world: World) -> None:
    world.workers.watch_hosts(["h1"])
    world.workers.ask(["web_0"])
    [first] = world.processes()
    os.kill(first.pid, signal.SIGKILL)
    world.libvirts.domain("web_0", "h1").shutdown()
    eventually(world.processes, lambda now: now[0] not in {first, None})
    world.until_seen("web_0", running=False)
    assert world.workers.ask(["web_0"]).hosts.keys() == {"h1"}
    assert world.workers.troubles() == []


def test_question_to_a_worker_that_dies_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ASK_SECONDS", 60.0)
    world.workers.watch_hosts(["h1"])
    world.workers.ask(["web_0"])
    [process] = world.processes()
    os.kill(process.pid, signal.SIGSTOP)
    timer = threading.Timer(0.2, os.kill, (process.pid, signal.SIGKILL))
    timer.start()
    answers = world.workers.ask(["web_0"])
    assert (answers.hosts, answers.missing) == ({}, {"h1"})


def test_host_that_hangs_has_not_answered_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ASK_SECONDS", 1.0)
    world.workers.watch_hosts(["h1", "h2"])
    eventually(lambda: world.workers.ask(["x"]).missing, lambda left: not left)
    file = world.libvirts.fault("h2", "hang")
    # A VM that was found needs no other host.
    assert world.workers.ask(["web_0"]).hosts["h1"]
    assert world.workers.ask(["x"]).missing == {"h2"}
    file.unlink()


def test_host_that_cannot_be_reached_is_a_trouble(world: World) -> None:
    file = world.libvirts.fault("h2", "down")
    world.workers.watch_hosts(["h1", "h2"])
    expected = ["libvirt: h2 cannot be reached: unable to connect to h2"]
    eventually(world.workers.troubles, expected.__eq__)
    assert world.workers.unreachable() == {
        "h2": "h2 cannot be reached: unable to connect to h2"
    }
    file.unlink()
    eventually(world.workers.troubles, lambda troubles: not troubles)
    assert world.workers.unreachable() == {}


def test_trouble_of_a_host_that_left_the_fleet_is_forgotten(world: World) -> None:
    world.libvirts.fault("h2", "down")
    world.workers.watch_hosts(["h1", "h2"])
    eventually(world.workers.troubles, bool)
    world.workers.watch_hosts(["h1"])
    eventually(world.workers.troubles, lambda troubles: not troubles)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo no module libvirt; exit 2", "ended with status 2: no module libvirt"),
        ("exit 2", "ended with status 2"),
    ],
)
def test_problem_is_reported_if_a_worker_cannot_start(
    tmp_path: Path, script: str, error: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    pool = Workers((str(python),), clock=SystemClock(), wake=lambda: None)
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(pool.stop)
        pool.watch_hosts(["h1"])
        [trouble] = eventually(pool.troubles, bool)
    assert trouble == f"libvirt: a worker {error}"
    assert pool.ask(["web_0"]).missing == {"h1"}


def test_problem_is_reported_if_the_program_does_not_exist() -> None:
    pool = Workers(("/nowhere/python",), clock=SystemClock(), wake=lambda: None)
    pool.watch_hosts(["h1"])
    eventually(pool.troubles, bool)
    assert pool.troubles() == ["libvirt: /nowhere/python: No such file or directory"]
    pool.stop()
    pool.watch_hosts(["h2"])


def test_lines_that_mean_nothing_are_skipped(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for line in (
        {"seen": {"vm": "a b", "running": True}},
        {"id": 99, "host": "h1", "found": []},
        {"connection": "h1"},
        {},
    ):
        world.workers._on_line(line)
    assert world.workers.take() == []
    assert caplog.text.count("invalid line") == 3


def test_vm_that_is_off_when_the_worker_looks_has_no_known_reason(
    world: World,
) -> None:
    world.libvirts.host("h1").defineXML("<domain><name>off_0</name></domain>")
    world.workers.watch_hosts(["h1", "h2"])
    sighting = world.until_seen("off_0", running=False)
    assert (sighting.host, sighting.cause) == ("h1", StopCause.UNKNOWN)


def test_old_definition_does_not_hide_where_a_vm_runs(world: World) -> None:
    here = {"vm": "a", "running": True, "host": "h2"}
    old = {"vm": "a", "running": False, "host": "h1", "cause": "unknown"}
    for line in (here, old):
        world.workers._on_line({"seen": line})
    [sighting] = world.workers.take()
    assert (sighting.running, sighting.host) == (True, "h2")


def test_many_troubles_are_cut(world: World) -> None:
    for number in range(25):
        world.workers._on_line({"connection": f"h{number:02}", "trouble": f"t{number}"})
    troubles = world.workers.troubles()
    assert len(troubles) == 21
    assert troubles[-1] == "libvirt: 5 more"


def test_worker_that_does_not_read_is_killed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "SEND_SECONDS", 0.2)
    world.workers.watch_hosts(["h1"])
    world.workers.ask(["web_0"])
    [first] = world.processes()
    os.kill(first.pid, signal.SIGSTOP)
    [worker] = world.workers._workers
    assert not worker.send({"id": 0, "vms": ["x" * 1_000_000], "marks": False})
    eventually(world.processes, lambda now: now[0] not in {first, None})


def test_module_is_looked_for_with_the_given_python(
    world: World, tmp_path: Path
) -> None:
    assert module_problem(world.python) == ""
    assert module_problem("/nowhere/python").startswith("/nowhere/python cannot be run")
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\nexit 5\n")
    bare.chmod(0o755)
    assert module_problem(str(bare)) == f"{bare} ended with status 5"


def test_abilities_are_asked_of_the_hosts_in_question_about_their_own_vms(
    world: World,
) -> None:
    device = "<devices><hostdev type='pci'/></devices>"
    world.libvirts.start("db_0", "h2", devices=device)
    world.workers.watch_hosts(["h1", "h2"])
    vms = ("db_0", "gone")
    answers = world.workers.ask_abilities({"h2": vms, "h9": ["web_9"]})
    assert answers.hosts.keys() - {"h1"} == {"h2"}
    abilities = tuple(abilities_of(vms, answers.hosts["h2"]))
    move = answer_about(abilities, Action.LIVE_MIGRATE, "db_0")
    assert (move.able, move.reason) == (Able.NO, "it has a passthrough device (pci)")
    assert answer_about(abilities, Action.FREEZE, "db_0").able is Able.YES
    assert answer_about(abilities, Action.FREEZE, "gone").able is Able.UNKNOWN
