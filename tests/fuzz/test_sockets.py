"""The same over real sockets: what the kernel does to the bytes changes nothing."""

import asyncio
import socket
from random import Random

import pytest

from tests.fuzz import grammar
from tests.fuzz.talk import STATUSES, answers_of, talk
from tests.fuzz.test_http import _told, make_hub, play
from tests.unit.metadata.support import GET, World, running

pytestmark = [pytest.mark.system, pytest.mark.slow]

SHARE = 40
"""One of so many requests goes over a socket."""

PATIENCE_SECONDS = 120.0


async def exchange(world: World, pieces: list[bytes]) -> bytes:
    """Send the pieces, each as a packet if it can be, and read to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    opened = writer.get_extra_info("socket")
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    output = asyncio.create_task(reader.read())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            writer.write_eof()
            return await output
    except OSError:
        # It closed while we sent: what it had told before is lost to us.
        return b""
    finally:
        writer.close()


def _stream(rng: Random) -> bytes:
    match rng.randrange(4):
        case 0:
            return grammar.hostile(rng)
        case 1:
            return grammar.noise(rng)
        case 2:
            return grammar.mutated(rng, grammar.wire(rng, grammar.ask(rng)))
        case _:
            asks = [grammar.ask(rng) for _ in range(rng.choice((1, 2, 5)))]
            return b"".join(grammar.wire(rng, ask) for ask in asks)


def test_socket_gives_the_same_answers_as_a_direct_call(
    fuzz_requests: int, fuzz_seed: int
) -> None:
    async def story() -> None:
        hub = make_hub()
        await talk(hub, [GET])
        async with running() as world:
            # The local VM is the other of the view; its first answer is in full.
            await exchange(world, [GET])
            for number in range(fuzz_requests // SHARE):
                rng = Random(f"socket-{fuzz_seed}-{number}")
                stream = _stream(rng)
                wanted = await talk(hub, [stream])
                received = await exchange(world, grammar.cuts(rng, stream))
                assert {answer.status for answer in answers_of(received)} <= STATUSES
                if received:
                    assert _told(received) == _told(wanted), (
                        f"case {fuzz_seed}-{number}: {stream!r}"
                    )

    play(story)
