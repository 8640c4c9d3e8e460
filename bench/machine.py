"""The machine: its description, its cores, and the resources of a process."""

import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

CORES = sorted(os.sched_getaffinity(0))
LOAD_CORE = CORES[0]
SERVER_CORE = CORES[-1]

FLUSHES = 200
"""Number of disk flushes for a median."""

FLUSH_BYTES = 4096


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """Return a command that runs only on one core, if the system supports it."""
    if shutil.which("taskset") is None:
        return [*command]
    return ["taskset", "-c", str(core), *command]


def pin_this_process() -> None:
    """Keep the load generator off the server's core."""
    os.sched_setaffinity(0, {LOAD_CORE})


def describe() -> str:
    """Return a line about the machine and its load."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{model}, {len(CORES)} cores, {pages >> 30} GiB, Linux "
        f"{platform.release()}, Python {platform.python_version()}; "
        f"load average at the start {load}"
    )


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and of its running children so far."""
    found = cpu_seconds(pid)
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text("ascii").split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += family_cpu_seconds(int(child))
    return found


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def flush_milliseconds(directory: Path) -> float:
    """Return the median time of an append and fdatasync in `directory`."""
    file = directory / "flush"
    times: list[float] = []
    block = b"\0" * FLUSH_BYTES
    with file.open("wb", buffering=0) as opened:
        for _ in range(FLUSHES):
            began = time.perf_counter()
            opened.write(block)
            os.fdatasync(opened.fileno())
            times.append(time.perf_counter() - began)
    file.unlink()
    return statistics.median(times) * 1000


@contextmanager
def memory_directory() -> Generator[Path]:
    """Yield a directory in memory if Linux has one, else on the disk."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="forewarn-bench-", dir=place) as name:
        yield Path(name)


def version_of(*command: str) -> str:
    """Return the first line of a program's version output."""
    done = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    lines = done.stdout.splitlines()
    return lines[0] if lines else command[0]
