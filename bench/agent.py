"""The agent's resources and reaction times, next to programs that people use instead."""

import json
import os
import random
import shutil
import statistics
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from bench import machine, watchers
from bench.endpoint import Endpoint, event
from bench.report import Report, Table, percentile, rounded
from bench.service import PATIENCE_SECONDS, direct_get, eventually
from bench.watchers import AGENT_FILE, AGENTS, Ground, Watcher
from forewarn.agent.core.model import Memory, Note, NoteKind, Stage, Task
from forewarn.agent.journal.sqlite import SqliteJournal
from forewarn.instants import SECOND
from forewarn.protocol.decoder import decode

RSS_BAR_MIB = 20.0
OTHER_RSS_BAR_MIB = 24.0
"""The limit on a Python that is not Debian's."""

TLS_RSS_BAR_MIB = 30.0

GROWTH_BAR_MIB = 0.1
"""Allowed growth while idle: one or two memory pages touched for the first time."""

CPU_BAR_PERCENT = 0.15
LATENCY_BAR_MS = 50.0
LEFT_BAR_SECONDS = 24.0
START_BAR_MS = 150.0
JOURNAL_START_BAR_MS = 250.0
STATUS_BAR_MS = 100.0

SETTLE_SECONDS = 5.0
"""Pause after the first event before the memory is measured."""

REACTION_PAUSE = 0.1
"""Poll interval for the reaction times: shorter than usual, since only the time after a
response counts."""

PREEMPT_SECONDS = 30.0
FAILED_POLLS = 2
MARGIN_SECONDS = 2.0
"""The default time that the agent keeps free before NotBefore."""

EVENTS = 10_000
LINES_PER_EVENT = 5
KEPT_EVENTS = 200
"""Ended events in the agent's journal, which it loads at the start."""

STATUS_ROUNDS = 20


def measure(
    report: Report, directory: Path, *, seconds: float, runs: int, starts: int
) -> None:
    """Measure the idle agent for some seconds, its reactions and its starts."""
    ground = watchers.prepare(directory / "agent")
    if ground.python != watchers.SYSTEM_PYTHON:
        report.note(f"the agents run on {ground.python}: the machine's is too old")
    _measure_idle(report, ground, seconds=seconds)
    _measure_tls(report, ground)
    _measure_reactions(report, ground, runs=runs)
    _measure_preempts(report, ground, runs=max(1, starts // 4))
    _measure_starts(report, ground, starts=starts)


# Idle


def _measure_idle(report: Report, ground: Ground, *, seconds: float) -> None:
    print(f"\nWatchers that poll once a second, idle for {seconds:.0f} s")
    table = Table(
        f"A watcher, idle for {seconds:.0f} s",
        ("watcher", "RSS MiB", "growth MiB", "CPU % of a core"),
    )
    found: dict[str, tuple[float, float, float]] = {}
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                watchers.watching(
                    name, ground, ground.directory / f"idle-{number}", pause=1
                )
            )
            for number, name in enumerate(watchers.names(report.note))
        ]
        for agent in running:
            _handle_one(agent)
        time.sleep(SETTLE_SECONDS)
        before = {agent.name: _needed(agent) for agent in running}
        time.sleep(seconds)
        for agent in running:
            memory, spent = _needed(agent)
            memory_before, spent_before = before[agent.name]
            share = (spent - spent_before) / seconds * 100
            found[agent.name] = memory, memory - memory_before, share
    for name, row in found.items():
        table.rows.append((name, *map(rounded, row)))
    report.show(table)
    is_system = ground.python == watchers.SYSTEM_PYTHON
    bar = RSS_BAR_MIB if is_system else OTHER_RSS_BAR_MIB
    for name in AGENTS:
        memory, growth, share = found[name]
        report.judge(f"{name}, idle: RSS", memory, bar, "MiB")
        report.judge(f"{name}, idle: growth", growth, GROWTH_BAR_MIB, "MiB")
        report.judge(f"{name}, idle: CPU", share, CPU_BAR_PERCENT, "%")


