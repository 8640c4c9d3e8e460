"""Relays as real processes: what VMs get while parts are killed, and who sees what."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.admin.limits import KEEP_ALIVE_SECONDS
from forewarn.cli import main
from forewarn.clock import SystemClock
from forewarn.store import backup as backups
from tests.support.processes import Serving, eventually
from tests.support.relays import Relaying, token

pytestmark = [pytest.mark.system, pytest.mark.slow]

WEB_0, DB_0, WEB_1 = "127.0.0.1", "127.0.0.3", "127.0.0.2"
"""The addresses of the VMs: two on the first host, and one on the second."""

MIB_MAX = 45
"""Maximum memory of a relay."""

SECOND_OF_A_BUSY_MACHINE = KEEP_ALIVE_SECONDS / 2
"""Maximum seconds until a revoked relay has lost its stream, which takes a tenth of a
second. A stream also looks at its token before each line without news. The token is
revoked just after a line, so a stream that only looks there is too late."""

FLEET = f"""
[[scope]]
name = "web"
kind = "availability-set"
[[host]]
name = "h1"
zone = "z1"
[[host]]
name = "h2"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
address = "{WEB_0}"
size = "general-4"
[[vm]]
name = "db_0"
host = "h1"
address = "{DB_0}"
[[vm]]
name = "web_1"
host = "h2"
scope = "web"
fault_domain = 1
address = "{WEB_1}"
"""


def reboot(service: Serving, vm: str) -> str:
    """Announce the reboot of a VM; return the ID of its event."""
    order = service.admin("/v1/reboot", {"vms": [vm]})
    return order["operations"][0]["events"][0]["EventId"]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path / "service", FLEET).wait_ready()
    yield serving
    serving.process.kill()
    serving.process.wait()


@pytest.fixture
def relays(service: Serving, tmp_path: Path) -> Iterator[dict[str, Relaying]]:
    """Yield the relays of both hosts."""
    relay_by_host = {
        host: Relaying(
            tmp_path / host, service.urls["operators"], token(service, host)["token"]
        ).wait_connected()
        for host in ("h1", "h2")
    }
    yield relay_by_host
    for relay in relay_by_host.values():
        relay.kill()


def test_a_relay_answers_its_vms_and_no_others(relays: dict[str, Relaying]) -> None:
    first, second = relays["h1"], relays["h2"]
    assert first.ask(WEB_0) == (200, {"DocumentIncarnation": 1, "Events": []})
    assert first.ask(WEB_1)[0] == 404
    assert second.ask(WEB_1)[0] == 200
    status, compute = first.ask(
        WEB_0, "/metadata/instance/compute?api-version=2021-02-01"
    )
    assert status == 200
    assert (compute["name"], compute["zone"]) == ("web_0", "z1")
    assert compute["vmSize"] == "general-4"


def test_a_vm_reads_its_own_approval_and_both_relays_have_one_truth(
    service: Serving, relays: dict[str, Relaying]
) -> None:
    first, second = relays["h1"], relays["h2"]
    assert first.ask(WEB_0)[0] == second.ask(WEB_1)[0] == 200
    event = reboot(service, "web_0")
    for relay, address in ((first, WEB_0), (second, WEB_1)):
        (shown,) = relay.until(address, lambda document: document["Events"])["Events"]
        assert shown["EventId"] == event
    # A VM of another host cannot approve, and a wrong event is refused.
    assert first.approve(DB_0, event) == 400
    assert first.approve(WEB_0, event) == 200
    # The answer came after the document: no wait is needed.
    assert first.ask(WEB_0)[1]["Events"][0]["EventStatus"] == "Started"
    second.until(
        WEB_1, lambda document: document["Events"][0]["EventStatus"] == "Started"
    )


def test_relays_answer_while_the_service_is_away(
    service: Serving, relays: dict[str, Relaying], tmp_path: Path
) -> None:
    relay = relays["h1"]
    assert relay.ask(WEB_0)[0] == 200
    event = reboot(service, "web_0")
    before = relay.until(WEB_0, lambda document: document["Events"])
    text = (tmp_path / "h1" / "relay-token").read_text()
    url = service.urls["operators"]
    service.kill()
    eventually(relay.log, lambda log: "no stream of the service" in log)
    assert relay.ask(WEB_0) == (200, before)
    assert relay.approve(WEB_0, event) == 503
    # Also a relay that was killed answers at once, from its file.
    relay.kill()
    again = Relaying(tmp_path / "h1", url, text)
    assert again.ask(WEB_0) == (200, before)
    assert again.ask(DB_0)[0] == 503  # It was never enabled.
    back = Serving(
        tmp_path / "service", FLEET, admin_listen=url.removeprefix("http://")
    ).wait_ready()
    try:
        again.wait_connected()
        assert (
            again.ask(WEB_0)[1]["DocumentIncarnation"]
            >= (before["DocumentIncarnation"])
        )
        assert again.approve(WEB_0, event) == 200
        assert again.ask(DB_0)[0] == 200
    finally:
        again.kill()
        back.kill()


def test_a_revoked_relay_loses_its_stream_and_approves_nothing(
    service: Serving, relays: dict[str, Relaying]
) -> None:
    relay = relays["h1"]
    assert relay.ask(WEB_0)[0] == 200
    event = reboot(service, "web_0")
    relay.until(WEB_0, lambda document: document["Events"])
    (first,) = (
        row for row in service.admin("/v1/tokens")["tokens"] if row["relay"] == "h1"
    )
    service.admin("/v1/tokens/revoke", {"id": first["id"]})
    eventually(relay.log, lambda log: "status 401" in log)
    assert relay.approve(WEB_0, event) == 503
    assert relay.ask(WEB_0)[0] == 200
    # The next token is read from the file, without a restart.
    secret = token(service, "h1")["token"]
    directory = Path(f"/proc/{relay.process.pid}/cwd").resolve()
    (directory / "relay-token").write_text(secret, encoding="ascii")
    eventually(lambda: relay.approve(WEB_0, event), lambda status: status == 200)
    assert secret not in relay.log()


def test_the_whole_protocol_is_kept_through_a_relay(
    service: Serving, relays: dict[str, Relaying], capsys: pytest.CaptureFixture[str]
) -> None:
    relay = relays["h1"]
    assert relay.ask(WEB_0)[0] == 200
    reboot(service, "web_0")
    relay.until(WEB_0, lambda document: document["Events"])
    status = main(["conform", f"http://127.0.0.1:{relay.port}", "--approve"])
    assert status == 0, capsys.readouterr().out


def test_a_thief_learns_nothing_a_second_after_the_token_is_revoked(
    service: Serving, relays: dict[str, Relaying], tmp_path: Path
) -> None:
    url = service.urls["operators"]
    stolen = token(service, "h1")
    thief = Relaying(tmp_path / "thief", url, stolen["token"]).wait_connected()
    try:
        ours = relays["h1"]
        assert ours.ask(WEB_0)[0] == 200
        # The line that enables its document has just come.
        thief.until(WEB_0, lambda document: document["DocumentIncarnation"])
        clock = SystemClock()
        began = clock.monotonic()
        service.admin("/v1/tokens/revoke", {"id": stolen["id"]})
        eventually(thief.log, lambda log: "no stream of the service" in log)
        assert clock.monotonic() - began < SECOND_OF_A_BUSY_MACHINE
        event = reboot(service, "web_0")
        ours.until(WEB_0, lambda document: document["Events"])
        eventually(thief.log, lambda log: "status 401" in log)
        # It has the old document, and can approve nothing.
        assert thief.ask(WEB_0)[1]["Events"] == []
        assert thief.approve(WEB_0, event) != 200
        assert ours.approve(WEB_0, event) == 200
    finally:
        thief.kill()


def test_both_relays_show_a_vm_that_moves_the_same(tmp_path: Path) -> None:
    fleet = FLEET + '[[host]]\nname = "h3"\n'
    service = Serving(
        tmp_path / "service",
        fleet,
        driver_simulated_live_migrate="1s",
        timing_recovery="1s",
    ).wait_ready()
    url = service.urls["operators"]
    relays = [
        Relaying(tmp_path / host, url, token(service, host)["token"]).wait_connected()
        for host in ("h1", "h3")
    ]
    old, new = relays
    try:
        for address in (WEB_0, DB_0):
            assert old.ask(address)[0] == 200
        assert new.ask(WEB_0)[0] == 404
        order = {"hosts": ["h1"], "impact": "live-migrate"}
        service.admin("/v1/maintain", order)
        for address in (WEB_0, DB_0):
            (event,) = old.until(address, lambda found: found["Events"])["Events"]
            assert old.approve(address, event["EventId"]) == 200
        shown: list[int] = []

        def has_moved() -> bool:
            """Ask both relays: one of them answers at any time."""
            states = [relay.ask(WEB_0) for relay in relays]
            for status, found in states:
                if status == 200:
                    shown.append(found["DocumentIncarnation"])
            assert any(status == 200 for status, _ in states)
            return [status for status, _ in states] == [404, 200]

        eventually(has_moved, bool, what="the VM on its new host only")
        last = new.until(WEB_0, lambda found: not found["Events"])
        assert last["DocumentIncarnation"] >= max(shown)
    finally:
        for relay in relays:
            relay.kill()
        service.kill()


def test_a_silent_service_ends_the_answers_after_a_limit(
    service: Serving, tmp_path: Path
) -> None:
    secret = token(service, "h1")["token"]
    url = service.urls["operators"]
    relay = Relaying(tmp_path / "h1", url, secret, stale_max="6s").wait_connected()
    try:
        assert relay.ask(WEB_0)[0] == 200
        service.kill()
        assert relay.ask(WEB_0)[0] == 200
        eventually(lambda: relay.ask(WEB_0)[0], lambda status: status == 503)
        # Nor does a restart make the documents young.
        assert relay.terminate() == 0
        relay = Relaying(tmp_path / "h1", url, secret, stale_max="6s")
        assert relay.ask(WEB_0)[0] == 503
        listen = url.removeprefix("http://")
        back = Serving(tmp_path / "service", FLEET, admin_listen=listen).wait_ready()
        eventually(lambda: relay.ask(WEB_0)[0], lambda status: status == 200)
        back.kill()
    finally:
        relay.kill()


def test_operators_see_which_relays_are_connected(
    service: Serving, relays: dict[str, Relaying]
) -> None:
    def listed() -> dict[str, bool]:
        listed_relays = service.admin("/v1/relays")["relays"]
        return {relay["host"]: relay["connected"] for relay in listed_relays}

    assert listed() == {"h1": True, "h2": True}
    assert relays["h1"].ask(WEB_0)[0] == 200
    relays["h2"].kill()
    eventually(listed, lambda found: found == {"h1": True, "h2": False})
    states = {relay["host"]: relay for relay in service.admin("/v1/relays")["relays"]}
    assert states["h1"]["last_seen"] >= states["h1"]["since"]
    assert states["h2"]["since"] is None
    assert states["h2"]["last_seen"] is not None


def test_routine_maintenance_waits_for_the_relay_of_its_host(tmp_path: Path) -> None:
    # A notice of three seconds.
    service = Serving(tmp_path / "service", FLEET, timing_speed="300").wait_ready()
    url = service.urls["operators"]
    secrets = {host: token(service, host)["token"] for host in ("h1", "h2")}
    relays = {
        host: Relaying(tmp_path / host, url, secret).wait_connected()
        for host, secret in secrets.items()
    }

    def silent() -> list[str]:
        problems = service.admin("/v1/problems?kind=relay-silent")["problems"]
        return [problem["target"] for problem in problems]

    def maintain(host: str) -> str:
        order = {"hosts": [host], "impact": "freeze"}
        operations = service.admin("/v1/maintain", order)["operations"]
        return operations[0]["operation"]

    def explained(operation: str) -> dict[str, Any]:
        return service.admin(f"/v1/explain/{operation}")

    try:
        assert relays["h2"].ask(WEB_1)[0] == 200
        relays["h2"].kill()
        eventually(silent, lambda hosts: hosts == ["h2"])
        work = maintain("h2")
        held = eventually(
            lambda: explained(work), lambda found: found["state"] == "Ready"
        )
        assert "the relay of host h2 has been silent since" in held["blocked_by"][0]
        relays["h2"] = Relaying(tmp_path / "h2", url, secrets["h2"])
        eventually(
            lambda: explained(work)["state"],
            lambda state: state not in {"Announced", "Ready"},
        )
        assert silent() == []
    finally:
        for relay in relays.values():
            relay.kill()
        service.kill()


def wait_confirmed(store: Path) -> None:
    """Return when a relay has confirmed a document."""
    eventually(
        lambda: sqlite3.connect(store).execute("SELECT * FROM relay_links").fetchall(),
        bool,
        what="the first confirmation",
    )


def put_back(backup: Path, store: Path) -> None:
    """Replace the file of a store by a backup."""
    for end in ("", "-wal", "-shm"):
        store.with_name(f"{store.name}{end}").unlink(missing_ok=True)
    backup.rename(store)


@pytest.mark.long
def test_relay_does_not_follow_a_store_that_has_lost_what_it_has_served(
    tmp_path: Path,
) -> None:
    """The backup is of the last run of the service, so the next one has a later term."""
    # A notice of three seconds.
    directory = tmp_path / "service"
    service = Serving(directory, FLEET, timing_speed="300").wait_ready()
    url = service.urls["operators"]
    secret = token(service, "h1")["token"]
    relay = Relaying(tmp_path / "h1", url, secret).wait_connected()

    def explained(operation: str) -> dict[str, Any]:
        return service.admin(f"/v1/explain/{operation}")

    def again() -> Serving:
        return Serving(
            directory,
            FLEET,
            timing_speed="300",
            admin_listen=url.removeprefix("http://"),
        ).wait_ready()

    try:
        assert relay.ask(WEB_0)[1]["DocumentIncarnation"] == 1
        backup = tmp_path / "backup.db"
        store = directory / "forewarn.db"
        wait_confirmed(store)
        backups.backup(store, backup)
        reboot(service, "web_0")
        lost = relay.until(WEB_0, lambda document: document["Events"])
        service.kill()
        put_back(backup, store)
        service = again()
        eventually(relay.log, lambda log: "is behind what this relay has served" in log)
        # Its VMs do not see what is announced now, so planned work does not start.
        order = {"hosts": ["h1"], "impact": "freeze"}
        (operation,) = service.admin("/v1/maintain", order)["operations"]
        work = operation["operation"]
        held = eventually(
            lambda: explained(work), lambda found: found["state"] == "Ready"
        )
        assert "the relay of host h1" in held["blocked_by"][0]
        silent = "/v1/problems?kind=relay-silent"
        (problem,) = eventually(lambda: service.admin(silent)["problems"], bool)
        assert problem["target"] == "h1"
        # Not even after a restart does it show an older document.
        relay.kill()
        relay = Relaying(tmp_path / "h1", url, secret)
        eventually(relay.log, lambda log: "is behind what this relay has served" in log)
        assert relay.ask(WEB_0)[1]["DocumentIncarnation"] >= lost["DocumentIncarnation"]
        assert explained(work)["state"] == "Ready"
        # The log and the documentation name this way, for all relays.
        service.kill()
        assert main(["store", "restored", str(store)]) == 0
        service = again()
        relay.wait_connected()
        shown = relay.until(
            WEB_0,
            lambda document: (
                [event["EventType"] for event in document["Events"]] == ["Freeze"]
            ),
        )
        assert shown["DocumentIncarnation"] > lost["DocumentIncarnation"]
        eventually(lambda: explained(work)["state"], lambda state: state != "Ready")
    finally:
        relay.kill()
        service.kill()


def test_relay_shows_a_vm_that_was_added_again_while_it_was_away(
    service: Serving, relays: dict[str, Relaying], tmp_path: Path
) -> None:
    relay = relays["h1"]
    assert relay.ask(DB_0)[0] == 200
    (ordered,) = service.admin("/v1/reboot", {"vms": ["db_0"]})["operations"]
    old = relay.until(DB_0, lambda document: document["Events"])
    relay.kill()
    service.admin("/v1/cancel", {"names": [ordered["operation"]]})
    others, one = FLEET.split('[[vm]]\nname = "db_0"')
    _, rest = one.split("[[vm]]", 1)
    service.admin("/v1/fleet/apply", {"text": f"{others}[[vm]]{rest}"})
    service.admin("/v1/fleet/apply", {"text": FLEET})
    again = Relaying(
        tmp_path / "h1",
        service.urls["operators"],
        (tmp_path / "h1" / "relay-token").read_text(encoding="ascii"),
    ).wait_connected()
    try:
        # The VM is new to the service, which enables it at its first request.
        first = again.until(DB_0, lambda document: not document["Events"])
        assert first["DocumentIncarnation"] < old["DocumentIncarnation"]
        later = reboot(service, "db_0")
        (shown,) = again.until(DB_0, lambda document: document["Events"])["Events"]
        assert shown["EventId"] == later
        assert shown["EventId"] != old["Events"][0]["EventId"]
        assert again.approve(DB_0, later) == 200
    finally:
        again.kill()


def test_a_relay_ends_in_order(relays: dict[str, Relaying]) -> None:
    relay = relays["h1"]
    assert relay.ask(WEB_0)[0] == 200
    assert relay.terminate() == 0
    assert "stopping" in relay.log()
    assert "Traceback" not in relay.log()


def test_a_relay_is_small(service: Serving, tmp_path: Path) -> None:
    secret = token(service, "h1")["token"]
    relay = Relaying(
        tmp_path / "h1", service.urls["operators"], secret, is_forked=False
    ).wait_connected()
    try:
        assert relay.ask(WEB_0)[0] == 200
        assert relay.memory <= MIB_MAX
    finally:
        relay.kill()
