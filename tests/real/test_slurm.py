"""The handler `slurm` beside a real Slurm: a controller and a node on loopback.

Munge, the controller and the node's daemon run as this test's user, in a directory of
their own. Where the packages are only unpacked, they are taken from there.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import free_port
from tests.support.handled import Handled
from tests.support.processes import eventually
from tests.support.unpacked import TOOLS, environment, find, is_unpacked, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    needing("munged", "slurmctld", "slurmd", "sbatch"),
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0,
        reason="slurmd starts jobs for root alone",
    ),
]

CONFIG = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=CONTROLLER
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=DIRECTORY/munge/socket
PluginDir=PLUGINS
StateSaveLocation=DIRECTORY/state
SlurmdSpoolDir=DIRECTORY/spool
SlurmctldPidFile=DIRECTORY/slurmctld.pid
SlurmdPidFile=DIRECTORY/slurmd.pid
SlurmctldLogFile=DIRECTORY/slurmctld.log
SlurmdLogFile=DIRECTORY/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
JobRequeue=1
ReturnToService=0
KillWait=1
SlurmdTimeout=15
MailProg=/bin/true
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname=HOST Port=NODE CPUs=2
PartitionName=main Nodes=n1 Default=YES State=UP
"""


class Real:
    """A running cluster of one node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # A library that they all need is among the plugins.
        root = TOOLS if is_unpacked("slurmctld") else Path("/")
        [plugins] = root.glob("usr/lib/*/slurm-wlm")
        text = CONFIG
        for name, value in {
            "DIRECTORY": directory,
            "CONTROLLER": free_port(),
            "NODE": free_port(),
            "HOST": os.uname().nodename.partition(".")[0],
            "PLUGINS": plugins,
        }.items():
            text = text.replace(name, str(value))
        for name in ("state", "spool", "munge", "jobs"):
            (directory / name).mkdir(mode=0o700)
        (directory / "slurm.conf").write_text(text)
        key = directory / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.environment = {
            **os.environ,
            **environment("slurmctld", SLURM_CONF=str(directory / "slurm.conf")),
            "SLURMD_NODENAME": "n1",
        }
        if is_unpacked("slurmctld"):
            self.environment["LD_LIBRARY_PATH"] += f":{plugins}"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        munge = self.directory / "munge"
        self.daemon(
            "munged",
            *("--foreground", "--force", f"--key-file={munge / 'key'}"),
            *(f"--socket={munge / 'socket'}", f"--pid-file={munge / 'pid'}"),
            *(f"--seed-file={munge / 'seed'}", "--num-threads=1"),
        )
        eventually((munge / "socket").exists, bool, what="munge")
        self.daemon("slurmctld", "-D")
        self.node()
        self.wait_state("IDLE")

    def daemon(self, program: str, *words: str) -> None:
        with (self.directory / f"{program}.out").open("ab") as log:
            self.daemons[program] = subprocess.Popen(
                [find(program), *words],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def node(self) -> None:
        """Start the node's daemon."""
        self.daemon("slurmd", "-D", "-N", "n1", "-d", find("slurmstepd"))

    def kill(self, program: str) -> None:
        process = self.daemons.pop(program)
        process.terminate()
        process.wait(120)

    def stop(self) -> None:
        for program in reversed(list(self.daemons)):
            self.kill(program)

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.directory / "jobs",
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}\n{self.logs()}"
        return done.stdout

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.directory.glob("slurm*.log"))
        )

    def state(self) -> str:
        command = ("scontrol", "--oneliner", "show", "node", "n1")
        return self.ask(*command).partition(" State=")[2].split(" ")[0]

    def wait_state(self, state: str) -> None:
        eventually(self.state, lambda found: found == state, what=state)

    def job(self, script: str, *words: str) -> str:
        """Submit a batch job to the node; return its id once it runs."""
        wrap = f"--wrap={script}"
        job_id = self.ask("sbatch", "--parsable", "-n1", *words, wrap).strip()
        eventually(lambda: self.job_state(job_id), lambda found: found == "RUNNING")
        return job_id

    def job_state(self, job: str) -> str:
        return self.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    def handler(self, settings: str = "") -> Handled:
        return Handled("slurm", settings, self.directory, self.environment)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Real]:
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="slurm") as name:
        real = Real(Path(name))
        try:
            real.start()
            yield real
        finally:
            real.stop()


