"""The origin of a request from a browser.

Without a bearer token, the browser itself shows who the user is: by the cookie of a
session, or because it runs on the right machine. Any page can make it send a request, so
such a request must come from a page of this origin. Browsers say that in `Sec-Fetch-Site`
or `Origin`, which no page can set; programs send neither. A page on another port of the
same host is `same-site`, and cookies do not distinguish ports.
"""

from starlette.datastructures import Headers
from starlette.types import Scope

from forewarn.admin.errors import ForbiddenError
from forewarn.admin.provenance import names_loopback

_SITE = "sec-fetch-site"

_SAME = "same-origin"

_TYPED = "none"
"""The site of an address that the user typed or opened from a bookmark."""

_READS = frozenset({"GET", "HEAD"})

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def is_of_browser(headers: Headers) -> bool:
    """Return whether a browser has sent a request."""
    return _SITE in headers or "origin" in headers


def check_origin(scope: Scope, headers: Headers, *, has_session: bool) -> None:
    """Raise ForbiddenError for a request that a page of another origin sent.

    With the cookie of a session, a request that changes something must say its origin.
    """
    reads = scope["method"] in _READS
    site, origin = headers.get(_SITE), headers.get("origin")
    if site is not None:
        is_foreign = site != _SAME and not (reads and site == _TYPED)
    elif origin is not None:
        is_foreign = authority_of(origin) != _host(origin, headers) or (
            has_session and not _has_scheme(origin, scope)
        )
    elif has_session and not reads:
        raise ForbiddenError(
            "a request with the cookie of a session must have Sec-Fetch-Site or Origin",
            hint="A program sends a token instead: Authorization: Bearer TOKEN.",
        )
    else:
        return
    if is_foreign:
        raise ForbiddenError(
            "a page of another origin sent this request",
            hint="Use the console of this service at /console/, or send "
            "Authorization: Bearer TOKEN.",
        )


def _has_scheme(origin: str, scope: Scope) -> bool:
    """Return whether a page of this scheme can have a session.

    Over http, others can change a page, except on the loopback address. Behind a proxy
    with TLS, the request itself comes over http.
    """
    if scheme_of(origin) == "https":
        return True
    return scope.get("scheme") != "https" and names_loopback(authority_of(origin))


def scheme_of(origin: str) -> str:
    """Return the scheme of an Origin; empty for `null`."""
    scheme, colon, _ = origin.partition("://")
    return scheme.lower() if colon else ""


def authority_of(origin: str) -> str:
    """Return the host and the port of an Origin, without the default port; empty for
    `null`."""
    scheme = scheme_of(origin)
    host = origin.partition("://")[2].lower()
    return host.removesuffix(_DEFAULT_PORTS.get(scheme, ""))


def _host(origin: str, headers: Headers) -> str:
    """Return the Host of a request, without the default port of the origin's scheme."""
    port = _DEFAULT_PORTS.get(scheme_of(origin), "")
    return headers.get("host", "").strip().lower().removesuffix(port)
