"""`--watch` on a terminal, through the restart of a service that was killed."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.system.test_operating import Start, forewarn, start

pytestmark = [pytest.mark.system, pytest.mark.slow]

__all__ = ["start"]


class Session:
    """A command on a separate terminal."""

    def __init__(self, *words: str, columns: int, lines: int) -> None:
        self._master, slave = pty.openpty()
        self.resize(columns, lines)
        environ = {
            name: text
            for name, text in os.environ.items()
            if name not in {"COLUMNS", "LINES"}
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "forewarn", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environ, "TERM": "xterm", "NO_COLOR": "1"},
            start_new_session=True,
        )
        os.close(slave)
        self._got = bytearray()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        # The last process has closed the terminal.
        with suppress(OSError):
            while got := os.read(self._master, 65_536):
                self._got += got

    @property
    def text(self) -> str:
        """The output to the terminal."""
        return self._got.decode("utf-8", "replace")

    @property
    def picture(self) -> str:
        """The last complete screen."""
        return self.text.rpartition("\x1b[H")[2]

    def resize(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def until(self, text: str) -> None:
        eventually(lambda: self.picture, lambda picture: text in picture, what=text)

    def end(self) -> tuple[int, str]:
        """Press Ctrl-C; return the status, and what is on the screen afterwards."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(PATIENCE_SECONDS)
        self._reading.join(1)
        return status, self.text.rpartition("\x1b[?1049l")[2]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[list[Session]]:
    """Return a list of sessions that end with the test."""
    sessions: list[Session] = []
    yield sessions
    for session in sessions:
        session.close()


def test_watch_display_resumes_when_the_service_is_back(
    start: Start, watching: list[Session], tmp_path: Path
) -> None:
    here = tmp_path / "here"
    api = f"unix:{here}/api"
    service = start(admin_listen=api).wait_ready()
    status, output = forewarn(
        here, "maintain", "h1", "h2", "--impact=freeze", "--url", api
    )
    assert status == 0, output
    session = Session("operations", "--watch", "--url", api, columns=120, lines=20)
    watching.append(session)
    session.until("1 Planned, 1 Announced; last change ")
    session.resize(80, 20)
    session.until("    not before: ")
    service.kill()
    session.until("trying again")
    start(admin_listen=api).wait_ready()
    session.until("the service was away until ")
    rollout = output.splitlines()[0].split()[-1]
    assert forewarn(here, "cancel", rollout, "--url", api)[0] == 0
    session.until("2 Cancelled; last change ")
    status, left = session.end()
    assert status == 0
    assert "2 Cancelled; last change " in left
    assert left.count("op-") == 2
