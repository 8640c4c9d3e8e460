"""Requests with an `Idempotency-Key`: each is carried out once, even if it is repeated.

The key is stored in the transaction that carries out the request. A crash before the
commit leaves neither, and the repeated request is carried out. A crash after the commit
leaves both, and the repeated request gets the first result. A refused request stores no
key, because it changed nothing: a repeated one is decided again.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from forewarn.control.transactions.work import Work
from forewarn.instants import DAY, Micros
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.store.port import Reader
from forewarn.store.records import OrderKey

T = TypeVar("T")

KEPT_FOR = DAY
"""Time for which a key is stored. A client that retries for longer must check the state
first. A shorter retention ends keys sooner."""


class KeyReusedError(RefusedError):
    """The caller used this key for another request."""


class RepeatedError(ForewarnError):
    """The request was carried out before; `result` has its result."""

    def __init__(self, result: "Result") -> None:
        """Keep the first result."""
        super().__init__("this request was carried out before")
        self.result = result


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """A request that can be repeated: its caller, key and digest."""

    caller: str
    key: str
    digest: str
    """SHA-256 of the request, in hexadecimal."""

    @property
    def key_id(self) -> str:
        """Return the ID of the stored key."""
        # The length keeps ("ab", "c") and ("a", "bc") apart.
        return hashlib.sha256(
            f"{len(self.caller)}:{self.caller}{self.key}".encode()
        ).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a request."""

    value: Any
    """JSON."""
    is_repeated: bool = False
    """Whether it is from an earlier request with the same key; this one changed nothing."""


def carry_out(work: Work, once: Once | None, decide: Callable[[Work], Any]) -> Result:
    """Run `decide`, unless it ran with this key before; return its JSON value.

    Raises KeyReusedError if the key belongs to another request, and the errors of
    `decide`.
    """
    if once is None:
        return Result(value=decide(work))
    earlier = earlier_result(work.tx, once, now=work.now)
    if earlier is not None:
        return earlier
    value = decide(work)
    stored = work.tx.get(OrderKey, once.key_id)
    if stored is not None:
        work.tx.remove(stored)
    work.tx.add(
        OrderKey(
            key_id=once.key_id,
            caller=once.caller,
            digest=once.digest,
            result=json.dumps(value, separators=(",", ":")),
            created_at=work.now,
            expires_at=work.now + min(KEPT_FOR, work.policy.retention),
        )
    )
    return Result(value=value)


def earlier_result(reader: Reader, once: Once | None, *, now: Micros) -> Result | None:
    """Return the result of an earlier request with this key; None: there is none.

    Raises KeyReusedError if the key belongs to another request.
    """
    stored = None if once is None else reader.get(OrderKey, once.key_id)
    if once is None or stored is None or stored.expires_at <= now:
        return None
    if stored.digest != once.digest:
        raise KeyReusedError(
            "this Idempotency-Key was used for another request in the last 24 hours",
            hint="Send a new key with a new request. Repeat a request unchanged.",
        )
    return Result(value=json.loads(stored.result), is_repeated=True)


def first_time(
    work: Work,
    once: Once | None,
    decide: Callable[[Work], T],
    *,
    describe: Callable[[T], Any],
) -> T:
    """Return the result of `decide`; store the JSON value that `describe` returns for it.

    Raises RepeatedError if `decide` ran with this key before.
    """
    results: list[T] = []

    def deciding(work: Work) -> Any:
        results[:] = [decide(work)]
        return describe(results[0])

    result = carry_out(work, once, deciding)
    if result.is_repeated:
        raise RepeatedError(result)
    return results[0]
