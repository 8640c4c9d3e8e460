"""The actor of a transaction."""

from dataclasses import dataclass

from forewarn.protocol import actors
from forewarn.protocol.actors import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """The actor of a transaction, and its reason."""

    actor: Actor
    reason: str = ""
    is_dry_run: bool = False
    """Whether the transaction is rolled back, and must leave nothing to do."""


CLOCK = Who(actor=actors.CLOCK)
DRIVER = Who(actor=actors.DRIVER)
