"""HAProxy's runtime API: invalid responses, ports, a master and its workers."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.run_context import HandlerError, TimeUpError
from forewarn.agent.integrations import haproxy as haproxy_worker
from forewarn.agent.integrations.haproxy import runtime as haproxy_runtime
from tests.support.fake_haproxy import FakeHaproxy, serving
from tests.support.jobs import context, prepare, recover, worker_of

SERVERS = ("app/{vm}", "api/{vm}")
READY = {"app/web_1": 0, "api/web_1": 0}
DRAINED = {"app/web_1": 8, "api/web_1": 8}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(haproxy_worker, "POLL_SECONDS", 0.005)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[FakeHaproxy]:
    fake = FakeHaproxy("app/web_1", "api/web_1")
    with serving(fake, tmp_path / "admin.sock") as haproxy:
        yield haproxy


def worker(proxy: FakeHaproxy, tmp_path: Path, **more: Any) -> Worker:
    options = {"socket": (proxy.place,), "servers": SERVERS, **more}
    return worker_of("haproxy", tmp_path, **options)


def admins(proxy: FakeHaproxy) -> dict[str, int]:
    return {label: server.admin for label, server in proxy.servers.items()}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "the response is incomplete"),
        (f"1\n# {'be_id be_name srv_id'}\n3 app 1", "the response is incomplete"),
        ("hang", "no answer within 0 s"),
    ],
)
def test_incomplete_answer_is_requested_again(
    proxy: FakeHaproxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    why: str,
) -> None:
    monkeypatch.setattr(haproxy_runtime, "EXCHANGE_SECONDS", 0.1)
    runtime = haproxy_runtime.Runtime(proxy.place)
    proxy.answers = ["Unknown command: 'show proc'\n", said]
    with pytest.raises(haproxy_runtime.AwayError, match=why):
        runtime.servers(context())
    proxy.answers = ["Unknown command: 'show proc'\n", said]
    prepare(worker(proxy, tmp_path))
    assert admins(proxy) == DRAINED


def test_server_that_is_not_haproxy_is_reported(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.answers = ["Unknown command\n", "Go away.\n"]
    with pytest.raises(HandlerError, match="show stat -1 4 -1: Go away"):
        prepare(worker(proxy, tmp_path))
    proxy.answers = ["-ERR unknown command\n"] * 1000
    with pytest.raises(TimeUpError, match="the response to show proc is incomplete"):
        prepare(worker(proxy, tmp_path), looks=3)


def test_response_over_the_size_limit_is_an_error(
    proxy: FakeHaproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haproxy_runtime, "ANSWER_BYTES_MAX", 100)
    with pytest.raises(HandlerError, match="the response is longer than"):
        prepare(worker(proxy, tmp_path))


def test_runtime_api_is_reached_by_tcp_port(tmp_path: Path) -> None:
    with serving(FakeHaproxy("app/web_1", "api/web_1")) as proxy:
        handler = worker(proxy, tmp_path)
        prepare(handler)
        assert set(admins(proxy).values()) == {8}
        recover(handler)
        nobody = proxy.place
    handler = worker_of("haproxy", tmp_path, socket=(nobody,), servers=SERVERS)
    with pytest.raises(TimeUpError, match="Connection refused"):
        prepare(handler, looks=3)
    handler = worker_of(
        "haproxy", tmp_path, socket=("nowhere.invalid:9999",), servers=SERVERS
    )
    with pytest.raises(TimeUpError, match=r"nowhere\.invalid"):
        prepare(handler, looks=3)


def test_commands_are_sent_to_the_workers_of_a_master(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.is_master = True
    handler = worker(proxy, tmp_path)
    prepare(handler)
    assert "@!5000 set server app/web_1 state drain" in proxy.asked
    assert admins(proxy) == DRAINED
    recover(handler)
    assert admins(proxy) == READY


@pytest.mark.parametrize(
    ("master", "advice"),
    [
        ("unix@/run/m.sock;ipv4@127.0.0.1:9", "use the master's socket, /run/m.sock"),
        ("", "start HAProxy with `-S PATH`, and use that socket"),
    ],
)
def test_check_warns_about_the_socket_of_a_worker(
    proxy: FakeHaproxy, tmp_path: Path, master: str, advice: str
) -> None:
    """A reload would leave sessions there that it does not see, and drain nothing."""
    handler = worker(proxy, tmp_path, servers=("app/web_9",))
    proxy.environment = {"HAPROXY_MWORKER": "1", "HAPROXY_MASTER_CLI": master}
    missing, told = handler.check()
    assert missing == "there is no server app/web_9"
    assert told.startswith(f"{proxy.place} is the socket of a worker. After a reload ")
    assert told.endswith(advice)
    # A missing permission is reported first.
    proxy.level = "user"
    [told] = worker(proxy, tmp_path).check("web_1")
    assert "access level is user" in told
    proxy.level = "admin"
    proxy.is_master = True
    assert worker(proxy, tmp_path).check("web_1") == []


def test_check_recommends_a_master_address_for_a_remote_proxy(
    tmp_path: Path,
) -> None:
    with serving(FakeHaproxy("app/web_1", "api/web_1")) as proxy:
        proxy.environment = {
            "HAPROXY_MWORKER": "1",
            "HAPROXY_MASTER_CLI": "unix@/run/m.sock",
        }
        [problem] = worker(proxy, tmp_path, servers=("*/web_1",)).check()
        assert problem.endswith(
            "start HAProxy with `-S HOST:PORT`, and use that address"
        )
        proxy.environment["HAPROXY_MASTER_CLI"] = "ipv4@192.0.2.7:99"
        [problem] = worker(proxy, tmp_path, servers=("*/web_1",)).check()
        assert problem.endswith("use the master's socket, 192.0.2.7:99")


def test_sessions_that_a_reload_has_left_behind_are_waited_for(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.is_master = True
    proxy.servers["app/web_1"].sessions = [5, 0]
    proxy.reload()
    old = proxy.left_behind[4000]
    old["app/web_1"].sessions = [5, 5, 1, 1, 0]
    handler = worker(proxy, tmp_path)
    prepare(handler)
    assert old["app/web_1"].sessions == [0]
    old["app/web_1"].sessions = [5]
    with pytest.raises(TimeUpError, match="5 sessions are left: app/web_1 5"):
        prepare(handler, looks=3)
    handler = worker(proxy, tmp_path, wait=1_000, sessions_left="shutdown")
    prepare(handler)
    assert "@!4000 shutdown sessions server app/web_1" in proxy.asked


def test_worker_that_ends_in_the_meantime_has_no_sessions(
    proxy: FakeHaproxy, tmp_path: Path
) -> None:
    proxy.is_master = True
    proxy.reload()
    proxy.left_behind[4000]["app/web_1"].sessions = [5]
    proxy.answers = [lambda: None, proxy.left_behind.clear]
    prepare(worker(proxy, tmp_path))


def test_master_without_workers_is_retried(proxy: FakeHaproxy, tmp_path: Path) -> None:
    proxy.is_master = True
    proxy.answers = ["#<PID> <type>\n1 master\n# workers\n# programs\n\n"]
    prepare(worker(proxy, tmp_path))
    assert admins(proxy) == DRAINED


def test_first_reachable_address_of_a_name_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def both(host: bytes, port: int, **more: Any) -> list[Any]:
        if host != b"proxies.example.com":
            return real(host, port, **more)
        if more.get("flags"):
            raise OSError("it is a name")
        addresses = real("127.0.0.1", port, type=socket.SOCK_STREAM)
        # No server listens at the first address.
        return [*real("127.0.0.1", 9, type=socket.SOCK_STREAM), *addresses]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with serving(FakeHaproxy("app/web_1", "api/web_1")) as proxy:
        port = proxy.place.rpartition(":")[2]
        place = f"proxies.example.com:{port}"
        prepare(worker(proxy, tmp_path, socket=(place,)))
        assert admins(proxy) == DRAINED


def test_missing_support_for_unix_sockets_is_reported(
    proxy: FakeHaproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    [problem] = worker(proxy, tmp_path).check("web_1")
    assert problem.endswith("this system does not support Unix sockets")


def test_exchange_without_time_left_is_not_started(
    proxy: FakeHaproxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haproxy_runtime, "EXCHANGE_SECONDS", 1e-9)
    runtime = haproxy_runtime.Runtime(proxy.place)
    with pytest.raises(haproxy_runtime.AwayError, match="no answer within 0 s"):
        runtime.ask("show proc", context())
    with pytest.raises(TimeUpError, match=re.escape(f"asking {proxy.place}")):
        runtime.ask("show proc", context(0))
