"""Two tenants of one host compare all answers, and find nothing equal.

Facts that both may see anyway (which states and verbs there are, whole seconds) prove
nothing. An id, a fraction of a second, or the digest of an entry would.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from forewarn.admin import limits
from forewarn.control import outbox
from forewarn.control.redaction import tenant_filter
from forewarn.control.rules.policy import Subscriber
from forewarn.control.transactions.aliases import Aliases
from forewarn.control.transactions.work import Who
from forewarn.protocol.actors import operator
from forewarn.service.webhooks import payload
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import OutboxMessage
from tests.support.profiles import some
from tests.unit.admin.streams import Streams
from tests.unit.admin.tenants import Shared, paths

TENANTS = {"shop": ("web_0", "web_1"), "hidden-bank": ("hidden-db-0", "hidden-db-1")}

SECONDS = 5.0
"""Maximum time for the texts of a stream, which need milliseconds."""

TELLING = re.compile(
    r"\b(?:op|rq|ro)-[0-9a-z]{16}\b"  # operations and requests
    r"|\b[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{27}\b"  # events and messages
    r"|\b\d{17}\.[0-9a-z.]+"  # entries of the history
    r"|\d\d:\d\d\.\d+Z?"  # fractions of a second in an instant
    r"|(?<=\d)\.\d*[1-9]\d*(?=[,}])"  # or in a duration
)
"""Values that two tenants could compare."""


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TENANT_READS_AT_ONCE", 100_000)
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 100_000)


def live(shared: Shared) -> None:
    """Maintain a host of both tenants until the first VMs are down and up again."""
    for vm in ("web_0", "web_1", "hidden-db-0", "hidden-db-1"):
        shared.gateway.enable(vm)
    shared.gateway.advance("20m234567us")
    shared.order("maintain", hosts=["hidden-h1"], impact="reboot")
    shared.gateway.advance("15m345678us")
    shared.gateway.driver.is_silent = True
    shared.gateway.advance("20m456789us")
    shared.order("maintain", hosts=["hidden-h2"], impact="live-migrate")
    shared.gateway.advance("15m345678us")


@pytest.fixture(scope="module")
def browsed() -> Shared:
    """Return a service that the tests only ask."""
    shared = Shared()
    live(shared)
    return shared


@pytest.fixture
def lived() -> Shared:
    shared = Shared()
    live(shared)
    return shared


def questions(shared: Shared, tenant: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield every question that a tenant can ask about its objects."""
    token = shared.token(tenant)
    listed = shared.ask(token, "GET", "/v1/operations?all=true").json()["operations"]
    assert len(listed) == 2
    names = [row[key] for row in listed for key in ("operation", "request")]
    for method, path, operation in paths(shared.app.openapi()):
        if method != "GET" or path == "/v1/watch":
            continue
        if "{name}" in path:
            yield from ((path.replace("{name}", name), {}) for name in names)
            continue
        known = {one["name"] for one in operation.get("parameters", [])}
        more = {"all": "true"} if "all" in known else {}
        yield path, more
        if "limit" in known:
            yield path, {**more, "limit": "1"}
        if "operation" in known:
            yield from ((path, {**more, "operation": name}) for name in names)
        if "vm" in known:
            yield from ((path, {**more, "vm": vm}) for vm in TENANTS[tenant])


def told_by_lists(shared: Shared) -> dict[str, str]:
    """Return all answers to the questions of both tenants."""
    text_by_tenant: dict[str, str] = {}
    for tenant in TENANTS:
        text_by_tenant[tenant] = answers(shared, tenant)
        # They do not ask at the same microsecond.
        shared.gateway.advance("111us")
    return text_by_tenant


def answers(shared: Shared, tenant: str) -> str:
    """Return all answers to a tenant's questions, page by page."""
    token = shared.token(tenant)
    texts: list[str] = []
    for path, params in questions(shared, tenant):
        after = ""
        while True:
            query = {**params, **({"after": after} if after else {})}
            answer = shared.ask(token, "GET", path, params=query)
            if answer.status_code in {403, 404}:
                break
            assert answer.status_code == 200, (path, query, answer.text)
            texts.append(answer.text)
            after = answer.json().get("next") if "json" in str(answer.headers) else ""
            if not after:
                break
    assert len(texts) > 20
    # The period is that of the question.
    return re.sub(r'"(?:since|until)": ?"[^"]*"', "", "\n".join(texts))


