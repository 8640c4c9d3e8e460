"""The handler `haproxy` beside a real HAProxy: connections, a reload, a master process.

HAProxy runs on loopback with two servers of this process behind it, which hold each
connection open until the client closes it.
"""

import contextlib
import signal
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.run_context import HandlerError, RunEndedError, TimeUpError
from forewarn.agent.integrations.haproxy.runtime import Runtime
from tests.support.agents import free_port
from tests.support.jobs import context, job_of, worker_of
from tests.support.processes import eventually
from tests.support.unpacked import environment, find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    needing("haproxy"),
]

CONFIG = """
global
    stats socket DIRECTORY/admin.sock mode 600 level admin
    stats socket DIRECTORY/operator.sock mode 600 level operator
    stats socket ipv4@127.0.0.1:RUNTIME level admin
    hard-stop-after 20s
defaults
    mode tcp
    timeout connect 2s
    timeout client 30s
    timeout server 30s
frontend in
    bind 127.0.0.1:FRONT
    default_backend app
backend app
    balance roundrobin
    server web_0 127.0.0.1:FIRST
    server web_1 127.0.0.1:SECOND
    server web_2 127.0.0.1:SECOND disabled
"""


class Real:
    """A running HAProxy, with clients."""

    def __init__(self, directory: Path, first: int, second: int) -> None:
        self.directory = directory
        self.front, self.runtime = free_port(), free_port()
        self.admin = str(directory / "admin.sock")
        self.master = str(directory / "master.sock")
        text = CONFIG
        for name, value in {
            "DIRECTORY": directory,
            "RUNTIME": self.runtime,
            "FRONT": self.front,
            "FIRST": first,
            "SECOND": second,
        }.items():
            text = text.replace(name, str(value))
        (directory / "haproxy.cfg").write_text(text)
        with (directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(find("haproxy"), "-W", "-S", self.master),
                    *("-f", str(directory / "haproxy.cfg")),
                ],
                env=environment("haproxy"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.wait_for(1)

    def wait_for(self, workers: int) -> None:
        """Return when a worker answers, after so many have been started."""

        def is_there() -> bool:
            assert self.process.poll() is None, (self.directory / "log").read_text()
            with contextlib.suppress(HandlerError, RunEndedError):
                message = Runtime(self.master).ask("show proc", context())
                return message.count(" worker ") >= workers and bool(self.states())
            return False

        eventually(is_there, bool, what="a worker")

    def states(self) -> dict[str, int]:
        servers = Runtime(self.admin).servers(context())
        return {server.name: server.admin for server in servers}

    def sessions(self) -> dict[str, int]:
        servers = Runtime(self.master).servers(context())
        return {server.name: server.sessions for server in servers}

    @contextlib.contextmanager
    def client(self) -> Generator[str]:
        """Hold a connection open; yield which server has it."""
        with socket.create_connection(("127.0.0.1", self.front), 5) as wire:
            wire.settimeout(5)
            yield wire.recv(16).decode()

    def reload(self) -> None:
        """Begin with the file again; connections stay with the old worker."""
        self.process.send_signal(signal.SIGUSR2)
        self.wait_for(2)


@contextlib.contextmanager
def server_called(name: str) -> Generator[int]:
    """Take connections, say the name, and hold them; yield the port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.request.sendall(name.encode())
                self.request.recv(1)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with server_called("web_0") as first, server_called("web_1") as second:
        proxy = Real(tmp_path, first, second)
        yield proxy
        proxy.process.terminate()
        try:
            proxy.process.wait(120)
        except subprocess.TimeoutExpired:
            proxy.process.kill()
            proxy.process.wait()


class Working:
    """A preparation or recovery that runs in a thread."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.said: object = None

        def run() -> None:
            try:
                self.said = work()
            except (HandlerError, RunEndedError) as error:
                self.said = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def ended(self) -> object:
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.said


def test_preparation_waits_until_connections_end(real: Real, tmp_path: Path) -> None:
    worker = worker_of("haproxy", tmp_path, socket=(real.master,), servers=("*/{vm}",))
    assert worker.check("web_0") == []
    assert real.states() == {"web_0": 0, "web_1": 0, "web_2": 5}
    with contextlib.ExitStack() as clients:
        while clients.enter_context(real.client()) != "web_0":
            pass
        work = Working(lambda: worker.prepare(job_of(vm="web_0"), context()).detail)
        eventually(real.states, lambda states: states["web_0"] == 8)
        # New ones go to the other.
        for _ in range(4):
            with real.client() as name:
                assert name == "web_1"
        assert work.thread.is_alive()
    assert work.ended() == "app/web_0 drained; 0 sessions left"
    detail = worker.recover(job_of(Phase.RECOVER), context()).detail
    assert detail == "app/web_0 ready"
    assert real.states() == {"web_0": 0, "web_1": 0, "web_2": 5}


def test_server_disabled_in_the_file_stays_disabled(real: Real, tmp_path: Path) -> None:
    place = f"127.0.0.1:{real.runtime}"
    worker = worker_of(
        "haproxy", tmp_path, socket=(place,), servers=("app/*",), maint=True
    )
    assert worker.prepare(job_of(), context()).detail == (
        "app/web_0, app/web_1 drained; app/web_2 was already out of rotation; 0 sessions left"
    )
    assert real.states() == {"web_0": 1, "web_1": 1, "web_2": 5}
    worker.recover(job_of(Phase.RECOVER), context())
    assert real.states() == {"web_0": 0, "web_1": 0, "web_2": 5}


def test_remaining_sessions_can_be_shut_down(real: Real, tmp_path: Path) -> None:
    worker = worker_of(
        "haproxy",
        tmp_path,
        socket=(real.admin,),
        servers=("app/*",),
        wait=200_000,
        sessions_left="shutdown",
    )
    with real.client(), real.client():
        detail = worker.prepare(job_of(), context()).detail
    assert detail.endswith("0 sessions left")


def test_drain_is_repeated_after_a_reload_and_old_sessions_are_seen(
    real: Real, tmp_path: Path
) -> None:
    worker = worker_of("haproxy", tmp_path, socket=(real.master,), servers=("*/{vm}",))
    assert worker.check("web_0") == []
    with contextlib.ExitStack() as clients:
        while clients.enter_context(real.client()) != "web_0":
            pass
        work = Working(lambda: worker.prepare(job_of(vm="web_0"), context()).detail)
        eventually(real.states, lambda states: states["web_0"] == 8)
        real.reload()
        eventually(real.states, lambda states: states["web_0"] == 8)
        assert real.sessions()["web_0"] == 1
        assert work.thread.is_alive()
    assert work.ended() == "app/web_0 drained; 0 sessions left"
    worker.recover(job_of(Phase.RECOVER), context())
    assert real.states()["web_0"] == 0


def test_haproxy_refusals_are_reported(real: Real, tmp_path: Path) -> None:
    operator = str(real.directory / "operator.sock")
    worker = worker_of("haproxy", tmp_path, socket=(operator,), servers=("app/web_0",))
    assert any("the access level is operator" in problem for problem in worker.check())
    with pytest.raises(HandlerError, match="Permission denied: its socket must have"):
        worker.prepare(job_of(), context())
    worker = worker_of(
        "haproxy", tmp_path, socket=(real.admin,), servers=("app/web_9",)
    )
    missing, advice = worker.check()
    assert missing == "there is no server app/web_9"
    assert advice.endswith(f"use the master's socket, {real.master}")
    with pytest.raises(HandlerError, match="there is no server app/web_9"):
        worker.prepare(job_of(), context())
    real.process.terminate()
    real.process.wait(120)
    worker = worker_of(
        "haproxy", tmp_path, socket=(real.admin,), servers=("app/web_0",)
    )
    with pytest.raises(TimeUpError, match=r"admin\.sock: "):
        worker.prepare(job_of(), context(0.3))
