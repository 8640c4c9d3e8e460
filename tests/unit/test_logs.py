"""The log: its lines and its limits, and that it never blocks."""

import contextlib
import io
import json
import logging
import threading
from collections.abc import Generator
from typing import Any

import pytest

from forewarn import logs
from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from forewarn.logs import Log, logging_to
from forewarn.service.assembly import Service
from forewarn.service.settings import load_settings
from forewarn.service.settings_model import LogSettings
from tests.support.loops import in_loop
from tests.unit.service.observed import Observed
from tests.unit.service.test_service import FLEET, get, running

logger = logging.getLogger("forewarn.tests")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def written(
    settings: LogSettings, stream: io.StringIO, *, clock: VirtualClock | None = None
) -> Generator[Log]:
    with logging_to(
        stream,
        form=settings.format,
        level=settings.level,
        clock=clock or VirtualClock(0),
    ) as log:
        yield log


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_one_object_per_line() -> None:
    stream = io.StringIO()
    with written(LogSettings(), stream):
        logger.info("one %s", "two\nthree", extra={"fields": {"operation": "op-1"}})
        try:
            int("why")
        except ValueError:
            logger.exception("it failed")
        logger.debug("not told")
    first, second = lines(stream)
    assert list(first) == ["time", "level", "logger", "message", "operation"]
    assert first["time"].endswith("Z")
    assert (first["level"], first["logger"]) == ("info", "forewarn.tests")
    assert (first["message"], first["operation"]) == ("one two\nthree", "op-1")
    assert second["level"] == "error"
    assert "ValueError: invalid literal" in second["traceback"]


def test_terminal_text_is_short_and_escaped() -> None:
    stream = _Terminal()
    fields = {"operation": "op-1", "vm": ["a", "b"]}
    with written(LogSettings(), stream):
        logger.info("red \x1b[31m", extra={"fields": fields})
    [line] = stream.getvalue().splitlines()
    assert line[8:] == r" red \x1b[31m (operation op-1, vm a b)"


def test_text_in_a_file_has_a_timestamp() -> None:
    stream = io.StringIO()
    with written(LogSettings(format="text", level="debug"), stream):
        logger.debug("hello")
    assert stream.getvalue().endswith(" DEBUG forewarn.tests: hello\n")
    assert stream.getvalue()[:2] == "20"


def test_logging_is_restored_at_the_end() -> None:
    root, ours = logging.getLogger(), logging.getLogger("forewarn")
    before = (list(root.handlers), ours.level)
    with written(LogSettings(level="error"), io.StringIO()):
        assert ours.level == logging.ERROR
    assert (list(root.handlers), ours.level) == before


def test_frequent_lines_are_rate_limited() -> None:
    stream, clock = io.StringIO(), VirtualClock(0)
    with written(LogSettings(), stream, clock=clock):
        for number in range(1000):
            logger.warning("a stranger asked: %d", number)
        logger.warning("another kind")
        for number in range(50):
            logger.info("vm %d is served", number)
        clock.advance_to(3 * SECOND)
        for number in range(1000):
            logger.warning("a stranger asked: %d", number)
    logged = lines(stream)
    assert len(logged) == logs.LINES_AT_ONCE + 1 + 50 + 3
    assert logged[logs.LINES_AT_ONCE]["message"] == "another kind"
    left_out = 1000 - logs.LINES_AT_ONCE
    assert [line.get("left_out") for line in logged[-3:]] == [left_out, None, None]


def test_rate_limit_forgets_kinds_of_line_above_its_maximum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "KINDS_MAX", 5)
    flood = logs.Flood(VirtualClock(0))
    for number in range(50):
        record = logging.LogRecord("x", 30, "", 0, f"kind {number}", (), None)
        assert flood.filter(record)
    assert len(flood._kinds) <= 5


def test_slow_reader_of_the_log_does_not_block_logging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "LINES_WAITING_MAX", 10)
    blocked, stuck = threading.Event(), threading.Event()

    class _Stuck(io.StringIO):
        def write(self, text: str) -> int:
            stuck.set()
            blocked.wait(20)
            return super().write(text)

    stream = _Stuck()
    with written(LogSettings(), stream) as log:
        logger.info("the first is being written")
        assert stuck.wait(20)
        for number in range(30):
            logging.getLogger(logs.UNLIMITED).info("line %d", number)
        assert log.dropped == 20
        blocked.set()
    assert len(lines(stream)) == 1 + 10


def test_lines_that_are_queued_together_are_written_together() -> None:
    blocked, stuck = threading.Event(), threading.Event()
    pieces: list[str] = []

    class _Slow(io.StringIO):
        def write(self, text: str) -> int:
            stuck.set()
            blocked.wait(20)
            pieces.append(text)
            return len(text)

    with written(LogSettings(), _Slow()):
        logger.info("the first is being written")
        assert stuck.wait(20)
        for number in range(100):
            logger.info("line %d", number)
        blocked.set()
    assert [line.count("\n") for line in pieces[:1]] == [1]
    assert sum(piece.count("\n") for piece in pieces) == 101
    assert len(pieces) < 10
    assert all(len(piece) <= logs.WRITE_CHARACTERS for piece in pieces)
    assert all(piece.endswith("\n") for piece in pieces)


