"""Tests of the recorder with a virtual clock."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from forewarn.clock import VirtualClock
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.sim.engine import START
from forewarn.sim.recording import (
    Answer,
    Failed,
    Failure,
    Header,
    Outcome,
    read_recording,
)
from forewarn.testing.recorder import Recorder


def shown(number: int) -> Answer:
    body = f'{{"DocumentIncarnation":{number},"Events":[]}}'.encode()
    return Answer(status=200, headers=(("ETag", f'"{number}"'),), body=body)


UNCHANGED = Answer(status=304, headers=(), body=b"")
TIMEOUT = Failed(failure=Failure.TIMEOUT)


def busy(retry_after: str) -> Answer:
    return Answer(status=429, headers=(("Retry-After", retry_after),), body=b"")


class SkewedClock(VirtualClock):
    """A clock whose wall clock may jump."""

    skew: Micros = 0

    def now(self) -> Micros:
        return super().now() + self.skew


@dataclass
class Tape:
    """A recorder, an endpoint with a list of answers, and the written lines."""

    outcomes: Iterator[Outcome]
    poll: Micros = SECOND
    clock: SkewedClock = field(default_factory=lambda: SkewedClock(START))
    lines: list[str] = field(default_factory=list[str])
    asked: list[tuple[str | None, float]] = field(
        default_factory=list[tuple[str | None, float]]
    )
    takes: Micros = 0

    def __post_init__(self) -> None:
        header = Header(api_version="2020-07-01", started=START, poll=self.poll)
        self.recorder = Recorder(
            self, clock=self.clock, write=self.lines.append, header=header
        )

    def ask(self, *, etag: str | None, timeout_seconds: float) -> Outcome:
        self.asked.append((etag, timeout_seconds))
        self.pass_by(self.takes)
        return next(self.outcomes)

    def pass_by(self, time: Micros) -> None:
        self.clock.advance_to(VirtualClock.now(self.clock) + time)

    def run(self, polls: int) -> None:
        for _ in range(polls):
            polled = self.recorder.poll()
            self.pass_by(round(polled.pause_seconds * SECOND))

    @property
    def written(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines[1:]]

    def brief(self) -> list[str]:
        """Return the seconds and the kind of each line."""
        messages: list[str] = []
        for line in self.written:
            [what, *_] = [key for key in line if key not in {"at", "took"}]
            messages.append(f"{line['at'] / SECOND:g} {what} {line[what]}")
        return messages


def tape(*outcomes: Outcome) -> Tape:
    return Tape(iter(outcomes))


def test_only_changed_outcomes_are_written_and_others_are_counted() -> None:
    story = tape(
        shown(1), UNCHANGED, UNCHANGED, shown(2), UNCHANGED, TIMEOUT, TIMEOUT, shown(2)
    )
    story.run(8)
    story.recorder.end("enough")
    assert story.brief() == [
        "0 answer 1",
        "2 same 2",
        "3 answer 2",
        "4 same 1",
        "5 failure timeout",
        "6 same 1",
        "7 again 2",
        "8 end enough",
    ]
    assert [etag for etag, _ in story.asked] == [
        None,
        '"1"',
        '"1"',
        '"1"',
        '"2"',
        '"2"',
        None,
        None,
    ]
    read = read_recording("".join(story.lines).encode(), name="x")
    assert read.polls == story.recorder.polls == 8
    assert (story.recorder.answers, story.recorder.different) == (6, 4)


def test_answers_without_etag_are_compared() -> None:
    plain = Answer(status=200, headers=(), body=b"{}")
    story = tape(plain, plain, plain)
    story.run(3)
    assert story.brief() == ["0 answer 1"]
    assert {etag for etag, _ in story.asked} == {None}


def test_etag_of_an_invalid_body_is_no_longer_used() -> None:
    broken = Answer(status=200, headers=(("ETag", '"1"'),), body=b'{"Docum')
    story = tape(shown(1), broken, shown(1), shown(2))
    story.run(4)
    assert story.brief() == ["0 answer 1", "1 answer 2", "2 again 1", "3 answer 3"]
    assert [etag for etag, _ in story.asked] == [None, '"1"', None, None]


def test_unrequested_304_is_recorded_as_an_answer() -> None:
    story = tape(UNCHANGED, UNCHANGED)
    story.run(2)
    assert [line["status"] for line in story.written] == [304]


def test_unchanged_answers_are_recorded_once_per_minute() -> None:
    story = Tape(iter([shown(1), *[UNCHANGED] * 200]))
    story.run(151)
    assert story.brief() == ["0 answer 1", "60 same 60", "120 same 60"]


def test_retry_after_delays_the_next_poll() -> None:
    def pause(outcome: Outcome) -> float:
        return tape(outcome).recorder.poll().pause_seconds

    assert pause(busy("7")) == 7
    assert pause(busy("0")) == 1
    assert pause(busy("soon")) == 1
    assert pause(busy("Mon, 11 Apr 2022 22:26:58 GMT")) == 1
    assert pause(busy("999999")) == 5 * MINUTE / SECOND
    assert pause(shown(1)) == 1


def test_first_request_has_a_long_timeout_and_polls_keep_their_interval() -> None:
    story = tape(TIMEOUT, shown(1), UNCHANGED)
    story.takes = SECOND // 4
    story.run(3)
    assert [timeout for _, timeout in story.asked] == [130, 130, 10]
    assert [line["at"] for line in story.written] == [250_000, 1_250_000]
    assert {line["took"] for line in story.written} == {250_000}
    slow = tape(shown(1))
    slow.takes = 5 * SECOND
    assert slow.recorder.poll().pause_seconds == 0


def seen_after(skews: Sequence[Micros]) -> float:
    """Return the recorded second after one second for each jump."""
    story = Tape(iter([shown(number) for number in range(99)]))
    story.run(1)
    for skew in skews:
        story.clock.skew += skew
        story.run(1)
    return story.written[-1]["at"] / SECOND


def test_time_passes_while_the_vm_is_frozen() -> None:
    assert seen_after([0, 0, 0]) == 3
    # Frozen for 30 seconds, which only the wall clock shows.
    assert seen_after([0, 30 * SECOND, 0]) == 33
    # Set manually, or by a few milliseconds: ignored.
    assert seen_after([0, -2 * HOUR, 0]) == 3
    assert seen_after([0, 500 * HOUR, 0]) == 3
    assert seen_after([1_000, -1_000, 1_000]) == 3
