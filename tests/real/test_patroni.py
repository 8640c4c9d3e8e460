"""The handler `patroni` beside a real Patroni: two nodes of PostgreSQL on loopback.

`make real` installs Patroni into an environment of its own, where its nodes agree by
themselves (raft); PostgreSQL is Debian's. PostgreSQL refuses root, so that for root the
nodes run as `nobody`.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.integrations.api import Api, ApiError, Ask, Shape
from forewarn.instants import HOUR, format_instant
from tests.support.agents import free_port
from tests.support.jobs import CLOCK, context, job_of, worker_of
from tests.support.processes import eventually, http
from tests.support.unpacked import environment, find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    needing("patroni", "postgres"),
]

SECRET = "forewarn:geheim"
NODES = ("pg1", "pg2")


def config_of(name: str, directory: Path, ports: dict[str, dict[str, int]]) -> str:
    """Return the settings of a node: JSON is YAML."""
    own_ports = ports[name]
    others = [ports[node]["raft"] for node in NODES if node != name]
    return json.dumps(
        {
            "scope": "demo",
            "name": name,
            "restapi": {
                "listen": f"127.0.0.1:{own_ports['rest']}",
                "connect_address": f"127.0.0.1:{own_ports['rest']}",
                "authentication": {"username": "forewarn", "password": "geheim"},
            },
            "raft": {
                "data_dir": str(directory / f"{name}.raft"),
                "self_addr": f"127.0.0.1:{own_ports['raft']}",
                "partner_addrs": [f"127.0.0.1:{port}" for port in others],
            },
            "bootstrap": {
                "dcs": {
                    "ttl": 20,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "postgresql": {"use_pg_rewind": True},
                },
                "initdb": [{"encoding": "UTF8"}, {"auth": "trust"}, "no-sync"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{own_ports['postgres']}",
                "connect_address": f"127.0.0.1:{own_ports['postgres']}",
                "data_dir": str(directory / name),
                "bin_dir": str(Path(find("postgres")).resolve().parent),
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
                "authentication": {
                    "superuser": {"username": "postgres"},
                    "replication": {"username": "replicator"},
                    "rewind": {"username": "postgres"},
                },
                "parameters": {
                    "unix_socket_directories": str(directory),
                    "fsync": "off",
                    "shared_buffers": "16MB",
                    "max_connections": 20,
                },
            },
        }
    )


class Real:
    """Two nodes, one of which leads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = {
            name: {what: free_port() for what in ("rest", "raft", "postgres")}
            for name in NODES
        }
        self.processes = [self._started(name) for name in NODES]

    def _started(self, name: str) -> "subprocess.Popen[bytes]":
        file = self.directory / f"{name}.yml"
        file.write_text(config_of(name, self.directory, self.ports))
        as_nobody: dict[str, Any] = {}
        if os.geteuid() == 0:
            as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        with (self.directory / f"{name}.log").open("wb") as log:
            return subprocess.Popen[bytes](
                [find("patroni"), str(file)],
                cwd=self.directory,
                env=environment("postgres", HOME=str(self.directory)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **as_nobody,
            )

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]['rest']}"

    def members(self) -> dict[str, str]:
        """Return the role and state of each member."""
        for process in self.processes:
            assert process.poll() is None, self.logs()
        with contextlib.suppress(OSError):
            _, body = http(f"{self.url('pg1')}/cluster")
            return {m["name"]: f"{m['role']} {m['state']}" for m in body["members"]}
        return {}

    def wait_well(self) -> None:
        def is_well(members: dict[str, str]) -> bool:
            return sorted(members.values()) == ["leader running", "replica streaming"]

        # Making the second node from the first takes its time.
        for _ in range(2):
            with contextlib.suppress(AssertionError):
                eventually(self.members, is_well)
                return
        eventually(self.members, is_well, what=self.logs())

    def leader(self) -> str:
        return next(n for n, s in self.members().items() if s.startswith("leader"))

    def order(self, method: str, path: str, body: object) -> None:
        """Have the node that leads do what an operator says."""
        coded = b64encode(SECRET.encode()).decode()
        api = Api(
            self.url(self.leader()),
            clock=CLOCK,
            headers=lambda: [("Authorization", f"Basic {coded}")],
        )
        # Some answers are sentences for people.
        ask = Ask(method=method, path=path, json=body, again=False, shape=Shape.ANY)
        api.ask(ask, context())

    def end(self) -> None:
        """End both nodes at once: what they have is thrown away."""
        for process in self.processes:
            process.kill()
            process.wait()
        for name in NODES:
            # PostgreSQL outlives its Patroni; a directory that is gone ends it as well.
            with contextlib.suppress(OSError, ValueError):
                file = self.directory / name / "postmaster.pid"
                os.kill(int(file.read_text().split(maxsplit=1)[0]), signal.SIGQUIT)
                eventually(file.exists, lambda is_there: not is_there)

    def logs(self) -> str:
        return "\n".join(
            file.read_text()[-3000:] for file in self.directory.glob("*.log")
        )


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    # Not where pytest keeps its files: other users may not read those.
    directory = Path(tempfile.mkdtemp(prefix="forewarn-patroni-"))
    if os.geteuid() == 0:
        shutil.chown(directory, "nobody", "nogroup")
    directory.chmod(0o755)
    new_real = Real(directory)
    try:
        new_real.wait_well()
        yield new_real
    finally:
        new_real.end()
        shutil.rmtree(directory)


