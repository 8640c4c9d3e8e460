"""Selectors take the hosts, VMs and scopes to which a request applies, and no others."""

import json
from collections.abc import Callable
from types import MethodType

import pytest

from forewarn.drivers.port import Call, Report, Verdict
from forewarn.instants import Micros
from forewarn.protocol.host_steps import StepRules
from tests.unit.admin.gateway import FLEET, LocalGateway, ObedientDriver
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]

PLACED = FLEET.replace('name = "h1"', 'name = "h1"\nrack = "r1"').replace(
    'name = "h2"', 'name = "h2"\nrack = "r1"'
)
RACK = ("--rack", "r1")
WHY = ("--reason", "a test")


@pytest.fixture
def racked(service: Served) -> Served:
    """Return a service whose hosts h1 and h2 are in rack r1."""
    service.gateway = service.app.state.gateway = LocalGateway(PLACED)
    return service


@pytest.mark.usefixtures("racked")
def test_hosts_of_a_rack_are_cordoned_and_opened_as_they_need_it(forewarn: Run) -> None:
    assert forewarn("host", "cordon", "h1", *WHY).status == 0
    ended = forewarn("host", "cordon", *RACK, *WHY)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("host h2 is cordoned")
    ended = forewarn("host", "cordon", *RACK)
    assert "nothing to host cordon matches --rack r1" in ended.err
    assert forewarn("host", "open", "h1").status == 0
    ended = forewarn("host", "open", *RACK)
    assert (ended.status, ended.out, ended.err) == (0, "host h2 is open\n", "")


def failing_step(
    driver: ObedientDriver, call: Call, *, now: Micros, begin: Callable[..., None]
) -> None:
    """Begin a call, and let each step on host h2 fail."""
    if call.step is None or call.host != "h2":
        begin(call, now=now)
        return
    failed = Report(
        operation_id=call.operation_id,
        generation=call.generation,
        verdict=Verdict.FAILED,
    )
    driver._reports.append(failed)


def test_visits_that_failed_are_retried_or_skipped_by_rack(
    racked: Served, forewarn: Run
) -> None:
    driver, begin = racked.gateway.driver, racked.gateway.driver.begin
    driver.host_steps = lambda: StepRules(takes_any=True)

    def begin_or_fail(self: ObedientDriver, call: Call, *, now: Micros) -> None:
        failing_step(self, call, now=now, begin=begin)

    driver.begin = MethodType(begin_or_fail, driver)
    for host in ("h1", "h2"):
        work = ("--impact", "none", "--work", "flash")
        assert forewarn("maintain", host, *work, *WHY).status == 0
    racked.do(lambda: racked.gateway.advance("1m"))
    for verb in ("retry", "skip"):
        ended = forewarn("visit", verb, *RACK, *WHY)
        assert (ended.status, ended.err) == (0, ""), verb
        assert "host h2 is" in ended.out
        racked.do(lambda: racked.gateway.advance("1m"))
    ended = forewarn("visit", "retry", *RACK, *WHY)
    assert ended.status == 4
    assert "nothing to visit retry matches --rack r1" in ended.err


NAMESAKES = """
[[tenant]]
name = "press"

[[scope]]
name = "print"
tenant = "press"
kind = "availability-set"

[[scope]]
name = "idle"
tenant = "press"
kind = "availability-set"

[[scope]]
name = "empty"
tenant = "press"
kind = "availability-set"

[[vm]]
name = "print"
host = "h1"
scope = "idle"
fault_domain = 0

[[vm]]
name = "print_0"
host = "h1"
scope = "print"
fault_domain = 0

[[vm]]
name = "print_1"
host = "same"
scope = "print"
fault_domain = 1
"""


@pytest.fixture(params=["operator", "tenant"])
def press(
    service: Served, forewarn: Run, request: pytest.FixtureRequest
) -> tuple[str, ...]:
    """Return the options of an operator or a tenant about the tenant `press`.

    A VM has the name of a scope, a scope has no VM, and only h1 and h2 are maintained.
    """
    service.gateway = service.app.state.gateway = LocalGateway(FLEET + NAMESAKES)
    begins = ("--not-before", "+5h")
    ended = forewarn("maintain", "h1", "h2", "--impact", "reboot", *begins, *WHY)
    assert ended.status == 0, ended.err
    token = forewarn("token", "create", "--tenant", "press").out.strip()
    own = ("--token", token) if request.param == "tenant" else ()
    return ("--tenant", "press", *own)


