"""The example of keepalived: a virtual address in front of two real replicas.

Two machines, as network namespaces, run HAProxy and keepalived with the examples. The
virtual address leaves a machine whose HAProxy ends, and one that is cut off.
"""

import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

import pytest

from tests.support import postgres
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.namespaces import no_namespaces
from tests.support.processes import Serving, eventually
from tests.support.relay_hosts import Machine
from tests.support.unpacked import environment, find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    postgres.needing_postgres,
    needing("haproxy", "keepalived", "curl"),
    needs_openssl,
    pytest.mark.skipif(bool(no_namespaces()), reason=no_namespaces() or "there are"),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

CENTER, FIRST, SECOND = "10.78.0.1", "10.78.0.11", "10.78.0.12"
"""The addresses of the replicas, and of the two machines with HAProxy."""

VIRTUAL = "10.78.0.10"

TAKEN_SECONDS = 6.0
"""Longer than a machine waits for the other one before it takes the address."""

TOKEN = "0123456789abcdef0123456789abcdef"


class Front(Machine):
    """A machine with HAProxy and keepalived."""

    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(name)
        self._directory = directory
        directory.mkdir(mode=0o755)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def configure(self, example: str, changes: dict[str, str]) -> Path:
        """Return an example with these changes."""
        source = EXAMPLES / example
        text = source.read_text("utf-8")
        # At once, since the second machine exchanges two addresses.
        for number, old in enumerate(changes):
            assert old in text, old
            text = text.replace(old, f"<{number}>")
        for number, new in enumerate(changes.values()):
            text = text.replace(f"<{number}>", new)
        file = self._directory / source.name
        file.write_text(text, "utf-8")
        return file

    def start(self, program: str, *words: str) -> None:
        """Start a program, in a session of its own: keepalived signals its group."""
        command = self.words(find(program), *words)
        with (self._directory / program).open("ab") as log:
            self._processes[program] = subprocess.Popen(
                command,
                env=environment(program),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_haproxy(self, file: Path) -> None:
        self.start("haproxy", "-f", str(file), "-db")

    def start_keepalived(self, file: Path) -> None:
        pid, child = self._directory / "pid", self._directory / "child.pid"
        files = ("-f", str(file), "-p", str(pid), "-r", str(child))
        self.start("keepalived", *files, "--dont-fork", "--log-console", "--vrrp")

    def stop(self, program: str) -> None:
        process = self._processes.pop(program, None)
        if process is not None:
            process.terminate()
            process.wait()

    def end(self) -> None:
        for program in [*self._processes]:
            self.stop(program)
        super().end()

    @property
    def has_address(self) -> bool:
        """Return whether the virtual address is here."""
        return f" {VIRTUAL}/" in self.ip("-o -4 address show dev up0")

    def log(self) -> str:
        return (self._directory / "keepalived").read_text("utf-8")


class Network:
    """Two replicas in the center, and two machines before them."""

    def __init__(self, directory: Path, store_url: str) -> None:
        prefix = f"fwk{os.getpid() % 10_000}"
        self.center = Machine(f"{prefix}c")
        self.fronts = [Front(f"{prefix}{n}", directory / f"front{n}") for n in (1, 2)]
        self.replicas: list[Serving] = []
        self._directory, self._store_url = directory, store_url
        self._certificate = certificate_in(directory, CENTER)
        self._trust = ssl.create_default_context(
            cafile=str(self._certificate.certificate)
        )
        # The certificate is that of the replicas, as it is behind a real name.
        self._trust.check_hostname = False

    def begin(self) -> None:
        self.center.begin()
        self.center.ip("link add br0 type bridge")
        self.center.ip("link set br0 up")
        self.center.ip(f"address add {CENTER}/24 dev br0")
        for number, front in enumerate(self.fronts, 1):
            front.begin()
            front.ip(f"link add up0 type veth peer name p{number}")
            front.ip(f"link set p{number} netns {self.center.name}")
            self.center.ip(f"link set p{number} master br0 up")
            front.ip(f"address add 10.78.0.{10 + number}/24 dev up0")
            front.ip("link set up0 up")
        for number in (1, 2):
            self.replicas.append(self._replica(number))
        for number, front in enumerate(self.fronts, 1):
            front.start_haproxy(self.haproxy_file(front))
            front.start_keepalived(self._keepalived_file(front, number))

    def _replica(self, number: int) -> Serving:
        directory = self._directory / f"r{number}"
        directory.mkdir()
        tokens = directory / "tokens"
        tokens.write_text(f"test: {TOKEN}\n", encoding="ascii")
        tokens.chmod(0o600)
        return Serving(
            directory,
            '[[host]]\nname = "h1"\n',
            space=self.center.name,
            store_url=self._store_url,
            cluster_lease="1s",
            admin_listen=f"{CENTER}:{8200 + number}",
            admin_token_file=str(tokens),
            admin_tls_certificate=str(self._certificate.certificate),
            admin_tls_key=str(self._certificate.key),
        ).wait_ready()

    def haproxy_file(self, front: Front) -> Path:
        changes = {
            "/etc/ssl/certs/ca-certificates.crt": str(self._certificate.certificate),
            "r1.example:8200": f"{CENTER}:8201",
            "r2.example:8200": f"{CENTER}:8202",
        }
        return front.configure("haproxy/operators.cfg", changes)

    def _keepalived_file(self, front: Front, number: int) -> Path:
        script = self._directory / "ready.sh"
        copy(EXAMPLES / "keepalived" / "ready.sh", script)
        changes = {
            "/etc/keepalived/ready.sh": str(script),
            # The directory of a test is below /tmp, where others can write.
            "enable_script_security": "",
            "interface eth0": "interface up0",
            "192.0.2.10/24": f"{VIRTUAL}/24",
            "192.0.2.11": (FIRST, SECOND)[number - 1],
            "192.0.2.12": (SECOND, FIRST)[number - 1],
            "priority 150": f"priority {200 - 50 * number}",
        }
        return front.configure("keepalived/keepalived.conf", changes)

    def role(self) -> str | None:
        """Return what a replica answers at the virtual address; None: nothing."""

        def ask() -> bytes | None:
            connection = HTTPSConnection(VIRTUAL, 8200, timeout=3, context=self._trust)
            try:
                connection.request("GET", "/readyz", headers={"Host": "localhost"})
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, HTTPException):
                return None
            finally:
                connection.close()
            return text if answer.status == 200 else None

        text = self.center.inside(ask)
        return None if text is None else text.decode()

    def holder(self) -> list[Front]:
        """Return the machines with the virtual address."""
        return [front for front in self.fronts if front.has_address]

    def end(self) -> None:
        for replica in self.replicas:
            replica.process.kill()
            replica.process.wait()
        for machine in (*self.fronts, self.center):
            machine.end()


@pytest.fixture
def network() -> Iterator[Network]:
    with (
        TemporaryDirectory() as name,
        postgres.one_database(is_empty=True) as url,
    ):
        directory = Path(name)
        # The script runs as another user.
        directory.chmod(0o755)
        network = Network(directory, url)
        try:
            network.begin()
            yield network
        finally:
            network.end()


def test_virtual_address_leaves_a_machine_that_reaches_no_replica(
    network: Network,
) -> None:
    eventually(network.role, bool)
    [first] = eventually(network.holder, lambda found: len(found) == 1)
    [second] = [front for front in network.fronts if front is not first]
    first.stop("haproxy")
    eventually(network.holder, lambda found: found == [second])
    eventually(network.role, bool)
    # The first one is well again, and takes nothing away until the second one is cut off.
    first.start_haproxy(network.haproxy_file(first))
    eventually(
        lambda: first.log().count("succeeded"), lambda count: count > 1, what="success"
    )
    threading.Event().wait(TAKEN_SECONDS)
    assert network.holder() == [second]
    second.ip("link set up0 down")
    eventually(lambda: first.has_address, bool)
    eventually(network.role, bool)
