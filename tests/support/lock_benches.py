"""Locks of each kind with what keeps them, for the tests that all kinds pass."""

import contextlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

from forewarn.agent.locks.directory import MARKER
from forewarn.agent.locks.port import Lock, make_lock
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import Clock, SystemClock
from forewarn.instants import HOUR, SECOND, Micros, parse_instant
from tests.support.fake_consul_keys import FakeConsulKeys
from tests.support.fake_fleetlock import FakeFleetLock
from tests.support.fake_kubernetes import FakeKubernetes, serving
from tests.support.kubernetes_workers import kubeconfig

EXPIRING = ("kubernetes", "consul", "directory")
KINDS = ("fleetlock", *EXPIRING)

LEASE_ANNOTATION = "forewarn/holders"


class Bench(Protocol):
    """A service with a lock, and the settings of the agents that use it."""

    def settings(self, group: str = "web", holders: int = 1) -> LockSettings:
        """Return the settings of an agent."""
        ...

    def holders(self, group: str = "web") -> set[str]:
        """Return who holds it, by what keeps it."""
        ...

    def past(self, group: str = "web") -> list[tuple[Micros, frozenset[str]]]:
        """Return who was in its list after each write, and when that was."""
        ...

    def let_expire(self, group: str = "web") -> None:
        """Let time pass until the current holders have expired."""
        ...

    def damage(self, text: str, group: str = "web") -> None:
        """Replace the list of holders."""
        ...

    def away(self) -> contextlib.AbstractContextManager[None]:
        """Have it be away for as long as the block takes."""
        ...


def lock_of(
    bench: Bench, group: str = "web", holders: int = 1, clock: Clock | None = None
) -> Lock:
    """Return the lock of an agent."""
    settings = bench.settings(group, holders)
    return make_lock(settings, {}, clock or SystemClock())


class FleetLockBench:
    """A server of FleetLock, which counts by itself."""

    def __init__(self, fake: FakeFleetLock) -> None:
        self.fake = fake

    def settings(self, group: str = "web", holders: int = 1) -> LockSettings:
        self.fake.slots[group] = holders
        return LockSettings(
            kind="fleetlock", url=self.fake.url, group=group, timeout=5 * SECOND
        )

    def holders(self, group: str = "web") -> set[str]:
        return set(self.fake.held(group))

    def past(self, group: str = "web") -> list[tuple[Micros, frozenset[str]]]:
        with self.fake.lock:
            return [(at, who) for at, group_, who in self.fake.past if group_ == group]

    def let_expire(self, group: str = "web") -> None:
        raise NotImplementedError("FleetLock has no expiry")

    def damage(self, text: str, group: str = "web") -> None:
        raise NotImplementedError("there is no list to read")

    @contextlib.contextmanager
    def away(self) -> Generator[None]:
        self.fake.end()
        yield
        self.fake.begin()


class KubernetesBench:
    """A fake of an API server with Leases."""

    def __init__(self, fake: FakeKubernetes, directory: Path, clock: "Ahead") -> None:
        self.fake = fake
        self.clock = clock
        self.file = directory / "kubeconfig"
        self.file.write_text(kubeconfig(fake.url), encoding="utf-8")

    def settings(self, group: str = "web", holders: int = 1) -> LockSettings:
        return LockSettings(
            kind="kubernetes",
            kubeconfig=str(self.file),
            namespace="ops",
            group=group,
            holders=holders,
            timeout=5 * SECOND,
        )

    def lease(self, group: str = "web") -> dict[str, Any]:
        return self.fake.leases.found["ops", f"forewarn-{group}"]

    def holders(self, group: str = "web") -> set[str]:
        if ("ops", f"forewarn-{group}") not in self.fake.leases.found:
            return set()
        text = self.lease(group)["metadata"]["annotations"][LEASE_ANNOTATION]
        return valid(text, self.clock.now())

    def past(self, group: str = "web") -> list[tuple[Micros, frozenset[str]]]:
        return [
            (at, listed(metadata["annotations"][LEASE_ANNOTATION]))
            for at, name, metadata in tuple(self.fake.leases.past)
            if name == f"forewarn-{group}"
        ]

    def let_expire(self, group: str = "web") -> None:
        self.clock.ahead += 2 * HOUR

    def damage(self, text: str, group: str = "web") -> None:
        self.lease(group)["metadata"]["annotations"][LEASE_ANNOTATION] = text

    @contextlib.contextmanager
    def away(self) -> Generator[None]:
        self.fake.is_away = True
        yield
        self.fake.is_away = False