def chosen(ended: Ended) -> set[tuple[str, str | None]]:
    """Return the scope and the VM of each deferral in the output."""
    assert (ended.status, ended.err) == (0, "")
    deferrals = json.loads(ended.out)["deferrals"]
    return {(deferral["scope"], deferral["vm"]) for deferral in deferrals}


LATER = ("--until", "+2d", *WHY, "--json")


def test_vms_with_maintenance_are_deferred_also_if_a_scope_has_the_name(
    forewarn: Run, press: tuple[str, ...]
) -> None:
    vms = {("idle", "print"), ("print", "print_0")}
    assert chosen(forewarn("defer", *press, *LATER)) == vms
    assert chosen(forewarn("defer", *press, "--clear", *WHY, "--json")) == vms
    ended = forewarn("defer", *press, "--clear", *WHY)
    assert ended.status == 4
    assert "nothing to defer matches --tenant press" in ended.err


def test_scopes_with_maintenance_are_deferred_by_tenant(
    forewarn: Run, press: tuple[str, ...]
) -> None:
    scopes = {("idle", None), ("print", None)}
    by_scope = ("--kind", "scope")
    assert chosen(forewarn("defer", *press, *by_scope, *LATER)) == scopes
    clear = ("--clear", *WHY, "--json")
    assert chosen(forewarn("defer", *press, *by_scope, *clear)) == scopes


def test_vms_without_maintenance_are_not_expedited(
    forewarn: Run, press: tuple[str, ...]
) -> None:
    vms = {("idle", "print"), ("print", "print_0")}
    assert chosen(forewarn("expedite", *press, *WHY, "--json")) == vms


def test_planned_maintenance_is_deferred_before_its_announcement(
    service: Served, forewarn: Run
) -> None:
    begins = ("--not-before", "+5h")
    forewarn("maintain", "h1", "h2", "--impact", "reboot", *begins, *WHY)
    states = {
        operation["target"]: operation["state"]
        for operation in json.loads(forewarn("operations", "--json").out)
    }
    assert states == {"h1": "Announced", "h2": "Planned"}
    vms = {("web", "web_0"), ("web", "web_1")}
    assert chosen(forewarn("defer", "--tenant", "shop", *LATER)) == vms


def test_windows_of_a_tenant_are_set_for_scopes_without_vms_too(
    forewarn: Run, press: tuple[str, ...]
) -> None:
    window = ("--window", "22:00 1h", "--json")
    ended = forewarn("window", "set", *press, *window)
    assert ended.status == 0, ended.err
    scopes = json.loads(ended.out)["scopes"]
    assert {scope["scope"] for scope in scopes} == {"print", "idle", "empty"}
    assert forewarn("window", "clear", "idle").status == 0
    ended = forewarn("window", "clear", *press, "--json")
    assert (ended.status, ended.err) == (0, "")
    scopes = json.loads(ended.out)["scopes"]
    assert {scope["scope"] for scope in scopes} == {"print", "empty"}


def test_events_of_a_rollout_are_approved(service: Served, forewarn: Run) -> None:
    service.do(lambda: service.gateway.enable("web_0"))
    forewarn("reboot", "db_1", "--not-before", "+5h")
    begins = ("--not-before", "+5h")
    forewarn("maintain", "h1", "h2", "--impact", "reboot", *begins, *WHY)
    (rollout,) = json.loads(forewarn("rollout", "list", "--json").out)
    ended = forewarn("approve", "--rollout", rollout["rollout"], "--json", *WHY)
    assert (ended.status, ended.err) == (0, "")
    approved = json.loads(ended.out)["approved"]
    assert {event["scope"] for event in approved} == {"web", "db"}
    assert {vm for event in approved for vm in event["Resources"]} == {"web_0", "db_0"}
    ended = forewarn("approve", "--rollout", rollout["rollout"])
    assert ended.status == 4
    assert "nothing to approve matches --rollout ro-" in ended.err
