"""The headers that each response has, so that a browser neither runs foreign code in a
page of this origin, nor shows it inside another page, nor keeps what it says."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html"
)
"""Pages load only files of this origin, and no inline script or style. Text becomes
markup only in the library that fills in the pages."""

HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The same for pages, files, answers and refusals."""

NOT_STORED = "no-store"
"""`Cache-Control` of all responses but pages and files, which set another value."""


class Secured:
    """Middleware that adds the headers to each response."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", NOT_STORED)
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, sending)
