"""The baseline on uvicorn: plain ASGI with one fixed response.

BENCH_BODY and BENCH_ETAG have the file and the ETag of the response.
"""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

_BODY = Path(os.environ["BENCH_BODY"]).read_bytes()
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", str(len(_BODY)).encode()),
        (b"etag", os.environ["BENCH_ETAG"].encode()),
    ],
}
_END = {"type": "http.response.body", "body": _BODY}


async def app(
    scope: MutableMapping[str, Any],
    _receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Return the fixed response."""
    assert scope["type"] == "http"
    await send(_START)
    await send(_END)
