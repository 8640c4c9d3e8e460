"""Make faulty answers from the genuine one.

Faults of the document change documents only: a refusal stays a refusal.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any, cast

from forewarn.metadata import answers
from forewarn.metadata.http import JSON_TYPE, TEXT_TYPE, Response, build
from forewarn.sim.faults.fault import Fault, Group, Replacement
from forewarn.sim.recording import BODILESS, Answer

HTML_TYPE = "text/html; charset=utf-8"

TEXT = b"The metadata service is starting."
HTML = b"<!DOCTYPE html><html><body><h1>Log in to this network</h1></body></html>\n"

_OK = 200

SENTENCES: Mapping[int, str] = {
    400: "Bad request",
    404: "Not found",
    410: "Gone",
    429: "Too many requests",
    500: "Internal server error",
    503: "Service unavailable",
}
"""The messages of error statuses."""

_FIXED: Mapping[str, tuple[str, bytes]] = {
    "empty": (JSON_TYPE, b""),
    "text": (TEXT_TYPE, TEXT),
    "html": (HTML_TYPE, HTML),
}

_MARK = "\ufffc"
"""Marks the place of a line break inside a string."""

Document = dict[str, Any]


def faulty(
    fault: Fault, genuine: Response | None, *, earlier: Sequence[Response] = ()
) -> Response:
    """Return the answer for a fault of the status, the answer or the document.

    `genuine` is None if the request did not reach the endpoint. `earlier` has previous
    documents of this VM, the newest last.
    """
    if fault.kind == "replace":
        return _replaced(fault.replacement)
    if fault.what.group is Group.STATUS:
        return _status(fault)
    if fault.what.group is Group.BODY:
        if genuine is not None and genuine.status != _OK:
            return genuine
        content_type, body = _FIXED[fault.kind]
        return build(_OK, body, content_type=content_type)
    assert genuine is not None, "a faulty document needs a genuine one"
    if fault.kind == "stuck":
        return earlier[0] if earlier and genuine.status == _OK else genuine
    answer = _taken_apart(genuine)
    document = _document(answer)
    if document is None:
        return genuine
    if fault.kind == "stale":
        return earlier[-min(fault.count, len(earlier))] if earlier else genuine
    return _changed(fault, answer, document).response()


def _replaced(wanted: Replacement) -> Response:
    return build(
        wanted.status,
        None if wanted.status in BODILESS else wanted.body,
        content_type=wanted.content_type,
        headers=[(n, v) for n, v in wanted.headers if n.lower() != "content-type"],
    )


def _status(fault: Fault) -> Response:
    status, seconds = int(fault.kind), fault.retry_after
    if seconds is None:
        seconds = -1 if fault.what.retry_after is None else fault.what.retry_after
    headers = (("Retry-After", str(seconds)),) if seconds >= 0 else ()
    return answers.error(status, SENTENCES[status], headers=headers)


def _taken_apart(response: Response) -> Answer:
    head, _, body = response.payload.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = [line.partition(":") for line in lines]
    return Answer(
        status=response.status,
        headers=tuple((name, value.strip()) for name, _, value in pairs),
        body=body,
    )


def _document(answer: Answer) -> Document | None:
    """Return the document in an answer, or None for another answer."""
    try:
        value = json.loads(answer.body)
    except ValueError:
        return None
    if answer.status != _OK or not isinstance(value, dict):
        return None
    document = cast("Document", value)
    return document if isinstance(document.get("Events"), list) else None


def _changed(fault: Fault, answer: Answer, document: Document) -> Answer:
    if fault.kind == "mistyped":
        return _with_header(answer, "Content-Type", TEXT_TYPE)
    if fault.kind == "broken":
        return replace(answer, body=answer.body[: len(answer.body) // 2])
    if fault.kind == "incarnation-reset":
        answer = _with_header(answer, "ETag", f'"{fault.count}"')
    _CHANGES[fault.kind](document, fault)
    body = json.dumps(document, separators=(",", ":")).encode("ascii")
    if fault.kind == "newline":
        body = body.replace(json.dumps(_MARK).strip('"').encode("ascii"), b"\n")
    return replace(answer, body=body)


def _with_header(answer: Answer, name: str, value: str) -> Answer:
    """Return the answer with a new value of an existing header."""
    headers = [
        (n, value if n.lower() == name.lower() else v) for n, v in answer.headers
    ]
    return replace(answer, headers=tuple(headers))


def _newline(document: Document, _fault: Fault) -> None:
    """Put a line break into a string of each event, or into an added string."""
    for event in document["Events"]:
        event["Description" if event.get("Description") else "ResourceType"] += _MARK
    if not document["Events"]:
        document["Note"] = f"no events{_MARK}"


def _iso(document: Document, _fault: Fault) -> None:
    for event in document["Events"]:
        if event["NotBefore"]:
            moment = parsedate_to_datetime(event["NotBefore"])
            event["NotBefore"] = moment.isoformat().replace("+00:00", "Z")


_CHANGES: Mapping[str, Callable[[Document, Fault], object]] = {
    "newline": _newline,
    "no-events": lambda document, _fault: document.pop("Events"),
    "null-events": lambda document, _fault: document.update(Events=None),
    "duplicate-events": lambda document, _fault: document.update(
        Events=[event for event in document["Events"] for _ in range(2)]
    ),
    "reordered-events": lambda document, _fault: document["Events"].reverse(),
    "incarnation-reset": lambda document, fault: document.update(
        DocumentIncarnation=fault.count
    ),
    "iso-dates": _iso,
}
"""The change of a document for each kind of fault."""
