"""Settings that name special files: the agent neither waits for them nor reads on."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent import lastgood
from forewarn.agent.handlers.run_context import DeliveryError, HandlerError, context_for
from forewarn.agent.handlers.secret import (
    SECRET_BYTES_MAX,
    SecretError,
    read_secret,
    read_token,
)
from forewarn.agent.integrations.base import Memo
from forewarn.agent.integrations.kubernetes.access import find
from forewarn.agent.journal.lock import AgentLock, had_journal, last_holder
from forewarn.agent.journal.port import JournalRefusedError
from forewarn.agent.locks.directory import MARKER
from forewarn.agent.locks.port import LockError, make_lock
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import HandlerSettings, LockSettings
from forewarn.agent.sinks.file import FileSink
from forewarn.agent.wire.http import Client, HttpError, parse_url
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from forewarn.settings import files
from tests.support.notes import told_of
from tests.support.processes import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="it has no FIFOs")

KINDS = {
    "FIFO": "a FIFO",
    "zero": "a device",
    "directory": "a directory",
    "socket": "a socket",
}


@pytest.fixture(params=KINDS)
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Yield special files with their names in messages."""
    kind = request.param
    place = tmp_path / kind
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "FIFO":
            os.mkfifo(place)
        elif kind == "zero":
            place.symlink_to("/dev/zero")
        elif kind == "directory":
            place.mkdir()
        else:
            listener.bind(str(place))
        yield str(place), KINDS[kind]


def soon(do: Callable[[], object]) -> Exception | None:
    """Return what something raises; fail where it does not end."""
    raised: list[Exception | None] = []

    def run() -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - it is what is looked at
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "it waits without limit"
    return raised[0]


@pytest.mark.parametrize("read", [read_token, read_secret])
def test_secret_is_read_only_from_a_regular_file(
    odd: tuple[str, str], read: Callable[[str], str]
) -> None:
    place, kind = odd
    error = soon(lambda: read(place))
    assert isinstance(error, SecretError)
    assert place in error.message
    assert f"it is {kind}, and must be a regular file or a link to one" in error.message


def test_settings_are_read_only_from_a_regular_file(odd: tuple[str, str]) -> None:
    place, kind = odd
    error = soon(lambda: load_settings(file=place, environ={}, flags={}))
    assert isinstance(error, AgentSettingsError)
    assert f"{place}: cannot be read: it is {kind}, and must be" in error.message


def test_special_files_do_not_block_the_lookup_of_the_last_good_copy(
    odd: tuple[str, str], tmp_path: Path
) -> None:
    place, _ = odd
    environ = {"STATE_DIRECTORY": str(tmp_path)}
    assert soon(lambda: lastgood.find(place, {}, {})) is None
    os.mkfifo(lastgood.place_of(place, environ, state=""))
    assert soon(lambda: lastgood.find(place, environ, {})) is None
    assert lastgood.find(place, environ, {}) == ""


@pytest.mark.parametrize("key", ["ca_file", "cert_file", "key_file"])
def test_certificates_are_read_only_from_regular_files(
    odd: tuple[str, str], key: str, tmp_path: Path
) -> None:
    """OpenSSL would wait; and what stands in a file it reads by its name alone."""
    place, kind = odd
    others = tmp_path / "cert.pem"
    others.write_text("")
    named: Any = {"cert_file": str(others), key: place}
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = parse_url(f"https://127.0.0.1:{server.getsockname()[1]}/")
        client = Client(url, clock=SystemClock(), **named)
        error = soon(lambda: client.get("/", timeout=SECOND))
    assert isinstance(error, HttpError)
    assert f"it is {kind}, and must be a regular file" in error.message
    assert place in error.message


def test_service_account_must_consist_of_regular_files(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "192.0.2.1"}
    authorities, token = tmp_path / "ca.crt", tmp_path / "token"
    os.mkfifo(authorities)
    error = soon(lambda: find("", environ, directory=str(tmp_path)))
    assert isinstance(error, HandlerError)
    assert f"{authorities}: it is a FIFO" in error.message
    authorities.unlink()
    authorities.write_text("")
    token.symlink_to("/dev/zero")
    access = find("", environ, directory=str(tmp_path))
    assert access.token is not None
    error = soon(access.token)
    assert isinstance(error, HandlerError)
    assert f"{token} cannot be read: it is a device" in error.message
    error = soon(lambda: find(str(token), environ))
    assert isinstance(error, HandlerError)


def test_journal_lock_must_be_a_regular_file(
    odd: tuple[str, str], tmp_path: Path
) -> None:
    place, kind = odd
    journal = tmp_path / "agent.db"
    (tmp_path / "agent.db.lock").symlink_to(place)
    error = soon(lambda: AgentLock(journal))
    assert isinstance(error, JournalRefusedError)
    assert f"it is {kind}" in error.message
    assert soon(lambda: had_journal(journal)) is None
    assert last_holder(journal) == 0


def test_state_in_a_lock_directory_must_be_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    settings = LockSettings(kind="directory", path=str(tmp_path), group="web")
    lock = make_lock(settings, {}, SystemClock())
    os.mkfifo(tmp_path / "web.000000000017")
    error = soon(lambda: lock.take("web_0", context_for(5, SystemClock())))
    assert isinstance(error, LockError)
    assert "it is a FIFO" in error.message


def test_notifications_do_not_wait_for_a_fifo_reader(tmp_path: Path) -> None:
    place = tmp_path / "events"
    os.mkfifo(place)
    error = soon(lambda: FileSink(str(place)).deliver(1, told_of()))
    assert isinstance(error, DeliveryError)
    assert error.may_pass
    assert str(place) in error.message


def test_memo_must_be_a_regular_file(tmp_path: Path) -> None:
    memo = Memo(str(tmp_path), HandlerSettings(name="drain", kind="nomad"))
    os.mkfifo(tmp_path / "drain.nomad.json")
    error = soon(memo.read)
    assert isinstance(error, HandlerError)
    assert "it is a FIFO" in error.message


def test_fifo_that_replaces_a_file_before_opening_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may belong to another file by the time it is opened."""
    place, file = tmp_path / "token", tmp_path / "file"
    file.write_text("t")
    os.mkfifo(place)
    was = file.stat()
    monkeypatch.setattr(files.os, "stat", lambda _: was)
    for do in (
        lambda: files.begin_of(str(place), 10),
        lambda: files.claimed(str(place), 0o600),
    ):
        assert isinstance(soon(do), files.UnreadError)


def test_link_to_a_file_is_read(tmp_path: Path) -> None:
    """Kubernetes has its secrets so."""
    (tmp_path / "data").write_text("token-of-alerts\n")
    (tmp_path / "token").symlink_to("data")
    assert read_token(str(tmp_path / "token")) == "token-of-alerts"


def test_only_the_first_line_is_read_and_a_long_line_is_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    file.write_text("x" * SECRET_BYTES_MAX + "\n" + "y" * SECRET_BYTES_MAX)
    assert read_token(str(file)) == "x" * SECRET_BYTES_MAX
    file.write_text("x" * SECRET_BYTES_MAX + "x\n")
    with pytest.raises(SecretError, match=f"more than {SECRET_BYTES_MAX} bytes"):
        read_token(str(file))


def test_oversized_certificate_file_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    with file.open("wb") as opened:
        opened.truncate(files.CERTIFICATE_BYTES_MAX + 1)
    with pytest.raises(files.UnreadError, match="it has more than"):
        files.refuse_unreadable(str(file))
