"""Whether an event is still there: every presence meets every answer."""

from __future__ import annotations

import itertools

import pytest

from forewarn.agent.core import presence
from forewarn.agent.core.model import Consent, Polled, Presence, Task
from forewarn.agent.core.policy import GoneAfter
from forewarn.agent.core.presence import Answer
from forewarn.agent.core.table import IllegalStepError
from forewarn.instants import MINUTE, SECOND
from forewarn.protocol.notices import Notice
from tests.unit.agent.core.support import START, notice, started

EVENT = notice(not_before=START + MINUTE)
USUAL = GoneAfter()

ARROWS = {
    ("listed", "listed"): "listed",
    ("listed", "not listed"): "missing",
    ("listed", "not listed after a reset"): "reset",
    ("listed", "empty"): "empty",
    ("listed", "not readable"): "listed",
    ("listed", "another ID"): "listed",
    ("missing", "listed"): "listed",
    ("missing", "not listed"): "missing",
    ("missing", "not listed after a reset"): "reset",
    ("missing", "empty"): "missing",
    ("missing", "not readable"): "missing",
    ("missing", "another ID"): "listed",
    ("missing", "long enough"): "gone",
    ("empty", "listed"): "listed",
    ("empty", "not listed"): "missing",
    ("empty", "not listed after a reset"): "reset",
    ("empty", "empty"): "empty",
    ("empty", "not readable"): "empty",
    ("empty", "another ID"): "listed",
    ("empty", "long enough"): "gone",
    ("reset", "listed"): "listed",
    ("reset", "not listed"): "reset",
    ("reset", "not listed after a reset"): "reset",
    ("reset", "empty"): "reset",
    ("reset", "not readable"): "reset",
    ("reset", "another ID"): "listed",
    ("reset", "long enough"): "gone",
    ("gone", "listed"): "returning",
    ("gone", "not listed"): "gone",
    ("gone", "not listed after a reset"): "gone",
    ("gone", "empty"): "gone",
    ("gone", "not readable"): "gone",
    ("returning", "listed"): "listed",
    ("returning", "not listed"): "gone",
    ("returning", "not listed after a reset"): "gone",
    ("returning", "empty"): "gone",
    ("returning", "not readable"): "returning",
}


def task(**values: object) -> Task:
    """Return an event that was listed by the document 7."""
    fields: dict[str, object] = {
        "event_id": "E1",
        "notice": EVENT,
        "mine": True,
        "incarnation": 7,
        **values,
    }
    return Task(**fields)  # pyright: ignore[reportArgumentType]


@pytest.mark.clause("8.1")
@pytest.mark.parametrize(
    ("before", "answer"),
    list(itertools.product(Presence, Answer)),
    ids=lambda value: value.value.replace(" ", "-"),
)
def test_every_presence_handles_or_rejects_every_answer(
    before: Presence, answer: Answer
) -> None:
    wanted = ARROWS.get((before.value, answer.value))
    if wanted is None:
        with pytest.raises(IllegalStepError) as refused:
            presence.step(before, answer)
        assert str(refused.value) == (
            f"an event that is {before.value} cannot be {answer.value}"
        )
    else:
        assert presence.step(before, answer).value == wanted


# The content of an answer.


@pytest.mark.clause("2.10", "8.1")
@pytest.mark.parametrize(
    ("last", "incarnation", "wanted"),
    [
        (7, 8, Answer.MISSING),
        (7, 99, Answer.MISSING),
        (7, 7, Answer.RESET),
        (7, 6, Answer.RESET),
        (7, 1, Answer.RESET),
        (7, 0, Answer.RESET),
        (7, None, Answer.RESET),
        (0, None, Answer.RESET),
        # Without a number to compare with, a document says what it says.
        (None, None, Answer.MISSING),
        (None, 1, Answer.MISSING),
    ],
)
def test_only_a_higher_incarnation_can_end_an_event(
    last: int | None, incarnation: int | None, wanted: Answer
) -> None:
    polled = Polled(notices=(), incarnation=incarnation)
    assert presence.classify(task(incarnation=last), None, polled) is wanted


@pytest.mark.parametrize("incarnation", [None, 1, 7, 8])
def test_listed_event_is_present_in_any_incarnation(
    incarnation: int | None,
) -> None:
    polled = Polled(notices=(EVENT,), incarnation=incarnation)
    assert presence.classify(task(), EVENT, polled) is Answer.LISTED