def _measure_tls(report: Report, ground: Ground) -> None:
    if not shutil.which("openssl"):
        report.note("TLS was not measured: openssl is not installed")
        return
    directory = ground.directory / "tls"
    with watchers.watching(
        AGENT_FILE, ground, directory, pause=1, is_secure=True
    ) as watcher:
        _handle_one(watcher)
        time.sleep(SETTLE_SECONDS)
        memory, _ = _needed(watcher)
    report.judge(f"{AGENT_FILE} over TLS: RSS", memory, TLS_RSS_BAR_MIB, "MiB")


def _handle_one(watcher: Watcher) -> None:
    """Let it handle one event, and query its status once."""
    endpoint = watcher.endpoint
    _asked(watcher)
    shown = event(1, "Reboot", seconds=900)
    endpoint.show(shown)
    eventually(lambda: shown["EventId"] in endpoint.approved, what="an approval")
    endpoint.show()
    if watcher.name in AGENTS:
        for page in ("status", "metrics", "healthz"):
            direct_get(f"http://127.0.0.1:{watcher.port}/{page}")


def _asked(watcher: Watcher) -> None:
    """Wait until it has polled."""
    eventually(lambda: watcher.endpoint.asked > 0, what=watcher.name)


def _needed(watcher: Watcher) -> tuple[float, float]:
    """Return the memory of a process, and the time that it and its children took."""
    stat = Path(f"/proc/{watcher.process.pid}/stat").read_text("utf-8")
    times = stat.rpartition(")")[2].split()[11:15]
    spent = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return machine.rss_mib(watcher.process.pid), spent


# Reactions


def _measure_reactions(report: Report, ground: Ground, *, runs: int) -> None:
    print(f"\nReactions to an event, {runs} of each")
    table = Table(
        "A watcher's reactions",
        ("watcher", "to the handler, median ms", "p99 ms", "to the approval", "p99 ms"),
    )
    found: dict[str, tuple[list[float], list[float]]] = {}
    for number, name in enumerate(watchers.names(report.note)):
        directory = ground.directory / f"react-{number}"
        with watchers.watching(
            name, ground, directory, pause=REACTION_PAUSE
        ) as watcher:
            found[name] = _reactions(watcher, runs=runs)
        cells = [
            rounded(value)
            for times in found[name]
            for value in (statistics.median(times), percentile(times, 0.99))
        ]
        table.rows.append((name, *cells))
    report.show(table)
    for what, times in zip(
        ("event served → handler started", "handler finished → approval sent"),
        found[AGENT_FILE],
        strict=True,
    ):
        report.judge(
            f"agent: {what}, p99", percentile(times, 0.99), LATENCY_BAR_MS, "ms"
        )


