"""A real agent, and an endpoint that answers empty bodies, restarts, or changes IDs."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from forewarn.agent.core.model import Stage
from tests.support.agents import DRAIN, AgentProcess, Did
from tests.support.processes import eventually
from tests.support.scripted import Scripted, plain

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.clause("8.1")]

VM = "web_0"
GONE_AFTER = """
[gone_after]
scheduled = "300ms"
started = "600ms"
empty = "3s"
reset = "4s"
"""


class Metadata:
    """A metadata server that says what a test wants, for as long as it wants it."""

    def __init__(self) -> None:
        self.body = b""
        self.incarnation = 0
        self._server = Scripted(self)
        self.url = self._server.url

    def __iter__(self) -> "Metadata":
        return self

    def __next__(self) -> bytes:
        return plain(self.body)

    def show(self, *events: dict[str, object], incarnation: int = 0) -> None:
        """Show a document, with the next incarnation or another one."""
        self.incarnation = incarnation or self.incarnation + 1
        document = {"DocumentIncarnation": self.incarnation, "Events": events}
        self.body = json.dumps(document).encode()

    def be_empty(self) -> None:
        self.body = b""

    def asked(self) -> int:
        """Return how often it was asked for the document."""
        return sum(request.startswith(b"GET") for request in self._server.requests)

    def approved(self) -> list[str]:
        """Return the events that were approved, in their order."""
        posts = [
            request for request in self._server.requests if request.startswith(b"POST")
        ]
        bodies = [json.loads(post.partition(b"\r\n\r\n")[2]) for post in posts]
        return [body["StartRequests"][0]["EventId"] for body in bodies]

    def close(self) -> None:
        self._server.end()


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    with closing(Metadata()) as new_metadata:
        yield new_metadata


@pytest.fixture
def agent(metadata: Metadata, tmp_path: Path) -> Iterator[AgentProcess]:
    agent_process = AgentProcess(
        tmp_path / VM,
        metadata.url,
        f"{DRAIN}{GONE_AFTER}",
        top=f'name = "{VM}"',
        pages=True,
    )
    try:
        yield agent_process
    finally:
        with suppress(OSError):
            agent_process.process.kill()
        agent_process.process.wait()


def event(event_id: str = "E1", *, is_started: bool = False) -> dict[str, object]:
    """Return an event of this VM, as it is on the wire."""
    return {
        "EventId": event_id,
        "EventStatus": "Started" if is_started else "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": [VM],
        "NotBefore": "" if is_started else "Fri, 01 Jan 2100 00:00:00 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


def prepared_and_started(metadata: Metadata, agent: AgentProcess) -> None:
    """Have an event prepared for, approved and started."""
    metadata.show(event())
    eventually(metadata.approved, bool)
    metadata.show(event(is_started=True))
    agent.wait(lambda agent: "started" in agent.told("E1"), "the start")


def test_agent_with_an_empty_endpoint_is_ready_and_polls_normally(
    metadata: Metadata, agent: AgentProcess
) -> None:
    agent.wait_ready()
    agent.wait(lambda agent: agent.sentence("/readyz")[0] == 200, "to be ready")
    before = metadata.asked()
    eventually(metadata.asked, lambda now: now >= before + 10)
    # Without failures in a row there are no pauses as in an outage.
    poll = agent.status()["poll"]
    assert (poll["last"], poll["failures"], poll["detail"]) == ("empty", 0, "")
    checked = agent.command("check").stdout
    assert f"ok   endpoint: {metadata.url} returns status 200 with an" in checked
    assert "without a document or a version" in checked
    assert "0 events" not in checked
    metadata.show(event())
    eventually(metadata.approved, bool)
    assert [run.what for run in agent.did()] == ["begun", "done"]


@pytest.mark.clause("8.8")
def test_agent_recovers_if_only_empty_bodies_follow(
    metadata: Metadata, agent: AgentProcess
) -> None:
    prepared_and_started(metadata, agent)
    metadata.be_empty()
    agent.wait(
        lambda agent: (
            "presence    the endpoint answers with an empty body since"
            in agent.command("status").stdout
        ),
        "a reason why it is still believed",
    )
    agent.wait_stage("E1", Stage.FINISHED)
    phases = [run.phase for run in agent.did("done")]
    assert phases == ["prepare", "recover"]
    assert agent.sentence("/readyz")[0] == 200
    shown = agent.status()["history"]
    [left] = [notification for notification in shown if notification["kind"] == "gone"]
    assert left["detail"] == "the endpoint answered with an empty body for 3 s"


def test_metadata_server_reset_ends_no_event(
    metadata: Metadata, agent: AgentProcess
) -> None:
    prepared_and_started(metadata, agent)
    metadata.show(incarnation=1)
    # More than twice as long as a document with the next number would take.
    agent.wait(lambda agent: doubt_of(agent).startswith("the incarnation was reset"))
    before = metadata.asked()
    eventually(metadata.asked, lambda now: now >= before + 15)
    assert [run.phase for run in agent.did("begun")] == ["prepare"]
    metadata.show(event(is_started=True))
    agent.wait(lambda agent: doubt_of(agent) == "", "no more doubt")
    metadata.show()
    agent.wait_stage("E1", Stage.FINISHED)
    assert [run.phase for run in agent.did("done")] == ["prepare", "recover"]


@pytest.mark.parametrize(
    "spoiled",
    [
        pytest.param({"Resources": ...}, id="no-names"),
        pytest.param({"Resources": []}, id="empty-names"),
        pytest.param({"EventId": ...}, id="no-id"),
    ],
)
def test_unreadable_event_in_the_list_is_not_removed(
    metadata: Metadata, agent: AgentProcess, spoiled: dict[str, object]
) -> None:
    prepared_and_started(metadata, agent)
    whole = {**event(is_started=True), **spoiled}
    odd = {key: value for key, value in whole.items() if value is not ...}
    metadata.show(odd)
    # More than twice as long as a document without it would take.
    before = metadata.asked()
    eventually(metadata.asked, lambda now: now >= before + 20)
    assert [run.phase for run in agent.did("begun")] == ["prepare"]
    task = agent.task("E1")
    assert task is not None
    assert task.is_live
    metadata.show()
    agent.wait_stage("E1", Stage.FINISHED)
    assert [run.phase for run in agent.did("done")] == ["prepare", "recover"]


def test_event_that_returns_after_recovery_is_prepared_again(
    metadata: Metadata, agent: AgentProcess
) -> None:
    prepared_and_started(metadata, agent)
    metadata.show(incarnation=1)
    agent.wait_stage("E1", Stage.FINISHED)
    metadata.show(event(is_started=True))
    agent.wait_did("done prepare drain", "done prepare drain")
    metadata.show()
    agent.wait_did("done recover drain", "done recover drain")
    agent.wait_stage("E1", Stage.FINISHED)


def test_start_under_another_id_is_the_same_event(
    metadata: Metadata, agent: AgentProcess
) -> None:
    metadata.show(event())
    eventually(metadata.approved, bool)
    metadata.show(event("E2", is_started=True))
    agent.wait(lambda agent: "started" in agent.told("E2"), "the start")
    metadata.show()
    agent.wait_stage("E2", Stage.FINISHED)
    assert agent.did("done") == [
        Did("done", "prepare", "drain", "E1"),
        Did("done", "recover", "drain", "E2"),
    ]
    assert metadata.approved() == ["E1"]


def test_agent_with_a_lost_journal_ignores_old_runs(
    metadata: Metadata, agent: AgentProcess
) -> None:
    metadata.show(event())
    eventually(metadata.approved, bool)
    agent.kill()
    for file in agent.directory.glob("agent.db*"):
        if file.is_file():
            file.unlink()
    agent.again()
    eventually(metadata.approved, lambda approved: len(approved) == 2)
    assert [run.phase for run in agent.did("done")] == ["prepare", "prepare"]


def test_reload_with_another_journal_is_refused_while_tasks_are_pending(
    metadata: Metadata, agent: AgentProcess
) -> None:
    """An event would be prepared for twice, and its recovery be forgotten."""
    prepared_and_started(metadata, agent)
    file = agent.directory / "agent.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"agent.db"', '"other.db"'), encoding="utf-8")
    os.kill(agent.process.pid, signal.SIGHUP)
    agent.wait(lambda agent: "state cannot change now: " in agent.log())
    assert "forewarn_agent_settings_fault 1" in agent.sentence("/metrics")[1]
    [problem] = agent.status()["problems"]
    assert "Reload when no work is in progress." in problem
    assert not (agent.directory / "other.db").exists()
    metadata.show()
    agent.wait_stage("E1", Stage.FINISHED)
    os.kill(agent.process.pid, signal.SIGHUP)
    agent.wait(lambda agent: "the settings were reloaded" in agent.log())
    agent.wait(lambda agent: agent.status()["state"].endswith("other.db"))
    assert [run.phase for run in agent.did("done")] == ["prepare", "recover"]


def test_event_is_kept_if_the_vm_name_setting_changes(
    metadata: Metadata, agent: AgentProcess
) -> None:
    prepared_and_started(metadata, agent)
    assert agent.terminate() == 0
    file = agent.directory / "agent.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(f'name = "{VM}"', 'name = "db_5"'), encoding="utf-8")
    before = metadata.asked()
    agent.again()
    # More than twice as long as a document without it would take.
    eventually(metadata.asked, lambda now: now >= before + 20)
    assert doubt_of(agent) == ""
    assert [run.phase for run in agent.did("begun")] == ["prepare"]
    metadata.show()
    agent.wait_stage("E1", Stage.FINISHED)
    assert [run.phase for run in agent.did("done")] == ["prepare", "recover"]


def doubt_of(agent: AgentProcess) -> str:
    """Return why the event is not certain to be there; empty: it is."""
    return agent.status()["events"][0]["doubt"]
