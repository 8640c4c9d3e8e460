"""A campaign through a service of several processes, from its plan to its end."""

from pathlib import Path
from typing import Any

import pytest

from forewarn.store.check import check
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

HOSTS = 8

FLEET = '[[tenant]]\nname = "shop"\n' + "".join(
    f'[[scope]]\nname = "s{number}"\ntenant = "shop"\nkind = "availability-set"\n'
    f'[[host]]\nname = "h{number}"\n'
    f'[[vm]]\nname = "vm_{number}"\nhost = "h{number}"\nscope = "s{number}"\n'
    + ('listen = "127.0.0.1:0"\n' if number == 0 else "")
    for number in range(HOSTS)
)

FILE = """
[campaign]
name = "bios"
reason = "CVE-2026-1234"
impact = "reboot"
select = { all = true }
[campaign.budget]
in_flight = 4
[[campaign.stage]]
hosts = 1
soak = "1m"
"""


def begin(directory: Path) -> Serving:
    return Serving(directory, FLEET, timing_speed="600").wait_ready()


def campaign(service: Serving) -> dict[str, Any]:
    return service.admin("/v1/campaigns/bios")


def start(service: Serving) -> dict[str, Any]:
    file = {"name": "bios.toml", "text": FILE}
    plan = service.admin("/v1/campaigns/plan", file)
    order = {**file, "digest": plan["digest"]}
    trial = service.admin("/v1/campaigns", {**order, "dry_run": True})
    assert trial["effect"]["planned"]["hosts"] == HOSTS
    assert service.admin("/v1/campaigns?all=true")["total"] == 0
    return service.admin("/v1/campaigns", order)


def test_a_killed_service_continues_its_campaign(tmp_path: Path) -> None:
    service = begin(tmp_path)
    try:
        started = start(service)
        assert (started["state"], started["hosts"]) == ("Running", HOSTS)
        eventually(lambda: campaign(service), lambda running: running["done"] >= 1)
        service.kill()
        service = begin(tmp_path)
        running = eventually(
            lambda: campaign(service), lambda running: running["state"] == "Done"
        )
        assert running["done"] == HOSTS
        report = service.admin("/v1/campaigns/bios/report")
        assert report["campaign"] == started["campaign"]
    finally:
        service.kill()
    assert check(tmp_path / "forewarn.db") == []
