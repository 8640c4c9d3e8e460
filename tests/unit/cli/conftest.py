"""The command line against the operator API on a loopback port."""

import asyncio
import io
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from forewarn import cli
from forewarn.admin.app import create_app
from forewarn.admin.relay_hub import RelayHub
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.relays import NoNews
from tests.unit.admin.test_checks import Asker
from tests.unit.admin.test_cluster import Replicas
from tests.unit.admin.test_webhooks import Receivers

REPLICAS = Replicas()
"""The replicas of the service that all tests use."""


@dataclass
class Served:
    """A service that the commands reach."""

    app: FastAPI
    url: str
    gateway: LocalGateway
    loop: asyncio.AbstractEventLoop

    def do(self, act: Callable[[], Any]) -> Any:
        """Do something in the thread that the service runs in."""

        async def acting() -> Any:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), self.loop).result(10)


@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    """Return a server for all tests: it takes long to start."""
    gateway = LocalGateway()
    app = create_app(
        gateway,
        tokens=None,
        version="1.2.3",
        receivers=Receivers(),
        checks=Asker(),
        replicas=REPLICAS,
        relays=RelayHub(lambda: gateway, NoNews()),
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        running = uvicorn.Server(
            uvicorn.Config(app, log_config=None, lifespan="off", ws="none")
        )
        started = threading.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        async def serve() -> None:
            loops.append(asyncio.get_running_loop())
            started.set()
            await running.serve(sockets=[listener])

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        started.wait(10)
        yield Served(app=app, url=url, gateway=gateway, loop=loops[0])
        running.should_exit = True
        thread.join(10)


@pytest.fixture
def service(server: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Return the service with a fleet as if nothing had happened."""
    server.gateway = server.app.state.gateway = LocalGateway()
    monkeypatch.setenv("FOREWARN_URL", server.url)
    monkeypatch.delenv("FOREWARN_TOKEN", raising=False)
    return server


@dataclass
class Ended:
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


@pytest.fixture
def forewarn(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Return a way to run a command in this process."""

    def run(*words: str) -> Ended:
        status = cli.main(list(words))
        captured = capsys.readouterr()
        return Ended(status=status, out=captured.out, err=captured.err)

    return run


class Screen(io.StringIO):
    """A standard output that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


class Terminal:
    """Runs commands with a terminal of some width, and without colors."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        """Set the terminal that commands meet by `patch`."""
        self._patch = patch
        patch.setenv("TERM", "dumb")
        self.columns(80)

    def columns(self, width: int) -> None:
        """Make it as wide as this."""
        self._patch.setenv("COLUMNS", str(width))
        self._patch.setenv("LINES", "24")

    def run(self, *words: str) -> str:
        """Run a command, which succeeds or finds problems; return the terminal."""
        screen = Screen()
        with self._patch.context() as patch:
            patch.setattr("sys.stdout", screen)
            assert cli.main(list(words)) == (words[0] == "problems")
        return screen.getvalue()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal that commands can be run with."""
    return Terminal(monkeypatch)
