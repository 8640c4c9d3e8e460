"""The receiver `journald` beside a real systemd-journald, with a /run of its own."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.journald import KIND, MESSAGE_IDS
from forewarn.agent.sinks.port import Sink
from forewarn.clock import SystemClock
from tests.support.notes import REBOOT, told_of
from tests.support.processes import eventually

DAEMON = Path("/usr/lib/systemd/systemd-journald")
NEEDED = ("journalctl", "unshare", "mount")

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(
        not DAEMON.exists() or not all(map(shutil.which, NEEDED)),
        reason="there is no Debian package systemd",
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="journald needs root"),
]

# It must not touch the machine's own log, kernel or audit.
CONFIG = "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\nForwardToSyslog=no\n"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """Have a journald whose /run is a directory of the test."""
    (tmp_path / "systemd" / "journald.conf.d").mkdir(parents=True)
    (tmp_path / "systemd" / "journald.conf.d" / "test.conf").write_text(CONFIG)
    script = f"mount --bind {tmp_path} /run && exec {DAEMON}"
    daemon = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    socket = tmp_path / "systemd" / "journal" / "socket"
    try:
        eventually(lambda: socket.is_socket() or daemon.poll() is not None, bool)
        if daemon.poll() is not None:
            assert daemon.stderr is not None
            pytest.skip(f"journald does not start here: {daemon.stderr.read().strip()}")
        yield tmp_path
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=120)


def entries(run: Path, *matches: str) -> list[dict[str, object]]:
    directory = run / "log" / "journal"
    done = subprocess.run(
        [
            *("journalctl", "--no-pager", "-o", "json", "-a", "-D", str(directory)),
            *matches,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]


def sink_of(run: Path) -> Sink:
    path = run / "systemd" / "journal" / "socket"
    more = {"socket": str(path), "identifier": "forewarn-test"}
    return KIND.make(NotifySettings(kind="journald", more=more), SystemClock())


def test_journald_accepts_each_kind(run: Path) -> None:
    sink = sink_of(run)
    assert list(sink.check()) == []
    for number, kind in enumerate(NoteKind, start=1):
        sink.deliver(number, told_of(kind, "first\nsecond = “x”", handler="drain"))
    stored = eventually(
        lambda: entries(run, "-t", "forewarn-test"),
        lambda found: len(found) == len(NoteKind),
    )
    assert [entry["FOREWARN_KIND"] for entry in stored] == [k.value for k in NoteKind]
    assert {entry["FOREWARN_DETAIL"] for entry in stored} == {"first\nsecond = “x”"}
    # A text with a carriage return is shown as bytes.
    assert stored[0]["FOREWARN_EVENT_DESCRIPTION"] == [*REBOOT.description.encode()]
    [withheld] = entries(run, f"MESSAGE_ID={MESSAGE_IDS[NoteKind.WITHHELD]}")
    assert withheld["PRIORITY"] == "3"
    assert len(entries(run, f"FOREWARN_EVENT_ID={REBOOT.event_id}")) == len(NoteKind)


def test_largest_entry_is_accepted(run: Path) -> None:
    sink_of(run).deliver(1, told_of(NoteKind.FAILED, "é\n" * 100_000))
    [entry] = eventually(lambda: entries(run, "-t", "forewarn-test"), bool)
    assert len(str(entry["FOREWARN_DETAIL"]).encode()) == 8 * 1024
