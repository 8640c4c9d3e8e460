"""Settings that are read again: when, and what becomes of those that are refused."""

import io
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent import lastgood, order
from forewarn.agent.core.model import Consent, Memory, Phase, Stage, Step, StepState
from forewarn.agent.core.permits import Lock, LockState
from forewarn.agent.failure import CommandFailedError
from forewarn.agent.order import Order
from forewarn.agent.renewing import Renewal, Signals, refuse_loss
from forewarn.agent.settings_model import HandlerSettings, Settings, WatchSettings
from tests.support.agent_journals import task_of

STEP = Step(
    handler="drain",
    phase=Phase.PREPARE,
    attempt=1,
    state=StepState.RUNNING,
    began=0,
    stop_at=0,
    kill_at=0,
)


# Signals


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("has_terminal", "is_ignored", "ends", "reloads"),
    [
        pytest.param(False, False, False, True, id="a-service"),
        pytest.param(True, False, True, False, id="in-a-terminal"),
        pytest.param(False, True, False, False, id="nohup"),
        pytest.param(True, True, False, False, id="nohup-in-a-terminal"),
    ],
)
def test_hangup_reloads_a_service_and_ends_a_terminal_process(
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_terminal: bool,
    is_ignored: bool,
    ends: bool,
    reloads: bool,
) -> None:
    stream = Terminal() if has_terminal else io.StringIO()
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream)
    stopped: list[bool] = []
    woken: list[bool] = []
    signals = Signals()
    before = signal.signal(
        signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL
    )
    try:
        with signals.heard():
            signals.while_running(
                lambda: signal.raise_signal(signal.SIGHUP),
                stop=lambda: stopped.append(True),
                wake=lambda: woken.append(signals.wants_settings),
            )
    finally:
        signal.signal(signal.SIGHUP, before)
    assert stopped == [True] * ends
    assert signals.is_stopping is ends
    assert signals.wants_settings is reloads
    assert woken == [True] * reloads, "the loop looks after the request"


def test_signal_before_the_run_starts_is_not_lost() -> None:
    stopped: list[bool] = []
    signals = Signals()
    with signals.heard():
        signal.raise_signal(signal.SIGTERM)
        signals.while_running(
            lambda: None, stop=lambda: stopped.append(True), wake=lambda: None
        )
    assert stopped == [True]


# Renewal


def reader(*given: Settings | CommandFailedError) -> Callable[[], Settings]:
    left = list(given)

    def read() -> Settings:
        outcome = left.pop(0)
        if isinstance(outcome, CommandFailedError):
            raise outcome
        return outcome

    return read


def test_settings_are_not_read_without_a_request() -> None:
    renewal = Renewal(reader(), Signals(), Settings())
    assert not renewal.is_due(Memory())


@pytest.mark.parametrize(
    "busy",
    [Memory(tasks=(replace(task_of("E1"), steps=(STEP,)),)), Memory(restored=(STEP,))],
)
def test_reload_waits_until_no_handler_runs(busy: Memory) -> None:
    signals, fresh = Signals(), Settings()
    renewal = Renewal(reader(fresh), signals, Settings())
    signals.wants_settings = True
    assert not renewal.is_due(busy)
    assert not renewal.is_due(busy)
    assert renewal.is_due(Memory())
    assert renewal.settings is fresh
    assert not renewal.is_due(Memory()), "it is read once"


def test_refused_settings_are_reported_until_others_are_accepted() -> None:
    signals = Signals()
    refusal = CommandFailedError(2, "agent.toml, line 3: no")
    renewal = Renewal(reader(refusal, Settings()), signals, Settings())
    signals.wants_settings = True
    assert not renewal.is_due(Memory())
    assert "agent.toml, line 3: no" in renewal.fault
    assert not renewal.is_due(Memory())
    signals.wants_settings = True
    assert renewal.is_due(Memory())
    assert renewal.fault
    renewal.take(Settings())
    assert renewal.fault == ""


