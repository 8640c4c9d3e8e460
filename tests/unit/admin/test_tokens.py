"""Tokens of the store: expiry, last use, names and creators."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from forewarn.admin.tokens import parse_tokens
from forewarn.control import tokens
from forewarn.control.transactions.work import Who
from forewarn.instants import SECOND, parse_instant
from forewarn.protocol.actors import service_part
from forewarn.store import kinds
from forewarn.store.port import StoreError
from forewarn.store.records import Token
from tests.unit.admin.gateway import START, LocalGateway

ALICE = "alice-0123456789abcdef-0123"


def make(client: TestClient, **body: Any) -> Any:
    answer = client.post("/v1/tokens", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def stored(gateway: LocalGateway) -> list[Token]:
    return gateway.store.read(lambda reader: reader.select(kinds.ALL_TOKENS))


def use(client: TestClient, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return client.get("/v1/operations", headers=headers).status_code


def test_token_expires_after_90_days_by_default(
    client: TestClient, gateway: LocalGateway
) -> None:
    usual, short = make(client), make(client, expires_in="1h")
    endless = make(client, expires_in="never")
    assert parse_instant(usual["expires"]) - START == tokens.DEFAULT_LIFETIME
    assert (short["expires"], endless["expires"]) == ("2030-01-01T01:00:00Z", None)
    gateway.clock.advance_to(START + tokens.DEFAULT_LIFETIME - SECOND)
    assert [use(client, token["token"]) for token in (usual, short)] == [200, 401]
    gateway.clock.advance_to(START + tokens.DEFAULT_LIFETIME)
    assert [use(client, token["token"]) for token in (usual, endless)] == [401, 200]


def test_last_use_is_stored_hourly_without_a_history_entry(
    client: TestClient, gateway: LocalGateway
) -> None:
    created = make(client, expires_in="never")
    lines = client.get("/v1/history").json()["entries"]

    def last_use() -> tuple[Any, int]:
        (listed,) = client.get("/v1/tokens").json()["tokens"]
        return listed["last_used"], stored(gateway)[0].revision

    assert last_use() == (None, 0)
    for _ in range(3):
        assert use(client, created["token"]) == 200
    assert last_use() == ("2030-01-01T00:00:00Z", 1)
    gateway.clock.advance_to(START + tokens.USE_STEP - 1)
    use(client, created["token"])
    assert last_use()[1] == 1
    gateway.clock.advance_to(START + tokens.USE_STEP)
    use(client, created["token"])
    assert last_use() == ("2030-01-01T01:00:00Z", 2)
    assert client.get("/v1/history").json()["entries"] == lines


def test_use_of_revoked_token_is_not_stored(client: TestClient) -> None:
    created = make(client)
    client.post("/v1/tokens/revoke", json={"id": created["id"]})
    assert use(client, created["token"]) == 401
    assert client.get("/v1/tokens").json()["tokens"] == []


def test_request_succeeds_if_token_use_cannot_be_stored(
    client: TestClient, gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = make(client)

    def full(*_arguments: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(gateway.plane, "order", lambda *_args, **_more: full())
        assert use(client, created["token"]) == 200
    assert stored(gateway)[0].last_used_at == 0


@pytest.mark.parametrize("name", ["ci", "CI"])
def test_name_of_a_valid_token_is_refused(
    client: TestClient, gateway: LocalGateway, name: str
) -> None:
    first = make(client, name="ci", expires_in="1h")
    make(client, name=name, tenant="shop")
    make(client, name=name, tenant="bank")
    refused = client.post("/v1/tokens", json={"name": name})
    assert refused.status_code == 409
    assert refused.json()["error"] == f"token {first['id']} has the name ci"
    gateway.advance("1h")
    make(client, name=name)
    revoked = next(token for token in stored(gateway) if token.tenant == "shop")
    client.post("/v1/tokens/revoke", json={"id": revoked.token_id})
    make(client, name=name, tenant="shop")


def test_unnamed_tokens_are_named_after_their_ids(client: TestClient) -> None:
    two_tokens = [make(client), make(client)]
    assert [f"tk-{token['name'].removeprefix('token-')}" for token in two_tokens] == [
        token["id"] for token in two_tokens
    ]


def test_number_of_tokens_is_bounded(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 2)
    make(client, tenant="shop")
    make(client, tenant="shop")
    refused = client.post("/v1/tokens", json={"tenant": "shop"})
    assert refused.status_code == 409
    assert "tenant shop has 2 tokens" in refused.json()["error"]
    make(client, tenant="bank")


def test_names_of_the_token_file_cannot_be_reused(gateway: LocalGateway) -> None:
    open_app = TestClient(
        create_app(gateway, tokens=None, version="1"), base_url="http://127.0.0.1"
    )
    early = make(open_app, name="alice")["token"]
    known = parse_tokens(f"alice:{ALICE}\n", file="tokens")
    app = create_app(gateway, tokens=known, version="1")
    guarded = TestClient(app, headers={"Authorization": f"Bearer {ALICE}"})
    for name in ("alice", "Alice"):
        refused = guarded.post("/v1/tokens", json={"name": name})
        assert refused.status_code == 409
        assert "in the token file" in refused.json()["error"]
    make(guarded, name="alice", tenant="shop")
    # A token with a name that the file got later is refused.
    assert use(guarded, early) == 401


def test_token_created_without_authentication_is_marked_and_revoked(
    gateway: LocalGateway,
) -> None:
    open_app = TestClient(
        create_app(gateway, tokens=None, version="1"), base_url="http://127.0.0.1"
    )
    stranger = make(open_app, name="stranger")
    assert stranger["unauthenticated"]
    # So is a token that its holder makes.
    open_app.headers["Authorization"] = f"Bearer {stranger['token']}"
    second = make(open_app, name="second")
    assert second["unauthenticated"]

    known = parse_tokens(f"alice:{ALICE}\n", file="tokens")
    guarded = TestClient(
        create_app(gateway, tokens=known, version="1"),
        headers={"Authorization": f"Bearer {ALICE}"},
    )
    good = make(guarded, name="good")
    assert not good["unauthenticated"]
    ended = gateway.plane.order(
        Who(actor=service_part("service")),
        tokens.revoke_unauthenticated,
        now=gateway.now(),
    )
    assert ended == 2
    all_tokens = (stranger, second, good)
    assert [use(guarded, token["token"]) for token in all_tokens] == [401, 401, 200]


def test_history_names_token_and_peer_of_each_order(client: TestClient) -> None:
    new_token = make(client, name="ci")
    headers = {"Authorization": f"Bearer {new_token['token']}"}
    client.post("/v1/reboot", json={"vms": ["web_0"]}, headers=headers)
    entries = client.get("/v1/history").json()["entries"]
    (created,) = (entry for entry in entries if entry["what"] == "token created")
    assert (created["actor"], created["token"]) == ("operator", None)
    assert created["peer"] == "testclient"
    own_entries = [entry for entry in entries if entry["actor"] == "ci"]
    assert own_entries
    for row in own_entries:
        assert (row["token"], row["peer"]) == (new_token["id"], "testclient")
