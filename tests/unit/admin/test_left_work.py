"""A tenant's last VM leaves the work on a shared host, which continues for others."""

from typing import Any

import pytest

from tests.unit.admin.streams import Streams, run
from tests.unit.admin.tenants import FLEET, Shared

MOVED = FLEET.replace(
    'name = "web_0"\nhost = "hidden-h1"', 'name = "web_0"\nhost = "hidden-h3"'
).replace(
    '[[host]]\nname = "hidden-h2"',
    '[[host]]\nname = "hidden-h2"\n\n[[host]]\nname = "hidden-h3"',
)
WITHOUT = FLEET.replace(
    """[[vm]]
name = "web_0"
host = "hidden-h1"
scope = "web"
fault_domain = 0
address = "192.0.2.4"

""",
    "",
)


class Left(Shared):
    """Maintenance of a host with a VM of each tenant is announced."""

    def __init__(self, impact: str = "reboot") -> None:
        super().__init__()
        assert MOVED.count("hidden-h3") == 2
        assert "web_0" not in WITHOUT
        for vm in ("web_0", "hidden-db-0"):
            self.gateway.enable(vm)
        self.shop, self.bank = self.token("shop"), self.token("hidden-bank")
        operation = self.order("maintain", hosts=["hidden-h1"], impact=impact)
        self.real = str(operation["operations"][0]["operation"])
        self.events = {
            event["tenant"]: str(event["EventId"])
            for event in operation["operations"][0]["events"]
        }
        operations = self.get(self.shop, "operations")["operations"]
        (self.alias,) = (str(operation["operation"]) for operation in operations)
        self.gateway.advance("1m")

    def get(self, token: str, path: str, **params: str) -> Any:
        answer = self.ask(token, "GET", f"/v1/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def apply(self, text: str) -> None:
        answer = self.client.post("/v1/fleet/apply", json={"text": text})
        assert answer.json()["applied"], answer.text

    def leave(self) -> None:
        """Move the shop's VM to another host by the fleet file."""
        self.apply(MOVED)

    def state(self) -> str:
        """Return the state that the operator sees."""
        return str(self.client.get(f"/v1/operations/{self.real}").json()["state"])

    def all_that_shop_sees(self) -> list[Any]:
        """Return the answers about the operation that the shop can ask for."""
        one = self.alias
        request = self.get(self.shop, f"operations/{one}")["request"]
        return [
            self.get(self.shop, f"operations/{one}"),
            self.get(self.shop, f"explain/{one}"),
            self.get(self.shop, f"requests/{request}"),
            self.get(self.shop, f"history/operations/{one}"),
            self.get(self.shop, "history", operation=one),
            self.get(self.shop, "history", operation=request),
            self.get(self.shop, "history", scope="web"),
            self.get(self.shop, "history"),
            self.get(self.shop, "operations", all="true"),
            self.get(self.shop, "operations", state="Cancelled"),
            self.get(self.shop, "history/operations"),
            self.get(self.shop, "events", all="true"),
            self.get(self.shop, "problems"),
        ]

    def end(self) -> None:
        """Let the maintenance go on to its end for the bank."""
        states = {self.state()}
        for _ in range(90):
            self.gateway.advance("1m")
            states.add(self.state())
        assert self.state() == "Done", states


def test_operation_is_over_for_the_tenant_that_left_it() -> None:
    left = Left()
    left.leave()
    assert left.state() == "Announced"
    assert left.get(left.shop, "operations")["operations"] == []
    for state in ("Announced", "Ready"):
        assert left.get(left.shop, "operations", state=state)["operations"] == []
    (ended,) = left.get(left.shop, "operations", state="Cancelled")["operations"]
    assert ended["operation"] == left.alias
    assert ended["blocked_by"] == []
    explanation = left.get(left.shop, f"explain/{left.alias}")
    assert explanation["state"] == "Cancelled"
    assert explanation["blockers"] == []
    assert "another tenant" not in str(explanation)
    account = left.get(left.shop, f"history/operations/{left.alias}")
    assert account["outcome"] == "cancelled"
    assert account["ended"] == "2030-01-01T00:01:00Z"
    request = left.get(left.shop, f"requests/{ended['request']}")
    assert request["state"] == "Closed"
    # The other tenant still has its event.
    (theirs,) = left.get(left.bank, "operations")["operations"]
    assert theirs["state"] == "Announced"


def test_later_steps_of_the_host_change_nothing_for_the_tenant() -> None:
    left = Left()
    left.leave()
    before = left.all_that_shop_sees()
    left.end()
    assert left.all_that_shop_sees() == before
    theirs = left.get(left.bank, "history", what="operation")["entries"]
    assert "operation done" in {entry["what"] for entry in theirs}


def test_steps_in_the_moment_of_leaving_are_hidden_too() -> None:
    left = Left()
    # The operation waits only for the shop, and is ready as soon as its VM has left.
    left.order("approve", event_ids=[left.events["hidden-bank"]])
    left.leave()
    assert left.state() != "Announced"
    shown = left.get(left.shop, "history", operation=left.alias)["entries"]
    assert [entry["what"] for entry in shown][-1] == "event removed"
    assert left.get(left.shop, f"history/operations/{left.alias}")["started"] is None


def test_redeploy_by_the_owner_leaves_the_maintenance() -> None:
    left = Left()
    left.apply(MOVED.replace('host = "hidden-h3"', 'host = "hidden-h1"'))
    body = left.ask(left.shop, "POST", "/v1/redeploy", json={"vms": ["web_0"]}).json()
    assert body["operations"], body
    approve = body["operations"][0]["events"][0]["EventId"]
    left.ask(left.shop, "POST", "/v1/approve", json={"event_ids": [approve]})
    left.gateway.advance("3m")
    open_operations = left.get(left.shop, "operations")["operations"]
    assert left.alias not in [operation["operation"] for operation in open_operations]
    gone = left.get(left.shop, f"operations/{left.alias}")
    assert gone["state"] == "Cancelled"


def test_vm_stays_while_the_driver_works_on_it() -> None:
    left = Left()
    left.gateway.driver.is_silent = True
    left.gateway.advance("20m")
    assert left.state() == "Impacting"
    answer = left.client.post("/v1/fleet/apply", json={"text": WITHOUT})
    assert answer.status_code == 409
    assert "cannot remove VM web_0: operation" in answer.json()["error"]


def test_vm_that_is_deleted_after_the_impact_has_had_it() -> None:
    left = Left()
    left.gateway.advance("20m")
    assert left.state() == "Recovering"
    left.apply(WITHOUT)
    account = left.get(left.shop, f"history/operations/{left.alias}")
    assert account["state"] == "Done"
    assert account["started"] is not None
    assert account["impact_ended"] is not None
    assert account["no_driver_call"] is False
    assert left.state() == "Recovering"


def test_last_vm_of_all_ends_the_operation_for_everyone() -> None:
    left = Left()
    left.leave()
    early = left.get(left.shop, f"operations/{left.alias}")
    left.gateway.advance("1m")
    bank = left.get(left.bank, "operations")["operations"][0]["operation"]
    left.apply(
        MOVED.replace(
            'name = "hidden-db-0"\nhost = "hidden-h1"',
            'name = "hidden-db-0"\nhost = "hidden-h3"',
        )
    )
    assert left.state() == "Cancelled"
    assert left.get(left.shop, f"operations/{left.alias}") == early
    entries = left.get(left.bank, "history", operation=bank)["entries"]
    assert "operation cancelled" in {entry["what"] for entry in entries}


@pytest.mark.parametrize("is_early", [True, False])
def test_stream_tells_the_tenant_once(*, is_early: bool) -> None:
    left = Left()
    if not is_early:
        left.leave()
        left.gateway.advance("1m")

    async def story(streams: Streams) -> None:
        # The history of a stream can begin with a few earlier entries.
        topics = ("operations", "events", *(["history"] if is_early else []))
        watcher = streams.watch(*topics)
        begun = await watcher.until("ready")
        assert (left.alias in str(begun)) is is_early
        if is_early:
            left.leave()
            messages = [await watcher.next() for _ in range(5)]
            kinds = sorted(kind for kind, _ in messages)
            assert kinds == ["events", *["history"] * 3, "operations"], messages
            (ended,) = (body for kind, body in messages if kind == "operations")
            assert ended["state"] == "Cancelled"
        left.end()
        # The next change that the tenant sees is its own.
        left.ask(left.shop, "POST", "/v1/reboot", json={"vms": ["web_0"]})
        kind, body = await watcher.next()
        assert left.alias not in str(body), (kind, body)
        await watcher.close()

    run(left.gateway, story, tenant="shop")
