"""Documents as bytes, made before they are asked for.

A view's bytes are shared by all its VMs, and an empty document's by all views
that stand at the same incarnation: a quiet fleet of standalone VMs costs next to
nothing.
"""

import weakref

from forewarn.control.transactions.messages import ViewSnapshot
from forewarn.instants import Micros
from forewarn.metadata.http import Response, build
from forewarn.protocol import documents
from forewarn.protocol.events import Event
from forewarn.protocol.versions import VERSIONS, ApiVersion


class PreparedDocument:
    """One incarnation of a document, in each version that was asked for."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "events",
        "incarnation",
        "not_modified",
        "tag",
    )

    def __init__(self, incarnation: int, events: tuple[Event, ...]) -> None:
        """Hold the content; no version is rendered yet."""
        self.incarnation = incarnation
        self.events = events
        self.tag = str(incarnation)
        self.not_modified = build(304, None, headers=self._etag())
        self._answers: list[Response | None] = [None] * len(VERSIONS)

    def answer(self, version: ApiVersion) -> Response:
        """Return the full answer in `version`, rendered at its first use."""
        answer = self._answers[version.order]
        if answer is None:
            body = documents.render(self.incarnation, self.events, version)
            answer = build(200, body, headers=self._etag())
            self._answers[version.order] = answer
        return answer

    def _etag(self) -> tuple[tuple[str, str], ...]:
        return (("ETag", f'"{self.tag}"'),)


class Preparer:
    """Makes prepared documents, and shares those that are equal."""

    def __init__(self) -> None:
        """Begin with none; a shared one is kept as long as a view holds it."""
        self._empty: weakref.WeakValueDictionary[int, PreparedDocument] = (
            weakref.WeakValueDictionary()
        )

    def prepare(self, snapshot: ViewSnapshot) -> PreparedDocument:
        """Return the document that `snapshot` shows."""
        if snapshot.events:
            return PreparedDocument(snapshot.incarnation, snapshot.events)
        document = self._empty.get(snapshot.incarnation)
        if document is None:
            document = PreparedDocument(snapshot.incarnation, ())
            self._empty[snapshot.incarnation] = document
        return document


class ServedView:
    """A view as the endpoint serves it now."""

    __slots__ = ("document", "enabled", "epoch", "ready_at", "used", "view_id")

    def __init__(self, view_id: str) -> None:
        """Begin before every message: whatever comes is newer."""
        self.view_id = view_id
        self.enabled = False
        self.epoch = -1
        self.ready_at: Micros = 0
        self.document: PreparedDocument | None = None
        self.used = 0
        """Bits of the versions that were asked for."""

    def is_older_than(self, snapshot: ViewSnapshot) -> bool:
        """Tell whether `snapshot` says something new.

        Messages may come twice or late. A higher epoch always wins. Within an
        epoch the incarnation only rises, and disabling is the end.
        """
        if snapshot.epoch != self.epoch:
            return snapshot.epoch > self.epoch
        if not self.enabled:
            return False
        assert self.document is not None, "an enabled view has a document"
        if not snapshot.enabled:
            return True
        # The delay of the first answer may end before its time, and is never put off.
        mine = self.document.incarnation, -self.ready_at
        return (snapshot.incarnation, -snapshot.ready_at) > mine

    def take(self, snapshot: ViewSnapshot, *, preparer: Preparer) -> None:
        """Serve `snapshot` from now on, ready in the versions that are in use."""
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
