"""Clients that are many, idle or slow do not slow the others.

A real process serves, so that it and its clients each have files enough.
"""

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forewarn.clock import SystemClock
from tests.support.processes import Serving
from tests.unit.metadata.support import GET

pytestmark = [pytest.mark.system, pytest.mark.slow]

FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
address = "127.0.0.1"
"""

SLOW = 40
"""Clients that send single bytes, in addition to the idle ones."""

ASKED = 400
"""Requests of the one that must not suffer."""

PER_ADDRESS = 200
"""Connections from one address: the server takes 256."""

SPARE_FILES = 200

LIMIT_SECONDS = 1.0
"""Maximum time for all requests of a client, in addition to five times its time alone:
far above the noise of a busy machine, and far below the cost of waiting for others."""


@pytest.fixture
def files(fuzz_connections: int) -> Iterator[None]:
    """Raise the limit of open files as far as the test needs, for both processes."""
    needed = fuzz_connections + SLOW + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"the hard limit of open files is {hard}; it needs {needed}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _ask(address: tuple[str, int]) -> float:
    """Return how long a poller's requests take."""
    reader, writer = await asyncio.open_connection(*address)
    clock = SystemClock()
    began = clock.monotonic()
    for _ in range(ASKED):
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0])
        await reader.readexactly(length)
    writer.close()
    return clock.monotonic() - began


async def _dribble(writer: asyncio.StreamWriter) -> None:
    for byte in GET * 1000:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.02)


async def _crowd(address: tuple[str, int], count: int) -> list[asyncio.StreamWriter]:
    writers: list[asyncio.StreamWriter] = []
    for number in range(count):
        source = f"127.9.{number // PER_ADDRESS // 250}.{number // PER_ADDRESS % 250}"
        _, writer = await asyncio.open_connection(*address, local_addr=(source, 0))
        writers.append(writer)
    return writers


async def _story(address: tuple[str, int], idle: int) -> tuple[float, float]:
    alone = await _ask(address)
    writers = await _crowd(address, idle + SLOW)
    dribbling = [asyncio.create_task(_dribble(writer)) for writer in writers[:SLOW]]
    crowded = await _ask(address)
    assert not any(writer.is_closing() for writer in writers[SLOW:])
    for task in dribbling:
        task.cancel()
    await asyncio.gather(*dribbling, return_exceptions=True)
    for writer in writers:
        writer.close()
    return alone, crowded


@pytest.mark.usefixtures("files")
def test_idle_and_slow_clients_do_not_slow_the_others(
    tmp_path: Path, fuzz_connections: int
) -> None:
    service = Serving(
        tmp_path, FLEET, metadata_listen="127.0.0.1:0", metadata_rate_limit="0"
    )
    try:
        url = urlsplit(service.wait_ready().urls["VMs by source address"])
        address = url.hostname or "", url.port or 0
        alone, crowded = asyncio.run(_story(address, fuzz_connections))
        assert crowded < 5 * alone + LIMIT_SECONDS
    finally:
        assert service.terminate() == 0
    assert "Traceback" not in service.log()
