"""A driver that connects to hosts gets those of the fleet."""

from collections.abc import Collection, Mapping, Sequence

from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Host
from forewarn.service.observed import Change, Changes
from forewarn.service.watched_hosts import WatchedHosts
from forewarn.store.memory import MemoryStore


class Watching(SimulatedDriver):
    """A driver that connects to hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[set[str]] = []

    def watch_hosts(self, hosts: Collection[str]) -> None:
        self.told.append(set(hosts))

    def troubles(self) -> Sequence[str]:
        return ("h1 cannot be reached",)

    def unreachable(self) -> Mapping[str, str]:
        return {"h1": "h1 cannot be reached"}


H1, H2 = Host(name="h1"), Host(name="h2")


def test_driver_is_told_the_hosts_and_their_changes() -> None:
    store, driver, watched = MemoryStore(), Watching(), WatchedHosts()
    store.transact(lambda tx: tx.add(H1))
    watched.attach(driver, store)
    watched.committed(Changes(Change(None, H2)))
    watched.committed(Changes(Change(H2, H2)))
    watched.committed(Changes(Change(H1, None)))
    assert driver.told == [{"h1"}, {"h1", "h2"}, {"h2"}]
    assert watched.troubles() == ("h1 cannot be reached",)
    assert watched.unreachable() == {"h1": "h1 cannot be reached"}


def test_driver_without_connections_is_told_nothing() -> None:
    watched = WatchedHosts()
    watched.attach(SimulatedDriver(), MemoryStore())
    watched.committed(Changes(Change(None, H1)))
    assert watched.troubles() == ()
    assert watched.unreachable() == {}
