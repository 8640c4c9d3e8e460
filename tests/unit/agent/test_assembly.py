"""One assembled agent: problems are reported before any part starts."""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent.alerts.server import Gatekeeper
from forewarn.agent.assembly import (
    Parts,
    checks_of,
    endpoint_of,
    ground_of,
    pace_of,
    unrecoverable,
)
from forewarn.agent.core.model import (
    Memory,
    NoteKind,
    Phase,
    Polled,
    Stage,
    Step,
    StepState,
)
from forewarn.agent.core.permits import AskGate
from forewarn.agent.core.policy import Handler, Policy
from forewarn.agent.dry import DryRun
from forewarn.agent.journal.port import MemoryJournal
from forewarn.agent.journal.sqlite import SqliteJournal
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import Settings
from forewarn.agent.wire.http import Client
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import SystemClock, VirtualClock
from forewarn.instants import MINUTE, SECOND, parse_instant
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.notices import Notice
from tests.support.agent_journals import task_of

START = parse_instant("2026-11-21T10:00:00Z")

NOBODY = f"http://127.0.0.1:9/{os.getpid()}"
"""An address without an endpoint; each test process has its own, since two agents at
one are refused."""

Make = Callable[..., Parts]


def settings(directory: Path, text: str = "", **flags: str) -> Settings:
    file = directory / "agent.toml"
    file.write_text(text, encoding="utf-8")
    all_flags = {
        "endpoint": NOBODY,
        "state": str(directory / "agent.db"),
        "listen": "",
        "name": "vm1",
        **{name.replace("__", "."): value for name, value in flags.items()},
    }
    return load_settings(file=str(file), environ={}, flags=all_flags)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make parts that are closed in the end; settings are flags."""
    agents: list[Parts] = []

    def parts(
        text: str = "", *, environ: dict[str, str] | None = None, **flags: str
    ) -> Parts:
        agents.append(
            Parts(
                settings(tmp_path, text, **flags),
                environ=environ or {},
                clock=VirtualClock(START),
            )
        )
        return agents[-1]

    yield parts
    for agent in agents:
        agent.close()


def test_agent_starts_with_the_saved_memory(make: Make, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "agent.db")
    journal.save(Memory(name="vm1", has_polled=True))
    journal.close()
    parts = make()
    assert parts.agent.status.memory.name == "vm1"
    assert not parts.agent.status.memory.lost_journal


def test_new_journal_is_marked_as_lost(make: Make) -> None:
    assert make().agent.status.memory.lost_journal


def test_name_from_the_settings_is_set_at_the_start(make: Make) -> None:
    assert make(name="other").agent.status.memory.name == "other"


def test_second_agent_is_refused_and_releases_everything(
    make: Make, tmp_path: Path
) -> None:
    first = make()
    with pytest.raises(ForewarnError, match=f"process {os.getpid()}$"):
        make()
    first.close()
    make()


def test_occupied_address_is_reported_and_the_agent_still_watches(
    make: Make, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        peers = f'[peers]\nlisten = "{address}"\ntoken_file = "{token}"\n'
        for parts in (make(listen=address), make(peers, **elsewhere(tmp_path))):
            assert parts.address == ""
            problems = parts.pages.document()["problems"]
            assert any(f"cannot listen at {address}" in problem for problem in problems)


def elsewhere(directory: Path) -> dict[str, str]:
    """Return the settings of an agent that may run beside another."""
    return {"state": f"{directory}/other.db", "endpoint": f"{NOBODY}/other"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract names")
def test_second_agent_is_refused_even_with_another_journal(
    make: Make, tmp_path: Path
) -> None:
    first = make()
    state = f"{tmp_path}/other.db"
    with pytest.raises(
        ForewarnError, match=rf"process {os.getpid()}\) already handles"
    ):
        make(state=state)
    make(state=state, observe="true").close()
    make(dry_run="true")
    first.close()
    make(state=state)


def test_handlers_do_not_get_the_supervisor_variables_of_the_agent(
    tmp_path: Path,
) -> None:
    environ = {
        "PATH": "/bin",
        "NOTIFY_SOCKET": "/run/notify",
        "WATCHDOG_USEC": "100000",
        "WATCHDOG_PID": "1",
    }
    ground = ground_of(settings(tmp_path), environ, SystemClock())
    assert ground.environment == {"PATH": "/bin"}


def test_journal_behind_a_symlink_uses_the_directories_of_its_target(
    tmp_path: Path,
) -> None:
    """A symlink to it is not a second journal with separate records."""
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "agent.db")
    ground = ground_of(settings(tmp_path, state=str(link)), {}, SystemClock())
    assert ground.memos == f"{tmp_path.resolve()}/agent.db.memos"
    run = ground.records.directory("r1").path
    assert run.startswith(f"{tmp_path.resolve()}/agent.db.runs/")


def test_dry_run_affects_no_disk_and_no_other_agent(make: Make, tmp_path: Path) -> None:
    make()
    parts = make(dry_run="true")
    assert isinstance(parts._opened.journal, MemoryJournal)
    for carry_out in parts.agent._dispatch.values():
        assert isinstance(getattr(carry_out, "__self__", None), DryRun)
    assert not (tmp_path / "agent.db.runs").exists()


def test_dry_run_queries_prometheus_for_firing_alerts(make: Make) -> None:
    parts = make('[gate]\nprometheus = "http://127.0.0.1:1"\n', dry_run="true")
    ask = parts.agent._dispatch[AskGate]
    assert isinstance(getattr(ask, "__self__", None), Gatekeeper)


PEERS = (
    '[peers]\nlisten = "127.0.0.1:0"\ntoken_file = "{}"\nurl = "http://{{name}}:1"\n'
)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        ("geheim-ß".encode(), "must be printable ASCII"),
    ],
)
def test_invalid_token_file_is_an_error_of_its_setting(
    make: Make, tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(AgentSettingsError, match=f"peers.token_file: .*{sentence}"):
        make(PEERS.format(file))
    # Nothing is held on to: with a token it begins.
    file.write_text("s3cret\n")
    make(PEERS.format(file))


def test_status_document_is_available_before_the_agent_starts(make: Make) -> None:
    parts = make(listen="127.0.0.1:0")
    assert parts.address.startswith("127.0.0.1:")
    document = parts.pages.document()
    assert document["vm"] == "vm1"
    assert document["mode"] == "normal"
    assert document["ready"] is False
    assert document["began"] == "2026-11-21T10:00:00Z"


def test_status_shows_observe_mode(make: Make) -> None:
    assert make(observe="true").pages.document()["mode"] == "observe"


def test_status_shows_a_recovery_without_a_matching_handler() -> None:
    step = Step(
        handler="drain",
        phase=Phase.PREPARE,
        attempt=1,
        state=StepState.DONE,
        began=START,
        stop_at=START,
        kill_at=START,
        kind="systemd",
    )
    task = replace(task_of("E1"), stage=Stage.RECOVERING, steps=(step,))
    memory = Memory(tasks=(task,))
    for handlers in ((), (Handler(name="drain", kind="exec"),)):
        (told,) = unrecoverable(memory, Policy(handlers=handlers))
        assert "handler drain is pending for E1" in told
    same = Policy(handlers=(Handler(name="drain", kind="systemd"),))
    assert unrecoverable(memory, same) == []
    assert (
        unrecoverable(Memory(tasks=(replace(task, stage=Stage.FINISHED),)), Policy())
        == []
    )


def test_journal_path_that_is_not_a_regular_file_is_refused(
    make: Make, tmp_path: Path
) -> None:
    """The path is not a regular file, so an operator must check the settings."""
    (tmp_path / "agent.db").mkdir()
    with pytest.raises(ForewarnError, match="is not a regular file"):
        make()


def test_notes_are_counted(make: Make) -> None:
    parts = make()
    notice = Notice(
        event_id="E1",
        event_type="Reboot",
        status="Scheduled",
        resources=("vm1",),
        not_before=START + 15 * MINUTE,
    )
    parts.agent.begin()
    parts._inbox.put(Polled(notices=(notice,), name="vm1"))
    parts.agent.turn()
    [task] = parts.agent.status.memory.tasks
    assert task.stage in {Stage.SEEN, Stage.PREPARED}
    [note] = parts._opened.journal.history(limit=5, event_id="E1")
    assert note.kind is NoteKind.SEEN
    assert 'type="Reboot"' in parts.pages._metrics()


# At work


@contextlib.contextmanager
def running(parts: Parts) -> Generator[None]:
    """Run it in a thread, which no signal reaches."""
    thread = threading.Thread(target=parts.run)
    thread.start()
    try:
        yield
    finally:
        parts.stop()
        thread.join(10)
        assert not thread.is_alive()


def test_supervisor_is_notified_of_start_watchdog_and_stop(
    tmp_path: Path,
) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(10)
        environ = {
            "NOTIFY_SOCKET": address,
            "WATCHDOG_USEC": "100000",
            "WATCHDOG_PID": str(os.getpid()),
        }
        parts = Parts(settings(tmp_path), environ=environ, clock=SystemClock())
        heard: list[str] = []
        with running(parts):
            while not any("WATCHDOG=1" in message for message in heard):
                heard.append(listener.recv(4096).decode())
        parts.close()
        while "STOPPING=1" not in heard[-1]:
            heard.append(listener.recv(4096).decode())
    assert heard[0].startswith("READY=1\nSTATUS=vm1: 0 events")


def test_pages_are_served_only_while_the_agent_runs(
    tmp_path: Path,
) -> None:
    loaded = settings(tmp_path, listen="127.0.0.1:0")
    parts = Parts(loaded, environ={}, clock=SystemClock())
    with running(parts):
        client = Client(
            parse_url(f"http://{parts.address}"), clock=SystemClock(), body_max=1 << 16
        )
        assert client.get("/healthz", timeout=5 * SECOND).status == 200
        # The endpoint is down, which is not a failure of the agent.
        assert client.get("/readyz", timeout=5 * SECOND).status == 503
        client.close()
    parts.close()
    host, _, port = parts.address.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


# Parts that commands use as well


def test_pace_follows_the_settings(tmp_path: Path) -> None:
    loaded = settings(tmp_path, poll="5s", timeout="3s", push="false")
    pace = pace_of(loaded)
    assert (pace.interval, pace.timeout, pace.wait) == (5 * SECOND, 3 * SECOND, 0)
    assert pace_of(settings(tmp_path)).wait > 0


def test_configured_endpoint_is_used(tmp_path: Path) -> None:
    assert endpoint_of(settings(tmp_path), SystemClock()).url == NOBODY


def test_each_handler_and_receiver_has_a_check(tmp_path: Path) -> None:
    text = (
        '[[handler]]\nname = "drain"\nkind = "exec"\nprepare = ["/no/program"]\n'
        f'[[notify]]\nkind = "file"\npath = "{tmp_path}/none/told"\n'
    )
    checks = dict(checks_of(settings(tmp_path, text), {"PATH": "/bin"}))
    assert list(checks) == ["handler drain", "notify"]
    assert checks["handler drain"]("") == ["there is no program /no/program"]
    assert len(checks["notify"]("")) == 1
