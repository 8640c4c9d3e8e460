"""One program as a process group, which may outlive the agent and be found again.

A few lines of shell wrap the program. They record their process ID, run the program and
record its exit status, even if the agent has ended. The whole group gets SIGTERM, which
the shell survives, and later SIGKILL.

Windows has neither this shell nor process groups. There the program is started
directly, a restarted agent cannot find it, and it is killed with its children.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

from forewarn.agent.handlers.records import Claim, RunDirectory, start_of, text_in
from forewarn.agent.handlers.run_context import RunContext

_WRAPPER = r"""
directory=$1; shift
trap : TERM INT HUP
{ read -r stat </proc/$$/stat; } 2>/dev/null || stat=
set -C
{ : >"$directory/claim"; } 2>/dev/null || exit 125
set +C
{ printf '%s\n%s\n' "$$" "$stat" >>"$directory/claim"; } 2>/dev/null
"$@"
status=$?
{ printf '%s\n' "$status" >"$directory/status"; } 2>/dev/null
exit "$status"
"""
"""A trap with a command is not inherited, so the program gets its signals. On a full
disk the program still runs; only its process ID and exit status are not recorded for a
later agent."""

SHELL = "/bin/sh"

LOOK_SECONDS = 0.1
"""Maximum seconds between two checks of the output's size. In that time, a program that
suddenly prints a lot can write some tens of megabytes to a fast disk."""

LOOK_SOON_SECONDS = 0.01
"""Seconds between two checks at the start, and after the output was cut. They double
after each check that finds a short output. So a verbose program is checked often."""

POLL_SECONDS = 0.01
"""Seconds between two checks for the end, on systems without pidfd."""

GIVE_UP_SECONDS = 5.0
"""Maximum wait after a kill, in seconds. A process that takes longer hangs in the
kernel."""

CLAIM_SECONDS = 1.0
"""Seconds for a wrapper to write its claim; it needs microseconds."""

_HAS_GROUPS = os.name == "posix"


class Process:
    """A running program: a child of this agent or of an earlier one."""

    def __init__(
        self,
        directory: RunDirectory,
        claim: Claim,
        *,
        child: subprocess.Popen[bytes] | None,
    ) -> None:
        """Watch a process that is alive, was alive a moment ago, or is our child."""
        self._directory = directory
        self._claim = claim
        self._child = child
        self._handle = _handle(claim.pid)
        self._look = LOOK_SOON_SECONDS
        self.was_killed = False
        """Whether the program had to be killed after SIGTERM."""

    def status(self) -> int | None:
        """Return the exit status of a program that has ended; None: unknown."""
        noted = self._directory.status()
        if noted is not None or self._child is None:
            return noted
        code = self._child.returncode
        # The status of a killed wrapper is not that of its program.
        return code if code is not None and code >= 0 else None

    def wait(self, context: RunContext) -> bool:
        """Wait for the end, and end the program at its deadline.

        Returns whether the program ended without being stopped.
        """
        try:
            if self._ends_by_itself(context):
                self._reap()
                return True
            self._signal_group(signal.SIGTERM)
            self.was_killed = not self._wait(context.grace_remaining)
            # This includes children that the program has left in its group.
            self._kill_group()
            if self._wait(context.timer(GIVE_UP_SECONDS)):
                self._reap()
            return False
        finally:
            if self._handle is not None:
                os.close(self._handle)

    def _ends_by_itself(self, context: RunContext) -> bool:
        if self._handle is None:
            return self._wait(context.remaining)
        bell, end = socket.socketpair()

        def ring() -> None:
            with contextlib.suppress(OSError):
                end.send(b"!")

        with bell, end, context.on_stop(ring):
            return self._wait(context.remaining, bell)

    def _wait(self, left: Callable[[], float], *bells: socket.socket) -> bool:
        """Wait while time is left; return whether the program has ended."""
        while not self._has_ended():
            if (seconds := left()) <= 0:
                return False
            was_long = self._directory.trim()
            longer = min(2 * self._look, LOOK_SECONDS)
            self._look = LOOK_SOON_SECONDS if was_long else longer
            self._sleep(min(seconds, self._look), bells)
        self._directory.trim()
        return True

    def _sleep(self, seconds: float, bells: Sequence[socket.socket]) -> None:
        """Wait for the time, for a bell, or for the end of the program."""
        if self._handle is None:
            threading.Event().wait(min(seconds, POLL_SECONDS))
        else:
            select.select([self._handle, *bells], [], [], seconds)

    def _has_ended(self) -> bool:
        if self._handle is not None:
            ready, _, _ = select.select([self._handle], [], [], 0)
            return bool(ready)
        if self._child is not None:
            # Do not reap it: its process ID must stay reserved until the group is dead.
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT if _HAS_GROUPS else 0
            if not _HAS_GROUPS:  # pragma: no cover
                return self._child.poll() is not None
            return os.waitid(os.P_PID, self._claim.pid, options) is not None
        return not is_alive(self._claim)

    def _reap(self) -> None:
        if self._child is not None:
            self._child.wait()

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(OSError):
            if _HAS_GROUPS:
                os.killpg(self._claim.pid, number)
            elif self._child is not None:  # pragma: no cover
                self._child.send_signal(vars(signal)["CTRL_BREAK_EVENT"])

    def _kill_group(self) -> None:
        if _HAS_GROUPS:
            self._signal_group(signal.SIGKILL)
            return
        with contextlib.suppress(OSError):  # pragma: no cover
            command = ["taskkill", "/F", "/T", "/PID", str(self._claim.pid)]
            subprocess.run(command, check=False, capture_output=True)  # noqa: S603


def start(
    run: RunDirectory,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    directory: str = "",
) -> Process:
    """Start a program in a directory that exists; raises OSError."""
    wrapper = [SHELL, "-c", _WRAPPER, "forewarn-run", run.path]
    flags = 0 if _HAS_GROUPS else vars(subprocess)["CREATE_NEW_PROCESS_GROUP"]
    with (
        open(run.file("event.json"), "rb") as event,
        open(run.file("output"), "ab") as output,
    ):
        child = subprocess.Popen(  # noqa: S603 - what the settings name
            [*wrapper, *command] if _HAS_GROUPS else list(command),
            stdin=event,
            stdout=output,
            stderr=output,
            cwd=directory or ("/" if _HAS_GROUPS else None),
            env=dict(environment),
            start_new_session=_HAS_GROUPS,
            creationflags=flags,
        )
    return Process(run, Claim(pid=child.pid, began=""), child=child)


def find(directory: RunDirectory, context: RunContext) -> Process | None:
    """Return the program of an earlier agent's run; None: it is not running."""
    left = context.timer(CLAIM_SECONDS)
    while directory.claimed() is None and left() > 0:
        threading.Event().wait(POLL_SECONDS)
    return running(directory)


def running(directory: RunDirectory) -> Process | None:
    """Return the program of a run now; None: it is not running."""
    claim = directory.claimed()
    if claim is None or not claim.began or not is_alive(claim):
        return None
    return Process(directory, claim, child=None)


def is_alive(claim: Claim) -> bool:
    """Return whether the process exists, and is not another with the same ID."""
    stat = text_in(f"/proc/{claim.pid}/stat")
    is_dead = stat.rpartition(")")[2].split()[:1] in ([], ["Z"], ["X"])
    return start_of(stat) == claim.began and not is_dead


def _handle(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends, if available."""
    make = getattr(os, "pidfd_open", None)
    if make is None:  # pragma: no cover
        return None
    try:
        return make(pid)
    except OSError:
        return None
