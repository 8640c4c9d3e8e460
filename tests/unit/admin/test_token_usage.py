"""The uses of many tokens, which few transactions store."""

import asyncio
from collections.abc import Callable
from typing import Any

from forewarn.admin.identity import Identity
from forewarn.admin.throttle import Throttle
from forewarn.control import tokens
from forewarn.control.transactions.work import Who, Work
from forewarn.protocol.actors import operator
from forewarn.store import kinds
from forewarn.store.port import every
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.relays import PATIENCE_SECONDS

RELAYS = 1_000

FLEET = "\n".join(f'[[host]]\nname = "h{number}"' for number in range(RELAYS))

SECRET = "0" * 64


class CountingGateway(LocalGateway):
    """A gateway whose transactions wait until they are allowed, and are counted."""

    def __init__(self) -> None:
        super().__init__(FLEET)
        self.orders = 0
        self.is_allowed = asyncio.Event()
        self.is_stored = asyncio.Event()
        self.tokens = self.plane.order(
            Who(actor=operator("test")), _a_token_for_each_host, now=self.now()
        )

    async def order(self, who: Who, decide: Callable[[Work], Any]) -> Any:
        self.orders += 1
        await self.is_allowed.wait()
        result = await super().order(who, decide)
        self.is_stored.set()
        return result

    def uses(self) -> list[int]:
        """Return when each token was last used, in ascending order."""
        return self.store.read(
            lambda reader: sorted(
                token.last_used_at for token in every(reader, kinds.ALL_TOKENS)
            )
        )


def _a_token_for_each_host(work: Work) -> list[str]:
    return [
        tokens.text_of(
            tokens.create(
                work,
                name="",
                tenant="",
                roles=(),
                lifetime=None,
                secret_digest=tokens.digest(SECRET),
                relay=f"h{number}",
            ),
            SECRET,
        )
        for number in range(RELAYS)
    ]


async def _return_of_all(gateway: CountingGateway) -> list[int]:
    """Let all relays come back, an hour after their last use.

    Return the number of transactions after each of three returns.
    """
    identity = Identity(None, throttle=Throttle(lambda: 0.0), is_local_operator=None)

    async def come(text: str) -> None:
        assert await identity.of_token(gateway, text, source="192.0.2.1")

    async def until_all_are_stored() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while gateway.uses()[0] != gateway.now():
                gateway.is_stored.clear()
                await gateway.is_stored.wait()

    counts: list[int] = []
    # All at once.
    gateway.is_allowed.set()
    await asyncio.gather(*map(come, gateway.tokens))
    await until_all_are_stored()
    counts.append(gateway.orders)
    # The others while the use of the first one is being stored.
    gateway.clock.advance_to(gateway.now() + tokens.USE_STEP)
    gateway.is_allowed.clear()
    for text in gateway.tokens:
        await come(text)
        await asyncio.sleep(0)
    gateway.is_allowed.set()
    await until_all_are_stored()
    counts.append(gateway.orders)
    # Within the hour.
    await asyncio.gather(*map(come, gateway.tokens))
    await asyncio.sleep(0)
    counts.append(gateway.orders)
    return counts


def test_uses_of_a_thousand_relays_take_one_transaction_or_two() -> None:
    gateway = CountingGateway()
    assert asyncio.run(_return_of_all(gateway)) == [1, 3, 3]
    assert gateway.uses() == [gateway.now()] * RELAYS
