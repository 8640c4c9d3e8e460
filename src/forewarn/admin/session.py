"""Sessions of the console: begun by a token or a link, and ended by logging out.

The token is in no cookie, address or log: the browser gets a pass that its holder's token
ends (`control.sessions`).
"""

from dataclasses import replace
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from forewarn import ids
from forewarn.admin.access import (
    CONSOLE,
    LOCAL_USER,
    SESSION,
    Caller,
    orders_of,
    unauthorized,
)
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import caller_of, v1_router
from forewarn.admin.cookies import cookies_of, removed
from forewarn.admin.decisions import Decision
from forewarn.admin.errors import ForbiddenError, UnauthorizedError
from forewarn.admin.gate import peer_of
from forewarn.admin.gateways import gateway_for
from forewarn.admin.identity import Identity
from forewarn.admin.leader import Leading
from forewarn.admin.leading import refusal_of
from forewarn.admin.session_bodies import (
    EmptyBody,
    EndedPass,
    LinkShape,
    Login,
    SessionEndShape,
    SessionShape,
)
from forewarn.admin.throttle import source_of
from forewarn.control import sessions
from forewarn.control.gateway import OperatorGateway
from forewarn.control.sessions import Pass, PassKind
from forewarn.instants import Micros, format_instant
from forewarn.protocol.errors import RefusedError
from forewarn.store.records import Token
from forewarn.verbs.roles import READ_ONLY

router = v1_router(tags=["sessions"])


def _gateway(request: Request) -> OperatorGateway:
    return cast("OperatorGateway", request.app.state.gateway)


@router.get("/session", responses=documented(SessionShape))
async def show_session(request: Request) -> Response:
    """Return who the caller is, and what this service offers."""
    caller = caller_of(request)
    session = cast("Pass | None", request.scope.get(SESSION))
    ends_at: Micros = 0
    if session is not None:
        ends_at = session.ends_at
    elif caller.token_id:
        token = await _gateway(request).read(
            lambda reader: reader.get(Token, caller.token_id)
        )
        ends_at = 0 if token is None else token.expires_at
    return answer(_report(request, caller, ends_at=ends_at))


def _report(request: Request, caller: Caller, *, ends_at: Micros) -> dict[str, Any]:
    state = request.app.state
    return {
        "name": caller.name,
        "tenant": caller.tenant or None,
        "roles": [role.value for role in caller.roles],
        "read_only": caller.roles == READ_ONLY,
        "orders": orders_of(caller),
        "identified_by": _identified_by(request, caller),
        "expires": format_instant(ends_at) if ends_at else None,
        "now": format_instant(_gateway(request).now()),
        "version": request.app.version,
        "features": list(state.features),
    }


def _identified_by(request: Request, caller: Caller) -> str:
    if request.scope.get(SESSION) is not None:
        return "session"
    if "authorization" in request.headers:
        return "token"
    return "user" if caller.name.startswith(LOCAL_USER) else "nothing"


@router.post(
    "/session",
    status_code=201,
    responses=documented(SessionShape, 400, 409, status=201),
)
async def begin_session(body: Login, request: Request) -> Response:
    """Begin a session, with a token or a link of `forewarn console`.

    The response sets the cookie of the session. It ends with the token, by logging out,
    and after 12 hours. Failures count like invalid tokens.
    """
    leading: Leading | None = request.app.state.leading
    if body.link and leading is not None and leading.elsewhere is not None:
        # That the link is used must be stored.
        return refusal_of(leading.elsewhere)
    gateway, identity = _gateway(request), cast("Identity", request.app.state.identity)
    # Before a link is used: the browser may not keep the cookie.
    cookies_of("", request.scope, request.headers, left=0)
    caller = (
        await _open_link(gateway, identity, request, body.link)
        if body.link
        else await identity.of_token(gateway, body.token, source=_source(request))
    )
    if caller is None:
        raise unauthorized()
    if caller.host:
        raise ForbiddenError(
            f"the token of the relay of {caller.host} cannot begin a session",
            hint="Use the token of an operator or a tenant.",
        )
    made, text = await identity.new_pass(
        gateway,
        caller,
        kind=PassKind.SESSION,
        pass_id=_new_id(),
        lifetime=sessions.SESSION_LIFETIME,
    )
    request.scope[SESSION] = made
    begun = answer(_report(request, caller, ends_at=made.ends_at), status=201)
    left = made.ends_at - gateway.now()
    for cookie in cookies_of(text, request.scope, request.headers, left=left):
        begun.headers.append("Set-Cookie", cookie)
    return begun


