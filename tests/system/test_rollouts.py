"""Rollouts of many hosts with `forewarn serve`.

`pytest tests/system/test_rollouts.py --rollout-hosts=1000` runs large ones.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from forewarn.store.check import check
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

HOSTS = 60
DOMAINS = 5
AT_ONCE = 10

FLEET = '[[tenant]]\nname = "shop"\n' + "".join(
    [
        '[[scope]]\nname = "web"\ntenant = "shop"\nkind = "availability-set"\n',
        *(
            f'[[host]]\nname = "h{number:02}"\n'
            f'[[vm]]\nname = "vm_{number:02}"\nhost = "h{number:02}"\nscope = "web"\n'
            f"fault_domain = {number % DOMAINS}\n"
            + ('listen = "127.0.0.1:0"\n' if number == 0 else "")
            for number in range(HOSTS)
        ),
    ]
)

UNDER_WAY = {"Announced", "Ready", "Impacting", "Recovering"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path, FLEET, timing_speed="600").wait_ready()
    yield serving
    serving.process.kill()
    serving.process.wait()


def operations(service: Serving) -> list[dict[str, Any]]:
    """Return all operations, page by page."""
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        page = service.admin(f"/v1/operations?all=true&limit=100{after}")
        rows += page["operations"]
        if not page.get("next"):
            return rows
        after = f"&after={page['next']}"


@pytest.mark.long
def test_rollout_keeps_to_one_domain_and_its_slots(
    service: Serving,
) -> None:
    service.document("vm_00")
    names = [f"h{number:02}" for number in range(HOSTS)]
    service.admin(
        "/v1/maintain", {"hosts": names, "impact": "freeze", "at_once": AT_ONCE}
    )
    most = 0
    domains: list[int] = []

    def look() -> Counter[str]:
        nonlocal most
        current = operations(service)
        busy = [operation for operation in current if operation["state"] in UNDER_WAY]
        announced = {int(operation["host"][1:]) % DOMAINS for operation in busy}
        assert len(announced) <= 1, announced
        domains.extend(announced)
        most = max(most, len(busy))
        return Counter(operation["state"] for operation in current)

    eventually(look, lambda states: states == {"Done": HOSTS}, what="the end")
    assert AT_ONCE // 2 <= most <= AT_ONCE
    assert set(domains) == set(range(DOMAINS))
    # A domain is finished when none of its hosts can be announced.
    changes = sum(before != after for before, after in pairwise(domains))
    assert changes < HOSTS
    assert service.document("vm_00")["Events"] == []
    assert service.terminate() == 0


def two_kinds_of_hosts(count: int) -> str:
    """Return hosts of one scope, and as many hosts with VMs without a scope."""
    return '[[scope]]\nname = "web"\nkind = "availability-set"\n' + "".join(
        f'[[host]]\nname = "web{number}"\n'
        f'[[vm]]\nname = "web_{number}"\nhost = "web{number}"\nscope = "web"\n'
        f"fault_domain = {number % DOMAINS}\n"
        f'[[host]]\nname = "alone{number}"\n'
        f'[[vm]]\nname = "alone_{number}"\nhost = "alone{number}"\n'
        for number in range(count)
    )


def test_rollouts_of_related_and_unrelated_hosts_complete(
    rollout_hosts: int, tmp_path: Path
) -> None:
    """Two parallel rollouts, each with the hosts of one fault domain at a time."""
    fleet = two_kinds_of_hosts(rollout_hosts)
    service = Serving(tmp_path, fleet, timing_speed="600").wait_ready()
    try:
        for kind in ("web", "alone"):
            names = [f"{kind}{number}" for number in range(rollout_hosts)]
            order = {
                "hosts": names,
                "impact": "reboot",
                "at_once": rollout_hosts // DOMAINS,
            }
            response = service.admin("/v1/maintain", order)
            assert len(response["operations"]) == rollout_hosts
        done = 0
        while done < 2 * rollout_hosts:
            # Each check can take as long as a small rollout.
            before = done
            done = eventually(
                lambda: count_done(tmp_path / "forewarn.db"),
                lambda count, before=before: count > before,
                what=f"more than {before} hosts that are done",
            )
        states = Counter(operation["state"] for operation in operations(service))
        assert states == {"Done": 2 * rollout_hosts}
        assert service.terminate() == 0
    finally:
        service.kill()
    assert list(check(tmp_path / "forewarn.db")) == []


def count_done(file: Path) -> int:
    """Return the number of finished operations, without work for the service."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        [[found]] = database.execute(
            "SELECT count(*) FROM operations WHERE state = 'Done'"
        )
    return found
