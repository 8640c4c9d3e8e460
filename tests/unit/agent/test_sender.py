"""Approvals in threads of their own: a few at a time, each once, none forgotten."""

import queue
import threading

import pytest

from forewarn.agent.core.model import ApprovalResult, Consent, Send
from forewarn.agent.outbound import APPROVALS_MAX, Sender

PATIENCE_SECONDS = 120


class Held:
    """An endpoint that answers when it is released."""

    def __init__(self) -> None:
        self.come: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.gate = threading.Event()

    def approve(self, event_id: str) -> ApprovalResult:
        """Take it, at last."""
        self.come.put(event_id)
        assert self.gate.wait(PATIENCE_SECONDS)
        return ApprovalResult(event_id=event_id, consent=Consent.GIVEN)


def test_hung_endpoint_uses_few_threads_and_each_approval_is_sent_once() -> None:
    results: queue.SimpleQueue[ApprovalResult] = queue.SimpleQueue()
    held = Held()
    sending = Sender(lambda: held.approve, results.put)
    ids = [f"E{number}" for number in range(100)]
    for event_id in ids:
        sending.ask(Send(event_id=event_id, attempt=1))
    for _ in range(APPROVALS_MAX):
        held.come.get(timeout=PATIENCE_SECONDS)
    assert held.come.empty()
    sending.ask(Send(event_id="E99", attempt=1))
    held.gate.set()
    answered = [results.get(timeout=PATIENCE_SECONDS).event_id for _ in ids]
    assert sorted(answered) == sorted(ids)
    assert results.empty()


def test_approval_without_a_thread_stays_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    approval_results: list[ApprovalResult] = []
    sending = Sender(lambda: Held().approve, approval_results.append)
    sending.ask(Send(event_id="E1", attempt=1))
    sending.ask(Send(event_id="E1", attempt=1))
    assert [result.consent for result in approval_results] == [Consent.WANTED] * 2
    assert "can't start new thread" in approval_results[0].detail
