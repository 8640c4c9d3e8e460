"""A tenant uses the API for its own VMs, and cannot learn that others exist."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits, topics
from forewarn.admin.access import DEMANDS, Demand
from forewarn.admin.app import create_app
from forewarn.admin.tokens import parse_tokens
from forewarn.control.redaction.tenant_filter import TenantFilter
from forewarn.instants import MINUTE
from forewarn.protocol.blockers import (
    AnyBlocker,
    ByPlatform,
    NotDue,
    NoticeRuns,
    Redacted,
)
from forewarn.store import kinds
from forewarn.store.records import Token
from tests.unit.admin.streams import Streams, run
from tests.unit.admin.tenants import SECRETS, UNKNOWN, Shared, paths, without

HEALTH = {"GET /healthz", "GET /readyz"}


@pytest.fixture(scope="module")
def lived() -> Shared:
    """Return a service in the middle of maintenance that both tenants share.

    The requests of its tests change nothing.
    """
    shared = Shared()
    shared.live()
    return shared


@pytest.fixture
def shared() -> Shared:
    return Shared()


@pytest.fixture(autouse=True)
def no_limit_of_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the rate limit, which has separate tests."""
    monkeypatch.setattr(limits, "TENANT_READS_AT_ONCE", 100_000)


@pytest.fixture(scope="module")
def token(lived: Shared) -> str:
    return lived.token()


def test_every_route_declares_its_required_permission(lived: Shared) -> None:
    described = lived.app.openapi()
    routes = {f"{method} {path}" for method, path, _ in paths(described)} - HEALTH
    assert routes <= set(DEMANDS), "name what new routes demand, in admin/access.py"


def requests(lived: Shared, names: dict[str, str]) -> Iterator[tuple[str, str, Any]]:
    """Yield requests to every route about objects with these names."""
    described = lived.app.openapi()
    schemas = described["components"]["schemas"]
    for method, path, operation in paths(described):
        if "{name}" in path:
            for kind in ("operation", "request", "event", "vm"):
                yield method, path.replace("{name}", names[kind]), {}
        elif method == "GET":
            filters = {
                parameter["name"]
                for parameter in operation.get("parameters", [])
                if parameter["in"] == "query"
            }
            for key in filters & set(names):
                yield method, path, {"params": {key: names[key]}}
                if "vm" in filters - {key}:
                    own = {key: names[key], "vm": "web_0"}
                    yield method, path, {"params": own}
            if "operation" in filters:
                yield method, path, {"params": {"operation": names["request"]}}
        elif "requestBody" in operation and path != "/v1/session/links":
            # A link names no object, and each is another one.
            body = operation["requestBody"]["content"]["application/json"]
            schema = schemas[body["schema"]["$ref"].rpartition("/")[2]]
            for filled in bodies(schema["examples"][0], names):
                yield method, path, {"json": filled}


