"""The settings of forewarn.toml about drivers: form, bounds and meaning of each.

`option_table` has the other tables.
"""

from collections.abc import Mapping

from forewarn.drivers.placeholders import OBSERVER_PLACEHOLDERS, known_in
from forewarn.instants import MINUTE, SECOND
from forewarn.service.options import WORKS, Forms
from forewarn.settings.forms import Option

ATTEMPTS_MAX = 100
"""Maximum calls to a failing driver: an operator must act long before the last one."""

SIGHTINGS_LIMIT_MAX = 100_000
"""Maximum of `driver.sightings_max`: the VMs of the largest fleet, so that it is off."""

PARALLEL_MAX = 1_000
"""Maximum programs that one call runs at once: more than the VMs of a host."""

GRACE_MAX = 10 * MINUTE
"""Maximum time between SIGTERM and SIGKILL: another call may wait for it."""

_PROGRAMS: Mapping[str, str] = {
    "freeze": "Pauses a VM for a moment.",
    "live_migrate": "Moves a running VM to the host `{to_host}`.",
    "reboot": "Restarts a VM on its host.",
    "redeploy": "Starts a VM again on the host `{to_host}`.",
    "reimage": "Recreates a VM's disk from its image, and starts the VM.",
    "delete": "Deletes a VM.",
    "pause": "Pauses a VM, and keeps its memory, until host work has ended.",
    "resume": "Resumes a VM that `pause` paused.",
    "stop": "Stops a VM until host work has ended.",
    "start": "Starts a VM that `stop` stopped.",
}
"""The work of the program for each action."""

_HALVES: Mapping[str, str] = {
    "pause": "÷ Duration of pausing the VMs of a host for host work.",
    "resume": "÷ Duration of resuming them.",
    "stop": "÷ Duration of stopping the VMs of a host for host work.",
    "start": "÷ Duration of starting them.",
}
"""The simulated durations of the halves of a freeze and of a reboot."""

