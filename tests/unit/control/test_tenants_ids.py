"""What the EventIds of one order tell tenants that share a host."""

import pytest

from tests.spec.support import maintain, make_world


@pytest.mark.clause("2.3", "3.3")
def test_event_ids_of_two_tenants_share_no_prefix() -> None:
    world = make_world()
    maintain(world, "h1", "h2")
    begins: dict[str, set[str]] = {}
    for event in world.live_events():
        begins.setdefault(event.tenant, set()).add(event.event_id[:13])
    assert begins.keys() == {"shop", "bank"}
    assert begins["shop"].isdisjoint(begins["bank"])
