"""`agent check` on this machine: the journal, the addresses, other agents."""

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.agent.checking import Finding, findings
from forewarn.agent.journal.lock import AgentLock
from forewarn.agent.settings import load_settings
from forewarn.agent.settings_model import Settings
from forewarn.agent.wire.endpoint import Endpoint
from forewarn.clock import SystemClock
from tests.support.agents import free_port
from tests.support.residents import Resident, hasten
from tests.support.scripted import plain, scripted


def settings(directory: Path, **flags: str) -> Settings:
    all_flags = {
        "endpoint": f"http://127.0.0.1:{free_port()}",
        "state": f"{directory}/agent.db",
        "listen": f"127.0.0.1:{free_port()}",
        "name": "web_0",
        **flags,
    }
    return load_settings(environ={}, flags=all_flags)


def told(found: Settings, *what: str) -> list[Finding]:
    """Return what is found of some things."""
    endpoint = Endpoint(lambda: (found.watch.endpoint,), clock=SystemClock())
    try:
        all_of_it = list(findings(found, endpoint=endpoint, checks=()))
    finally:
        endpoint.close()
    return [finding for finding in all_of_it if finding.subject in what]


def no_state(path: Path) -> None:
    del path


def text(path: Path) -> None:
    path.write_text("[Unit]\nDescription=somebody's\n")


def directory(path: Path) -> None:
    path.mkdir()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def foreign(path: Path) -> None:
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE theirs (x)")
    file.close()


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (no_state, ""),
        (text, "nor an agent journal"),
        (directory, "is not a regular file"),
        (fifo, "is not a regular file"),
        (foreign, "is a database of another program"),
    ],
)
def test_journal_check_changes_no_file(
    tmp_path: Path, made: Callable[[Path], None], sentence: str
) -> None:
    path = tmp_path / "agent.db"
    made(path)
    before = path.read_bytes() if path.is_file() else None
    names = [path.name for path in tmp_path.iterdir()]
    [found] = told(settings(tmp_path), "state")
    assert found.is_well is not bool(sentence)
    assert sentence in found.text
    assert [path.name for path in tmp_path.iterdir()] == names
    assert (path.read_bytes() if path.is_file() else None) == before


def test_unusable_journal_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for state, sentence in (
        (f"{tmp_path}/new/agent.db", f"{tmp_path}/new will be created"),
        (f"{tmp_path}/a/b/agent.db", f"the directory {tmp_path}/a/b does not exist"),
        (f"{tmp_path}/file/agent.db", f"{tmp_path}/file is not a directory"),
    ):
        [found] = told(settings(tmp_path, state=state), "state")
        assert sentence in found.text
        assert found.is_well is ("will be" in sentence)


@pytest.mark.parametrize("is_there", [True, False])
def test_full_disk_is_reported_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    place = tmp_path / "state"
    if is_there:
        place.mkdir()

    def refuse(_number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    [found] = told(settings(place), "state")
    full = place if is_there else tmp_path
    assert found == Finding(
        is_well=False,
        subject="state",
        text=f"{full} accepts no file: No space left on device; the agent would "
        "work without a journal",
    )
    monkeypatch.undo()
    [found] = told(settings(place), "state")
    assert found.is_well
    assert list(full.iterdir()) == []


def test_running_agent_passes_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)
    loaded = settings(tmp_path)
    agent = Resident(loaded, tmp_path)
    try:
        this_process = f"process {os.getpid()}"
        by_hand = told(loaded, "agent", "listen", "state")
        assert [(finding.is_well, finding.subject) for finding in by_hand] == [
            (True, "state"),
            (True, "agent"),
            (True, "listen"),
        ]
        assert by_hand[1].text == f"running: {this_process}"
        assert by_hand[2].text.endswith("is in use by the running agent")
        # Another that would act there, and one that has its address.
        other = settings(
            tmp_path, state=f"{tmp_path}/b.db", endpoint=loaded.watch.endpoint
        )
        if sys.platform == "linux":
            [beside] = told(other, "agent")
            assert not beside.is_well
            assert this_process in beside.text
        [taken] = told(
            settings(
                tmp_path, state=f"{tmp_path}/b.db", listen=loaded.watch.listen or ""
            ),
            "listen",
        )
        assert not taken.is_well
        assert (
            f"by another agent: {this_process} with the journal '{tmp_path}/agent.db'"
            in (taken.text)
        )
    finally:
        agent.end()
    assert told(loaded, "agent") == []
    [free] = told(loaded, "listen")
    assert free.text.endswith("is free")


def test_observing_agent_is_identified_by_its_status_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)
    loaded = settings(tmp_path, observe="true")
    agent = Resident(loaded, tmp_path)
    try:
        assert [finding.is_well for finding in told(loaded, "agent", "listen")] == [
            True,
            True,
        ]
    finally:
        agent.end()


def test_address_used_by_another_program_fails_the_check(tmp_path: Path) -> None:
    with scripted(plain(b"", status="404 Not Found")) as other:
        loaded = settings(tmp_path, listen=other.url.removeprefix("http://"))
        # An agent has run once, so its process is written next to the journal.
        AgentLock(loaded.watch.state).release()
        [listen] = told(loaded, "listen")
    assert not listen.is_well
    assert listen.text.endswith(
        "Address already in use by another program; set listen to another port"
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"s3cret\n", "can be read"),
        (b"", "is empty"),
        (b"\xff\xfe\n", "it is not UTF-8"),
        (None, "No such file"),
    ],
)
def test_secret_check_passes_only_for_a_usable_secret(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
        file.chmod(0o600)
    toml = tmp_path / "agent.toml"
    toml.write_text(
        '[[handler]]\nname = "lb"\nkind = "webhook"\n'
        f'prepare = "http://127.0.0.1:1/"\nsecret_file = "{file}"\n'
    )
    loaded = load_settings(
        file=str(toml),
        environ={},
        flags={"state": f"{tmp_path}/agent.db", "endpoint": "http://127.0.0.1:1"},
    )
    [secret] = told(loaded, "secret_file")
    assert sentence in secret.text
    assert secret.is_well is (content == b"s3cret\n")