@pytest.fixture
def slurm(cluster: Real) -> Iterator[Real]:
    """Have the node as it was at first."""
    yield cluster
    for job in cluster.ask("squeue", "-h", "-o", "%i").split():
        cluster.ask("scancel", job)
    if cluster.state() != "IDLE":
        cluster.ask("scontrol", "update", "nodename=n1", "state=resume")
        eventually(cluster.state, lambda found: found == "IDLE", what="IDLE again")
    shutil.rmtree(cluster.directory / "memos", ignore_errors=True)


def test_drain_waits_for_jobs(slurm: Real) -> None:
    job = slurm.job("sleep 8")
    handler = slurm.handler()
    assert handler.check() == []
    message = handler.fails("prepare", 3.0)
    assert f"waiting for 1 job, {job} (root), on n1" in message
    assert handler.prepare() == "n1 is drained, and no job is left"
    assert slurm.state() == "IDLE+DRAIN"
    assert handler.recover() == "n1 accepts jobs again"
    assert slurm.state() == "IDLE"


def test_jobs_are_requeued_if_allowed(slurm: Real) -> None:
    may = slurm.job("sleep 60", "--requeue")
    must_not = slurm.job("sleep 60", "--no-requeue")
    message = slurm.handler('jobs = "requeue"').fails("prepare", 4.0)
    assert (
        f"waiting for 1 job, {must_not} (root), on n1; {must_not} could not" in message
    )
    assert slurm.job_state(may) == "PENDING"
    assert slurm.job_state(must_not) == "RUNNING"


def test_suspended_jobs_and_arrays_are_seen(slurm: Real) -> None:
    job = slurm.job("sleep 60")
    slurm.ask("scontrol", "suspend", job)
    slurm.ask("sbatch", "-n1", "--array=3", "--wrap=sleep 60")
    eventually(lambda: slurm.ask("squeue", "-h", "-t", "R", "-o", "%i"), bool)
    message = slurm.handler().fails("prepare", 3.0)
    assert f"{job} (root)" in message
    assert "_3 (root)" in message


def test_drain_by_an_operator_is_kept(slurm: Real) -> None:
    command = ("scontrol", "update", "nodename=n1")
    slurm.ask(*command, "state=drain", "reason=bad disk")
    handler = slurm.handler()
    assert handler.prepare() == "n1 was already IDLE+DRAIN: bad disk; no job is left"
    assert handler.recover() == "n1 was not drained by forewarn"
    slurm.ask(*command, "state=resume")
    handler.prepare()
    slurm.ask(*command, "state=drain", "reason=bad disk")
    message = handler.recover()
    assert message.startswith("n1 stays IDLE+DRAIN")
    assert message.endswith(": bad disk")


def test_the_reason_is_kept_by_slurm(slurm: Real) -> None:
    handler = slurm.handler()
    handler.prepare()
    handler.memo.unlink()
    assert handler.recover() == "n1 accepts jobs again"


def test_a_node_that_went_down_returns(slurm: Real) -> None:
    """As after a reboot: its daemon ends, Slurm sets it DOWN, and it comes again."""
    handler = slurm.handler()
    handler.prepare()
    slurm.kill("slurmd")
    command = ("scontrol", "update", "nodename=n1", "state=down")
    slurm.ask(*command, "reason=Node unexpectedly rebooted")
    assert slurm.state().startswith("DOWN")
    slurm.node()
    assert handler.recover() == "n1 accepts jobs again"
    assert slurm.state() == "IDLE"


def test_controller_outage_times_out_and_is_retried(slurm: Real) -> None:
    handler = slurm.handler()
    slurm.kill("slurmctld")
    message = handler.fails("prepare", 3.0)
    assert message.startswith("timed out while asking Slurm about node n1")
    slurm.daemon("slurmctld", "-D")
    assert handler.prepare() == "n1 is drained, and no job is left"
    assert handler.recover() == "n1 accepts jobs again"


def test_unknown_node_is_reported(slurm: Real) -> None:
    problem: Any = slurm.handler('node = "n9"').fails("prepare")
    assert problem.startswith("Slurm has no node n9: set `node` to its name")
