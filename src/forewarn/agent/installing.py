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
# The agent notifies the watchdog while it works, even if the endpoint is down.
WatchdogSec=60s
# Refused settings change nothing. The log and `forewarn agent status` have the reason.
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=1s
# A restart does not fix invalid settings.
RestartPreventExitStatus=2
TimeoutStopSec=15s
# Running handlers outlive the agent, and the next one resumes them.
KillMode=process
# The agent must not be killed first if memory is low, nor starve if the VM is busy.
OOMScoreAdjust=-500
CPUWeight=1000

StateDirectory=forewarn
StateDirectoryMode=0700
UMask=0077

# These limits also apply to handlers, which may stop services, mount file systems,
# start containers and write files. No option gives handlers separate mounts, as
# ProtectSystem and similar ones do: if a handler unmounted a file system, it would stay
# mounted for all other processes. Add further limits that fit your handlers.
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

UNPREPARED = "prepares nothing and approves by its default rules"
"""The behavior of an agent without handlers."""


def unit(command: Sequence[str], *, missing: str = "") -> str:
    """Return systemd's unit; `command` starts the agent, with absolute paths.

    `missing` is the settings file in it that does not exist yet.
    """
    # In a unit, % starts a specifier and $ a variable.
    arguments = [
        shlex.quote(word.replace("%", "%%").replace("$", "$$")) for word in command
    ]
    text = _UNIT.format(command=" ".join(arguments))
    if missing:
        path = "".join(c if c.isprintable() else "?" for c in missing)
        text = f"# {path} does not exist yet, and without it the agent does not start.\n{text}"
    return text


def advice(platform: str, command: Sequence[str], *, has_openrc: bool) -> str:
    """Return instructions for a system without systemd; `platform` is sys.platform."""
    system = "OpenRC" if has_openrc else ""
    system = {"darwin": "launchd", "win32": "Windows"}.get(platform, system)
    return _ADVICE[system].format(
        started=shlex.join(command),
        program=shlex.quote(command[0]),
        arguments=shlex.quote(shlex.join(command[1:])),
    )


_ADVICE = {
    "launchd": "launchd: create a plist in /Library/LaunchDaemons with KeepAlive true, "
    "RunAtLoad true, AbandonProcessGroup true, and these ProgramArguments:\n"
    "  {started}\nthen: launchctl bootstrap system FILE",
    "Windows": "Windows: start it at boot with the Task Scheduler, as SYSTEM, with "
    "restart on failure:\n  {started}",
    "OpenRC": "OpenRC: create /etc/init.d/forewarn-agent with these lines, make it "
    "executable, then run `rc-update add forewarn-agent default`:\n"
    "  #!/sbin/openrc-run\n  supervisor=supervise-daemon\n"
    "  command={program}\n  command_args={arguments}\n"
    "  respawn_delay=1\n  depend() {{ need net; }}",
    "": "This system has no systemd. Configure your supervisor to run this command, "
    "restart it whenever it ends, and not to kill its child processes:\n  {started}",
}
"""The instructions for each kind of system."""
