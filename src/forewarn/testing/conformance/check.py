"""The two kinds of checks, their verdicts (passed, failed, not tried) and their evidence.

Questions send requests; rules judge recorded answers. A witness is one observation, with
the exchanges in which it was made. A check passes only if a witness shows that the
endpoint follows the clause. It fails only if a witness shows a violation. Without
witnesses it is not tried, and the verdict says what the check needs. The constructors
reject all other combinations.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.testing.conformance.documents import Exchange
from forewarn.testing.conformance.inquiry import Inquiry
from forewarn.testing.conformance.transcript import Transcript

WITNESSES_MAX = 8
"""Maximum number of witnesses that a verdict keeps: one for each api-version and one
more. The verdict only counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One observation of an endpoint."""

    saw: str
    """Short description of the observation."""
    exchanges: tuple[Exchange, ...]
    """The exchanges that show it: one, or a pair of which the second shows a change."""
    complaint: str = ""
    """Description of the violation. Empty: the endpoint follows the clause."""
    remark: str = ""
    """Note for the reader about something unusual that is not a violation."""

    def __post_init__(self) -> None:
        """Raise ValueError if there is no exchange."""
        if not self.exchanges:
            raise ValueError(f"a witness needs an exchange: {self.saw}")


def against(complaint: str, *exchanges: Exchange) -> Witness:
    """Return a witness of a violation."""
    return Witness(saw=complaint, exchanges=exchanges, complaint=complaint)


def judged(saw: str, *exchanges: Exchange, is_right: bool, wrong: str) -> Witness:
    """Return a witness; unless `is_right`, of the violation that `wrong` describes."""
    return Witness(saw=saw, exchanges=exchanges, complaint="" if is_right else wrong)


def has_status(exchange: Exchange, status: int, request: str) -> Witness:
    """Return a witness of an answer; a status other than `status` is a violation."""
    return judged(
        f"{request}: {exchange.status}",
        exchange,
        is_right=exchange.status == status,
        wrong=f"{request}: expected {status}, got {exchange.outcome}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The endpoint followed the clause in every observation; there was at least one."""

    witnesses: tuple[Witness, ...]
    """The first witnesses, at most WITNESSES_MAX."""
    count: int
    """Number of all witnesses."""

    def __post_init__(self) -> None:
        """Raise ValueError if there is no witness, or one of a violation."""
        if not self.witnesses or self.count < len(self.witnesses):
            raise ValueError("a passed check needs a witness")
        if any(witness.complaint for witness in self.witnesses):
            raise ValueError("a passed check cannot have a witness of a violation")

    @property
    def remark(self) -> str:
        """Return the first remark; empty if there is none."""
        return next(
            (witness.remark for witness in self.witnesses if witness.remark), ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The endpoint violated the clause."""

    witness: Witness

    def __post_init__(self) -> None:
        """Raise ValueError if the witness has no complaint."""
        if not self.witness.complaint:
            raise ValueError("a failed check needs a complaint")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTried:
    """Nothing that the clause describes was observed."""

    needs: str
    """The observation that the check needs, such as "a Terminate event"."""

    def __post_init__(self) -> None:
        """Raise ValueError if the need is empty."""
        if not self.needs:
            raise ValueError("a check that was not tried must name what it needs")


Verdict: TypeAlias = Passed | Failed | NotTried


def judge(witnesses: Iterable[Witness], *, needs: str) -> Verdict:
    """Return the verdict on some witnesses; `needs` names the condition for having any.

    The first complaint decides. Later witnesses are not produced, so a question sends
    no more requests.
    """
    shown: list[Witness] = []
    remarkable: Witness | None = None
    count = 0
    for witness in witnesses:
        if witness.complaint:
            return Failed(witness=witness)
        count += 1
        if len(shown) < WITNESSES_MAX:
            shown.append(witness)
        if witness.remark and remarkable is None:
            remarkable = witness
    if not shown:
        return NotTried(needs=needs)
    if remarkable is not None and remarkable not in shown:
        shown[-1] = remarkable
    return Passed(witnesses=tuple(shown), count=count)


@dataclass(frozen=True, slots=True)
class Question:
    """A check that sends requests and judges the answers."""

    clause: str
    title: str
    """Short description of an endpoint that follows the clause."""
    witnesses: Callable[[Inquiry], Iterable[Witness]]
    """Sends the requests and yields witnesses; raises UntriedError or NoAnswerError."""
    needs: str = "nothing but an endpoint"
    """Condition that was missing if the check yields no witness."""
    approves: bool = False
    """Whether it approves an event, or could do so at a faulty endpoint. Such a check
    needs the user's consent."""
    waits: bool = False
    """Whether to read the document again after a pause. A faulty endpoint may start an
    event although it refused the approval; a rule looks for that."""

    def ask(self, inquiry: Inquiry) -> Verdict:
        """Send the requests and return the verdict.

        Raises UntriedError or NoAnswerError.
        """
        verdict = judge(self.witnesses(inquiry), needs=self.needs)
        if self.waits:
            inquiry.wait()
            inquiry.read()
        return verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """A check that judges all recorded answers, whichever check requested them."""

    clause: str
    title: str
    witnesses: Callable[[Transcript], Iterable[Witness]]
    needs: str

    def judge(self, transcript: Transcript) -> Verdict:
        """Return the verdict on a transcript."""
        return judge(self.witnesses(transcript), needs=self.needs)


Check: TypeAlias = Question | Rule
