"""Tokens: made, listed and revoked by operators. A secret is told once."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from forewarn import ids
from forewarn.admin import bodies, limits, selection, shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import Actor, Desk
from forewarn.admin.lists import Name
from forewarn.control import tokens
from forewarn.control.work import Who, need
from forewarn.fleet.model import Tenant
from forewarn.instants import Micros, format_instant, parse_duration
from forewarn.store import kinds
from forewarn.store.port import Reader
from forewarn.store.token import Token

router = APIRouter(tags=["tokens"])


class TokenQuery(BaseModel):
    """Which tokens are listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: Name = Field(default="", description="Only those of this tenant.")
    after: Name = Field(default="", description="`next` of the page before.")
    limit: int = Field(default=limits.PAGE_OBJECTS, ge=1, le=limits.PAGE_OBJECTS_MAX)


@router.get("/tokens", responses=documented(shapes.TokenPage, 400, 404))
async def list_tokens(query: Annotated[TokenQuery, Query()], desk: Desk) -> Response:
    """List the tokens of the store, expired ones too; never their secrets."""
    now = desk.now()

    def ask(reader: Reader) -> dict[str, Any]:
        if query.tenant:
            need(reader, Tenant, query.tenant)
        found, following = selection.scan(
            reader,
            kinds.TOKENS_OF_TENANT if query.tenant else kinds.ALL_TOKENS,
            query.tenant,
            matches=lambda _token: True,
            after=query.after,
            limit=query.limit,
        )
        return {
            "tokens": [_report(token, now=now) for token in found],
            "next": following or None,
        }

    return answer(await desk.read(ask))


@router.post(
    "/tokens",
    status_code=201,
    responses=documented(shapes.NewTokenShape, 400, 404, 409, status=201),
)
async def create_token(body: bodies.NewToken, desk: Desk, actor: Actor) -> Response:
    """Make a token. Its text is in this answer, and nowhere else, ever again."""
    secret = ids.new_secret()
    lifetime = None if body.expires_in is None else parse_duration(body.expires_in)
    token = await desk.order(
        Who(actor=actor, reason=body.reason),
        lambda work: tokens.create(
            work,
            name=body.name,
            tenant=body.tenant,
            read_only=body.read_only,
            lifetime=lifetime,
            secret_digest=tokens.digest(secret),
        ),
    )
    report = {"token": tokens.text_of(token, secret), **_report(token, now=desk.now())}
    return JSONResponse(report, 201, headers={"Cache-Control": "no-store"})


@router.post("/tokens/revoke", responses=documented(shapes.TokenShape, 400, 404, 409))
async def revoke_token(body: bodies.RevokeToken, desk: Desk, actor: Actor) -> Response:
    """Make a token good for nothing, at once and for ever."""
    token = await desk.order(
        Who(actor=actor, reason=body.reason),
        lambda work: tokens.revoke(work, body.id),
    )
    return answer(_report(token, now=desk.now()))


def _report(token: Token, *, now: Micros) -> dict[str, Any]:
    return {
        "id": token.token_id,
        "name": token.name,
        "tenant": token.tenant or None,
        "read_only": token.read_only,
        "created": format_instant(token.created_at),
        "created_by": token.created_by,
        "expires": format_instant(token.expires_at) if token.expires_at else None,
        "expired": token.is_expired(now=now),
    }
