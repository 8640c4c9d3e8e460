"""The agent's commands, as a person meets them."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent import __main__ as front
from forewarn.agent.core.model import Consent, Memory
from forewarn.agent.journal.sqlite import SqliteJournal
from forewarn.agent.observability.server import Reply, Server
from forewarn.agent.option_table import with_switches
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
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


def write(tmp_path: Path, *events: dict[str, Any]) -> str:
    file = tmp_path / "events.json"
    file.write_text(json.dumps({"DocumentIncarnation": 1, "Events": events}))
    return str(file)


def test_try_shows_the_matching_rule_and_the_schedule(
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
    assert [action["at"] for action in first["actions"]] == ["2026-11-23T21:55:00Z"] * 2
    assert (first["rule"], second["actions"]) == ("rule 1", [])


def test_try_reads_standard_input(agent: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def give(text: str) -> None:
        piped = io.TextIOWrapper(io.BytesIO(text.encode()))
        monkeypatch.setattr(sys, "stdin", piped)

    give(json.dumps({"DocumentIncarnation": 1, "Events": [EVENT]}))
    status, out, _ = agent("try", "-", "--vm", "web_0", "--at", "2026-11-23T21:00:00Z")
    assert status == 0
    assert out.splitlines()[:2] == ["as web_0", "Reboot Scheduled E1"]
    give("<html>")
    status, _, told = agent("try", "-")
    assert status == 2
    assert "forewarn: (standard input): " in told


def test_try_without_a_document_explains_what_to_do(agent: Say) -> None:
    status, _, told = agent("try", "none.json")
    assert status == 2
    assert "none.json cannot be read: No such file or directory" in told
    assert (
        "hint: Name a file with a document, or use - and pipe the document in." in told
    )


def test_try_states_how_far_ahead_it_simulates(agent: Say, tmp_path: Path) -> None:
    far = {**EVENT, "NotBefore": "Fri, 31 Dec 9999 23:59:59 GMT"}
    _, out, _ = agent(
        "try", write(tmp_path, far), "--vm", "web_0", "--at", "2026-11-23T21:00:00Z"
    )
    assert "           nothing is done in the next 30 days" in out.splitlines()
    assert "  not approved: its preparation begins later" in out.splitlines()


def test_try_shows_one_peer_query_until_the_event_starts(
    agent: Say, tmp_path: Path
) -> None:
    """They would be asked every two seconds: 450 times in a quarter of an hour."""
    (tmp_path / "token").write_text("s3cret\n")
    toml = (
        '[[handler]]\nname = "drain"\nkind = "exec"\nprepare = "true"\n'
        '[[rule]]\nhandlers = "drain"\napprover = "{}"\ntakeover = "1m"\n'
        '[peers]\ntoken_file = "token"\nurl = "http://{{name}}:9465"\n'
    )
    file = write(tmp_path, {**EVENT, "Resources": ["web_1", "web_0", "web_2"]})
    command = ("try", file, "--vm", "web_0", "--at", "2026-11-23T21:45:00Z")
    head = [
        "  matches  rule 1",
        "  now      prepare with drain, in 5 m at most",
        "  now      ask web_1, web_2 whether they are prepared, every 2 s",
    ]
    (tmp_path / "agent.toml").write_text(toml.format("all"))
    _, out, _ = agent(*command)
    assert out.splitlines()[2:] == [
        *head,
        "  not approved: not prepared yet: web_1, web_2",
    ]
    # With `leader`, silent peers are waited for only for a while.
    (tmp_path / "agent.toml").write_text(toml.format("leader"))
    _, out, _ = agent(*command)
    assert out.splitlines()[2:] == [*head, "  NotBefore - 14m approve"]


def test_try_shows_later_events_while_peers_are_queried(
    agent: Say, tmp_path: Path
) -> None:
    """To ask them every two seconds for a day takes no turn of the trial."""
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "agent.toml").write_text(
        '[[handler]]\nname = "drain"\nkind = "exec"\nprepare = "true"\n'
        '[[rule]]\ntype = ["Freeze"]\nhandlers = "drain"\napprover = "all"\n'
        '[[rule]]\nhandlers = "drain"\nstart = "NotBefore - 5m"\n'
        '[peers]\ntoken_file = "token"\nurl = "http://{name}:9465"\n'
    )
    asking = {
        **EVENT,
        "EventId": "E2",
        "EventType": "Freeze",
        "Resources": ["web_0", "web_1"],
        "NotBefore": "Tue, 24 Nov 2026 22:00:00 GMT",
    }
    later = {**EVENT, "NotBefore": "Tue, 24 Nov 2026 21:00:00 GMT"}
    file = write(tmp_path, asking, later)
    status, out, _ = agent("try", file, "--vm", "web_0", "--at", "2026-11-23T21:00:00Z")
    assert status == 0
    assert out.splitlines()[1:] == [
        "Freeze Scheduled E2",
        "  matches  rule 1",
        "  now      prepare with drain, in 5 m at most",
        "  now      ask web_1 whether they are prepared, every 2 s",
        "  not approved: not prepared yet: web_1",
        "Reboot Scheduled E1",
        "  matches  rule 2",
        "  NotBefore - 5m prepare with drain, in 4 m 53 s at most",
        "  NotBefore - 5m approve",
    ]


def test_try_shows_nothing_of_an_event_after_its_start(
    agent: Say, tmp_path: Path
) -> None:
    toml = (tmp_path / "agent.toml").read_text()
    window = '[[window]]\nbegins = "23:00"\nends = "24:00"\n'
    (tmp_path / "agent.toml").write_text(toml + window)
    options = ("--vm", "web_0", "--at", "2026-11-23T21:00:00Z")
    later = {**EVENT, "EventId": "E2", "NotBefore": "Mon, 23 Nov 2026 23:30:00 GMT"}
    _, out, _ = agent("try", write(tmp_path, EVENT, later), *options)
    first, second = out.split("Reboot Scheduled E2")
    assert "NotBefore +" not in out
    assert "approve" not in first.replace("not approved", "")
    assert "  not approved: " in first
    assert "  NotBefore - 5m approve" in second


def test_try_states_that_a_dry_run_does_nothing(agent: Say, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f"dry_run = true\n{file.read_text()}")
    _, out, _ = agent("try", write(tmp_path, EVENT), "--vm", "web_0")
    assert out.splitlines()[1].startswith("dry_run is set: ")


def test_try_rejects_an_ambiguous_vm_or_an_invalid_argument(
    agent: Say, tmp_path: Path
) -> None:
    file = write(tmp_path, {**EVENT, "Resources": ["a", "b"]})
    status, _, err = agent("try", file)
    assert status == 2
    assert "names several VMs: a, b" in err
    assert agent("try", file, "--at", "noon")[0] == 2
    assert "cannot be read" in agent("try", "missing.json")[2]
    assert "FILE is missing" in agent("try")[2]
    assert "has no events" in agent("try", write(tmp_path))[1]


def test_check_reports_good_and_bad_findings(agent: Say) -> None:
    status, out, _ = agent("check")
    assert status == 1
    assert "ok   settings: valid: agent.toml, 1 rule" in out
    assert "BAD  endpoint: http://127.0.0.1:1 returned no document" in out
    assert "ok   handler drain: " in out
    document = json.loads(agent("check", "--json")[1])
    assert {finding["what"] for finding in document} > {"endpoint", "state"}


def test_check_reports_all_errors_in_the_settings(agent: Say, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('pol = "1s"\nname = 1\n')
    status, _, err = agent("check")
    assert status == 2
    assert "agent.toml:1: pol: " in err
    assert "agent.toml:2: name: must be a string" in err


def test_settings_are_shown_with_their_origin(agent: Say) -> None:
    status, out, _ = agent("settings", "--poll", "3s")
    assert status == 0
    assert "3s  (flag --poll)" in " ".join(out.split(" "))
    rows = {row["key"]: row for row in json.loads(agent("settings", "--json")[1])}
    assert rows["endpoint"]["origin"] == "agent.toml:1"


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("--dry-run", "settings"), "true"),
        (("settings", "--dry-run"), "true"),
        (("settings", "--dry-run", "--json"), "true"),
        (("settings", "--dry-run", "false"), "false"),
        (("settings", "--dry-run=false"), "false"),
        (("settings", "--poll", "2s"), "false"),
    ],
)
def test_switch_without_a_value_is_true(
    agent: Say, words: tuple[str, ...], value: str
) -> None:
    status, out, _ = agent(*words, "--json")
    assert status == 0
    rows = {row["key"]: row for row in json.loads(out)}
    assert rows["dry_run"]["value"] == value


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("", ""),
        ("run", "run"),
        ("--push", "--push=true"),
        ("--push --dry-run run", "--push=true --dry-run=true run"),
        ("--push False --name a", "--push False --name a"),
        ("--name true", "--name true"),
    ],
)
def test_switch_takes_the_next_argument_if_it_is_a_boolean(
    words: str, meant: str
) -> None:
    assert with_switches(words.split()) == meant.split()


def test_switch_accepts_only_true_or_false(agent: Say) -> None:
    status, _, err = agent("settings", "--observe", "yes")
    assert status == 2
    assert 'flag --observe: must be true or false, not "yes"' in err


def test_status_and_approve_fail_without_a_journal(agent: Say) -> None:
    status, _, err = agent("status")
    assert status == 3
    assert "there is no journal" in err
    status, _, err = agent("approve", "E1")
    assert status == 1
    assert "there is no journal" in err


def test_status_fails_for_a_port_chosen_by_the_system(agent: Say) -> None:
    status, _, err = agent("status", "--listen", "127.0.0.1:0")
    assert status == 3
    assert "has port 0" in err


def test_only_events_that_can_still_be_approved_are_accepted(
    agent: Say, tmp_path: Path
) -> None:
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
            "ordered: Reboot WAITS is approved within a second\n",
        )
        assert list(journal.take_orders()) == ["WAITS"]
        for event, word in (("BEGUN", "has started"), ("GIVEN", "is approved")):
            status, _, err = agent("approve", event)
            assert status == 1
            assert f"event {event} {word} already" in err
        assert "has no current event with ID OTHER" in agent("approve", "OTHER")[2]
        assert not journal.take_orders()
    finally:
        journal.close()


@pytest.mark.parametrize(
    ("flag", "word"), [("--observe", "observes only"), ("--dry-run", "is in a dry run")]
)
def test_agent_that_sends_no_approvals_accepts_no_requests(
    agent: Say, tmp_path: Path, flag: str, word: str
) -> None:
    (tmp_path / "state").mkdir()
    journal = SqliteJournal(tmp_path / "state" / "agent.db")
    journal.save(Memory(tasks=(task_of("WAITS"),)), ())
    status, out, err = agent("approve", "WAITS", flag, "true")
    assert (status, out) == (1, "")
    assert f"the agent {word} and sends no approvals, not even on request" in err
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


def test_approve_fails_for_an_event_missing_from_the_journal(
    agent: Say, tmp_path: Path, shown: tuple[str, dict[str, Any]]
) -> None:
    address, document = shown
    document["events"] = [
        {"EventId": "HERE", "removed": None},
        {"EventId": "GONE", "removed": "2026-11-21T10:00:00Z"},
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
        assert "cannot request the approval of event HERE" in err
        assert "POST the approval to the endpoint" in err
    assert "no current event" in agent("approve", "gone", "--listen", address)[2]


def test_running_agent_reports_that_it_only_observes(
    agent: Say, shown: tuple[str, dict[str, Any]]
) -> None:
    address, document = shown
    document["mode"] = "observe"
    status, _, err = agent("approve", "E1", "--listen", address)
    assert status == 1
    assert "the agent observes only" in err


def test_help_describes_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        front.main(["--help"])
    assert ended.value.code == 0
    output = capsys.readouterr().out
    _, _, commands = output.partition("\ncommands:\n")
    listed = [line.split()[0] for line in commands.splitlines()]
    assert listed == ["run", "check", "settings", "try", "status", "approve", "install"]
    assert max(map(len, output.splitlines())) <= 79
    for listed_one in listed:
        assert f"{listed_one}," in output or f",{listed_one}" in output


def test_check_reports_that_the_default_rules_apply(agent: Say, tmp_path: Path) -> None:
    _, told, _ = agent("check")
    assert "valid: agent.toml, 1 rule\n" in told
    (tmp_path / "agent.toml").write_text(
        'endpoint = "http://127.0.0.1:1"\nstate = "state/agent.db"\nlisten = ""\n'
    )
    _, told, _ = agent("check")
    assert "valid: agent.toml, the default rules\n" in told


@pytest.mark.parametrize(
    ("words", "strays"),
    [
        (("check", "foo"), '"foo"'),
        (("run", "foo"), '"foo"'),
        (("run", "--json"), "--json"),
        (("status", "--write"), "--write"),
        (("install", "--vm", "x"), "--vm"),
        (("install", "--poll", "2s", "--log-level", "debug"), "--poll, --log-level"),
        (("approve", "E1", "--at", "now", "--json"), "--json, --at"),
        (("settings", "foo", "--write"), '"foo", --write'),
    ],
)
def test_option_that_a_command_does_not_accept_is_an_error(
    agent: Say, words: tuple[str, ...], strays: str
) -> None:
    status, out, err = agent(*words)
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        f"forewarn: `{words[0]}` does not accept {strays}",
        "  hint: Run it with --help to see what each command accepts.",
    ]


def test_each_error_has_a_separate_line(agent: Say, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('pol = "1s"\nlisn = ""\n')
    status, _, err = agent("check")
    assert status == 2
    assert err.splitlines() == [
        'forewarn: agent.toml:1: pol: there is no such setting (did you mean "poll"?)',
        'forewarn: agent.toml:2: lisn: there is no such setting (did you mean "listen"?)',
        "  hint: See the page 'Settings of the agent'.",
    ]
