"""Units of a real systemd: the manager of a user, in directories of its own.

Only root can have one in addition to the machine's own: it needs a directory `/run`
that says that systemd is there, and control groups of its own.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.handlers.run_context import context_for
from forewarn.clock import SystemClock
from tests.support.handled import Handled
from tests.support.processes import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

SYSTEMD = next(
    (
        path
        for path in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
        if os.access(path, os.X_OK)
    ),
    "",
)

ANSWER_SECONDS = 5.0
"""Maximum time until a manager that has just been started answers."""

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "forewarn.service"


def restarts_of_the_service() -> str:
    """Return a unit with the restarts of the service, whose program ends at once.

    Its pauses are shorter, since only their number matters.
    """
    rules = re.findall(
        r"^(?:StartLimit|Restart)\w*=.*$", UNIT.read_text(), re.MULTILINE
    )
    limits = [rule for rule in rules if rule.startswith("StartLimit")]
    restarts = [rule for rule in rules if not rule.startswith("StartLimit")]
    return "\n".join(
        [
            *("[Unit]", *limits),
            *("[Service]", *restarts, "RestartSec=10ms", "ExecStart=/bin/false", ""),
        ]
    )


UNITS = {
    "web.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "follower.service": (
        "[Unit]\nRequires=web.service\nAfter=web.service\n"
        "[Service]\nExecStart=/bin/sleep infinity\n"
    ),
    "idle.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "app@.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "stubborn.service": (
        "[Service]\nTimeoutStopSec=60\n"
        "ExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'\n"
    ),
    "save.service": "[Service]\nType=oneshot\nExecStart=/bin/sleep 0.3\n",
    "broken.service": "[Service]\nType=oneshot\nExecStart=/bin/false\n",
    "needy.service": (
        "[Unit]\nRequires=broken.service\nAfter=broken.service\n"
        "[Service]\nType=oneshot\nExecStart=/bin/true\n"
    ),
    "unmet.service": (
        "[Unit]\nConditionPathExists=/nowhere\n"
        "[Service]\nType=oneshot\nExecStart=/bin/true\n"
    ),
    "shy.service": (
        "[Unit]\nRefuseManualStop=yes\n[Service]\nExecStart=/bin/sleep infinity\n"
    ),
    "loud.service": (
        "[Service]\nType=simple\nExecStart=/bin/sleep infinity\nExecReload=/bin/false\n"
    ),
    "woken.socket": "[Socket]\nListenStream=%t/woken\n",
    "woken.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "drain.target": "[Unit]\nDescription=Sign off\n",
    "ends.service": restarts_of_the_service(),
}


START = """
for procs in "$@"; do echo $$ >"$procs" || exit 1; done
for each in /sys/fs/cgroup/*/; do
  case $each in */systemd/ | */unified/) ;; *) umount "$each" 2>/dev/null ;; esac
done
mount -t tmpfs none /run && mkdir -p /run/systemd/system || exit 1
exec "$SYSTEMD" --user --unit=basic.target --log-target=console
"""
"""In a mount namespace: systemd believes to be the machine's, is in groups of its own,
and sees nothing of the controllers of others."""


class Groups:
    """Control groups of its own, or systemd would move everybody else's processes."""

    def __init__(self) -> None:
        top = Path("/sys/fs/cgroup")
        places = (top, top / "unified", top / "systemd")
        self.directories: list[Path] = []
        for place in places:
            directory = place / f"forewarn-test-{os.getpid()}"
            if (place / "cgroup.procs").exists() and os.access(place, os.W_OK):
                with contextlib.suppress(OSError):
                    directory.mkdir()
                    self.directories.append(directory)

    @property
    def procs(self) -> list[str]:
        return [str(directory / "cgroup.procs") for directory in self.directories]

    def remove(self) -> None:
        for directory in self.directories:
            for path, _, _ in os.walk(directory, topdown=False):
                with contextlib.suppress(OSError):
                    Path(path).rmdir()


