"""Every setting of forewarn.toml that is there once: its form, bounds and meaning.

`docs/reference/settings.md` has its tables from here, so these sentences are the
reference. What is marked with ÷ is divided by `timing.speed`.
"""

from collections.abc import Mapping
from dataclasses import fields

from forewarn.control.requests.verbs import TARGETS_MAX
from forewarn.control.rules.policy import Timing
from forewarn.drivers.placeholders import OBSERVER_PLACEHOLDERS, known_in
from forewarn.instants import MINUTE, SECOND
from forewarn.service import settings_model
from forewarn.service.options import WORKS, Forms
from forewarn.settings.forms import Option

RATE_MAX = 1_000_000
"""Requests a second: more than any machine answers."""

SPEED_MAX = 1_000_000
"""A day in a tenth of a second: beyond it, notices are nothing at all."""

ATTEMPTS_MAX = 100
"""Calls to a driver that fails: an operator is wanted long before."""

FIRST_ANSWER_MAX = 2 * MINUTE
FIRST_EVENTS_MAX = 5 * MINUTE
"""Clause 7.1: up to two minutes, and up to five."""

LONGEST_WAIT_MAX = 10 * MINUTE
"""Of one wait for a change: beyond it, firewalls and proxies forget a connection."""

PARALLEL_MAX = 1_000
"""Programs of one call at once: more than a host has VMs for."""

GRACE_MAX = 10 * MINUTE
"""Between asking a program to end and ending it: another call may wait for it."""

SECTIONS: Mapping[str, type] = {
    "metadata": settings_model.MetadataSettings,
    "admin": settings_model.AdminSettings,
    "store": settings_model.StoreSettings,
    "timing": Timing,
    "policy": settings_model.PolicySettings,
    "driver": settings_model.DriverSettings,
    "driver.simulated": settings_model.SimulatedSettings,
    "driver.command": settings_model.CommandSettings,
    "log": settings_model.LogSettings,
}
"""The tables of forewarn.toml."""

_PROGRAMS: Mapping[str, str] = {
    "freeze": "Pauses a VM for a moment.",
    "live_migrate": "Moves a running VM to the host `{to_host}`.",
    "reboot": "Starts a VM anew where it is.",
    "redeploy": "Starts a VM anew on the host `{to_host}`.",
    "reimage": "Makes a VM's disk anew from its image, and starts it.",
    "delete": "Deletes a VM.",
}
"""What the program of each kind of work does."""