def bodies(example: dict[str, Any], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the example of a body, about objects with these names."""
    slots = {
        "vms": [[names["vm"]], [names["vm"], f"{names['vm']}x"]],
        "hosts": [[names["host"]]],
        "scopes": [[names["scope"]]],
        "host": [names["host"]],
        "name": list(names.values()),
        "event_ids": [[names["event"]]],
        "operation": [names["operation"]],
        "tenant": [names["tenant"]],
    }
    yielded = False
    for key, values in slots.items():
        if key in example:
            for value in values:
                yielded = True
                yield {**example, key: value}
    if not yielded:
        yield example


def test_object_of_another_tenant_is_answered_like_an_unknown_object(
    lived: Shared, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 1_000)
    foreign = lived.foreign()
    pairs = zip(requests(lived, foreign), requests(lived, UNKNOWN), strict=True)
    count = 0
    for (method, path, more), (_, unknown_path, unknown_more) in pairs:
        answer = lived.ask(token, method, path, **more)
        expected = lived.ask(token, method, unknown_path, **unknown_more)
        assert answer.status_code == expected.status_code, (path, more, answer.text)
        text, wanted = answer.text, expected.text
        for kind, name in foreign.items():
            text = without(text, name)
            wanted = without(wanted, UNKNOWN[kind])
        assert text == wanted, (method, path, more)
        count += 1
    assert count > 60


def test_vm_of_another_tenant_is_refused_like_an_unknown_vm() -> None:
    shared = Shared()
    shared.gateway.enable("web_0")
    token = shared.token()
    messages: list[str] = []
    for name in ("hidden-db-0", UNKNOWN["vm"]):
        for vms in (["web_0", name], [name, "web_0"]):
            body = shared.ask(token, "POST", "/v1/reboot", json={"vms": vms}).json()
            assert [operation["target"] for operation in body["operations"]] == [
                "web_0"
            ]
            messages.append(without(json.dumps(body["refused"]), name))
            shared.order("cancel", names=[body["request"]])
    assert len(set(messages)) == 1


def own_requests(lived: Shared, token: str) -> Iterator[tuple[str, str, Any]]:
    """Yield every question about the tenant's objects, except streams."""
    operations = lived.ask(token, "GET", "/v1/operations?all=true").json()["operations"]
    assert operations
    names: dict[str, list[str]] = {
        "vm": ["web_0", "web_1"],
        "scope": ["web"],
        "tenant": ["shop"],
        "operation": [operation["operation"] for operation in operations]
        + [operation["request"] for operation in operations],
        "event": [
            event["EventId"]
            for operation in operations
            for event in operation["events"]
        ],
        "host": [],
    }
    for method, path, described in paths(lived.app.openapi()):
        if method != "GET" or path == "/v1/watch":
            continue
        if "{name}" in path:
            for name in (*names["operation"], *names["event"]):
                yield method, path.replace("{name}", name), {}
            continue
        yield method, path, {}
        for parameter in described.get("parameters", []):
            for name in names.get(parameter["name"], ()):
                yield method, path, {"params": {parameter["name"]: name}}
            if parameter["name"] == "all":
                yield method, path, {"params": {"all": "true"}}
            if parameter["name"] == "limit":
                for limit in (1, 2):
                    yield method, path, {"params": {"limit": str(limit)}}


def look_everywhere(lived: Shared, token: str) -> int:
    """Ask everything, page by page; return the number of successful answers."""
    secrets = list(lived.secrets())
    good = 0
    for method, path, more in own_requests(lived, token):
        after = ""
        while True:
            options = more
            if after:
                options = {"params": {**more.get("params", {}), "after": after}}
            answer = lived.ask(token, method, path, **options)
            for secret in secrets:
                assert secret not in answer.text, (path, options, answer.text)
            good += answer.is_success
            after = (answer.is_success and _next(answer)) or ""
            if not after:
                break
    return good


def test_no_answer_reveals_a_host_or_another_tenant(lived: Shared, token: str) -> None:
    assert look_everywhere(lived, token) > 40


def leave_whole(_share: TenantFilter, *given: Any) -> Any:
    return given[-1]


@pytest.mark.parametrize(
    "part", ["_vm", "_event", "_cut", "_cut_request", "_facts", "_actor"]
)
def test_leak_check_detects_a_missing_filter(
    lived: Shared, token: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TenantFilter, part, leave_whole)
    with pytest.raises(AssertionError):
        look_everywhere(lived, token)


def _next(answer: Any) -> str | None:
    try:
        return answer.json().get("next")
    except ValueError:
        return None


@pytest.mark.parametrize("path", ["history", "operations?all=true", "availability"])
def test_pages_contain_the_whole_list(lived: Shared, token: str, path: str) -> None:
    key = {"history": "entries", "availability": "vms"}.get(path, "operations")
    whole = lived.ask(token, "GET", f"/v1/{path}").json()[key]
    assert len(whole) >= 2
    joined: list[Any] = []
    after = ""
    while True:
        params = {"limit": "1", **({"after": after} if after else {})}
        if "?" in path:
            params["all"] = "true"
        page = lived.ask(token, "GET", f"/v1/{path.partition('?')[0]}", params=params)
        joined += page.json()[key]
        if page.json()["next"] is None:
            break
        after = page.json()["next"]
    assert joined == whole


def test_wait_for_another_tenant_does_not_name_it(
    shared: Shared,
) -> None:
    for vm in ("web_0", "hidden-db-0"):
        shared.gateway.enable(vm)
    shared.gateway.advance("1m")
    ordered = shared.order("maintain", hosts=["hidden-h1"], impact="reboot")
    token = shared.token()
    (operation,) = shared.ask(token, "GET", "/v1/operations").json()["operations"]
    assert operation["scopes"] == ["web"]
    assert [move["vm"] for move in operation["moves"]] == ["web_0"]
    assert operation["blocked_by"] == [
        "tenant shop has not approved (scope web)",
        "another tenant has not approved",
        "NotBefore is in 15 m",
    ]
    name = operation["request"]
    # A tenant cannot use the real ID.
    real = shared.ask(token, "GET", f"/v1/requests/{ordered['request']}")
    assert real.status_code == 404
    request = shared.ask(token, "GET", f"/v1/requests/{name}").json()
    assert (request["actor"], request["reason"]) == ("platform", "")


def test_tenant_requests_approves_and_cancels_its_own_operations(
    shared: Shared,
) -> None:
    shared.gateway.enable("web_0")
    shared.gateway.advance("1m")
    token = shared.token()
    response = shared.ask(
        token, "POST", "/v1/reboot", json={"vms": ["web_0"], "reason": "ours"}
    )
    assert response.status_code == 201, response.text
    assert (response.json()["actor"], response.json()["reason"]) == ("shop/ci", "ours")
    name = response.json()["request"]
    answer = shared.ask(token, "POST", "/v1/cancel", json={"names": [name]})
    assert answer.status_code == 200, answer.text
    (cancelled,) = answer.json()["cancelled"]
    assert cancelled["note"] == "cancelled by shop/ci"
    shared.order("maintain", hosts=["hidden-h1"], impact="reboot")
    (event,) = shared.ask(token, "GET", "/v1/events").json()["events"]
    answer = shared.ask(
        token, "POST", "/v1/cancel", json={"names": [event["operation"]]}
    )
    assert answer.status_code == 409
    assert "tenant shop did not request" in answer.json()["error"]
    approved = shared.ask(
        token, "POST", "/v1/approve", json={"event_ids": [event["EventId"]]}
    )
    assert approved.json()["approved"][0]["approved_by"] == "(shop/ci)"


def test_a_refusal_does_not_name_the_host(shared: Shared) -> None:
    shared.order("fail", names=["hidden-h1"])
    answer = shared.ask(shared.token(), "POST", "/v1/reboot", json={"vms": ["web_0"]})
    assert answer.status_code == 409
    assert "hidden" not in answer.text


@pytest.mark.parametrize("route", sorted(DEMANDS))
def test_each_route_enforces_its_permission(
    lived: Shared, token: str, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Refused requests count, and this test sends many.
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 1_000)
    demand = DEMANDS[route]
    method, _, path = route.partition(" ")
    path = path.replace("{name}", "op-0000000000")
    described = {
        (verb, way): operation for verb, way, operation in paths(lived.app.openapi())
    }
    if (method, route.partition(" ")[2]) not in described:
        pytest.skip("not in this application")
    more: dict[str, Any] = {"json": {"vms": ["nobody-x"]}} if method == "POST" else {}
    if path == "/v1/watch":
        more = {"params": {"topics": "events", "vm": "nobody-x"}}
    is_refused = lived.ask(token, method, path, **more).status_code == 403
    assert is_refused is not demand.for_tenants
    reader = lived.token(read_only=True)
    is_refused = lived.ask(reader, method, path, **more).status_code == 403
    assert is_refused is (demand is not Demand.TENANT_READS)
    looking = lived.token("", read_only=True)
    is_refused = lived.ask(looking, method, path, **more).status_code == 403
    assert is_refused is demand.writes


def test_revoked_or_expired_token_is_refused(shared: Shared) -> None:
    ordered = shared.order("tokens", tenant="shop", name="ci", expires_in="1h")
    text = ordered["token"]
    assert shared.ask(text, "GET", "/v1/operations").status_code == 200
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    for bad in (wrong, "fw_nobody_" + "0" * 64, "", "no such form", text.upper()):
        assert shared.ask(bad, "GET", "/v1/operations").status_code == 401
    shared.gateway.advance("1h")
    assert shared.ask(text, "GET", "/v1/operations").status_code == 401
    (listed,) = shared.client.get("/v1/tokens").json()["tokens"]
    assert listed["expired"]
    other = shared.order("tokens", tenant="shop", name="two")
    shared.order("tokens/revoke", id=other["id"])
    assert shared.ask(other["token"], "GET", "/v1/operations").status_code == 401
    again = shared.client.post("/v1/tokens/revoke", json={"id": other["id"]})
    assert again.status_code == 404


def test_secret_is_shown_once_and_not_stored(shared: Shared) -> None:
    ordered = shared.order("tokens", tenant="shop", name="ci")
    secret = ordered["token"].rpartition("_")[2]
    assert len(secret) == 64
    for path in ("tokens", "history"):
        assert secret not in shared.client.get(f"/v1/{path}").text
    (kept,) = shared.gateway.store.read(lambda reader: reader.select(kinds.ALL_TOKENS))
    assert secret not in repr(kept)
    assert kept.digest not in repr(kept)
    lines = shared.client.get("/v1/history").json()["entries"]
    assert lines[-1]["what"] == "token created"


def test_tokens_are_deleted_with_their_tenant(shared: Shared) -> None:
    text = shared.token("hidden-bank")
    fleet = shared.client.get("/v1/fleet/export").text
    parts = [part for part in fleet.split("\n\n") if "hidden-db" not in part]
    text_left = "\n\n".join(
        part for part in parts if 'name = "hidden-bank"' not in part
    )
    shared.order("fleet/apply", text=text_left)
    assert shared.ask(text, "GET", "/v1/operations").status_code == 401
    assert shared.client.get("/v1/tokens").json()["tokens"] == []


def test_stream_shows_only_the_tenants_objects_and_ends_with_its_token(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.admin.limits.RECHECK_SECONDS", 0.01)
    for vm in ("web_0", "hidden-db-0"):
        shared.gateway.enable(vm)
    shared.gateway.advance("1m")
    text = shared.token()
    (kept,) = shared.gateway.store.read(lambda reader: reader.select(kinds.ALL_TOKENS))
    assert isinstance(kept, Token)
    messages: list[str] = []

    async def story(streams: Streams) -> None:
        watcher = streams.watch("operations", "events", "problems", "history")
        while "event: ready" not in "".join(messages):
            messages.append(await watcher.text())
        shared.order("reboot", vms=["hidden-db-1"])
        shared.order("maintain", hosts=["hidden-h1"], impact="reboot")
        name, seen = await watcher.next()
        while name != "operations":
            name, seen = await watcher.next()
        assert seen["scopes"] == ["web"]
        shared.order("tokens/revoke", id=kept.token_id)
        messages.extend([text async for text in watcher.texts])
        assert '"kind":"unauthorized"' in messages[-1]

    run(shared.gateway, story, tenant="shop")
    assert not any(secret in "".join(messages) for secret in SECRETS)
    assert text not in "".join(messages)


def test_a_stream_does_not_show_when_others_act(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.admin.limits.RECHECK_SECONDS", 0.01)
    for vm in ("web_0", "hidden-db-0"):
        shared.gateway.enable(vm)
    shared.order("maintain", hosts=["hidden-h1"], impact="reboot")
    shared.token()

    async def story(streams: Streams) -> None:
        watcher = streams.watch("operations", "events", "problems")
        await watcher.until("ready")
        operation = shared.client.get("/v1/operations").json()["operations"][0]
        # The operation of both is reported as changed, but looks the same.
        shared.gateway.changed([operation["operation"]])
        shared.order("reboot", vms=["hidden-db-1"])
        shared.gateway.advance("1m")
        ordered = shared.order("reboot", vms=["web_1"])
        _, seen = await watcher.next()
        assert seen["target"] == "web_1"
        assert watcher.last_id.endswith("-1")
        assert ordered["operations"]

    run(shared.gateway, story, tenant="shop")


def test_remaining_time_is_not_a_change() -> None:
    def looks(sentence: str, blocker: AnyBlocker, state: str = "") -> object:
        body = {"operation": "op-1", "blocked_by": [sentence], "state": state}
        return topics.looks_of(body, [blocker])

    before = looks("NotBefore is in 14 min", NotDue(remaining=14 * MINUTE))
    later = looks("NotBefore is in 13 min", NotDue(remaining=13 * MINUTE))
    assert before == later
    assert before != looks("", NotDue(remaining=14 * MINUTE), "Ready")
    assert before != looks("so says the platform", ByPlatform(what=Redacted.DOWN))
    assert before == looks("ends in 2 min", NoticeRuns(remaining=2 * MINUTE))


def test_stored_tokens_are_valid_alongside_a_token_file(shared: Shared) -> None:
    text = shared.token()
    known = parse_tokens("alice: s3cret-of-24-characters-x7\n", file="token")
    guarded = TestClient(create_app(shared.gateway, tokens=known, version="1"))

    def ask(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return guarded.get("/v1/tokens", headers=headers).status_code

    assert guarded.get("/v1/operations").status_code == 401
    assert [ask("s3cret-of-24-characters-x7"), ask(text), ask("wrong")] == [
        200,
        403,
        401,
    ]


@pytest.mark.parametrize("value", ["", "Basic eDp5", "Bearer", "Bearer s3cret"])
def test_invalid_token_is_rejected_even_if_auth_is_disabled(
    shared: Shared, value: str
) -> None:
    answer = shared.client.get("/v1/operations", headers={"Authorization": value})
    assert answer.status_code == 401
    assert shared.client.get("/v1/operations").status_code == 200


def test_health_reveals_no_names_to_a_tenant(shared: Shared) -> None:
    shared.gateway.state = type(shared.gateway.state)(
        alive=True, ready=False, problems=("no listener for vm hidden-db-0",)
    )
    assert "hidden" not in shared.ask(shared.token(), "GET", "/readyz").text
    assert "hidden" in shared.client.get("/readyz").text
