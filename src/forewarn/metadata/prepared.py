"""Documents as bytes, rendered before a request needs them.

All VMs of a view share its bytes. All views with the same incarnation share the empty
document, so an idle fleet of standalone VMs costs almost no memory.
"""

import weakref

from forewarn.instants import Micros
from forewarn.metadata.http import Response, build
from forewarn.protocol import documents
from forewarn.protocol.events import Event
from forewarn.protocol.published import ViewSnapshot, rank
from forewarn.protocol.versions import VERSIONS, ApiVersion


class PreparedDocument:
    """One incarnation of a document, in each requested version."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "events",
        "incarnation",
        "not_modified",
        "tag",
    )

    def __init__(self, incarnation: int, events: tuple[Event, ...]) -> None:
        """Store the content; render no version yet."""
        self.incarnation = incarnation
        self.events = events
        self.tag = str(incarnation)
        self.not_modified = build(304, None, headers=self._etag())
        self._answers: list[Response | None] = [None] * len(VERSIONS)

    def answer(self, version: ApiVersion) -> Response:
        """Return the full response in `version`, rendered at its first use."""
        answer = self._answers[version.order]
        if answer is None:
            body = documents.render(self.incarnation, self.events, version)
            answer = build(200, body, headers=self._etag())
            self._answers[version.order] = answer
        return answer

    def _etag(self) -> tuple[tuple[str, str], ...]:
        return (("ETag", f'"{self.tag}"'),)


class Preparer:
    """Creates prepared documents, and shares empty ones."""

    def __init__(self) -> None:
        """Start empty; a shared document exists as long as a view uses it."""
        self._empty: weakref.WeakValueDictionary[int, PreparedDocument] = (
            weakref.WeakValueDictionary()
        )

    def prepare(self, snapshot: ViewSnapshot) -> PreparedDocument:
        """Return the document of `snapshot`."""
        if snapshot.events:
            return PreparedDocument(snapshot.incarnation, snapshot.events)
        document = self._empty.get(snapshot.incarnation)
        if document is None:
            document = PreparedDocument(snapshot.incarnation, ())
            self._empty[snapshot.incarnation] = document
        return document


class ServedView:
    """A view as the endpoint serves it."""

    __slots__ = ("document", "enabled", "epoch", "ready_at", "used", "view_id")

    def __init__(self, view_id: str) -> None:
        """Start before the first message: any snapshot is newer."""
        self.view_id = view_id
        self.enabled = False
        self.epoch = -1
        self.ready_at: Micros = 0
        self.document: PreparedDocument | None = None
        self.used = 0
        """The requested versions, as bits."""

    def is_older_than(self, snapshot: ViewSnapshot) -> bool:
        """Return whether `snapshot` is newer: messages may arrive twice or late."""
        own = rank(
            epoch=self.epoch,
            is_enabled=self.enabled,
            incarnation=0 if self.document is None else self.document.incarnation,
            ready_at=self.ready_at,
        )
        return snapshot.rank > own

    def take(self, snapshot: ViewSnapshot, *, preparer: Preparer) -> None:
        """Serve `snapshot` from now on, rendered in the versions in use."""
        self.enabled = snapshot.enabled
        self.epoch = snapshot.epoch
        self.ready_at = snapshot.ready_at
        if not snapshot.enabled:
            self.document = None
            return
        self.document = preparer.prepare(snapshot)
        for version in VERSIONS:
            if self.used >> version.order & 1:
                self.document.answer(version)
