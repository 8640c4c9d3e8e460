"""The hosts that a driver which chooses destinations is told to avoid."""

import pytest

from forewarn.control.requests import cordons, failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import avoided
from forewarn.control.rules.policy import Policy
from forewarn.drivers.port import Call
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import Micros
from forewarn.protocol.operations import Action, OperationState
from tests.support.worlds import CrashError, LastingStore, World

FLEET = "".join(
    f'[[host]]\nname = "h{n}"\n[[vm]]\nname = "v{n}"\nhost = "h{n}"\n' for n in range(7)
)


class Witness(SimulatedDriver):
    """A driver that notes its calls."""

    is_reached = True
    """Whether calls reach it; otherwise the service is killed."""

    def __init__(self) -> None:
        super().__init__(targets=[f"h{n}" for n in range(7)])
        self.calls: list[Call] = []

    def begin(self, call: Call, *, now: Micros) -> None:
        if not self.is_reached:
            raise CrashError
        self.calls.append(call)
        super().begin(call, now=now)


def made(*, driver_chooses: bool = True) -> tuple[World, Witness]:
    driver, kept = Witness(), LastingStore()
    policy = Policy(driver_chooses=driver_chooses)
    world = World(store=lambda: kept, driver=driver, fleet=FLEET, policy=policy)
    return world, driver


def maintain(world: World, *hosts: str, action: Action = Action.LIVE_MIGRATE) -> None:
    world.order(
        lambda work: verbs.maintain(work, list(hosts), action, OrderOptions(at_once=1))
    )
    world.settle()


def avoided_by_host(driver: Witness) -> dict[str, tuple[tuple[str, ...], ...]]:
    return {call.host: (call.closed, call.waiting) for call in driver.calls}


def test_driver_is_told_the_hosts_as_they_are_when_the_call_is_made() -> None:
    world, driver = made()
    maintain(world, "h0", "h1", "h2", "h3")
    world.order(lambda work: cordons.cordon(work, "h4"))
    world.order(lambda work: failures.fail_host(work, "h5"))
    world.advance("1h")
    assert {
        operation.state
        for operation in world.operations()
        if operation.host in {"h0", "h1"}
    } == {OperationState.DONE}
    told = avoided_by_host(driver)
    assert told["h0"] == (("h4", "h5"), ("h1", "h2", "h3"))
    assert told["h1"] == (("h4", "h5"), ("h2", "h3"))
    # v0 went to a host that is neither closed nor waits, which is h6.
    assert world.stored_vm("v0").host == "h6"


def test_hosts_of_other_work_are_closed() -> None:
    world, driver = made()
    maintain(world, "h0")
    world.advance("14m")
    maintain(world, "h3", action=Action.FREEZE)
    for _ in range(400):
        if "h0" in avoided_by_host(driver):
            break
        world.advance("10s")
    told = avoided_by_host(driver)
    assert told["h0"] == (("h3",), ())
    assert told.get("h3", ((), ())) == ((), ())


def test_call_that_is_made_after_a_crash_names_the_hosts_too() -> None:
    world, driver = made()
    driver.is_reached = False
    maintain(world, "h0", "h1")
    world.order(lambda work: cordons.cordon(work, "h4"))
    with pytest.raises(CrashError):
        world.advance("1h")
    assert driver.calls == []
    driver.is_reached = True
    world.restart()
    world.settle()
    assert avoided_by_host(driver)["h0"] == (("h4",), ("h1",))


def test_forewarn_tells_no_hosts_if_it_chooses_itself() -> None:
    world, driver = made(driver_chooses=False)
    maintain(world, "h0", "h1")
    world.advance("1h")
    assert driver.calls
    assert set(avoided_by_host(driver).values()) == {((), ())}


def test_number_of_hosts_in_a_call_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avoided, "AVOIDED_MAX", 3)
    world, driver = made()
    maintain(world, "h0", "h1", "h2", "h3")
    world.order(lambda work: cordons.cordon(work, "h4"))
    world.advance("1h")
    # h0 itself counts too. The hosts that come next are named.
    assert avoided_by_host(driver)["h0"] == (("h4",), ("h1",))
