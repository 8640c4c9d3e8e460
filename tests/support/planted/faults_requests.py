"""Defects in who may ask, and how: paths, methods, versions, headers (1.1 to 1.9)."""

from dataclasses import replace
from http import HTTPStatus

from forewarn.instants import SECOND, Micros
from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import (
    EVENTS,
    MEMBER_SINCE,
    NEWEST,
    PREVIEW,
    VERSIONS,
    Endpoint,
    encoded,
)
from tests.support.planted.fleet import FLEET
from tests.support.planted.messages import Request, Response
from tests.support.planted.story import Event

PAGE = b"<!doctype html>\n<title>Error</title>\n<h1>Error</h1>\n"


@defect(
    "document-by-parameter",
    "1.1",
    "A parameter `vm` gives any VM the document of another one.",
    unseen="only who knows the parameter's name finds it",
)
class DocumentByParameter(Endpoint):
    def answer(self, vm: str, request: Request, now: Micros) -> Response:
        vms_named = request.query("vm")
        other = vms_named[0] if vms_named and vms_named[0] in FLEET else vm
        return super().answer(other, request, now)


@defect(
    "cross-origin",
    "1.1",
    "Every answer allows pages of any origin to read it (Access-Control-Allow-Origin: *).",
    unseen="the header is seen, but no clause forbids it by name",
)
class CrossOrigin(Endpoint):
    def answer(self, vm: str, request: Request, now: Micros) -> Response:
        response = super().answer(vm, request, now)
        extra = ("Access-Control-Allow-Origin", "*")
        return replace(response, headers=(*response.headers, extra))


@defect(
    "path-by-case",
    "1.2",
    "The path is matched by case: /metadata/scheduledEvents is 404.",
    seen="ask with a capital E",
)
class PathByCase(Endpoint):
    def resource(self, request: Request) -> str | None:
        resource = super().resource(request)
        return resource if request.path.startswith(resource or "/") else None


@defect(
    "path-by-prefix",
    "1.2",
    "Paths below /metadata/scheduledevents are answered as itself, not with 404.",
    seen="ask a path below it",
)
class PathByPrefix(Endpoint):
    def resource(self, request: Request) -> str | None:
        is_below = request.path.lower().startswith(f"{EVENTS}/")
        return EVENTS if is_below else super().resource(request)


@defect(
    "any-path",
    "1.2",
    "Any unknown path is answered with the document.",
    seen="ask a path that does not exist",
)
class AnyPath(Endpoint):
    def resource(self, request: Request) -> str | None:
        return super().resource(request) or EVENTS


@defect(
    "any-method",
    "1.2",
    "PUT, DELETE and all others are answered as GET is.",
    seen="ask with another method than GET and POST",
)
class AnyMethod(Endpoint):
    def methods(self, path: str) -> frozenset[str]:
        return super().methods(path) | {"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"}


@defect(
    "head-as-get",
    "1.2",
    "HEAD is answered with 200, as GET is, instead of 405.",
    seen="ask with HEAD",
)
class HeadAsGet(Endpoint):
    def methods(self, path: str) -> frozenset[str]:
        return super().methods(path) | {"HEAD"}


@defect(
    "options-preflight",
    "1.2",
    "OPTIONS is answered with 204 and the permissions of a CORS preflight.",
    seen="ask with OPTIONS",
)
class OptionsPreflight(Endpoint):
    def wrong_method(self, path: str, request: Request) -> Response:
        if request.method != "OPTIONS":
            return super().wrong_method(path, request)
        origin = ("Access-Control-Allow-Origin", "*")
        headers = ("Access-Control-Allow-Headers", "Metadata")
        return Response(204, b"", (origin, headers))


@defect(
    "method-501",
    "1.2",
    "A method that it does not have is answered with 501, not 405.",
    seen="ask with another method than GET and POST",
)
class Method501(Endpoint):
    def wrong_method(self, path: str, request: Request) -> Response:
        return self.error(HTTPStatus.NOT_IMPLEMENTED, "Unsupported method.")


@defect(
    "version-unchecked",
    "1.3",
    "An api-version that does not exist is answered as the newest one.",
    seen="ask with 1999-01-01",
)
class VersionUnchecked(Endpoint):
    def version(self, request: Request) -> str | None:
        values = request.query("api-version")
        if len(values) == 1 and values[0].strip("{}") != "latest":
            return values[0] if values[0] in VERSIONS else NEWEST
        return None


