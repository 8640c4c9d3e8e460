"""Defects in how answers are carried: tags, types, framing, connections (1.10, 1.12)."""

import gzip
from dataclasses import replace
from http import HTTPStatus

from forewarn.instants import Micros
from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import Endpoint
from tests.support.planted.messages import Connection, Request, Response
from tests.support.planted.story import Event


@defect(
    "no-tag",
    "1.10",
    "The document has no ETag.",
    seen="look at the headers of a document",
)
class NoTag(Endpoint):
    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        return replace(super().get(vm, version, request, now), headers=())


@defect(
    "tag-never-changes",
    "1.10",
    "The ETag stays the same, so a client that sends it misses every change.",
    seen="ask with the last ETag while the document changes",
)
class TagNeverChanges(Endpoint):
    def tag(self, vm: str) -> str:
        return '"1"'


@defect(
    "tag-of-time",
    "1.10",
    "The ETag is the time of the answer and not the incarnation, so nothing is 304.",
    seen="ask with the last ETag while nothing changes",
)
class TagOfTime(Endpoint):
    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        answer = super().get(vm, version, request, now)
        return replace(answer, status=200, headers=(("ETag", f'"{now}"'),))

    def is_unchanged(self, vm: str, request: Request) -> bool:
        return False


@defect(
    "if-none-match-ignored",
    "1.10",
    "A GET with an equal If-None-Match gets the whole document.",
    seen="ask with the last ETag while nothing changes",
)
class IfNoneMatchIgnored(Endpoint):
    def is_unchanged(self, vm: str, request: Request) -> bool:
        return False


@defect(
    "bare-tag-ignored",
    "1.10",
    "A bare If-None-Match, without quotes, never matches.",
    seen="ask with the incarnation as If-None-Match while nothing changes",
)
class BareTagIgnored(Endpoint):
    def is_unchanged(self, vm: str, request: Request) -> bool:
        is_quoted = any('"' in tag for tag in request.all("if-none-match"))
        return is_quoted and super().is_unchanged(vm, request)


@defect(
    "unchanged-with-body",
    "1.10",
    "A 304 has a body, which the client takes for the next answer.",
    seen="look at the bytes behind a 304, or ask again on the same connection",
)
class UnchangedWithBody(Endpoint):
    def unchanged(self, vm: str, version: str, now: Micros) -> Response:
        body = self.body(self.document(vm, version, now))
        return replace(super().unchanged(vm, version, now), body=body)


@defect(
    "unchanged-unasked",
    "1.10",
    "The second GET of the same document gets 304 though it has no If-None-Match.",
    seen="ask twice while nothing changes",
)
class UnchangedUnasked(Endpoint):
    _shown: int | None = None

    def is_unchanged(self, vm: str, request: Request) -> bool:
        before, self._shown = self._shown, self.story.views[vm].incarnation
        return before == self._shown


