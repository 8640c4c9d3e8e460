"""The last use of tokens, which is stored once an hour for each of them.

No request waits until its use is stored, or fails because of it. A transaction stores the
uses of all tokens that are due by then. The relays of all hosts have a token each, and
after an absence of the service they come back within seconds.
"""

import asyncio
import logging
from itertools import islice

from forewarn.admin import limits
from forewarn.admin.access import Caller
from forewarn.admin.decisions import Decision
from forewarn.admin.session_bodies import TokenUses
from forewarn.control import tokens
from forewarn.control.gateway import OperatorGateway
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store.records import Token
from forewarn.verbs.roles import READ_ONLY

logger = logging.getLogger("forewarn.admin")

_API = Caller(name="service", roles=READ_ONLY)
"""The operator API itself, since the holder of a token has not asked for this."""


class TokenUsage:
    """The uses of tokens that are not stored yet."""

    def __init__(self) -> None:
        """Begin with none."""
        self._due: dict[str, None] = {}
        """The IDs of the tokens, in the order of their use."""
        self._storing: asyncio.Task[None] | None = None

    def note(self, gateway: OperatorGateway, token: Token, *, now: Micros) -> None:
        """Store the use of a token soon, if an hour has passed since the last stored one.

        The first use is stored at once, and those of the next second together.
        """
        if not tokens.is_use_due(token, now=now) or len(self._due) >= limits.USES_MAX:
            return
        self._due[token.token_id] = None
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store_all(gateway))

    async def _store_all(self, gateway: OperatorGateway) -> None:
        while self._due:
            some = [*islice(self._due, limits.USES_TOGETHER_MAX)]
            await _store(gateway, some)
            for token_id in some:
                del self._due[token_id]
            await asyncio.sleep(limits.USES_PAUSE_SECONDS)


async def _store(gateway: OperatorGateway, token_ids: list[str]) -> None:
    order = Decision(name="uses", body=TokenUses(token_ids=token_ids), caller=_API)
    try:
        await gateway.order(order.who, order)
    except ForewarnError as error:
        # The next request with such a token tries to store it again.
        logger.debug("the uses of tokens are not stored: %s", error.message)
