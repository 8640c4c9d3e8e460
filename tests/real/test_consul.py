"""A real Consul, one server on loopback: the lock in its keys, and maintenance mode.

It is the version of Debian 11, which `tests/real/older_consul.sh` unpacks. The lock
passes the same contract as with fakes.
"""

import base64
import contextlib
import http
import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Stage
from forewarn.agent.handlers.run_context import context_for
from forewarn.agent.locks.port import make_lock
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import SystemClock
from forewarn.instants import HOUR, SECOND, Micros, format_instant
from forewarn.protocol.errors import ForewarnError
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.contract.agent_locks import test_lock
from tests.support.agents import free_port, ground
from tests.support.handled import Handled
from tests.support.lock_benches import Bench, listed, valid
from tests.support.locked import locked
from tests.support.processes import eventually
from tests.support.unpacked import environment, find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    needing("consul"),
    pytest.mark.timeout(300),
]

PREFIX = "forewarn/locks/"

ACLS = {"enabled": True, "default_policy": "deny", "tokens": {"master": "m4ster"}}

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RealConsul:
    """One server, which is the agent of this VM too."""

    def __init__(self, directory: Path, **more: Any) -> None:
        self._directory = directory
        self.port = free_port()
        ports = {"http": self.port, "dns": -1, "grpc": -1, "serf_wan": -1}
        ports |= {"server": free_port(), "serf_lan": free_port()}
        settings = {
            "server": True,
            "bootstrap_expect": 1,
            "node_name": "web_0",
            "data_dir": str(directory / "data"),
            "bind_addr": "127.0.0.1",
            "client_addr": "127.0.0.1",
            "ports": ports,
            # An election at once, instead of one that waits for others.
            "performance": {"raft_multiplier": 1},
            "disable_update_check": True,
            **more,
        }
        (directory / "consul.json").write_text(json.dumps(settings))
        self.begin()

    def begin(self) -> None:
        with (self._directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    find("consul"),
                    "agent",
                    "-config-file",
                    str(self._directory / "consul.json"),
                ],
                env=environment("consul"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        def is_there() -> bool:
            assert self.process.poll() is None, (self._directory / "log").read_text()
            with contextlib.suppress(OSError):
                # Writes need a leader, and a catalog which knows this node.
                nodes = self.ask("/v1/catalog/nodes", token="m4ster")
                return bool(json.loads(nodes))
            return False

        eventually(is_there, bool, what="a leader")

    def end(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: bytes | None = None, token: str = "") -> bytes:
        """Return what is answered: to a PUT where there is a body."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=body,
            method="GET" if body is None else "PUT",
            headers={"X-Consul-Token": token} if token else {},
        )
        with _DIRECT.open(request, timeout=60) as answer:
            return answer.read()


class RealBench:
    """A lock in a key of it."""

    def __init__(self, consul: RealConsul) -> None:
        self.consul = consul

    def settings(self, group: str = "web", holders: int = 1) -> LockSettings:
        return LockSettings(
            kind="consul",
            url=self.consul.url,
            group=group,
            holders=holders,
            timeout=5 * SECOND,
        )

    def text(self, group: str) -> str:
        try:
            # After a restart, others can still read what was there before.
            document = json.loads(self.consul.ask(f"/v1/kv/{PREFIX}{group}?consistent"))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != http.HTTPStatus.NOT_FOUND:
                raise
            return ""
        return base64.b64decode(document[0]["Value"] or "").decode()

    def holders(self, group: str = "web") -> set[str]:
        return valid(self.text(group), SystemClock().now())

    def past(self, group: str = "web") -> list[tuple[Micros, frozenset[str]]]:
        raise NotImplementedError("Consul keeps the last value only")

    def let_expire(self, group: str = "web") -> None:
        past = format_instant(SystemClock().now() - HOUR)
        who = listed(self.text(group))
        holders = {name: {"since": past, "until": past} for name in who}
        self.damage(json.dumps({"holders": holders}), group)

    def damage(self, text: str, group: str = "web") -> None:
        self.consul.ask(f"/v1/kv/{PREFIX}{group}", text.encode())

    @contextlib.contextmanager
    def away(self) -> Generator[None]:
        self.consul.end()
        yield
        self.consul.begin()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealConsul]:
    consul = RealConsul(tmp_path_factory.mktemp("consul"))
    yield consul
    consul.end()


@pytest.fixture
def bench(running: RealConsul) -> Bench:
    request = urllib.request.Request(
        f"{running.url}/v1/kv/{PREFIX}?recurse", method="DELETE"
    )
    _DIRECT.open(request, timeout=60).close()
    return RealBench(running)


@pytest.fixture
def expiring(bench: Bench) -> Bench:
    return bench


# The whole contract, with `bench` and `expiring` of this module.
globals().update(
    {name: test for name, test in vars(test_lock).items() if name.startswith("test_")}
)


def test_documented_token_suffices_for_one_group_only(tmp_path: Path) -> None:
    consul = RealConsul(tmp_path, acl=ACLS)
    try:
        rules = f'key "{PREFIX}web" {{ policy = "write" }}'
        policy = {"Name": "lock", "Rules": rules}
        consul.ask("/v1/acl/policy", json.dumps(policy).encode(), "m4ster")
        body = {"Policies": [{"Name": "lock"}]}
        created = consul.ask("/v1/acl/token", json.dumps(body).encode(), "m4ster")
        token = tmp_path / "token"
        token.write_text(json.loads(created)["SecretID"])
        clock = SystemClock()

        def lock_of(group: str, file: str) -> Any:
            settings = LockSettings(
                kind="consul", url=consul.url, group=group, token_file=file
            )
            return make_lock(settings, {}, clock)

        lock = lock_of("web", str(token))
        assert lock.describe(context_for(30, clock)) == "the lock is free"
        assert lock.take("web_0", context_for(30, clock)).is_held
        assert lock.describe(context_for(30, clock)).startswith("held by web_0 since ")
        lock.release("web_0", context_for(30, clock))
        for group, file in (("db", str(token)), ("web", "")):
            needed = f'its token needs key "{PREFIX}{group}" {{ policy = "write" }}'
            with pytest.raises(ForewarnError) as refused:
                lock_of(group, file).take("web_0", context_for(30, clock))
            assert refused.value.message.endswith(needed)
    finally:
        consul.end()


def test_agent_waits_for_the_lock_and_for_a_server_that_was_killed(
    tmp_path: Path, bench: Bench
) -> None:
    clock = SystemClock()
    loop = LoopThread()
    rival = make_lock(bench.settings(), {}, clock)
    assert rival.take("another", context_for(30, clock)).is_held
    with ground(loop, tmp_path, fleet=fleets.fleet_text(1)) as place:
        agent = locked(place, "web_0", bench, at_deadline="withhold")
        event = place.event()
        assert "held by another" in agent.wait_refused()
        with bench.away():
            agent.wait_trouble()
            assert place.posts(event) == []
        rival.release("another", context_for(30, clock))
        agent.wait_stage(event, Stage.FINISHED)
        eventually(bench.holders, lambda found: found == set())
        assert place.approvals(event) == ["web_0"]
    loop.close()


def test_node_enters_and_leaves_maintenance(
    running: RealConsul, tmp_path: Path
) -> None:
    handler = Handled("consul", f'url = "{running.url}"\n', tmp_path, {})
    assert handler.check() == []
    assert handler.prepare() == "the node is in maintenance"
    document = json.loads(running.ask("/v1/agent/checks"))
    assert document["_node_maintenance"]["Notes"].startswith("forewarn it: ")
    handler.again()
    assert handler.recover() == "the node is back"
    assert json.loads(running.ask("/v1/agent/checks")) == {}
