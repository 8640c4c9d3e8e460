"""Two replicas on one PostgreSQL, one of which leads."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.service import Service
from forewarn.cluster.times import LEASE

LEASE_SECONDS = LEASE


class Pair:
    """Two replicas, one of which leads."""

    def __init__(self, place: Path, url: str, fleet: str, more: dict[str, str]) -> None:
        self._place, self._fleet = place, fleet
        self._settings = {
            "store_url": url,
            "metadata_listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "metadata_rate_limit": "1000000",
            "driver_simulated_reboot": "1h",
            "log_format": "text",
            **more,
        }
        self._made = 0
        began = time.perf_counter()
        self.leader = self._new()
        self.loaded_after = time.perf_counter() - began
        """Seconds until the first one has loaded the fleet and leads."""
        began = time.perf_counter()
        self.follower = self._new()
        self.followed_after = time.perf_counter() - began
        """Seconds until the second one serves all documents."""

    def _new(self) -> Service:
        self._made += 1
        name = f"r{self._made}"
        settings = {**self._settings, "cluster_name": name}
        return Service(self._place / name, self._fleet, settings)

    def replace(self) -> None:
        """The other replica leads now; let a new one follow."""
        self.leader, self.follower = self.follower, self._new()

    def end(self) -> None:
        """Stop both."""
        self.follower.end()
        self.leader.end()


@contextmanager
def running(place: Path, url: str, fleet: str, **more: str) -> Generator[Pair]:
    """Start two replicas, with settings named as `timing_speed`."""
    place.mkdir()
    pair = Pair(place, url, fleet, more)
    try:
        yield pair
    finally:
        pair.end()
