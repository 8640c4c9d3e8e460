"""One request and what came of it: the evidence that verdicts rest on."""

from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.protocol.versions import NEWEST
from forewarn.testing.answers import How
from forewarn.testing.client import EVENTS_PATH, Answer, Headers

SHOWN_BYTES = 300
"""Maximum length of a body in a sentence: a document with an event or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request with its answer, or with the reason why there was none."""

    number: int
    """Exchanges of an examination are counted from 1, in their order."""
    at: Micros
    """When it was asked, by the clock of the one that asks."""
    took: Micros
    """From asking to the end of the answer."""
    method: str
    target: str
    headers: Headers
    body: bytes | None = None
    answer: Answer | None = None
    failure: str = ""
    """Why there is no answer."""
    broken: How | None = None
    """How an answer began that is no whole one."""
    received: bytes = b""
    """The beginning of what came, where it is no whole answer."""
    goes_on: bool = False
    """A 100 came, so that the body was sent (clause 1.12)."""

    @property
    def status(self) -> int:
        """Return the status of the answer; 0: there was none."""
        return 0 if self.answer is None else self.answer.status

    @property
    def payload(self) -> bytes:
        """Return the body of the answer; empty if there was no answer."""
        return b"" if self.answer is None else self.answer.body

    @property
    def outcome(self) -> str:
        """Return what came, for a sentence."""
        if self.answer is None:
            return f"no answer: {self.failure}"
        return f"{self.status} {shown(self.payload)}"

    def header(self, name: str) -> str | None:
        """Return the first value of a header of the answer, or None."""
        return None if self.answer is None else self.answer.header(name)


def shown(body: bytes) -> str:
    """Return a body for a sentence, cut where it is long."""
    if len(body) <= SHOWN_BYTES:
        return repr(body)
    return f"{body[:SHOWN_BYTES]!r}… ({len(body)} bytes)"


def target(version: str = NEWEST.name) -> str:
    """Return the target of scheduledevents with a version."""
    return f"{EVENTS_PATH}?api-version={version}"
