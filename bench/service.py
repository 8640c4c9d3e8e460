"""A process of `forewarn serve` on the server's core, and its client."""

import http.client
import json
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import machine
from forewarn.protocol.operations import OperationState

PATIENCE_SECONDS = 60.0

STARTED_SECONDS = 900.0
"""Maximum time until a service is ready: a file with a million VMs takes minutes."""

POLL_SECONDS = 0.01

ANNOUNCED_SECONDS = 300.0
"""Maximum time until all hosts of a request are announced: 1,000 take half a minute on a
quiet machine."""

ANNOUNCED_POLL_SECONDS = 0.2
"""Pause between two questions whether all hosts are announced: they cost little."""

OPERATOR_ADDRESS = "127.0.0.2"
"""The address of the operator, on loopback."""

_SERVING = re.compile(r"serving (.+) at (https?://\S+)")
_OPERATIONS = re.compile(
    r'^forewarn_operations\{.*state="(\w+)".*\} (\S+)$', re.MULTILINE
)
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def eventually(
    is_so: Callable[[], bool],
    *,
    what: str,
    seconds: float = PATIENCE_SECONDS,
    pause: float = POLL_SECONDS,
) -> None:
    """Wait until a condition holds; fail after a timeout."""
    deadline = time.perf_counter() + seconds
    while not is_so():
        assert time.perf_counter() < deadline, f"{what} did not come"
        time.sleep(pause)


def direct_get(url: str) -> bytes:
    """Return the body at a URL."""
    request = urllib.request.Request(url, headers={"Metadata": "true"})
    with _DIRECT.open(request, timeout=PATIENCE_SECONDS) as answer:
        return answer.read()


class _Operator(urllib.request.HTTPSHandler):
    """Opens URLs from an address of its own.

    The handshakes of one address at once are limited, and loads come from the usual one.
    """

    def __init__(self, ca_file: Path) -> None:
        """Trust servers with a certificate that `ca_file` has signed."""
        super().__init__()
        self._connect = partial(
            http.client.HTTPSConnection,
            context=ssl.create_default_context(cafile=str(ca_file)),
            source_address=(OPERATOR_ADDRESS, 0),
        )

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a URL."""
        return self.do_open(self._connect, req)


def _opener_for(ca_file: Path) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), _Operator(ca_file)
    )


class Service:
    """A running service."""

    def __init__(
        self,
        directory: Path,
        fleet: str | None,
        settings: dict[str, str],
        *,
        ca_file: Path | None = None,
    ) -> None:
        """Start it in `directory`; settings are named `timing_speed`.

        With `ca_file`, its operator API has a certificate that this file has signed.
        """
        self._opener = _DIRECT if ca_file is None else _opener_for(ca_file)
        directory.mkdir(exist_ok=True)
        flags = [
            f"--{name.replace('_', '-')}={text}" for name, text in settings.items()
        ]
        if fleet is not None:
            (directory / "fleet.toml").write_text(fleet, encoding="utf-8")
            flags.append("--fleet=fleet.toml")
        self._log = directory / "log"
        command = [sys.executable, "-m", "forewarn", "serve", *flags]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                machine.pinned(machine.SERVER_CORE, command),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = self._process.pid
        self.urls: dict[str, str] = {}
        self._wait_ready()

    def _wait_ready(self) -> None:
        def is_ready() -> bool:
            assert self._process.poll() is None, self.log()
            return "ready;" in self.log()

        eventually(is_ready, what="a ready service", seconds=STARTED_SECONDS)
        self.urls = dict(_SERVING.findall(self.log()))

    def log(self) -> str:
        """Return its log."""
        return self._log.read_text(encoding="utf-8")

    @property
    def address(self) -> tuple[str, int]:
        """Return the URL for VMs."""
        url = urlsplit(self.urls["VMs by source address"])
        return url.hostname or "", url.port or 0

    @property
    def operators(self) -> str:
        """Return the URL for operators."""
        return self.urls["operators"]

    def admin(self, path: str, body: object = None) -> Any:
        """Return the response of the operator API; fail unless the status is 2xx."""
        request = urllib.request.Request(
            self.operators + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{path}: {error.read().decode()}") from error

    def maintain(self, hosts: Sequence[str], **more: str) -> None:
        """Request the reboot of hosts in one request; wait until all are announced."""
        before = sum(self._operations().values())
        order = {"hosts": hosts, "impact": "reboot", "at_once": len(hosts), **more}
        self.admin("/v1/maintain", order)

        def are_announced() -> bool:
            found = self._operations()
            return not found[
                OperationState.PLANNED.value
            ] and found.total() >= before + len(hosts)

        # Not a list of operations: it explains each of them, with questions to the store.
        what = "the announcement of every host"
        eventually(
            are_announced,
            what=what,
            seconds=ANNOUNCED_SECONDS,
            pause=ANNOUNCED_POLL_SECONDS,
        )

    def _operations(self) -> Counter[str]:
        """Return the number of open operations in each state."""
        found: Counter[str] = Counter()
        for state, count in _OPERATIONS.findall(self.metrics()):
            found[state] += round(float(count))
        return found

    def metrics(self) -> str:
        """Return the metrics."""
        return direct_get(f"{self.operators}/metrics").decode()

    def pages(self, path: str, member: str) -> Iterator[Any]:
        """Yield all items of a list of the operator API."""
        after = ""
        while True:
            page = self.admin(f"{path}&limit=1000&after={after}")
            yield from page[member]
            after = page["next"]
            if after is None:
                return

    def end(self) -> None:
        """Stop it, and fail if it had errors."""
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        assert "Traceback" not in self.log(), self.log()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)


@contextmanager
def serving(directory: Path, fleet: str | None, **settings: str) -> Generator[Service]:
    """Run a service on free ports."""
    usual = {
        "metadata_listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "log_format": "text",
    }
    service = Service(directory, fleet, {**usual, **settings})
    try:
        yield service
    finally:
        service.end()
