"""The cookie of a session.

The name `__Host-forewarn` makes browsers refuse a cookie that is not `Secure`, or that
another host has set. Not every browser keeps such a cookie from http on the loopback
address. There, no other machine can listen or answer, and a second cookie without the
prefix has the same text. Over http from another machine there is no session.

Cookies belong to a host, not to a port.
"""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import Scope

from forewarn.admin.errors import ForbiddenError
from forewarn.admin.origins import authority_of, scheme_of
from forewarn.admin.provenance import names_loopback, sign_of_proxy
from forewarn.control.sessions import TEXT_CHARACTERS_MAX
from forewarn.instants import SECOND, Micros

NAME = "__Host-forewarn"

LOOPBACK_NAME = "forewarn"

_COMMON = "Path=/; HttpOnly; SameSite=Strict"


def session_text(scope: Scope, headers: Headers) -> str:
    """Return the text of the session in the cookies of a request; empty: there is none.

    If there are several cookies of one name, another program has set one of them, and
    none counts.
    """
    values = _values(headers, NAME)
    if not values and _is_plain_loopback(scope, headers):
        values = _values(headers, LOOPBACK_NAME)
    text = values[0] if len(values) == 1 else ""
    return text if len(text) <= TEXT_CHARACTERS_MAX else ""


def _values(headers: Headers, name: str) -> Sequence[str]:
    pairs = (
        pair.partition("=")
        for line in headers.getlist("cookie")
        for pair in line.split(";")
    )
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def _is_plain_loopback(scope: Scope, headers: Headers) -> bool:
    return (
        scope.get("scheme", "http") == "http"
        and names_loopback(headers.get("host", ""))
        and not sign_of_proxy(scope, headers)
    )


def cookies_of(
    text: str, scope: Scope, headers: Headers, *, left: Micros
) -> Sequence[str]:
    """Return the values of `Set-Cookie` for a session that ends in `left`.

    Raises ForbiddenError if the browser would not keep it. A browser says in `Origin`
    which address it uses, also behind a proxy.
    """
    origin = headers.get("origin", "")
    is_http = (
        scheme_of(origin) == "http" if origin else _is_plain_loopback(scope, headers)
    )
    host = authority_of(origin) if origin else headers.get("host", "")
    if is_http and not names_loopback(host):
        raise ForbiddenError(
            f"no session can begin at {origin}: over http, others could read and take it",
            hint="Use https ([admin] tls_certificate, or a proxy), or forward a port: "
            "ssh -L 8200:127.0.0.1:8200 HOST, and open http://127.0.0.1:8200/console/.",
        )
    age = f"Max-Age={left // SECOND}"
    cookies = [f"{NAME}={text}; {age}; {_COMMON}; Secure"]
    if is_http:
        cookies.append(f"{LOOPBACK_NAME}={text}; {age}; {_COMMON}")
    return cookies


def removed() -> Sequence[str]:
    """Return the values of `Set-Cookie` that remove the cookies."""
    return (
        f"{NAME}=; Max-Age=0; {_COMMON}; Secure",
        f"{LOOPBACK_NAME}=; Max-Age=0; {_COMMON}",
    )
