"""Test the meaning of valid fleet files."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.fleet.errors import FleetFileError, Kind, Spot, nowhere
from forewarn.fleet.fields import Forms, derived_vm_id
from forewarn.fleet.file import FleetText, WantedFleet, read_fleet
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm
from forewarn.instants import MINUTE
from forewarn.problems import Problem
from forewarn.settings.forms import Option, from_toml

# Every table and key, with remarks as an author writes them.
EXAMPLE = """\
[[tenant]]
name = "shop"

[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"     # standalone | cloud-service | availability-set | scale-set
approve_user_reboot = false   # and approve_user_redeploy; see protocol.md 5.3
terminate_notice = "5m"       # absent: terminate notification is off (5.7)
os_image_notice = "15m"       # absent: off (5.8)
scale_set = "db"              # its name, where a scope is one of several placement groups
gpu = false                   # with one fault domain: see 6.2

[[host]]
name = "h1"
zone = "1"
capacity = 40                 # VMs it has room for; absent: no limit

[[vm]]
name = "web_0"
host = "h1"
scope = "web"                 # absent: a standalone scope of its own
fault_domain = 0
update_domain = 0
size = "general-4"            # free text; os_image only for memory-preserving ones
memory_preserving = true
spot = false
tags = { role = "web" }       # and resource_group, subscription, location: instance endpoint
address = "192.0.2.4"         # how it is known on the shared listener; one or a list
listen = "127.0.0.1:8301"     # or a listener for this VM alone
"""


def read(text: str) -> WantedFleet:
    return read_fleet(text, name="fleet.toml")


@pytest.mark.clause("5.7", "5.8", "6.1")
def test_every_table_and_setting_is_read() -> None:
    fleet = read(EXAMPLE)
    assert fleet == WantedFleet(
        tenants={"shop": Tenant(name="shop", applied="{}")},
        scopes={
            "web": Scope(
                name="web",
                tenant="shop",
                kind=ScopeKind.AVAILABILITY_SET,
                terminate_notice=5 * MINUTE,
                os_image_notice=15 * MINUTE,
                scale_set="db",
                applied=(
                    '{"kind":"availability-set","os_image_notice":900000000,'
                    '"scale_set":"db","tenant":"shop","terminate_notice":300000000}'
                ),
            )
        },
        hosts={
            "h1": Host(
                name="h1", zone="1", capacity=40, applied='{"capacity":40,"zone":"1"}'
            )
        },
        vms={
            "web_0": Vm(
                name="web_0",
                wire_name="web_0",
                host="h1",
                scope="web",
                tenant="shop",
                view="web",
                size="general-4",
                vm_id=derived_vm_id("web_0"),
                tags=(("role", "web"),),
                addresses=("192.0.2.4",),
                listen="127.0.0.1:8301",
                applied=(
                    '{"address":["192.0.2.4"],"host":"h1","listen":"127.0.0.1:8301",'
                    '"scope":"web","size":"general-4","tags":[["role","web"]]}'
                ),
            )
        },
    )


def test_digest_depends_on_the_text_and_not_on_the_name() -> None:
    text = FleetText(name="a.toml", text=EXAMPLE)
    assert text.digest() == replace(text, name="b.toml").digest()
    assert text.digest() != replace(text, text=f"{EXAMPLE}\n").digest()
    assert text.read() == read(EXAMPLE)
    assert text.read().count() == {"tenants": 1, "scopes": 1, "hosts": 1, "vms": 1}


def test_lone_surrogate_has_a_digest_and_is_refused() -> None:
    text = FleetText(name="a.toml", text='[[vm]]\nname = "\ud800"\n')
    assert text.digest() != replace(text, text="").digest()
    with pytest.raises(FleetFileError):
        text.read()


def test_an_empty_file_is_an_empty_fleet() -> None:
    assert read("") == WantedFleet(tenants={}, scopes={}, hosts={}, vms={})


@pytest.mark.clause("6.1")
def test_vm_without_a_scope_gets_a_standalone_scope() -> None:
    fleet = read('[[host]]\nname = "h"\n[[vm]]\nname = "a"\nhost = "h"\n')
    assert fleet.scopes["a"] == Scope(
        name="a",
        tenant="default",
        kind=ScopeKind.STANDALONE,
        implied=True,
        applied='{"implied":true,"kind":"standalone","tenant":"default"}',
    )
    assert fleet.tenants == {"default": Tenant(name="default", applied="{}")}
    assert (fleet.vms["a"].tenant, fleet.vms["a"].view) == ("default", "a")


def test_single_tenant_owns_entries_without_a_tenant() -> None:
    fleet = read(
        '[[tenant]]\nname = "shop"\n[[scope]]\nname = "s"\nkind = "cloud-service"\n'
        '[[host]]\nname = "h"\n[[vm]]\nname = "a"\nhost = "h"\n'
    )
    assert {name: scope.tenant for name, scope in fleet.scopes.items()} == {
        "s": "shop",
        "a": "shop",
    }


def test_standalone_vm_may_name_its_tenant() -> None:
    fleet = read(
        '[[tenant]]\nname = "shop"\n[[tenant]]\nname = "bank"\n[[host]]\nname = "h"\n'
        '[[vm]]\nname = "a"\nhost = "h"\ntenant = "bank"\n'
    )
    assert fleet.scopes["a"].tenant == "bank"
    assert fleet.vms["a"].tenant == "bank"
    assert "tenant" not in json.loads(fleet.vms["a"].applied)


def test_every_key_of_a_vm_is_read() -> None:
    fleet = read(
        '[[scope]]\nname = "s"\nkind = "scale-set"\n[[host]]\nname = "h"\nzone = "2"\n'
        '[[vm]]\nname = "a"\nwire_name = "db_0"\nhost = "h"\nscope = "s"\n'
        'id = "01234567-89AB-8CDE-8F01-23456789ABCD"\nfault_domain = 1\n'
        'update_domain = 2\nsize = "G1"\nmemory_preserving = false\nspot = true\n'
        'resource_group = "rg"\nsubscription = "sub"\nlocation = "north"\n'
        'address = ["192.0.2.1", "2001:DB8::1", "::ffff:192.0.2.9"]\n'
        'tags.b = "2"\ntags.a = "1"\n'
    )
    assert fleet.vms["a"] == Vm(
        name="a",
        wire_name="db_0",
        host="h",
        scope="s",
        tenant="default",
        view="s@2",
        fault_domain=1,
        update_domain=2,
        size="G1",
        memory_preserving=False,
        spot=True,
        vm_id="01234567-89ab-8cde-8f01-23456789abcd",
        tags=(("a", "1"), ("b", "2")),
        resource_group="rg",
        subscription="sub",
        location="north",
        addresses=("192.0.2.1", "2001:db8::1", "192.0.2.9"),
        applied=fleet.vms["a"].applied,
    )


def test_names_are_case_sensitive() -> None:
    fleet = read('[[host]]\nname = "h"\n[[host]]\nname = "H"\n')
    assert list(fleet.hosts) == ["h", "H"]


def test_equal_settings_are_equal_in_any_spelling() -> None:
    one = read('[[host]]\nname = "h"\ncapacity = 3\nzone = "1"\n')
    other = read('[[host]]\nzone="1"\nname="h"\ncapacity=0x3 # three\n')
    assert one.hosts == other.hosts


def test_default_values_are_not_stored_as_applied() -> None:
    text = '[[host]]\nname = "h"\n[[vm]]\nname = "a"\nhost = "h"\n'
    same = f'{text}wire_name = "a"\nspot = false\nid = "{derived_vm_id("a")}"\n'
    assert read(text).vms == read(same).vms
    assert read(text).vms["a"].applied == '{"host":"h","scope":"a"}'


def test_derived_id_is_a_stable_guid() -> None:
    # Were it to change, every VM of every fleet would get a new identity.
    assert derived_vm_id("web_0") == "c88ae06c-5983-837b-9647-6d185cc47186"
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        derived_vm_id("ü"),
    )


def test_position_in_the_file_is_found_by_name() -> None:
    place = read(
        '[[host]]\nname = "h"\n\n[[vm]]\nname = "a"\nhost = "h"\n[[vm]]\nname = "b"\n'
        'host = "h"\n'
    ).place
    assert place(Kind.VM, "b", "host") == Spot(file="fleet.toml", line=9)
    assert place(Kind.SCOPE, "a", "tenant") == Spot(file="fleet.toml", line=4)
    assert place(Kind.HOST, "gone", "zone") == Spot(file="fleet.toml", line=0)
    assert nowhere(Kind.HOST, "h", "zone") == Spot()


def test_a_problem_without_a_line_names_the_object() -> None:
    problem = Problem(file="f", line=0, key="vm.host", message="is odd", name="a")
    assert str(problem) == "f: vm.host of a: is odd"


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "[[vm]]\n",
                    "[[scope]]\n",
                    "[[host]]\n",
                    "[[tenant]]\n",
                    "[vm]\n",
                    "[vm.tags]\n",
                    "[[vm.x]]\n",
                    'name = "a"\n',
                    'name = "b"\n',
                    'host = "a"\n',
                    'scope = "b"\n',
                    'kind = "scale-set"\n',
                    "vm = [1, {}]\n",
                    "# ü\n",
                ]
            ),
            st.text(max_size=20),
        ),
        max_size=12,
    )
)
def test_any_text_is_parsed_or_refused(parts: list[str]) -> None:
    text = "".join(parts)
    problems: tuple[Problem, ...] = ()
    try:
        read(text)
    except FleetFileError as error:
        problems = error.problems
    lines = text.count("\n") + 1
    assert all(0 <= problem.line <= lines for problem in problems)
    assert len({str(problem) for problem in problems}) == len(problems)


def test_text_value_is_kept_unchanged() -> None:
    assert from_toml(Option(form=Forms.TEXT), "As It Is") == "As It Is"
