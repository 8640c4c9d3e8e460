"""Containers of a real docker and a real podman, each with storage of its own."""

import contextlib
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from forewarn.agent.integrations.containers.own import ids_by_mounts
from tests.support.handled import Handled
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.unpacked import environment, find, libraries, needing, needs

pytestmark = [pytest.mark.real, pytest.mark.slow]

POLITE = 'trap "exit 0" TERM; while :; do sleep 0.1; done'
STUBBORN = 'trap "" TERM; while :; do sleep 0.1; done'

IMAGE = "localhost/forewarn-test"

RUNTIME = """#!/bin/sh
export LD_LIBRARY_PATH={libraries}
exec unshare --mount -- sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"' \\
  sh {crun} "$@"
"""
"""The runtime knows one form of control groups at a time, so it sees no second one."""

CONF = """
[engine]
conmon_path = ["{conmon}"]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "none"
[engine.runtimes]
crun = ["{runtime}"]
[network]
network_config_dir = "{networks}"
"""

ASIDE = """
mount -t tmpfs none "$ASIDE" || exit 1
for each in etc opt run var/lib; do
  mkdir -p "$ASIDE/$each/upper" "$ASIDE/$each/work"
  mount -t overlay none "/$each" -o \\
    "lowerdir=/$each,upperdir=$ASIDE/$each/upper,workdir=$ASIDE/$each/work" || exit 1
done
exec "$@"
"""
"""In a mount namespace: what an engine leaves outside of its directory is thrown away."""

BOUNDS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
"""Podman wants more than everybody may have."""


