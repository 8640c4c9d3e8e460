"""The settings of the driver for libvirt."""

from collections.abc import Mapping

from forewarn.drivers.libvirt.commands import MIGRATIONS, PAUSES
from forewarn.instants import MINUTE, SECOND
from forewarn.service.options import Forms
from forewarn.service.qemu_options import SHUTDOWN_MAX, VMS_AT_ONCE_MAX
from forewarn.settings.forms import Option

CONNECT_MAX = 5 * MINUTE
"""Maximum time to reach a host: a longer one is down."""

LIBVIRT_OPTIONS: Mapping[str, Option] = {
    "driver.libvirt.python": Option(
        form=Forms.LINE,
        text="A Python 3.9 or newer that has the module `libvirt`, such as that of "
        "Debian's package `python3-libvirt`. Its processes talk to libvirt.",
    ),
    "driver.libvirt.uri": Option(
        form=Forms.LIBVIRT,
        may_be_empty=True,
        text="URI of each host's libvirt, with `{host}`, such as "
        "`qemu+ssh://root@{host}/system` or `qemu+tls://{host}/system`. The driver needs "
        "it.",
    ),
    "driver.libvirt.uris": Option(
        form=Forms.LIBVIRTS,
        text="The URIs of single hosts that need another one, as a list such as "
        '`["h9=qemu+tls://h9.lan/system"]`.',
    ),
    "driver.libvirt.peer_uri": Option(
        form=Forms.LIBVIRT,
        may_be_empty=True,
        text="URI with which the source of a live migration reaches the libvirt of its "
        "destination `{host}`. Empty: the URI that the driver uses.",
    ),
    "driver.libvirt.data_uri": Option(
        form=Forms.LIBVIRT,
        may_be_empty=True,
        text="Address of the destination `{host}` for the memory of a live migration, such "
        "as `tcp://{host}.migration.lan`. Empty: libvirt chooses it.",
    ),
    "driver.libvirt.migration": Option(
        form=Forms.WORD,
        words=MIGRATIONS,
        text="The kind of live migration. `pre-copy`: copies memory until little is left. "
        "`auto-converge`: slows a guest down that changes memory faster. `post-copy`: lets "
        "the guest run on the destination after one copy, and fetches the rest; if the "
        "network fails meanwhile, the guest is lost.",
    ),
    "driver.libvirt.freeze": Option(
        form=Forms.DURATION,
        text="Duration of a freeze, but at most DurationInSeconds of its event.",
    ),
    "driver.libvirt.shutdown_timeout": Option(
        form=Forms.DURATION,
        most=SHUTDOWN_MAX,
        text="Time that a guest has to shut down before its process is ended. `0s`: it is "
        "not asked.",
    ),
    "driver.libvirt.pause": Option(
        form=Forms.WORD,
        words=PAUSES,
        text="Place of a guest's memory during a freeze with host work. `save`: the host's "
        "disk, so that the work can restart the host. `suspend`: the host's memory.",
    ),
    "driver.libvirt.reimage": Option(
        form=Forms.SWITCH,
        text="Allows `reimage`: each disk of a VM that has a base image, in a storage pool "
        "of libvirt, is deleted and created again from that image.",
    ),
    "driver.libvirt.connect_timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=CONNECT_MAX,
        text="Maximum time to reach the libvirt of a host.",
    ),
    "driver.libvirt.timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        may_be_empty=True,
        text="Maximum time of the work on one VM. After it, the work is stopped: a guest "
        "is resumed, and a migration is called off. Empty: only `driver.timeout` applies.",
    ),
    "driver.libvirt.parallel": Option(
        form=Forms.COUNT,
        least=1,
        most=VMS_AT_ONCE_MAX,
        text="Maximum VMs of one call that are worked on at once.",
    ),
}
"""The keys of `[driver.libvirt]` by their full names, in the order of the file."""
