"""Units of systemd, with a fake of its manager."""

import json
from functools import partial
from pathlib import Path

import pytest

from forewarn.agent.handlers.run_context import StoppedError
from forewarn.agent.integrations import systemd as systemd_worker
from forewarn.agent.integrations.systemd import SystemdWorker
from forewarn.agent.integrations.systemd.units import own_units, units_in
from forewarn.agent.settings import AgentSettingsError, load_settings
from tests.support.fake_systemctl import NEVER, FakeSystemd
from tests.support.handled import JOB, Handled
from tests.support.in_process import FakeCommand, InProcess

FEW_CALLS = 6.0
"""Seconds of a short run context; a call of systemctl takes one second of it."""


class Story:
    """A manager, and handlers of its units."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.systemd = FakeSystemd(directory)
        self.commands = InProcess({"systemctl": self.systemd.command})

    def handler(self, settings: str) -> Handled:
        return Handled(
            "systemd",
            settings,
            self.directory,
            {},
            clock=self.commands.clock,
            make=partial(SystemdWorker, commands=self.commands),
        )


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


# Stopping, and starting again


def test_running_units_are_stopped_in_order_and_started_in_reverse(
    story: Story,
) -> None:
    for name in ("web.service", "db.service"):
        story.systemd.unit(name, stop=2, start=1)
    story.systemd.unit("idle.service", "inactive")
    handler = story.handler('stop = ["web", ["db.service", "idle.service"]]')
    assert handler.prepare() == "stopped web.service, stopped db.service"
    assert story.systemd.orders() == ["stop web.service", "stop db.service"]
    assert json.loads(handler.memo.read_text())["stopped"] == [
        {"web.service": ""},
        {"db.service": ""},
    ]
    story.systemd.forget_orders()
    assert handler.recover() == "started db.service, started web.service"
    assert story.systemd.orders() == ["start db.service", "start web.service"]
    assert story.systemd.active("idle.service") == "inactive"
    assert not handler.memo.exists()


def test_prepare_and_recover_are_idempotent(story: Story) -> None:
    story.systemd.unit("web.service")
    handler = story.handler('stop = "web.service"')
    assert handler.prepare() == "stopped web.service"
    handler.again()
    assert handler.prepare() == "nothing had to be done"
    assert handler.recover() == "started web.service"
    handler.again()
    assert handler.recover() == "nothing had to be undone"
    assert story.systemd.orders() == ["stop web.service", "start web.service"]


def test_crash_before_the_stop_leaves_nothing_to_undo(story: Story) -> None:
    story.systemd.unit("web.service")
    handler = story.handler('stop = "web.service"')
    handler.memo.parent.mkdir()
    handler.memo.write_text('{"stopped": [["web.service"]], "started": []}')
    assert handler.recover() == "nothing had to be undone"
    assert story.systemd.orders() == []


def test_units_that_stop_with_another_are_started_again(story: Story) -> None:
    story.systemd.unit("db.service", RequiredBy="web.service", ConsistsOf="off.service")
    story.systemd.unit("web.service", BoundBy="cache.service", stop=2)
    story.systemd.unit("cache.service")
    story.systemd.unit("off.service", "inactive")
    handler = story.handler('stop = ["db.service"]')
    assert handler.prepare() == (
        "stopped db.service, stopped web.service, stopped cache.service"
    )
    handler.recover()
    assert story.systemd.active("web.service") == "active"
    assert story.systemd.active("cache.service") == "active"
    assert story.systemd.active("off.service") == "inactive"


def test_pattern_selects_running_units(story: Story) -> None:
    story.systemd.unit("app@1.service")
    story.systemd.unit("app@2.service", "inactive")
    handler = story.handler('stop = "app@*"')
    assert handler.prepare() == "stopped app@1.service"
    assert story.handler('stop = "other@*"').prepare() == "nothing had to be done"


def test_unit_that_does_not_stop_in_time_is_named(story: Story) -> None:
    story.systemd.unit("web.service")
    story.systemd.unit("db.service", stop=NEVER)
    handler = story.handler('stop = [["web.service", "db.service"]]')
    assert handler.fails("prepare", FEW_CALLS) == (
        "timed out while waiting for db.service (deactivating, stop-sigterm) to stop"
    )
    # It may stop later on, and is started again nevertheless.
    story.systemd.change("db.service", looks=0)
    assert handler.recover() == "started web.service, started db.service"


def test_hanging_unit_is_killed_if_configured(story: Story) -> None:
    story.systemd.unit("web.service", stop=NEVER)
    story.systemd.unit("db.service", stop=1)
    handler = story.handler('stop = ["web.service", "db.service"]\nkill_after = "4s"')
    assert handler.prepare() == "killed web.service, stopped db.service"
    assert handler.recover() == "started db.service, started web.service"
    assert "reset-failed web.service" in story.systemd.orders()


def test_unit_that_was_already_stopping_is_not_restarted(story: Story) -> None:
    story.systemd.unit("web.service", "deactivating", to="inactive", looks=3)
    handler = story.handler('stop = "web.service"')
    assert handler.prepare() == "nothing had to be done"
    assert story.systemd.active("web.service") == "inactive"
    assert handler.recover() == "nothing had to be undone"


def test_unit_restarted_by_others_is_stopped_again(story: Story) -> None:
    story.systemd.unit("web.service", again=1)
    assert story.handler('stop = "web.service"').prepare() == "stopped web.service"
    assert story.systemd.orders() == ["stop web.service"] * 2


def test_unit_running_again_at_the_end_is_a_failure(story: Story) -> None:
    story.systemd.unit("web.service", TriggeredBy="web.socket")
    story.systemd.unit("web.socket")
    story.systemd.unit("db.service", wakes="web.service")
    handler = story.handler('stop = ["web.service", "db.service"]')
    assert handler.check() == [
        ("web.socket can restart web.service while it is stopped: list it first")
    ]
    assert handler.fails("prepare") == (
        "web.service was restarted after it was stopped: check web.socket"
    )
    assert story.handler('stop = ["web.socket", "web.service"]').check() == []


def test_removed_event_ends_the_wait(story: Story) -> None:
    story.systemd.unit("web.service", stop=NEVER)
    handler = story.handler('stop = "web.service"')
    context = handler.context()
    ask = story.systemd.command

    def ask_until_it_waits(words: list[str]) -> FakeCommand:
        if story.systemd.orders():
            context.stop(handler.clock.now())
        return ask(words)

    story.commands.programs["systemctl"] = ask_until_it_waits
    with pytest.raises(StoppedError, match="was removed while waiting for web"):
        handler.worker.prepare(JOB, context)


# Units that do not start again


def test_failed_unit_is_retried_and_does_not_delay_others(story: Story) -> None:
    story.systemd.unit("web.service")
    story.systemd.unit("db.service", start_to="failed")
    handler = story.handler('stop = ["web.service", "db.service"]')
    handler.prepare()
    assert handler.fails("recover") == (
        "db.service (failed: exit-code) could not be started"
    )
    assert story.systemd.active("web.service") == "active"
    story.systemd.change("db.service", start_to="active")
    handler.again()
    assert handler.recover() == "started db.service"


def test_hanging_unit_gets_only_its_share_of_the_time(story: Story) -> None:
    story.systemd.unit("web.service")
    story.systemd.unit("db.service", start=NEVER)
    handler = story.handler('stop = ["web.service", "db.service"]')
    handler.prepare()
    assert handler.fails("recover") == (
        "db.service (activating, start) has not started yet"
    )
    assert story.systemd.active("web.service") == "active"


def test_unit_that_exits_at_once_fails_the_recovery(story: Story) -> None:
    story.systemd.unit("web.service", start_to="inactive")
    story.systemd.unit("once.service", start_to="inactive", Type="oneshot")
    handler = story.handler('stop = [["web.service", "once.service"]]')
    handler.prepare()
    assert handler.fails("recover") == (
        "web.service (inactive, dead) was started and ended again"
    )
    assert json.loads(handler.memo.read_text())["stopped"] == [{"web.service": ""}]


def test_a_unit_that_needs_longer_than_its_job_is_waited_for(story: Story) -> None:
    story.systemd.unit("web.service", later=3)
    handler = story.handler('stop = "web.service"')
    handler.prepare()
    assert handler.recover() == "started web.service"


@pytest.mark.parametrize("how", ["masked", "removed"])
def test_unit_masked_or_removed_meanwhile_is_reported_once(
    story: Story, how: str
) -> None:
    story.systemd.unit("web.service")
    handler = story.handler('stop = "web.service"')
    handler.prepare()
    if how == "masked":
        story.systemd.change("web.service", LoadState="masked")
    else:
        story.systemd.remove("web.service")
    message = handler.fails("recover")
    assert message == f"web.service was {how} in the meantime and stays stopped"
    assert handler.recover() == "nothing had to be undone"


def test_unmet_unit_condition_fails_the_recovery(story: Story) -> None:
    story.systemd.unit("web.service", start_to="inactive", ConditionResult="no")
    handler = story.handler('stop = "web.service"')
    handler.prepare()
    assert handler.fails("recover") == "a condition of web.service is not met"


# Starting before the event


def test_a_target_is_started_and_stopped_afterwards(story: Story) -> None:
    story.systemd.unit("drain.target", "inactive", start=2)
    story.systemd.unit("ready.target", "active")
    story.systemd.unit("web.service")
    handler = story.handler(
        'start = [["drain.target", "ready.target"]]\nstop = "web.service"'
    )
    assert handler.prepare() == "started drain.target, stopped web.service"
    assert handler.recover() == "started web.service, stopped drain.target"
    assert story.systemd.active("drain.target") == "inactive"
    assert story.systemd.active("ready.target") == "active"
    assert not handler.memo.exists()


def test_finished_oneshot_counts_as_started(story: Story) -> None:
    story.systemd.unit(
        "save.service", "inactive", start_to="inactive", Type="oneshot", start=1
    )
    handler = story.handler('start = "save.service"')
    assert handler.prepare() == "started save.service"
    assert handler.recover() == "nothing had to be undone"


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ({"start_to": "failed"}, "drain.service (failed: exit-code) could not be"),
        ({"LoadState": "masked"}, "drain.service is masked"),
        ({"refuse": "Access denied"}, "Access denied (run the agent as root"),
        ({"LoadState": "bad-setting"}, "drain.service cannot be loaded: bad-setting"),
        (
            {"dependency": True},
            "drain.service was not started: A dependency job for drain.service failed.",
        ),
    ],
)
def test_failed_start_ends_the_preparation(
    story: Story, unit: dict[str, object], said: str
) -> None:
    story.systemd.unit("web.service")
    story.systemd.unit("drain.service", "inactive", **unit)
    handler = story.handler('start = "drain.service"\nstop = "web.service"')
    assert said in handler.fails("prepare")
    assert story.systemd.active("web.service") == "active"


def test_a_start_that_hangs_ends_with_the_run(story: Story) -> None:
    story.systemd.unit("drain.service", "inactive", start=NEVER)
    handler = story.handler('start = "drain.service"')
    assert handler.fails("prepare", FEW_CALLS) == (
        "timed out while asking systemd to start drain.service"
    )


# Reloading


def test_running_units_are_reloaded_before_and_after(story: Story) -> None:
    story.systemd.unit("web.service", reload=2)
    story.systemd.unit("idle.service", "inactive")
    handler = story.handler(
        'reload = ["web.service", "idle.service"]\nreload_after = "web.service"'
    )
    assert handler.prepare() == "reloaded web.service"
    assert handler.recover() == "reloaded web.service"
    assert story.systemd.orders() == ["reload web.service"] * 2


def test_failed_reload_is_reported(story: Story) -> None:
    story.systemd.unit("web.service", ReloadResult="exit-code")
    handler = story.handler('reload = "web.service"')
    assert handler.fails("prepare") == "web.service could not be reloaded: exit-code"
    story.systemd.change("web.service", reload=NEVER)
    assert "waiting for web.service (reloading, reload) to reload" in handler.fails(
        "prepare", FEW_CALLS
    )


# The manager, and what it refuses


def test_unavailable_manager_is_retried(story: Story) -> None:
    story.systemd.unit("web.service")
    handler = story.handler('stop = "web.service"')
    story.systemd.away(1)
    assert handler.prepare() == "stopped web.service"
    story.systemd.away(1_000)
    assert handler.fails("recover", 3.0) == (
        "timed out while asking systemd about web.service: "
        "Failed to connect to bus: Connection refused"
    )


def test_missing_systemd_is_reported_without_waiting(story: Story) -> None:
    handler = story.handler('stop = "web.service"')
    story.systemd.away(
        1_000,
        "Host is down\nSystem has not been booted with systemd as init system (PID 1).",
    )
    assert "asking systemd about web.service: " in handler.fails("prepare")
    assert len(handler.check()) == 1
    nowhere = Handled("systemd", 'stop = "a"', story.directory, {"PATH": "/nowhere"})
    assert nowhere.check() == ["there is no program systemctl"]
    starting = Handled("systemd", 'start = "a"', story.directory, {"PATH": "/nowhere"})
    assert starting.fails("prepare") == "there is no program systemctl"


def test_unit_that_refuses_to_stop_does_not_prevent_others(story: Story) -> None:
    story.systemd.unit("shy.service", refuse="Operation refused")
    story.systemd.unit("web.service")
    handler = story.handler('stop = [["shy.service", "web.service"]]')
    assert handler.fails("prepare") == (
        "asking systemd to stop shy.service: Failed to stop shy.service: "
        "Operation refused"
    )
    assert story.systemd.orders()[-1] == "stop web.service"


def test_missing_unit_does_not_count_as_stopped(story: Story) -> None:
    story.systemd.unit("web.service")
    handler = story.handler('stop = ["web.service", "wbe.service"]')
    assert handler.fails("prepare") == "there is no unit wbe.service"
    assert handler.check() == ["there is no unit wbe.service"]
    assert story.systemd.orders() == []


def test_handler_does_not_stop_the_agent(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.systemd.unit("all.target", ConsistsOf="forewarn-agent.service")
    story.systemd.unit("forewarn-agent.service")
    own = frozenset({"forewarn-agent.service", "system.slice"})
    monkeypatch.setattr(systemd_worker, "own_units", lambda: own)
    handler = story.handler('stop = "all.target"')
    message = "stopping forewarn-agent.service would stop the agent, which runs in it"
    assert handler.fails("prepare") == message
    assert handler.check() == [message]
    assert story.systemd.orders() == []


def test_check_reports_what_systemd_would_refuse(story: Story) -> None:
    story.systemd.unit("a.service", CanStop="no")
    story.systemd.unit("b.service", "inactive", CanStart="no")
    story.systemd.unit("c.service", CanReload="no")
    story.systemd.unit("d.service", "inactive", LoadState="masked")
    story.systemd.unit(
        "e.service",
        LoadState="error",
        LoadError='org.freedesktop.DBus.Error.InvalidArgs "Unit e.service is odd."',
    )
    handler = story.handler(
        'stop = ["a.service", "e.service"]\nstart = ["b.service", "d.service"]\n'
        'reload = "c.service"'
    )
    assert handler.check() == [
        "e.service cannot be loaded: Unit e.service is odd.",
        "a.service cannot be stopped manually (RefuseManualStop=)",
        "b.service cannot be started manually (RefuseManualStart=)",
        "d.service is masked",
        "c.service cannot be reloaded (ExecReload=)",
    ]
    assert story.handler('stop = "app@.service"').check() == [
        (
            "asking systemd about app@.service: Unit name app@.service is neither a valid "
            "invocation ID nor unit name."
        )
    ]


# The settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "it does nothing: set stop, start, reload or reload_after"),
        ('start = "a"\nkill_after = "5s"', "requires stop"),
        ('stop = "-a"', "is not a valid unit name"),
        ('stop = "a b"', "is not a valid unit name"),
        ('reload = "/etc/a"', "is not a valid unit name"),
        ('start = "a@*"', "is a pattern, which matches only loaded units"),
        ('start = "a"\nstop = [["a"]]', "is also in stop"),
        ('stop = "a"\nmanager = "users"', "must be one of system, user"),
    ],
)
def test_invalid_settings_are_rejected(
    tmp_path: Path, settings: str, said: str
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'[[handler]]\nname = "it"\nkind = "systemd"\n{settings}\n')
    with pytest.raises(AgentSettingsError, match=said.replace("(", r"\(")):
        load_settings(file=str(file), environ={}, flags={})


def test_user_manager_is_used(story: Story) -> None:
    story.systemd.unit("web.service")
    handler = story.handler('stop = "web.service"\nmanager = "user"')
    assert handler.prepare() == "stopped web.service"


def test_output_of_systemctl_is_parsed() -> None:
    first, second = units_in("Id=a.service\nJob=\nX=a=b\n\nId=b.target\nJob=12\n")
    assert (first.name, first.has_job, first.value("X")) == ("a.service", False, "a=b")
    assert (second.name, second.has_job) == ("b.target", True)
    assert units_in("") == []


def test_units_of_the_agent_are_detected(tmp_path: Path) -> None:
    file = tmp_path / "cgroup"
    text = "1:name=systemd:/system.slice/forewarn-agent.service\n0::/a.slice/b.scope\n"
    file.write_text(text)
    assert own_units(str(file)) == {
        *("system.slice", "forewarn-agent.service", "a.slice", "b.scope")
    }
    file.write_text("0::/\n")
    assert own_units(str(file)) == frozenset()
    assert own_units(str(tmp_path / "none")) == frozenset()
