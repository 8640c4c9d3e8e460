"""Notifications that are held up, and those that must not be held up by them."""

import threading
from collections.abc import Collection, Sequence

import pytest

from forewarn.agent.core.model import Memory
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.journal.port import JournalError, MemoryJournal, Outgoing
from forewarn.agent.observability import notify
from forewarn.agent.observability.notify import HELD_TRIES, Notifier
from forewarn.agent.sinks.port import Notification
from forewarn.instants import SECOND
from tests.support.agent_journals import note_of
from tests.support.processes import eventually


class FakeSink:
    """Takes what the test does not have it refuse."""

    def __init__(self) -> None:
        self.refuses: dict[str, Exception] = {}
        """The key is the detail of a note."""
        self.offered: list[str] = []
        self.taken: list[str] = []

    def deliver(self, number: int, told: Notification) -> None:
        detail = told.note.detail
        self.offered.append(detail)
        error = self.refuses.get(detail) or self.refuses.get("*")
        if error is not None:
            raise error
        self.taken.append(detail)

    def check(self) -> Sequence[str]:
        return ()


class Waits(threading.Event):
    """Notes how long is waited for, and waits no time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        return super().wait(0.001)


class Scene:
    """A notifier with one receiver and a journal."""

    def __init__(self) -> None:
        self.sink = FakeSink()
        self.notifier = Notifier({"there": (self.sink, frozenset())})
        self.waits = self.notifier._stopping = Waits()
        self.journal = MemoryJournal(create_notifications=self.notifier.make)

    def tell(self, *details: str) -> None:
        notes = [note_of("E1", detail=detail) for detail in details]
        self.journal.save(Memory(name="web_0"), notes)
        self.notifier.ring()

    def wait_empty(self) -> None:
        eventually(lambda: self.journal.queued("there", limit=9), lambda rows: not rows)


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.notifier.attach(scene.journal)
    return scene


def later() -> DeliveryError:
    return DeliveryError("the answer was 500")


def test_notification_that_is_always_refused_does_not_block_later_ones(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.sink.refuses = {"bad": later()}
    scene.tell("bad", "b", "c")
    scene.wait_empty()
    scene.notifier.stop()
    assert scene.sink.taken == ["b", "c"]
    # It was offered once more after the one behind it was taken.
    assert scene.sink.offered == ["bad"] * HELD_TRIES + ["b", "bad", "c"]
    assert "is dropped: the answer was 500 (10 times, while the next" in caplog.text


def test_no_notification_is_dropped_while_the_receiver_fails(scene: Scene) -> None:
    scene.sink.refuses = {"*": later()}
    scene.tell("a", "b")
    eventually(lambda: scene.sink.offered.count("b"), lambda count: count > 3)
    assert len(scene.journal.queued("there", limit=9)) == 2
    scene.sink.refuses = {}
    scene.wait_empty()
    scene.notifier.stop()
    assert sorted(scene.sink.taken) == ["a", "b"]


def test_last_notification_is_retried_without_limit(scene: Scene) -> None:
    scene.sink.refuses = {"a": later()}
    scene.tell("a")
    eventually(lambda: len(scene.sink.offered), lambda count: count > 3 * HELD_TRIES)
    scene.sink.refuses = {}
    scene.wait_empty()
    scene.notifier.stop()
    assert scene.sink.taken == ["a"]


def test_retry_delay_of_the_receiver_is_limited(scene: Scene) -> None:
    scene.sink.refuses = {"a": DeliveryError("the answer was 429", wait=30 * SECOND)}
    scene.tell("a")
    eventually(lambda: len(scene.waits.seconds), lambda count: count > 1)
    assert scene.waits.seconds[:2] == [30.0, 30.0]
    scene.sink.refuses = {
        "a": DeliveryError("the answer was 429", wait=86_400 * SECOND)
    }
    eventually(lambda: notify.WAIT_SECONDS_MAX in scene.waits.seconds, bool)
    scene.sink.refuses = {}
    scene.wait_empty()
    scene.notifier.stop()


def test_internal_error_drops_only_the_affected_notification(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.sink.refuses = {"a": KeyError("secret")}
    scene.tell("a", "b")
    scene.wait_empty()
    scene.notifier.stop()
    assert scene.sink.taken == ["b"]
    assert "a notification for there is dropped: a bug: KeyError" in caplog.text


def test_messages_for_a_removed_receiver_are_dropped_at_startup(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = Scene()
    before.journal = MemoryJournal(
        create_notifications=lambda note, memory: [
            *before.notifier.make(note, memory),
            Outgoing(sink="renamed", body="{}"),
        ]
    )
    before.tell("a", "b")
    before.notifier.attach(before.journal)
    before.wait_empty()
    before.notifier.stop()
    assert before.sink.taken == ["a", "b"]
    assert not before.journal.queued("renamed", limit=9)
    assert (
        "2 notifications were dropped, since their receivers are no longer"
        in caplog.text
    )


def test_journal_failure_at_startup_does_not_stop_delivery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(MemoryJournal):
        def drop_others(self, sinks: Collection[str]) -> int:
            raise JournalError("the disk is full")

    scene = Scene()
    scene.journal = Failing(create_notifications=scene.notifier.make)
    scene.tell("a")
    scene.notifier.attach(scene.journal)
    scene.wait_empty()
    scene.notifier.stop()
    assert scene.sink.taken == ["a"]
    assert "notifications wait: the disk is full" in caplog.text


def test_unreadable_notification_is_dropped() -> None:
    scene = Scene()
    scene.journal = MemoryJournal(
        create_notifications=lambda note, memory: (
            [Outgoing(sink="there", body="{}")]
            if note.detail == "bad"
            else scene.notifier.make(note, memory)
        )
    )
    scene.notifier.attach(scene.journal)
    scene.tell("bad", "b")
    scene.wait_empty()
    scene.notifier.stop()
    assert scene.sink.taken == ["b"]
