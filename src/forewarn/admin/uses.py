"""The last use of each token, stored once an hour in the background."""

import asyncio
import logging

from forewarn.admin import limits
from forewarn.admin.access import Caller
from forewarn.admin.decisions import Decision, Use
from forewarn.control import tokens
from forewarn.control.gateway import OperatorGateway
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store.records import Token

logger = logging.getLogger("forewarn.admin")


class Uses:
    """Stores the use of tokens. No request waits for this, or fails because of it."""

    def __init__(self) -> None:
        """Begin without tasks."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def note(self, gateway: OperatorGateway, token: Token, *, now: Micros) -> None:
        """Store the use of a token, if an hour has passed since the last stored use."""
        if (
            not tokens.is_use_due(token, now=now)
            or token.token_id in self._tasks
            or len(self._tasks) >= limits.USES_MAX
        ):
            return
        task = asyncio.create_task(_store(gateway, Caller.of_token(token)))
        self._tasks[token.token_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(token.token_id))


async def _store(gateway: OperatorGateway, caller: Caller) -> None:
    order = Decision(name="use", body=Use(), caller=caller)
    try:
        await gateway.order(order.who, order)
    except ForewarnError as error:
        # The next request with this token tries to store it again.
        logger.debug("the use of %s is not stored: %s", caller.token_id, error.message)