DRIVER_OPTIONS: Mapping[str, Option] = {
    "driver.kind": Option(
        form=Forms.WORD,
        words=("simulated", "command", "qemu", "libvirt"),
        text="The driver. `simulated`: takes time, but does nothing to any VM. "
        "`command`: runs your programs, see [Driver programs](driver-programs.md). "
        "`qemu`: bare QEMU, see [VMs of bare QEMU](../how-to/operate/qemu.md). "
        "`libvirt`: hosts with libvirt, see [Hosts with "
        "libvirt](../how-to/operate/libvirt.md). "
        "Change it only while no call is running: [what happens to a running "
        "call](driver-programs.md#change-the-driver-kind).",
    ),
    "driver.targets": Option(
        form=Forms.WORD,
        words=("forewarn", "driver"),
        text="The chooser of the hosts that VMs move to. `forewarn`: the service, which "
        "reserves their places. `driver`: the driver, such as a scheduler, which reports "
        "the host of each VM. See [Hosts that a scheduler "
        "chooses](driver-programs.md#hosts-that-a-scheduler-chooses).",
    ),
    "driver.timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="Maximum time of a call. After it, the service asks the driver for the "
        "result and tells it to stop the call.",
    ),
    "driver.attempts": Option(
        form=Forms.COUNT,
        least=1,
        most=ATTEMPTS_MAX,
        text="Maximum attempts of a failing call. After the last one, its operation "
        "fails.",
    ),
    "driver.retry_delay": Option(
        form=Forms.DURATION,
        text="Pause between two attempts.",
    ),
    "driver.sightings": Option(
        form=Forms.SIGHTINGS,
        text="Reactions to unrequested changes that the driver sees, as a list. `fail`: a "
        "VM that stopped fails. `restore`: a VM that failed this way, or in a call, and "
        "runs again is restored. `move`: a VM that runs on another host is recorded "
        "there. See [The watch program](driver-programs.md#the-watch-program).",
    ),
    "driver.sighting_confirm": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="Time until the service reacts to such a change. A change back within this "
        "time cancels it.",
    ),
    "driver.sightings_max": Option(
        form=Forms.COUNT,
        least=1,
        most=SIGHTINGS_LIMIT_MAX,
        text="Maximum VMs that stop within `driver.sighting_confirm` and are failed. If "
        "more stop, the network or the driver is faulty: no VM is failed, and `forewarn "
        "problems` says so.",
    ),
    "driver.simulated.freeze": Option(
        form=Forms.DURATION,
        text="÷ Duration of a freeze, but at most DurationInSeconds of its event.",
    ),
    "driver.simulated.live_migrate": Option(
        form=Forms.DURATION,
        text="÷ Duration of the live migration of one VM.",
    ),
    "driver.simulated.reboot": Option(
        form=Forms.DURATION,
        text="÷ Duration of a restart of the host or of a VM.",
    ),
    "driver.simulated.redeploy": Option(
        form=Forms.DURATION,
        text="÷ Duration of a move to another host without memory.",
    ),
    "driver.simulated.reimage": Option(
        form=Forms.DURATION,
        text="÷ Duration of replacing the guest's disk, as for an OS upgrade.",
    ),
    "driver.simulated.delete": Option(
        form=Forms.DURATION,
        text="÷ Duration of a deletion.",
    ),
    **{
        f"driver.simulated.{name}": Option(form=Forms.DURATION, text=text)
        for name, text in _HALVES.items()
    },
    "driver.simulated.host_step": Option(
        form=Forms.DURATION,
        text="÷ Duration of a host step, such as `work` or `verify`.",
    ),
    "driver.simulated.target_hosts": Option(
        form=Forms.HOSTS,
        text='With `driver.targets = "driver"`: the hosts that take the VMs, in turn. '
        "Those that are announced, in work, cordoned or down take none.",
    ),
    "driver.simulated.marks": Option(
        form=Forms.SWITCH,
        text="Simulated VMs and hosts keep marks of calls, in `forewarn.db.domains` next "
        "to the store. With them, the outcome of a call is known even if the driver's "
        "memory is lost.",
    ),
    "driver.simulated.faults": Option(
        form=Forms.FAULTS,
        text="Faults to inject, as a list; see below. Their counters start again with "
        "each start of the service.",
    ),
    "driver.simulated.limited": Option(
        form=Forms.LIMITED,
        text="Actions that cannot be carried out on a host or on a VM, as a list of "
        "`ACTION host=NAME` or `ACTION vm=NAME`. With `able=unknown`, the driver cannot "
        "tell. Empty: the driver tells nothing about single hosts and VMs.",
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
            text=f"Maximum run time of the program for `{name}`. "
            "Empty: `driver.command.timeout` applies.",
        )
        for name in WORKS
    },
    "driver.command.observe": Option(
        form=Forms.PROGRAM,
        words=OBSERVER_PLACEHOLDERS,
        text="Reports whether a VM runs, and where. If it contradicts a driver's report, "
        "that report is rejected.",
    ),
    "driver.command.observe_many": Option(
        form=Forms.PROGRAM,
        text="Reports the same about many VMs at once, as lines of JSON. Set it instead of "
        "`observe`.",
    ),
    "driver.command.probe": Option(
        form=Forms.PROGRAM,
        words=known_in(None),
        text="Reports the result of work that the service no longer watches, for example "
        "after a restart.",
    ),
    "driver.command.marks": Option(
        form=Forms.PROGRAM,
        text="Reads the marks that the other programs left at VMs and hosts. forewarn "
        "asks it about work of which the driver's records were lost. Empty: the outcome "
        "of such work is unknown.",
    ),
    "driver.command.watch": Option(
        form=Forms.PROGRAM,
        text="Runs as long as the service, and prints a line of JSON for each VM that "
        "stops, runs again or is on another host. Empty: the service sees no "
        "unrequested changes.",
    ),
    "driver.command.abilities": Option(
        form=Forms.PROGRAM,
        text="Reports the actions that can be carried out on hosts and VMs, as lines of JSON. "
        "Empty: that is unknown, and no request is refused because of it.",
    ),
    "driver.command.abortable": Option(
        form=Forms.ACTIONS,
        text="Actions whose programs can be killed before they finish, as a list.",
    ),
    "driver.command.parallel": Option(
        form=Forms.COUNT,
        least=1,
        most=PARALLEL_MAX,
        text="Maximum programs of one call that run at once.",
    ),
    "driver.command.timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        may_be_empty=True,
        text="Maximum run time of a program. After it, the program is killed, which counts "
        "as a failure. Empty: no limit; `driver.timeout` still applies.",
    ),
    "driver.command.grace": Option(
        form=Forms.DURATION,
        most=GRACE_MAX,
        text="Time between SIGTERM and SIGKILL when a program is stopped.",
    ),
    "driver.command.records": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="Directory for the records of program starts and exits. Empty: next to the "
        "store (`forewarn.db.command`). Records are deleted after `store.retention`.",
    ),
}
