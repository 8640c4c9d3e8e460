"""Sends requests to an endpoint and records every answer.

It has no schedule: each check sends the requests that it needs, and the caller of a
watch decides when to read the document.
"""

import json
from collections.abc import Callable
from http import HTTPStatus

from forewarn.instants import Micros
from forewarn.protocol.versions import NEWEST, VERSIONS, ApiVersion
from forewarn.testing.answers import BrokenAnswerError
from forewarn.testing.client import (
    INSTANCE_PATH,
    METADATA,
    Answer,
    Client,
    Headers,
    Sent,
)
from forewarn.testing.conformance.documents import (
    Document,
    Exchange,
    Members,
    approved_ids,
    read_document,
    target,
)
from forewarn.testing.conformance.transcript import (
    Moment,
    Step,
    TagRead,
    Transcript,
    early_starts,
)

TRIES = 5
"""Maximum number of attempts to read the same document twice in a row."""

INSTANCE_VERSION = "2021-02-01"
INSTANCE_TARGET = f"{INSTANCE_PATH}?api-version={INSTANCE_VERSION}"

OWN_EVENTS_TARGET = "/metadata/forewarn/events?api-version=2026-11-01"
"""forewarn's extension, which says whether an event is approved."""


class UntriedError(Exception):
    """A question cannot be asked, because something that it needs is missing."""

    def __init__(self, needs: str) -> None:
        """Name what the question needs."""
        super().__init__(needs)
        self.needs = needs


class NoAnswerError(Exception):
    """A request got no answer."""

    def __init__(self, exchange: Exchange) -> None:
        """Store the exchange."""
        super().__init__(exchange.failure)
        self.exchange = exchange


def start_requests(*event_ids: object) -> bytes:
    """Return the body of a request that approves events."""
    entries = [{"EventId": event_id} for event_id in event_ids]
    return json.dumps({"StartRequests": entries}).encode()


