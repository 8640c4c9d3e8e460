"""What decisions about a host cost whose tenants have many windows."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import rollouts, verbs, windows
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.common_openings import LOOKS_MAX, CommonOpenings
from forewarn.fleet.window_fields import WINDOWS_MAX, window_of
from forewarn.fleet.windows import Opening, Window
from forewarn.protocol.operations import Action, OperationState
from tests.support.worlds import LastingStore, World

SCOPES = 60
TENANTS = 20

HOSTS = 9
"""More than one turn of a rollout looks at."""

Staggering = Callable[[int], tuple[Window, ...]]


def apart(scope: int) -> tuple[Window, ...]:
    """Return as many windows as a scope can have, never open with those of others."""
    starts = (number * 72 + scope for number in range(WINDOWS_MAX))
    return tuple(
        window_of(f"{start // 60:02}:{start % 60:02} 1m Europe/Berlin")
        for start in starts
    )


def one_closed(scope: int) -> tuple[Window, ...]:
    """Return windows that are closed for two minutes, with those of another scope open.

    There is no minute at which all 60 scopes are open.
    """
    closed = scope * 72 // SCOPES
    starts = ((number * 72 + closed + 2) % 1440 for number in range(WINDOWS_MAX))
    return tuple(window_of(f"{start // 60:02}:{start % 60:02} 70m") for start in starts)


def new_world(windows_of: Staggering, *, tenants: int = TENANTS) -> World:
    text = "".join(f'[[tenant]]\nname = "t{number}"\n' for number in range(tenants))
    text += "".join(
        f'[[scope]]\nname = "s{number}"\ntenant = "t{number % tenants}"\n'
        'kind = "availability-set"\n'
        for number in range(SCOPES)
    )
    for host in range(HOSTS):
        text += f'[[host]]\nname = "h{host}"\n' + "".join(
            f'[[vm]]\nname = "s{number}-{host}"\nhost = "h{host}"\n'
            f'scope = "s{number}"\nfault_domain = {host}\n'
            for number in range(SCOPES)
        )
    store = LastingStore()
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=text)
    for number in range(SCOPES):
        own_windows = windows_of(number)
        world.order(
            lambda work, name=f"s{number}", found=own_windows: windows.set_windows(
                work, name, found
            )
        )
    return world


@dataclass(slots=True)
class Looks:
    """How often the openings of windows are looked at."""

    count: int = 0
    most: int = 0
    """The highest count of one search."""


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Generator[Looks]:
    found = Looks()
    real = CommonOpenings._first_opening

    def look(self: CommonOpenings, group: int, at: int) -> Opening:
        before = self.looks
        opening = real(self, group, at)
        found.count += self.looks - before
        found.most = max(found.most, self.looks)
        return opening

    with monkeypatch.context() as patch:
        patch.setattr(CommonOpenings, "_first_opening", look)
        yield found


def maintain(world: World, *hosts: str) -> None:
    world.order(lambda work: verbs.maintain(work, hosts, Action.FREEZE, OrderOptions()))
    world.settle()


@pytest.mark.parametrize("windows_of", [apart, one_closed])
def test_search_of_a_decision_is_bounded(
    windows_of: Staggering, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world(windows_of)
    with counted(monkeypatch) as looks:
        maintain(world, "h0")
    assert [operation.state for operation in world.operations()] == [
        OperationState.PLANNED
    ]
    # One search when it is ordered, one when it has its turn, each with its reason.
    assert looks.most <= 2 * LOOKS_MAX + 2 * SCOPES
    assert looks.count <= 2 * looks.most
    with counted(monkeypatch) as looks:
        world.order(lambda work: windows.set_windows(work, "s9", apart(10)))
        world.settle()
    assert looks.count <= looks.most
    assert world.operations()[0].held_by


def test_turn_of_a_rollout_ends_when_its_hosts_need_many_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = new_world(one_closed)
    real = rollouts.go_on
    turns: list[int] = []

    with counted(monkeypatch) as looks:

        def go_on(work: Work, request_id: str) -> bool:
            before = looks.count
            is_announced = real(work, request_id)
            turns.append(looks.count - before)
            return is_announced

        monkeypatch.setattr(rollouts, "go_on", go_on)
        maintain(world, *(f"h{number}" for number in range(HOSTS)))
    assert all(operation.held_by for operation in world.operations())
    assert len(turns) >= HOSTS
    assert max(turns) <= 2 * LOOKS_MAX + 2 * SCOPES


def test_page_of_coming_work_ends_when_it_needs_many_looks() -> None:
    world = new_world(one_closed, tenants=1)
    maintain(world, *(f"h{number}" for number in range(HOSTS)))

    def pages(after: str = "") -> Iterator[int]:
        while True:
            page = world.read(
                lambda reader, at=after: TenantReader(reader, "t0").upcoming(
                    scope="s0", vm="", after=at, limit=100, now=world.now
                )
            )
            yield len(page.work)
            if not page.next:
                return
            after = page.next

    found = list(pages())
    assert sum(found) == HOSTS
    assert len(found) > 1
