"""The model does what the service does: random walks that both take together.

Without these the search would prove something about the model only. A failure
prints the whole walk and what differs; its seed is in the test's name.
"""

from collections.abc import Callable

import pytest

from forewarn.fleet.model import VmState
from forewarn.protocol.events import EventType
from forewarn.protocol.operations import OperationState
from tests.search import worlds
from tests.search.settings import Setting
from tests.search.state import Label
from tests.search.steps import TICK
from tests.search.twin import Twin
from tests.support.profiles import amounts

WALKS = amounts().walks
STEPS = 60
SETTINGS = (*worlds.WORLDS, worlds.BIG, worlds.CROWDED)


@pytest.mark.amounts
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_model_and_world_behave_the_same(
    setting: Setting, record_property: Callable[[str, object], None]
) -> None:
    steps = crashes = refusals = 0
    for seed in range(WALKS):
        twin = Twin(setting, seed)
        twin.walk(STEPS)
        steps += len(twin.trace)
        crashes += twin.crashes
        refusals += twin.refusals
    record_property(
        "search",
        f"walks in {setting.name}: {WALKS} of {STEPS} steps, {crashes} crashes and "
        f"{refusals} refusals among {steps:,}; model and world never differed",
    )
    assert crashes > WALKS // 2
    assert refusals > WALKS // 2


def test_vm_moved_to_a_failed_host_is_down_and_gets_a_reboot_event() -> None:
    """The search found that such a VM ran on a host that was down."""
    twin = Twin(worlds.MIGRATIONS, 0)
    for label in (
        Label("order", 1),
        Label("approve", 0, 1),
        Label("fail host", 2),
        Label("lose sight", 1),
        Label("resolve done", 1),
    ):
        twin.take(label, crash=False)
    moved = twin.world.stored_vm("v1")
    assert (moved.host, moved.state) == ("h2", VmState.DOWN)
    event_types = [event.event_type for event in twin.world.live_events()]
    assert EventType.REBOOT in event_types


def test_reboot_starts_when_the_host_of_its_vm_is_restored() -> None:
    """The walks found that it waited on: its VM had a failure of its own."""
    twin = Twin(worlds.CROWDED, 0)
    for label in (
        Label("order", 5),
        Label("order", 0),
        Label("approve", 0, 0),
        Label("approve", 1, 0),
        Label("approve", 1, 5),
        Label("done", 0),
        Label("fail host", 3),
        Label("done", 0),
    ):
        twin.take(label, crash=False)
    moved = twin.world.stored_vm("v2")
    assert (moved.host, moved.state) == ("h3", VmState.DOWN)
    assert twin.operations["reboot v2"].state is OperationState.READY
    twin.take(Label("restore host", 3), crash=False)
    assert twin.operations["reboot v2"].state is OperationState.IMPACTING


def test_reverted_clock_step_delays_no_start() -> None:
    """The walks found that such an operation started a step's length late."""
    twin = Twin(worlds.CLOCKS, 0)
    steps = (Label("order", 0), Label("clock forward"), Label("clock back"), TICK, TICK)
    for label in steps:
        twin.take(label, crash=False)
    assert twin.operations["freeze h0"].state is OperationState.IMPACTING
