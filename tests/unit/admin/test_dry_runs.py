"""Requests with `dry_run` change nothing, and count the effect that they would have."""

from collections import Counter
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from forewarn.admin.dry_run_shapes import DryRunShape, EffectShape
from forewarn.control.requests import dry_run, fleet_changes, verbs
from forewarn.control.requests.rollouts import CANCELLED_MAX, PAGE
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import read_fleet
from forewarn.protocol.actors import operator
from forewarn.protocol.blockers import DriverUnable, HinderedError
from forewarn.protocol.operations import Action
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.questions import Query
from forewarn.verbs.table import VERBS
from tests.unit.admin.gateway import FLEET, LocalGateway
from tests.unit.admin.tenants import Shared
from tests.unit.admin.test_campaign_watch import ALL, started
from tests.unit.admin.test_description import check


def everything(gateway: LocalGateway) -> tuple[Any, ...]:
    """Return all that a request can change: the store, and what others were told."""

    def read(reader: Reader) -> list[Any]:
        queries = [
            cast("Query[Any]", query)
            for name, query in vars(kinds).items()
            if name.startswith("ALL_") and isinstance(query, Query)
        ]
        return [record for query in queries for record in every(reader, query)]

    driver = list(gateway.driver.calls)
    return gateway.store.read(read), driver, list(gateway.told)


def counted(
    client: TestClient, gateway: LocalGateway, path: str, **body: Any
) -> dict[str, Any]:
    """Return the counted effect of a dry run, which changed nothing."""
    before = everything(gateway)
    answer = client.post(f"/v1/{path}", json={**body, "dry_run": True})
    assert answer.status_code == 200, answer.text
    assert everything(gateway) == before
    check(answer.json(), DryRunShape)
    for group in answer.json()["effect"].values():
        check(group, EffectShape)
    return answer.json()


def group(hosts: int, vms: int, *, tenants: int, events: int = 0) -> dict[str, int]:
    return {
        "operations": hosts,
        "hosts": hosts,
        "vms": vms,
        "tenants": tenants,
        "events": events,
    }


def test_maintenance_counts_what_it_would_announce(
    client: TestClient, gateway: LocalGateway
) -> None:
    count = counted(client, gateway, "maintain", hosts=["h1"], impact="reboot")
    assert count["effect"] == {"announced": group(1, 2, tenants=2, events=2)}
    assert (count["targets"], count["refused"]) == (1, [])


def test_start_of_a_campaign_counts_its_hosts(
    client: TestClient, gateway: LocalGateway
) -> None:
    file = {"name": "bios.toml", "text": ALL}
    digest = client.post("/v1/campaigns/plan", json=file).json()["digest"]
    count = counted(client, gateway, "campaigns", **file, digest=digest)
    assert count["effect"] == {"planned": group(3, 0, tenants=0)}
    assert (count["targets"], count["waiting_hosts"]) == (3, None)
    # A key belongs to a request that was executed.
    again = {**file, "digest": digest}
    key = {"Idempotency-Key": "one"}
    trial = client.post("/v1/campaigns", json={**again, "dry_run": True}, headers=key)
    assert trial.status_code == 200, trial.text
    assert client.post("/v1/campaigns", json=again, headers=key).status_code == 201


def test_start_with_an_outdated_digest_is_refused_in_a_dry_run(
    client: TestClient, gateway: LocalGateway
) -> None:
    file = {"name": "bios.toml", "text": ALL, "digest": "1c36", "dry_run": True}
    answer = client.post("/v1/campaigns", json=file)
    assert answer.status_code == 409
    assert gateway.store.read(lambda tx: list(every(tx, kinds.ALL_CAMPAIGNS))) == []


def test_refusal_is_that_of_the_order(client: TestClient) -> None:
    for is_dry_run in (True, False):
        body = {"names": ["h1"], "dry_run": is_dry_run}
        answer = client.post("/v1/restore", json=body)
        assert answer.status_code == 409
        assert "h1 is not down" in answer.json()["error"]


def test_refused_parts_are_listed(client: TestClient, gateway: LocalGateway) -> None:
    client.post("/v1/fail", json={"names": ["web_0"]})
    count = counted(client, gateway, "restore", names=["web_0", "web_1"])
    assert count["targets"] == 1
    assert [target["name"] for target in count["refused"]] == ["web_1"]
    assert count["effect"]["ended"]["vms"] == 1


