"""A fleet file from the API's process: the sender's token and rights are checked again."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from forewarn.admin.access import Caller
from forewarn.admin.decisions import caller_message
from forewarn.admin.errors import ForbiddenError, UnauthorizedError
from forewarn.clock import VirtualClock
from forewarn.control import tokens
from forewarn.control.transactions.work import Who
from forewarn.fleet.model import Host
from forewarn.instants import DAY
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import ForewarnError
from forewarn.service.api import Answers
from forewarn.service.api_channel import Setup
from forewarn.service.api_process import ApiProcess
from forewarn.service.settings import Settings
from forewarn.store.records import Token
from forewarn.verbs.roles import ALL_ROLES, READ_ONLY, Role
from tests.unit.admin.gateway import FLEET, START, LocalGateway

WITH_H9 = f'{FLEET}\n[[host]]\nname = "h9"\n'

ALICE = Who(actor=operator("alice"))


def create(
    gateway: LocalGateway, *, roles: tuple[Role, ...] = (), tenant: str = ""
) -> Caller:
    """Return the caller of a new token."""
    token: Token = asyncio.run(
        gateway.order(
            ALICE,
            lambda work: tokens.create(
                work,
                name="ci",
                tenant=tenant,
                roles=roles,
                lifetime=DAY,
                secret_digest="0" * 64,
                names_in_file=frozenset(),
                is_unauthenticated=False,
            ),
        )
    )
    return Caller.of_token(token)


def merge(gateway: LocalGateway, caller: Caller) -> Any:
    """Send a fleet file with another host to the service."""
    process = ApiProcess(
        Setup(settings=Settings(), tokens=None), clock=VirtualClock(START)
    )
    process._answers = cast("Answers", type("_", (), {"gateway": gateway}))
    message = {
        "ask": "merge",
        "caller": caller_message(caller),
        "file": {"name": "fleet.toml", "may_be_empty": False, "removals_max": ""},
        "reason": "",
        "once": None,
    }
    return asyncio.run(process._ask(message, WITH_H9.encode()))


def has_h9(gateway: LocalGateway) -> bool:
    return gateway.store.read(lambda reader: reader.get(Host, "h9")) is not None


def test_operator_with_a_valid_token_applies_the_file() -> None:
    gateway = LocalGateway()
    merge(gateway, create(gateway))
    assert has_h9(gateway)


def test_file_is_refused_without_the_right_before_it_is_planned() -> None:
    gateway = LocalGateway()
    planned: list[Any] = []

    async def plan(*given: Any, **_: Any) -> Any:
        planned.append(given)

    gateway.merge_fleet = plan  # type: ignore[method-assign]
    for caller in (create(gateway, roles=READ_ONLY), create(gateway, tenant="shop")):
        with pytest.raises(ForbiddenError):
            merge(gateway, caller)
    assert planned == []


@pytest.mark.parametrize(
    "claim", [{"roles": ALL_ROLES}, {"name": "boss"}, {"tenant": ""}], ids=str
)
def test_file_is_refused_if_the_sender_claims_more_than_its_token(
    claim: dict[str, Any],
) -> None:
    gateway = LocalGateway()
    caller = create(gateway, roles=READ_ONLY, tenant="shop")
    with pytest.raises((UnauthorizedError, ForbiddenError)):
        merge(gateway, replace(caller, **claim))
    assert not has_h9(gateway)


def test_file_is_refused_if_the_token_is_revoked_before_the_transaction() -> None:
    """The file was planned while the token was valid."""
    gateway = LocalGateway()
    caller = create(gateway)
    plan_and_apply = gateway.merge_fleet

    async def revoke_first(*given: Any, **named: Any) -> Any:
        await gateway.order(ALICE, lambda work: tokens.revoke(work, caller.token_id))
        return await plan_and_apply(*given, **named)

    gateway.merge_fleet = revoke_first  # type: ignore[method-assign]
    with pytest.raises(ForewarnError, match="valid bearer token"):
        merge(gateway, caller)
    assert not has_h9(gateway)
