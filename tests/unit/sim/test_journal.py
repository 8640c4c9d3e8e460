"""The journal keeps the requests that assertions need, within its bounds."""

from forewarn.instants import SECOND
from forewarn.metadata.http import Request
from forewarn.sim import deviations
from forewarn.sim.deviations import RULES, Deviation
from forewarn.sim.journal import (
    BODY_KEPT_MAX,
    TARGET_KEPT_MAX,
    VALUE_KEPT_MAX,
    Evidence,
    Journal,
    JournalEntry,
    Repeated,
    kept,
)
from forewarn.sim.scenario.client_log import Witness
from tests.unit.metadata.support import EVENT_ID, approval, get, post

HEADER = (Deviation(rule=RULES["header"]),)


def see(
    journal: Journal,
    vm: str = "web_0",
    request: Request | None = None,
    *,
    genuine: int = 200,
    at: int = 0,
    found: tuple[Deviation, ...] = (),
) -> JournalEntry:
    sent = request or get()
    entry = JournalEntry(
        number=journal.last + 1,
        at=at,
        vm=vm,
        address="127.0.0.1",
        request=kept(sent),
        status=200,
        genuine=genuine,
        fault="" if genuine else "500 x1",
        deviations=found,
        approved=deviations.approved_ids(sent) if sent.method == "POST" else (),
    )
    journal.add(entry)
    return entry


def test_full_journal_drops_and_counts_the_oldest_requests() -> None:
    journal = Journal(requests_max=3)
    for _ in range(5):
        see(journal)
    assert [seen.number for seen in journal] == [3, 4, 5]
    assert (len(journal), journal.dropped, journal.last) == (3, 2, 5)
    journal.clear()
    assert (len(journal), journal.dropped) == (0, 0)
    assert see(journal).number == 6


def test_journal_filters_can_be_combined() -> None:
    journal = Journal()
    first = see(journal)
    lost = see(journal, request=post(approval(EVENT_ID)), genuine=0, at=5)
    taken = see(journal, request=post(approval(EVENT_ID.lower())), at=6)
    other = see(journal, "web_1", found=HEADER)
    assert journal.find(vm="web_0") == [first, lost, taken]
    assert journal.find(method="POST", since=lost.number) == [taken]
    assert journal.find(from_time=5) == [lost, taken]
    assert journal.find(event_id=EVENT_ID.lower()) == [lost, taken]
    assert journal.approvals(EVENT_ID) == journal.approvals(vm="web_0") == [taken]
    assert journal.approvals(vm="web_1") == []
    assert journal.find(deviating=True) == [other]
    assert journal.deviations() == [(other, HEADER[0])]
    assert journal.deviations(vm="web_0") == []


