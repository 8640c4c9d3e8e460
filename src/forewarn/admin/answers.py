"""The parts that the descriptions of all routes share, and JSON responses."""

import hashlib
import json
from http import HTTPStatus
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from forewarn.admin import shapes
from forewarn.texts import json_text

ETAG_DIGITS = 32
"""Hexadecimal digits of an ETag: 128 bits."""

Documented: TypeAlias = dict[int | str, dict[str, Any]]

_ERRORS = {
    400: "The request is malformed; `problems` has each invalid place.",
    401: "A valid bearer token is needed.",
    403: "The token does not have this right.",
    404: "A name in the request does not exist.",
    409: "The request is refused in the current state; nothing was changed.",
    422: "The Idempotency-Key belongs to another request; nothing was changed.",
    503: "The service is not available; `Retry-After` has the seconds to wait.",
}


_SCHEMAS = "#/components/schemas/"

_described: dict[str, type[BaseModel]] = {}
"""The models that routes name in `content_of`, by name; complete after the import."""


def content_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the content of a response, for /openapi.json.

    It only names the model. The framework would create a validator for each response of
    each route, which takes a seventh of the start of the API's process.
    """
    known = _described.setdefault(model.__name__, model)
    assert known is model, f"two models are named {model.__name__}"
    schema = {"$ref": f"{_SCHEMAS}{model.__name__}"}
    return {"content": {"application/json": {"schema": schema}}}


def with_schemas(document: dict[str, Any]) -> dict[str, Any]:
    """Return a description with the models of all responses that it names."""
    schemas = dict(document["components"]["schemas"])
    paths = json.dumps(document["paths"])
    named: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (model, "serialization")
        for name, model in _described.items()
        if f'"{_SCHEMAS}{name}"' in paths
    ]
    _, found = models_json_schema(named, ref_template=_SCHEMAS + "{model}")
    schemas.update(found.get("$defs", {}))
    components = {**document["components"], "schemas": dict(sorted(schemas.items()))}
    return {**document, "components": components}


ANY_ERROR: Documented = {
    "default": {
        **content_of(shapes.ProblemShape),
        "description": "Any other error.",
    }
}
"""Prevents the framework from describing errors that it would answer itself."""


def documented(model: type[BaseModel], *errors: int, status: int = 200) -> Documented:
    """Return the responses of a route, for /openapi.json."""
    return {
        status: content_of(model),
        **{
            code: {**content_of(shapes.ProblemShape), "description": _ERRORS[code]}
            for code in (*errors, 401, 403, 503)
        },
        **ANY_ERROR,
    }


class SafeJsonResponse(JSONResponse):
    """JSON that is safe to print on a terminal, with an ETag for GET."""

    def render(self, content: Any) -> bytes:
        """Return the body, with characters that are not printable escaped."""
        return json_text(content).encode("utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, or 304 if the caller has it already."""
        if scope.get("method") == "GET" and self.status_code == HTTPStatus.OK:
            tag = _tag_of(self.body)
            if tag in _known_tags(scope):
                await _same(tag)(scope, receive, send)
                return
            self.headers["ETag"] = tag
        await super().__call__(scope, receive, send)


REVALIDATED = {"Cache-Control": "no-cache"}
"""Headers of a page that a browser may keep, and asks for before each use."""


class FixedResponse:
    """A response that is always the same: rendered once, with an ETag.

    Anybody can request it, so a request must cost no more than a refusal. All
    connections share its bytes.
    """

    def __init__(self, response: Response) -> None:
        """Answer with `response`, whose status is 200."""
        tag = _tag_of(response.body)
        response.headers["ETag"] = tag
        self._tag = tag
        self._response = response
        self._same = _same(tag)
        if (kept := response.headers.get("Cache-Control")) is not None:
            self._same.headers["Cache-Control"] = kept

    def to(self, scope: Scope) -> Response:
        """Return the response, or 304 if the caller has it already."""
        return self._same if self._tag in _known_tags(scope) else self._response


def _tag_of(body: bytes | memoryview) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:ETAG_DIGITS]}"'


def _same(tag: str) -> Response:
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})


def _known_tags(scope: Scope) -> set[str]:
    """Return the ETags that the caller has; weak ones count as strong ones."""
    header = Headers(scope=scope).get("if-none-match", "")
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}


def answer(content: Any, *, status: int = 200) -> JSONResponse:
    """Return a JSON response with content that is not validated."""
    return SafeJsonResponse(content, status_code=status)