def test_document_with_unreadable_entry_does_not_prove_absence() -> None:
    for incarnation in (None, 6, 7, 8):
        polled = Polled(notices=(), incarnation=incarnation, is_partial=True)
        assert presence.classify(task(), None, polled) is Answer.UNREADABLE
        assert presence.classify(task(), EVENT, polled) is Answer.LISTED


def test_absence_time_stops_while_documents_are_unreadable() -> None:
    at_once = GoneAfter(scheduled=0, started=0, empty=0, reset=0)
    doubted = presence.judged(task(), Answer.MISSING, USUAL, heard=10, now=START)
    for settings in (USUAL, at_once):
        later = presence.judged(
            doubted, Answer.UNREADABLE, settings, heard=10 + MINUTE, now=START + MINUTE
        )
        assert later == doubted


def test_empty_body_is_classified_as_empty() -> None:
    polled = Polled(notices=(), is_empty=True)
    assert presence.classify(task(), None, polled) is Answer.EMPTY
    assert presence.classify(task(incarnation=None), None, polled) is Answer.EMPTY


# For how long it must say so.


@pytest.mark.parametrize(
    ("values", "how", "wanted"),
    [
        ({}, Presence.MISSING, 5 * SECOND),
        ({}, Presence.EMPTY, MINUTE),
        ({}, Presence.RESET, 5 * MINUTE),
        ({"notice": started(EVENT)}, Presence.MISSING, 30 * SECOND),
        ({"notice": started(EVENT)}, Presence.EMPTY, MINUTE),
        ({"notice": started(EVENT)}, Presence.RESET, 5 * MINUTE),
        # It may have started since the last document.
        ({"consent": Consent.GIVEN}, Presence.MISSING, 30 * SECOND),
        ({"consent": Consent.WANTED}, Presence.MISSING, 30 * SECOND),
        ({"consent": Consent.REFUSED}, Presence.MISSING, 5 * SECOND),
        ({"notice": notice(not_before=START)}, Presence.MISSING, 30 * SECOND),
        ({"notice": notice(not_before=START + 1)}, Presence.MISSING, 5 * SECOND),
        ({"notice": notice(not_before=None)}, Presence.MISSING, 5 * SECOND),
    ],
)
def test_required_absence_time_depends_on_the_event(
    values: dict[str, object], how: Presence, wanted: int
) -> None:
    assert presence.patience(task(presence=how, **values), USUAL, START) == wanted


def test_longest_applicable_absence_time_counts() -> None:
    settings = GoneAfter(scheduled=9, started=7, empty=8, reset=10)
    begun = task(notice=started(EVENT))
    assert presence.patience(begun, settings, START) == 9
    empty = task(notice=started(EVENT), presence=Presence.EMPTY)
    assert presence.patience(empty, settings, START) == 9
    reset = task(presence=Presence.RESET)
    assert presence.patience(reset, settings, START) == 10


@pytest.mark.clause("8.1")
@pytest.mark.parametrize(
    ("answer", "long"),
    [
        (Answer.MISSING, 5 * SECOND),
        (Answer.EMPTY, MINUTE),
        (Answer.RESET, 5 * MINUTE),
    ],
)
def test_event_is_gone_after_enough_answers_without_it(
    answer: Answer, long: int
) -> None:
    def after(before: Task, heard: int) -> Task:
        return presence.judged(
            before, answer, USUAL, heard=heard, now=START + heard - 10
        )

    doubted = after(task(), 10)
    assert doubted.presence in presence.ABSENT
    assert (doubted.absent_at, doubted.absent_from) == (START, 10)
    assert after(doubted, 10 + long - 1) == doubted
    believed = after(doubted, 10 + long)
    assert believed.presence is Presence.GONE
    assert (believed.absent_at, believed.absent_from) == (0, 0)


def test_time_without_answers_does_not_count_as_absence() -> None:
    doubted = presence.judged(task(), Answer.MISSING, USUAL, heard=10, now=START)
    later = presence.judged(
        doubted, Answer.MISSING, USUAL, heard=10 + SECOND, now=START + 50 * MINUTE
    )
    # By then NotBefore has passed, and more is wanted.
    assert later == doubted