class Inquiry:
    """One VM that sends requests to its endpoint and records the answers."""

    def __init__(
        self,
        client: Client,
        *,
        now: Callable[[], Micros],
        wait: Callable[[], object] = lambda: None,
        others_approve: bool = False,
        speed: float = 1.0,
    ) -> None:
        """Send requests through `client`; nothing is sent yet.

        `now` returns the current time. `wait` waits for the length of one poll.
        """
        self._client = client
        self._now = now
        self.wait = wait
        self.seen = Transcript(others_approve=others_approve, speed=speed)
        self._count = 0
        self._is_patient = True

    # Requests.

    def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Headers = METADATA,
        body: bytes | None = None,
        patient: bool = True,
    ) -> Exchange:
        """Send a request and return the exchange; raises NoAnswerError.

        Raises UntriedError if a patient client got 429 on every attempt.
        """
        sent = Sent(method=method, target=target, headers=headers, body=body)
        return self._keep(self._ask(sent, patient=patient))

    def ask_first(self, target: str, body: bytes) -> Exchange:
        """POST with `Expect: 100-continue`; raises the errors of `ask`."""
        self._need_patience()
        headers = (*METADATA, ("Expect", "100-continue"))
        sent = Sent(method="POST", target=target, headers=headers, body=body)
        return self._keep(
            self._send(sent, lambda: self._client.ask_first(target, body))
        )

    def ask_in_turn(self, *requests: Sent) -> tuple[Exchange, ...]:
        """Send requests on one connection; the first one raises the errors of `ask`.

        The last exchange may have no answer. There are fewer exchanges than requests
        if an answer announced the end of the connection.
        """
        self._need_patience()
        at = self._now()
        answers, error = self._client.ask_in_turn(requests)
        outcomes: list[Answer | OSError] = [*answers, *([error] if error else [])]
        exchanges = [
            self._keep(self._exchange(sent, at, outcome))
            for sent, outcome in zip(requests, outcomes, strict=False)
        ]
        if not answers:
            raise NoAnswerError(exchanges[0])
        if any(
            exchange.status == HTTPStatus.TOO_MANY_REQUESTS for exchange in exchanges
        ):
            self._is_patient = False
            self._need_patience()
        return tuple(exchanges)

    def post(self, body: bytes, *, version: ApiVersion = NEWEST) -> Exchange:
        """Send an approval and return the exchange."""
        return self.ask("POST", target(version.name), body=body)

    def _need_patience(self) -> None:
        if not self._is_patient:
            raise UntriedError(
                "an endpoint that accepts this many requests (it answered 429)"
            )

    def _ask(self, sent: Sent, *, patient: bool = True) -> Exchange:
        def send() -> tuple[bool, Answer]:
            return False, self._client.ask(
                sent.method,
                sent.target,
                headers=sent.headers,
                body=sent.body,
                patient=patient and self._is_patient,
            )

        return self._send(sent, send, patient=patient)

    def _send(
        self,
        sent: Sent,
        send: Callable[[], tuple[bool, Answer]],
        *,
        patient: bool = True,
    ) -> Exchange:
        at = self._now()
        try:
            goes_on, answer = send()
        except OSError as error:
            raise NoAnswerError(self._keep(self._exchange(sent, at, error))) from error
        exchange = self._exchange(sent, at, answer, goes_on=goes_on)
        if patient and answer.status == HTTPStatus.TOO_MANY_REQUESTS:
            # The client has waited once. If it waited before each request, the checks
            # would take hours.
            self._is_patient = False
            self._keep(exchange)
            self._need_patience()
        return exchange

    def _exchange(
        self,
        sent: Sent,
        at: Micros,
        outcome: Answer | OSError,
        *,
        goes_on: bool = False,
    ) -> Exchange:
        self._count += 1
        broken = outcome if isinstance(outcome, BrokenAnswerError) else None
        is_answer = isinstance(outcome, Answer)
        return Exchange(
            number=self._count,
            at=at,
            took=max(self._now() - at, 0),
            method=sent.method,
            target=sent.target,
            headers=tuple(sent.headers),
            body=sent.body,
            answer=outcome if is_answer else None,
            failure="" if is_answer else str(outcome) or type(outcome).__name__,
            broken=broken and broken.how,
            received=broken.received if broken else b"",
            goes_on=goes_on,
        )

    def _keep(self, exchange: Exchange) -> Exchange:
        transcript = self.seen
        transcript.keep(exchange)
        if exchange.method == "POST":
            if exchange.status == HTTPStatus.OK:
                for event_id in approved_ids(exchange.body):
                    transcript.approved[event_id].append(exchange)
            else:
                transcript.refused.append(exchange)
        if exchange.status == HTTPStatus.OK and exchange.target == INSTANCE_TARGET:
            transcript.name = _name(exchange.payload) or transcript.name
        return exchange

    # Documents.

    def read(self, version: ApiVersion = NEWEST) -> Document:
        """Return the document of a version; raises the errors of `ask`.

        Raises UntriedError if the answer is not a document; a separate rule reports
        such an answer.
        """
        document = self.read_document(version)
        if document is None or document.fault:
            raise UntriedError("a document that can be read")
        return document

    def read_document(self, version: ApiVersion = NEWEST) -> Document | None:
        """Read a version; None if the status is not 200. Raises the errors of `ask`."""
        try:
            exchange = self._ask(Sent(target=target(version.name)))
        except NoAnswerError as error:
            self._note_unread(error.exchange)
            raise
        if exchange.status != HTTPStatus.OK:
            self._keep(exchange)
            self._note_unread(exchange)
            return None
        return self._remember(exchange, version)

    def _note_unread(self, exchange: Exchange) -> None:
        self.seen.deleted_by = self.seen.deletion(exchange)
        if not self.seen.deleted_by:
            self.seen.unread.append(exchange)

    def _remember(self, exchange: Exchange, version: ApiVersion) -> Document:
        shown = self.seen.shown[version.name]
        if shown and _is_same(shown[-1].last, exchange):
            shown[-1].last = exchange
            shown[-1].reads += 1
            return shown[-1].document
        document = read_document(exchange, version)
        self.seen.show(document)
        return document

    def events(self) -> tuple[Members, ...]:
        """Return the events of the newest version; raises the errors of `read`."""
        return self.read().events

    # A watch.

    def look_around(self) -> None:
        """Read each version of one document, if it does not change in between."""
        for _ in range(TRIES):
            before = self.read()
            others = [
                document
                for version in VERSIONS
                if version is not NEWEST
                and (document := self.read_document(version)) is not None
                and not document.fault
            ]
            if self.read() is before:
                again = self.seen.newest[-1].last
                self.seen.moments.append(
                    Moment(newest=before, again=again, others=tuple(others))
                )
                return

    def watch_once(self) -> bool:
        """Read the document, and all its versions if it changed; return whether it did.

        Every answer is recorded. A bad or missing answer does not end a watch.
        """
        try:
            known = self.seen.newest[-1].document if self.seen.newest else None
            document = self.read_document()
            if document is None or document.fault or document is known:
                return False
            if known is not None:
                self._ask_with_old_tag(known, document)
                self._ask_who_approved()
            self.look_around()
        except (NoAnswerError, UntriedError):
            return False
        return True

    def _ask_with_old_tag(self, old: Document, new: Document) -> None:
        tag = old.exchange.header("ETag")
        if tag is None or old.incarnation == new.incarnation:
            return
        headers = (*METADATA, ("If-None-Match", tag))
        exchange = self.ask("GET", target(), headers=headers)
        self.seen.tag_reads.append(TagRead(exchange=exchange, old=old, new=new))

    def _ask_who_approved(self) -> None:
        before, after = self.seen.newest[-2:]
        if early_starts(self.seen, Step(before=before, after=after)):
            exchange = self.ask("GET", OWN_EVENTS_TARGET)
            if exchange.status == HTTPStatus.OK:
                self.seen.own_events.append(exchange)


def _is_same(one: Exchange, other: Exchange) -> bool:
    if one.payload != other.payload:
        return False
    names = ("ETag", "Content-Type")
    return all(one.header(name) == other.header(name) for name in names)


def _name(body: bytes) -> str:
    """Return `compute.name` of an instance document; empty if it has none."""
    try:
        name: object = json.loads(body)["compute"]["name"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""
