"""The lock and the retries of every store's `transact`."""

import threading
from collections.abc import Callable
from typing import TypeVar

from forewarn.store.port import TRANSACTION_ATTEMPTS, ConflictError

T = TypeVar("T")


class WriteLock:
    """Serialize the writers in this process and retry on conflict."""

    def __init__(self) -> None:
        """Start unlocked."""
        self._lock = threading.RLock()
        self._is_taken = False

    def run(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns; run it again after ConflictError.

        It does not wait between attempts: writers of this process wait for the lock,
        and the store waits for the few others.
        """
        with self._lock:
            # The lock is reentrant, so this assertion finds a nested transaction,
            # which would otherwise wait for itself.
            assert not self._is_taken, "a transaction cannot begin inside another"
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
