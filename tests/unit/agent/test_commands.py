"""The agent's commands, as a person meets them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent import __main__ as front
from forewarn.agent import installing
from forewarn.agent.core.model import Consent, Memory
from forewarn.agent.journal.sqlite import SqliteJournal
from forewarn.agent.telling.server import Reply, Server
from forewarn.clock import SystemClock
from forewarn.protocol.notices import STARTED
from tests.support.agent_journals import task_of

EVENT = {
    "EventId": "E1",
    "EventStatus": "Scheduled",
    "EventType": "Reboot",
    "Resources": ["web_0"],
    "NotBefore": "Mon, 23 Nov 2026 22:00:00 GMT",
    "EventSource": "Platform",
    "DurationInSeconds": -1,
}

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def agent(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Say:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.toml").write_text(
        'endpoint = "http://127.0.0.1:1"\nstate = "state/agent.db"\nlisten = ""\n'
        '[[handler]]\nname = "drain"\nkind = "exec"\nprepare = "true"\n'
        '[[rule]]\nhandlers = "drain"\nstart = "NotBefore - 5m"\n'
    )

    def run(*words: str) -> tuple[int, str, str]:
        status = front.main([*words, "--config", "agent.toml"])
        told = capsys.readouterr()
        return status, told.out, told.err

    return run


def write(tmp_path: Path, *events: dict[str, Any]) -> str:
    file = tmp_path / "events.json"
    file.write_text(json.dumps({"DocumentIncarnation": 1, "Events": events}))
    return str(file)


def test_try_shows_which_rule_matches_and_what_would_run_when(
    agent: Say, tmp_path: Path
) -> None:
    other = {**EVENT, "EventId": "E2", "Resources": ["web_10"]}
    file = write(tmp_path, EVENT, other)
    status, out, _ = agent("try", file, "--vm", "web_0", "--at", "2026-11-23T21:00:00Z")
    assert status == 0
    assert out.splitlines() == [
        "as web_0",
        "Reboot Scheduled E1",
        "  matches  rule 1",
        "  NotBefore - 5m prepare with drain, in 4 m 53 s at most",
        "  NotBefore - 5m approve",
        "Reboot Scheduled E2  (of another VM)",
        "  matches  no rule",
        "           nothing is done",
    ]
    status, out, _ = agent(
        "try", file, "--json", "--vm", "web_0", "--at", "2026-11-23T21:00:00Z"
    )
    first, second = json.loads(out)
    assert [each["at"] for each in first["actions"]] == ["2026-11-23T21:55:00Z"] * 2
    assert (first["rule"], second["actions"]) == ("rule 1", [])


def test_try_says_how_far_it_has_looked(agent: Say, tmp_path: Path) -> None:
    far = {**EVENT, "NotBefore": "Fri, 31 Dec 9999 23:59:59 GMT"}
    _, out, _ = agent(
        "try", write(tmp_path, far), "--vm", "web_0", "--at", "2026-11-23T21:00:00Z"
    )
    assert "           nothing is done in the next 30 days" in out.splitlines()
    assert "  not approved: its preparation begins later" in out.splitlines()


def test_try_says_that_a_dry_run_does_nothing(agent: Say, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f"dry_run = true\n{file.read_text()}")
    _, out, _ = agent("try", write(tmp_path, EVENT), "--vm", "web_0")
    assert out.splitlines()[1].startswith("dry_run is set: ")


def test_try_needs_to_know_which_vm_it_is(agent: Say, tmp_path: Path) -> None:
    file = write(tmp_path, {**EVENT, "Resources": ["a", "b"]})
    status, _, err = agent("try", file)
    assert status == 2
    assert "names several VMs: a, b" in err
    assert agent("try", file, "--at", "noon")[0] == 2
    assert "cannot be read" in agent("try", "missing.json")[2]
    assert "FILE is missing" in agent("try")[2]
    assert "has no events" in agent("try", write(tmp_path))[1]


def test_check_says_what_is_well_and_what_is_not(agent: Say) -> None:
    status, out, _ = agent("check")
    assert status == 1
    assert "ok   settings: sound: agent.toml, 1 rule" in out
    assert "BAD  endpoint: http://127.0.0.1:1 gave no document" in out
    assert "ok   handler drain: " in out
    told = json.loads(agent("check", "--json")[1])
    assert {each["what"] for each in told} > {"endpoint", "state"}


def test_check_tells_all_faults_of_the_settings(agent: Say, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('pol = "1s"\nname = 1\n')
    status, _, err = agent("check")
    assert status == 2
    assert "agent.toml:1: pol: " in err
    assert "agent.toml:2: name: must be a text" in err


def test_settings_are_shown_with_where_they_came_from(agent: Say) -> None:
    status, out, _ = agent("settings", "--poll", "3s")
    assert status == 0
    assert "3s  (flag --poll)" in " ".join(out.split(" "))
    rows = {row["key"]: row for row in json.loads(agent("settings", "--json")[1])}
    assert rows["endpoint"]["origin"] == "agent.toml:1"


def test_the_status_of_an_agent_that_never_ran(agent: Say) -> None:
    status, _, err = agent("status")
    assert status == 3
    assert "there is no journal" in err
    status, _, err = agent("approve", "E1")
    assert status == 1
    assert "there is no journal" in err


def test_the_status_where_the_system_chose_the_port(agent: Say) -> None:
    status, _, err = agent("status", "--listen", "127.0.0.1:0")
    assert status == 3
    assert "at a port that the system chose" in err


def test_only_what_can_still_be_approved_is_ordered(agent: Say, tmp_path: Path) -> None:
    task = task_of("WAITS")
    begun = replace(task_of("BEGUN").notice, status=STARTED)
    memory = Memory(
        tasks=(
            task,
            replace(task_of("BEGUN"), notice=begun),
            replace(task_of("GIVEN"), consent=Consent.GIVEN),
        )
    )
    (tmp_path / "state").mkdir()
    journal = SqliteJournal(tmp_path / "state" / "agent.db")
    journal.save(memory, ())
    try:
        assert agent("approve", "waits")[:2] == (
            0,
            "ordered: Reboot WAITS is approved next\n",
        )
        assert list(journal.take_orders()) == ["WAITS"]
        for event, word in (("BEGUN", "has started"), ("GIVEN", "is approved")):
            status, _, err = agent("approve", event)
            assert status == 1
            assert f"event {event} {word} already" in err
        assert "knows no event OTHER" in agent("approve", "OTHER")[2]
        assert not journal.take_orders()
    finally:
        journal.close()


@pytest.mark.parametrize(
    ("flag", "word"), [("--observe", "observes only"), ("--dry-run", "is in a dry run")]
)
def test_an_agent_that_approves_nothing_takes_no_orders(
    agent: Say, tmp_path: Path, flag: str, word: str
) -> None:
    (tmp_path / "state").mkdir()
    journal = SqliteJournal(tmp_path / "state" / "agent.db")
    journal.save(Memory(tasks=(task_of("WAITS"),)), ())
    status, out, err = agent("approve", "WAITS", flag, "true")
    assert (status, out) == (1, "")
    assert f"the agent {word}: it approves nothing, ordered or not" in err
    assert not journal.take_orders()
    journal.close()


@pytest.fixture
def shown() -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of an agent that runs, and its status to be filled in."""
    document: dict[str, Any] = {"mode": "normal", "events": []}
    server = Server(clock=SystemClock())
    host, port = server.listen(
        "127.0.0.1:0", lambda _: Reply(body=json.dumps(document))
    )
    server.start()
    yield f"{host}:{port}", document
    server.stop()


