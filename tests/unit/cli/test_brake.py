"""`forewarn brake`: what an operator sees and can do while no routine work may begin."""

import json
from collections.abc import Callable

import pytest

from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]

REASON = "power is unstable"


def shown(forewarn: Run) -> dict[str, object]:
    return json.loads(forewarn("brake", "show", "--json").out)


@pytest.mark.usefixtures("service")
def test_brake_is_shown_with_who_put_it_on_and_why(forewarn: Run) -> None:
    off = {"on": False, "by": None, "reason": None, "since": None}
    assert shown(forewarn) == off
    assert forewarn("brake", "show").out == "the brake is off\n"
    ended = forewarn("brake", "on", "--reason", REASON)
    assert ended.status == 0
    assert ended.out.startswith("the brake is on since ")
    assert ended.out.endswith(f"by operator: {REASON}\n")
    told = shown(forewarn)
    assert (told["on"], told["by"], told["reason"]) == (True, "operator", REASON)
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
    told = forewarn("explain", waiting["operation"]).out
    assert "brake" in told
    assert REASON in told
    assert "forewarn brake off" in told
    history = forewarn("history").out
    assert "brake on" in history