class ConsulBench:
    """A fake of Consul's agent with its keys."""

    def __init__(self, fake: FakeConsulKeys) -> None:
        self.fake = fake

    def settings(self, group: str = "web", holders: int = 1) -> LockSettings:
        return LockSettings(
            kind="consul",
            url=self.fake.url,
            group=group,
            holders=holders,
            timeout=5 * SECOND,
        )

    def holders(self, group: str = "web") -> set[str]:
        _, value = self.fake.keys.get(f"forewarn/locks/{group}", (0, b""))
        now = SystemClock().now() + round(self.fake.ahead * SECOND)
        return valid(value.decode(), now)

    def past(self, group: str = "web") -> list[tuple[Micros, frozenset[str]]]:
        return [
            (at, listed(value.decode()))
            for at, key, value in tuple(self.fake.past)
            if key == f"forewarn/locks/{group}"
        ]

    def let_expire(self, group: str = "web") -> None:
        self.fake.ahead += 2 * HOUR / SECOND

    def damage(self, text: str, group: str = "web") -> None:
        self.fake.index += 1
        self.fake.keys[f"forewarn/locks/{group}"] = self.fake.index, text.encode()

    @contextlib.contextmanager
    def away(self) -> Generator[None]:
        self.fake.end()
        yield
        self.fake.begin()


class DirectoryBench:
    """A directory, on a file system of this machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "locks"
        self.directory.mkdir(exist_ok=True)
        (self.directory / MARKER).touch()

    def settings(self, group: str = "web", holders: int = 1) -> LockSettings:
        return LockSettings(
            kind="directory",
            path=str(self.directory),
            group=group,
            holders=holders,
            timeout=5 * SECOND,
        )

    def states(self, group: str = "web") -> list[Path]:
        return sorted(self.directory.glob(f"{group}.*"))

    def holders(self, group: str = "web") -> set[str]:
        # A file may be removed while the directory is listed.
        states = self.states(group)
        return valid(states[-1].read_text(), SystemClock().now()) if states else set()

    def past(self, group: str = "web") -> list[tuple[Micros, frozenset[str]]]:
        # The states themselves: in a test none is so old that it is removed.
        return [
            (state.stat().st_mtime_ns // 1_000, listed(state.read_text()))
            for state in self.states(group)
        ]

    def let_expire(self, group: str = "web") -> None:
        newest = self.states(group)[-1]
        document = json.loads(newest.read_text())
        for holder in document["holders"].values():
            holder["until"] = holder["since"]
        newest.write_text(json.dumps(document))

    def damage(self, text: str, group: str = "web") -> None:
        self.states(group)[-1].write_text(text)

    @contextlib.contextmanager
    def away(self) -> Generator[None]:
        gone = self.directory.with_name("gone")
        self.directory.rename(gone)
        yield
        gone.rename(self.directory)


class Ahead(SystemClock):
    """The clock of another machine, which may be ahead."""

    def __init__(self) -> None:
        self.ahead: Micros = 0

    def now(self) -> Micros:
        return super().now() + self.ahead


def valid(text: str, now: Micros) -> set[str]:
    """Return who holds a lock by the text of its list: read by other code than ours."""
    if not text:
        return set()
    return {
        name
        for name, holder in json.loads(text)["holders"].items()
        if parse_instant(holder["until"]) > now
    }


def listed(text: str) -> frozenset[str]:
    """Return who is in a list, whether expired or not."""
    return frozenset(json.loads(text)["holders"])


@contextlib.contextmanager
def bench_of(kind: str, directory: Path) -> Generator[Bench]:
    """Have what keeps a lock of a kind be there for as long as the block takes."""
    if kind == "fleetlock":
        with FakeFleetLock() as fake:
            yield FleetLockBench(fake)
    elif kind == "kubernetes":
        clock = Ahead()
        with serving(clock) as cluster:
            yield KubernetesBench(cluster, directory, clock)
    elif kind == "consul":
        with FakeConsulKeys() as consul:
            yield ConsulBench(consul)
    else:
        yield DirectoryBench(directory)
