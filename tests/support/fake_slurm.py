"""A fake of Slurm for one node: executables `scontrol` and `squeue` that share a file.

They accept the commands that the handler uses, with the outputs and exit statuses of
Slurm 22.05; `tests/real/test_slurm.py` runs the same test against Slurm. Durations are
numbers of polls, so that a test needs no clock. This file is also the executables, and
imports very little because tests start them often.
"""

import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

AWAY = "Unable to contact slurm controller (connect failure)"
DENIED = "Access/permission denied"


class FakeSlurm:
    """A cluster of one node, `n1`; `environment` has its programs first in PATH."""

    def __init__(self, directory: "Path") -> None:
        self.path = directory / "bin"
        self.path.mkdir()
        self.file = directory / "slurm.state"
        self._write(
            {
                "base": "IDLE",
                "flags": [],
                "reason": "",
                "jobs": {},
                "calls": [],
                "away": 0,
                "denied": False,
                "next": [],
            }
        )
        # The programs do not import the package.
        from tests.support.compiled import compiled  # noqa: PLC0415

        script = compiled(__file__)
        for program in ("scontrol", "squeue"):
            file = self.path / program
            command = f'"{sys.executable}" -SEI "{script}" "{self.file}" {program}'
            file.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            file.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.path}:/usr/bin:/bin", "SLURMD_NODENAME": "n1"}

    def read(self) -> "dict[str, Any]":
        return _load(str(self.file))

    def _write(self, state: "dict[str, Any]") -> None:
        _save(str(self.file), state)

    def set(self, **more: "Any") -> None:
        """Set what an operator, or Slurm itself, would: base, flags, reason, away …"""
        self._write({**self.read(), **more})

    def job(self, job_id: str, user: str = "alice", **more: "Any") -> None:
        """Have a job on the node.

        `looks`: after how many it ends, absent: never; `requeue`: why it is refused;
        `state`: RUNNING, or what else it is in.
        """
        state = self.read()
        state["jobs"][job_id] = {"user": user, "state": "RUNNING", **more}
        self._write(state)

    def then(self, *changes: "dict[str, Any]") -> None:
        """Have something happen before each of the next looks at the node."""
        self.set(next=list(changes))

    def orders(self) -> list[str]:
        """Return the calls, without status queries."""
        looks = ("scontrol --all", "squeue")
        return [call for call in self.read()["calls"] if not call.startswith(looks)]

    @property
    def shown(self) -> str:
        return _shown(self.read())


def _shown(state: "dict[str, Any]") -> str:
    """Return the node's states as `scontrol` writes them."""
    jobs = [job["state"] for job in state["jobs"].values()]
    base = state["base"]
    if base == "IDLE" and any(job != "COMPLETING" for job in jobs):
        base = "MIXED"
    completing = ["COMPLETING"] if "COMPLETING" in jobs else []
    return "+".join([base, *completing, *state["flags"]])


def _load(file: str) -> "dict[str, Any]":
    with open(file, "rb") as opened:  # noqa: PTH123 - see above
        return marshal.load(opened)


def _save(file: str, state: "dict[str, Any]") -> None:
    with open(f"{file}.new", "wb") as opened:  # noqa: PTH123
        marshal.dump(state, opened)
    posix.rename(f"{file}.new", file)


def _say(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


class _Program:
    """One call of one of the programs."""

    def __init__(self, file: str, arguments: list[str]) -> None:
        self.file = file
        self.state: dict[str, Any] = _load(file)
        self.words = arguments
        self.state["calls"].append(" ".join(arguments))

    def run(self) -> int:
        try:
            if self.state["away"]:
                self.state["away"] -= 1
                return _say(f"slurm_load_node error: {AWAY}")
            match self.words:
                case ["scontrol", "--all", "--oneliner", "show", "node", name]:
                    return self._node(name)
                case ["scontrol", "show", "config"]:
                    return self._config()
                case ["scontrol", "update", name, *changes]:
                    assert name == "nodename=n1"
                    return self._update(
                        dict(change.split("=", 1) for change in changes)
                    )
                case ["scontrol", "requeue", job]:
                    return self._requeue(job)
                case [
                    "squeue",
                    "--all",
                    "--array",
                    "--noheader",
                    "--nodelist=n1",
                    *rest,
                ]:
                    assert rest[-1] == "--format=%i|%u|%T"
                    return self._jobs()
                case _:
                    return _say(f"invalid option {self.words}")
        finally:
            _save(self.file, self.state)

    def _node(self, name: str) -> int:
        if name != "n1":
            _print(f"Node {name} not found")
            return 1
        if self.state["next"]:
            self.state.update(self.state["next"].pop(0))
        reason = self.state["reason"]
        why = f"Reason={reason} [root@2026-11-21T22:00:00] " if reason else ""
        _print(
            "NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUTot=2 CPULoad=0.10 "
            "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) "
            "NodeAddr=n1 NodeHostName=n1 Version=22.05.8 "
            "OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC Debian  RealMemory=1 AllocMem=0 "
            f"FreeMem=100 Sockets=2 Boards=1 State={_shown(self.state)} "
            "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
            "Partitions=main  BootTime=2026-11-20T10:00:00 CfgTRES=cpu=2,mem=1M "
            f"AllocTRES=  CapWatts=n/a {why}"
        )
        return 0

    def _config(self) -> int:
        _print("Configuration data as of 2026-11-21T22:00:00")
        _print("SlurmUser               = slurm(64030)")
        return 0

    def _update(self, changes: dict[str, str]) -> int:
        if self.state["denied"]:
            return _say(f"slurm_update error: {DENIED}")
        flags = [flag for flag in self.state["flags"] if flag != "DRAIN"]
        match changes["state"]:
            case "drain":
                self.state.update(flags=[*flags, "DRAIN"], reason=changes["reason"])
            case "undrain":
                self.state.update(flags=flags)
            case _:
                assert changes["state"] == "resume"
                self.state.update(base="IDLE", flags=flags, reason="")
        return 0

    def _requeue(self, job_id: str) -> int:
        job = self.state["jobs"][job_id]
        if job.get("requeue"):
            return _say(f"{job['requeue']} for job {job_id}")
        job.update(state="COMPLETING", looks=1)
        return 0

    def _jobs(self) -> int:
        for job_id, job in list(self.state["jobs"].items()):
            if job.get("looks") == 0:
                del self.state["jobs"][job_id]
                continue
            if "looks" in job:
                job["looks"] -= 1
            _print(f"{job_id}|{job['user']}|{job['state']}")
        return 0


if __name__ == "__main__":
    sys.exit(_Program(sys.argv[1], sys.argv[2:]).run())
