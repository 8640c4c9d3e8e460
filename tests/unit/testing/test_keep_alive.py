"""Tests that requests on a persistent connection are counted like others."""

import socket
from concurrent.futures import ThreadPoolExecutor

from forewarn.testing import JournalEntry, ScheduledEvents, Vm

GET = (
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
    b"Host: x\r\nMetadata: true\r\n\r\n"
)

WAITED_FOR = 3


def ask_until_waited(vm: Vm) -> tuple[list[JournalEntry], list[JournalEntry]]:
    """Send requests on one connection during a wait; return its result and all requests."""
    host, port = vm.url.removeprefix("http://").split(":")
    with (
        socket.create_connection((host, int(port)), 5) as wire,
        wire.makefile("rb") as answers,
        ThreadPoolExecutor(1) as pool,
    ):

        def ask() -> None:
            wire.sendall(GET)
            length = 0
            while (line := answers.readline()) != b"\r\n":
                name, _, value = line.partition(b": ")
                length = int(value) if name == b"Content-Length" else length
            answers.read(length)

        for _ in range(4):
            # From the third request on, the cached answer is used.
            ask()
        waiting = pool.submit(vm.wait_for_requests, WAITED_FOR)
        while not waiting.done():
            ask()
    return waiting.result(), vm.requests


def test_each_request_on_one_connection_is_counted() -> None:
    with ScheduledEvents() as world:
        waited, found = ask_until_waited(world.vm("web_0"))
    assert len(waited) >= WAITED_FOR
    first = found[0].number
    assert [seen.number for seen in found] == [*range(first, first + len(found))]
    assert [seen.at for seen in found] == sorted(seen.at for seen in found)
    assert {seen.status for seen in found} == {200}
