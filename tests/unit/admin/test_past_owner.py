"""A scope moves to another tenant, and its past stays with the former tenant."""

from typing import Any

import pytest

from forewarn.reporting import event_details
from tests.unit.admin.tenants import FLEET, Shared

BEFORE = '[[scope]]\nname = "hidden-db"\ntenant = "hidden-bank"'
AFTER = BEFORE.replace("hidden-bank", "shop")


class Moved(Shared):
    """A restart of the bank's VM has ended, and its scope moves to the shop."""

    def __init__(self) -> None:
        super().__init__()
        self.gateway.enable("hidden-db-1")
        self.bank, self.shop = self.token("hidden-bank"), self.token("shop")
        body = self.ask(
            self.bank, "POST", "/v1/reboot", json={"vms": ["hidden-db-1"]}
        ).json()
        self.operation = str(body["operations"][0]["operation"])
        self.event = str(body["operations"][0]["events"][0]["EventId"])
        self.request = str(body["request"])
        self.gateway.advance("1h")
        self.apply(AFTER)
        self.gateway.advance("1m")

    def apply(self, scope: str) -> None:
        text = FLEET.replace(BEFORE, scope)
        answer = self.client.post("/v1/fleet/apply", json={"text": text})
        assert answer.json()["applied"], answer.text

    def get(self, token: str, path: str, **params: str) -> Any:
        return self.ask(token, "GET", f"/v1/{path}", params=params)


@pytest.fixture(scope="module")
def moved() -> Moved:
    return Moved()


def paths(moved: Moved) -> list[str]:
    return [
        f"operations/{moved.operation}",
        f"explain/{moved.operation}",
        f"requests/{moved.request}",
        f"history/operations/{moved.operation}",
        f"history?operation={moved.operation}",
        f"history?event={moved.event}",
    ]


def test_former_owner_still_finds_the_operation(moved: Moved) -> None:
    for path in paths(moved):
        answer = moved.ask(moved.bank, "GET", f"/v1/{path}")
        assert answer.status_code == 200, f"{path}: {answer.text}"
        assert moved.operation in answer.text


def test_new_owner_does_not_find_the_operation(moved: Moved) -> None:
    for path in paths(moved):
        answer = moved.ask(moved.shop, "GET", f"/v1/{path}")
        assert answer.status_code == 404, f"{path}: {answer.text}"


@pytest.mark.parametrize(
    ("path", "params", "key"),
    [
        ("history", {"vm": "hidden-db-1"}, "entries"),
        ("history", {"what": "operation done"}, "entries"),
        ("history", {"scope": "hidden-db", "what": "operation"}, "entries"),
        ("history/operations", {}, "operations"),
        ("history/operations", {"vm": "hidden-db-1"}, "operations"),
        ("history/operations", {"tenant": "hidden-bank"}, "operations"),
        ("operations", {"all": "true"}, "operations"),
        ("operations", {"all": "true", "vm": "hidden-db-1"}, "operations"),
        ("operations", {"state": "Done"}, "operations"),
        ("events", {"all": "true"}, "events"),
    ],
)
def test_lists_show_the_operation_only_to_the_former_owner(
    moved: Moved, path: str, params: dict[str, str], key: str
) -> None:
    answer = moved.get(moved.bank, path, **params)
    assert answer.status_code == 200, answer.text
    assert moved.operation in str(answer.json()[key]), answer.text
    assert moved.operation not in moved.get(moved.shop, path, **params).text


def test_new_owner_sees_operations_after_the_move(moved: Moved) -> None:
    body = {"vms": ["hidden-db-1"]}
    answer = moved.ask(moved.shop, "POST", "/v1/reboot", json=body).json()
    operation = answer["operations"][0]["operation"]
    assert moved.get(moved.shop, f"operations/{operation}").status_code == 200
    assert moved.get(moved.bank, f"operations/{operation}").status_code == 404
    assert moved.get(moved.bank, "history", scope="hidden-db").status_code == 200
    assert operation not in moved.get(moved.bank, "history", scope="hidden-db").text
    moved.order("cancel", names=[operation])


def test_operators_find_the_operation_under_the_former_owner(moved: Moved) -> None:
    def asked(tenant: str) -> str:
        params = {"tenant": tenant, "all": "true"}
        return str(moved.client.get("/v1/operations", params=params).text)

    # A tenant quotes the id that it sees; the operator's lists have the real one.
    quoted = moved.client.get(f"/v1/operations/{moved.operation}")
    assert quoted.status_code == 200, quoted.text
    real = str(quoted.json()["operation"])
    assert real in asked("hidden-bank")
    assert real not in asked("shop")


def test_vm_does_not_see_how_events_of_its_former_owner_ended() -> None:
    moved = Moved()

    def ended() -> list[str]:
        events = moved.gateway.store.read(
            lambda reader: event_details.own_events(
                reader, "hidden-db-1", now=moved.gateway.now()
            )
        )
        assert events is not None
        return [event.event_id for event in events.ended]

    assert ended() == []
    # Given back, it is theirs again.
    moved.apply(BEFORE)
    assert ended() == [moved.event]


def test_operation_of_a_returned_vm_is_listed_once() -> None:
    moved = Moved()
    moved.apply(BEFORE)
    answer = moved.get(moved.bank, "history/operations").json()["operations"]
    assert [operation["operation"] for operation in answer] == [moved.operation]
    assert moved.get(moved.shop, "history", scope="hidden-db").status_code == 200
    assert moved.operation not in moved.get(moved.shop, "history").text


def test_deleted_scope_keeps_its_history() -> None:
    gone = Moved()
    assert gone.operation in gone.get(gone.bank, "history/operations").text
    text = '[[tenant]]\nname = "hidden-bank"\n[[tenant]]\nname = "shop"\n'
    answer = gone.client.post("/v1/fleet/apply", json={"text": text})
    assert answer.status_code == 200, answer.text
    assert gone.operation in gone.get(gone.bank, "history/operations").text
