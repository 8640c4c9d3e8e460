"""The kinds of fault: one row each, with what it takes and whom it hits.

`docs/reference/faults.md` and the help are made from this table. How a kind is carried out
is in `bodies` (what the answer says) and `player` (how it goes out).
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

GET = "GET"
POST = "POST"
ANY = frozenset({GET, POST})
READS = frozenset({GET})


class Group(enum.Enum):
    """What of an exchange is at fault."""

    NONE = "nothing"
    WIRE = "the connection"
    STATUS = "the status"
    BODY = "the answer"
    DOCUMENT = "the document"


class Approval(enum.Enum):
    """What becomes of an approval whose request is hit."""

    LOST = "lost"
    """It never arrives: nothing was approved."""
    TAKEN = "taken"
    """It counts; only its answer suffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What a kind is told beside its name."""

    key: str
    """In a file; on one line it stands after the name."""
    example: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A way of going wrong."""

    name: str
    group: Group
    sentence: str
    """What the VM sees."""
    argument: Argument | None = None
    methods: frozenset[str] = ANY
    """Which requests it hits unless told otherwise."""
    approvals: tuple[Approval, ...] = ()
    """What may become of an approval, the usual first; none: it cannot be hit."""
    retry_after: int | None = None
    """Seconds for Retry-After unless told otherwise; -1: only if told."""

    @property
    def reads_only(self) -> bool:
        """Tell whether it makes no sense for an approval."""
        return not self.approvals


_BOTH = (Approval.LOST, Approval.TAKEN)
_TAKEN = (Approval.TAKEN,)
_TAKEN_FIRST = (Approval.TAKEN, Approval.LOST)


def _status(status: int, meaning: str, *, retry_after: int | None = None) -> Kind:
    return Kind(
        name=str(status),
        group=Group.STATUS,
        sentence=meaning,
        approvals=_BOTH,
        retry_after=retry_after,
    )


def _document(name: str, sentence: str, argument: Argument | None = None) -> Kind:
    return Kind(
        name=name,
        group=Group.DOCUMENT,
        sentence=sentence,
        argument=argument,
        methods=READS,
    )


def _body(name: str, sentence: str) -> Kind:
    return Kind(
        name=name,
        group=Group.BODY,
        sentence=sentence,
        methods=READS,
        approvals=_TAKEN_FIRST,
    )


_KINDS = (
    Kind(
        name="ok",
        group=Group.NONE,
        sentence="The genuine answer: a step of a playbook that does no harm.",
        approvals=_TAKEN,
    ),
    Kind(
        name="delay",
        group=Group.WIRE,
        sentence="The answer is made at once and goes out so much later.",
        argument=Argument(key="by", example="3s", required=True),
        approvals=_TAKEN,
    ),
    Kind(
        name="timeout",
        group=Group.WIRE,
        sentence="No answer ever comes, and the connection stays.",
        approvals=_BOTH,
    ),
    Kind(
        name="refuse",
        group=Group.WIRE,
        sentence="A new connection is reset at once; an open one, at its next request.",
        approvals=(Approval.LOST,),
    ),
    Kind(
        name="reset",
        group=Group.WIRE,
        sentence="The connection is reset in the middle of the answer, or after so "
        "many bytes of it.",
        argument=Argument(key="bytes", example="20"),
        approvals=_TAKEN_FIRST,
    ),
    Kind(
        name="slow",
        group=Group.WIRE,
        sentence="The answer drips: so many bytes in each second, or other time.",
        argument=Argument(key="rate", example="10/s", required=True),
        approvals=_TAKEN,
    ),
    _status(400, "Bad request, whatever was asked."),
    _status(404, "Not found, as if there were no such endpoint."),
    _status(410, "Gone: the real service says so while it is being updated."),
    _status(429, "Too many requests, with Retry-After.", retry_after=5),
    _status(500, "Internal server error."),
    _status(503, "Service unavailable, with Retry-After if told.", retry_after=-1),
    Kind(
        name="replace",
        group=Group.STATUS,
        sentence="An answer of your own: status, headers, body and its type "
        "(in a file only).",
        approvals=_BOTH,
    ),
    _body("empty", "200 with an empty body."),
    _body("text", "200 with a sentence as text/plain."),
    _body("html", "200 with a page in HTML, as from a proxy that asks to log in."),
    _document("mistyped", "The document, but called text/plain."),
    _document("broken", "The first half of the document: JSON that does not end."),
    _document("newline", "A raw line break inside a string: JSON forbids it."),
    _document("no-events", "The document without the member Events."),
    _document("null-events", "The document with null for Events."),
    _document("duplicate-events", "Each event is listed twice."),
    _document("reordered-events", "The events in the opposite order."),
    _document(
        "stale",
        "The document that this VM was given before the present one, or so many "
        "before: the incarnation falls. One that was given no other gets the present.",
        Argument(key="back", example="2"),
    ),
    _document(
        "stuck", "What was served when the fault began, whatever has changed since."
    ),
    _document(
        "incarnation-reset",
        "DocumentIncarnation is 1 again, or as told, and nothing else has changed.",
        Argument(key="incarnation", example="7"),
    ),
    _document("iso-dates", "NotBefore in ISO 8601 and not as RFC 1123 has it."),
)

FAULTS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""Every kind by its name, in the order in which documents list them."""

ALIASES: Mapping[str, str] = {
    "good": "ok",
    "time-out": "timeout",
    "silence": "timeout",
    "silent": "timeout",
    "refused": "refuse",
    "too-many": "429",
    "missing-events": "no-events",
    "duplicated-events": "duplicate-events",
    "reorder-events": "reordered-events",
}
"""Other words for a kind, as people write them."""
