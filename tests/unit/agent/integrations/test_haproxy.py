"""Draining servers at HAProxy: what is set, waited for, left alone and put back."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.run_context import (
    HandlerError,
    LostError,
    StoppedError,
    TimeUpError,
)
from forewarn.agent.integrations import haproxy as haproxy_worker
from forewarn.agent.settings import AgentSettingsError, load_settings
from tests.support.fake_haproxy import FakeHaproxy, Server, serving
from tests.support.jobs import CLOCK, context, job_of, prepare, recover, worker_of

SERVERS = ("app/{vm}", "api/{vm}")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(haproxy_worker, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(haproxy_worker, "AWAY_SECONDS", 0.005)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[FakeHaproxy]:
    fake = FakeHaproxy("app/web_1", "app/web_2", "api/web_1", "api/web_10")
    with serving(fake, tmp_path / "admin.sock") as haproxy:
        yield haproxy


def worker(proxy: FakeHaproxy, tmp_path: Path, **more: Any) -> Worker:
    options = {"socket": (proxy.place,), "servers": SERVERS, **more}
    return worker_of("haproxy", tmp_path, **options)


def admins(proxy: FakeHaproxy) -> dict[str, int]:
    return {label: server.admin for label, server in proxy.servers.items()}


def untouched(count: int) -> list[Callable[[], None]]:
    """Have so many commands be answered as they should be."""
    return [lambda: None] * count


READY = {"app/web_1": 0, "app/web_2": 0, "api/web_1": 0, "api/web_10": 0}
DRAINED = {**READY, "app/web_1": 8, "api/web_1": 8}


def test_servers_are_drained_and_made_ready_again(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.servers["app/web_1"].sessions = [3, 2, 1, 0]
    proxy.servers["app/web_2"].sessions = [7]
    handler = worker(proxy, tmp_path)
    assert prepare(handler) == "app/web_1, api/web_1 drained; 0 sessions left"
    assert admins(proxy) == DRAINED
    assert recover(handler) == "app/web_1 ready, api/web_1 ready"
    assert admins(proxy) == READY
    assert recover(handler) == "this handler drained nothing"


def test_overlapping_events_drain_once(proxy: FakeHaproxy, tmp_path: Path) -> None:
    handler = worker(proxy, tmp_path)
    prepare(handler)
    assert prepare(handler) == "app/web_1, api/web_1 drained; 0 sessions left"
    assert len(proxy.orders()) == 2
    recover(handler)
    assert admins(proxy) == READY


@pytest.mark.parametrize("flag", [0x01, 0x02, 0x08, 0x10, 0x20])
def test_server_already_out_stays_out(
    proxy: FakeHaproxy, tmp_path: Path, flag: int
) -> None:
    proxy.servers["api/web_1"].admin = flag
    handler = worker(proxy, tmp_path)
    assert (
        prepare(handler)
        == "app/web_1 drained; api/web_1 was already out of rotation; 0 sessions left"
    )
    assert recover(handler) == "app/web_1 ready"
    assert admins(proxy) == {**READY, "api/web_1": flag}


def test_server_disabled_in_the_file_but_made_ready_is_drained(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.servers["api/web_1"].admin = 0x04
    prepare(worker(proxy, tmp_path))
    assert admins(proxy) == {**DRAINED, "api/web_1": 0x0C}


def test_sessions_of_servers_already_out_of_rotation_are_waited_for(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    for label in ("app/web_1", "api/web_1"):
        proxy.servers[label].admin = 0x01
        proxy.servers[label].sessions = [1, 1, 0]
    handler = worker(proxy, tmp_path)
    assert (
        prepare(handler)
        == "app/web_1, api/web_1 were already out of rotation; 0 sessions left"
    )
    assert proxy.orders() == []


def test_maintenance_set_by_others_is_kept(proxy: FakeHaproxy, tmp_path: Path) -> None:
    handler = worker(proxy, tmp_path)
    prepare(handler)
    proxy.servers["app/web_1"].admin = 0x01
    assert recover(handler) == (
        "app/web_1 left in maintenance, which this handler did not set, api/web_1 ready"
    )
    assert admins(proxy) == {**READY, "app/web_1": 0x01}


def test_a_few_sessions_may_be_left(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.servers["app/web_1"].sessions = [9, 2]
    proxy.servers["api/web_1"].queued = 1
    handler = worker(proxy, tmp_path, sessions_max=3)
    assert prepare(handler) == "app/web_1, api/web_1 drained; 3 sessions left"


def test_remaining_sessions_fail_prepare(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.servers["app/web_1"].sessions = [2]
    proxy.servers["api/web_1"].sessions = [1]
    handler = worker(proxy, tmp_path, wait=20_000)
    with pytest.raises(TimeUpError) as raised:
        prepare(handler)
    assert raised.value.message == (
        "after 1 s: 3 sessions are left: app/web_1 2, api/web_1 1"
    )
    proxy.servers["app/web_1"].sessions = [0]
    with pytest.raises(TimeUpError, match="1 session is left: api/web_1 1"):
        prepare(handler)
    # They stay drained: the event comes in any case, and its end makes them ready.
    assert admins(proxy) == DRAINED


def test_wait_ends_at_the_deadline(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.servers["app/web_1"].sessions = [2]
    handler = worker(proxy, tmp_path, wait=3_600_000_000, sessions_left="leave")
    handler.prepare(job_of(), context(3))


def test_remaining_sessions_may_be_left(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.servers["app/web_1"].sessions = [2]
    handler = worker(proxy, tmp_path, wait=20_000, sessions_left="leave")
    assert prepare(handler) == "app/web_1, api/web_1 drained; 2 sessions left"


def test_sessions_are_shut_down_if_set(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.servers["app/web_1"].sessions = [2]
    handler = worker(proxy, tmp_path, wait=20_000, sessions_left="shutdown")
    assert prepare(handler) == "app/web_1, api/web_1 drained; 0 sessions left"
    assert proxy.orders()[2:] == ["shutdown sessions server app/web_1"]


def test_sessions_that_cannot_be_shut_down_fail_the_preparation(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.servers["app/web_1"].sessions = [2]
    handler = worker(proxy, tmp_path, wait=1_000, sessions_left="shutdown")
    prepare(handler)
    proxy.servers["app/web_1"].sessions = [2]
    proxy.is_obeying = False
    with pytest.raises(TimeUpError, match="waiting: 2 sessions are left"):
        prepare(handler, looks=3)


def test_maintenance_state_follows_the_drain_if_configured(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.servers["api/web_1"].admin = 0x08
    proxy.servers["app/web_1"].sessions = [1, 1, 0]
    handler = worker(proxy, tmp_path, maint=True)
    prepare(handler)
    # A server that others have drained is not put into maintenance.
    assert admins(proxy) == {**READY, "app/web_1": 0x01, "api/web_1": 0x08}
    assert proxy.orders() == [
        "set server app/web_1 state drain",
        "set server app/web_1 state maint",
    ]
    prepare(handler)
    assert recover(handler) == "app/web_1 ready"
    assert admins(proxy) == {**READY, "api/web_1": 0x08}


def test_lost_proxy_is_retried(proxy: FakeHaproxy, tmp_path: Path) -> None:
    handler = worker(proxy, tmp_path, maint=True, servers=("app/web_1",))
    # It answers seven times: two looks of three questions, and the order between.
    proxy.answers = [*untouched(7), ""]
    prepare(handler)
    assert admins(proxy)["app/web_1"] == 0x01


def test_servers_drain_again_after_reload(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.servers["app/web_1"].sessions = [1]
    done = threading.Event()

    def reload() -> None:
        proxy.reload()
        done.set()

    proxy.answers = [*untouched(11), reload]
    handler = worker(proxy, tmp_path)
    prepare(handler)
    assert done.is_set()
    assert admins(proxy) == DRAINED
    recover(handler)
    assert admins(proxy) == READY


def test_after_a_reload_recovery_has_nothing_to_undo(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    handler = worker(proxy, tmp_path)
    prepare(handler)
    proxy.reload(**{"app/web_1": Server(op=0)})
    ordered = len(proxy.orders())
    assert recover(handler) == (
        "app/web_1 ready, but its health check still fails, api/web_1 no longer exists"
    )
    assert len(proxy.orders()) == ordered


def test_crash_between_memo_and_command_is_recovered(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.level = "operator"
    handler = worker(proxy, tmp_path)
    with pytest.raises(HandlerError, match="Permission denied"):
        prepare(handler)
    proxy.level = "admin"
    assert recover(worker(proxy, tmp_path)) == "app/web_1 ready, api/web_1 ready"
    assert admins(proxy) == READY


# -- who may not, and who is not there ----------------------------------------------


def test_too_low_access_level_is_reported(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.level = "operator"
    with pytest.raises(HandlerError) as raised:
        prepare(worker(proxy, tmp_path))
    assert raised.value.message == (
        f"{proxy.place}: set server app/web_1 state drain: Permission denied: its "
        "socket must have `level admin`"
    )


def test_missing_server_is_reported(proxy: FakeHaproxy, tmp_path: Path) -> None:
    handler = worker(proxy, tmp_path, servers=("app/web_1", "www/{vm}"))
    with pytest.raises(HandlerError, match="there is no server www/web_1 at /"):
        prepare(handler)
    # The servers that are there are drained nevertheless: the event comes in any case.
    assert admins(proxy)["app/web_1"] == 8


def test_servers_may_be_patterns(proxy: FakeHaproxy, tmp_path: Path) -> None:
    prepare(worker(proxy, tmp_path, servers=("*/web_1",)))
    assert admins(proxy) == DRAINED


def test_star_in_a_name_is_not_a_pattern(proxy: FakeHaproxy, tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match="there is no server"):
        prepare(worker(proxy, tmp_path), vm="*")
    assert admins(proxy) == READY


def test_host_placeholder_is_the_computer_name(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    host = socket.gethostname().partition(".")[0]
    proxy.servers = {f"app/{host}": Server()}
    prepare(worker(proxy, tmp_path, servers=("app/{host}",)))
    assert admins(proxy) == {f"app/{host}": 8}


def test_unknown_vm_name_is_reported(proxy: FakeHaproxy, tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match="the name of this VM is unknown"):
        prepare(worker(proxy, tmp_path), vm="")
    prepare(worker(proxy, tmp_path, servers=("app/web_1",)), vm="")


def test_one_unavailable_proxy_of_two_fails_the_preparation(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    other = tmp_path / "other.sock"
    handler = worker(proxy, tmp_path, socket=(str(other), proxy.place))
    with pytest.raises(TimeUpError) as raised:
        prepare(handler, looks=3)
    assert f"{other}: No such file or directory" in raised.value.message
    assert admins(proxy) == DRAINED
    with serving(FakeHaproxy("app/web_1"), other) as second:
        detail = prepare(handler)
        assert f"app/web_1 at {other}, app/web_1 at {proxy.place}, api/web_1" in detail
        assert admins(second) == {"app/web_1": 8}
        second.servers["app/web_1"].sessions = [4]
        with pytest.raises(TimeUpError, match=f"app/web_1 4 at {other}"):
            prepare(handler, looks=3)
    other.unlink()
    with pytest.raises(TimeUpError, match=r"waiting: .*No such file or directory"):
        recover(handler, looks=3)
    # The one that was there is ready, and is not asked again.
    assert admins(proxy) == READY
    count_before = len(proxy.asked)
    with serving(second, other):
        recover(handler)
    assert admins(second) == {"app/web_1": 0}
    assert len(proxy.asked) == count_before


def test_proxy_that_refuses_does_not_block_the_other_one(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    with serving(FakeHaproxy("app/web_1")) as second:
        handler = worker(proxy, tmp_path, socket=(second.place, proxy.place))
        prepare(handler)
        second.level = "operator"
        with pytest.raises(HandlerError, match="must have `level admin`"):
            recover(handler)
        assert (admins(second), admins(proxy)) == ({"app/web_1": 8}, READY)
        second.level = "admin"
        assert recover(handler) == "app/web_1 ready"


def test_undrained_server_is_reported(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.is_obeying = False
    with pytest.raises(TimeUpError, match="app/web_1 is not drained yet"):
        prepare(worker(proxy, tmp_path), looks=3)


def test_server_that_does_not_become_ready_is_reported(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    handler = worker(proxy, tmp_path)
    prepare(handler)
    proxy.is_obeying = False
    with pytest.raises(HandlerError, match="app/web_1 is not ready"):
        recover(handler)


def test_removed_event_ends_the_run(proxy: FakeHaproxy, tmp_path: Path) -> None:
    held = context()
    proxy.servers["app/web_1"].sessions = [1]
    proxy.answers = [*untouched(12), lambda: held.stop(CLOCK.now())]
    with pytest.raises(StoppedError, match="the event was removed"):
        worker(proxy, tmp_path).prepare(job_of(), held)
    proxy.answers = []
    held = context()
    proxy.answers = [lambda: None, "hang"]
    timer = threading.Timer(0.05, held.stop, (CLOCK.now(),))
    timer.start()
    with pytest.raises(StoppedError):
        worker(proxy, tmp_path).prepare(job_of(), held)
    timer.join()
    proxy.answers = []
    proxy.servers["app/web_1"].sessions = [0]
    prepare(worker(proxy, tmp_path))
    with pytest.raises(StoppedError):
        worker(proxy, tmp_path).recover(job_of(Phase.RECOVER), held)
    with pytest.raises(StoppedError):
        worker(proxy, tmp_path).prepare(job_of(), held)


# -- before it is needed ------------------------------------------------------------


def test_a_check_finds_nothing_and_changes_nothing(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    assert worker(proxy, tmp_path).check("web_1") == []
    assert proxy.orders() == []
    assert not (tmp_path / "agent.db.memos").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda proxy: setattr(proxy, "level", "operator"), "access level is operator"),
        (lambda proxy: proxy.servers.clear(), "there is no server app/web_1"),
        (lambda proxy: proxy.servers.pop("api/web_1"), "there is no server api/web_1"),
        (lambda proxy: setattr(proxy, "answers", ["?"]), "proc is incomplete"),
    ],
)
def test_check_reports_each_problem(
    proxy: FakeHaproxy,
    tmp_path: Path,
    change: Callable[[FakeHaproxy], None],
    why: str,
) -> None:
    change(proxy)
    [found, *_] = worker(proxy, tmp_path).check("web_1")
    assert re.search(why, found), found


def test_check_reports_an_unknown_vm_name(proxy: FakeHaproxy, tmp_path: Path) -> None:
    message = "the name of this VM is unknown, and `servers` contains {vm}"
    assert worker(proxy, tmp_path).check("") == [message]
    assert worker(proxy, tmp_path, servers=("app/web_1",)).check("") == []


def test_old_haproxy_without_a_level_passes_the_check(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.answers = [lambda: None, "Unknown command. Please enter one of …\n"]
    assert worker(proxy, tmp_path).check("web_1") == []


def test_run_interrupted_by_an_agent_restart_is_lost(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    with pytest.raises(LostError):
        worker(proxy, tmp_path).resume(job_of(), context())


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('servers = ["app/web"]', "handler.socket: is missing"),
        ('socket = "/s"', "handler.servers: is missing"),
        ('socket = "s"\nservers = "app/web"', "neither a path such as"),
        ('socket = []\nservers = "app/web"', "must not be empty"),
        ('socket = "/s"\nservers = "web"', "'web' must have the form BACKEND/SERVER"),
        ('socket = "/s"\nservers = "app/a; quit"', "must have the form BACKEND/SERVER"),
        ('socket = "/s"\nservers = "app/{name}"', "unknown placeholder {name}"),
        ('socket = "/s"\nservers = "a/b"\nsessions_left = "keep"', "must be one of"),
    ],
)
def test_invalid_settings_are_reported(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'[[handler]]\nname = "h"\nkind = "haproxy"\n{line}\n')
    with pytest.raises(AgentSettingsError) as raised:
        load_settings(file=str(file), environ={}, flags={})
    assert fault in str(raised.value)


def test_damaged_memo_is_reported(proxy: FakeHaproxy, tmp_path: Path) -> None:
    handler = worker(proxy, tmp_path)
    prepare(handler)
    memo = tmp_path / "agent.db.memos" / "h.haproxy.json"
    assert json.loads(memo.read_text()) == {
        proxy.place: {"app/web_1": "drain", "api/web_1": "drain"}
    }
    memo.write_text("{")
    with pytest.raises(
        HandlerError, match=r"by hand if necessary, and remove the file"
    ):
        recover(handler)
    memo.write_text("[]")
    with pytest.raises(
        HandlerError, match=r"cannot read the memo .* \(it is not a JSON object"
    ):
        prepare(handler)
    memo.unlink()
    memo.mkdir()
    with pytest.raises(HandlerError, match="let the agent's user read it"):
        recover(handler)


def test_server_without_visible_sessions_is_not_drained(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    real = proxy.answer

    def hiding(command: str) -> str:
        message = real(command)
        if "show stat" in command:
            lines = message.splitlines(keepends=True)
            message = "".join(line for line in lines if "app,web_1," not in line)
        return message

    proxy.answer = hiding
    handler = worker(proxy, tmp_path)
    with pytest.raises(HandlerError) as raised:
        prepare(handler)
    assert raised.value.message == (
        f"{proxy.place}: app/web_1 is in `show servers state` but not in "
        "`show stat`, so the number of its sessions is unknown"
    )
    # Servers of others do not matter, and a recovery needs no count.
    assert prepare(worker(proxy, tmp_path, servers=("api/web_1",)))
    assert "app/web_1 ready" in recover(handler)