@defect(
    "version-latest",
    "1.3",
    "`latest` and `{latest}` are accepted as api-version.",
    seen="ask with latest and {latest}",
)
class VersionLatest(Endpoint):
    def version(self, request: Request) -> str | None:
        if request.query("api-version") in (["latest"], ["{latest}"]):
            return NEWEST
        return super().version(request)


@defect(
    "version-optional",
    "1.3",
    "A request without api-version is answered with 200, as the newest one.",
    seen="ask without an api-version",
)
class VersionOptional(Endpoint):
    def version(self, request: Request) -> str | None:
        return super().version(request) if request.query("api-version") else NEWEST


@defect(
    "version-repeated",
    "1.3",
    "Of a repeated api-version the first one counts.",
    seen="ask with the parameter twice",
)
class VersionRepeated(Endpoint):
    def version(self, request: Request) -> str | None:
        values = request.query("api-version")[:1]
        return values[0] if values and values[0] in VERSIONS else None


@defect(
    "version-too-old",
    "1.3",
    "The versions before 2019-01-01 are refused.",
    seen="ask with each version",
)
class VersionTooOld(Endpoint):
    def version(self, request: Request) -> str | None:
        version = super().version(request)
        return version if (version or "") >= "2019-01-01" else None


@defect(
    "version-404",
    "1.3",
    "A wrong api-version is answered with 404, not 400.",
    seen="ask with 1999-01-01",
)
class Version404(Endpoint):
    def wrong_version(self, newest: tuple[str, ...]) -> Response:
        return replace(super().wrong_version(newest), status=404)


@defect(
    "parameters-refused",
    "1.3",
    "A request with another parameter beside api-version is refused.",
    seen="ask with format=json too",
)
class ParametersRefused(Endpoint):
    def version(self, request: Request) -> str | None:
        return None if "&" in request.target else super().version(request)


