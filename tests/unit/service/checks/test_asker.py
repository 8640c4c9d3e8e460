"""The checks of a service: asked while needed, at most once at a time, never waited for."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from forewarn.checks.model import CheckResult, Judged, Outcome, passed
from forewarn.clock import SystemClock
from forewarn.control.gateway import BusyError
from forewarn.instants import SECOND
from forewarn.protocol.errors import NotFoundError
from forewarn.service.checks import asker, limits
from forewarn.service.checks.asker import Checks, asks
from forewarn.service.settings import Settings
from forewarn.service.settings_model import CheckSettings
from tests.unit.service.checks.servers import page, prometheus, serving

pytestmark = pytest.mark.system

CLOCK = SystemClock()


class Control:
    """The control thread, as the checks see it: one function after the other."""

    def __init__(self, checks: Checks) -> None:
        """Write the board of `checks`."""
        self.checks = checks.board
        self.is_busy = False

    async def __call__(self, act: Callable[[Any, int], None]) -> None:
        if self.is_busy:
            raise BusyError("too many requests wait", hint="Try again.")
        act(self, CLOCK.now())


def command(name: str, script: str, **more: Any) -> CheckSettings:
    options: dict[str, Any] = {"timeout": 5 * SECOND, "every": 5 * SECOND, **more}
    return CheckSettings(
        name=name, kind="command", program=("/bin/sh", "-c", script), **options
    )


def play(
    story: Callable[[Checks, Control], Awaitable[None]], *checks: CheckSettings
) -> Checks:
    """Run a story with checks that have begun, and end them."""

    async def run() -> Checks:
        service_checks = Checks(Settings(check=checks), clock=CLOCK)
        control = Control(service_checks)
        service_checks.begin(control)
        try:
            await story(service_checks, control)
        finally:
            await service_checks.end()
        return service_checks

    return asyncio.run(run())


async def until(is_so: Callable[[], object]) -> None:
    """Wait for what another thread or program does."""
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ROUND_SECONDS", 0.01)


def latest(checks: Checks) -> CheckResult:
    return checks.board.latest("c", now=CLOCK.now())


def counts(checks: Checks) -> dict[Any, float]:
    (reading,) = checks.readings()
    return {**cast("Mapping[Any, float]", reading.values)}


def test_only_needed_checks_are_asked(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    async def story(checks: Checks, _control: Control) -> None:
        for name in ("first", "second"):
            latest = checks.board.latest(name, now=CLOCK.now())
            assert latest.outcome is Outcome.UNKNOWN
        checks.board.need({"first"})
        await until(lambda: checks.board.last("first"))
        last = checks.board.last("first")
        assert last is not None
        assert (last.outcome, last.reason) == (Outcome.PASS, "exit status 0")
        # Its next question is seconds away.
        await asyncio.sleep(0.1)
        assert first.read_text() == "x\n"
        checks.board.need(())
        assert not second.exists()

    service_checks = play(
        story,
        command("first", f"echo x >> {first}"),
        command("second", f"echo x >> {second}"),
    )
    assert counts(service_checks) == {
        (name, outcome): int((name, outcome) == ("first", "pass"))
        for name in ("first", "second")
        for outcome in ("pass", "fail", "unknown")
    }


def test_needed_check_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / "mark"

    async def story(checks: Checks, _control: Control) -> None:
        checks.board.need({"c"})
        await until(lambda: checks.board.last("c"))
        mark.touch()
        await until(lambda: latest(checks).outcome is Outcome.FAIL)

    with caplog.at_level(logging.INFO, "forewarn.checks"):
        play(story, command("c", f"test ! -e {mark}", every=SECOND // 20))
    assert caplog.messages == [
        "check c: pass: exit status 0",
        "check c: fail: exit status 1",
    ]


def test_requests_at_once_share_one_question() -> None:
    with serving(prometheus({"errors": 5})) as server:
        check = CheckSettings(
            name="c", kind="promql", url=server.url, query="errors", below=1
        )

        async def story(checks: Checks, _control: Control) -> None:
            results = await asyncio.gather(*(checks.run_check("c") for _ in range(20)))
            assert {result["outcome"] for result in results} == {"fail"}
            (listed,) = await checks.checks()
            assert listed == results[0]
            assert listed["asked"] is not None
            with pytest.raises(NotFoundError, match="no check weather"):
                await checks.run_check("weather")

        play(story, check)
        assert len(server.asked) == 1


def test_hanging_thread_is_given_up_and_the_loop_never_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name server can hang where no deadline holds."""
    over = threading.Event()

    def hang(*_given: object, **_named: object) -> Judged:
        over.wait(60)
        return passed("late")

    monkeypatch.setattr(asker, "ask", hang)
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.1)

    async def story(checks: Checks, _control: Control) -> None:
        names = [f"c{at}" for at in range(limits.AT_ONCE + 1)]
        results = await asyncio.gather(*(checks.run_check(name) for name in names))
        assert {result["reason"] for result in results} == {
            "no answer within 0.2 s: its thread hangs, or too many others do"
        }
        over.set()
        # Their places are free again, and a late answer does not count.
        monkeypatch.setattr(asker, "ask", lambda *_given, **_named: passed("well"))
        assert (await checks.run_check("c0"))["reason"] == "well"

    play(
        story,
        *(
            command(f"c{at}", "true", timeout=SECOND // 10)
            for at in range(limits.AT_ONCE + 1)
        ),
    )


def test_result_that_control_cannot_take_is_only_returned() -> None:
    async def story(checks: Checks, control: Control) -> None:
        control.is_busy = True
        assert (await checks.run_check("c"))["outcome"] == "pass"
        assert checks.board.last("c") is None

    play(story, command("c", "true"))


def test_bug_is_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_given: object, **_named: object) -> Judged:
        raise RuntimeError("oops")

    monkeypatch.setattr(asker, "ask", fail)

    async def story(checks: Checks, _control: Control) -> None:
        assert (await checks.run_check("c"))["outcome"] == "unknown"

    play(story, command("c", "true"))
    assert "oops" in caplog.text