# The copy


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "state").mkdir()
    return {"STATE_DIRECTORY": str(tmp_path / "state")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text('poll = "7s"\n', encoding="utf-8")
    return path


STATE = WatchSettings().state


def keep(file: Path, environ: dict[str, str]) -> None:
    """Keep a copy, as an agent does that has begun with the file."""
    lastgood.keep(Settings(file=str(file)), environ)


def ordered(file: Path, environ: dict[str, str], **flags: str) -> Order:
    return Order(say=print, environ=environ, config=str(file), flags=flags)


def test_invalid_file_is_replaced_by_the_last_good_copy(
    file: Path, environ: dict[str, str]
) -> None:
    keep(file, environ)
    file.write_text('poll = "soon"\n', encoding="utf-8")
    settings = ordered(file, environ).settings_to_run()
    assert settings.watch.poll == 7_000_000
    assert settings.is_copy
    assert settings.file == str(file)
    assert "the last good ones are in effect" in settings.warnings[0]
    assert "agent.toml" in settings.warnings[0]


def test_invalid_file_without_a_copy_is_refused(
    file: Path, environ: dict[str, str]
) -> None:
    file.write_text("poll = 1\n", encoding="utf-8")
    with pytest.raises(CommandFailedError, match=r"agent\.toml"):
        ordered(file, environ).settings_to_run()


def test_other_commands_report_errors_of_the_current_file(
    file: Path, environ: dict[str, str]
) -> None:
    keep(file, environ)
    file.write_text("poll = 1\n", encoding="utf-8")
    with pytest.raises(CommandFailedError):
        ordered(file, environ).settings()


def test_user_at_a_terminal_gets_the_error_at_once(
    file: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(file, environ)
    file.write_text("poll = 1\n", encoding="utf-8")
    monkeypatch.setattr(order, "has_terminal", lambda: True)
    with pytest.raises(CommandFailedError):
        ordered(file, environ).settings_to_run()


def test_invalid_flag_is_reported_despite_the_copy(
    file: Path, environ: dict[str, str]
) -> None:
    """A refused flag is not an error of the file."""
    keep(file, environ)
    with pytest.raises(CommandFailedError, match="timeout"):
        ordered(file, environ, timeout="never").settings_to_run()


def test_copy_is_private_and_belongs_to_one_file(
    file: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    keep(file, environ)
    copy = Path(lastgood.find(str(file), environ, {}))
    assert copy.stat().st_mode & 0o777 == 0o600
    assert copy.read_bytes() == file.read_bytes()
    assert lastgood.find(str(tmp_path / "other.toml"), environ, {}) == ""
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_identical_copy_is_not_rewritten(file: Path, environ: dict[str, str]) -> None:
    keep(file, environ)
    copy = Path(lastgood.find(str(file), environ, {}))
    before = copy.stat().st_ino
    keep(file, environ)
    assert copy.stat().st_ino == before
    file.write_text('poll = "8s"\n', encoding="utf-8")
    keep(file, environ)
    assert copy.read_bytes() == file.read_bytes()


def test_partial_copy_from_a_crash_is_replaced(
    file: Path, environ: dict[str, str]
) -> None:
    place = Path(lastgood.place_of(str(file), environ, state=STATE))
    place.with_name(f"{place.name}.new").write_text("half", encoding="utf-8")
    keep(file, environ)
    assert place.read_bytes() == file.read_bytes()


def test_no_copy_is_kept_without_a_directory_or_of_a_large_file(
    file: Path, environ: dict[str, str]
) -> None:
    keep(file, {"STATE_DIRECTORY": f"{os.fspath(file)}/none"})
    file.write_bytes(b"#" * (lastgood.FILE_BYTES_MAX + 1))
    keep(file, environ)
    lastgood.keep(Settings(), environ)
    assert lastgood.find(str(file), environ, {}) == ""


def test_copy_is_kept_next_to_the_journal_without_a_state_directory(
    file: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journals" / "agent.db"
    journal.parent.mkdir()
    file.write_text(f'state = "{journal}"\npoll = "7s"\n', encoding="utf-8")
    lastgood.keep(ordered(file, {}).settings(), {})
    assert [path.parent for path in tmp_path.rglob("settings-*")] == [journal.parent]
    # A file that is no TOML any more says still where the journal is.
    file.write_text(f'poll = soon\nstate = "{journal}"\n', encoding="utf-8")
    assert ordered(file, {}).settings_to_run().watch.poll == 7_000_000
    # Else a flag or a variable does.
    file.write_text("poll = soon\n", encoding="utf-8")
    with pytest.raises(CommandFailedError):
        ordered(file, {}).settings_to_run()
    settings = ordered(file, {}, state=str(journal)).settings_to_run()
    assert settings.watch.poll == 7_000_000
    settings = ordered(file, {"FOREWARN_AGENT_STATE": str(journal)}).settings_to_run()
    assert settings.watch.poll == 7_000_000


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_emptied_file_is_neither_copied_nor_used(
    file: Path, environ: dict[str, str], text: str
) -> None:
    keep(file, environ)
    copy = Path(lastgood.find(str(file), environ, {}))
    before = copy.read_bytes()
    file.write_text(text, encoding="utf-8")
    settings = ordered(file, environ).settings_to_run()
    assert settings.watch.poll == 7_000_000
    assert "is empty; was it truncated?" in settings.warnings[0]
    lastgood.keep(settings, environ)
    lastgood.keep(ordered(file, environ).settings(), environ)
    assert copy.read_bytes() == before
    copy.unlink()
    assert ordered(file, environ).settings_to_run().is_blank


def test_lookup_of_the_running_agent_reports_the_copy(
    file: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(file, environ)
    file.write_text("poll = 1\n", encoding="utf-8")
    # Also one who sits before a terminal.
    monkeypatch.setattr(order, "has_terminal", lambda: True)
    messages: list[str] = []
    order_of_check = replace(ordered(file, environ), tell=messages.append)
    assert order_of_check.settings_of_running().watch.poll == 7_000_000
    assert messages[0].startswith(
        "forewarn: the settings are refused, so the last good ones are in effect: "
    )
    file.write_text('poll = "9s"\n', encoding="utf-8")
    messages.clear()
    assert order_of_check.settings_of_running().watch.poll == 9_000_000
    assert messages == []


# Settings that may not be replaced

DRAIN = HandlerSettings(name="drain", kind="exec")
BY_FILE = Settings(file="agent.toml", handlers=(DRAIN,))
NOTHING = Memory()


def under(stage: Stage, consent: Consent = Consent.NONE) -> Memory:
    """Return the memory of an event that has come so far."""
    task = task_of("E1")
    return Memory(tasks=(replace(task, stage=stage, consent=consent, steps=()),))


BUSY = {
    "prepared": under(Stage.PREPARED),
    "owed": under(Stage.RECOVERING),
    "approved": under(Stage.SEEN, Consent.GIVEN),
    "locked": Memory(lock=Lock(state=LockState.HELD, label="lock web")),
}
OVER = under(Stage.FINISHED, Consent.GIVEN)
SEEN = under(Stage.SEEN)


def refused(new: Settings, memory: Memory, old: Settings = BY_FILE) -> str:
    try:
        refuse_loss(old, new, memory)
    except CommandFailedError as error:
        return error.message
    return ""


def watching(**changes: object) -> Settings:
    return replace(BY_FILE, watch=replace(BY_FILE.watch, **changes))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state", "/elsewhere/agent.db"),
        ("endpoint", "http://10.0.0.1"),
        ("name", "web_7"),
        ("scale_set_names", True),
        ("dry_run", True),
    ],
)
def test_settings_that_identify_events_cannot_change_during_work(
    key: str, value: object
) -> None:
    new = watching(**{key: value})
    for memory in BUSY.values():
        assert refused(new, memory).startswith(f"{key} cannot change now: ")
    for memory in (NOTHING, OVER, SEEN):
        assert refused(new, memory) == ""


def test_other_settings_may_change_at_any_time() -> None:
    others = {"poll": 5_000_000, "listen": "", "observe": True, "forget_after": 9}
    for memory in BUSY.values():
        assert refused(watching(**others), memory) == ""
    # A dry run has nothing to forget.
    assert refused(BY_FILE, BUSY["prepared"], watching(dry_run=True)) == ""


def test_refusal_names_the_work_in_progress() -> None:
    refusals = {name: refused(watching(name="x"), BUSY[name]) for name in BUSY}
    assert "event E1 is prepared, and the change would lose it" in refusals["prepared"]
    assert "the recovery from event E1 is pending" in refusals["owed"]
    assert "the approval of event E1 is given" in refusals["approved"]
    assert "lock web is held" in refusals["locked"]


def test_reload_refuses_a_file_that_lost_its_handlers() -> None:
    blank = Settings(file="agent.toml", is_blank=True)
    cut = Settings(file="agent.toml")
    assert "agent.toml is empty" in refused(blank, NOTHING)
    assert "agent.toml no longer exists" in refused(Settings(), NOTHING)
    message = refused(cut, NOTHING)
    assert "agent.toml no longer has a handler" in message
    assert message.endswith("In effect: drain. If this is intended, restart the agent.")
    # Settings without handlers lose none.
    assert refused(blank, NOTHING, blank) == ""
    assert refused(Settings(), NOTHING, Settings()) == ""
    assert refused(cut, NOTHING, cut) == ""
    assert refused(BY_FILE, NOTHING, Settings()) == ""


def test_refused_change_is_reported_and_keeps_the_current_settings() -> None:
    signals = Signals()
    new = watching(state="/elsewhere/agent.db")
    renewal = Renewal(reader(new, new), signals, BY_FILE)
    signals.wants_settings = True
    assert not renewal.is_due(BUSY["prepared"])
    assert "state cannot change now" in renewal.fault
    assert renewal.settings is None
    signals.wants_settings = True
    assert renewal.is_due(OVER)
    assert renewal.settings is new
