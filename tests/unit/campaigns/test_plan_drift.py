"""The difference between the plan that an operator has seen, and the one of now."""

from array import array
from dataclasses import replace

import pytest

from forewarn.campaigns.plan_drift import PlanOutline, drift_between
from forewarn.wording import drifts as wording

SEEN = PlanOutline(
    digest="1c36",
    campaign="bios",
    hosts="h1\nh2\nh3\nh4",
    vms=array("L", [0, 1, 2, 3]),
    limits="in_flight 2",
)


def test_equal_plans_have_no_difference() -> None:
    drift = drift_between(SEEN, replace(SEEN, digest="other"))
    assert (drift.gone, drift.new, drift.moved_count) == ((), (), 0)
    assert wording.drift(drift) == (
        "what the hosts can do, or the settings, was changed"
    )


@pytest.mark.parametrize(
    ("hosts", "sentence"),
    [
        ("h1\nh3\nh4", "1 host (h2) is gone"),
        ("h1\nh9\nh2\nh3\nh4\nh8", "2 hosts (h9, h8) are new"),
        ("h1\nh3\nh2\nh4", "the order of 2 hosts is another"),
        ("h4\nh1\nh9", "2 hosts (h2, h3) are gone; 1 host (h9) is new; the order of 2"),
        ("", "4 hosts (h1, h2, h3, h4) are gone"),
    ],
)
def test_hosts_that_are_gone_new_and_moved_are_named(hosts: str, sentence: str) -> None:
    drift = drift_between(SEEN, replace(SEEN, hosts=hosts))
    assert wording.drift(drift).startswith(sentence)


def test_vms_file_and_budgets_are_compared() -> None:
    drift = drift_between(
        SEEN,
        replace(SEEN, vms=array("L", [0, 1, 2]), campaign="x", limits="in_flight 3"),
    )
    assert wording.drift(drift) == (
        "the campaign file was changed; 3 fewer VMs; budgets, stages or refused hosts "
        "are others"
    )
    more = drift_between(SEEN, replace(SEEN, vms=array("L", [7])))
    assert wording.drift(more) == "1 more VM"


def test_few_hosts_are_named_and_all_counted() -> None:
    hosts = "\n".join(f"x{number}" for number in range(100))
    drift = drift_between(SEEN, replace(SEEN, hosts=f"{SEEN.hosts}\n{hosts}"))
    assert (len(drift.new), drift.new_count) == (20, 100)
    assert "100 hosts (x0, x1, x2, x3, x4, …) are new" in wording.drift(drift)
