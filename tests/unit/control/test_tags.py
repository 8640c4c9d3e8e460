"""VMs are found by their tags, and a tenant finds only its own."""

import pytest

from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from tests.support.worlds import World

FLEET = """
tenant = [{ name = "shop" }, { name = "bank" }]
host = [{ name = "h1" }]
vm = [
  { name = "a", host = "h1", tenant = "shop", tags = { role = "web", site = "x" } },
  { name = "b", host = "h1", tenant = "bank", tags = { role = "web" } },
  { name = "c", host = "h1", tenant = "shop", tags = { role = "db" } },
]
"""


@pytest.mark.parametrize(
    ("tenant", "tag", "found"),
    [
        ("", "role=web", ["a", "b"]),
        ("", "site=x", ["a"]),
        ("", "role", []),
        ("shop", "role=web", ["a"]),
        ("shop", "role=db", ["c"]),
        ("bank", "role=db", []),
    ],
)
def test_tag_finds_the_vms_that_a_reader_may_see(
    tenant: str, tag: str, found: list[str]
) -> None:
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=FLEET)
    vms = world.read(
        lambda reader: list(
            every(
                TenantReader(reader, tenant) if tenant else reader,
                kinds.VMS_WITH_TAG,
                tag,
            )
        )
    )
    assert [vm.name for vm in vms] == found
