"""The starter of a campaign does not decide about it alone, if the service says so."""

import pytest

from forewarn.control.rules.policy import Policy
from forewarn.control.rules.second_person import check
from forewarn.protocol.actors import (
    Actor,
    ActorKind,
    campaign_actor,
    operator,
    tenant_user,
)
from forewarn.protocol.errors import RefusedError

ACT = "approve stage 1 of campaign bios-2.19"


def test_starter_is_refused_and_another_operator_is_not() -> None:
    strict = Policy(second_person=True)
    check(strict, starter=operator("alice"), actor=operator("bob"), act=ACT)
    with pytest.raises(RefusedError, match=f"alice .* cannot {ACT}") as refused:
        check(strict, starter=operator("alice"), actor=operator("alice"), act=ACT)
    assert "second_person" in refused.value.hint
    check(Policy(), starter=operator("alice"), actor=operator("alice"), act=ACT)


def test_another_token_address_or_spelling_is_no_other_person() -> None:
    first = Actor(kind=ActorKind.OPERATOR, name="alice", token="tk-1", peer="192.0.2.1")
    other = Actor(kind=ActorKind.OPERATOR, name="Alice", token="tk-2")
    assert first.is_same_as(other)
    # Without tokens, the service cannot tell people apart.
    assert operator("operator").is_same_as(operator("operator"))
    assert not operator("ci").is_same_as(tenant_user("shop", "ci"))
    assert not tenant_user("web", "ci").is_same_as(tenant_user("shop", "ci"))
    # Two campaigns can have names that differ in upper and lower case.
    assert not campaign_actor("bios").is_same_as(campaign_actor("BIOS"))
