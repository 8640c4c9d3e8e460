"""Relays as real processes, and VMs that ask them from their own loopback addresses."""

import json
import re
import signal
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.support.forked import loaded, started
from tests.support.processes import PATIENCE_SECONDS, Serving, eventually

_AT = re.compile(r"serving the VMs of this host at (\S+):(\d+)")

DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"


class Relaying:
    """A process of `forewarn relay` at 127.0.0.1."""

    def __init__(
        self,
        directory: Path,
        url: str,
        token: str,
        *,
        is_forked: bool = True,
        under: Sequence[str] = (),
        space: str = "",
        **settings: str,
    ) -> None:
        """Start it in `directory`, which keeps its file, by the command `under`.

        A forked one can be in a network namespace, `space`.
        """
        directory.mkdir(exist_ok=True)
        (directory / "relay-token").write_text(token, encoding="ascii")
        flags = {"url": url, "listen": "127.0.0.1:0", "log_format": "text", **settings}
        arguments = [
            f"--{name.replace('_', '-')}={text}" for name, text in flags.items()
        ]
        self._log = directory / "relay-log"
        self._offset = self._log.stat().st_size if self._log.exists() else 0
        arguments = ["relay", *arguments]
        self.process = (
            started(arguments, cwd=directory, log=self._log, under=under, space=space)
            if is_forked
            else loaded(arguments, cwd=directory, log=self._log, under=under)
        )
        match = eventually(
            lambda: _AT.search(self.log()),
            lambda match: match is not None or self.process.poll() is not None,
            what="a listening relay",
        )
        assert match is not None, self.log()
        self.port = int(match[2])

    def log(self) -> str:
        """Return what this process has logged."""
        return self._log.read_bytes()[self._offset :].decode("utf-8", "replace")

    def wait_connected(self) -> "Relaying":
        """Return when it follows a service."""
        eventually(self.log, lambda log: "following the service" in log)
        return self

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def terminate(self) -> int:
        """Ask it to end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def ask(
        self, address: str, path: str = DOCUMENT, body: object = None
    ) -> tuple[int, Any]:
        """Return the status and the JSON of an answer to the VM with an address."""
        connection = HTTPConnection(
            "127.0.0.1",
            self.port,
            timeout=PATIENCE_SECONDS,
            source_address=(address, 0),
        )
        data = None if body is None else json.dumps(body)
        method = "GET" if body is None else "POST"
        connection.request(method, path, data, {"Metadata": "true"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        try:
            return answer.status, json.loads(text) if text else None
        except ValueError:
            return answer.status, text.decode()

    def approve(self, address: str, event: str) -> int:
        """Approve as the VM with an address; return the status."""
        return self.ask(address, body={"StartRequests": [{"EventId": event}]})[0]

    def until(self, address: str, is_right: Any) -> Any:
        """Return the first document of a VM that is right."""
        return eventually(
            lambda: self.ask(address),
            lambda answer: answer[0] == 200 and is_right(answer[1]),
        )[1]

    @property
    def memory(self) -> float:
        """Return the MiB of memory that the process uses."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def token(service: Serving, host: str) -> Any:
    """Create the token of the relay of a host."""
    return service.admin("/v1/tokens", {"relay": host})
