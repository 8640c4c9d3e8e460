"""A campaign in the demo: its first host fails, is repaired and tried again.

A service of its own runs a program on six hosts. The program has a mistake at first.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demo_parts import setting
from demo_parts.timeline import Timeline

HOSTS = 6
VMS = 3
"""VMs that move to hosts which are done."""

NAME = "bios-2.19"
IMAGE = "r7525-2.19.bin"

SETTINGS = """\
[metadata]
listen = ""

[admin]
listen = "127.0.0.1:{port}"

[store]
url = "sqlite:///{directory}/campaign.db"

[timing]
speed = 1000                    # 15 minutes of notice take a second

[driver]
kind = "command"
[driver.command]
live_migrate = ["/bin/true", "{{vm}}", "{{to_host}}"]

[host_step.write]
program = ["{directory}/firmware.sh", "write", "{{host}}"]

[host_step.check]
program = ["{directory}/firmware.sh", "check", "{{host}}"]
"""

PROGRAM = """\
#!/bin/sh
if [ "$1" = check ]; then exec test -e "{directory}/$2.done"; fi
[ -e "{directory}/{image}" ] || {{ echo "there is no file {image}"; exit 1; }}
touch "{directory}/$2.done"
"""

CAMPAIGN = f"""\
[campaign]
name = "{NAME}"
reason = "new firmware"
impact = "live-migrate"
select = {{ all = true }}
steps = {{ work = {{ step = "write" }}, verify = {{ step = "check" }} }}
budget = {{ in_flight = 4 }}
stage = [{{ hosts = 1 }}]
"""

LOOK_SECONDS = 0.5


def prepare(directory: Path) -> setting.Places:
    """Write the fleet, the settings, the program and the campaign; return the address."""
    directory.mkdir()
    (port,) = setting.free_ports(1)
    fleet = '[[tenant]]\nname = "shop"\n'
    for number in range(HOSTS):
        fleet += f'[[host]]\nname = "r{number + 1}"\ncapacity = 4\n'
    for number in range(VMS):
        fleet += (
            f'[[scope]]\nname = "s{number}"\ntenant = "shop"\n'
            'kind = "availability-set"\n'
            f'[[vm]]\nname = "vm_{number}"\nhost = "r{number + 1}"\n'
            f'scope = "s{number}"\n'
        )
    (directory / "fleet.toml").write_text(fleet)
    (directory / "forewarn.toml").write_text(
        SETTINGS.format(port=port, directory=directory)
    )
    (directory / "bios.toml").write_text(CAMPAIGN)
    _write_program(directory, image="r7525_2.19.bin")
    (directory / IMAGE).touch()
    return setting.Places(admin_url=f"http://127.0.0.1:{port}", vms={})


def _write_program(directory: Path, *, image: str) -> None:
    program = directory / "firmware.sh"
    program.write_text(PROGRAM.format(directory=directory, image=image))
    program.chmod(0o755)


def play(
    run: Callable[..., Any],
    ask: Callable[..., Any],
    *,
    directory: Path,
    timeline: Timeline,
    within: float,
) -> None:
    """Plan and start the campaign, repair the program, and wait for the end.

    `run` shows its command, and `ask` does not.
    """
    timeline.head("7  A firmware campaign: the first host fails, and you repair it")
    plan = run("campaign", "plan", "bios.toml")
    timeline.say(
        "forewarn",
        f"  {plan['host_count']} hosts, {plan['vm_count']} VMs, digest {plan['digest']}",
    )
    run("campaign", "start", "bios.toml", "--plan", plan["digest"])
    found = _wait(ask, "Halted", within=within, timeline=timeline)
    for failure in found["failed"]:
        timeline.say("forewarn", f"  {failure['host']} failed: {failure['reason']}")
    timeline.check(
        f"the campaign halts by itself: {HOSTS - 1} hosts were not touched",
        seen=(found["state"], found["waiting"]) == ("Halted", HOSTS - 1),
    )
    timeline.say("you", "$ sed -i s/r7525_/r7525-/ firmware.sh", bold=True)
    _write_program(directory, image=IMAGE)
    run("campaign", "retry", NAME, "--failed")
    run("campaign", "resume", NAME, "--reason", "the program is repaired")
    found = _wait(ask, "Done", within=2 * within, timeline=timeline)
    timeline.check(
        f"all {found['done']} hosts have the firmware, and each was checked",
        seen=found["done"] == HOSTS == len([*directory.glob("*.done")]),
    )


def _wait(
    ask: Callable[..., Any], state: str, *, within: float, timeline: Timeline
) -> Any:
    """Return the campaign when it has reached a state, or after a time."""
    deadline = time.monotonic() + within
    told = ""
    while True:
        found = ask("campaign", "show", NAME)
        counts = f"{found['done']} done, {found['in_flight']} in flight"
        if counts != told:
            told = counts
            timeline.say("forewarn", f"  {NAME} is {found['state']}: {counts}")
        if found["state"] == state or time.monotonic() > deadline:
            return found
        time.sleep(LOOK_SECONDS)
