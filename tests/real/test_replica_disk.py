"""Two replicas under load, while the disk of their database is full.

PostgreSQL refuses writes that need room for data, and continues. If its write-ahead log has
no room, it ends with PANIC, and does not start before there is room again.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.real.test_replica_faults import (
    GAP_SECONDS,
    LOAD_SECONDS,
    LONG_SECONDS,
    loaded,
    pause,
    place,
)
from tests.support.postgres_places import Server, url_of
from tests.support.postgres_server import give
from tests.support.processes import eventually, http
from tests.support.small_disks import SmallDisk, no_disk
from tests.support.unpacked import needing
from tests.system.replica_pair import Pair

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.system,
    needing("postgres", "initdb"),
]

__all__ = ["place"]

DISK_MEBIBYTES = 192
"""A new server has 40 MiB and a log of 16 MiB; the load writes some more."""


@pytest.fixture
def disk(place: Path) -> Iterator[SmallDisk]:
    if why := no_disk(place):
        pytest.skip(why)
    small_disk = SmallDisk(place / "disk", DISK_MEBIBYTES)
    small_disk.begin()
    yield small_disk
    small_disk.end()


@pytest.fixture
def server(disk: SmallDisk, place: Path) -> Iterator[Server]:
    # A message that says why it ended needs room too, so its messages go to another disk.
    new_server = Server(disk.directory / "server", place / "messages", fsync="on")
    new_server.make()
    yield new_server
    new_server.stop()


def ordered(pair: Pair) -> tuple[int, Any]:
    """Return what the leader answers to an order that changes nothing for VMs."""
    if not (leader := pair.leader()):
        return 0, None
    url = f"http://{pair.places[leader].admin}/v1/tokens"
    return http(url, {"name": f"disk-{len(pair.journal())}", "expires_in": "1h"})


def messages_after_filling(server: Server) -> str:
    """Write more to the log of the database than its disk has; return its messages."""
    with suppress(psycopg.Error):
        for _ in range(DISK_MEBIBYTES):
            server.run("SELECT pg_logical_emit_message(true, '', repeat('x', 1048576))")
    return server.log.read_text("utf-8")


def test_full_disk_refuses_what_it_cannot_keep(
    server: Server, disk: SmallDisk, place: Path, tmp_path: Path
) -> None:
    # The log is on another disk.
    log = server.directory / "data" / "pg_wal"
    shutil.move(log, place / "log")
    log.symlink_to(place / "log")
    for path in (place / "log", *(place / "log").rglob("*")):
        give(path)
    server.start()
    with loaded(Pair(url_of([server]), tmp_path / "pair", 1)) as pair:
        leader = eventually(pair.leader, bool)
        disk.fill()
        _status, answer = eventually(lambda: ordered(pair), lambda got: got[0] == 503)
        assert answer["error"] == "the store cannot be written: its disk is full"
        assert answer["hint"].startswith("Free some space on the disk of the database.")
        pause(LONG_SECONDS)
        disk.free()
        before = pair.approvals()
        eventually(pair.approvals, lambda count: count > before, what="an approval")
        assert pair.leader() == leader, "the leader has kept its lease"
    assert pair.told["longest"] < GAP_SECONDS


@pytest.mark.long
def test_full_log_ends_the_database_and_no_replica(
    server: Server, disk: SmallDisk, tmp_path: Path
) -> None:
    server.start()
    with loaded(Pair(url_of([server]), tmp_path / "pair", 1)) as pair:
        disk.fill()
        eventually(lambda: messages_after_filling(server), lambda text: "PANIC" in text)
        pause(LONG_SECONDS)
        disk.free()
        server.stop()
        server.start()
        before = pair.approvals()
        eventually(pair.approvals, lambda count: count > before, what="an approval")
        pause(LOAD_SECONDS)
