"""What comes of a check: kept, broken or not tried, and what that rests on.

A witness is something that was seen, with the exchanges in which it was seen.
A clause is kept only if there is a witness of it, and broken only if there is a
witness against it. Without witnesses it is not tried, and the verdict says what
would be needed. No verdict can be made in another way.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.testing.conformance.exchanges import Exchange

WITNESSES_MAX = 8
"""Maximum number of witnesses that a verdict keeps, one for each api-version and one
more. It counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Something that was seen."""

    saw: str
    """What it was, in a few words."""
    exchanges: tuple[Exchange, ...]
    """Where it was seen: one, or a pair of which the second shows the change."""
    complaint: str = ""
    """What is wrong with it; empty: it is as the clause says."""
    remark: str = ""
    """What a reader should know although it breaks nothing."""

    def __post_init__(self) -> None:
        """Raise ValueError where nothing was seen."""
        if not self.exchanges:
            raise ValueError(f"a witness needs an exchange: {self.saw}")


def against(complaint: str, *exchanges: Exchange) -> Witness:
    """Return a witness of something that no endpoint may do."""
    return Witness(saw=complaint, exchanges=exchanges, complaint=complaint)


def has_status(exchange: Exchange, status: int, what: str) -> Witness:
    """Return a witness of an answer, which should have a status."""
    wrong = f"{what}: expected {status}, got {exchange.outcome}"
    return Witness(
        saw=f"{what}: {exchange.status}",
        exchanges=(exchange,),
        complaint="" if exchange.status == status else wrong,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Every witness is as the clause says, and there is one at least."""

    witnesses: tuple[Witness, ...]
    """The first of them."""
    count: int
    """How many there were."""

    def __post_init__(self) -> None:
        """Raise ValueError without a witness, or with one against it."""
        if not self.witnesses or self.count < len(self.witnesses):
            raise ValueError("nothing is kept without a witness")
        if any(each.complaint for each in self.witnesses):
            raise ValueError("nothing is kept with a witness against it")

    @property
    def remark(self) -> str:
        """Return what a reader should know, or nothing."""
        return next((each.remark for each in self.witnesses if each.remark), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A witness is against it."""

    witness: Witness

    def __post_init__(self) -> None:
        """Raise ValueError where the witness complains of nothing."""
        if not self.witness.complaint:
            raise ValueError("nothing is broken without a complaint")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTried:
    """What the clause is about was not there to be seen."""

    needs: str
    """What would be needed, as in "it needs a Terminate event"."""

    def __post_init__(self) -> None:
        """Raise ValueError where nobody could do anything about it."""
        if not self.needs:
            raise ValueError("what is not tried says what it needs")


Verdict: TypeAlias = Passed | Failed | NotTried


def judge(witnesses: Iterable[Witness], *, needs: str) -> Verdict:
    """Return the verdict of what was seen; `needs` is what would have to be.

    The first complaint decides, and no witness after it is looked at: where they
    come from requests, the rest is not asked.
    """
    kept: list[Witness] = []
    remarkable: Witness | None = None
    count = 0
    for witness in witnesses:
        if witness.complaint:
            return Failed(witness=witness)
        count += 1
        if len(kept) < WITNESSES_MAX:
            kept.append(witness)
        if witness.remark and remarkable is None:
            remarkable = witness
    if not kept:
        return NotTried(needs=needs)
    if remarkable is not None and remarkable not in kept:
        kept[-1] = remarkable
    return Passed(witnesses=tuple(kept), count=count)
