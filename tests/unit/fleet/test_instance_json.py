"""The facts of the instance endpoint as JSON: the same document, and no more than it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from forewarn.fleet import instance, instance_json
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm

VM = Vm(
    name="shop/web_7",
    wire_name="web_7",
    host="h1",
    scope="web",
    tenant="shop",
    view="web",
    vm_id="13f56399-bd52-4150-9748-7190aae1ff21",
    fault_domain=2,
    update_domain=1,
    size="general-4",
    spot=True,
    tags=(("role", "web"), ("a", "")),
    resource_group="rg",
    subscription="sub",
    location="north",
    addresses=("192.0.2.7",),
)
FACTS = InstanceFacts(
    vm=VM,
    scope=Scope(name="web", tenant="shop", kind=ScopeKind.SCALE_SET),
    host=Host(name="h1", zone="3"),
)
STANDALONE = replace(
    FACTS,
    vm=replace(VM, spot=False, tags=(), fault_domain=0, wire_name="db"),
    scope=Scope(name="db", tenant="shop", kind=ScopeKind.STANDALONE),
    host=Host(name="h1"),
)
GROUP = replace(
    FACTS,
    scope=Scope(name="g1", tenant="shop", kind=ScopeKind.SCALE_SET, scale_set="web"),
)


@pytest.mark.parametrize("facts", [FACTS, STANDALONE, GROUP])
@pytest.mark.parametrize("version", [instance.VERSIONS[0], instance.VERSIONS[-1]])
def test_a_relay_shows_the_same_document(facts: InstanceFacts, version: str) -> None:
    text = json.dumps(instance_json.members_of(facts))
    back = instance_json.facts_of(json.loads(text), addresses=facts.vm.addresses)
    assert instance.document(back, version=version) == instance.document(
        facts, version=version
    )


def test_a_relay_learns_neither_host_nor_tenant() -> None:
    text = json.dumps(instance_json.members_of(FACTS))
    assert "shop" not in text
    assert "h1" not in text


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {"name": 1},
        {"fault_domain": True},
        {"fault_domain": "1"},
        {"zone": 3},
        {"tags": {"a": "b"}},
        {"tags": [["a"]]},
        {"tags": [["a", 1]]},
    ],
)
def test_wrong_facts_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        instance_json.facts_of(wrong, addresses=())
