"""The example host steps that restart a host and prove it by its boot ID.

A stand-in for SSH keeps the boot ID of each host in a file, and is away for some
connections after a restart.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "drivers"
SECONDS_MAX = 60
"""Maximum seconds of a program that ends at once, for slow machines."""

SSH = """#!/bin/sh
host=${5#root@}; shift 5; boot=$STATES/$host
[ -e "$boot.dead" ] && exit 255
if [ -s "$boot.away" ]; then
    left=$(cat "$boot.away"); left=$((left - 1))
    if [ "$left" -gt 0 ]; then echo "$left" > "$boot.away"; exit 255; fi
    rm "$boot.away"
fi
case "$*" in
"cat /proc/sys/kernel/random/boot_id") cat "$boot" ;;
"systemctl reboot")
    echo restarted >> "$boot.log"
    [ -e "$boot.stubborn" ] && exit 0
    echo "$(cat "$boot")+1" > "$boot"; echo 4 > "$boot.away" ;;
*) exit 64 ;;
esac
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def states(tmp_path: Path) -> Path:
    directory = tmp_path / "states"
    directory.mkdir()
    (directory / "h1").write_text("boot-a\n")
    return directory


@pytest.fixture
def run(tmp_path: Path, states: Path) -> Run:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {"ssh": SSH, "sleep": "#!/bin/sh\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)

    def run(program: str, visit: str, seconds: float = SECONDS_MAX) -> tuple[int, str]:
        ended = subprocess.run(
            ["/bin/sh", str(EXAMPLES / program), "h1", visit],
            env={
                "PATH": f"{tools}:/usr/bin:/bin",
                "STATES": str(states),
                "BOOT_IDS": str(tmp_path / "kept"),
            },
            cwd="/",
            check=False,
            capture_output=True,
            timeout=seconds,
            text=True,
        )
        return ended.returncode, ended.stdout.strip()

    return run


def restarts(states: Path) -> int:
    log = states / "h1.log"
    return len(log.read_text().split()) if log.exists() else 0


def test_host_is_restarted_and_answers_with_another_boot_id(
    run: Run, states: Path
) -> None:
    assert run("reboot-host.sh", "vi-1") == (0, "")
    assert restarts(states) == 1
    answers = [run("host-answers.sh", "vi-1") for _ in range(3)]
    assert answers[0] == (1, "h1 does not answer")
    assert answers[-1] == (0, "")


def test_step_that_runs_again_does_not_restart_the_host_twice(
    run: Run, states: Path
) -> None:
    assert run("reboot-host.sh", "vi-1")[0] == 0
    assert run("reboot-host.sh", "vi-1")[0] == 0
    assert restarts(states) == 1
    while run("host-answers.sh", "vi-1")[0]:
        pass
    assert run("reboot-host.sh", "vi-2")[0] == 0
    assert restarts(states) == 2, "another visit restarts it again"


def test_host_that_never_went_down_does_not_pass_as_restarted(
    run: Run, states: Path
) -> None:
    (states / "h1.stubborn").touch()
    with pytest.raises(subprocess.TimeoutExpired):
        run("reboot-host.sh", "vi-1", seconds=2)
    status, said = run("host-answers.sh", "vi-1")
    assert (status, said) == (1, "h1 has not restarted: its boot ID is still boot-a")


def test_host_that_is_away_before_its_restart_fails_the_step(
    run: Run, states: Path
) -> None:
    (states / "h1.dead").touch()
    assert run("reboot-host.sh", "vi-1") == (
        1,
        "h1 does not answer before its restart",
    )
    status, said = run("host-answers.sh", "vi-1")
    assert (status, said) == (
        1,
        "reboot-host.sh has kept no boot ID of h1 for vi-1",
    )
