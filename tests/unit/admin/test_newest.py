"""The history from the newest entry on, for operators and tenants."""

from collections import Counter
from typing import Any

import pytest

from forewarn.admin import limits, selection
from forewarn.control.redaction.tenant_places import cursor_at
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.fleet.model import Tenant
from forewarn.instants import SECOND, Micros
from forewarn.protocol import actors
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Transaction, every
from forewarn.store.records import NOTHING, AuditEntry, AuditKind
from tests.support.counted import CountedStore
from tests.unit.admin.tenants import Shared


@pytest.fixture(scope="module")
def shared() -> Shared:
    new_shared = Shared()
    new_shared.live()
    return new_shared


def listed(
    shared: Shared, path: str, token: str, **params: str
) -> list[dict[str, Any]]:
    """Return all pages of a list."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        query = {**params, "after": after}
        answer = shared.client.get(f"/v1/{path}", params=query, headers=headers)
        assert answer.is_success, answer.text
        page = answer.json()
        rows += page.get("entries") or page.get("operations") or []
        if page["next"] is None:
            return rows
        after = page["next"]


SELECTED = [
    {},
    {"vm": "web_0"},
    {"scope": "web"},
    {"tenant": "shop"},
    {"what": "event"},
    {"since": "30m"},
    {"until": "30m"},
    {"since": "40m", "until": "20m"},
]


@pytest.mark.parametrize("is_tenant", [False, True])
@pytest.mark.parametrize("selected", SELECTED, ids=str)
def test_newest_first_has_the_same_entries_backwards(
    shared: Shared, is_tenant: bool, selected: dict[str, str]
) -> None:
    """Pages of two entries also end between entries of the same second."""
    token = shared.token("shop") if is_tenant else ""
    oldest = listed(shared, "history", token, **selected)
    newest = listed(shared, "history", token, **selected, newest="true", limit="2")
    assert len(oldest) > 2
    assert newest == oldest[::-1]


@pytest.mark.parametrize("is_tenant", [False, True])
@pytest.mark.parametrize(
    "selected", [{}, {"vm": "web_0"}, {"scope": "web"}, {"since": "10m"}], ids=str
)
def test_newest_operations_are_those_announced_last(
    shared: Shared, is_tenant: bool, selected: dict[str, str]
) -> None:
    token = shared.token("shop") if is_tenant else ""
    path = "history/operations"
    oldest = listed(shared, path, token, **selected)
    newest = listed(shared, path, token, **selected, newest="true", limit="1")
    assert oldest
    assert newest == oldest[::-1]


def test_text_that_is_no_cursor_begins_no_page(shared: Shared) -> None:
    token = shared.token("shop")
    for after in ("~", "x", "op-nope"):
        page = {"newest": "true", "after": after}
        answer = shared.ask(token, "GET", "/v1/history/operations", params=page)
        assert answer.json()["operations"] == []


def entries(*seconds: int) -> MemoryStore:
    """Return a history of a tenant, with entries at these seconds."""
    store = MemoryStore()

    def add(tx: Transaction) -> None:
        tx.add(Tenant(name="shop"))
        for number, second in enumerate(seconds):
            tx.add(
                AuditEntry(
                    entry_id=f"000001.{number:012}",
                    at=second * SECOND,
                    actor=actors.operator("alice"),
                    kind=AuditKind.FLEET_APPLIED,
                    why="",
                    subjects=("tenant:shop",),
                    operation="",
                    facts=NOTHING,
                )
            )

    store.transact(add)
    return store


@pytest.mark.parametrize(
    "seconds", [(10, 20, 30), (10, 30, 20, 40), (50, 10, 20, 60, 30), (10, 10, 20)]
)
def test_tenant_reads_from_each_time_on_even_if_the_clock_was_set_back(
    seconds: tuple[int, ...],
) -> None:
    """Each period has its entries between its bounds, read forwards and backwards."""
    store = entries(*seconds)
    times = sorted({*seconds, 5, 15, 25, 35, 70})
    for since in times:
        for until in times:
            if since >= until:
                continue

            def ask(reader: Any, first: Micros, end: Micros) -> None:
                tenant = TenantReader(reader, "shop")
                bounds = tenant.audit_keys(first, end)
                wanted = [
                    second * SECOND
                    for second in seconds
                    if first <= second * SECOND < end
                ]
                if bounds is None:
                    assert not wanted
                    return
                low, high = bounds
                start = f"{high} " if high else ""
                forward = every(tenant, kinds.ALL_AUDIT, after=low)
                backward = tenant.latest(kinds.ALL_AUDIT, before=start)
                inside = [
                    entry.at
                    for entry in forward
                    if first <= entry.at < end and not (high and entry.key > high)
                ]
                assert inside == wanted
                inside = [
                    entry.at
                    for entry in backward
                    if first <= entry.at < end and not (low and entry.key <= low)
                ]
                assert inside == wanted[::-1]

            store.read(lambda r, a=since, b=until: ask(r, a * SECOND, b * SECOND))


def test_cursor_of_a_deleted_entry_goes_on_with_the_older_ones() -> None:
    store = entries(10, 20, 40)

    def ask(reader: Any) -> list[Micros]:
        tenant = TenantReader(reader, "shop")
        gone = f"{cursor_at(30 * SECOND)}.x"
        return [entry.at for entry in tenant.latest(kinds.ALL_AUDIT, before=gone)]

    assert store.read(ask) == [20 * SECOND, 10 * SECOND]


def test_newest_page_reads_no_more_rows_of_a_longer_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pages of the console read the newest entries again and again."""
    monkeypatch.setattr(selection, "PAGE_ROWS", 50)
    shared = Shared()
    inner = shared.gateway.store

    def longer() -> None:
        for _ in range(100):
            shared.order("fail", names=["web_0"])
            shared.order("restore", names=["web_0"])
        shared.gateway.advance("1h")

    def rows() -> Counter[str]:
        counted = CountedStore(inner)
        monkeypatch.setattr(shared.gateway, "store", counted)
        for path in ("history?", "history?vm=web_0&", "history/operations?"):
            answer = shared.client.get(f"/v1/{path}newest=true&limit=5")
            assert len(answer.json().get("entries", range(5))) == 5
        monkeypatch.setattr(shared.gateway, "store", inner)
        return counted.rows

    longer()
    longer()
    before = rows()
    longer()
    assert rows() == before


