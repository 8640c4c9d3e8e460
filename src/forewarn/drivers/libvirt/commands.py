"""The settings of the driver for libvirt, and the programs that the driver runs.

Each VM of a call has its own process, so a call continues while the service is down, and
a host that hangs delays only its own calls.
"""

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from forewarn.drivers.placeholders import literal_json
from forewarn.drivers.programs import Programs, Words, environment
from forewarn.instants import SECOND, Micros
from forewarn.problems import quoted
from forewarn.protocol.host_steps import NO_STEPS, StepRules
from forewarn.protocol.operations import Action
from forewarn.texts import readable

RUN = str(Path(__file__).absolute().with_name("run.py"))

MIGRATIONS = ("pre-copy", "auto-converge", "post-copy")
PAUSES = ("save", "suspend")

GRACE: Micros = 15 * SECOND
"""Time between SIGTERM and SIGKILL: a frozen guest is resumed, a migration called off."""

CHECK_SECONDS = 30.0
"""Maximum seconds to find out whether a Python can run workers: it starts in much less,
unless the machine is overloaded."""

HOST_SHARE = 0.8
"""Share of the time that a single libvirt has. They are asked at the same time."""

HOST_SECONDS_MIN = 0.5
"""Minimum seconds that a libvirt has: a local one answers in less."""

_URI = re.compile(r"[a-z][a-z0-9+]*:[!-~]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The settings of the driver that its workers need, as `worker.orders.Settings`."""

    uri: str
    uris: Mapping[str, str] = field(default_factory=dict[str, str])
    peer_uri: str = ""
    data_uri: str = ""
    migration: str = "pre-copy"
    freeze: float = 5.0
    shutdown: float = 60.0
    pause: str = "save"
    connect: float = 20.0

    @property
    def text(self) -> str:
        """Return the settings as one argument of a program, without placeholders."""
        return literal_json(asdict(self))


def uri_problem(uri: str) -> str:
    """Return the problem of the URI of hosts; empty if there is none."""
    if not _URI.fullmatch(uri):
        return "must be a URI such as qemu+ssh://root@{host}/system"
    for name in re.findall(r"\{([^{}]*)\}", uri):
        if name != "host":
            return f"unknown placeholder {{{name}}}: use {{host}}"
    return ""


def exception_problem(text: str) -> str:
    """Return the problem of the URI of one host; empty if there is none."""
    host, separator, uri = text.partition("=")
    if not host or not separator or uri_problem(uri):
        return (
            f'"{text}" must be a host and its URI, such as h9=qemu+tls://h9.lan/system'
        )
    return ""


def host_uri_problem(uri: str) -> str:
    """Return the problem of the URI of one host's libvirt; empty if there is none."""
    if "{" in uri or uri_problem(uri):
        return f"{quoted(uri)} is not a URI such as qemu+ssh://root@h1/system"
    return ""


def module_problem(python: str) -> str:
    """Return why a Python cannot run workers; empty: it can. It starts the Python."""
    try:
        done = subprocess.run(  # noqa: S603 - configured
            [python, "-I", RUN, "", "check"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(),
            cwd="/",
            timeout=CHECK_SECONDS,
            check=False,
        )
    except OSError as error:
        return f"{python} cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{python} did not start within {CHECK_SECONDS:g} s"
    if not done.returncode:
        return ""
    output = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    lines = output.splitlines() or [f"{python} ended with status {done.returncode}"]
    return readable(lines[-1])


def actions_of(*, can_reimage: bool) -> frozenset[Action]:
    """Return the actions that the settings allow."""
    never = {Action.NONE} if can_reimage else {Action.NONE, Action.REIMAGE}
    return frozenset(Action) - never


def worker_words(python: str) -> Words:
    """Return the command of a worker, without the settings."""
    return (python, "-I", RUN)


def discovery_words(python: str, uris: Iterable[str], *, seconds: float) -> Words:
    """Return the command of the worker that prints the inventory of libvirts.

    `seconds` are those of the whole command: a host that hangs is named before.
    """
    host_seconds = max(seconds * HOST_SHARE, HOST_SECONDS_MIN)
    return (*worker_words(python), "", "discover", f"{host_seconds:g}", *uris)


def programs_of(
    python: str,
    connections: Connections,
    *,
    can_reimage: bool = False,
    steps: Mapping[str, Words] | None = None,
    step_rules: StepRules = NO_STEPS,
    timeout: Micros | None = None,
    parallel: int = 4,
) -> Programs:
    """Return the programs for VMs, and the operator's programs for host steps."""
    command = (*worker_words(python), connections.text)
    about = ("{action}", "{vm}", "{host}", "{to_host}", "{mark}")
    actions = actions_of(can_reimage=can_reimage)
    return Programs(
        actions=dict.fromkeys(actions, (*command, "work")),
        abortable=frozenset({Action.LIVE_MIGRATE}),
        timeouts=dict.fromkeys(actions, timeout),
        steps=steps or {},
        step_rules=step_rules,
        probe=(*command, "probe", *about),
        parallel=parallel,
        grace=GRACE,
    )