@defect(
    "preview-without-underscore",
    "1.4",
    "At 2017-03-01 the names of Resources have no leading underscore.",
    seen="ask with 2017-03-01 and with the newest while there is an event",
)
class PreviewWithoutUnderscore(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        return {**members, "Resources": [*event.plan.resources]}


@defect(
    "members-in-all-versions",
    "1.4",
    "Old versions have the members that came after them, such as Description.",
    seen="ask with 2017-08-01 while there is an event",
)
class MembersInAllVersions(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        newest = super().members(vm, event, NEWEST, now)
        return {**newest, **super().members(vm, event, version, now)}


@defect(
    "source-too-late",
    "1.4",
    "EventSource comes with 2020-07-01 only, not with 2019-08-01.",
    seen="ask with 2019-08-01 while there is an event",
)
class SourceTooLate(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        if version < MEMBER_SINCE["DurationInSeconds"]:
            members.pop("EventSource", None)
        return members


@defect(
    "preview-needs-header",
    "1.4",
    "At 2017-03-01 the header is enforced too.",
    seen="ask with 2017-03-01 and without the header",
)
class PreviewNeedsHeader(Endpoint):
    def lacks_header(self, request: Request) -> bool:
        return not self.is_metadata(request.all("metadata"))


@defect(
    "types-in-all-versions",
    "1.5",
    "Preempt and Terminate are shown to the versions before them.",
    seen="ask with 2017-08-01 while there is an event of these types",
)
class TypesInAllVersions(Endpoint):
    def is_shown(self, event: Event, version: str) -> bool:
        return True


@defect(
    "header-not-needed",
    "1.6",
    "Requests without the Metadata header are answered.",
    seen="ask without it",
)
class HeaderNotNeeded(Endpoint):
    def lacks_header(self, request: Request) -> bool:
        return False


@defect(
    "header-not-needed-by-post",
    "1.6",
    "Approvals without the Metadata header are accepted.",
    seen="approve without it",
)
class HeaderNotNeededByPost(Endpoint):
    def lacks_header(self, request: Request) -> bool:
        return request.method != "POST" and super().lacks_header(request)


@defect(
    "header-of-any-value",
    "1.6",
    "`Metadata: false` counts as the header.",
    seen="ask with it",
)
class HeaderOfAnyValue(Endpoint):
    def is_metadata(self, values: list[str]) -> bool:
        return len(values) == 1


@defect(
    "header-value-by-case",
    "1.6",
    "`Metadata: True` is refused: the value is compared by case.",
    seen="ask with it",
)
class HeaderValueByCase(Endpoint):
    def is_metadata(self, values: list[str]) -> bool:
        return values == ["true"]


@defect(
    "header-name-by-case",
    "1.6",
    "`metadata: true` is refused: the name is compared by case.",
    seen="ask with it",
)
class HeaderNameByCase(Endpoint):
    def lacks_header(self, request: Request) -> bool:
        named = any(name == "Metadata" for name, _ in request.headers)
        is_preview = request.query("api-version") == [PREVIEW]
        return super().lacks_header(request) or not (named or is_preview)


@defect(
    "header-repeated",
    "1.6",
    "Two Metadata headers are accepted as one.",
    seen="ask with two",
)
class HeaderRepeated(Endpoint):
    def is_metadata(self, values: list[str]) -> bool:
        return super().is_metadata(values[:1])


@defect(
    "path-before-header",
    "1.6",
    "An unknown path without the header is 404: the path is checked before it.",
    seen="ask / without the header",
)
class PathBeforeHeader(Endpoint):
    def lacks_header(self, request: Request) -> bool:
        return self.resource(request) is not None and super().lacks_header(request)


@defect(
    "forwarded-accepted",
    "1.7",
    "Requests with X-Forwarded-For are answered.",
    seen="ask with it",
)
class ForwardedAccepted(Endpoint):
    def is_forwarded(self, request: Request) -> bool:
        return False


@defect(
    "error-as-page",
    "1.8",
    "Errors are pages of HTML, as frameworks make them.",
    seen="make any error",
)
class ErrorAsPage(Endpoint):
    def answer(self, vm: str, request: Request, now: Micros) -> Response:
        answer = super().answer(vm, request, now)
        if answer.status < HTTPStatus.BAD_REQUEST:
            return answer
        return replace(answer, body=PAGE, content_type="text/html; charset=utf-8")


@defect(
    "error-without-member",
    "1.8",
    "Errors are JSON with `detail` and without the member `error`.",
    seen="make any error",
)
class ErrorWithoutMember(Endpoint):
    def answer(self, vm: str, request: Request, now: Micros) -> Response:
        answer = super().answer(vm, request, now)
        if answer.status < HTTPStatus.BAD_REQUEST:
            return answer
        return replace(answer, body=encoded({"detail": "Bad request"}))


@defect(
    "header-error-text",
    "1.8",
    "The error of a missing header has another text.",
    seen="ask without the header and compare",
)
class HeaderErrorText(Endpoint):
    def headerless(self) -> Response:
        return Response(400, encoded({"error": "Metadata header required"}))


@defect(
    "no-newest-versions",
    "1.8",
    "The error of a wrong version does not say which versions there are.",
    seen="ask with 1999-01-01",
)
class NoNewestVersions(Endpoint):
    def wrong_version(self, newest: tuple[str, ...]) -> Response:
        return self.error(HTTPStatus.BAD_REQUEST, "Bad request. api-version is invalid")


@defect(
    "newest-versions-backwards",
    "1.8",
    "The newest of newest-versions comes last.",
    seen="ask with 1999-01-01",
)
class NewestVersionsBackwards(Endpoint):
    def newest_versions(self) -> tuple[str, ...]:
        return super().newest_versions()[::-1]


@defect(
    "no-retry-after",
    "1.9",
    "A request too many gets 429 without Retry-After.",
    seen="ask as quickly as possible until there is a 429",
)
class NoRetryAfter(Endpoint):
    def throttled(self) -> Response:
        return self.error(HTTPStatus.TOO_MANY_REQUESTS, "Too many requests.")


@defect(
    "throttled-503",
    "1.9",
    "A request too many gets 503, not 429.",
    seen="ask as quickly as possible until the requests are refused",
)
class Throttled503(Endpoint):
    def throttled(self) -> Response:
        return replace(super().throttled(), status=503)


@defect(
    "limited-to-one",
    "1.9",
    "More than one request in two seconds is refused with 429.",
    seen="ask twice a second: 'as often as you like' means more than that",
)
class LimitedToOne(Endpoint):
    def is_allowed(self, vm: str, now: Micros) -> bool:
        since, _ = self._allowance.get(vm, (now - 2 * SECOND, 0.0))
        is_allowed = now - since >= 2 * SECOND
        if is_allowed:
            self._allowance[vm] = (now, 0.0)
        return is_allowed
