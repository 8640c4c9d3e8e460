"""Tokens: created, listed and revoked by operators. Only one response has the
secret."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from forewarn import ids
from forewarn.admin import bodies, selection, shapes
from forewarn.admin.answers import SafeJsonResponse, answer, documented
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.decisions import token_report
from forewarn.admin.lists import Name, Paged
from forewarn.admin.orders import Giving
from forewarn.control import tokens
from forewarn.control.transactions.named import need
from forewarn.fleet.model import Tenant
from forewarn.protocol.errors import RefusedError
from forewarn.store import kinds
from forewarn.store.port import Reader
from forewarn.store.records import Token

router = v1_router(tags=["tokens"])


class TokenQuery(Paged):
    """Filter and paging parameters of the tokens."""

    tenant: Name = Field(default="", description="Only tokens of this tenant.")


@router.get("/tokens", responses=documented(shapes.TokenPage, 400, 404))
async def list_tokens(
    query: Annotated[TokenQuery, Query()], gateway: RouteGateway
) -> Response:
    """List the tokens of the store, expired ones too, without their secrets."""
    now = gateway.now()

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
            "tokens": [token_report(token, now=now) for token in found],
            "next": following or None,
        }

    return answer(await gateway.read(ask))


@router.post(
    "/tokens",
    status_code=201,
    responses=documented(shapes.NewTokenShape, 400, 404, 409, 422, status=201),
)
async def create_token(
    body: bodies.NewToken, giver: Giving, request: Request
) -> Response:
    """Create a token. Only this response has its text."""
    gateway = giver.gateway
    secret = ids.new_secret()
    token_id = await giver.give(
        "tokens",
        body,
        secret_digest=tokens.digest(secret),
        names_in_file="\n".join(sorted(request.app.state.names_in_file)),
    )
    if giver.is_repeated:
        raise RefusedError(
            f"this Idempotency-Key has already created token {token_id}, and only the "
            "first response had its text",
            hint=f"Revoke it (`forewarn token revoke {token_id}`) and create another.",
        )
    token = await gateway.read(lambda reader: need(reader, Token, token_id))
    report = {
        "token": tokens.text_of(token, secret),
        **token_report(token, now=gateway.now()),
    }
    return SafeJsonResponse(report, 201, headers={"Cache-Control": "no-store"})


@router.post(
    "/tokens/revoke", responses=documented(shapes.TokenShape, 400, 404, 409, 422)
)
async def revoke_token(body: bodies.RevokeToken, giver: Giving) -> Response:
    """Revoke a token, at once and permanently."""
    return giver.answer(await giver.give("tokens-revoke", body))
