"""Commands of other programs, run with a deadline."""

import threading
from pathlib import Path

import pytest

from forewarn.agent.handlers.run_context import (
    HandlerError,
    RunContext,
    StoppedError,
    TimeUpError,
    context_for,
)
from forewarn.agent.integrations.commands import Commands, Output
from forewarn.clock import SystemClock

pytestmark = pytest.mark.slow

COMMANDS = Commands({"PATH": "/usr/bin:/bin", "LC_ALL": "de_DE.UTF-8", "A": "1"})

HANGS = ("sh", "-c", "sleep 60 & sleep 60")
"""With a child, which must not hold its output open."""


def context(seconds: float = 20.0) -> RunContext:
    return context_for(seconds, SystemClock())


def never(_output: Output) -> bool:
    return False


def always(_output: Output) -> bool:
    return True


def test_output_and_exit_status_are_returned() -> None:
    script = 'read line; echo "$line$A $LC_ALL"; echo "oh: dear" >&2; exit 3'
    output = COMMANDS.run(("sh", "-c", script), context())
    assert output.status == 3
    assert output.out == "1 C.UTF-8\n"
    assert output.said == "oh: dear"
    assert COMMANDS.run(("sh", "-c", "echo fine"), context()).said == "fine"


def test_failed_command_is_an_error_if_success_is_required() -> None:
    assert COMMANDS.run(("echo", "x"), context()).good("it failed") == "x\n"
    with pytest.raises(HandlerError, match=r"^it failed: status 4$"):
        COMMANDS.run(("sh", "-c", "exit 4"), context()).good("it failed")
    with pytest.raises(HandlerError, match=r"^/nowhere: No such file"):
        COMMANDS.run(("/nowhere",), context())


def test_hanging_command_is_killed_with_its_children() -> None:
    with pytest.raises(HandlerError, match=r"no result within 0 s$"):
        COMMANDS.run(HANGS, context(), seconds=0.2)
    with pytest.raises(TimeUpError, match="timed out while running sh"):
        COMMANDS.run(HANGS, context(0.2))
    with pytest.raises(TimeUpError):
        COMMANDS.run(("true",), context(0.0))


def test_hanging_command_ends_with_its_event() -> None:
    held = context()
    timer = threading.Timer(0.2, lambda: held.stop(SystemClock().now()))
    timer.start()
    with pytest.raises(StoppedError, match="removed while running sh"):
        COMMANDS.run(HANGS, held)
    timer.join()


def test_command_is_retried_while_the_target_is_unavailable(tmp_path: Path) -> None:
    file = tmp_path / "there"
    script = f"[ -e {file} ] && echo there; ok=$?; touch {file}; exit $ok"
    command = ("sh", "-c", script)
    output = COMMANDS.patiently(command, context(), doing="asking", may_pass=always)
    assert output.out == "there\n"


def test_refused_command_is_not_retried() -> None:
    output = COMMANDS.patiently(("false",), context(), doing="asking", may_pass=never)
    assert output.status == 1


def test_failing_command_is_reported_at_the_deadline() -> None:
    command = ("sh", "-c", "echo nobody is here >&2; exit 1")
    message = r"timed out while asking it: nobody is here$"
    with pytest.raises(TimeUpError, match=message):
        COMMANDS.patiently(command, context(2), doing="asking it", may_pass=always)
    message = r"timed out while asking it: sh .* no result within 0 s$"
    with pytest.raises(TimeUpError, match=message):
        COMMANDS.patiently(
            HANGS, context(2), doing="asking it", may_pass=always, seconds=0.3
        )
    with pytest.raises(TimeUpError, match=r"timed out while asking it$"):
        COMMANDS.patiently(HANGS, context(0.3), doing="asking it", may_pass=always)
    with pytest.raises(HandlerError, match=r"^there is no program nowhere$"):
        COMMANDS.patiently(("nowhere",), context(), doing="asking", may_pass=always)


def test_timeout_of_the_run_names_the_whole_task() -> None:
    command = ("sh", "-c", "echo nobody is here >&2; exit 1")
    held = context(2)
    message = r"timed out while stopping web: nobody is here$"
    with pytest.raises(TimeUpError, match=message), held.doing("stopping web"):
        COMMANDS.patiently(command, held, doing="asking it", may_pass=always)
    with pytest.raises(HandlerError, match=r"^refused$"), held.doing("stopping web"):
        raise HandlerError("refused")
