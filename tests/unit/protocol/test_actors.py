"""Actors: their texts, and what code decides on."""

from __future__ import annotations

import pytest

from forewarn.protocol import actors
from forewarn.protocol.actors import Actor, ActorKind, operator, tenant_user, vm_actor

TEXTS = [
    (operator("alice"), "alice", "(alice)"),
    (tenant_user("shop", "ci"), "shop/ci", "(shop/ci)"),
    (vm_actor("web_0"), "vm web_0", "web_0"),
    (actors.VMS, "vm", ""),
    (actors.CLOCK, "clock", "(clock)"),
    (actors.DRIVER, "driver", "(driver)"),
    (actors.service_part("webhooks"), "webhooks", "(webhooks)"),
    (actors.POLICY, "policy", "(policy)"),
    (actors.PLATFORM, "platform", "(platform)"),
]


@pytest.mark.parametrize(("actor", "text", "approver"), TEXTS)
def test_actor_of_each_kind_is_formatted(
    actor: Actor, text: str, approver: str
) -> None:
    assert actor.text == text
    assert actor.as_approver == approver


def test_every_actor_kind_has_an_expected_text() -> None:
    assert {actor.kind for actor, _, _ in TEXTS} == set(ActorKind)


def test_only_a_tenant_token_belongs_to_the_tenant() -> None:
    assert tenant_user("shop", "ci").is_of("shop")
    assert not tenant_user("bank", "ci").is_of("shop")
    # A name that reads like a tenant's token gives no rights.
    assert not operator("shop/ci").is_of("shop")


def test_people_are_compared_by_their_names_in_any_case_and_components_exactly() -> (
    None
):
    assert operator("alice").is_same_as(operator("Alice"))
    assert tenant_user("shop", "ci").is_same_as(tenant_user("shop", "CI"))
    assert not tenant_user("shop", "ci").is_same_as(tenant_user("bank", "ci"))
    assert not operator("ci").is_same_as(tenant_user("shop", "ci"))
    part = actors.service_part("fleet file")
    assert part.is_same_as(actors.service_part("fleet file"))
    assert not part.is_same_as(actors.service_part("Fleet file"))