def test_approval_counts_the_work_that_would_start(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.enable("web_0")
    gateway.advance("20m")
    body = client.post("/v1/reboot", json={"vms": ["web_0"]}).json()
    [operation] = body["operations"]
    [event] = operation["events"]
    on_vm = {**group(1, 1, tenants=1, events=1), "hosts": 0}
    count = counted(client, gateway, "approve", event_ids=[event["EventId"]])
    assert count["effect"] == {"approved": on_vm, "started": on_vm}
    cancelled = counted(client, gateway, "cancel", names=[operation["operation"]])
    assert cancelled["effect"] == {"cancelled": on_vm}


def test_work_on_a_vm_that_starts_at_once_is_counted_once_and_on_no_host(
    client: TestClient, gateway: LocalGateway
) -> None:
    client.post("/v1/fail", json={"names": ["web_0"]})
    count = counted(client, gateway, "redeploy", vms=["web_0"])
    (effect,) = count["effect"].values()
    assert (effect["hosts"], effect["operations"], effect["vms"]) == (0, 1, 1)


def test_approvals_of_others_in_the_same_instant_are_not_counted(
    client: TestClient, gateway: LocalGateway
) -> None:
    for vm in ("web_0", "db_0"):
        gateway.enable(vm)
    gateway.advance("20m")
    # A host with VMs of two tenants, so that one approval changes the operation of both.
    order = {"hosts": ["h1"], "impact": "reboot"}
    body = client.post("/v1/maintain", json=order).json()
    first, second = (event["EventId"] for event in body["operations"][0]["events"])
    answer = client.post("/v1/approve", json={"event_ids": [first], "reason": "ok"})
    assert answer.status_code == 200, answer.text
    # The clock stands still.
    count = counted(client, gateway, "approve", event_ids=[second])
    assert count["effect"]["approved"]["events"] == 1
    assert count["effect"]["approved"]["tenants"] == 1


def test_hosts_are_closed_only_by_the_order(
    client: TestClient, gateway: LocalGateway
) -> None:
    count = counted(client, gateway, "host-cordon", hosts=["h1", "h2"])
    assert (count["targets"], count["effect"]) == (2, {})
    assert counted(client, gateway, "hosts/h1/cordon")["targets"] == 1


@pytest.mark.parametrize("verb", ["halt", "abort"])
def test_stopping_a_campaign_counts_what_ends_and_what_goes_on(
    client: TestClient, gateway: LocalGateway, verb: str
) -> None:
    for vm in ("web_0", "web_1", "db_0", "db_1"):
        gateway.enable(vm)
    gateway.advance("20m")
    started(client)
    gateway.advance("1s")
    # The first host has no VMs, and is in work. No reason is needed to try it.
    count = counted(client, gateway, f"campaign-{verb}", campaign="bios")
    assert count["effect"] == {"continues": group(1, 0, tenants=0)}
    assert count["waiting_hosts"] == 2
    while "cancelled" not in count["effect"]:
        gateway.advance("1m")
        count = counted(client, gateway, f"campaign-{verb}", campaign="bios")
    assert count["effect"] == {"cancelled": group(1, 2, tenants=2, events=2)}
    assert count["waiting_hosts"] == 1
    paused = counted(client, gateway, "campaign-pause", campaign="bios")
    assert paused["effect"] == {"continues": group(1, 2, tenants=2, events=2)}
    body = {"campaign": "bios", "reason": "smoke"}
    client.post(f"/v1/campaign-{verb}", json=body)
    gateway.advance("1s")
    operations = client.get("/v1/operations?all=true").json()["operations"]
    assert "Cancelled" in {operation["state"] for operation in operations}


def many_hosts(gateway: LocalGateway) -> list[str]:
    """Add more hosts than one transaction plans and cancels."""
    names = [f"r{number:02}" for number in range(PAGE + CANCELLED_MAX + 5)]
    text = FLEET + "".join(f'[[host]]\nname = "{name}"\n' for name in names)
    wanted = read_fleet(text, name="fleet.toml")
    who = Who(actor=operator("test"))
    gateway.plane.order(
        who, lambda work: fleet_changes.apply(work, wanted), now=gateway.now()
    )
    return names


def states(gateway: LocalGateway) -> Counter[str]:
    operations = gateway.store.read(
        lambda reader: list(every(reader, kinds.ALL_OPERATIONS))
    )
    return Counter(operation.state.value for operation in operations)


def test_long_rollout_counts_the_hosts_of_later_pages(
    client: TestClient, gateway: LocalGateway
) -> None:
    names = many_hosts(gateway)
    # A host with VMs, so that the others wait for the end of its notice.
    body = {"hosts": ["h1", *names], "impact": "reboot"}
    gateway.enable("web_0")
    gateway.advance("20m")
    count = counted(client, gateway, "maintain", **body)
    assert count["targets"] == 1 + len(names)
    assert count["effect"] == {"planned": group(1 + len(names), 0, tenants=0)}
    answer = client.post("/v1/maintain", json=body).json()
    gateway.advance("1s")
    assert states(gateway) == {"Announced": 1, "Planned": len(names)}
    count = counted(client, gateway, "cancel", names=[answer["request"]])
    assert (count["targets"], count["at_least"]) == (1, False)
    assert set(count["effect"]) == {"cancelled"}
    client.post("/v1/cancel", json={"names": [answer["request"]]})
    gateway.advance("1s")
    assert states(gateway) == {"Cancelled": count["effect"]["cancelled"]["hosts"]}


def test_more_work_than_is_counted_is_a_lower_bound(
    client: TestClient, gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run, "COUNTED_MAX", 1)
    for host in ("h1", "h2"):
        client.post("/v1/maintain", json={"hosts": [host], "impact": "freeze"})
        count = counted(client, gateway, "brake", on=True)
        assert count["effect"]["held"]["hosts"] == 1
        assert count["at_least"] == (host == "h2")


def test_work_of_others_does_not_hide_that_of_a_campaign(
    client: TestClient, gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run, "COUNTED_MAX", 1)
    gateway.driver.is_silent = True
    many_hosts(gateway)
    for number in range(3):
        client.post("/v1/maintain", json={"hosts": [f"r{number:02}"]})
    assert started(client)
    gateway.advance("1s")
    count = counted(client, gateway, "campaign-halt", campaign="bios")
    assert count["effect"]["continues"]["hosts"] == 1


def test_trial_that_the_driver_refuses_asks_it_nothing(
    client: TestClient, gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        because = DriverUnable(host="h1", action=Action.REBOOT)
        raise HinderedError("h1 cannot be worked on", because=(because,))

    wanted: list[str] = []
    monkeypatch.setitem(verbs.DECISIONS, "maintain", refuse)
    monkeypatch.setattr(gateway.plane.abilities, "want", wanted.extend)
    body = {"hosts": ["h1"], "impact": "reboot"}
    assert client.post("/v1/maintain", json={**body, "dry_run": True}).is_client_error
    assert wanted == []
    assert client.post("/v1/maintain", json=body).is_client_error
    assert wanted == ["h1"]


def test_brake_counts_what_it_would_hold_or_withdraw(
    client: TestClient, gateway: LocalGateway
) -> None:
    gateway.enable("web_0")
    client.post("/v1/maintain", json={"hosts": ["h1"], "impact": "reboot"})
    held = counted(client, gateway, "brake", on=True)
    assert held["effect"]["held"] == group(1, 2, tenants=2, events=2)
    withdrawn = counted(client, gateway, "brake", on=True, withdraw=True)
    assert withdrawn["effect"]["cancelled"] == held["effect"]["held"]
    client.post("/v1/brake", json={"on": True, "reason": "smoke"})
    freed = counted(client, gateway, "brake", on=False)
    assert freed["effect"]["freed"] == held["effect"]["held"]


def test_revision_refuses_an_order_after_another_decision(client: TestClient) -> None:
    revision = started(client)["revision"]
    body = {"campaign": "bios", "revision": revision, "reason": "a look"}
    assert client.post("/v1/campaign-pause", json=body).is_success
    refused = client.post("/v1/campaign-halt", json={**body, "reason": "smoke"})
    answer = refused.json()
    assert (refused.status_code, answer["kind"]) == (409, "conflict")
    assert answer["error"] == (
        "campaign bios has changed since you looked: campaign paused by operator"
    )
    assert answer["changed"]["by"] == "operator"
    assert answer["changed"]["reason"] == "a look"
    assert answer["changed"]["what"] == "campaign paused"
    assert answer["changed"]["at"]
    now = client.get("/v1/campaigns/bios").json()["revision"]
    again = {**body, "revision": now, "reason": "smoke"}
    assert client.post("/v1/campaign-halt", json=again).is_success


def test_progress_of_hosts_leaves_the_revision(
    client: TestClient, gateway: LocalGateway
) -> None:
    revision = started(client)["revision"]
    gateway.advance("2h")
    body = client.get("/v1/campaigns/bios").json()
    assert body["done"] > 0
    assert body["revision"] == revision


def test_dry_run_uses_no_key(client: TestClient, gateway: LocalGateway) -> None:
    headers = {"Idempotency-Key": "k1"}
    body = {"hosts": ["h1"], "impact": "reboot"}
    answer = client.post(
        "/v1/maintain", json={**body, "dry_run": True}, headers=headers
    )
    assert answer.json()["dry_run"]
    response = client.post("/v1/maintain", json=body, headers=headers)
    assert response.status_code == 201


def test_tenant_learns_only_its_own_part() -> None:
    shared = Shared()
    token = shared.token()
    shared.gateway.enable("web_0")
    shared.gateway.advance("20m")
    # The host has VMs of two tenants.
    ordered = shared.order("maintain", hosts=["hidden-h1"], impact="reboot")
    own_events = [
        event
        for operation in ordered["operations"]
        for event in operation["events"]
        if event["tenant"] == "shop"
    ]
    body = {"event_ids": [event["EventId"] for event in own_events], "dry_run": True}
    answer = shared.ask(token, "POST", "/v1/approve", json=body).json()
    assert answer["effect"] == {
        "approved": {"vms": len(own_events), "events": len(own_events)}
    }
    secrets = list(shared.secrets())
    assert not [secret for secret in secrets if secret in str(answer)]
    own = shared.ask(
        token, "POST", "/v1/reboot", json={"vms": ["web_0"], "dry_run": True}
    ).json()
    assert own["effect"] == {"announced": {"vms": 1, "events": 1}}


@pytest.fixture(scope="module")
def lived() -> Shared:
    """Return a service in the middle of maintenance that both tenants share."""
    shared = Shared()
    shared.live()
    return shared


TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "reboot": ("vms", {}),
    "redeploy": ("vms", {}),
    "terminate": ("vms", {}),
    "expedite": ("vms", {}),
    "defer": ("names", {"until": "+1h"}),
    "window-set": ("scopes", {"windows": ["sat 22:00 6h UTC"]}),
    "window-clear": ("scopes", {}),
    "cancel": ("names", {}),
    "approve": ("event_ids", {}),
}
"""The verbs of tenants: the member with the targets, and other members."""


@pytest.mark.parametrize("verb", TARGETS)
def test_no_trial_of_a_tenant_shows_others(lived: Shared, verb: str) -> None:
    """Its answers about an object of another tenant are those about none at all."""
    assert {entry.name for entry in VERBS.values() if entry.for_tenants} == set(TARGETS)
    token, (key, more) = lived.token(), TARGETS[verb]
    foreign = lived.foreign()
    unknown = {
        "vms": "no-such-vm",
        "scopes": "no-such-scope",
        "names": "op-0000000000" if verb == "cancel" else "no-such-vm",
        "event_ids": "00000000-0000-0000-0000-000000000000",
    }
    own = lived.ask(token, "GET", "/v1/events").json()["events"]
    own_targets = {
        "vms": "web_1",
        "scopes": "web",
        "names": own[0]["operation"] if verb == "cancel" else "web_1",
        "event_ids": own[0]["EventId"],
    }
    hidden = {
        "vms": foreign["vm"],
        "scopes": foreign["scope"],
        "names": foreign["operation"] if verb == "cancel" else foreign["vm"],
        "event_ids": foreign["event"],
    }
    answer_by_case: dict[str, tuple[int, str]] = {}
    for name, targets in (
        ("own", own_targets),
        ("hidden", hidden),
        ("unknown", unknown),
    ):
        body = {key: [targets[key]], "dry_run": True, **more}
        answer = lived.ask(token, "POST", f"/v1/{verb}", json=body)
        answer_by_case[name] = (
            answer.status_code,
            answer.text.replace(targets[key], "…"),
        )
    assert answer_by_case["hidden"] == answer_by_case["unknown"]
    for secret in lived.secrets():
        assert secret not in answer_by_case["own"][1]


def test_redeployment_names_the_hosts_to_which_vms_would_go(
    client: TestClient, gateway: LocalGateway
) -> None:
    client.post("/v1/fail", json={"names": ["web_0"]})
    [move] = counted(client, gateway, "redeploy", vms=["web_0"])["moves"]
    assert move["vm"] == "web_0"
    body = client.post("/v1/redeploy", json={"vms": ["web_0"]}).json()
    [operation] = body["operations"]
    assert [move_["to_host"] for move_ in operation["moves"]] == [move["to_host"]]
    assert move["to_host"] != "h1"


def test_tenant_learns_no_destination() -> None:
    shared = Shared()
    answer = shared.ask(
        shared.token(),
        "POST",
        "/v1/redeploy",
        json={"vms": ["web_0"], "dry_run": True},
    )
    assert answer.is_success, answer.text
    assert answer.json()["moves"] == []
