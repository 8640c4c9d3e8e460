"""The settings of the repeated inventory."""

from collections.abc import Mapping

from forewarn.fleet.sources import REMOVALS_LIMIT_MAX
from forewarn.instants import DAY, HOUR, SECOND
from forewarn.service.options import Forms
from forewarn.settings.amounts import AMOUNT
from forewarn.settings.forms import Option

EVERY_MIN = SECOND
"""Minimum time between the starts of two runs: a fleet does not change more often."""

EVERY_MAX = 7 * DAY
"""Maximum time between two runs: an inventory older than a week is out of date."""

TIMEOUT_MAX = HOUR
"""Maximum timeout of a run: a program that runs longer is taken to hang."""

INVENTORY_OPTIONS: Mapping[str, Option] = {
    "inventory.program": Option(
        form=Forms.PROGRAM,
        text="A program that prints the hosts and VMs in the [inventory format]"
        "(inventory.md), with its arguments. The service runs it and merges its output, "
        "as `fleet apply --inventory` does. Empty: no program.",
    ),
    "inventory.libvirt": Option(
        form=Forms.URIS,
        text="The URIs of the hosts' libvirt, which are asked instead of a program, as a "
        'list such as `["qemu+ssh://root@h1/system"]`. It uses `driver.libvirt.python`.',
    ),
    "inventory.every": Option(
        form=Forms.DURATION,
        least=EVERY_MIN,
        most=EVERY_MAX,
        text="Time from the start of a run to the start of the next one. The first run is "
        "at the start of the service. `timing.speed` does not divide it.",
    ),
    "inventory.timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=TIMEOUT_MAX,
        text="Maximum time of a run. After it, the program is killed, and nothing is "
        "changed.",
    ),
    "inventory.removals_max": Option(
        form=AMOUNT,
        most=REMOVALS_LIMIT_MAX,
        text="Maximum hosts, and maximum VMs, that a run may remove: a number, or a "
        "percentage of those that came from an inventory. A run that would remove more is "
        "refused.",
    ),
}
"""The keys of `[inventory]` by their full names, in the order of the file."""
