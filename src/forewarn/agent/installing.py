"""The service unit for this system, and instructions for it, as texts. Pure.

Handlers run within the unit, as its user, so the unit allows what they need.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

UNIT_FILE = "/etc/systemd/system/forewarn-agent.service"

_UNIT = """\
# Watches for maintenance of this VM, prepares, approves, recovers.
# Written by `forewarn agent install`; change it with `systemctl edit forewarn-agent`.
[Unit]
Description=Agent for Scheduled Events (forewarn)
Documentation=https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
# Fed only while watching and deciding go on, not while the endpoint is down.
WatchdogSec=60s
# Settings that are refused change nothing: the log and `forewarn agent status` say why.
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=1s
# A mistake in the settings does not mend itself.
RestartPreventExitStatus=2
TimeoutStopSec=15s
# A handler that is at work outlives the agent, and is taken up again by the next.
KillMode=process
# It must not be what goes first when memory runs out, nor starve when all is busy.
OOMScoreAdjust=-500
CPUWeight=1000

StateDirectory=forewarn
StateDirectoryMode=0700
UMask=0077

# Handlers run within these bounds too, so there are few of them: a handler may stop
# services, mount, start containers, and write where it must. Nothing here gives it
# mounts of its own (as ProtectSystem and most of its kin do): what it unmounts would
# still be there for all others. Add what yours do not need.
CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_TIME CAP_SYSLOG CAP_SYS_RAWIO
CapabilityBoundingSet=~CAP_WAKE_ALARM CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_AUDIT_CONTROL
CapabilityBoundingSet=~CAP_BLOCK_SUSPEND CAP_LEASE CAP_LINUX_IMMUTABLE CAP_SYS_PACCT
CapabilityBoundingSet=~CAP_SYS_TTY_CONFIG
SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io
SystemCallErrorNumber=EPERM
SystemCallArchitectures=native
LockPersonality=yes
RestrictRealtime=yes

[Install]
WantedBy=multi-user.target
"""

SYSTEMD_NEXT = (
    "systemctl daemon-reload",
    "systemctl enable --now forewarn-agent",
    "systemctl status forewarn-agent",
)


def unit(command: Sequence[str], *, missing: str = "") -> str:
    """Return systemd's unit; `command` starts the agent, with absolute paths.

    `missing` is the settings file in it that does not exist yet.
    """
    # In a unit, % starts a specifier and $ a variable.
    words = [
        shlex.quote(word.replace("%", "%%").replace("$", "$$")) for word in command
    ]
    text = _UNIT.format(command=" ".join(words))
    if missing:
        told = "".join(c if c.isprintable() else "?" for c in missing)
        text = f"# There is no {told} yet: without it the agent does not start.\n{text}"
    return text


def advice(platform: str, command: Sequence[str], *, has_openrc: bool) -> str:
    """Return instructions for a system without systemd; `platform` is sys.platform."""
    started = shlex.join(command)
    if platform == "darwin":
        return (
            "launchd: write a plist into /Library/LaunchDaemons with KeepAlive true, "
            f"RunAtLoad true and AbandonProcessGroup true, whose ProgramArguments are:\n"
            f"  {started}\nthen: launchctl bootstrap system FILE"
        )
    if platform == "win32":
        return (
            "Windows: have it started at boot by the Task Scheduler, as SYSTEM, with "
            f"restart on failure:\n  {started}"
        )
    if has_openrc:
        return (
            "OpenRC: write /etc/init.d/forewarn-agent with these lines, make it "
            "executable, then `rc-update add forewarn-agent default`:\n"
            "  #!/sbin/openrc-run\n  supervisor=supervise-daemon\n"
            f"  command={shlex.quote(command[0])}\n"
            f"  command_args={shlex.quote(shlex.join(command[1:]))}\n"
            "  respawn_delay=1\n  depend() { need net; }"
        )
    return (
        "there is no systemd here: have your supervisor run this command, restart it "
        f"whenever it ends, and leave its children alone when it is stopped:\n  {started}"
    )
