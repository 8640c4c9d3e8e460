"""GateState by: approving for a named VM whose own agent stays silent."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.agent.core.approving import PEERS_EVERY
from forewarn.agent.core.policy import Policy, Standby, Window
from forewarn.instants import HOUR, SECOND
from tests.unit.agent.core.support import DRAIN, Life, notice, policy

LUNCH = Window(days=frozenset(range(7)), begins=12 * 60, ends=13 * 60)
OTHER = notice(resources=("vm2",), source="User")
STANDBY = Standby(names=("vm2",))


def stands_by(**values: Any) -> Policy:
    return policy(DRAIN, standby=STANDBY, **values)


@pytest.mark.clause("8.3")
def test_default_settings_do_not_approve_for_other_vms() -> None:
    life = Life(policy(DRAIN))
    life.poll(OTHER)
    life.sleep(HOUR)
    assert life.sent == []
    assert life.runs == []
    assert life.waits == {}


@pytest.mark.clause("8.3", "8.6")
def test_a_secondary_approves_for_a_silent_primary() -> None:
    life = Life(stands_by())
    life.poll(OTHER)
    assert life.waits == {"E1": "on standby for vm2"}
    life.sleep(60 * SECOND - 1)
    assert life.sent == []
    life.sleep(1)
    assert life.sent == ["E1"]
    assert life.runs == []


@pytest.mark.clause("8.3")
@pytest.mark.parametrize(
    "values",
    [
        {"source": "Platform"},
        {"resources": ("vm3",)},
        {"resources": ("vm20",)},
        {"resources": ("vm2", "vm9")},
        {"resources": ()},
        {"event_type": "Terminate"},
    ],
)
def test_secondary_approves_no_other_events(values: dict[str, Any]) -> None:
    life = Life(stands_by())
    shown: dict[str, Any] = {"resources": ("vm2",), "source": "User", **values}
    life.poll(notice(**shown))
    life.sleep(HOUR)
    assert life.sent == []


def test_standby_for_any_source_approves_platform_events() -> None:
    standby = Standby(names=("vm2",), source=())
    life = Life(policy(DRAIN, standby=standby))
    life.poll(notice(resources=("vm2",)))
    life.sleep(60 * SECOND)
    assert life.sent == ["E1"]


def test_secondary_does_not_approve_for_an_answering_primary() -> None:
    life = Life(stands_by(has_peers=True))
    life.poll(OTHER)
    for _ in range(60):
        life.hear("vm2", is_prepared=False)
        life.sleep(PEERS_EVERY)
    assert life.sent == []
    assert life.asked[0].names == ("vm2",)
    life.sleep(60 * SECOND)
    assert life.sent == ["E1"]


def test_a_secondary_asks_only_where_there_are_peers() -> None:
    life = Life(stands_by())
    life.poll(OTHER)
    assert life.asked == []


def test_a_secondary_asks_every_two_seconds_as_long_as_it_waits() -> None:
    life = Life(stands_by(has_peers=True, blackouts=(LUNCH,)))
    life.poll(OTHER)
    life.sleep(10 * SECOND)
    assert len(life.asked) == 1 + 5
    # Its time has come, and only the hour is wrong.
    life.sleep(90 * SECOND)
    assert len(life.asked) == 1 + 50


def test_a_secondary_may_stand_by_for_several() -> None:
    standby = Standby(names=("vm2", "vm3"))
    life = Life(policy(DRAIN, standby=standby, has_peers=True))
    life.poll(OTHER)
    assert life.asked[0].names == ("vm2",)
    life.sleep(60 * SECOND)
    assert life.sent == ["E1"]
    life = Life(policy(DRAIN, standby=standby, has_peers=True))
    life.poll(notice(resources=("vm2", "vm3"), source="User"))
    assert life.asked[0].names == ("vm2", "vm3")
    life.sleep(30 * SECOND)
    life.hear("vm3", is_prepared=False)
    life.sleep(60 * SECOND - 1)
    assert life.sent == [], "one of them is not silent"
    life.sleep(1)
    assert life.sent == ["E1"]


@pytest.mark.parametrize("has_peers", [False, True])
def test_secondary_respects_the_windows(*, has_peers: bool) -> None:
    life = Life(stands_by(blackouts=(LUNCH,), has_peers=has_peers))
    life.poll(OTHER)
    life.sleep(HOUR - 1)
    assert life.sent == []
    life.sleep(PEERS_EVERY)
    assert life.sent == ["E1"]
