"""Hosts with relays as network namespaces, connected to a service in another one.

Everything that a test asks goes through a thread that is in the namespace, so that the
machine's own network has no part in it.
"""

import ctypes
import json
import os
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, TypeVar

from tests.support.certificates import Certificate
from tests.support.namespaces import Space
from tests.support.processes import PATIENCE_SECONDS, Serving
from tests.support.relays import Relaying

T = TypeVar("T")

_NETWORK = 0x40000000
"""CLONE_NEWNET of setns(2)."""

CONTROL = "10.77.0.1"
"""The address of the service, to which a bridge leads."""

OPERATOR = "0123456789abcdef0123456789abcdef"


class Machine(Space):
    """A namespace, and a thread in it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._thread: ThreadPoolExecutor | None = None

    def begin(self) -> None:
        super().begin()
        self._thread = ThreadPoolExecutor(1, initializer=self._enter)

    def end(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
        super().end()

    def inside(self, do: Callable[[], T]) -> T:
        """Return what a function returns in the namespace."""
        assert self._thread is not None, "it has begun"
        return self._thread.submit(do).result(2 * PATIENCE_SECONDS)

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            assert libc.setns(descriptor, _NETWORK) == 0, os.strerror(
                ctypes.get_errno()
            )
        finally:
            os.close(descriptor)


class Host(Machine):
    """A hypervisor host with its relay; its guests are addresses of its loopback."""

    relay: Relaying

    def ask(self, address: str) -> tuple[int, Any]:
        return self.inside(lambda: self.relay.ask(address))

    def approve(self, address: str, event: str) -> int:
        return self.inside(lambda: self.relay.approve(address, event))

    def cut(self) -> None:
        """Cut the cable: nothing comes, and no connection ends."""
        self.ip("link set up0 down")

    def join(self) -> None:
        self.ip("link set up0 up")


class Site:
    """A service, and hosts that reach it through a bridge."""

    def __init__(self, directory: Path, hosts: int, certificate: Certificate) -> None:
        prefix = f"fwr{os.getpid() % 10_000}"
        self.directory = directory
        self.control = Machine(f"{prefix}c")
        self.hosts = {
            f"h{number}": Host(f"{prefix}h{number}") for number in range(1, hosts + 1)
        }
        self._made = certificate
        self._trust = ssl.create_default_context(cafile=str(certificate.certificate))
        self._trust.check_hostname = False
        self.service: Serving

    def begin(self) -> None:
        """Make the namespaces and their cables."""
        self.control.begin()
        self.control.ip("link add br0 type bridge")
        self.control.ip("link set br0 up")
        self.control.ip(f"address add {CONTROL}/24 dev br0")
        for number, host in enumerate(self.hosts.values(), 1):
            host.begin()
            host.ip(f"link add up0 type veth peer name p{number}")
            host.ip(f"link set p{number} netns {self.control.name}")
            self.control.ip(f"link set p{number} master br0 up")
            host.ip(f"address add 10.77.0.{10 + number}/24 dev up0")
            host.ip("link set up0 up")

    def end(self) -> None:
        for host in self.hosts.values():
            if hasattr(host, "relay"):
                host.relay.kill()
        if hasattr(self, "service"):
            self.service.process.kill()
            self.service.process.wait()
        for machine in (*self.hosts.values(), self.control):
            machine.end()

    def serve(self, fleet: str, **settings: str) -> None:
        """Start the service, or start it again."""
        directory = self.directory / "service"
        directory.mkdir(exist_ok=True)
        tokens = directory / "tokens"
        tokens.write_text(f"test: {OPERATOR}\n", encoding="ascii")
        tokens.chmod(0o600)
        self.service = Serving(
            directory,
            fleet,
            space=self.control.name,
            admin_listen=f"{CONTROL}:8200",
            admin_token_file=str(tokens),
            admin_tls_certificate=str(self._made.certificate),
            admin_tls_key=str(self._made.key),
            **settings,
        ).wait_ready()

    def relay(self, name: str, *, at: str = "", token: str = "") -> Relaying:
        """Start the relay of a host; with `at`, that of a thief on another one."""
        host = self.hosts[at or name]
        relay = Relaying(
            self.directory / (f"{name}-at-{at}" if at else name),
            f"https://{CONTROL}:8200",
            token or self.token(name)["token"],
            space=host.name,
            ca_file=str(self._made.certificate),
        )
        if not at:
            host.relay = relay
        return relay

    def token(self, host: str) -> Any:
        return self.admin("/v1/tokens", {"relay": host})

    def admin(self, path: str, body: object = None) -> Any:
        """Return what the operator API answers; fail unless it is good."""

        def ask() -> tuple[int, bytes]:
            connection = HTTPSConnection(
                CONTROL, 8200, timeout=PATIENCE_SECONDS, context=self._trust
            )
            connection.request(
                "GET" if body is None else "POST",
                path,
                None if body is None else json.dumps(body),
                {
                    "Authorization": f"Bearer {OPERATOR}",
                    "Content-Type": "application/json",
                },
            )
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            return answer.status, text

        status, text = self.control.inside(ask)
        assert status < 300, text
        return json.loads(text)

    def reboot(self, vm: str) -> str:
        """Announce the reboot of a VM; return the ID of its event."""
        order = self.admin("/v1/reboot", {"vms": [vm]})
        return order["operations"][0]["events"][0]["EventId"]