def test_log_survives_a_line_that_cannot_be_formatted_and_a_closed_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = io.StringIO()
    with written(LogSettings(), stream) as log:
        # Not by a logger: the handler of the tests would raise the error.
        log.handle(logging.LogRecord("x", 20, "", 0, "%d", ("no number",), None))
        logger.info("the next")
    assert [line["message"] for line in lines(stream)] == ["the next"]
    assert "no number" in capsys.readouterr().err
    with written(LogSettings(), stream):
        stream.close()
        logger.info("nobody reads this")


def test_stopped_reader_of_the_log_does_not_block_the_exit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "LINES_WAITING_MAX", 1)
    monkeypatch.setattr(logs, "STOP_SECONDS", 0.01)
    for_ever = threading.Event()

    class _Gone(io.StringIO):
        def write(self, text: str) -> int:
            for_ever.wait(20)
            return len(text)

    with written(LogSettings(), _Gone()) as log:
        for _ in range(5):
            logger.info("who hears me?")
        assert log.dropped >= 3
    for_ever.set()


# Audit entries


def test_all_lines_of_an_operation_are_found_by_its_id() -> None:
    stream, world = io.StringIO(), Observed()
    for vm in ("web_0", "db_0"):
        world.gateway.enable(vm)
    with written(LogSettings(), stream):
        operation = world.maintain("h1", reason="firmware")
        world.approve(operation, "web_0", "db_0")
        world.gateway.advance("1h")
        other = world.maintain("h2")
    logged = [line for line in lines(stream) if line.get("operation") == operation]
    assert [line["message"].partition(":")[0] for line in logged] == [
        "maintain ordered",
        "operation announced",
        "operation ready",
        "operation impacting",
        "driver called",
        "driver done",
        "operation recovering",
        "operation done",
        "request closed",
    ]
    assert {line["level"] for line in logged} == {"info"}
    assert logged[1]["actor"] == "test"
    assert logged[1]["reason"] == "firmware"
    # The last VM to approve is the actor.
    assert logged[2]["actor"] == "vm db_0"
    assert logged[4]["generation"] == 1
    assert other not in json.dumps(logged)


def test_events_and_approvals_are_logged_at_debug() -> None:
    stream, world = io.StringIO(), Observed()
    world.gateway.enable("web_0")
    with written(LogSettings(level="debug"), stream):
        operation = world.maintain("h1")
        world.approve(operation, "web_0")
    logged = [line for line in lines(stream) if line["message"].startswith("event ")]
    assert [line["message"] for line in logged] == [
        "event scheduled",
        "event scheduled",
        "event approved: by web_0",
    ]
    assert {line["operation"] for line in logged} == {operation}
    assert logged[2]["actor"] == "vm web_0"
    assert logged[2]["vm"] == ["web_0"]
    assert {line["level"] for line in logged} == {"debug"}


def test_failures_are_warnings_and_effects_of_vms_are_not_logged() -> None:
    stream, world = io.StringIO(), Observed()
    with written(LogSettings(), stream):
        world.gateway.enable("web_0")
        world.gateway.driver.is_silent = True
        world.maintain("h1")
        world.gateway.advance("16m")
        world.gateway.driver.forgets = True
        world.gateway.advance("1h")
    logged = lines(stream)
    assert not [line for line in logged if "scope enabled" in line["message"]]
    [unknown] = [line for line in logged if line["level"] == "warning"]
    assert (
        unknown["message"]
        == "driver outcome unknown: the driver does not know the outcome"
    )


def test_disabled_levels_create_no_records(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "forewarn")
    Observed().maintain("h1")
    assert caplog.records == []


# Secrets


@in_loop
async def test_no_secret_is_ever_logged(tmp_path: Any) -> None:
    token, secret, wrong = "t0ken-of-ann-4f8a2c6e1b90", "pr0xy-secret", "wr0ng-token"
    (tmp_path / "tokens").write_text(f"ann:{token}\n")
    (tmp_path / "secret").write_text(secret)
    flags = {
        "metadata.listen": "127.0.0.1:0",
        "metadata.signed_secret_file": str(tmp_path / "secret"),
        "admin.listen": "127.0.0.1:0",
        "admin.token_file": str(tmp_path / "tokens"),
        "store.url": "memory://",
        "log.level": "debug",
    }
    settings = load_settings(file=None, environ={}, flags=flags)
    stream = io.StringIO()
    with logging_to(stream, form="auto", level=settings.log.level):
        async with running(Service(settings), FLEET) as service:
            for each_token in (token, wrong):
                path = f"/v1/operations HTTP/1.1\r\nAuthorization: Bearer {each_token}\r\nX:"
                await get(service.admin_address, path)
            signed = f"/metadata HTTP/1.1\r\nX-Instance-ID-Signature: {secret}\r\nX:"
            await get(service.addresses()[""], signed)
            logger.info("the settings are %s", settings)
    log = stream.getvalue()
    assert "belongs to no VM" in log
    for text in (token, secret, wrong):
        assert text not in log