def told_by_streams(shared: Shared) -> dict[str, str]:
    """Return what the streams of both tenants say at the beginning and of a change."""
    for tenant in TENANTS:
        shared.token(tenant)

    text_by_tenant = dict.fromkeys(TENANTS, "")

    async def play() -> None:
        async with (
            Streams(shared.gateway, "shop") as shop,
            Streams(shared.gateway, "hidden-bank") as bank,
        ):
            topics = ("operations", "events", "problems", "history")
            watchers = {tenant.tenant: tenant.watch(*topics) for tenant in (shop, bank)}
            for tenant, watcher in watchers.items():
                while "event: ready" not in text_by_tenant[tenant]:
                    text_by_tenant[tenant] += await watcher.text()
            (made,) = shared.client.get("/v1/operations?host=hidden-h2").json()[
                "operations"
            ]
            shared.order("cancel", names=[made["operation"]])
            for tenant, watcher in watchers.items():
                while (
                    "event: events" not in text_by_tenant[tenant].rpartition("ready")[2]
                ):
                    text_by_tenant[tenant] += await watcher.text()
                await watcher.close()

    asyncio.run(play())
    return text_by_tenant


def told_by_webhooks(shared: Shared) -> dict[str, str]:
    """Return what the receivers of both tenants are posted."""
    return {tenant: posted(shared, tenant) for tenant in TENANTS}


def posted(shared: Shared, tenant: str) -> str:
    messages = shared.gateway.store.read(
        lambda reader: outbox.waiting(reader, tenant, tenant=tenant, limit=100)
    )
    assert messages
    return "\n".join(
        payload.told(message, tenant=tenant).decode() for message in messages
    )


def compare(shared: Shared, tell: Any) -> None:
    """Check that both tenants have values, and that none are equal."""
    ids_by_tenant = {
        tenant: set(TELLING.findall(text)) for tenant, text in tell(shared).items()
    }
    shop, bank = ids_by_tenant["shop"], ids_by_tenant["hidden-bank"]
    assert shop
    assert bank
    assert not shop & bank
    real = shared.gateway.store.read(
        lambda reader: {
            name
            for operation in every(reader, kinds.ALL_OPERATIONS)
            for name in (operation.operation_id, operation.request)
        }
    )
    assert not real & (shop | bank)


DOORS = [told_by_lists, told_by_streams, told_by_webhooks]


@pytest.fixture
def with_webhooks() -> Shared:
    shared = Shared()
    plane = shared.gateway.plane
    subscribers = tuple(Subscriber(name=name, tenant=name) for name in TENANTS)
    plane.policy = replace(plane.policy, subscribers=subscribers)
    live(shared)
    return shared


@pytest.mark.parametrize("tell", DOORS)
def test_answers_to_two_tenants_have_no_equal_ids_or_times(
    with_webhooks: Shared, tell: Any
) -> None:
    compare(with_webhooks, tell)


