"""Inventories as JSON: read like a fleet file, with places for `jq`."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from forewarn.fleet.errors import Kind
from forewarn.fleet.fields import FIELDS
from forewarn.fleet.file import read_fleet
from forewarn.fleet.inventory import (
    LISTS,
    InventoryError,
    fleet_file,
    read_inventory,
)
from forewarn.problems import PROBLEMS_MAX

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/inventory.md").read_text(encoding="utf-8")

HOSTS = [
    {"name": "h1", "rack": "r1", "vcpu": 64, "memory": "512GiB", "labels": {"a": "b"}},
    {"name": "h2", "rack": "r2", "vcpu": 64, "memory": 524288, "pool": None},
]
VMS = [
    {"name": "web_0", "host": "h1", "vcpu": 4, "memory": 2048, "address": "192.0.2.4"},
    {"name": "db_0", "host": "h2", "address": ["192.0.2.5", "2001:db8::5"]},
]
FLEET = """\
[[host]]
name = "h1"
rack = "r1"
vcpu = 64
memory = "512GiB"
labels = {a = "b"}

[[host]]
name = "h2"
rack = "r2"
vcpu = 64
memory = "512GiB"

[[vm]]
name = "db_0"
host = "h2"
address = ["192.0.2.5", "2001:db8::5"]

[[vm]]
name = "web_0"
host = "h1"
vcpu = 4
memory = "2GiB"
address = "192.0.2.4"
"""


def refused(text: str) -> str:
    with pytest.raises(InventoryError) as caught:
        read_inventory(text, name="/bin/x")
    assert caught.value.hint.startswith("Fix the output of the program")
    return caught.value.message


def printed(**members: Any) -> str:
    return json.dumps({"hosts": HOSTS, "vms": VMS, **members})


def test_an_inventory_becomes_the_fleet_file_that_says_the_same() -> None:
    wanted = read_inventory(printed(), name="/bin/x")
    assert fleet_file(wanted) == FLEET
    again = read_fleet(FLEET, name="fleet.toml")
    assert (dict(again.hosts), dict(again.vms)) == (
        dict(wanted.hosts),
        dict(wanted.vms),
    )


def test_another_order_of_the_inventory_gives_the_same_file() -> None:
    for seed in range(5):
        chance = random.Random(seed)
        hosts, vms = HOSTS.copy(), VMS.copy()
        chance.shuffle(hosts)
        chance.shuffle(vms)
        text = printed(hosts=hosts, vms=vms, scopes=None)
        assert fleet_file(read_inventory(text, name="/bin/x")) == FLEET


def test_scopes_and_tenants_can_come_from_the_inventory() -> None:
    text = printed(
        tenants=[{"name": "shop"}],
        scopes=[{"name": "web", "kind": "availability-set"}],
        vms=[{**VMS[0], "scope": "web", "fault_domain": 2}],
    )
    wanted = read_inventory(text, name="/bin/x")
    assert wanted.scopes["web"].tenant == "shop"
    assert wanted.vms["web_0"].fault_domain == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "/bin/x: is empty, but must be a JSON object"),
        ("[]", "/bin/x: must be a JSON object, not a list"),
        ('{"hosts": [],\n "vms": [', "/bin/x:2: this is not JSON: "),
        ('{"hosts": [{"vcpu": NaN}]}', "/bin/x: this is not JSON: NaN is not a number"),
        ('{"vms": 1, "vms": 2}', 'an object has the member "vms" twice'),
        (
            f'{{"{"1" * 30}": 0.{"3" * 30},\n "vms": [{{"vcpu": -{"7" * 5000}}}]}}',
            "/bin/x:2: a number has 5000 digits, in column 20; the maximum is 20",
        ),
        (
            printed(hosts=[{**HOSTS[0], "vcpu": int("9" * 20)}], vms=[]),
            "/bin/x: .hosts[0]: host.vcpu of h1: ",
        ),
        ("[" * 100_000, "/bin/x: lists or objects are nested too deeply"),
        ("{}", "/bin/x: .hosts: is missing\n/bin/x: .vms: is missing"),
        (printed(vms={}), "/bin/x: .vms: must be a list of objects, not a table"),
        (printed(vms=["a"]), '.vms[0]: must be an object, not the text "a"'),
        (
            printed(vm=[]),
            '"vm": there is no such member; members are tenants, scopes, hosts, vms',
        ),
        (
            printed(vms=[VMS[0], {"name": "b", "host": "h9"}]),
            '/bin/x: .vms[1]: vm.host of b: there is no host "h9"; hosts are h1, h2',
        ),
        (printed(vms=[VMS[0], {"host": "h1"}]), "/bin/x: .vms[1]: vm.name: is missing"),
        (
            printed(vms=[{**VMS[0], "adress": "192.0.2.9"}]),
            '.vms[0]: vm.adress of web_0: there is no such key (did you mean "address"?)',
        ),
        (
            printed(hosts=[{**HOSTS[0], "vcpu": "64"}], vms=[]),
            '.hosts[0]: host.vcpu of h1: must be a whole number, not the text "64"',
        ),
        (printed(vms=[VMS[0], VMS[0]]), "/bin/x: .vms[1]: vm.name of web_0: "),
        (
            printed(vms=[{**VMS[0], "address": "192.0.2.4/24"}]),
            "/bin/x: .vms[0]: vm.address of web_0: ",
        ),
    ],
)
def test_a_bad_inventory_is_refused_with_the_place_of_its_problem(
    text: str, message: str
) -> None:
    assert message in refused(text)


def test_a_thousand_problems_are_a_short_message() -> None:
    bad = [{"name": f"v{number}", "host": "h9"} for number in range(1000)]
    assert len(refused(printed(vms=bad)).splitlines()) == PROBLEMS_MAX + 1
    assert len(refused(printed(vms=["a"] * 1000)).splitlines()) == PROBLEMS_MAX + 1


def test_the_page_lists_every_member() -> None:
    rows = dict(
        re.findall(r"^\| (tenant|scope|host|VM) \| (`.*`) \|$", PAGE, re.MULTILINE)
    )
    for kind in Kind:
        listed = set(re.findall(r"`(\w+)`", rows[kind.value.replace("vm", "VM")]))
        keys = {field.key for field in FIELDS[kind] if field.written} | {"name"}
        assert listed == (keys | {"tenant"} if kind is Kind.VM else keys)
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) >= set(LISTS)
    [example] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert len(read_inventory(example, name="page").vms) == 2


def test_hosts_that_were_not_read_are_named() -> None:
    wanted = read_inventory(printed(unknown_hosts=["h7: no\x1b route"]), name="/bin/x")
    assert len(wanted.unknown_hosts) == 1
    assert "\x1b" not in wanted.unknown_hosts[0]
    for wrong in ("h7", [7], [""], {}):
        message = refused(printed(unknown_hosts=wrong))
        assert message.startswith("/bin/x: .unknown_hosts: must be a list of texts")