def _reactions(watcher: Watcher, *, runs: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds from answer to handler, and from handler to approval."""
    endpoint = watcher.endpoint
    _asked(watcher)
    shown: list[str] = []
    for number in range(runs):
        # Vary the moment between two polls.
        time.sleep(random.random() * REACTION_PAUSE)
        # Change NotBefore each time, since the same value would mean the same maintenance.
        one = event(number, "Reboot", seconds=900 + number)
        shown.append(one["EventId"])
        endpoint.show(one)
        eventually(lambda: shown[-1] in endpoint.approved, what="an approval")
    handled = watcher.handled()
    assert len(handled) == runs, f"{watcher.name}: {len(handled)} of {runs}"
    begun = [
        (at - endpoint.served[event_id]) * 1000
        for event_id, at in zip(shown, handled, strict=True)
    ]
    approved = [
        (endpoint.approved[event_id] - at) * 1000
        for event_id, at in zip(shown, handled, strict=True)
    ]
    return begun, approved


def _measure_preempts(report: Report, ground: Ground, *, runs: int) -> None:
    left: list[float] = []
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                watchers.watching(
                    AGENT_FILE, ground, ground.directory / f"preempt-{number}", pause=1
                )
            )
            for number in range(runs)
        ]
        for agent in running:
            _asked(agent)
        ends: list[float] = []
        for agent in running:
            # Vary the moment between two polls.
            time.sleep(random.random())
            agent.endpoint.to_fail = FAILED_POLLS
            # NotBefore is in whole seconds.
            ends.append(int(time.time() + PREEMPT_SECONDS))
            agent.endpoint.show(event(1, "Preempt", seconds=PREEMPT_SECONDS))
        for agent, end in zip(running, ends, strict=True):
            eventually(lambda one=agent: bool(one.handled()), what="a handler")
            left.append(end - MARGIN_SECONDS - agent.handled()[0])
    report.judge(
        f"agent: a Preempt of 30 s, {FAILED_POLLS} polls failed: left to handlers",
        min(left),
        LEFT_BAR_SECONDS,
        "s",
        at_most=False,
    )


# Starts


def _measure_starts(report: Report, ground: Ground, *, starts: int) -> None:
    times = {name: _starts(ground, name, starts=starts) for name in AGENTS}
    file = ground.directory / "long.db"
    _write_long_journal(file)
    long = _starts(ground, AGENT_FILE, starts=starts, state=file)
    status = _status_times(ground, file)
    table = Table("An agent's start, to its first poll", ("what", "median ms", "p99"))
    for name, found in (
        *times.items(),
        (f"{AGENT_FILE}, {EVENTS:,} events in its journal", long),
        ("/status with that journal", status),
    ):
        cells = rounded(statistics.median(found)), rounded(percentile(found, 0.99))
        table.rows.append((name, *cells))
    report.show(table)
    report.judge(
        f"{AGENT_FILE}: start, median",
        statistics.median(times[AGENT_FILE]),
        START_BAR_MS,
        "ms",
    )
    what = f"agent with a journal of {EVENTS:,} events"
    report.judge(
        f"{what}: start, median", statistics.median(long), JOURNAL_START_BAR_MS, "ms"
    )
    report.judge(f"{what}: status, slowest", max(status), STATUS_BAR_MS, "ms")


def _starts(
    ground: Ground, name: str, *, starts: int, state: Path | None = None
) -> list[float]:
    """Return the milliseconds from the order to start until the first poll came."""
    endpoint = Endpoint()
    found: list[float] = []
    for number in range(starts):
        file = state or ground.directory / f"start-{number}.db"
        process, began = _start(ground, name, endpoint, file)
        eventually(lambda: endpoint.asked > 0, what=name)
        found.append((endpoint.first_asked - began) * 1000)
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        if state is None:
            file.unlink()
    endpoint.close()
    return found


def _start(
    ground: Ground, name: str, endpoint: Endpoint, state: Path, listen: str = ""
) -> "tuple[subprocess.Popen[bytes], float]":
    endpoint.forget_asked()
    words = [f"--endpoint={endpoint.url}", f"--state={state}", f"--listen={listen}"]
    began = time.time()
    words = [*ground.command(name), *words]
    return watchers.start(words, ground, ground.directory / "log"), began


def _status_times(ground: Ground, state: Path) -> list[float]:
    """Return the milliseconds of an agent's status response."""
    endpoint, port = Endpoint(), watchers.free_port()
    found: list[float] = []
    process, _ = _start(ground, AGENT_FILE, endpoint, state, f"127.0.0.1:{port}")
    eventually(lambda: endpoint.asked > 0, what=AGENT_FILE)
    for _ in range(STATUS_ROUNDS):
        began = time.perf_counter()
        direct_get(f"http://127.0.0.1:{port}/status")
        found.append((time.perf_counter() - began) * 1000)
    process.terminate()
    process.wait(PATIENCE_SECONDS)
    endpoint.close()
    return found


def _write_long_journal(file: Path) -> None:
    """Write the journal of an agent that has handled many events."""
    now = round(time.time()) * SECOND
    kinds = (NoteKind.SEEN, NoteKind.PREPARING, NoteKind.PREPARED)
    kinds += (NoteKind.APPROVED, NoteKind.RECOVERED)
    assert len(kinds) == LINES_PER_EVENT
    journal = SqliteJournal(file)
    journal.load()
    tasks: list[Task] = []
    notes: list[Note] = []
    for number in range(EVENTS):
        body = json.dumps({"Events": [event(number, "Reboot", seconds=0)]})
        [notice] = decode(body.encode()).notices
        at = now - (EVENTS - number) * SECOND
        task = Task(
            event_id=notice.event_id,
            notice=notice,
            mine=True,
            stage=Stage.FINISHED,
            seen=at,
            over=at,
        )
        tasks.append(task)
        notes += [
            Note(at=at, kind=kind, event_id=notice.event_id, notice=notice)
            for kind in kinds
        ]
    journal.save(Memory(tasks=tuple(tasks[-KEPT_EVENTS:]), name="web_0"), notes)
    journal.close()