@pytest.mark.parametrize("tell", some(DOORS, usual=[told_by_streams]))
@pytest.mark.parametrize("part", ["ids", "instants", "entries"])
def test_comparison_detects_equal_ids_and_times(
    with_webhooks: Shared, tell: Any, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if part == "ids":
        monkeypatch.setattr(Aliases, "_permuted", lambda _self, name, _rounds: name)
    elif part == "entries":
        if tell is not told_by_lists:
            pytest.skip("it has no entries")
        # As different as the entries, and the same for all tenants.
        monkeypatch.setattr(
            Aliases, "of_entry", lambda _self, name: name.replace(".", "")[-16:]
        )
    else:
        monkeypatch.setattr(tenant_filter, "cut_to_second", lambda instant: instant)
        monkeypatch.setattr(
            "forewarn.control.transactions.event_json.cut_to_second", lambda x: x
        )
    with pytest.raises(AssertionError):
        compare(with_webhooks, tell)


def test_an_order_returns_ids_that_its_tenant_can_use() -> None:
    shared = Shared()
    shared.gateway.enable("web_0")
    shared.gateway.advance("20m")
    token = shared.token()
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k1"}
    body = {"vms": ["web_0"]}
    response = shared.client.post("/v1/reboot", json=body, headers=headers)
    again = shared.client.post("/v1/reboot", json=body, headers=headers)
    assert response.status_code == again.status_code == 201, response.text
    assert again.json() == response.json()
    request = response.json()["request"]
    operation = response.json()["operations"][0]["operation"]
    for path in (
        f"requests/{request}",
        f"operations/{operation}",
        f"explain/{operation}",
        f"history/operations/{operation}",
    ):
        assert shared.ask(token, "GET", f"/v1/{path}").status_code == 200, path
    refused = shared.ask(token, "POST", "/v1/reboot", json=body)
    assert refused.status_code == 409
    assert operation in refused.text
    stranger = shared.token("hidden-bank")
    for name in (request, operation):
        path = f"/v1/history?operation={name}"
        assert shared.ask(token, "GET", path).json()["entries"]
        assert shared.ask(stranger, "GET", path).status_code == 404
    cancelled = shared.ask(token, "POST", "/v1/cancel", json={"names": [operation]})
    assert cancelled.json()["cancelled"][0]["operation"] == operation
    late = shared.ask(token, "POST", "/v1/cancel", json={"names": [request]})
    assert late.status_code == 409
    assert operation in late.text
    assert request in late.text


def test_an_operator_uses_the_id_that_a_tenant_quotes(lived: Shared) -> None:
    real = lived.client.get("/v1/operations").json()["operations"]
    (mine,) = [operation for operation in real if operation["impact"] == "live-migrate"]
    for tenant in TENANTS:
        listed = lived.ask(lived.token(tenant), "GET", "/v1/operations").json()
        (seen,) = [
            operation
            for operation in listed["operations"]
            if operation["impact"] == "live-migrate"
        ]
        assert seen["operation"] != mine["operation"]
        for path in ("operations/{}", "explain/{}", "history/operations/{}"):
            answer = lived.client.get(f"/v1/{path.format(seen['operation'])}")
            body = answer.json()
            assert body.get("operation", body.get("id")) == mine["operation"]
        answer = lived.client.get(f"/v1/requests/{seen['request']}")
        assert answer.json()["request"] == mine["request"]
        for name in (seen["operation"], seen["request"]):
            for path in ("history", "history/operations"):
                answer = lived.client.get(f"/v1/{path}?operation={name}")
                (found,) = {
                    json.dumps(row)
                    for row in answer.json()[
                        "entries" if path == "history" else "operations"
                    ][:1]
                }
                assert mine["operation"] in found or mine["request"] in found
    assert lived.client.get("/v1/operations/op-0000000000").status_code == 404


def test_operator_can_cancel_by_the_id_that_a_tenant_sees(lived: Shared) -> None:
    token = lived.token()
    listed = lived.ask(token, "GET", "/v1/operations").json()["operations"]
    (seen,) = [
        operation for operation in listed if operation["impact"] == "live-migrate"
    ]
    cancelled = lived.order("cancel", names=[seen["operation"]])["cancelled"]
    assert [operation["impact"] for operation in cancelled] == ["live-migrate"]
    assert cancelled[0]["operation"] != seen["operation"]


@pytest.mark.parametrize("path", ["operations?all=true&", "history?", "availability?"])
@pytest.mark.parametrize("digits", ["", "0", "17", "~", "op-", "web_0/1", "web_0/~"])
def test_invented_cursor_reveals_nothing_about_real_keys(
    browsed: Shared, path: str, digits: str
) -> None:
    token = browsed.token()
    answer = browsed.ask(token, "GET", f"/v1/{path}after={digits}&limit=1")
    assert answer.status_code == 200
    # Half a key in front of each: nothing is compared with the real ones.
    real = browsed.client.get("/v1/operations?all=true").json()["operations"]
    for operation in real if path.startswith("operations") else ():
        for name in (operation["operation"][:6], operation["operation"][:-1]):
            page = browsed.ask(token, "GET", f"/v1/{path}after={name}").json()
            assert page["operations"] == []


def test_stored_messages_of_a_tenant_can_be_dropped(
    with_webhooks: Shared,
) -> None:
    gateway = with_webhooks.gateway

    def waiting() -> list[OutboxMessage]:
        return gateway.store.read(
            lambda reader: outbox.waiting(reader, "shop", tenant="shop", limit=100)
        )

    there = waiting()
    assert there
    who = Who(actor=operator("x"))
    count = gateway.plane.order(
        who, lambda work: outbox.forget(work, there), now=gateway.now()
    )
    assert count == len(there)
    assert waiting() == []
