"""Tells a driver that connects to hosts which hosts the fleet has."""

from collections.abc import Mapping, Sequence

from forewarn.drivers.port import Driver, HostWatcher
from forewarn.fleet.model import Host
from forewarn.service.observed import Changes, Listener
from forewarn.store import kinds
from forewarn.store.port import Store, every


class WatchedHosts(Listener):
    """The hosts of the fleet, for one driver."""

    def __init__(self) -> None:
        """Tell nothing until `attach`."""
        self._hosts: set[str] = set()
        self._driver: HostWatcher | None = None

    def attach(self, driver: Driver, store: Store) -> None:
        """Tell the driver the hosts now, and whenever they change."""
        if not isinstance(driver, HostWatcher):
            return
        self._driver = driver
        self._hosts = store.read(
            lambda reader: {host.name for host in every(reader, kinds.ALL_HOSTS)}
        )
        driver.watch_hosts(self._hosts)

    def committed(self, changes: Changes) -> None:
        """Tell the driver hosts that came or went."""
        if self._driver is None:
            return
        has_changed = False
        for before, after in changes.of(Host):
            if before is None and after is not None:
                self._hosts.add(after.name)
                has_changed = True
            elif before is not None and after is None:
                self._hosts.discard(before.name)
                has_changed = True
        if has_changed:
            self._driver.watch_hosts(frozenset(self._hosts))

    def troubles(self) -> Sequence[str]:
        """Return the driver's problems with hosts, for operators."""
        return () if self._driver is None else self._driver.troubles()

    def unreachable(self) -> Mapping[str, str]:
        """Return why the driver cannot reach hosts, for operators, by host."""
        return {} if self._driver is None else self._driver.unreachable()
