"""Requests for the lock in their thread: in their order, and each is answered."""

import queue
import threading

import pytest

from forewarn.agent.core.permits import LockAnswer, LockResponse, ReleaseLock, TakeLock
from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.locks.port import Grant, Locker, LockError
from forewarn.clock import SystemClock
from forewarn.instants import SECOND

PATIENCE_SECONDS = 120


class Slow:
    """A lock that answers only when the test releases it."""

    def __init__(self) -> None:
        self.did: list[tuple[str, str]] = []
        self.may_go_on = threading.Semaphore(0)
        self.has_begun = threading.Semaphore(0)
        self.grant = Grant(is_held=True, until=7)
        self.error: Exception | None = None

    def take(self, holder: str, context: RunContext) -> Grant:
        self._do("take", holder, context)
        return self.grant

    def release(self, holder: str, context: RunContext) -> None:
        self._do("release", holder, context)

    def describe(self, context: RunContext) -> str:
        raise AssertionError(context)

    def _do(self, what: str, holder: str, context: RunContext) -> None:
        assert context.remaining() > 0
        self.has_begun.release()
        assert self.may_go_on.acquire(timeout=PATIENCE_SECONDS)
        self.did.append((what, holder))
        if self.error is not None:
            raise self.error


class Ground:
    def __init__(self) -> None:
        self.lock = Slow()
        self.said: queue.SimpleQueue[LockResponse] = queue.SimpleQueue()
        self.locker = Locker(
            lambda: self.lock,
            tell=self.said.put,
            timeout=30 * SECOND,
            clock=SystemClock(),
        )

    def answer(self) -> LockResponse:
        return self.said.get(timeout=PATIENCE_SECONDS)


def test_each_request_gets_an_answer() -> None:
    ground = Ground()
    ground.locker.ask(TakeLock(number=3, holder="web_0"))
    ground.lock.may_go_on.release()
    assert ground.answer() == LockResponse(number=3, answer=LockAnswer.TAKEN, until=7)
    ground.lock.grant = Grant(is_held=False, detail="web_1 has it")
    ground.locker.ask(TakeLock(number=4, holder="web_0"))
    ground.lock.may_go_on.release()
    assert ground.answer() == LockResponse(
        number=4, answer=LockAnswer.REFUSED, detail="web_1 has it"
    )
    ground.locker.ask(ReleaseLock(number=5, holder="web_0"))
    ground.lock.may_go_on.release()
    assert ground.answer() == LockResponse(number=5, answer=LockAnswer.RELEASED)
    assert ground.lock.did == [
        ("take", "web_0"),
        ("take", "web_0"),
        ("release", "web_0"),
    ]


def test_only_the_last_request_follows_a_hanging_one() -> None:
    ground = Ground()
    ground.locker.ask(TakeLock(number=1, holder="web_0"))
    assert ground.lock.has_begun.acquire(timeout=PATIENCE_SECONDS)
    ground.locker.ask(ReleaseLock(number=2, holder="web_0"))
    ground.locker.ask(TakeLock(number=3, holder="web_0"))
    ground.locker.ask(ReleaseLock(number=4, holder="web_0"))
    assert ground.lock.did == []
    ground.lock.may_go_on.release(4)
    assert ground.answer().number == 1
    assert ground.answer().number == 4
    assert ground.lock.did == [("take", "web_0"), ("release", "web_0")]


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (LockError("no etcd", hint="Look at it."), "no etcd"),
        (ZeroDivisionError(), "a bug in the agent: see its log"),
    ],
)
def test_error_is_reported_as_trouble(error: Exception, detail: str) -> None:
    ground = Ground()
    ground.lock.error = error
    for number, asked in enumerate((TakeLock, ReleaseLock)):
        ground.locker.ask(asked(number=number, holder="web_0"))
        ground.lock.may_go_on.release()
        assert ground.answer() == LockResponse(
            number=number, answer=LockAnswer.TROUBLE, detail=detail
        )


def test_lock_creation_failure_is_reported_and_retried() -> None:
    responses: queue.SimpleQueue[LockResponse] = queue.SimpleQueue()
    lock = Slow()
    attempts: list[int] = []

    def make() -> Slow:
        attempts.append(1)
        if len(attempts) == 1:
            raise LockError("the kubeconfig cannot be read")
        return lock

    locker = Locker(make, tell=responses.put, timeout=30 * SECOND, clock=SystemClock())
    locker.ask(TakeLock(number=1, holder="web_0"))
    assert (
        responses.get(timeout=PATIENCE_SECONDS).detail
        == "the kubeconfig cannot be read"
    )
    lock.may_go_on.release(2)
    for number in (2, 3):
        locker.ask(TakeLock(number=number, holder="web_0"))
        assert responses.get(timeout=PATIENCE_SECONDS).answer is LockAnswer.TAKEN
    assert len(attempts) == 2


def test_failed_thread_start_is_reported_as_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ground = Ground()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        ground.locker.ask(TakeLock(number=1, holder="web_0"))
    assert ground.answer() == LockResponse(
        number=1,
        answer=LockAnswer.TROUBLE,
        detail="cannot start a thread: can't start new thread",
    )
    ground.locker.ask(TakeLock(number=2, holder="web_0"))
    ground.lock.may_go_on.release()
    assert ground.answer().answer is LockAnswer.TAKEN
