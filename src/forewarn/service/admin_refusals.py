"""The responses of the operator API that need no application, as bytes."""

from forewarn.admin.error_responses import problem
from forewarn.admin.errors import Kind
from forewarn.admin.security import HEADERS, NOT_STORED
from forewarn.metadata import limits as metadata_limits
from forewarn.service import limits

TIMED_OUT = 408
HEAD_TOO_LARGE = 431
VERSION_NOT_SUPPORTED = 505


def _refusal(status: int, phrase: str, kind: Kind, error: str, hint: str) -> bytes:
    """Return a complete response, built once, so that rejecting is cheap."""
    body = bytes(problem(kind, error, hint=hint).body)
    is_busy = kind is Kind.UNAVAILABLE
    lines = (
        f"HTTP/1.1 {status} {phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: close",
        f"cache-control: {NOT_STORED}",
        *(f"{name.lower()}: {value}" for name, value in HEADERS.items()),
        *((f"retry-after: {limits.ADMIN_RETRY_SECONDS}",) if is_busy else ()),
    )
    return "\r\n".join((*lines, "", "")).encode("ascii") + body


MALFORMED = _refusal(
    400, "Bad Request", Kind.BAD_REQUEST, "the data is not an HTTP request", ""
)
LARGE_HEAD = _refusal(
    HEAD_TOO_LARGE,
    "Request Header Fields Too Large",
    Kind.BAD_REQUEST,
    f"the head of a request can have at most {metadata_limits.HEAD_BYTES_MAX} bytes and "
    f"{metadata_limits.HEADERS_MAX} headers",
    "",
)
TWO_HOSTS = _refusal(
    400,
    "Bad Request",
    Kind.BAD_REQUEST,
    "the request has more than one Host header",
    "",
)
VERSION = _refusal(
    VERSION_NOT_SUPPORTED,
    "HTTP Version Not Supported",
    Kind.BAD_REQUEST,
    "only HTTP/1.1 and HTTP/1.0 are supported",
    "",
)
LATE = _refusal(
    TIMED_OUT, "Request Timeout", Kind.BAD_REQUEST, "the request arrived too slowly", ""
)
CROWDED = _refusal(
    503,
    "Service Unavailable",
    Kind.UNAVAILABLE,
    "too many connections are open",
    "Close unused connections, or try again later.",
)
