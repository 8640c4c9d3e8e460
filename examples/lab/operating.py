"""The service of the lab, and its operator."""

import http.client
import json
import secrets
import shlex
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from examples.demo_parts.timeline import Timeline
from examples.lab.hosts import CONTROL, Ground, enter, guest_address

START_SECONDS = 150.0
"""Maximum seconds until the service is ready on a busy machine."""

STOP_SECONDS = 60.0

SETTINGS = """\
[metadata]
# The relays answer the guests.
listen = ""
[admin]
listen = "{address}"
token_file = "{directory}/token"
tls_certificate = "{directory}/certificate.pem"
tls_key = "{directory}/key.pem"
[store]
url = "sqlite:///{directory}/forewarn.db"
[timing]
recovery = "2s"
verify_settle = "1s"
{driver}"""


ADDRESS = f"{CONTROL}:8200"
"""Where the operator API listens, for operators and relays."""

URL = f"https://{ADDRESS}"

OPENSSL = (
    *("openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"),
    *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=lab"),
    *("-addext", f"subjectAltName=IP:{CONTROL}"),
)
"""Makes a certificate that signs itself."""


class Service:
    """`forewarn serve` in its namespace, and the commands of its operator.

    Only its network has a namespace, and questions are asked from in there.
    """

    def __init__(
        self,
        directory: Path,
        ground: Ground,
        places: Mapping[str, str],
        timeline: Timeline,
    ) -> None:
        """Start nothing yet; `places` are the hosts of VMs."""
        self._directory, self._ground = directory, ground
        self._places, self._timeline = places, timeline
        self._process: subprocess.Popen[bytes] | None = None
        self._token = secrets.token_hex()
        self.certificate = directory / "certificate.pem"
        self._inside = ThreadPoolExecutor(
            1, initializer=enter, initargs=(ground.service,)
        )
        self._trust: ssl.SSLContext

    def _write_secrets(self) -> None:
        """Write a certificate, and the token of the operator."""
        key = self._directory / "key.pem"
        subprocess.run(
            [*OPENSSL, "-keyout", key, "-out", self.certificate],
            check=True,
            capture_output=True,
        )
        self._trust = ssl.create_default_context(cafile=str(self.certificate))
        token = self._directory / "token"
        token.touch(mode=0o600)
        token.write_text(f"lab: {self._token}\n", "ascii")
        (self._directory / "operator").touch(mode=0o600)
        (self._directory / "operator").write_text(self._token, "ascii")

    def start(self, driver: str) -> None:
        """Start the service with the settings of its driver; return when it is ready."""
        self._write_secrets()
        text = SETTINGS.format(
            address=ADDRESS,
            directory=self._directory,
            driver=driver,
        )
        (self._directory / "forewarn.toml").write_text(text, encoding="utf-8")
        hosts = [f'[[host]]\nname = "{host}"\n' for host in self._ground.hosts]
        vms = [
            f'[[vm]]\nname = "{vm}"\nhost = "{host}"\naddress = "{guest_address(number)}"\n'
            for number, (vm, host) in enumerate(self._places.items(), start=4)
        ]
        (self._directory / "fleet.toml").write_text("".join(hosts + vms), "utf-8")
        words = ["--config", "forewarn.toml", "--fleet", "fleet.toml"]
        space = ["ip", "netns", "exec", self._ground.service]
        with (self._directory / "serve.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*space, sys.executable, "-m", "forewarn", "serve", *words],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log_text = (self._directory / "serve.log").read_text("utf-8", "replace")
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
        self._inside.shutdown()

    def _asked(self, path: str, body: object = None) -> tuple[int, Any]:
        return self._inside.submit(self._ask, path, body).result()

    def _ask(self, path: str, body: object) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection(
            ADDRESS, timeout=60, context=self._trust
        )
        words = {"Authorization": f"Bearer {self._token}"}
        try:
            if body is None:
                connection.request("GET", path, headers=words)
            else:
                words["Content-Type"] = "application/json"
                connection.request("POST", path, json.dumps(body), words)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text.startswith(b"{") else None

    def relay_tokens(self) -> dict[str, str]:
        """Create a token for the relay of each host."""
        return {
            host: self._asked("/v1/tokens", {"relay": host})[1]["token"]
            for host in self._ground.hosts
        }

    def has_relay(self, host: str) -> bool:
        """Return whether the relay of a host is connected."""
        _, found = self._asked("/v1/relays")
        return any(
            relay["host"] == host and relay["connected"] for relay in found["relays"]
        )

    # The operator

    def order(self, *words: str) -> None:
        """Run a command of forewarn, and show it."""
        self._timeline.say("operator", f"$ forewarn {shlex.join(words)}", bold=True)
        done = subprocess.run(
            [*self._inside_words(), sys.executable, "-m", "forewarn", *words],
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
            f"alias fw='{shlex.join(self._inside_words())} .venv/bin/forewarn'",
            "fw fleet show",
            f"tail -f {self._directory}/h1/web_0.log {self._directory}/h1/relay.log",
        ):
            self._timeline.say("", line)

    def _inside_words(self) -> list[str]:
        """Return the start of a command of the operator."""
        return [
            *("ip", "netns", "exec", self._ground.service, "env"),
            *(f"FOREWARN_URL={URL}", f"FOREWARN_CA_FILE={self.certificate}"),
            f"FOREWARN_TOKEN_FILE={self._directory}/operator",
        ]

    def is_idle(self) -> bool:
        """Return whether all work has ended."""
        ended = {"Done", "Failed", "Cancelled"}
        _, found = self._asked("/v1/operations")
        return all(operation["state"] in ended for operation in found["operations"])

    def _vms(self) -> list[dict[str, Any]]:
        vms: list[dict[str, Any]] = self._asked("/v1/fleet")[1]["vms"]
        return vms

    def vms_on(self, host: str) -> list[str]:
        """Return the VMs on a host."""
        return [vm["name"] for vm in self._vms() if vm["host"] == host]

    def host_of(self, vm: str) -> str:
        """Return the host of a VM."""
        [found] = [vm_["host"] for vm_ in self._vms() if vm_["name"] == vm]
        return str(found)

    def downtimes(self) -> dict[str, float]:
        """Return the seconds of downtime of each VM."""
        _, found = self._asked("/v1/availability")
        return {vm["vm"]: float(vm["down_seconds"]) for vm in found["vms"]}

    def approvers(self) -> set[str]:
        """Return the VMs that have approved an event."""
        _, found = self._asked("/v1/history/operations")
        return {
            str(approval["approved_by"])
            for operation in found["operations"]
            for approval in operation["approvals"]
        }

    def failed(self) -> set[str]:
        """Return the VMs whose failure is reported."""
        _, found = self._asked("/v1/events")
        return {
            vm
            for event in found["events"]
            if event["EventStatus"] == "Started"
            for vm in event["vms"]
        }