def test_running_program_ends_with_the_service(tmp_path: Path) -> None:
    began = CLOCK.monotonic()

    async def story(checks: Checks, _control: Control) -> None:
        checks.board.need({"c"})
        await until((tmp_path / "runs").exists)

    play(
        story,
        command("c", f"touch {tmp_path / 'runs'}; sleep 300", timeout=300 * SECOND),
    )
    assert CLOCK.monotonic() - began < 30


def test_questions_are_shown_without_secrets() -> None:
    all_settings: tuple[dict[str, Any], ...] = (
        {"kind": "promql", "url": "http://p:9090", "query": "up", "above": 0},
        {"kind": "http", "url": "https://h/x?key=hush", "contains": "ok"},
        {"kind": "command", "program": ("/bin/test", "a b")},
    )
    shown = [asks(CheckSettings(name="c", **settings)) for settings in all_settings]
    assert shown == [
        "up above 0, at http://p:9090",
        "https://h/x?***: 200 with 'ok'",
        "/bin/test 'a b'",
    ]


def test_server_that_hangs_delays_no_other_check() -> None:
    def hang(wire: Any, _asked: object) -> None:
        wire.recv(1)

    with serving(hang) as slow, serving(page(200)) as fast:

        async def story(checks: Checks, _control: Control) -> None:
            hanging = asyncio.create_task(checks.run_check("slow"))
            assert (await checks.run_check("fast"))["outcome"] == "pass"
            assert not hanging.done()
            assert (await hanging)["outcome"] == "unknown"

        play(
            story,
            CheckSettings(name="slow", kind="http", url=slow.url, timeout=2 * SECOND),
            CheckSettings(name="fast", kind="http", url=fast.url),
        )
