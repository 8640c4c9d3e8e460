"""Agents whose approvals wait for a lock, as real processes, and who held it when."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from forewarn.agent.core.model import NoteKind
from forewarn.agent.core.permits import LockState
from forewarn.agent.journal import sqlite
from forewarn.instants import SECOND, Micros
from tests.support.agents import CONFIG, DRAIN, AgentProcess, Ground
from tests.support.forked import Forked, Program
from tests.support.lock_benches import Bench
from tests.support.pythons import THIS, Python

PAUSE = "300ms"
"""Time for which an agent keeps the lock after the recovery, unless a story sets
another."""

_IMPATIENT = """
import os, signal, sys
from forewarn.agent import unload
from forewarn.agent.core import locking
from forewarn.instants import MILLISECOND, SECOND
locking.RETRY_FIRST = 50 * MILLISECOND
locking.RETRY_MAX = locking.RELEASE_RETRY_MAX = 200 * MILLISECOND
locking.LATE_FOR = SECOND
unload.shed = lambda: None
"""
"""An agent that requests the lock often, since a test waits for it."""

_DYING = """
what, when = os.environ["DIES_AT"].split()
def die(at, now):
    if (at, now) != (what, when) or not os.path.exists("armed"):
        return
    with open("died", "x"):
        os.unlink("armed")
    os.kill(os.getpid(), signal.SIGKILL)

from forewarn.agent.journal.sqlite import SqliteJournal
from forewarn.agent.locks.port import Locker
from forewarn.agent.outbound import Sender
save, answer, approve, last = SqliteJournal.save, Locker._answer, Sender.ask, ""
def saving(journal, memory, notes=()):
    global last
    state = memory.lock.state.value
    is_new, last = state != last, state
    if is_new:
        die(state, "before")
    save(journal, memory, notes)
    if is_new:
        die(state, "after")
def answering(locker, target, asked):
    die(type(asked).__name__, "before")
    said = answer(locker, target, asked)
    die(type(asked).__name__, "after")
    die(said.answer.value, "answered")
    return said
def approving(sender, send):
    die("approve", "before")
    approve(sender, send)
SqliteJournal.save, Locker._answer = saving, answering
Sender.ask = approving
"""
"""One that is killed by itself where `DIES_AT` says, once, after the file `armed`."""

_RUN = """
from forewarn.agent.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def lock_table(bench: Bench, group: str, holders: int, **more: object) -> str:
    """Return `[lock]` of agent.toml."""
    lock_settings = bench.settings(group, holders)
    keys: dict[str, object] = {
        "kind": lock_settings.kind,
        "group": group,
        "timeout": "5s",
    }
    keys["pause"] = PAUSE
    for key in ("url", "path", "namespace", "kubeconfig"):
        if text := getattr(lock_settings, key):
            keys[key] = text
    if lock_settings.kind != "fleetlock":
        keys["holders"] = holders
    lines = [
        f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
        for key, value in {**keys, **more}.items()
    ]
    return "\n".join(["[lock]", *lines, ""])


class Locked(AgentProcess):
    """An agent that waits for a lock; it may die at a place."""

    def __init__(
        self,
        directory: Path,
        endpoint: str,
        settings: str,
        *,
        dies: str = "",
        under: Sequence[str] = (),
        python: Python = THIS,
    ) -> None:
        self._dies = dies
        self._under = under
        super().__init__(directory, endpoint, settings, python=python)

    def _started(self) -> Program:
        text = f"{_IMPATIENT}{_DYING if self._dies else ''}{_RUN}"
        environ = {"PATH": "/usr/bin:/bin", "DIES_AT": self._dies}
        if self._python == THIS and not self._under:
            log = self.directory / "log"
            return Forked(
                CONFIG, cwd=self.directory, log=log, program=text, environ=environ
            )
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                [*self._under, *self._python.script(text), *CONFIG],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
            )

    def wait_lock(self, state: LockState) -> None:
        """Return when its journal has the lock in a state."""
        self.wait(lambda agent: agent.memory().lock.state is state, state.value)

    def wait_trouble(self) -> str:
        """Return what the lock's keeper has done wrong, when it has."""
        self.wait(lambda agent: agent.memory().lock.trouble, "trouble with the lock")
        return self.memory().lock.trouble

    def wait_refused(self) -> str:
        """Return the reported reason why it does not have the lock."""
        self.wait(lambda agent: agent.memory().lock.refusal, "a refusal")
        return self.memory().lock.refusal

    def approved_at(self) -> Micros:
        """Return when its approval was answered."""
        notes = sqlite.read_notes(self.directory / "agent.db")
        [at] = [note.at for note in notes if note.kind is NoteKind.APPROVED]
        return at

    def recovered_at(self) -> Micros:
        """Return when its last handler had done its work."""
        return (self.directory / "did").stat().st_mtime_ns // 1_000


def locked(
    place: Ground,
    vm: str,
    bench: Bench,
    *,
    group: str = "web",
    holders: int = 1,
    dies: str = "",
    under: Sequence[str] = (),
    **more: object,
) -> Locked:
    """Start an agent with a lock in a VM."""
    agent = Locked(
        place.directory / vm,
        place.world.url(vm),
        lock_table(bench, group, holders, **more) + DRAIN,
        dies=dies,
        under=under,
        python=place.python,
    )
    place.agents.append(agent)
    return agent


def changes(bench: Bench, group: str = "web") -> list[tuple[Micros, frozenset[str]]]:
    """Return when its holders became others, and who it was from then on."""
    held_by: list[tuple[Micros, frozenset[str]]] = []
    for at, holders in bench.past(group):
        if holders != (held_by[-1][1] if held_by else frozenset[str]()):
            held_by.append((at, holders))
    return held_by


def spells(
    bench: Bench, holder: str, group: str = "web"
) -> list[tuple[Micros, Micros]]:
    """Return from when to when one held the lock."""
    intervals: list[tuple[Micros, Micros]] = []
    since: Micros | None = None
    for at, holders in changes(bench, group):
        if holder in holders and since is None:
            since = at
        elif holder not in holders and since is not None:
            intervals.append((since, at))
            since = None
    assert since is None, f"{holder} still holds the lock"
    return intervals


def judge_held(bench: Bench, agent: Locked, holder: str, group: str = "web") -> None:
    """Judge that one held the lock in one piece, from its approval to its recovery."""
    [(begin, end)] = spells(bench, holder, group)
    description = (
        f"{holder} held it from {begin} to {end}: {agent.did()}\n{agent.log()}"
    )
    # A file system's clock is a tick of the kernel behind.
    tick = SECOND // 50
    assert begin - tick <= agent.approved_at() <= end + tick, description
    assert agent.recovered_at() <= end + tick, description
