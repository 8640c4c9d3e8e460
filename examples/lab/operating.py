"""The service of the lab, and its operator."""

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.demo_parts.timeline import Timeline
from examples.lab.hosts import SERVICE, Ground

START_SECONDS = 150.0
"""Maximum seconds until the service is ready on a busy machine."""

STOP_SECONDS = 60.0

SETTINGS = """\
[metadata]
listen = "{service}:80"
[admin]
listen = "unix:{folder}/api"
[store]
url = "sqlite:///{folder}/forewarn.db"
[timing]
recovery = "2s"
verify_settle = "1s"
{driver}"""


class _Connection(http.client.HTTPConnection):
    """A connection to the Unix socket of the operator API."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


class Service:
    """`forewarn serve` in its namespace, and the commands of its operator."""

    def __init__(
        self,
        folder: Path,
        ground: Ground,
        places: Mapping[str, str],
        timeline: Timeline,
    ) -> None:
        """Start nothing yet; `places` are the hosts of VMs."""
        self._folder, self._ground = folder, ground
        self._places, self._timeline = places, timeline
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, driver: str) -> None:
        """Start the service with the settings of its driver; return when it is ready."""
        text = SETTINGS.format(
            service=SERVICE,
            folder=self._folder,
            driver=driver,
        )
        (self._folder / "forewarn.toml").write_text(text, encoding="utf-8")
        hosts = [f'[[host]]\nname = "{host}"\n' for host in self._ground.hosts]
        vms = [
            f'[[vm]]\nname = "{vm}"\nhost = "{host}"\naddress = "192.0.2.{number}"\n'
            for number, (vm, host) in enumerate(self._places.items(), start=4)
        ]
        (self._folder / "fleet.toml").write_text("".join(hosts + vms), "utf-8")
        words = ["--config", "forewarn.toml", "--fleet", "fleet.toml"]
        space = ["ip", "netns", "exec", self._ground.service]
        with (self._folder / "serve.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*space, sys.executable, "-m", "forewarn", "serve", *words],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log_text = (self._folder / "serve.log").read_text("utf-8", "replace")
                raise RuntimeError(f"the service did not start:\n{log_text}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            return self._asked("/readyz")[0] == http.client.OK
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the service."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _asked(self, path: str) -> tuple[int, Any]:
        connection = _Connection(self._folder / "api")
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text.startswith(b"{") else None

    # The operator

    def order(self, *words: str) -> None:
        """Run a command of forewarn, and show it."""
        self._timeline.say("operator", f"$ forewarn {shlex.join(words)}", bold=True)
        done = subprocess.run(
            [sys.executable, "-m", "forewarn", *words],
            env={**os.environ, "FOREWARN_URL": self._url},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"forewarn {shlex.join(words)}: {done.stderr}")

    def invite(self) -> None:
        """Show how to use the lab by hand."""
        self._timeline.head("The lab stays until Ctrl-C. In another terminal:")
        for line in (
            f"export FOREWARN_URL={self._url}",
            ".venv/bin/forewarn fleet show",
            f"tail -f {self._folder}/h1/web_0.log",
        ):
            self._timeline.say("", line)

    @property
    def _url(self) -> str:
        return f"unix:{self._folder}/api"

    def is_idle(self) -> bool:
        """Return whether all work has ended."""
        ended = {"Done", "Failed", "Cancelled"}
        _, found = self._asked("/v1/operations")
        return all(each["state"] in ended for each in found["operations"])

    def _vms(self) -> list[dict[str, Any]]:
        vms: list[dict[str, Any]] = self._asked("/v1/fleet")[1]["vms"]
        return vms

    def vms_on(self, host: str) -> list[str]:
        """Return the VMs on a host."""
        return [vm["name"] for vm in self._vms() if vm["host"] == host]

    def host_of(self, vm: str) -> str:
        """Return the host of a VM."""
        [found] = [each["host"] for each in self._vms() if each["name"] == vm]
        return str(found)

    def downtimes(self) -> dict[str, float]:
        """Return the seconds of downtime of each VM."""
        _, found = self._asked("/v1/availability")
        return {each["vm"]: float(each["down_seconds"]) for each in found["vms"]}

    def failed(self) -> set[str]:
        """Return the VMs whose failure is reported."""
        _, found = self._asked("/v1/events")
        return {
            vm
            for event in found["events"]
            if event["EventStatus"] == "Started"
            for vm in event["vms"]
        }
