"""Relays on three hosts, which are network namespaces: cut cables, thieves and storms."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from forewarn.cli import main
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.namespaces import no_namespaces
from tests.support.processes import eventually
from tests.support.relay_hosts import CONTROL, Host, Site

WHY_NOT = no_namespaces()

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.long,
    needs_openssl,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
]

HOSTS = 3
VMS = {f"web_{number}": f"127.0.0.{number}" for number in range(1, HOSTS + 1)}

FLEET = "".join(
    f'[[host]]\nname = "h{number}"\n'
    f'[[vm]]\nname = "web_{number}"\nhost = "h{number}"\naddress = "127.0.0.{number}"\n'
    for number in range(1, HOSTS + 1)
)

SETTINGS = {
    # A notice of maintenance takes 45 seconds, longer than a change may be unconfirmed.
    "timing_speed": "20",
    "driver_simulated_live_migrate": "1s",
    "timing_recovery": "1s",
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    new_site = Site(tmp_path, HOSTS, certificate_in(tmp_path, CONTROL))
    try:
        new_site.begin()
        new_site.serve(FLEET, **SETTINGS)
        for name in new_site.hosts:
            new_site.relay(name)
        for host in new_site.hosts.values():
            host.relay.wait_connected()
        yield new_site
    finally:
        new_site.end()


def document(host: Host, address: str, events: int) -> Any:
    """Return the document of a VM when it has a number of events."""
    return eventually(
        lambda: host.ask(address),
        lambda answer: answer[0] == 200 and len(answer[1]["Events"]) == events,
    )[1]


def maintain(site: Site, host: str) -> str:
    """Announce maintenance of a host; return its operation."""
    order = site.admin("/v1/maintain", {"hosts": [host], "impact": "freeze"})
    return order["operations"][0]["operation"]


def test_cut_cable_holds_the_work_of_its_host_and_of_no_other(site: Site) -> None:
    for (name, address), host in zip(VMS.items(), site.hosts.values(), strict=True):
        assert host.ask(address)[0] == 200, name
    first, second = site.hosts["h1"], site.hosts["h2"]
    second.cut()
    work = {host: maintain(site, host) for host in ("h1", "h2")}

    def explained(host: str) -> Any:
        return site.admin(f"/v1/explain/{work[host]}")

    def has_started(host: str) -> bool:
        return explained(host)["state"] not in {"Announced", "Ready"}

    # Its connection never ended, and nothing was confirmed.
    held = eventually(lambda: explained("h2"), lambda found: found["state"] == "Ready")
    assert "the relay of host h2 has been silent since" in held["blocked_by"][0]
    eventually(lambda: has_started("h1"), bool)
    # Its guests get the old document, also from a relay that was restarted meanwhile.
    assert second.ask(VMS["web_2"])[1]["Events"] == []
    second.relay.kill()
    token = (site.directory / "h2" / "relay-token").read_text(encoding="ascii")
    site.relay("h2", token=token)
    assert second.ask(VMS["web_2"])[1]["Events"] == []
    second.join()
    (event,) = document(second, VMS["web_2"], 1)["Events"]
    assert event["EventType"] == "Freeze"
    eventually(lambda: has_started("h2"), bool)
    document(first, VMS["web_1"], 0)


def test_stolen_token_is_a_matter_of_its_host_until_it_is_revoked(site: Site) -> None:
    host, elsewhere = site.hosts["h1"], site.hosts["h3"]
    assert host.ask(VMS["web_1"])[0] == 200
    stolen = site.token("h1")
    with closing(_Thief(site, stolen["token"])) as thief:
        response = elsewhere.inside(lambda: thief.relay.ask(VMS["web_1"]))
        assert response == (200, host.ask(VMS["web_1"])[1])
        # It learns nothing of the host on which it runs.
        assert elsewhere.inside(lambda: thief.relay.ask(VMS["web_3"]))[0] == 404
        site.admin("/v1/tokens/revoke", {"id": stolen["id"]})
        eventually(thief.relay.log, lambda log: "status 401" in log)
        event = site.reboot("web_1")
        document(host, VMS["web_1"], 1)
        old = elsewhere.inside(lambda: thief.relay.ask(VMS["web_1"]))
        assert old[1]["Events"] == []
        approve = thief.relay.approve
        assert elsewhere.inside(lambda: approve(VMS["web_1"], event)) != 200
        assert host.approve(VMS["web_1"], event) == 200


class _Thief:
    """A relay with the token of another host."""

    def __init__(self, site: Site, token: str) -> None:
        self.relay = site.relay("h1", at="h3", token=token).wait_connected()

    def close(self) -> None:
        self.relay.kill()


def test_vm_moves_between_relays_and_all_return_after_the_service(site: Site) -> None:
    first = site.hosts["h1"]
    for address, host in zip(VMS.values(), site.hosts.values(), strict=True):
        assert host.ask(address)[0] == 200
    site.admin("/v1/maintain", {"hosts": ["h1"], "impact": "live-migrate"})
    (event,) = document(first, VMS["web_1"], 1)["Events"]
    shown = first.ask(VMS["web_1"])[1]["DocumentIncarnation"]
    assert first.approve(VMS["web_1"], event["EventId"]) == 200
    eventually(lambda: first.ask(VMS["web_1"])[0], lambda status: status == 404)
    (new,) = (
        relay
        for relay in (site.hosts["h2"], site.hosts["h3"])
        if relay.ask(VMS["web_1"])[0] == 200
    )
    assert document(new, VMS["web_1"], 0)["DocumentIncarnation"] > shown
    # The service is away for a while, and a relay is restarted meanwhile.
    site.service.kill()
    for host in site.hosts.values():
        eventually(host.relay.log, lambda log: "no stream of the service" in log)
    before = new.ask(VMS["web_1"])
    new.relay.kill()
    name = next(name for name, host in site.hosts.items() if host is new)
    token = (site.directory / name / "relay-token").read_text(encoding="ascii")
    site.relay(name, token=token)
    assert new.ask(VMS["web_1"]) == before
    site.serve(FLEET, **SETTINGS)

    def connected() -> list[bool]:
        return [relay["connected"] for relay in site.admin("/v1/relays")["relays"]]

    eventually(connected, lambda found: found == [True] * HOSTS)
    event = site.reboot("web_1")
    document(new, VMS["web_1"], 1)
    assert new.approve(VMS["web_1"], event) == 200


def test_protocol_is_kept_through_a_relay_and_a_network(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    host = site.hosts["h1"]
    assert host.ask(VMS["web_1"])[0] == 200
    site.reboot("web_1")
    document(host, VMS["web_1"], 1)
    at = f"http://127.0.0.1:{host.relay.port}"
    status = host.inside(lambda: main(["conform", at, "--approve"]))
    assert status == 0, capsys.readouterr().out
