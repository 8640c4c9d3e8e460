"""`forewarn brake`: what an operator sees and can do while no planned work may begin."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from forewarn.control.rules.policy import BrakeLimits
from forewarn.instants import HOUR
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]

REASON = "power is unstable"


def shown(forewarn: Run) -> dict[str, object]:
    return json.loads(forewarn("brake", "show", "--json").out)


@pytest.mark.usefixtures("service")
def test_brake_is_shown_with_who_put_it_on_and_why(forewarn: Run) -> None:
    nothing = ("by", "reason", "since", "text", "losses", "ends")
    off = {**dict.fromkeys(nothing), "on": False, "withdraws": False}
    assert shown(forewarn) == off
    assert forewarn("brake", "show").out == "the brake is off\n"
    ended = forewarn("brake", "on", "--reason", REASON)
    assert ended.status == 0
    assert ended.out.startswith(
        f"the brake is on until `forewarn brake off`, by operator: {REASON}; it came on at "
    )
    brake = shown(forewarn)
    assert (brake["on"], brake["by"], brake["reason"]) == (True, "operator", REASON)
    assert forewarn("brake", "off").out == "the brake is off\n"
    assert shown(forewarn) == off


@pytest.mark.usefixtures("service")
def test_brake_is_refused_without_a_reason_and_twice(forewarn: Run) -> None:
    ended = forewarn("brake", "on")
    assert ended.status == 4
    assert "the brake needs a reason" in ended.err
    assert "hint: Add --reason TEXT." in ended.err
    assert forewarn("brake", "on", "--reason", REASON).status == 0
    ended = forewarn("brake", "on", "--reason", "another")
    assert ended.status == 4
    assert REASON in ended.err
    assert "forewarn brake off" in ended.err
    assert forewarn("brake", "off").status == 0
    ended = forewarn("brake", "off")
    assert (ended.status, "the brake is not on" in ended.err) == (4, True)


def test_brake_refuses_maintenance_and_lets_users_restart_their_vms(
    service: Served, forewarn: Run
) -> None:
    service.do(lambda: service.gateway.enable("web_0"))
    assert forewarn("maintain", "h1", "--impact", "reboot").status == 0
    assert forewarn("brake", "on", "--reason", REASON).status == 0
    ended = forewarn("maintain", "h2", "--impact", "freeze")
    assert ended.status == 4
    assert REASON in ended.err
    assert "forewarn brake off" in ended.err
    assert forewarn("reboot", "web_1").status == 0
    [waiting] = json.loads(forewarn("operations", "--host", "h1", "--json").out)
    message = forewarn("explain", waiting["operation"]).out
    assert "brake" in message
    assert REASON in message
    assert "forewarn brake off" in message
    history = forewarn("history").out
    assert "brake on" in history


def test_lost_vms_put_the_brake_on_and_withdraw_announced_work(
    service: Served, forewarn: Run
) -> None:
    plane = service.gateway.plane
    plane.policy = replace(plane.policy, brake=BrakeLimits(vms=1, calm=HOUR))
    service.do(lambda: service.gateway.enable("web_0"))
    assert forewarn("maintain", "h1", "--impact", "reboot").status == 0
    assert forewarn("fail", "db_0", "db_1").status == 0
    brake = shown(forewarn)
    assert brake["losses"] == {
        "what": "vms",
        "rack": None,
        "count": 2,
        "most": 1,
        "within": "10m",
        "named": ["db_0", "db_1"],
    }
    assert (brake["by"], brake["reason"], brake["withdraws"]) == ("brake", None, True)
    why = "because 2 VMs were lost within 10 m, more than 1: db_0, db_1"
    message = forewarn("brake", "show").out
    assert message.startswith(
        f"the brake is on until `forewarn brake off`, {why}; it came "
    )
    assert (
        "; announced planned work is withdrawn; unless more is lost, it ends "
        in message
    )
    waiting = json.loads(forewarn("operations", "--host", "h1", "--json").out)
    # The other one is the failure of db_0.
    assert sorted(operation["state"] for operation in waiting) == [
        "Impacting",
        "Planned",
    ]
    assert why in forewarn("history").out
    assert why in " ".join(forewarn("problems").out.split())


@pytest.mark.usefixtures("service")
def test_operator_withdraws_announced_work_by_hand(forewarn: Run) -> None:
    assert forewarn("maintain", "h1", "--impact", "reboot").status == 0
    ended = forewarn("brake", "on", "--withdraw", "--reason", REASON)
    assert ended.out.endswith("; announced planned work is withdrawn\n")
    waiting = json.loads(forewarn("operations", "--host", "h1", "--json").out)
    assert [operation["state"] for operation in waiting] == ["Planned"]
    assert forewarn("brake", "off").status == 0
    waiting = json.loads(forewarn("operations", "--host", "h1", "--json").out)
    assert [operation["state"] for operation in waiting] == ["Announced"]