_TABLE: Mapping[str, Option] = {
    "metadata.listen": Option(
        form=Forms.LISTENER,
        may_be_empty=True,
        text="Where the shared listener is: `HOST:PORT`, `[::1]:8080` for IPv6. A VM is "
        "known there by its source address. Empty: none, and each VM has its own "
        "(`listen` in the fleet file).",
    ),
    "metadata.rate_limit": Option(
        form=Forms.NUMBER,
        most=RATE_MAX,
        text="Requests a second that one VM may make; beyond it, it is told 429. `0`: no "
        "limit.",
    ),
    "metadata.first_answer_delay": Option(
        form=Forms.DURATION,
        most=FIRST_ANSWER_MAX,
        text="How long the first answer after enabling is held back, to be as slow as "
        "the real one.",
    ),
    "metadata.first_events_delay": Option(
        form=Forms.DURATION,
        most=FIRST_EVENTS_MAX,
        text="How long after enabling no event is shown, to be as slow as the real one.",
    ),
    "metadata.disable_after": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="How long nobody of a scope must have asked until it is disabled again.",
    ),
    "metadata.signed_secret_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="A file with the secret by which a metadata proxy signs `X-Instance-ID`, as "
        "OpenStack's does. Empty: such headers mean nothing.",
    ),
    "metadata.push": Option(
        form=Forms.SWITCH,
        text="Whether a VM may ask to be answered when its document changes, see "
        "[Extensions of the protocol](extensions.md#push-waiting-for-a-change). "
        "Without quotes: `push = true`.",
    ),
    "metadata.push_longest_wait": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=LONGEST_WAIT_MAX,
        text="How long such a request waits at most. Parts of a second do not count.",
    ),
    "metadata.event_details": Option(
        form=Forms.SWITCH,
        text="Whether a VM may ask what its events wait for and how the last ones ended, "
        "see [Extensions of the "
        "protocol](extensions.md#what-an-event-waits-for-and-how-it-ended). Without "
        "quotes: `event_details = true`.",
    ),
    "admin.listen": Option(
        form=Forms.DOOR,
        text="Where the operator API is: `HOST:PORT`, or `unix:/run/forewarn/api` for a "
        "Unix socket, at which root, the service's user and the members of its "
        "group are operators without a token. Where it is another address than "
        "loopback, `admin.token_file` is required.",
    ),
    "admin.token_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="A file with one token a line, `TOKEN` or `NAME:TOKEN`. Empty: none is "
        "needed, and only this machine is answered. A token has at least 24 "
        "characters.",
    ),
    "admin.tls_certificate": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="A file with the certificate of the operator API and those between it and "
        "its authority, in PEM. With it the API speaks HTTPS. The service reads the "
        "file again when it changes.",
    ),
    "admin.tls_key": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="The file with the key of that certificate, without a password.",
    ),
    "store.url": Option(
        form=Forms.URL,
        text="`memory://` keeps nothing over a restart; `sqlite:///PATH` is a file, "
        "`sqlite:////var/lib/forewarn/forewarn.db` with an absolute path.",
    ),
    "store.retention": Option(
        form=Forms.DURATION,
        least=MINUTE,
        text="How long ended operations, their events and their trail are kept.",
    ),
    "timing.speed": Option(
        form=Forms.NUMBER,
        least=0.001,
        most=SPEED_MAX,
        text="Divides notices, impacts, recoveries and the bound of a hold, so that a "
        "day fits into a test. Times given by hand and DurationInSeconds are not "
        "divided.",
    ),
    "timing.freeze_notice": Option(
        form=Forms.DURATION,
        text="÷ Least time from notice to NotBefore of a Freeze.",
    ),
    "timing.reboot_notice": Option(
        form=Forms.DURATION,
        text="÷ The same of a Reboot.",
    ),
    "timing.redeploy_notice": Option(
        form=Forms.DURATION,
        text="÷ The same of a Redeploy.",
    ),
    "timing.preempt_notice": Option(
        form=Forms.DURATION,
        text="÷ The same of a Preempt.",
    ),
    "timing.terminate_notice": Option(
        form=Forms.DURATION,
        may_be_empty=True,
        text="÷ The same of a Terminate, in place of what each scope says in the fleet "
        "file. Empty: as each scope says. A scope that says nothing has no "
        "Terminate events either way.",
    ),
    "timing.failure_notice": Option(
        form=Forms.DURATION,
        text="÷ How far ahead a predicted failure is dated, where the operator does not "
        "say.",
    ),
    "timing.failure_event": Option(
        form=Forms.EVENT,
        words=("Reboot", "Redeploy"),
        text="What a failure shows: `Reboot`, or `Redeploy` as a newer page of Azure's "
        "says.",
    ),
    "timing.recovery": Option(
        form=Forms.DURATION,
        text="÷ From the end of the impact until the event is removed.",
    ),
    "timing.hold_max": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="÷ How long after NotBefore routine maintenance may be held for the sake of "
        "fault domains; then it is cancelled and announced again.",
    ),
    "policy.hosts_at_once": Option(
        form=Forms.COUNT,
        least=1,
        most=TARGETS_MAX,
        text="How many hosts of one order are announced or worked on at once, where the "
        "order does not say (`--at-once`).",
    ),
    "driver.kind": Option(
        form=Forms.WORD,
        words=("simulated", "command"),
        text="The driver. `simulated`: nothing happens to any VM, it only takes time. "
        "`command`: your own programs, see [Driver programs](driver-programs.md). "
        "Change it while no call is under way: [what becomes of "
        "one](driver-programs.md#change-the-driver-kind).",
    ),
    "driver.timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="How long a call may take before the driver is asked what became of it, and "
        "told to stop it.",
    ),
    "driver.attempts": Option(
        form=Forms.COUNT,
        least=1,
        most=ATTEMPTS_MAX,
        text="How often a failing call is made before its operation fails.",
    ),
    "driver.retry_delay": Option(
        form=Forms.DURATION,
        text="The pause between two attempts.",
    ),
    "driver.simulated.freeze": Option(
        form=Forms.DURATION,
        text="÷ A freeze; never longer than its event's DurationInSeconds says.",
    ),
    "driver.simulated.live_migrate": Option(
        form=Forms.DURATION,
        text="÷ A live migration of one VM.",
    ),
    "driver.simulated.reboot": Option(
        form=Forms.DURATION,
        text="÷ A restart of the host or of a VM.",
    ),
    "driver.simulated.redeploy": Option(
        form=Forms.DURATION,
        text="÷ A move to another host without memory.",
    ),
    "driver.simulated.reimage": Option(
        form=Forms.DURATION,
        text="÷ A new disk for the guest, as for an OS upgrade.",
    ),
    "driver.simulated.delete": Option(
        form=Forms.DURATION,
        text="÷ A deletion.",
    ),
    "driver.simulated.faults": Option(
        form=Forms.FAULTS,
        text="What goes wrong, as a list of faults; see below. They are counted from "
        "each start of the service anew.",
    ),
    **{
        f"driver.command.{name}": Option(
            form=Forms.PROGRAM, words=known_in(action), text=_PROGRAMS[name]
        )
        for name, action in WORKS.items()
    },
    **{
        f"driver.command.{name}_timeout": Option(
            form=Forms.DURATION,
            least=SECOND,
            may_be_empty=True,
            text=f"The same for `{name}`. Empty: as `driver.command.timeout` says.",
        )
        for name in WORKS
    },
    "driver.command.observe": Option(
        form=Forms.PROGRAM,
        words=OBSERVER_PLACEHOLDERS,
        text="Tells whether a VM runs, and where; a report that it contradicts is not "
        "believed.",
    ),
    "driver.command.probe": Option(
        form=Forms.PROGRAM,
        words=known_in(None),
        text="Tells what became of work that nobody watches any more.",
    ),
    "driver.command.abortable": Option(
        form=Forms.ACTIONS,
        text="Actions whose programs may be ended before they are through, as a list.",
    ),
    "driver.command.parallel": Option(
        form=Forms.COUNT,
        least=1,
        most=PARALLEL_MAX,
        text="Programs of one call that run at once.",
    ),
    "driver.command.timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        may_be_empty=True,
        text="How long a program may take before it is ended, which counts as a failure. "
        "Empty: as long as it likes; `driver.timeout` still applies.",
    ),
    "driver.command.grace": Option(
        form=Forms.DURATION,
        most=GRACE_MAX,
        text="Between asking a program to end (SIGTERM) and ending it (SIGKILL).",
    ),
    "driver.command.records": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="The folder where programs' starts and ends are recorded. Empty: beside the "
        "store (`forewarn.db.command`). Old ones go after `store.retention`.",
    ),
    "log.format": Option(
        form=Forms.WORD,
        words=("auto", "text", "json"),
        text="`text`: lines for people. `json`: one JSON object a line, for programs. "
        "`auto`: text on a terminal, JSON otherwise.",
    ),
    "log.level": Option(
        form=Forms.WORD,
        words=("debug", "info", "warning", "error"),
        text="The least that is told: `debug`, `info`, `warning` or `error`.",
    ),
}

OPTIONS: Mapping[str, Option] = {
    f"{section}.{each.name}": _TABLE[f"{section}.{each.name}"]
    for section, group in SECTIONS.items()
    for each in fields(group)
}
"""Every setting by its whole name, in the order of the file."""
