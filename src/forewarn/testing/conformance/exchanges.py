"""A request and its answer: the evidence for verdicts."""

from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.protocol.versions import NEWEST
from forewarn.testing.answers import How
from forewarn.testing.client import EVENTS_PATH, Answer, Headers

SHOWN_BYTES = 300
"""Maximum length of a body in a message, in bytes: a document with two events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request with its answer, or with the reason for a missing answer."""

    number: int
    """Position in the examination, from 1."""
    at: Micros
    """Time of the request, by the client's clock."""
    took: Micros
    """Time from the request to the end of the answer."""
    method: str
    target: str
    headers: Headers
    body: bytes | None = None
    answer: Answer | None = None
    failure: str = ""
    """Reason for a missing answer."""
    broken: How | None = None
    """Kind of defect, if an answer began but was not complete."""
    received: bytes = b""
    """First bytes of an incomplete answer."""
    goes_on: bool = False
    """Whether the server sent 100 (Continue), so the body followed (clause 1.12)."""

    @property
    def status(self) -> int:
        """Return the status of the answer; 0 if there was none."""
        return 0 if self.answer is None else self.answer.status

    @property
    def payload(self) -> bytes:
        """Return the body of the answer; empty if there was no answer."""
        return b"" if self.answer is None else self.answer.body

    @property
    def outcome(self) -> str:
        """Return the answer, or the reason for its absence, for a message."""
        if self.answer is None:
            return f"no answer: {self.failure}"
        return f"{self.status} {shown(self.payload)}"

    def header(self, name: str) -> str | None:
        """Return the first value of a header of the answer, or None."""
        return None if self.answer is None else self.answer.header(name)


def shown(body: bytes) -> str:
    """Return a body for a message, truncated if it is long."""
    if len(body) <= SHOWN_BYTES:
        return repr(body)
    return f"{body[:SHOWN_BYTES]!r}… ({len(body)} bytes)"


def target(version: str = NEWEST.name) -> str:
    """Return the target of scheduledevents with a version."""
    return f"{EVENTS_PATH}?api-version={version}"
