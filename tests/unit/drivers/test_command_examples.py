"""The example programs for real hypervisors, on stand-ins for their tools.

A stand-in keeps each VM as a file, `HOST.VM`, with its state in it, and does at
once what the real tool is asked for. It knows no more than the examples need.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "drivers"

DONE, RUNS, UNKNOWN, DOWN = 0, 1, 2, 3

COMMON = """#!/bin/sh
echo "$@" >> "$STATES/asked"
for each in $BROKEN; do case " $* " in *" $each "*) exit 1;; esac; done
be() { echo "$2" > "$STATES/$1"; }
is() { cat "$STATES/$1" 2>/dev/null; }
"""

STAND_INS = {
    "sleep": "#!/bin/sh\n",
    "virsh": COMMON
    + """
at=${3#qemu+ssh://}; at=${at%/system}; shift 3; ask=$1; shift
while case "${1-}" in --*) true;; *) false;; esac; do shift; done
vm=$at.${1-}
case $ask in
domstate) is "$vm" ;;
list) cd "$STATES" && grep -l running "$at".* | sed "s/^$at[.]//"; true ;;
suspend) be "$vm" paused ;;
resume) be "$vm" running ;;
shutdown|destroy) be "$vm" "shut off" ;;
start) is "$vm" >/dev/null && be "$vm" running ;;
migrate) to=${2#qemu+ssh://}; mv "$STATES/$vm" "$STATES/${to%/system}.$1" ;;
dumpxml) is "$vm" >/dev/null && echo "$1" ;;
define) be "$at.$(cat "$1")" "shut off" ;;
undefine) rm "$STATES/$vm" ;;
esac
""",
    "ssh": COMMON
    + """
at=${3#root@}; shift 3; [ "$1" = qm ] || exit 0
vm=$at.$3
is "$vm" > /dev/null || exit 1
case $2 in
status) s=$(is "$vm"); [ "$s" = paused ] && s=running; echo "status: $s" ;;
suspend) be "$vm" paused ;;
resume|start) be "$vm" running ;;
shutdown|stop) be "$vm" stopped ;;
migrate) mv "$STATES/$vm" "$STATES/$4.$3" ;;
destroy) rm "$STATES/$vm" ;;
esac
""",
    "openstack": COMMON
    + """
shift 5; ask=$1; shift
for vm; do :; done
file=$(cd "$STATES" && ls -- *".$vm" 2>/dev/null); at=${file%%.*}
[ "$ask" = list ] || [ -n "$file" ] || exit 1
case "$ask $*" in
*"-c status"*) is "$file" ;;
*"-c OS-EXT"*) echo "$at" ;;
pause*) be "$file" PAUSED ;;
stop*) be "$file" SHUTOFF ;;
start*) be "$file" ACTIVE ;;
unpause*|reboot*|rebuild*) be "$file" ACTIVE ;;
"migrate --live-migration --wait"*) mv "$STATES/$file" "$STATES/h7.$vm" ;;
"migrate --wait"*) mv "$STATES/$file" "$STATES/h7.$vm"; be "h7.$vm" VERIFY_RESIZE ;;
"migrate --live"*) mv "$STATES/$file" "$STATES/$3.$vm" ;;
"migrate --host"*) mv "$STATES/$file" "$STATES/$2.$vm"; be "$2.$vm" VERIFY_RESIZE ;;
"migration confirm"*) be "$file" ACTIVE ;;
delete*) rm "$STATES/$file" ;;
esac
""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An example on stand-ins for its tools."""

    program: str
    running: str
    stopped: str
    directory: Path

    def run(self, *words: str, broken: str = "") -> int:
        """Run the example; asks with a word of `broken` in them fail."""
        ended = subprocess.run(
            ["/bin/sh", str(EXAMPLES / self.program), *words],
            env={
                "PATH": f"{self.directory}/bin:/usr/bin:/bin",
                "STATES": str(self.directory / "states"),
                "BROKEN": broken,
            },
            cwd="/",
            check=False,
            capture_output=True,
            timeout=120,
            text=True,
        )
        (self.directory / "printed").write_text(ended.stdout)
        return ended.returncode

    def printed(self) -> str:
        return (self.directory / "printed").read_text().strip()

    def put(self, place: str, state: str) -> None:
        (self.directory / "states" / place).write_text(f"{state}\n")

    def vms(self) -> dict[str, str]:
        """Return the state of each VM, by host and name."""
        states = self.directory / "states"
        return {
            file.name: file.read_text().strip()
            for file in states.iterdir()
            if file.name != "asked"
        }


@pytest.fixture(params=["virsh", "proxmox", "openstack"])
def tool(request: pytest.FixtureRequest, tmp_path: Path) -> Tool:
    return made(request.param, tmp_path)


def made(example: str, tmp_path: Path) -> Tool:
    """Return an example with one VM, 101, that runs on h1."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "states").mkdir()
    for name, text in STAND_INS.items():
        file = tmp_path / "bin" / name
        file.write_text(text)
        file.chmod(0o755)
    running, stopped = {
        "virsh": ("running", "shut off"),
        "proxmox": ("running", "stopped"),
        "openstack": ("ACTIVE", "SHUTOFF"),
    }[example]
    tool = Tool(
        program=f"{example}.sh",
        running=running,
        stopped=stopped,
        directory=tmp_path,
    )
    tool.put("h1.101", running)
    return tool


