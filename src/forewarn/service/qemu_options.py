"""The settings of the driver for QEMU."""

from collections.abc import Mapping

from forewarn.drivers.qemu.places import VM_AND_HOST
from forewarn.instants import MILLISECOND, MINUTE, SECOND
from forewarn.service.options import Forms
from forewarn.settings.forms import Option

VMS_AT_ONCE_MAX = 1_000
"""Maximum VMs of one call that are worked on at once: more than the VMs of a host."""

SHUTDOWN_MAX = 10 * MINUTE
"""Maximum time for a guest to shut down: a longer one hangs."""

DOWNTIME_MAX = 2000 * SECOND
"""Maximum time that a live migration stops the guest: QEMU's own limit."""

QEMU_OPTIONS: Mapping[str, Option] = {
    "driver.qemu.monitor": Option(
        form=Forms.SOCKETS,
        may_be_empty=True,
        text="Path of each VM's QMP monitor for commands, with `{vm}` and `{host}`, such "
        "as `/run/qemu/{host}/{vm}.qmp`. The driver needs it for itself alone.",
    ),
    "driver.qemu.events": Option(
        form=Forms.SOCKETS,
        may_be_empty=True,
        text="Path of each VM's second QMP monitor, for unrequested changes. Empty: the "
        "service sees none.",
    ),
    "driver.qemu.start": Option(
        form=Forms.PROGRAM,
        words=VM_AND_HOST,
        text="Starts QEMU for a VM on a host, and ends. Empty: no `redeploy`, and no "
        "reboot with host work.",
    ),
    "driver.qemu.receive": Option(
        form=Forms.PROGRAM,
        words=VM_AND_HOST,
        text="Starts QEMU with `-incoming defer` for a VM on a host, and ends. Empty: no "
        "`live_migrate`.",
    ),
    "driver.qemu.migration": Option(
        form=Forms.MIGRATION,
        may_be_empty=True,
        text="Address on which the destination of a live migration listens: a range of "
        "ports, `tcp:{host}:49152,to=49215`, any free port, `tcp:{host}:0`, or a socket, "
        "`unix:/run/qemu/{vm}.move`. `{host}` is the destination.",
    ),
    "driver.qemu.freeze": Option(
        form=Forms.DURATION,
        text="Duration of a freeze, but at most DurationInSeconds of its event.",
    ),
    "driver.qemu.shutdown_timeout": Option(
        form=Forms.DURATION,
        most=SHUTDOWN_MAX,
        text="Time that a guest has to shut down before it is restarted or stopped. `0s`: "
        "it is reset at once, as by the reset button.",
    ),
    "driver.qemu.downtime": Option(
        form=Forms.DURATION,
        least=MILLISECOND,
        most=DOWNTIME_MAX,
        text="Maximum time that a live migration stops the guest, by QEMU's estimate. "
        "QEMU copies memory until this is possible.",
    ),
    "driver.qemu.parallel": Option(
        form=Forms.COUNT,
        least=1,
        most=VMS_AT_ONCE_MAX,
        text="Maximum VMs of one call that are worked on at once.",
    ),
}
"""The keys of `[driver.qemu]` by their full names, in the order of the file."""
