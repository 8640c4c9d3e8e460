"""Faulty answers, made of the genuine one: answers in, answers out, nothing else.

What needs a document leaves any other answer as it is: a refusal stays a refusal.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, cast

from forewarn.metadata import answers
from forewarn.metadata.http import JSON_TYPE, TEXT_TYPE, Response, build
from forewarn.sim.faults.fault import Fault, Replacement
from forewarn.sim.faults.kinds import Group

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
"""What the body of a status says."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """An answer, taken apart."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def document(self) -> Document | None:
        """Return the document that it is; None where it is another answer."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return None
        if self.status == _OK and isinstance(value, dict):
            document = cast("Document", value)
            return document if isinstance(document.get("Events"), list) else None
        return None

    def response(self) -> Response:
        """Put it together again, with the length that it has now."""
        kept = [(n, v) for n, v in self.headers if n.lower() != "content-length"]
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in kept]
        lines.append(f"Content-Length: {len(self.body)}")
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        has_date = any(name.lower() == "date" for name, _ in self.headers)
        return Response(
            status=self.status, payload=head + self.body, takes_date=not has_date
        )

    def with_header(self, name: str, value: str) -> "Parts":
        """Return it with another value of a header that it has."""
        headers = tuple(
            (n, value if n.lower() == name.lower() else v) for n, v in self.headers
        )
        return replace(self, headers=headers)


def take_apart(response: Response) -> Parts:
    """Return the parts of an answer."""
    head, _, body = response.payload.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = [line.partition(":") for line in lines]
    return Parts(
        status=response.status,
        headers=tuple((name, value.strip()) for name, _, value in pairs),
        body=body,
    )


def spoil(
    fault: Fault, genuine: Response | None, *, earlier: Sequence[Response] = ()
) -> Response:
    """Return the answer that a fault of status, answer or document gives.

    `genuine` is None where the endpoint was not asked; `earlier` are other
    documents that this VM was served, the newest last.
    """
    if fault.what.group is Group.STATUS:
        return _status(fault)
    if fault.what.group is Group.BODY:
        if genuine is not None and genuine.status != _OK:
            return genuine
        content_type, body = _FIXED[fault.kind]
        return build(_OK, body, content_type=content_type)
    assert genuine is not None, "a document is made of a genuine one"
    if fault.kind == "stale":
        back = min(fault.count, len(earlier))
        is_read = take_apart(genuine).document is not None
        return earlier[-back] if back and is_read else genuine
    if fault.kind == "stuck":
        return earlier[0] if earlier and genuine.status == _OK else genuine
    parts = take_apart(genuine)
    document = parts.document
    if document is None:
        return genuine
    return _DOCUMENTS[fault.kind](parts, document, fault).response()


def _status(fault: Fault) -> Response:
    if fault.kind == "replace":
        return _replaced(fault.replacement)
    status = int(fault.kind)
    seconds = fault.retry_after
    if seconds is None:
        seconds = fault.what.retry_after
    headers = ()
    if seconds is not None and seconds >= 0:
        headers = (("Retry-After", str(seconds)),)
    return answers.error(status, SENTENCES[status], headers=headers)


def _replaced(wanted: Replacement) -> Response:
    headers = [(n, v) for n, v in wanted.headers if n.lower() != "content-type"]
    if wanted.status in {204, 304}:
        return build(wanted.status, None, headers=headers)
    return build(
        wanted.status, wanted.body, content_type=wanted.content_type, headers=headers
    )


_FIXED: Mapping[str, tuple[str, bytes]] = {
    "empty": (JSON_TYPE, b""),
    "text": (TEXT_TYPE, TEXT),
    "html": (HTML_TYPE, HTML),
}


def _written(parts: Parts, document: Document) -> Parts:
    body = json.dumps(document, separators=(",", ":")).encode("ascii")
    return replace(parts, body=body)


def _mistyped(parts: Parts, _document: Document, _fault: Fault) -> Parts:
    return parts.with_header("Content-Type", TEXT_TYPE)


def _broken(parts: Parts, _document: Document, _fault: Fault) -> Parts:
    return replace(parts, body=parts.body[: len(parts.body) // 2])


def _newline(parts: Parts, document: Document, _fault: Fault) -> Parts:
    """Break the line inside a string: of each event, or of one that is added."""
    mark = "\ufffc"
    for event in document["Events"]:
        text = event.get("Description", "")
        member = "Description" if text else "ResourceType"
        event[member] += mark
    if not document["Events"]:
        document["Note"] = f"no events{mark}"
    written = _written(parts, document)
    raw = json.dumps(mark).strip('"').encode("ascii")
    return replace(written, body=written.body.replace(raw, b"\n"))


def _no_events(parts: Parts, document: Document, _fault: Fault) -> Parts:
    del document["Events"]
    return _written(parts, document)


def _null_events(parts: Parts, document: Document, _fault: Fault) -> Parts:
    document["Events"] = None
    return _written(parts, document)


def _duplicated(parts: Parts, document: Document, _fault: Fault) -> Parts:
    document["Events"] = [each for each in document["Events"] for _ in range(2)]
    return _written(parts, document)


def _reordered(parts: Parts, document: Document, _fault: Fault) -> Parts:
    document["Events"].reverse()
    return _written(parts, document)


def _incarnation(parts: Parts, document: Document, fault: Fault) -> Parts:
    document["DocumentIncarnation"] = fault.count
    return _written(parts.with_header("ETag", f'"{fault.count}"'), document)


def _iso(parts: Parts, document: Document, _fault: Fault) -> Parts:
    for event in document["Events"]:
        if event["NotBefore"]:
            moment = parsedate_to_datetime(event["NotBefore"])
            event["NotBefore"] = moment.isoformat().replace("+00:00", "Z")
    return _written(parts, document)


_DOCUMENTS: Mapping[str, Callable[[Parts, Document, Fault], Parts]] = {
    "mistyped": _mistyped,
    "broken": _broken,
    "newline": _newline,
    "no-events": _no_events,
    "null-events": _null_events,
    "duplicate-events": _duplicated,
    "reordered-events": _reordered,
    "incarnation-reset": _incarnation,
    "iso-dates": _iso,
}
