"""What all routes' descriptions share, and the answer of JSON as it is."""

from typing import Any, TypeAlias

from starlette.responses import JSONResponse

from forewarn.admin import shapes
from forewarn.texts import json_text

Documented: TypeAlias = dict[int | str, dict[str, Any]]

_ERRORS = {
    400: "The request is malformed; `problems` names each place.",
    401: "A good bearer token is needed.",
    403: "This token may not do it.",
    404: "Something that it names does not exist.",
    409: "The rules do not allow it now; nothing was changed.",
    422: "The Idempotency-Key belongs to another request; nothing was changed.",
    503: "The service cannot do it now; `Retry-After` says when to ask again.",
}


ANY_ERROR: Documented = {
    "default": {"model": shapes.ProblemShape, "description": "Any other error."}
}
"""With it the framework does not tell of errors that it would answer by itself."""


def documented(model: type[Any], *errors: int, status: int = 200) -> Documented:
    """Return the answers of a route, for /openapi.json."""
    return {
        status: {"model": model},
        **{
            code: {"model": shapes.ProblemShape, "description": _ERRORS[code]}
            for code in (*errors, 401, 403, 503)
        },
        **ANY_ERROR,
    }


class SafeJsonResponse(JSONResponse):
    """JSON that may be shown on a terminal as it is."""

    def render(self, content: Any) -> bytes:
        """Return the body: characters that are not printable are escaped."""
        return json_text(content).encode("utf-8")


def answer(content: Any, *, status: int = 200) -> JSONResponse:
    """Return JSON that was made by `reporting.reports`, unchecked."""
    return SafeJsonResponse(content, status_code=status)
