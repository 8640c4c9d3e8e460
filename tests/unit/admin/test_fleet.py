"""The fleet: listed, exported, checked, planned and applied."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits
from forewarn.admin.fleet import _page
from forewarn.admin.selection import Wanted
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.store.memory import MemoryStore
from tests.support.counted import Counted
from tests.support.rollouts import fleet, name_of, world_of
from tests.support.worlds import World
from tests.unit.admin.gateway import FLEET

SECTIONS = ("tenants", "scopes", "hosts", "vms")


def post(client: TestClient, path: str, text: str, status: int = 200) -> Any:
    body = {"name": "fleet.toml", "text": text}
    answer = client.post(f"/v1/fleet/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_fleet_is_listed(client: TestClient) -> None:
    fleet = client.get("/v1/fleet").json()
    assert [tenant["name"] for tenant in fleet["tenants"]] == ["bank", "shop"]
    assert [scope["name"] for scope in fleet["scopes"]] == ["db", "same", "web"]
    assert [host["name"] for host in fleet["hosts"]] == ["h1", "h2", "same"]
    assert len(fleet["vms"]) == 5
    assert fleet["next"] is None


def test_fleet_is_listed_in_pages(client: TestClient) -> None:
    names_listed: list[str] = []
    after = ""
    while True:
        page = client.get("/v1/fleet", params={"limit": 2, "after": after}).json()
        assert sum(len(page[section]) for section in SECTIONS) <= 2
        names_listed += [f"{s}:{row['name']}" for s in SECTIONS for row in page[s]]
        if page["next"] is None:
            break
        after = page["next"]
    assert len(names_listed) == len(set(names_listed)) == 13
    answer = client.get("/v1/fleet", params={"after": "cats:1"})
    assert answer.status_code == 400


def test_applying_an_exported_fleet_changes_nothing(client: TestClient) -> None:
    answer = client.get("/v1/fleet/export")
    assert answer.headers["content-type"].startswith("application/toml")
    assert post(client, "plan", answer.text)["is_empty"]


def test_objects_of_a_valid_file_are_counted(client: TestClient) -> None:
    assert post(client, "validate", FLEET) == {
        "tenants": 2,
        "scopes": 3,
        "hosts": 3,
        "vms": 5,
    }


def test_plan_changes_nothing_and_apply_does(client: TestClient) -> None:
    text = FLEET + '\n[[host]]\nname = "h9"\n'
    plan = post(client, "plan", text)
    assert plan["lines"] == ["+ host h9"]
    assert not plan["applied"]
    assert post(client, "plan", text) == plan
    done = post(client, "apply", text)
    assert (done["applied"], done["lines"]) == (True, plan["lines"])
    assert done["changes"] == [
        {"kind": "host", "action": "add", "name": "h9", "fields": []}
    ]
    assert post(client, "apply", text)["is_empty"]


def test_plan_is_refused_if_apply_would_be(client: TestClient) -> None:
    fleet = FLEET + '\n[[host]]\nname = "h3"\n'
    post(client, "apply", fleet)
    move = fleet.replace('name = "web_0"\nhost = "h1"', 'name = "web_0"\nhost = "h3"')
    assert post(client, "plan", move)["lines"] == ["~ vm web_0: host h1 → h3"]
    assert client.post("/v1/fail", json={"names": ["h3"]}).status_code == 201
    refused = post(client, "plan", move, 409)
    assert refused["error"] == "cannot put VM web_0 on host h3: the host is down"
    assert post(client, "apply", move, 409)["error"] == refused["error"]

    client.post("/v1/maintain", json={"hosts": ["h1"], "impact": "freeze"})
    scopes = fleet.replace('name = "web_0"', 'name = "web_0"\nwire_name = "new"')
    refused = post(client, "plan", scopes, 409)
    assert (
        "cannot change the scope or wire name of VM web_0 while operation op-"
        in refused["error"]
    )
    assert post(client, "apply", scopes, 409)["error"] == refused["error"]


def test_every_problem_of_an_invalid_file_is_reported(client: TestClient) -> None:
    text = '[[vm]]\nname = "a"\nhost = "h7"\nsize = 3\n'
    for path in ("validate", "plan", "apply"):
        refused = post(client, path, text, 400)
        assert refused["kind"] == "bad-fleet"
        keys = {(problem["line"], problem["key"]) for problem in refused["problems"]}
        assert keys == {(3, "vm.host"), (4, "vm.size")}
        assert refused["problems"][0]["text"].startswith("fleet.toml:3: vm.host: ")


@pytest.mark.parametrize("text", ["", "# nothing is left of it\n"])
def test_empty_file_removes_everything_only_if_allowed(
    client: TestClient, text: str
) -> None:
    before = client.get("/v1/fleet").json()
    for path in ("plan", "apply"):
        refused = post(client, path, text, 409)
        assert refused["kind"] == "refused"
        assert refused["error"] == (
            "the fleet file is empty; applying it would remove everything "
            "(2 tenants, 2 scopes, 3 hosts, 5 vms)"
        )
        assert "--allow-empty" in refused["hint"]
    assert client.get("/v1/fleet").json() == before
    meant = {"text": text, "allow_empty": True}
    plan = client.post("/v1/fleet/plan", json=meant).json()
    assert "- vm web_0" in plan["lines"]
    assert client.get("/v1/fleet").json() == before
    done = client.post("/v1/fleet/apply", json=meant).json()
    assert (done["applied"], done["lines"]) == (True, plan["lines"])
    assert client.get("/v1/fleet").json()["vms"] == []
    # Where there is nothing, an empty file takes nothing away.
    assert post(client, "apply", text)["is_empty"]


@pytest.mark.parametrize("path", ["validate", "plan", "apply"])
def test_lone_surrogate_in_fleet_text_is_rejected(
    client: TestClient, path: str
) -> None:
    answer = client.post(
        f"/v1/fleet/{path}",
        content=rb'{"text": "[[host]]\nname = \"\ud800\"\n"}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 400
    assert answer.json()["problems"] == [
        {"place": "text", "message": "is not valid here"}
    ]


def test_fleet_file_can_be_longer_than_a_request(client: TestClient) -> None:
    comment = "#" * limits.ORDER_BYTES_MAX + "\n"
    assert post(client, "validate", comment + FLEET)["vms"] == 5
    answer = client.post("/v1/reboot", json={"vms": ["a"], "reason": comment})
    assert answer.status_code == 413
    assert answer.json()["kind"] == "too-large"


def test_body_of_unknown_length_is_limited(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(3):
            yield b" " * (limits.ORDER_BYTES_MAX // 2)

    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/reboot", content=chunks(), headers=headers)
    assert answer.status_code == 413


def test_selected_fleet_reads_each_vm_once_and_fills_its_pages() -> None:
    count, limit = 60, 100
    world = world_of([{"a": 0, "b": 1}] * count)
    rows: Counter[str] = Counter()

    def page(wanted: Wanted) -> dict[str, Any]:
        return world.read(
            lambda reader: _page(Counted(reader, rows).reader, wanted, 0, "", limit)
        )

    assert page(Wanted(tenant="nobody"))["next"] is None
    # Each question counts too.
    assert rows["all_vms"] == 2 * count + 1
    assert not rows["vms_of_scope"]
    assert not rows["vms_on_host"]
    selected = page(Wanted(scope="a"))
    assert selected["next"] == f"vms:{selected['vms'][-1]['name']}"
    assert len(selected["hosts"]) == count
    assert sum(len(part) for name, part in selected.items() if name != "next") == limit


def test_fleet_with_a_tag_is_read_without_the_others() -> None:
    count = 60
    text = fleet([{"a": 0, "b": 1}] * count)
    for number in (7, 30):
        place = f'host = "{name_of(number)}"\n'
        text = text.replace(place, place + 'tags = { role = "db" }\n')
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)
    rows: Counter[str] = Counter()
    page = world.read(
        lambda reader: _page(
            Counted(reader, rows).reader, Wanted(tag="role=db"), 0, "", 100
        )
    )
    assert [host["name"] for host in page["hosts"]] == [name_of(7), name_of(30)]
    assert {vm["host"] for vm in page["vms"]} == {name_of(7), name_of(30)}
    assert len(page["vms"]) == 4
    assert len(page["scopes"]) == 2
    assert not rows["all_vms"]
    assert rows["vms_with_tag"] == 1 + 4


@pytest.mark.parametrize("is_small", [True, False])
def test_fleet_of_a_small_place_is_read_without_the_others(
    monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    if not is_small:
        monkeypatch.setattr(limits, "PLACE_HOSTS_MAX", 2)
    count = 60
    text = fleet([{"a": 0, "b": 1}] * count)
    for number in range(count):
        name = f'[[host]]\nname = "{name_of(number)}"'
        place = f'rack = "r{number // 3}"\nlabels = {{ model = "m{number % 2}" }}'
        text = text.replace(name, f"{name}\n{place}")
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)
    rows: Counter[str] = Counter()
    names_found: list[tuple[str, str]] = []
    after = ""
    # Pages of two objects begin in the middle of a host.
    while True:
        section, _, name = after.partition(":")
        first = SECTIONS.index(section) if section else 0
        wanted = Wanted(places=("label=model=m1", "rack=r7"))
        page = world.read(
            lambda reader, first=first, name=name, wanted=wanted: _page(
                Counted(reader, rows).reader, wanted, first, name, 2
            )
        )
        names_found += [
            (section, one["name"]) for section in SECTIONS for one in page[section]
        ]
        if (after := page["next"] or "") == "":
            break
    assert names_found == [
        ("tenants", "shop"),
        ("scopes", "a"),
        ("scopes", "b"),
        ("hosts", "h0021"),
        ("hosts", "h0023"),
        ("vms", "a-21"),
        ("vms", "a-23"),
        ("vms", "b-21"),
        ("vms", "b-23"),
    ]
    assert bool(rows["all_vms"]) != is_small
    assert not is_small or not rows["all_hosts"]
