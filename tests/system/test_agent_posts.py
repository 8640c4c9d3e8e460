"""Webhooks of handlers and of notifications, over real sockets."""

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent.core.model import Memory, NoteKind, Phase
from forewarn.agent.handlers import webhook
from forewarn.agent.handlers.making import make_workers, records_next_to
from forewarn.agent.handlers.port import Ground, Job, Worker
from forewarn.agent.handlers.run_context import (
    HandlerError,
    LostError,
    RunContext,
    StoppedError,
    TimeUpError,
)
from forewarn.agent.journal.port import Limits, MemoryJournal
from forewarn.agent.observability import notify
from forewarn.agent.settings_model import HandlerSettings, NotifySettings
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from tests.support.agent_journals import note_of, notice_of
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.receivers import Receiver, receiving

pytestmark = pytest.mark.system

CLOCK = SystemClock()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pauses last no time: what is tested is what comes after them."""
    monkeypatch.setattr(webhook, "PAUSE_FIRST_SECONDS", 0.01)
    monkeypatch.setattr(notify, "PAUSE_FIRST_SECONDS", 0.01)


def worker(receiver: Receiver, directory: Path, **more: object) -> Worker:
    settings = HandlerSettings(
        name="lb",
        kind="webhook",
        prepare=(f"{receiver.url}/drain/{{vm}}?why={{type}}",),
        recover=(f"{receiver.url}/undrain",),
    )
    records = records_next_to(directory / "a.db")
    ground = Ground(records=records, environment={}, clock=CLOCK)
    workers = make_workers([replace(settings, **more)], ground)
    return workers["lb"]


def job(phase: Phase = Phase.PREPARE) -> Job:
    now = CLOCK.now()
    return Job(
        run_id="r1",
        handler="lb",
        phase=phase,
        attempt=1,
        notice=notice_of("E1"),
        vm="web 1/é",
        stop_at=now + 9 * SECOND,
        now=now,
    )


def context(seconds: float = PATIENCE_SECONDS) -> RunContext:
    end = CLOCK.now() + round(seconds * SECOND)
    return RunContext(stop_at=end, kill_at=end, clock=CLOCK)


class TestHandler:
    def test_event_is_posted(self, receiver: Receiver, tmp_path: Path) -> None:
        worker(receiver, tmp_path).prepare(job(), context())
        worker(receiver, tmp_path).recover(job(Phase.RECOVER), context())
        first, second = receiver.came
        assert first.method == "POST"
        assert first.target == "/drain/web%201%2F%C3%A9?why=Reboot"
        assert first.headers["Content-Type"] == "application/json"
        body = json.loads(first.body)
        assert body["event"]["EventId"] == "E1"
        assert (body["phase"], body["vm"]) == ("prepare", "web 1/é")
        assert second.target == "/undrain"
        assert json.loads(second.body)["phase"] == "recover"

    def test_template_values_are_inserted_and_escaped(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        secret = tmp_path / "secret"
        secret.write_text("s3cret\nsecond line\n")
        worker(
            receiver,
            tmp_path,
            method="PUT",
            body='{"text": "{description}", "for": {duration}, "x": "{event_id}"}',
            headers=(("X-Key", "key {secret}"), ("X-Said", "{description}")),
            secret_file=str(secret),
        ).prepare(job(), context())
        [came] = receiver.came
        assert came.method == "PUT"
        assert json.loads(came.body) == {
            "text": "Host “h1” is to be\nmaintained",
            "for": 9,
            "x": "E1",
        }
        assert came.headers["X-Key"] == "key s3cret"
        assert came.headers["X-Said"] == "Host ?h1? is to be?maintained"
        assert "Authorization" not in came.headers

    def test_secret_is_sent_as_a_bearer_token_by_default(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        secret = tmp_path / "secret"
        secret.write_text("s3cret\n")
        worker(receiver, tmp_path, secret_file=str(secret)).prepare(job(), context())
        assert receiver.came[0].headers["Authorization"] == "Bearer s3cret"

    def test_failed_request_is_retried_until_the_timeout(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        receiver.script = [503, 429, 500, 204]
        worker(receiver, tmp_path).prepare(job(), context())
        assert len(receiver.came) == 4

    @pytest.mark.parametrize("status", [302, 400, 404])
    def test_refused_request_fails_at_once(
        self, receiver: Receiver, tmp_path: Path, status: int
    ) -> None:
        receiver.script = [status]
        with pytest.raises(HandlerError, match=f"{status}: said {status}"):
            worker(receiver, tmp_path).prepare(job(), context())
        assert len(receiver.came) == 1

    def test_request_times_out(self, receiver: Receiver, tmp_path: Path) -> None:
        receiver.usual = 0
        with pytest.raises(TimeUpError, match="timed out"):
            worker(receiver, tmp_path).prepare(job(), context(0.3))

    def test_request_is_stopped_while_running(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        receiver.usual = 0
        held = context()
        stopper = threading.Thread(
            target=lambda: (
                eventually(lambda: receiver.came, bool),
                held.stop(CLOCK.now()),
            )
        )
        stopper.start()
        with pytest.raises(StoppedError):
            worker(receiver, tmp_path).prepare(job(), held)
        stopper.join()

    def test_post_interrupted_by_a_crash_is_lost(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        with pytest.raises(LostError):
            worker(receiver, tmp_path).resume(job(), context())
        assert not receiver.came

    def test_a_check_finds_faults_and_sends_nothing(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        assert not worker(receiver, tmp_path, body='{"a": "{type}"}').check()
        assert worker(receiver, tmp_path, body='{"a": "{typo}"}').check() == (
            "the body has an unknown placeholder {typo}",
        )
        [fault] = worker(receiver, tmp_path, body="plain {type}").check()
        assert "not JSON" in fault
        [fault] = worker(receiver, tmp_path, secret_file="/no/file").check()
        assert "/no/file" in fault
        assert not receiver.came

    @pytest.mark.parametrize("path", ["", "/x", "/{vm}"])
    def test_check_reports_a_refused_connection(
        self, receiver: Receiver, tmp_path: Path, path: str
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        url = f"http://127.0.0.1:{port}{path}"
        handler = worker(receiver, tmp_path, prepare=(url,), recover=(url,))
        [fault] = handler.check()
        assert fault == f"http://127.0.0.1:{port}: connection refused"
        notifier = notify.make_notifier(
            [NotifySettings(kind="webhook", url=url)], clock=CLOCK
        )
        [fault] = notifier.check()
        assert "connection refused" in fault
        somewhere = ("http://{vm}/x",)
        assert not worker(receiver, tmp_path, prepare=somewhere, recover=()).check()


class TestNotify:
    def begun(
        self, *settings: NotifySettings, rows: int = 100
    ) -> tuple[notify.Notifier, MemoryJournal]:
        notifier = notify.make_notifier(settings, clock=CLOCK)
        journal = MemoryJournal(
            create_notifications=notifier.make, limits=Limits(queue_rows=rows)
        )
        notifier.attach(journal)
        return notifier, journal

    def test_notifications_are_appended_to_a_file_and_posted(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        file = tmp_path / "told.jsonl"
        notifier, journal = self.begun(
            NotifySettings(kind="file", path=str(file)),
            NotifySettings(
                kind="webhook",
                url=f"{receiver.url}/hook",
                on=("withheld",),
                body='{"text": "{kind} of {type} {event_id} on {vm}: {detail}"}',
            ),
        )
        assert not notifier.check()
        note = note_of("E1")
        withheld = replace(note_of("E1", detail='a "b"'), kind=NoteKind.WITHHELD)
        journal.save(Memory(name="web_1"), [note, withheld])
        notifier.ring()
        eventually(lambda: receiver.came, bool)
        assert json.loads(receiver.came[0].body) == {
            "text": 'withheld of Reboot E1 on web_1: a "b"'
        }
        eventually(lambda: file.exists() and file.read_text().count("\n"), (2).__eq__)
        first, _ = map(json.loads, file.read_text().splitlines())
        assert (first["id"], first["kind"], first["vm"]) == (1, "seen", "web_1")
        assert first["event"]["EventId"] == "E1"
        assert len(receiver.came) == 1
        notifier.stop()

    def test_rejected_notification_is_retried_in_order(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        receiver.script = [500, 503]
        notifier, journal = self.begun(NotifySettings(kind="webhook", url=receiver.url))
        journal.save(Memory(), [note_of("E1"), note_of("E2")])
        notifier.ring()
        eventually(lambda: len(receiver.came), (4).__eq__)
        event_ids = [
            json.loads(request.body)["event"]["EventId"] for request in receiver.came
        ]
        assert event_ids == ["E1", "E1", "E1", "E2"]
        eventually(lambda: journal.queued("127.0.0.1", limit=9), lambda rows: not rows)
        eventually(notifier.faults, lambda faults: not faults)
        notifier.stop()

    def test_refused_notification_is_dropped(self, receiver: Receiver) -> None:
        receiver.script = [400]
        notifier, journal = self.begun(NotifySettings(kind="webhook", url=receiver.url))
        journal.save(Memory(), [note_of("E1"), note_of("E2")])
        notifier.ring()
        eventually(lambda: len(receiver.came), (2).__eq__)
        eventually(lambda: journal.queued("127.0.0.1", limit=9), lambda rows: not rows)
        notifier.stop()

    def test_queued_notifications_are_delivered_after_a_restart(
        self, receiver: Receiver
    ) -> None:
        settings = NotifySettings(kind="webhook", url=receiver.url)
        notifier = notify.make_notifier([settings], clock=CLOCK)
        journal = MemoryJournal(create_notifications=notifier.make)
        journal.save(Memory(), [note_of("E1")])
        notifier.attach(journal)
        eventually(lambda: len(receiver.came), (1).__eq__)
        notifier.stop()

    def test_receiver_that_hangs_delays_no_other_and_its_queue_is_bounded(
        self, receiver: Receiver, tmp_path: Path
    ) -> None:
        receiver.usual = 0
        file = tmp_path / "told.jsonl"
        notifier, journal = self.begun(
            NotifySettings(kind="webhook", url=receiver.url, timeout=60 * SECOND),
            NotifySettings(kind="file", path=str(file)),
            rows=5,
        )
        for number in range(1, 21):
            journal.save(Memory(), [note_of(f"E{number}")])
            notifier.ring()
            eventually(
                lambda number=number: (
                    file.exists() and file.read_text().count("\n") == number
                ),
                bool,
            )
        assert len(journal.queued("127.0.0.1", limit=99)) == 5
        assert journal.dropped() == 15
        receiver.released.set()
        notifier.stop()

    def test_unwritable_file_is_reported(self, tmp_path: Path) -> None:
        file = tmp_path / "none" / "told.jsonl"
        notifier, journal = self.begun(NotifySettings(kind="file", path=str(file)))
        assert notifier.check() == [f"{file}: {file} cannot be written"]
        journal.save(Memory(), [note_of("E1")])
        notifier.ring()
        eventually(notifier.faults, bool)
        file.parent.mkdir()
        eventually(file.exists, bool)
        notifier.stop()

    def test_notifier_without_receivers_starts_no_threads(self) -> None:
        notifier, journal = self.begun()
        journal.save(Memory(), [note_of("E1")])
        notifier.ring()
        assert threading.active_count() >= 1
        assert not notifier._threads
