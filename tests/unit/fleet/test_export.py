"""The actual fleet as a fleet file."""

from forewarn.fleet.export import export_fleet, export_tables
from forewarn.fleet.fields import Forms, derived_vm_id, toml_value
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm, VmState
from forewarn.instants import MINUTE
from forewarn.settings.forms import Option


def vm(name: str, **values: str) -> Vm:
    return Vm(
        name=name,
        wire_name=name,
        host="h",
        scope=values.get("scope", name),
        tenant="t",
        view="",
        vm_id=derived_vm_id(name),
    )


def own_scope(name: str, tenant: str) -> Scope:
    return Scope(name=name, tenant=tenant, kind=ScopeKind.STANDALONE, implied=True)


WRITTEN = """\
[[tenant]]
name = "default"

[[tenant]]
name = "t"

[[scope]]
name = "web"
tenant = "t"
kind = "scale-set"
terminate_notice = "5m1us"
gpu = true

[[host]]
name = "g"

[[host]]
name = "h"
zone = "1"
cluster = "c1"
rack = "r7"
pool = "amd"
capacity = 4
vcpu = 0
memory = "1536MiB"
labels = {model = "r7525", "os.kernel" = "6.12"}
last = true

[[vm]]
name = "a"
host = "h"
scope = "web"
fault_domain = 2
wire_name = "odd \\"\\\\ \\u007fname"
id = "01234567-89ab-8cde-8f01-23456789abcd"
vcpu = 2
memory = "1GiB"
movable = false
memory_preserving = false
spot = true
tags = {k = "v", "k 2" = ""}
address = ["192.0.2.1", "192.0.2.2"]

[[vm]]
name = "b"
host = "h"
tenant = "t"
"""


def test_export_omits_default_values() -> None:
    text = export_fleet(
        [Tenant(name="t"), Tenant(name="default")],
        [
            Scope(
                name="web",
                tenant="t",
                kind=ScopeKind.SCALE_SET,
                gpu=True,
                terminate_notice=5 * MINUTE + 1,
            ),
            own_scope("b", "t"),
            own_scope("gone", "t"),
        ],
        [
            Host(
                name="h",
                zone="1",
                cluster="c1",
                rack="r7",
                pool="amd",
                capacity=4,
                vcpu=0,
                memory=1536,
                labels=(("model", "r7525"), ("os.kernel", "6.12")),
                last=True,
            ),
            Host(name="g", applied="{}"),
        ],
        [
            vm("b"),
            Vm(
                name="a",
                wire_name='odd "\\ \x7fname',
                host="h",
                scope="web",
                tenant="t",
                view="web@1",
                fault_domain=2,
                vcpu=2,
                memory=1024,
                movable=False,
                spot=True,
                memory_preserving=False,
                vm_id="01234567-89ab-8cde-8f01-23456789abcd",
                tags=(("k", "v"), ("k 2", "")),
                addresses=("192.0.2.1", "192.0.2.2"),
                state=VmState.DOWN,
                moving_to="g",
                started=("op-1",),
                revision=7,
            ),
            Vm(
                name="gone",
                wire_name="gone",
                host="h",
                scope="gone",
                tenant="t",
                view="gone",
                vm_id="",
                state=VmState.DELETED,
            ),
        ],
    )
    assert text == WRITTEN


def test_implied_default_tenant_is_not_exported() -> None:
    text = export_fleet(
        [Tenant(name="default")],
        [
            Scope(name="s", tenant="default", kind=ScopeKind.CLOUD_SERVICE),
            own_scope("a", "default"),
        ],
        [],
        [vm("a"), vm("x", scope="s")],
    )
    assert (
        text
        == """\
[[scope]]
name = "s"
kind = "cloud-service"

[[vm]]
name = "a"
host = "h"

[[vm]]
name = "x"
host = "h"
scope = "s"
"""
    )


def test_tenant_without_scopes_is_exported() -> None:
    text = export_fleet([Tenant(name="default")], [], [], [])
    assert text == '[[tenant]]\nname = "default"\n'


def test_exported_tables_are_separated_by_one_blank_line() -> None:
    text = export_fleet([], [], [Host(name="h1"), Host(name="h2")], [])
    assert text == '[[host]]\nname = "h1"\n\n[[host]]\nname = "h2"\n'


def test_one_address_is_written_without_a_list_and_unicode_without_escapes() -> None:
    assert toml_value(Option(form=Forms.ADDRESSES), ("192.0.2.1",)) == '"192.0.2.1"'
    assert toml_value(Option(form=Forms.TEXT), "Zürich") == '"Zürich"'


def test_vms_are_exported_in_the_given_order() -> None:
    parts = list(
        export_tables(
            [], [own_scope("b", "t"), own_scope("a", "t")], [], [vm("b"), vm("a")]
        )
    )
    assert [part.splitlines()[-3] for part in parts] == ['name = "b"', 'name = "a"']
    assert len(parts) == 2
