"""Interpret an endpoint's answers that are not documents. Pure.

Only an answer about the approval itself refuses it. After every other failure, the
approval is sent again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forewarn.agent.core.model import ApprovalResult, Consent
from forewarn.agent.foreign import items, json_members
from forewarn.agent.wire.answers import Answer
from forewarn.instants import SECOND, Micros
from forewarn.protocol.decoder import BLANK
from forewarn.texts import cleaned

SENTENCE_MAX = 300
"""Maximum length of an endpoint's message in log lines and notes."""

VERSIONS_MAX = 100
"""Maximum number of entries in `newest-versions` that are read; three are usual."""

_OPEN = frozenset({404, 408, 410, 425, 429})
"""Statuses that do not refuse the approval: there is no endpoint at present (404, or
410 during an update), or it is too busy."""

_SUCCESS = range(200, 300)
_REFUSAL = range(400, 500)
_PAGES = ("text/html", "application/xhtml")
_BAD_REQUEST = 400

_SECONDS = re.compile(r"\s*(\d{1,9})\s*", re.ASCII)
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def judge(event_id: str, answer: Answer) -> ApprovalResult:
    """Return the result of an approval from its answer (clauses 3.2 and 3.3)."""
    if answer.status in _SUCCESS and _is_page(answer):
        # A captive portal or similar has not passed the approval on.
        return ApprovalResult(
            event_id=event_id,
            consent=Consent.WANTED,
            detail="an HTML page, which no endpoint returns",
        )
    if answer.status in _SUCCESS:
        # Clients must ignore any other body (clause 1.12).
        return ApprovalResult(event_id=event_id, consent=Consent.GIVEN)
    refuses = answer.status in _REFUSAL and answer.status not in _OPEN
    return ApprovalResult(
        event_id=event_id,
        consent=Consent.REFUSED if refuses else Consent.WANTED,
        retry_after=retry_after(answer),
        detail=sentence_of(answer),
    )


def _is_page(answer: Answer) -> bool:
    """Return whether the answer is a web page, whatever its content type."""
    kind = (answer.header("content-type") or "").strip().lower()
    return kind.startswith(_PAGES) or answer.body.lstrip(BLANK).startswith(b"<")


def sentence_of(answer: Answer) -> str:
    """Return the status with the endpoint's message, for a person."""
    sentence = (json_members(answer.body) or {}).get("error")
    if isinstance(sentence, str) and sentence.strip():
        return f"{answer.status}: {cleaned(sentence)[:SENTENCE_MAX]}"
    location = answer.header("location")
    if location is not None:
        return f"{answer.status}: a redirect to {location[:SENTENCE_MAX]!a}"
    return f"status {answer.status}"


def retry_after(answer: Answer) -> Micros:
    """Return the pause that the endpoint asks for; 0: none."""
    return seconds_in(answer.header("retry-after")) * SECOND


def seconds_in(header: str | None) -> int:
    """Return the whole seconds in a header's value; 0: there are none."""
    match = _SECONDS.fullmatch(header or "")
    return int(match[1]) if match else 0


def newest_versions(answer: Answer) -> tuple[str, ...]:
    """Return the versions that a 400 offers, newest first (clause 1.8)."""
    if answer.status != _BAD_REQUEST:
        return ()
    listed = items((json_members(answer.body) or {}).get("newest-versions"))[
        :VERSIONS_MAX
    ]
    offered = {version for version in listed if isinstance(version, str)}
    return tuple(sorted(filter(_VERSION.fullmatch, offered), reverse=True))


def version_for(answer: Answer, *, refused: str, known: Sequence[str]) -> str | None:
    """Return the newest version that both sides know.

    None: the answer is not about the version, or there is no common version.
    """
    offered = newest_versions(answer)
    if refused in offered:
        return None
    return next((version for version in offered if version in known), None)