async def _open_link(
    gateway: OperatorGateway, identity: Identity, request: Request, text: str
) -> Caller:
    """Return the creator of a link, which is used now.

    Raises UnauthorizedError and TooManyError.
    """
    source = _source(request)
    try:
        holder = await identity.of_pass(gateway, text, PassKind.LINK, source=source)
    except UnauthorizedError as error:
        raise _link_over() from error
    if holder is None:
        identity.throttle.failed(source, text)
        raise _link_over()
    current = caller_of(request)
    if (
        request.scope.get(SESSION) is not None
        and current.actor != replace(holder.caller, peer=current.peer).actor
    ):
        raise RefusedError(
            f"this browser has a session of {current.name}, and the link is one of "
            f"{holder.caller.name}",
            hint="Log out, then open the link again.",
        )
    await _order(gateway, holder.caller, "console-open", _ended(holder.ends))
    return holder.caller


def _link_over() -> UnauthorizedError:
    return UnauthorizedError(
        "the link has been used already, is too old, or is of another service",
        hint="Create another one: `forewarn console`.",
    )


@router.delete("/session", responses=documented(SessionEndShape))
async def end_session(request: Request) -> Response:
    """Log out: end the session of the cookie, and its streams.

    If the end cannot be stored, the session goes on, and the request can be repeated. A
    replica that follows ends the session only for itself (`"ended": false`).
    """
    gateway = _gateway(request)
    session = cast("Pass | None", request.scope.get(SESSION))
    leading: Leading | None = request.app.state.leading
    leads = leading is None or leading.elsewhere is None
    if session is not None and leads:
        await _order(gateway, caller_of(request), "console-end", _ended(session))
    elif session is not None:
        cast("Identity", request.app.state.identity).forget(session)
    ended = answer({"ended": session is not None and leads})
    for cookie in removed():
        ended.headers.append("Set-Cookie", cookie)
    return ended


@router.post(
    "/session/links", status_code=201, responses=documented(LinkShape, status=201)
)
async def create_link(body: EmptyBody, request: Request) -> Response:
    """Create a link that begins one session with the caller's rights.

    It works once, within two minutes, at the leading replica. The service does not store
    it, and the history has who created it.
    """
    gateway, caller = _gateway(request), caller_of(request)
    identity = cast("Identity", request.app.state.identity)
    if not (caller.token_id or caller.is_authenticated):
        raise ForbiddenError(
            "a link needs a token, and this caller has none",
            hint=f"Open {CONSOLE}/ on this machine: no token is needed there.",
        )
    made, text = await identity.new_pass(
        gateway,
        caller,
        kind=PassKind.LINK,
        pass_id=_new_id(),
        lifetime=sessions.LINK_LIFETIME,
    )
    await _order(gateway, caller, "console-link", body)
    report = {
        "link": text,
        "path": f"{CONSOLE}/login#{text}",
        "expires": format_instant(made.ends_at),
    }
    return answer(report, status=201)


def _new_id() -> str:
    return ids.new_secret()[: sessions.ID_DIGITS]


def _ended(given: Pass) -> EndedPass:
    return EndedPass(pass_id=given.pass_id, ends_at=given.ends_at)


def _source(request: Request) -> str:
    return source_of(peer_of(request.scope))


async def _order(
    gateway: OperatorGateway, caller: Caller, name: str, body: EmptyBody | EndedPass
) -> None:
    order = Decision(name=name, body=body, caller=caller)
    await gateway_for(gateway, caller).order(order.who, order)
