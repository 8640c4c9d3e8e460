"""An interceptor without faults changes no byte."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from forewarn.clock import VirtualClock
from forewarn.metadata.hub import Hub
from forewarn.metadata.limits import Limits
from forewarn.metadata.waiting import Waits
from forewarn.sim.deviations import Inspector
from forewarn.sim.faults.player import Player
from forewarn.sim.front import Front
from forewarn.sim.journal import Journal
from tests.fuzz import grammar
from tests.fuzz.talk import Talk
from tests.unit.metadata.support import GET, NOW, FakeGateway, make_endpoint

pytestmark = pytest.mark.slow

STREAMS = 1_000


def make_hub(*, pushes: bool) -> Hub:
    endpoint = make_endpoint(waits=Waits(longest_seconds=60 if pushes else 0))
    return Hub(
        endpoint=endpoint,
        gateway=FakeGateway(endpoint),
        clock=VirtualClock(NOW),
        bounds=Limits(),
    )


def make_fronted_hub(*, pushes: bool) -> tuple[Hub, Journal]:
    endpoint = make_endpoint(waits=Waits(longest_seconds=60 if pushes else 0))
    journal = Journal()
    front = Front(
        faults=Player(now=lambda: NOW),
        journal=journal,
        inspector=Inspector(
            route=lambda request: endpoint.route(request, signed=False),
            event=lambda _event_id: None,
        ),
        now=lambda: NOW,
    )
    hub = Hub(
        endpoint=endpoint,
        gateway=FakeGateway(endpoint),
        clock=VirtualClock(NOW),
        bounds=Limits(),
        interceptor=front,
    )
    return hub, journal


def stream(rng: Random) -> bytes:
    wires = [grammar.wire(rng, grammar.ask(rng)) for _ in range(rng.choice((1, 3, 9)))]
    whole = b"".join(wires)
    match rng.randrange(5):
        case 0:
            return grammar.mutated(rng, whole)
        case 1:
            return grammar.hostile(rng)
        case 2:
            return GET * rng.randrange(1, 6)
        case _:
            return whole


async def told(hub: Hub, pieces: Sequence[bytes], *, chokes: bool) -> bytes:
    conversation = Talk(hub, chokes=chokes)
    await conversation.send(pieces)
    return await conversation.end()


@pytest.mark.parametrize("pushes", [False, True])
def test_interceptor_without_faults_changes_no_byte(
    pushes: bool, fuzz_seed: int
) -> None:
    async def story() -> None:
        plain = make_hub(pushes=pushes)
        fronted, journal = make_fronted_hub(pushes=pushes)
        for number in range(STREAMS):
            rng = Random(f"{fuzz_seed}-{pushes}-{number}")
            sent = stream(rng)
            pieces = grammar.cuts(rng, sent) if rng.random() < 0.5 else [sent]
            if rng.random() < 0.1:
                # A poller's answer stands from its third request on.
                pieces = [GET] * rng.randrange(1, 9) + pieces
            chokes = rng.random() < 0.2
            wanted = await told(plain, pieces, chokes=chokes)
            responses = await told(fronted, pieces, chokes=chokes)
            assert responses == wanted, sent
        counted = sum(fronted.endpoint.counters.responses.values())
        assert fronted.endpoint.counters.responses == plain.endpoint.counters.responses
        assert journal.last == counted, "each answer is in the journal, once"
        assert fronted.open == 0
        assert not fronted.connections

    asyncio.run(story())