def test_one_answer_alone_does_not_end_an_event() -> None:
    none = GoneAfter(scheduled=0, started=0, empty=0, reset=0)
    for answer in (Answer.MISSING, Answer.EMPTY, Answer.RESET):
        first = presence.judged(task(), answer, none, heard=10, now=START)
        assert first.presence in presence.ABSENT
        second = presence.judged(first, answer, none, heard=10, now=START)
        assert second.presence is Presence.GONE


@pytest.mark.parametrize(
    ("answers", "since"),
    [
        # Each of these is weaker evidence than the one before it, so the time restarts.
        ((Answer.EMPTY, Answer.MISSING), 1),
        ((Answer.EMPTY, Answer.RESET), 1),
        ((Answer.MISSING, Answer.RESET), 1),
        # These add no information, and it continues.
        ((Answer.MISSING, Answer.EMPTY), 0),
        ((Answer.RESET, Answer.MISSING), 0),
        ((Answer.RESET, Answer.EMPTY), 0),
        ((Answer.MISSING, Answer.LISTED, Answer.MISSING), 2),
    ],
)
def test_start_of_the_absence_time_is_recorded(
    answers: tuple[Answer, ...], since: int
) -> None:
    one = task()
    for heard, answer in enumerate(answers):
        one = presence.judged(one, answer, USUAL, heard=heard, now=START + heard)
    assert (one.absent_from, one.absent_at) == (since, START + since)


# Under another ID.


@pytest.mark.clause("2.3", "8.1")
@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (EVENT, notice("E2", not_before=START + MINUTE), True),
        (EVENT, started(notice("E2")), True),
        (started(EVENT), started(notice("E2")), True),
        (EVENT, notice("E2", not_before=START + MINUTE, resources=("VM1",)), True),
        (EVENT, started(notice("E2", description="other", duration_seconds=9)), True),
        # A start is never taken back: that is another maintenance.
        (started(EVENT), notice("E2", not_before=START + MINUTE), False),
        (EVENT, notice("E2", not_before=START + 2 * MINUTE), False),
        (EVENT, started(notice("E2", event_type="Freeze")), False),
        (EVENT, started(notice("E2", source="User")), False),
        (EVENT, started(notice("E2", resources=("vm2",))), False),
        (EVENT, started(notice("E2", resources=("vm1", "vm2"))), False),
        # It is unknown which VMs these name.
        (notice(resources=()), started(notice("E2", resources=())), False),
    ],
)
def test_same_maintenance_under_a_new_id_is_recognized(
    before: Notice, after: Notice, *, wanted: bool
) -> None:
    renamed = presence.Renamed([after]).take(task(notice=before))
    assert renamed == (after if wanted else None)


def test_renamed_events_are_matched_once_waiting_ones_first() -> None:
    waiting = notice("E2", not_before=START + MINUTE)
    begun = started(notice("E3"))
    renamed = presence.Renamed([begun, waiting])
    assert renamed.take(task()) == waiting
    assert renamed.take(task()) == begun
    assert renamed.take(task()) is None


# Texts for people


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, ""),
        ({"presence": Presence.GONE}, ""),
        (
            {"presence": Presence.RETURNING},
            "the last document lists it again; the next one decides",
        ),
        (
            {"presence": Presence.MISSING},
            (
                "no document lists it for this VM since 2026-03-02T12:00:00Z; "
                "it counts as ended after 5 s of such answers, at 2026-03-02T12:00:05Z at the "
                "earliest"
            ),
        ),
        (
            {"presence": Presence.EMPTY},
            (
                "the endpoint answers with an empty body since 2026-03-02T12:00:00Z; "
                "it counts as ended after 1 m of such answers, at 2026-03-02T12:01:00Z at the "
                "earliest"
            ),
        ),
        (
            {"presence": Presence.RESET},
            (
                "the incarnation was reset and no document lists it for this VM since "
                "2026-03-02T12:00:00Z; it counts as ended after 5 m of such answers, at "
                "2026-03-02T12:05:00Z at the earliest"
            ),
        ),
    ],
)
def test_uncertain_presence_is_explained(
    values: dict[str, object], wanted: str
) -> None:
    one = task(absent_at=START + 1, **values)
    assert presence.explain(one, USUAL, START) == wanted
