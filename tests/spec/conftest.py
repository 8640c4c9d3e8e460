"""The endpoint that black-box checks ask."""

from collections.abc import Iterator

import pytest

from forewarn.control.requests import failures
from forewarn.protocol.operations import Action
from tests.spec import support
from tests.spec.mock_imitation import Mock
from tests.spec.mock_imitation import served as served_mock
from tests.spec.support import ServedWorld, fleet, make_world
from tests.support.worlds import World

EVERYTHING = fleet(
    hosts=["h1", "h2", "h3"],
    scopes={
        "mixed": {
            "tenant": "shop",
            "kind": "availability-set",
            "terminate_notice": "5m",
        },
        "bank": {"tenant": "bank", "kind": "availability-set"},
    },
    vms={
        "m_0": {"host": "h1", "scope": "mixed", "fault_domain": 0},
        "m_1": {"host": "h1", "scope": "mixed", "fault_domain": 0},
        "m_2": {"host": "h2", "scope": "mixed", "fault_domain": 1, "spot": True},
        "m_3": {"host": "h3", "scope": "mixed", "fault_domain": 2},
        "b_0": {"host": "h1", "scope": "bank", "fault_domain": 0},
    },
)


def everything() -> World:
    """Return a world with a VM, `m_0`, whose document has each type and status.

    Nothing starts by itself, since time stands still; and no approval starts
    anything that another scope has not approved.
    """
    world = make_world(EVERYTHING, listening=["m_0", "b_0"])
    support.maintain(world, "h1", action=Action.LIVE_MIGRATE)
    support.redeploy(world, "m_1")
    support.reboot(world, "m_0")
    support.evict(world, "m_2")
    support.terminate(world, "m_0")
    world.order(lambda work: failures.fail_vm(work, "m_3"))
    return world


@pytest.fixture
def endpoint() -> Iterator[ServedWorld]:
    """Serve that world."""
    with support.served(everything()) as served:
        yield served


@pytest.fixture
def mock() -> Iterator[tuple[Mock, str]]:
    mock = Mock()
    mock.show("Scheduled")
    with served_mock(mock) as url:
        yield mock, url
