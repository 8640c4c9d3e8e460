"""Orders under an `Idempotency-Key`: carried out once, whoever repeats them.

The key is stored in the transaction that carries the order out. A crash before the
commit leaves neither, and the repeated order is carried out. A crash after it leaves
both, and the repeated order gets the first result. An order that was refused stores
no key, because it changed nothing: repeating it asks again.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from forewarn.control.transactions.work import Work
from forewarn.instants import DAY
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.store.order_key import OrderKey

T = TypeVar("T")

KEPT_FOR = DAY
"""How long a key names its order: a client that retries longer has been stopped and
started again, and looks first. A shorter retention ends keys sooner."""


class KeyReusedError(RefusedError):
    """The caller has used this key for another request."""


class RepeatedError(ForewarnError):
    """The order was carried out before, and `result` says what it made."""

    def __init__(self, result: "Result") -> None:
        """Keep the first result."""
        super().__init__("this order was carried out before")
        self.result = result


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """An order that may come again: who gives it, its key, and what it says."""

    caller: str
    key: str
    digest: str
    """SHA-256 of the request, in hexadecimal."""

    @property
    def key_id(self) -> str:
        """Return the ID of the stored key."""
        # The length keeps ("ab", "c") and ("a", "bc") apart.
        text = f"{len(self.caller)}:{self.caller}{self.key}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an order made."""

    value: Any
    """JSON."""
    is_repeated: bool = False
    """An earlier order with the same key made it; this one changed nothing."""


def carry_out(work: Work, once: Once | None, decide: Callable[[Work], Any]) -> Result:
    """Run `decide`, unless it ran under this key before; return its JSON value.

    Raises KeyReusedError where the key belongs to another request, and what `decide`
    raises.
    """
    if once is None:
        return Result(value=decide(work))
    kept = work.tx.get(OrderKey, once.key_id)
    if kept is not None and kept.expires_at > work.now:
        if kept.digest != once.digest:
            raise KeyReusedError(
                "this Idempotency-Key was used for another request in the last "
                "24 hours",
                hint="Send a new key with a new request. Repeat a request unchanged.",
            )
        return Result(value=json.loads(kept.result), is_repeated=True)
    value = decide(work)
    if kept is not None:
        work.tx.remove(kept)
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


def first_time(
    work: Work,
    once: Once | None,
    decide: Callable[[Work], T],
    *,
    describe: Callable[[T], Any],
) -> T:
    """Return what `decide` returns; keep the JSON value that `describe` makes of it.

    Raises RepeatedError where `decide` ran under this key before.
    """
    made: list[T] = []

    def deciding(work: Work) -> Any:
        made[:] = [decide(work)]
        return describe(made[0])

    result = carry_out(work, once, deciding)
    if result.is_repeated:
        raise RepeatedError(result)
    return made[0]