def test_repeated_request_is_recorded_like_any_other() -> None:
    journal = Journal(requests_max=4)
    first = see(journal, at=5 * SECOND)
    note = journal.repeating(Repeated(first, now=6 * SECOND, monotonic=100.0))
    note(100.5)
    posted = see(journal, request=post(approval(EVENT_ID)), at=7 * SECOND)
    note(101.000002)
    second = first._replace(number=2, at=6 * SECOND + SECOND // 2)
    fourth = first._replace(number=4, at=7 * SECOND + 2)
    assert [*journal] == journal.find() == [first, second, posted, fourth]
    assert journal.find(since=2) == [posted, fourth]
    assert journal.find(since=4) == journal.find(since=9) == []
    assert journal.find(method="GET", from_time=7 * SECOND) == [fourth]
    assert journal.find(vm="web_1") == journal.find(deviating=True) == []
    assert journal.approvals() == [posted]
    note(102.0)
    assert [seen.number for seen in journal] == [2, 3, 4, 5]
    assert (len(journal), journal.dropped, journal.last) == (4, 1, 5)
    journal.clear()
    assert (len(journal), journal.dropped, [*journal]) == (0, 0, [])
    note(103.0)
    assert [(seen.number, seen.at) for seen in journal] == [(6, 9 * SECOND)]


def test_latest_request_of_a_vm_is_available_after_eviction() -> None:
    journal = Journal(requests_max=2)
    assert journal.latest("web_0") is None
    first = see(journal)
    assert journal.latest("web_0") == first
    note = journal.repeating(Repeated(first, now=0, monotonic=0.0))
    note(3.0)
    other = see(journal, "web_1", genuine=0)
    see(journal, "web_2")
    see(journal, "web_2")
    assert journal.latest("web_0") == first._replace(number=2, at=3 * SECOND)
    assert journal.latest("web_1") == other
    journal.clear()
    assert journal.latest("web_1") == other
    again = see(journal, at=4 * SECOND)
    assert journal.latest("web_0") == again


def test_counting_listener_is_called_for_repetitions() -> None:
    journal = Journal()
    messages: list[str] = []
    journal.on_seen.append(lambda seen: messages.append(f"seen {seen.number}"))
    note = journal.repeating(Repeated(see(journal), now=0, monotonic=0.0))
    note(1.0)
    journal.on_again = lambda: messages.append(f"again, {journal.last}")
    note(2.0)
    assert messages == ["seen 1", "again, 3"]


def test_irrelevant_data_is_not_kept() -> None:
    request = Request(
        method="POST",
        path="/" + "p" * 9_000,
        query="q" * 9_000,
        headers={
            "metadata": ("true",) * 90,
            "user-agent": ("u" * 9_000,),
            "cookie": ("secret",),
        },
        body=b"b" * 200_000,
    )
    entry = see(Journal(), request=request)
    assert entry.headers == {
        "metadata": ("true", "true"),
        "user-agent": ("u" * VALUE_KEPT_MAX,),
    }
    assert len(entry.target) == 2 * TARGET_KEPT_MAX + 1
    assert len(entry.body) == BODY_KEPT_MAX


def test_listener_is_called_for_each_request() -> None:
    journal = Journal()
    numbers: list[int] = []
    journal.on_seen.append(lambda seen: numbers.append(seen.number))
    see(journal)
    see(journal)
    assert numbers == [1, 2]


def test_entry_is_shown_as_a_line_and_an_object() -> None:
    entry = see(Journal(), genuine=0, found=HEADER)
    assert str(entry) == (
        "1970-01-01T00:00:00Z web_0: GET /metadata/scheduledevents?"
        "api-version=2020-07-01 -> 200 (500 x1)"
    )
    members = entry.members()
    assert members["headers"] == {"metadata": ["true"]}
    assert members["deviations"] == [
        {"rule": "header", "clause": "1.6", "sentence": str(HEADER[0])}
    ]
    refused = entry._replace(request=Request(method="", path=""), status=0)
    assert "a connection -> no answer" in str(refused)


def test_evidence_is_kept_after_its_requests_are_dropped() -> None:
    journal = Journal(requests_max=2)
    bad = see(journal, found=HEADER, at=1)
    good = see(journal, request=post(approval(EVENT_ID)), at=2)
    see(journal, request=post(approval(EVENT_ID)), genuine=0, at=3)
    for at in range(4, 9):
        see(journal, at=at)
    assert [seen.at for seen in journal] == [7, 8]
    assert journal.find(deviating=True) == [bad]
    assert journal.find(deviating=True, from_time=2) == []
    assert [seen for seen, _ in journal.deviations(vm="web_0")] == [bad]
    assert journal.approvals(EVENT_ID.lower(), vm="web_0") == [good]
    assert journal.approvals(vm="web_1") == journal.approvals(since=good.number) == []
    assert Witness(journal).deviations("", since=1)
    journal.clear()
    assert journal.deviations() == journal.approvals() == []


def test_first_and_latest_evidence_is_kept() -> None:
    evidence = Evidence(requests_max=2)
    journal = Journal()
    for at, vm in enumerate(["web_0", "web_0", "web_0", "web_1", "web_0"]):
        evidence.add(see(journal, vm, at=at), [vm])
    assert [seen.at for seen in evidence.all()] == [0, 1, 3, 4]
