"""The worker that watches hosts, in the process of a test."""

import itertools
import json
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers.libvirt.worker import watching
from forewarn.drivers.libvirt.worker.hosts import Hosts, within
from forewarn.drivers.libvirt.worker.serving import Server, printer
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.unit.drivers.libvirt.living import Living


class Heard:
    """The messages of a server."""

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._kept: list[dict[str, Any]] = []

    def all(self) -> list[dict[str, Any]]:
        while not self.lines.empty():
            self._kept.append(self.lines.get())
        return self._kept

    def until(self, **wanted: Any) -> dict[str, Any]:
        """Return the first line with these members, and forget it."""
        return self._first(lambda line: wanted.items() <= line.items(), str(wanted))

    def trouble(self, host: str) -> str:
        """Return the first problem with a connection, and forget it."""

        def is_trouble(line: dict[str, Any]) -> bool:
            return line.get("connection") == host and line["trouble"]

        return str(self._first(is_trouble, f"trouble with {host}")["trouble"])

    def _first(
        self, is_wanted: Callable[[dict[str, Any]], bool], what: str
    ) -> dict[str, Any]:
        # Hosts answer in any order, so the lines before it stay.
        def found() -> dict[str, Any] | None:
            for number, line in enumerate(self.all()):
                if is_wanted(line):
                    return self._kept.pop(number)
            return None

        line = eventually(found, bool, what=what)
        assert line is not None
        return line

    def seen(self, vm: str, *, running: bool) -> dict[str, Any]:
        """Return the first sighting of a VM with this state."""

        def found() -> dict[str, Any] | None:
            for line in self.all():
                sighting = line.get("seen", {})
                if (sighting.get("vm"), sighting.get("running")) == (vm, running):
                    return sighting
            return None

        sighting = eventually(found, bool, what=f"a sighting of {vm}")
        assert sighting is not None
        return sighting


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    monkeypatch.setattr(watching, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.05)
    # On a busy machine, a host that does not hang may take long.
    monkeypatch.setattr(watching, "BUSY_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(watching, "CALL_SECONDS", PATIENCE_SECONDS)
    return Heard()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give calls to h2 up soon."""

    def limited(seconds: float, work: Callable[[], Any], *, name: str) -> Any:
        return within(0.5 if name == "h2" else seconds, work, name=name)

    monkeypatch.setattr(watching, "within", limited)


@pytest.fixture
def living(tmp_path: Path) -> Living:
    living = Living(tmp_path)
    living.libvirts.start("web_0", "h1")
    return living


@pytest.fixture
def server(living: Living, heard: Heard) -> Iterator[Server]:
    # The programs of actions have connections of their own.
    hosts = Hosts(living.libvirts.api, living.hosts.settings)
    server = Server(hosts, heard.lines.put)
    server.handle({"hosts": ["h1", "h2"]})
    yield server
    server.handle({"hosts": []})


def ask(server: Server, number: int, *vms: str, marks: bool = False) -> None:
    server.handle({"id": number, "of": ["h1", "h2"], "vms": list(vms), "marks": marks})


def test_server_tells_what_runs_and_what_happens(
    living: Living, server: Server, heard: Heard
) -> None:
    assert heard.seen("web_0", running=True)["host"] == "h1"
    living.libvirts.domain("web_0", "h1").crash()
    sighting = heard.seen("web_0", running=False)
    text = "libvirt: QEMU was killed or has crashed"
    assert (sighting["cause"], sighting["text"]) == ("failed", text)
    living.libvirts.start("web_1", "h2")
    assert heard.seen("web_1", running=True)["host"] == "h2"
    # Its user shuts it down, which does not count as a failure.
    living.libvirts.domain("web_1", "h2").shutdown()
    assert heard.seen("web_1", running=False)["cause"] == "shut-down"


def test_each_host_answers_for_itself(
    living: Living, server: Server, heard: Heard
) -> None:
    living.do("freeze")
    ask(server, 1, "web_0", "other", marks=True)
    ask(server, 2, "web_0")
    guests = heard.until(id=1, host="h1")["found"]
    mark = {"mark": "op-1.1.freeze", "state": "done"}
    assert guests == [{"vm": "web_0", "presence": "here", **mark}]
    assert heard.until(id=2, host="h1")["found"] == [
        {"vm": "web_0", "presence": "here"}
    ]
    ask(server, 3, "web_0")
    assert heard.until(id=3, host="h2")["found"] == []


def test_vm_without_a_mark_has_none(server: Server, heard: Heard) -> None:
    ask(server, 1, "web_0", marks=True)
    [found] = heard.until(id=1, host="h1")["found"]
    assert found["mark"] is None


def test_host_that_is_lost_is_told_and_connected_again(
    living: Living, server: Server, heard: Heard
) -> None:
    heard.until(connection="h1", trouble="")
    file = living.libvirts.fault("h1", "down")
    assert "h1" in heard.trouble("h1")
    ask(server, 1, "web_0")
    assert heard.until(id=1, host="h1")["error"]
    file.unlink()
    heard.until(connection="h1", trouble="")
    ask(server, 2, "web_0")
    assert heard.until(id=2, host="h1")["found"]


def test_vm_that_stopped_while_its_host_was_away_has_failed(
    living: Living, server: Server, heard: Heard
) -> None:
    heard.until(connection="h1", trouble="")
    file = living.libvirts.fault("h1", "down")
    heard.trouble("h1")
    # libvirt is started again with its host, and knows no reason.
    path = living.libvirts.directory / "h1" / "web_0.json"
    note = {**json.loads(path.read_text()), "state": 5, "reason": 0}
    path.write_text(json.dumps(note))
    file.unlink()
    sighting = heard.seen("web_0", running=False)
    assert (
        sighting["text"]
        == "libvirt: it stopped while there was no connection to libvirt"
    )


@pytest.mark.usefixtures("impatient")
def test_host_that_hangs_delays_no_other(
    living: Living, server: Server, heard: Heard
) -> None:
    heard.until(connection="h1", trouble="")
    heard.until(connection="h2", trouble="")
    file = living.libvirts.fault("h2", "hang")
    ask(server, 1, "web_0")
    assert heard.until(id=1, host="h1")["found"]
    # Its own answer comes too, and says so.
    assert "h2" in heard.until(id=1, host="h2")["error"]
    assert "h2" in heard.trouble("h2")
    file.unlink()
    heard.until(connection="h2", trouble="")


def test_host_that_hangs_is_not_asked_more(
    living: Living, server: Server, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard.until(connection="h2", trouble="")
    monkeypatch.setattr(watching, "BUSY_SECONDS", 0.05)
    file = living.libvirts.fault("h2", "hang")
    numbers = itertools.count(1)

    def refused() -> list[dict[str, Any]]:
        ask(server, next(numbers), "web_0")
        errors = [line for line in heard.all() if "error" in line]
        return [line for line in errors if line["host"] == "h2"]

    [line, *_] = eventually(refused, bool, what="an answer at once")
    assert line["error"] == "h2 hangs"
    file.unlink()
    monkeypatch.setattr(watching, "BUSY_SECONDS", PATIENCE_SECONDS)
    ask(server, 0, "web_0")
    assert heard.until(id=0, host="h2")["found"] == []


def test_host_that_is_not_watched_any_more_is_not_asked(
    server: Server, heard: Heard
) -> None:
    heard.until(connection="h2", trouble="")
    server.handle({"hosts": ["h1"]})
    ask(server, 1, "web_0")
    heard.until(id=1, host="h1")
    assert all(line.get("host") != "h2" for line in heard.all())


def test_domain_that_cannot_be_read_leaves_the_others_known(
    living: Living, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    living.libvirts.start("web_1", "h1")
    living.libvirts.fault("h1", "hidden-web_1")
    monkeypatch.setattr("sys.argv", ["run.py", "serve"])
    server = Server(living.hosts, heard.lines.put)
    server.handle({"hosts": ["h1"]})
    ask(server, 1, "web_1", "web_0")
    assert heard.until(id=1, host="h1")["found"] == [
        {"vm": "web_1", "presence": "unknown"},
        {"vm": "web_0", "presence": "here"},
    ]
    server.handle({"hosts": []})


def test_lines_are_read_to_their_end_and_printed_at_once(
    living: Living, capsys: pytest.CaptureFixture[str]
) -> None:
    Server(living.hosts, printer()).run(['{"hosts": []}\n'])
    printer()({"connection": "h1", "trouble": ""})
    assert capsys.readouterr().out == '{"connection": "h1", "trouble": ""}\n'