@defect(
    "tag-on-post",
    "1.10",
    "An approval with an equal If-None-Match gets 304 and has no effect.",
    seen="approve with the last ETag as If-None-Match",
)
class TagOnPost(Endpoint):
    def post(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        if vm in self.story.views and self.is_unchanged(vm, request):
            return self.unchanged(vm, version, now)
        return super().post(vm, version, request, now)


@defect(
    "tag-on-first-answer",
    "1.10",
    "The first answer after enabling is 304 if an old ETag happens to match.",
    unseen="only the first request that a scope ever gets can show it",
)
class TagOnFirstAnswer(Endpoint):
    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        self.story.enable(vm, now)
        self.story.views[vm].is_answered = True
        return super().get(vm, version, request, now)


class _Retyped(Endpoint):
    """Gives documents another Content-Type."""

    kind = ""

    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        answer = super().get(vm, version, request, now)
        return replace(answer, content_type=self.kind)


@defect(
    "text-plain",
    "1.12",
    "Documents come as text/plain.",
    seen="look at the Content-Type of a document",
)
class TextPlain(_Retyped):
    kind = "text/plain; charset=utf-8"


@defect(
    "no-charset",
    "1.12",
    "The Content-Type has no charset.",
    seen="look at the Content-Type of a document",
)
class NoCharset(_Retyped):
    kind = "application/json"


@defect(
    "content-type-asked",
    "1.12",
    "An approval whose Content-Type is not application/json gets 415.",
    seen="approve as curl -d does",
)
class ContentTypeAsked(Endpoint):
    def post(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        kinds = request.all("content-type")
        if not kinds or not kinds[0].startswith("application/json"):
            return self.error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send JSON.")
        return super().post(vm, version, request, now)


@defect(
    "approval-answers-ok",
    "1.12",
    "A good approval is answered with the text OK, which is not JSON.",
    seen="approve and look at the body",
)
class ApprovalAnswersOk(Endpoint):
    def approved(
        self, vm: str, version: str, events: list[Event], now: Micros
    ) -> Response:
        return Response(200, b"OK", content_type="text/plain")


@defect(
    "approval-answers-document",
    "1.12",
    "A good approval is answered with the new document instead of an empty body.",
    seen="approve and look at the body",
)
class ApprovalAnswersDocument(Endpoint):
    def approved(
        self, vm: str, version: str, events: list[Event], now: Micros
    ) -> Response:
        return Response(200, self.body(self.document(vm, version, now)))


@defect(
    "approval-204",
    "1.12",
    "A good approval is answered with 204.",
    seen="approve and look at the status",
)
class Approval204(Endpoint):
    def approved(
        self, vm: str, version: str, events: list[Event], now: Micros
    ) -> Response:
        return Response(204)


@defect(
    "approval-202",
    "1.12",
    "A good approval is answered with 202: accepted for later.",
    seen="approve and look at the status",
)
class Approval202(Endpoint):
    def approved(
        self, vm: str, version: str, events: list[Event], now: Micros
    ) -> Response:
        return Response(202)


@defect(
    "expect-ignored",
    "1.12",
    "Expect: 100-continue is not answered, so the client waits to send its body.",
    seen="send the head of an approval with Expect, and wait for the invitation",
)
class ExpectIgnored(Connection):
    def continues(self) -> bytes:
        return b""


@defect(
    "gzip-unasked",
    "1.12",
    "Documents are compressed without a request for it by Accept-Encoding.",
    seen="ask without Accept-Encoding",
)
class GzipUnasked(Endpoint):
    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        answer = super().get(vm, version, request, now)
        packed = gzip.compress(answer.body, mtime=0)
        extra = ("Content-Encoding", "gzip")
        return replace(answer, body=packed, headers=(*answer.headers, extra))


@defect(
    "redirected",
    "1.1",
    "The path is redirected to the same with a slash at its end.",
    seen="ask and do not follow",
)
class Redirected(Endpoint):
    def get(self, vm: str, version: str, request: Request, now: Micros) -> Response:
        target = f"{request.path}/?api-version={version}"
        return Response(301, b"", (("Location", target),))


class _Framed(Connection):
    """Lies about the length of documents."""

    by = 0

    def headers(
        self, request: Request | None, response: Response
    ) -> list[tuple[str, str]]:
        headers = dict(super().headers(request, response))
        if b'"Events"' in response.body:
            headers["Content-Length"] = str(len(response.body) + self.by)
        return list(headers.items())


@defect(
    "cut-short",
    "1.12",
    "The document ends before its Content-Length, and the connection with it.",
    seen="read a document to its end",
)
class CutShort(_Framed):
    by = 10

    def keeps_open(self, request: Request) -> bool:
        return False


@defect(
    "length-too-small",
    "1.12",
    "Content-Length is a byte too small: the last bracket begins the next answer.",
    seen="read a document as its length says",
)
class LengthTooSmall(_Framed):
    by = -1


@defect(
    "chunks-without-end",
    "1.12",
    "The document is chunked and its last chunk is missing; the connection ends.",
    seen="read a document to its end",
)
class ChunksWithoutEnd(Connection):
    def headers(
        self, request: Request | None, response: Response
    ) -> list[tuple[str, str]]:
        headers = dict(super().headers(request, response))
        headers.pop("Content-Length", None)
        headers["Transfer-Encoding"] = "chunked"
        return list(headers.items())

    def sent_body(self, request: Request | None, response: Response) -> bytes:
        return b"%x\r\n%s\r\n" % (len(response.body), response.body)

    def keeps_open(self, request: Request) -> bool:
        return False


@defect(
    "closed-unsaid",
    "1.12",
    "Every answer ends the connection, and none says so.",
    seen="ask twice on one connection that was not said to end",
)
class ClosedUnsaid(Connection):
    def keeps_open(self, request: Request) -> bool:
        return False

    def headers(
        self, request: Request | None, response: Response
    ) -> list[tuple[str, str]]:
        headers = super().headers(request, response)
        return [pair for pair in headers if pair[0] != "Connection"]


@defect(
    "closed-each-time",
    "1.12",
    "Every answer says Connection: close, so each poll needs a new connection.",
    unseen="HTTP lets a server end any connection, and no clause says otherwise",
)
class ClosedEachTime(Connection):
    def keeps_open(self, request: Request) -> bool:
        return False


@defect(
    "body-left-behind",
    "1.12",
    "The body of a refused request is not read: it is taken for the next request.",
    seen="send a wrong POST and then a GET on the same connection",
)
class BodyLeftBehind(Connection):
    def body_of(self, head: Request) -> tuple[bytes, int] | None:
        is_missing = not any(head.all("metadata"))
        return (b"", 0) if is_missing else super().body_of(head)


@defect(
    "head-with-body",
    "1.2",
    "The refusal of a HEAD has a body, which is taken for the next answer.",
    seen="ask HEAD and then GET on the same connection",
)
class HeadWithBody(Connection):
    def sent_body(self, request: Request | None, response: Response) -> bytes:
        return response.body


@defect(
    "old-http",
    "1.12",
    "Answers are HTTP/1.0, and each ends its connection.",
    unseen="no clause names the version of HTTP, and HTTP lets a server choose",
)
class OldHttp(Connection):
    def status_line(self, response: Response) -> str:
        return super().status_line(response).replace("HTTP/1.1", "HTTP/1.0")

    def keeps_open(self, request: Request) -> bool:
        return False


@defect(
    "chunked-body-refused",
    "1.12",
    "An approval whose body is chunked is taken for one without a body.",
    seen="approve with Transfer-Encoding: chunked",
)
class ChunkedBodyRefused(Connection):
    def body_of(self, head: Request) -> tuple[bytes, int] | None:
        body = super().body_of(head)
        is_chunked = bool(head.all("transfer-encoding"))
        return (b"", body[1]) if body and is_chunked else body
