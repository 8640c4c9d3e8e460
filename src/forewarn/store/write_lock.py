"""Writers take turns: what every store's `transact` has in common."""

import threading
from collections.abc import Callable
from typing import TypeVar

from forewarn.store.port import TRANSACTION_ATTEMPTS, ConflictError

T = TypeVar("T")


class WriteLock:
    """Lets one writer at a time work, and again if it met another."""

    def __init__(self) -> None:
        """Nobody writes yet."""
        self._lock = threading.RLock()
        self._is_taken = False

    def take(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns; run it again after ConflictError.

        It need not wait between attempts: writers of this process wait here,
        and the few others are waited for by the store.
        """
        with self._lock:
            # The lock lets its holder pass, so this finds the nesting, which
            # would otherwise wait for itself.
            assert not self._is_taken, "a transaction does not begin inside another"
            self._is_taken = True
            try:
                for _ in range(TRANSACTION_ATTEMPTS - 1):
                    try:
                        return attempt()
                    except ConflictError:
                        continue
                return attempt()
            finally:
                self._is_taken = False