def test_an_event_that_is_in_no_journal_since_the_disk_is_full(
    agent: Say, tmp_path: Path, shown: tuple[str, dict[str, Any]]
) -> None:
    address, document = shown
    document["events"] = [
        {"EventId": "HERE", "gone": None},
        {"EventId": "GONE", "gone": "2026-11-21T10:00:00Z"},
    ]
    # It was full when the agent began, or since.
    for is_there in (False, True):
        if is_there:
            (tmp_path / "state").mkdir()
            journal = SqliteJournal(tmp_path / "state" / "agent.db")
            journal.save(Memory(name="web_0"), ())
            journal.close()
        status, out, err = agent("approve", "here", "--listen", address)
        assert (status, out) == (1, "")
        assert "the agent knows event HERE, and an order cannot reach it" in err
        assert "approve at the endpoint itself" in err
    _, _, err = agent("approve", "gone", "--listen", address)
    assert "knows no event gone that is there now" in err


def test_an_agent_that_runs_says_itself_that_it_only_observes(
    agent: Say, shown: tuple[str, dict[str, Any]]
) -> None:
    address, document = shown
    document["mode"] = "observe"
    status, _, err = agent("approve", "E1", "--listen", address)
    assert status == 1
    assert "the agent observes only" in err


def test_the_unit_starts_this_agent(agent: Say, tmp_path: Path) -> None:
    if not Path("/run/systemd/system").is_dir():
        unit = installing.unit(["/opt/a b", "--config", "/etc/%.toml"])
        assert "ExecStart='/opt/a b' --config /etc/%%.toml\n" in unit
    status, out, _ = agent("install")
    assert status == 0
    for line in ("Type=notify", "WatchdogSec=60s", "KillMode=process"):
        assert line in out.splitlines()
    assert f"--config {tmp_path}/agent.toml" in out


@pytest.mark.parametrize(
    ("platform", "openrc", "word"),
    [
        ("darwin", False, "launchctl"),
        ("win32", False, "Task Scheduler"),
        ("linux", True, "rc-update"),
        ("linux", False, "supervisor"),
    ],
)
def test_other_systems_are_told_what_to_do(
    platform: str, openrc: bool, word: str
) -> None:
    told = installing.advice(platform, ["/opt/x", "--config", "y"], has_openrc=openrc)
    assert word in told
    assert "/opt/x" in told


def test_help_teaches_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        front.main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    _, _, commands = told.partition("\ncommands:\n")
    listed = [line.split()[0] for line in commands.splitlines()]
    assert listed == ["run", "check", "settings", "try", "status", "approve", "install"]
    assert max(map(len, told.splitlines())) <= 79
    for listed_one in listed:
        assert f"{listed_one}," in told or f",{listed_one}" in told


def test_check_says_that_the_rules_are_the_default_ones(
    agent: Say, tmp_path: Path
) -> None:
    _, told, _ = agent("check")
    assert "sound: agent.toml, 1 rule\n" in told
    (tmp_path / "agent.toml").write_text(
        'endpoint = "http://127.0.0.1:1"\nstate = "state/agent.db"\nlisten = ""\n'
    )
    _, told, _ = agent("check")
    assert "sound: agent.toml, the default rules\n" in told