@pytest.mark.parametrize("most", [0, 1_000])
def test_newest_entries_of_a_large_rollout_are_those_of_a_small_one(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """They are found among all entries, a page of which can have none of them."""
    monkeypatch.setattr(limits, "GATHERED_HOSTS_MAX", most)
    monkeypatch.setattr(limits, "SCAN_ROWS_MAX", 10)
    monkeypatch.setattr(selection, "PAGE_ROWS", 10)
    rollouts = shared.client.get("/v1/rollouts?all=true").json()["rollouts"]
    for name in [rollout["rollout"] for rollout in rollouts]:
        oldest = listed(shared, "history", "", operation=name)
        assert (
            listed(shared, "history", "", operation=name, newest="true")
            == (oldest[::-1])
        )
        assert oldest
    assert rollouts


def test_rare_entries_are_searched_step_by_step_and_each_page_says_how_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page without a match is not the end: the caller knows up to when it was searched."""
    monkeypatch.setattr(limits, "SCAN_ROWS_MAX", 10)
    monkeypatch.setattr(selection, "PAGE_ROWS", 10)
    shared = Shared()
    first = shared.order("fail", names=["web_1"])
    assert first
    for _ in range(4):
        shared.gateway.advance("10m")
        shared.order("fail", names=["web_0"])
        shared.order("restore", names=["web_0"])
    reached: list[str] = []
    after = ""
    while True:
        query = {"what": "fleet applied", "newest": "true", "after": after}
        page = shared.client.get("/v1/history", params=query).json()
        if page["entries"]:
            break
        reached.append(page["searched_to"])
        after = page["next"]
    assert [entry["what"] for entry in page["entries"]] == ["fleet applied"]
    assert len(reached) > 1
    assert reached == sorted(reached, reverse=True)


def test_main_changes_leave_out_the_details_and_keep_each_failure(
    shared: Shared,
) -> None:
    every = listed(shared, "history", "")
    main = listed(shared, "history", "", main="true", newest="true", limit="3")
    assert main == [entry for entry in every if entry["main"]][::-1]
    parts = [
        {entry["what"] for entry in every if entry["main"] is is_main}
        for is_main in (True, False)
    ]
    assert {"operation announced", "fleet applied", "event approved"} <= parts[0]
    assert {"event scheduled", "vm add"} <= parts[1]


def test_brief_history_has_the_first_line_of_each_detail(shared: Shared) -> None:
    whole = listed(shared, "history", "", what="fleet applied")
    brief = listed(shared, "history", "", what="fleet applied", brief="true")
    assert any("\n" in entry["detail"] for entry in whole)
    assert brief == [
        {**entry, "detail": entry["detail"].partition("\n")[0]} for entry in whole
    ]


def test_page_reads_an_operation_once_for_all_its_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared()
    shared.live()
    counted = CountedStore(shared.gateway.store)
    monkeypatch.setattr(shared.gateway, "store", counted)
    page = shared.client.get("/v1/history?newest=true&limit=1000&main=true").json()
    of_operations = [
        subject
        for entry in page["entries"]
        for subject in entry["subjects"]
        if subject.startswith("operation:")
    ]
    # Entries about details are read too, so an operation can have none on the page.
    assert len(of_operations) > len(set(of_operations))
    reads = counted.rows["Operation"]
    every = shared.client.get("/v1/operations?all=true&limit=1000").json()["operations"]
    assert 0 < reads <= len(every)


def test_search_for_a_large_rollout_ends_at_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "GATHERED_HOSTS_MAX", 0)
    monkeypatch.setattr(selection, "PAGE_ROWS", 10)
    shared = Shared()
    inner = shared.gateway.store
    for _ in range(20):
        shared.order("fail", names=["web_0"])
        shared.order("restore", names=["web_0"])
    shared.gateway.advance("1h")
    before = len(listed(shared, "history", ""))
    name = shared.order("maintain", hosts=["hidden-h2"], impact="reboot")["rollout"]
    counted = CountedStore(inner)
    monkeypatch.setattr(shared.gateway, "store", counted)
    oldest = listed(shared, "history", "", operation=name, newest="true")
    assert oldest
    # The first page behind the beginning ends the search.
    since = len(listed(shared, "history", "")) - before
    assert counted.rows["all_audit"] <= before + 2 * since + 30