class Manager:
    """A manager of a user's units."""

    def __init__(self, directory: Path) -> None:
        units = directory / "config" / "systemd" / "user"
        units.mkdir(parents=True)
        for name, text in UNITS.items():
            (units / name).write_text(text)
        (units / "masked.service").symlink_to("/dev/null")
        runtime = directory / "run"
        runtime.mkdir(mode=0o700)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "XDG_RUNTIME_DIR": str(runtime),
            "XDG_CONFIG_HOME": str(directory / "config"),
        }
        self.groups = Groups()
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("unshare", "--mount", "--", "sh", "-c", START, "sh"),
                    *self.groups.procs,
                ],
                env={**self.environment, "SYSTEMD": SYSTEMD},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def systemctl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["systemctl", "--user", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def answers(self) -> bool:
        context = context_for(ANSWER_SECONDS, SystemClock())
        while self.process.poll() is None and context.sleep(0.05):
            message = self.systemctl("is-active", "basic.target").stdout
            if message.strip() == "active":
                return True
        return False

    def active(self, name: str) -> str:
        return self.systemctl("is-active", name).stdout.strip()

    def end(self) -> None:
        if self.process.poll() is None:
            self.systemctl("kill", "--signal=SIGKILL", "stubborn.service")
            self.systemctl("exit")
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.groups.remove()


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    if not SYSTEMD or not shutil.which("systemctl"):
        pytest.skip("there is no systemd: install the package systemd")
    if os.getuid() != 0:
        pytest.skip("only root can have a second systemd beside the machine's")
    manager = Manager(tmp_path_factory.mktemp("systemd"))
    try:
        if not manager.answers():
            pytest.skip(
                "a second systemd cannot run here, as without mounts or cgroups"
            )
        yield manager
    finally:
        manager.end()


def handler(manager: Manager, directory: Path, settings: str) -> Handled:
    text = f'{settings}\nmanager = "user"'
    return Handled("systemd", text, directory, manager.environment)


def test_running_units_are_stopped_and_restarted(
    manager: Manager, tmp_path: Path
) -> None:
    manager.systemctl("start", "follower.service", "app@1.service", "app@2.service")
    worker = handler(
        manager,
        tmp_path,
        'start = "drain.target"\nstop = ["web", ["app@*", "idle.service"]]',
    )
    assert worker.check() == []
    assert set(worker.prepare().split(", ")) == {
        "started drain.target",
        *("stopped web.service", "stopped follower.service"),
        *("stopped app@1.service", "stopped app@2.service"),
    }
    for name in ("web.service", "follower.service", "app@1.service"):
        assert manager.active(name) == "inactive"
    assert manager.active("drain.target") == "active"
    assert worker.prepare() == "nothing had to be done"
    assert "started web.service, started follower.service" in worker.recover()
    for name in ("web.service", "follower.service", "app@1.service", "app@2.service"):
        assert manager.active(name) == "active"
    assert manager.active("idle.service") == "inactive"
    assert manager.active("drain.target") == "inactive"
    assert worker.recover() == "nothing had to be undone"


def test_unit_that_does_not_stop_is_reported_or_killed(
    manager: Manager, tmp_path: Path
) -> None:
    manager.systemctl("start", "stubborn.service")
    worker = handler(manager, tmp_path, 'stop = "stubborn.service"')
    assert worker.fails("prepare", 0.5) == (
        "timed out while waiting for stubborn.service "
        "(deactivating, stop-sigterm) to stop"
    )
    worker = handler(manager, tmp_path, 'stop = "stubborn"\nkill_after = "200ms"')
    # It was on its way down already, so it is the memory that knows it as ours.
    assert worker.prepare() == "killed stubborn.service"
    assert manager.active("stubborn.service") == "failed"
    assert worker.recover() == "started stubborn.service"
    assert worker.prepare() == "killed stubborn.service"
    manager.systemctl("stop", "stubborn.service")


def test_oneshot_unit_is_waited_for(manager: Manager, tmp_path: Path) -> None:
    worker = handler(manager, tmp_path, 'start = ["save.service", "unmet.service"]')
    assert worker.prepare() == "started save.service, started unmet.service"
    assert manager.active("save.service") == "inactive"
    assert worker.recover() == "nothing had to be undone"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            'start = "broken"',
            "broken.service (failed: exit-code, status 1) could not be started",
        ),
        (
            'start = "needy"',
            "needy.service was not started: A dependency job for needy.service failed.",
        ),
        ('start = "masked"', "masked.service is masked"),
        ('stop = "nobody"', "there is no unit nobody.service"),
        ('stop = "app@.service"', "app@.service is neither a valid"),
        ('stop = "shy"', "Operation refused, unit shy.service may be requested by"),
        ('reload = "loud"', "loud.service could not be reloaded: exit-code"),
    ],
)
def test_systemd_refusals_are_reported(
    manager: Manager, tmp_path: Path, settings: str, said: str
) -> None:
    manager.systemctl("start", "shy.service", "loud.service")
    assert said in handler(manager, tmp_path, settings).fails("prepare")


def test_check_reports_units_that_would_fail(manager: Manager, tmp_path: Path) -> None:
    manager.systemctl("start", "shy.service", "woken.socket", "woken.service")
    worker = handler(
        manager,
        tmp_path,
        'stop = ["shy", "woken", "nobody"]\nstart = "masked"\nreload = "app@1"',
    )
    manager.systemctl("start", "app@1.service")
    assert worker.check() == [
        "there is no unit nobody.service",
        "shy.service cannot be stopped manually (RefuseManualStop=)",
        "masked.service is masked",
        "app@1.service cannot be reloaded (ExecReload=)",
        ("woken.socket can restart woken.service while it is stopped: list it first"),
    ]


def test_unavailable_manager_is_waited_for(manager: Manager, tmp_path: Path) -> None:
    environment = {**manager.environment, "XDG_RUNTIME_DIR": str(tmp_path)}
    worker = Handled("systemd", 'stop = "web"\nmanager = "user"', tmp_path, environment)
    assert worker.fails("prepare", 0.5).startswith(
        "timed out while asking systemd about web: Failed to connect to bus"
    )


MANY_ENDS = 25
"""Ends within seconds: more than the limit that systemd has by default, or that the unit
had."""


def test_service_that_ends_again_and_again_is_always_started_again(
    manager: Manager,
) -> None:
    manager.systemctl("start", "--no-block", "ends.service")

    def restarts() -> int:
        assert manager.active("ends.service") != "failed"
        shown = manager.systemctl("show", "--value", "-p", "NRestarts", "ends.service")
        return int(shown.stdout)

    eventually(restarts, lambda count: count >= MANY_ENDS, what="restarts")
    manager.systemctl("stop", "ends.service")