class Engine:
    """An engine in a directory of its own, its containers in a control group of its own."""

    program: str
    needed: tuple[str, ...]
    """The programs of which it consists."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.words: list[str] = [self.program]
        self.aside = ["unshare", "--mount", "--", "sh", "-c", ASIDE, "sh"]
        (directory / "aside").mkdir()
        self.environment = environment(
            self.program, HOME=str(directory), ASIDE=str(directory / "aside")
        )
        self._groups = f"forewarn-test-{os.getpid()}"

    def begin(self) -> str:
        """Make the image and try it; return why it cannot be used."""
        image = self.directory / "image.tar"
        with tarfile.open(image, "w") as tar:
            tar.add(find("busybox"), "bin/busybox")
            for name in ("sh", "sleep"):
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        done = self.ask("import", str(image), IMAGE, before=self.aside)
        if done.returncode == 0:
            arguments = ("run", "--rm", "--detach", *self._bounds(), IMAGE)
            done = self.ask(*arguments, "/bin/sh", "-c", ":")
        return "" if done.returncode == 0 else (done.stderr.splitlines() or ["?"])[-1]

    def _bounds(self) -> tuple[str, ...]:
        return (*BOUNDS, "--network=none", f"--cgroup-parent={self._groups}")

    def ask(
        self, *words: str, before: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*before, *self.words, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def run(self, name: str, script: str, *words: str) -> None:
        done = self.ask(
            *("run", "--detach", "--name", name, *self._bounds(), *words),
            *(IMAGE, "/bin/sh", "-c", script),
        )
        assert done.returncode == 0, done.stderr

    def status(self, name: str) -> str:
        done = self.ask("container", "inspect", "--format={{.State.Status}}", name)
        return done.stdout.strip()

    def clear(self) -> None:
        paused = self.ask("ps", "-q", "--filter=status=paused").stdout.split()
        if paused:
            self.ask("unpause", *paused)
        if left := self.ask("ps", "-a", "-q").stdout.split():
            self.ask("rm", "--force", *left)

    def end(self) -> None:
        self.clear()
        top = Path("/sys/fs/cgroup")
        for group in (*top.glob(f"*/{self._groups}"), top / self._groups):
            for path, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(path).rmdir()


class Podman(Engine):
    """Podman, whose settings are all in its directory."""

    program = "podman"
    needed = ("podman", "conmon", "crun")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        runtime = directory / "crun"
        runtime.write_text(
            RUNTIME.format(libraries=":".join(libraries()), crun=find("crun"))
        )
        runtime.chmod(0o755)
        conf = directory / "containers.conf"
        conf.write_text(
            CONF.format(
                conmon=find("conmon"), runtime=runtime, networks=directory / "networks"
            )
        )
        policy = directory / ".config" / "containers" / "policy.json"
        policy.parent.mkdir(parents=True)
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        storage = directory / "storage.conf"
        storage.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{directory / "storage"}"\n'
            f'runroot = "{directory / "run"}"\n'
        )
        self.words = ["podman", "--tmpdir", str(directory / "tmp")]
        self.environment |= {
            "CONTAINERS_CONF": str(conf),
            "CONTAINERS_STORAGE_CONF": str(storage),
        }


class Docker(Engine):
    """A daemon of docker that touches no network, and its command."""

    program = "docker"
    needed = ("docker", "dockerd", "containerd", "runc")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.socket = f"unix://{directory}/docker.sock"
        self.words = ["docker", "--host", self.socket]
        settings = {
            "data-root": str(directory / "data"),
            "exec-root": str(directory / "exec"),
            "pidfile": str(directory / "pid"),
            "hosts": [self.socket],
            "storage-driver": "vfs",
            "bridge": "none",
            **dict.fromkeys(("iptables", "ip6tables", "ip-forward", "ip-masq"), False),
        }
        (directory / "daemon.json").write_text(json.dumps(settings))
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(*self.aside, find("dockerd")),
                    *("--config-file", str(directory / "daemon.json")),
                ],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def begin(self) -> str:
        def is_there() -> bool:
            return self.process.poll() is not None or not self.ask("ps").returncode

        with contextlib.suppress(AssertionError):
            eventually(is_there, bool)
        return super().begin()

    def end(self) -> None:
        super().end()
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # The directory that it would use for containers that name no group.
        for group in Path("/sys/fs/cgroup").glob("*/docker"):
            with contextlib.suppress(OSError):
                group.rmdir()


@pytest.fixture(scope="module", params=[Docker, Podman], ids=["docker", "podman"])
def engine_here(request: pytest.FixtureRequest) -> Iterator[Engine]:
    kind: type[Engine] = request.param
    if why := needs(*kind.needed, "busybox"):
        pytest.skip(why)
    if os.getuid() != 0:
        pytest.skip("only root has the control groups of containers everywhere")
    # The sockets' paths must be short.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        engine = kind(Path(directory))
        try:
            if why := engine.begin():
                pytest.skip(f"{kind.program} cannot run containers here: {why}")
            yield engine
        finally:
            engine.end()


@pytest.fixture
def engine(engine_here: Engine) -> Iterator[Engine]:
    yield engine_here
    engine_here.clear()


def handler(engine: Engine, directory: Path, settings: str) -> Handled:
    quoted = ", ".join(f'"{word}"' for word in engine.words)
    text = f"{settings}\ncommand = [{quoted}]"
    return Handled(engine.program, text, directory, engine.environment)


def test_running_containers_are_stopped_and_restarted(
    engine: Engine, tmp_path: Path
) -> None:
    engine.run("web", POLITE)
    engine.run("db", STUBBORN, "--stop-timeout=1")
    engine.run("idle", ":")
    worker = handler(engine, tmp_path, 'containers = ["web", ["db", "idle"]]')
    assert worker.check() == []
    assert worker.prepare() == "stopped web, killed db"
    assert (engine.status("web"), engine.status("db")) == ("exited", "exited")
    assert worker.prepare() == "none of the containers was running"
    assert worker.recover() == "started db, started web"
    assert (engine.status("web"), engine.status("db")) == ("running", "running")
    assert engine.status("idle") in {"stopped", "exited"}
    assert worker.recover() == "nothing had to be undone"


def test_labeled_containers_are_stopped_and_removed_ones_are_noted(
    engine: Engine, tmp_path: Path
) -> None:
    engine.run("web", POLITE, "--label=tier=web")
    engine.run("job", POLITE, "--label=tier=web", "--rm")
    engine.run("other", POLITE)
    worker = handler(engine, tmp_path, 'labels = "tier=web"')
    assert set(worker.prepare().split(", ")) == {
        *("stopped web", "stopped job", "which is removed now (--rm)")
    }
    assert engine.status("other") == "running"
    if engine.program == "docker":
        # Podman's own helper may find no libraries where packages are only unpacked.
        eventually(lambda: engine.status("job"), lambda status: not status)
    engine.ask("rm", "web")
    assert (
        worker.fails("recover")
        == "web was removed in the meantime and cannot be started"
    )
    assert worker.recover() == "nothing had to be undone"


def test_all_containers_but_one_are_paused_and_unpaused(
    engine: Engine, tmp_path: Path
) -> None:
    engine.run("web", POLITE)
    engine.run("keeper", POLITE)
    settings = 'all = true\nkeep = "keeper"\naction = "pause"'
    worker = handler(engine, tmp_path, settings)
    assert worker.prepare() == "paused web"
    assert (engine.status("web"), engine.status("keeper")) == ("paused", "running")
    assert worker.prepare() == "none of the containers was running"
    assert worker.recover() == "unpaused web"
    assert engine.status("web") == "running"


def test_container_finds_its_id(engine: Engine) -> None:
    script = "while read line; do echo $line; done < /proc/self/mountinfo"
    # The name of the host is all that others see of the network of a host.
    engine.run("forewarn", f"{script}; {POLITE}", "--uts=host")
    done = engine.ask("container", "inspect", "--format={{.Id}}", "forewarn")
    container_id = done.stdout.strip()
    message = eventually(lambda: engine.ask("logs", "forewarn").stdout, bool)
    assert len(container_id) == 64, container_id
    assert set(ids_by_mounts(message)) == {container_id}, message


def test_unknown_container_is_reported(engine: Engine, tmp_path: Path) -> None:
    worker = handler(engine, tmp_path, 'containers = "nobody"')
    assert worker.check() == ["there is no container nobody"]
    assert worker.fails("prepare") == "there is no container nobody"


@needing("docker")
def test_unavailable_daemon_is_waited_for(tmp_path: Path) -> None:
    host = f"unix://{tmp_path}/docker.sock"
    settings = f'all = true\ncommand = ["docker", "--host", "{host}"]'
    own = environment("docker", HOME=str(tmp_path))
    worker = Handled("docker", settings, tmp_path, own)
    # On a busy machine, docker needs a second to report that no daemon answers.
    assert worker.fails("prepare", 3) == (
        "timed out while asking docker: Cannot connect to the Docker "
        f"daemon at {host}. Is the docker daemon running?"
    )