def test_each_action_leaves_the_vm_in_the_expected_state(tool: Tool) -> None:
    up = tool.running
    assert tool.run("freeze", "101", "h1", "-1") == DONE
    assert tool.vms() == {"h1.101": up}
    assert tool.run("reboot", "101", "h1") == DONE
    assert tool.vms() == {"h1.101": up}
    for half, left in (
        ("pause", "PAUSED" if tool.program == "openstack.sh" else "paused"),
        ("resume", up),
        ("stop", tool.stopped),
        ("start", up),
    ):
        # Each half can be repeated, as after a failure of another VM.
        for _ in range(2):
            assert tool.run(half, "101", "h1") == DONE
            assert tool.vms() == {"h1.101": left}
    assert tool.run("live-migrate", "101", "h1", "h2") == DONE
    assert tool.vms() == {"h2.101": up}
    assert tool.run("redeploy", "101", "h2", "h1") == DONE
    assert tool.vms() == {"h1.101": up}
    assert tool.run("delete", "101", "h1") == DONE
    assert tool.vms() == {}


@pytest.mark.parametrize("action", ["live-migrate", "redeploy", "delete"])
def test_ended_call_can_be_probed_again(tool: Tool, action: str) -> None:
    for _ in range(2):
        assert tool.run(action, "101", "h1", "h2") == DONE
    assert tool.vms() == ({} if action == "delete" else {"h2.101": tool.running})


@pytest.mark.parametrize("action", ["live-migrate", "redeploy"])
def test_scheduler_chooses_a_host_if_none_is_given(tmp_path: Path, action: str) -> None:
    tool = made("openstack", tmp_path)
    for _ in range(2):
        assert tool.run(action, "101", "h1") == DONE
        assert tool.vms() == {"h7.101": "ACTIVE"}
    # A VM that is still on its host has not moved.
    (tmp_path / "states" / "h7.101").rename(tmp_path / "states" / "h1.101")
    tool.put("h1.101", "ACTIVE")
    assert tool.run(action, "101", "h1", broken="migrate") == RUNS


@pytest.mark.parametrize(
    ("action", "broken"),
    [
        ("freeze", "suspend pause"),
        ("live-migrate", "migrate"),
        ("reboot", "shutdown destroy reboot"),
        ("pause", "suspend pause"),
        ("stop", "shutdown destroy stop"),
    ],
)
def test_failed_action_reports_that_the_vm_is_still_running(
    tool: Tool, action: str, broken: str
) -> None:
    if tool.program == "virsh.sh" and action == "reboot":
        # A guest that does not end, and cannot be switched off.
        broken = "shutdown destroy"
    assert tool.run(action, "101", "h1", "h2", broken=broken) == RUNS
    assert tool.vms() == {"h1.101": tool.running}


@pytest.mark.parametrize(
    ("action", "left"), [("resume", "paused"), ("start", "stopped")]
)
def test_vm_that_does_not_run_again_is_reported_down(
    tool: Tool, action: str, left: str
) -> None:
    is_nova = tool.program == "openstack.sh"
    paused = "PAUSED" if is_nova else "paused"
    tool.put("h1.101", paused if left == "paused" else tool.stopped)
    broken = "resume start unpause"
    assert tool.run(action, "101", "h1", broken=broken) == DOWN


@pytest.mark.parametrize("action", ["freeze", "reboot"])
def test_failed_action_reports_that_the_vm_is_down(tool: Tool, action: str) -> None:
    if tool.program == "openstack.sh":
        tool.put("h1.101", tool.stopped)
        broken = "pause reboot"
    else:
        broken = "resume start"
    assert tool.run(action, "101", "h1", "5", broken=broken) == DOWN


def test_state_is_unknown_if_no_tool_answers(tool: Tool) -> None:
    everything = "domstate list qm show h1 true"
    assert tool.run("observe", "101", "h1", broken=everything) == UNKNOWN
    assert (
        tool.run("freeze", "101", "h1", "5", broken=f"{everything} suspend pause") == 2
    )


def test_observer_finds_the_vm_or_reports_it_down(tool: Tool) -> None:
    assert tool.run("observe", "101", "h2", "h1") == DONE
    assert tool.printed() == "h1"
    tool.put("h1.101", tool.stopped)
    assert tool.run("observe", "101", "h2", "h1") == DOWN


def test_example_without_an_action_reports_an_error(tool: Tool) -> None:
    assert tool.run("explode", "101", "h1") == RUNS
    assert "cannot explode" in tool.printed()


def test_name_with_shell_characters_is_refused(tmp_path: Path) -> None:
    tool = made("proxmox", tmp_path)
    assert tool.run("reboot", "101;reboot", "h1") == RUNS
    assert not (tmp_path / "states" / "asked").exists()