@pytest.mark.long
def test_leader_role_moves_away_and_returns(real: Real, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    real.wait_well()
    first = real.leader()
    [other] = set(NODES) - {first}
    worker = worker_of(
        "patroni",
        tmp_path,
        url=real.url(first),
        secret_file=str(file),
        switch_back=True,
    )
    assert worker.check() == []
    detail = worker.prepare(job_of(seconds=60), context(60)).detail
    assert detail == f"{other} leads instead of {first}"
    assert real.leader() == other
    detail = worker.recover(job_of(Phase.RECOVER, seconds=60), context(60)).detail
    assert detail == f"{first} is the leader again"
    real.wait_well()
    assert real.leader() == first


def test_patroni_refusals_are_reported(real: Real, tmp_path: Path) -> None:
    real.wait_well()
    first = real.leader()
    [other] = set(NODES) - {first}
    worker = worker_of("patroni", tmp_path, url=real.url(first))
    assert any("was answered 401" in problem for problem in worker.check())
    with pytest.raises(ApiError, match="401: no auth header received"):
        worker.prepare(job_of(), context())
    worker = worker_of(
        "patroni", tmp_path, url=real.url(first), candidates=("pg3",), candidate_wait=0
    )
    with pytest.raises(HandlerError, match="pg3: there is no such member"):
        worker.prepare(job_of(), context())
    worker = worker_of("patroni", tmp_path, url=real.url(other))
    detail = worker.prepare(job_of(), context()).detail
    assert detail == f"nothing to do: {first} leads, not {other}"


def test_manual_pause_and_switchover_are_kept(real: Real, tmp_path: Path) -> None:
    real.wait_well()
    first = real.leader()
    worker = worker_of("patroni", tmp_path, url=real.url(first))
    real.order("PATCH", "/config", {"pause": True})
    with pytest.raises(HandlerError, match="the cluster demo is paused"):
        worker.prepare(job_of(), context())
    assert worker.check() == [
        "the cluster demo is paused, so it is not changed: run patronictl resume"
    ]
    real.order("PATCH", "/config", {"pause": None})
    at = format_instant(CLOCK.now() + HOUR)
    real.order("POST", "/switchover", {"leader": first, "scheduled_at": at})
    with pytest.raises(HandlerError, match="a switchover is scheduled for 20"):
        worker.prepare(job_of(), context())
    real.order("DELETE", "/switchover", None)
    assert real.leader() == first
