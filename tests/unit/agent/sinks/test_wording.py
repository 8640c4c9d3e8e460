"""Events described in sentences for people."""

from dataclasses import replace

import pytest

from forewarn.agent.core.model import NoteKind, StepState
from forewarn.agent.sinks import eventlog, journald, wording
from forewarn.agent.sinks.wording import Severity, facts, sentence, severity, title
from tests.support.notes import REBOOT, told_of


@pytest.mark.parametrize("kind", NoteKind)
@pytest.mark.parametrize("has_event", [True, False])
def test_each_kind_has_a_title_and_a_sentence(
    kind: NoteKind, *, has_event: bool
) -> None:
    reports = told_of(
        kind, "why", handler="drain", notice=REBOOT if has_event else None
    )
    assert title(reports).startswith("web_0: Reboot " if has_event else "web_0: event ")
    assert sentence(reports).endswith(": why")
    assert "{" not in title(reports) + sentence(reports)
    assert severity(reports) in Severity
    assert dict(facts(reports))["VM"] == "web_0"


def test_kinds_have_unique_numbers_and_ids() -> None:
    assert set(journald.MESSAGE_IDS) == set(eventlog.NUMBERS) == set(NoteKind)
    assert len(set(journald.MESSAGE_IDS.values())) == len(NoteKind)
    assert all(
        len(bytes.fromhex(message_id)) == 16
        for message_id in journald.MESSAGE_IDS.values()
    )
    assert len(set(eventlog.NUMBERS.values())) == len(NoteKind)
    assert all(1 <= number <= 1000 for number in eventlog.NUMBERS.values())


def test_announcement_names_the_time_and_the_duration() -> None:
    reports = told_of()
    assert title(reports) == "web_0: Reboot announced"
    assert sentence(reports) == (
        "It was announced for 2026-11-21T22:15:00Z, in 15 m, for 9 s."
    )
    unknown = replace(REBOOT, not_before=None, duration_seconds=-1)
    assert sentence(told_of(notice=unknown)) == "It was announced without a time."
    past = replace(REBOOT, not_before=1, duration_seconds=-1)
    assert (
        sentence(told_of(notice=past)) == "It was announced for 1970-01-01T00:00:00Z."
    )


def test_withheld_event_is_an_error_and_still_starts() -> None:
    reports = told_of(NoteKind.WITHHELD, "drain failed: no route")
    assert title(reports) == "web_0: Reboot not prepared"
    assert severity(reports) is Severity.ERROR
    assert "it starts at 2026-11-21T22:15:00Z anyway" in sentence(reports)
    assert sentence(reports).endswith(": drain failed: no route")


@pytest.mark.parametrize(
    ("ended", "ending", "grave"),
    [
        (StepState.DONE, "handler drain done", Severity.INFO),
        (StepState.FAILED, "handler drain failed", Severity.WARNING),
        (StepState.LOST, "handler drain lost", Severity.WARNING),
        (StepState.STOPPED, "handler drain stopped", Severity.INFO),
        (None, "handler drain", Severity.INFO),
    ],
)
def test_severity_of_a_handler_follows_its_result(
    ended: StepState | None, ending: str, grave: Severity
) -> None:
    # The text of the handler itself is for people only.
    detail = "prepare: failed: so it says"
    reports = told_of(NoteKind.HANDLER, detail, handler="drain", ended=ended)
    assert title(reports) == f"web_0: Reboot {ending}"
    assert severity(reports) is grave
    assert sentence(reports) == f"The handler drain ended: {detail}"


def test_event_of_other_vms_names_them() -> None:
    others = replace(REBOOT, resources=tuple(f"db_{number}" for number in range(12)))
    assert title(told_of(notice=others)).startswith("web_0: Reboot of db_0, db_1, ")
    assert "db_9 and 2 more announced" in title(told_of(notice=others))


def test_text_has_no_line_breaks_and_is_bounded() -> None:
    hostile = replace(
        REBOOT, event_type="Re\r\nboot\x1b[31m", description="x\n" * 9_000
    )
    reports = told_of(NoteKind.FAILED, "a\r\nBcc: b\x00" + "y" * 9_000, notice=hostile)
    for text in (
        title(reports),
        sentence(reports),
        *(value for _, value in facts(reports)),
    ):
        assert text.isprintable()
        assert len(text) <= 1_000
    assert dict(facts(reports))["Description"].endswith("…")


def test_bytes_are_cut_between_characters() -> None:
    assert wording.cut_bytes("aé", 2) == b"a"
    assert wording.cut_bytes("aé", 3) == "aé".encode()


def test_failure_names_the_failed_component() -> None:
    failed = told_of(NoteKind.FAILED, "no usable answer")
    gate = replace(failed, note=replace(failed.note, about="gate"))
    assert title(gate) == "web_0: Reboot failure of the gate"
    assert sentence(gate) == "Something went wrong with the gate: no usable answer"
    assert title(failed) == "web_0: Reboot failure"
