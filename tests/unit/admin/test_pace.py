"""The rate limits of tenants, with a virtual clock."""

import math

import pytest

from forewarn.admin import limits
from forewarn.admin.errors import TooManyError
from forewarn.admin.throttle import Pace
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry
from tests.unit.admin.tenants import Shared


class Seconds:
    """The I/O time."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def pace(seconds: Seconds) -> Pace:
    return Pace(seconds)


def use_up(pace: Pace, tenant: str) -> int:
    """Send orders until one is refused; return the number of accepted ones."""
    taken = 0
    while True:
        try:
            pace.take(tenant)
        except TooManyError:
            return taken
        taken += 1


def test_burst_is_allowed_and_then_one_request_per_second(
    pace: Pace, seconds: Seconds
) -> None:
    for _ in range(limits.TENANT_ORDERS_AT_ONCE):
        pace.take("shop")
    for _ in range(7):
        seconds.now += 1 / limits.TENANT_ORDERS_PER_SECOND
        pace.take("shop")
    with pytest.raises(TooManyError):
        pace.take("shop")


def test_request_succeeds_after_the_reported_retry_time(
    pace: Pace, seconds: Seconds
) -> None:
    use_up(pace, "shop")
    seconds.now += 0.25
    with pytest.raises(TooManyError) as raised:
        pace.take("shop")
    # The two that were refused count as well.
    assert raised.value.retry_seconds == math.ceil(2.75)
    seconds.now += raised.value.retry_seconds
    pace.take("shop")


def test_refused_requests_lengthen_the_wait_up_to_a_limit(
    pace: Pace, seconds: Seconds
) -> None:
    use_up(pace, "shop")
    for _ in range(1000):
        with pytest.raises(TooManyError):
            pace.take("shop")
    with pytest.raises(TooManyError) as raised:
        pace.take("shop")
    most = 1 + limits.TENANT_REFUSED_MAX
    assert raised.value.retry_seconds == most
    seconds.now += most
    pace.take("shop")


def test_burst_size_is_not_exceeded_after_a_long_pause(
    pace: Pace, seconds: Seconds
) -> None:
    use_up(pace, "shop")
    seconds.now += 10**6
    assert use_up(pace, "shop") == limits.TENANT_ORDERS_AT_ONCE


def test_each_tenant_has_its_own_rate_limit(pace: Pace) -> None:
    use_up(pace, "shop")
    assert use_up(pace, "bank") == limits.TENANT_ORDERS_AT_ONCE


def test_idle_callers_are_forgotten_and_active_callers_are_kept(
    pace: Pace, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PACES_MAX", 3)
    for name in ("a", "b", "c"):
        pace.take(name)
    seconds.now += 2
    use_up(pace, "c")
    pace.take("d")
    assert set(pace._full_at) == {"c", "d"}
    assert use_up(pace, "c") == 0


# Through the API


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Shared:
    """Return a service with a burst of two orders for tenants."""
    monkeypatch.setattr(limits, "TENANT_ORDERS_AT_ONCE", 2)
    monkeypatch.setattr(limits, "TENANT_ORDERS_PER_SECOND", 0.01)
    return Shared()


def test_tenant_over_the_rate_limit_gets_retry_after(
    hurried: Shared,
) -> None:
    shop, bank = hurried.token("shop"), hurried.token("hidden-bank")
    body = {"vms": ["web_0"]}
    responses = [hurried.ask(shop, "POST", "/v1/reboot", json=body) for _ in range(2)]
    # The second is refused by the rules, or not: it counts.
    assert responses[0].status_code == 201
    lines = hurried.gateway.store.read(lambda reader: len(_trail(reader)))
    answer = hurried.ask(shop, "POST", "/v1/reboot", json=body)
    assert answer.status_code == 429
    assert answer.json()["kind"] == "too-many"
    assert "too many requests from tenant shop" in answer.json()["error"]
    assert 100 < int(answer.headers["Retry-After"]) <= 200
    # Nothing was written, and another token of the same tenant is no way round.
    assert hurried.gateway.store.read(lambda reader: len(_trail(reader))) == lines
    again = hurried.ask(hurried.token("shop"), "POST", "/v1/reboot", json=body)
    assert again.status_code == 429
    # It may look, the other tenant may order, and the operator has no limit.
    assert hurried.ask(shop, "GET", "/v1/operations").status_code == 200
    vms = {"vms": ["hidden-db-0"]}
    assert hurried.ask(bank, "POST", "/v1/reboot", json=vms).status_code == 201
    for _ in range(4):
        hurried.order("fail", names=["web_1"])
        hurried.order("restore", names=["web_1"])


@pytest.mark.parametrize("text", ["reason", "description"])
def test_tenant_text_has_a_shorter_maximum_length(text: str) -> None:
    shared = Shared()
    shop = shared.token()
    fits = "x" * limits.TENANT_TEXT_CHARACTERS_MAX
    body = {"vms": ["web_0"], text: fits + "x"}
    answer = shared.ask(shop, "POST", "/v1/reboot", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"] == (
        f"{text}: a tenant's text has at most 200 characters, not 201"
    )
    body[text] = fits
    assert shared.ask(shop, "POST", "/v1/reboot", json=body).status_code == 201
    assert shared.order("reboot", vms=["web_1"], **{text: fits + "x"})


def test_text_limit_applies_to_every_tenant_request() -> None:
    shared = Shared()
    shop = shared.token()
    ordered = shared.ask(shop, "POST", "/v1/reboot", json={"vms": ["web_0"]}).json()
    operation = ordered["operations"][0]
    orders = {
        "reboot": {"vms": ["web_0"]},
        "redeploy": {"vms": ["web_0"]},
        "terminate": {"vms": ["web_0"]},
        "cancel": {"names": [operation["operation"]]},
        "approve": {"event_ids": [operation["events"][0]["EventId"]]},
    }
    for path, body in orders.items():
        answer = shared.ask(
            shop, "POST", f"/v1/{path}", json={**body, "reason": "x" * 201}
        )
        assert answer.status_code == 400, path
        assert "a tenant's text has at most 200" in answer.json()["error"]


def _trail(reader: Reader) -> list[AuditEntry]:
    return list(every(reader, kinds.ALL_AUDIT))
