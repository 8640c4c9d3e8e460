"""The settings of forewarn.toml outside arrays: form, bounds and meaning of each.

The tables in `docs/reference/settings.md` are generated from this module, so these
sentences are the reference. Settings marked with ÷ are divided by `timing.speed`.
"""

from collections.abc import Mapping
from dataclasses import fields

from forewarn.campaigns.options import HOSTS_MAX
from forewarn.control.requests.verbs import TARGETS_MAX
from forewarn.control.rules.policy import BrakeLimits, Timing
from forewarn.fleet.reserve import RESERVED_HOSTS_MAX
from forewarn.instants import DAY, MINUTE, SECOND
from forewarn.service import settings_model
from forewarn.service.cluster_options import CLUSTER_OPTIONS
from forewarn.service.driver_options import DRIVER_OPTIONS
from forewarn.service.inventory_options import INVENTORY_OPTIONS
from forewarn.service.libvirt_options import LIBVIRT_OPTIONS
from forewarn.service.options import Forms
from forewarn.service.qemu_options import QEMU_OPTIONS
from forewarn.settings.amounts import AMOUNT
from forewarn.settings.forms import Option
from forewarn.settings.log_options import LOG_OPTIONS

RATE_MAX = 1_000_000
"""Maximum requests per second: more than any machine can answer."""

SPEED_MAX = 1_000_000
"""Maximum speed: a day passes in a tenth of a second. Beyond it, notices round to 0."""

VERIFY_TIMES_MAX = 100
"""Maximum of `policy.verify_times`: a thorough check should be one program."""

LOST_LIMIT_MAX = 1_000_000
"""Maximum of the limits of the brake: more VMs than the largest fleet has."""

FIRST_ANSWER_MAX = 2 * MINUTE
FIRST_EVENTS_MAX = 5 * MINUTE
"""Maximum delays, from clause 7.1: two minutes and five minutes."""

LONGEST_WAIT_MAX = 10 * MINUTE
"""Maximum time of one wait for a change: after it, firewalls and proxies drop idle
connections."""

SECTIONS: Mapping[str, type] = {
    "metadata": settings_model.MetadataSettings,
    "admin": settings_model.AdminSettings,
    "store": settings_model.StoreSettings,
    "cluster": settings_model.ClusterSettings,
    "timing": Timing,
    "policy": settings_model.PolicySettings,
    "campaigns": settings_model.CampaignsSettings,
    "brake": BrakeLimits,
    "inventory": settings_model.InventorySettings,
    "driver": settings_model.DriverSettings,
    "driver.simulated": settings_model.SimulatedSettings,
    "driver.command": settings_model.CommandSettings,
    "driver.qemu": settings_model.QemuSettings,
    "driver.libvirt": settings_model.LibvirtSettings,
    "log": settings_model.LogSettings,
}
"""The tables of forewarn.toml, each with its settings class."""

_TABLE: Mapping[str, Option] = {
    "metadata.listen": Option(
        form=Forms.LISTENER,
        may_be_empty=True,
        text="Address of the shared listener: `HOST:PORT`, or `[::1]:8080` for IPv6. It "
        "identifies a VM by its source address. Empty: no shared listener. Each VM then "
        "needs its own listener (`listen` in the fleet file).",
    ),
    "metadata.rate_limit": Option(
        form=Forms.NUMBER,
        most=RATE_MAX,
        text="Maximum requests per second from one VM. Further requests get 429. `0`: no "
        "limit.",
    ),
    "metadata.first_answer_delay": Option(
        form=Forms.DURATION,
        most=FIRST_ANSWER_MAX,
        text="Delay of the first response after a scope is enabled, to imitate Azure.",
    ),
    "metadata.first_events_delay": Option(
        form=Forms.DURATION,
        most=FIRST_EVENTS_MAX,
        text="Time after enabling in which no event is shown, to imitate Azure.",
    ),
    "metadata.disable_after": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="A scope is disabled again after no VM of it has sent a request for this "
        "time.",
    ),
    "metadata.signed_secret_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the secret that a metadata proxy uses to sign `X-Instance-ID`, as "
        "OpenStack's proxy does. Empty: such headers are ignored.",
    ),
    "metadata.push": Option(
        form=Forms.SWITCH,
        text="Whether a VM can ask for a response when its document changes, see "
        "[Extensions of the protocol](extensions.md#push-waiting-for-a-change). "
        "Without quotes: `push = true`.",
    ),
    "metadata.push_longest_wait": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=LONGEST_WAIT_MAX,
        text="Maximum time of one wait for a change. Fractions of a second are ignored.",
    ),
    "metadata.event_details": Option(
        form=Forms.SWITCH,
        text="Whether a VM can ask why its events wait and how its last events ended, "
        "see [Extensions of the "
        "protocol](extensions.md#what-an-event-waits-for-and-how-it-ended). Without "
        "quotes: `event_details = true`.",
    ),
    "admin.listen": Option(
        form=Forms.DOOR,
        text="Address of the operator API: `HOST:PORT`, or `unix:/run/forewarn/api` for a "
        "Unix socket. At a Unix socket, root, the service's user and the members of its "
        "group are operators without a token. For an address other than loopback, "
        "`admin.token_file` is required.",
    ),
    "admin.token_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with one token per line, `TOKEN` or `NAME:TOKEN`. Empty: no token is "
        "needed, and only requests from this machine are accepted. A token has at least "
        "24 characters.",
    ),
    "admin.tls_certificate": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the operator API's certificate and its intermediate certificates, "
        "in PEM. With it, the API uses HTTPS. The service reloads the file when it "
        "changes.",
    ),
    "admin.tls_key": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the private key of that certificate, without a password.",
    ),
    "store.url": Option(
        form=Forms.URL,
        text="`memory://`: nothing survives a restart. `sqlite:///PATH`: a file. With an "
        "absolute path: `sqlite:////var/lib/forewarn/forewarn.db`. "
        "`postgresql://USER@HOST/DATABASE?passfile=FILE`: a database, with a file that "
        "has the password; the URL may have no password.",
    ),
    "store.retention": Option(
        form=Forms.DURATION,
        least=MINUTE,
        text="How long ended operations, their events and their history are kept.",
    ),
    "timing.speed": Option(
        form=Forms.NUMBER,
        least=0.001,
        most=SPEED_MAX,
        text="Divides notices, impacts, recoveries and the maximum hold time, so that a "
        "day fits into a test. Times given in a request and DurationInSeconds are not "
        "divided.",
    ),
    "timing.freeze_notice": Option(
        form=Forms.DURATION,
        text="÷ Minimum time from the notice to NotBefore of a Freeze.",
    ),
    "timing.reboot_notice": Option(
        form=Forms.DURATION,
        text="÷ Minimum time from the notice to NotBefore of a Reboot.",
    ),
    "timing.redeploy_notice": Option(
        form=Forms.DURATION,
        text="÷ Minimum time from the notice to NotBefore of a Redeploy.",
    ),
    "timing.preempt_notice": Option(
        form=Forms.DURATION,
        text="÷ Minimum time from the notice to NotBefore of a Preempt.",
    ),
    "timing.terminate_notice": Option(
        form=Forms.DURATION,
        may_be_empty=True,
        text="÷ Minimum time from the notice to NotBefore of a Terminate. It overrides "
        "the value of each scope in the fleet file. Empty: each scope's value applies. "
        "A scope without a value never has Terminate events.",
    ),
    "timing.failure_notice": Option(
        form=Forms.DURATION,
        text="÷ Time until a predicted failure, if the operator does not give one.",
    ),
    "timing.failure_event": Option(
        form=Forms.EVENT,
        words=("Reboot", "Redeploy"),
        text="Event type of a failure: `Reboot`, or `Redeploy` as on a newer page of "
        "Azure's documentation.",
    ),
    "timing.recovery": Option(
        form=Forms.DURATION,
        text="÷ Time from the end of the impact until the event is removed.",
    ),
    "timing.hold_max": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="÷ Maximum time after NotBefore that routine maintenance is held to protect "
        "fault domains. Then it is cancelled and announced again.",
    ),
    "timing.verify_settle": Option(
        form=Forms.DURATION,
        text="÷ Time over which the host step `verify` must succeed "
        "`policy.verify_times` times in a row.",
    ),
    "policy.hosts_at_once": Option(
        form=Forms.COUNT,
        least=1,
        most=TARGETS_MAX,
        text="How many hosts of one request are announced or maintained at once, unless "
        "the request says otherwise (`--at-once`).",
    ),
    "policy.reserve": Option(
        form=AMOUNT,
        most=RESERVED_HOSTS_MAX,
        text="Free capacity of each pool that routine work leaves for failures: a number "
        "of hosts of the size of the largest one, or a percentage of the pool. A host "
        "whose VMs would use it waits. `0`: no reserve.",
    ),
    "policy.verify_times": Option(
        form=Forms.COUNT,
        least=1,
        most=VERIFY_TIMES_MAX,
        text="Number of successes in a row of the host step `verify`.",
    ),
    "policy.verify_within": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="Maximum time until the host step `verify` has succeeded that often. Then "
        "the visit fails. A host can restart in this time.",
    ),
    "policy.answers_within": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="Maximum time after `work` until the host step `answers` has succeeded. "
        "Then the visit fails.",
    ),
    "campaigns.second_person": Option(
        form=Forms.SWITCH,
        text="Whether an operator cannot approve stages, override checks or loosen terms of "
        "a campaign that this operator started. An emergency campaign then begins when "
        "another operator approves its stage 1, and `maintain --emergency` is refused. "
        "Without quotes: `second_person = true`.",
    ),
    "campaigns.in_flight": Option(
        form=Forms.COUNT,
        most=HOSTS_MAX,
        text="Maximum hosts in flight for all campaigns, including `maintain` of several "
        "hosts. The next host goes to the campaign with the highest `priority`, then to "
        "the oldest. `0`: no limit.",
    ),
    "brake.hosts": Option(
        form=AMOUNT,
        most=LOST_LIMIT_MAX,
        text="Maximum hosts that are lost within `brake.within`: a number, or a percentage "
        "of the fleet, rounded down but at least 1. If one more is lost, the brake comes "
        "on by itself, and announced planned work is withdrawn. `0`: no limit.",
    ),
    "brake.vms": Option(
        form=Forms.COUNT,
        most=LOST_LIMIT_MAX,
        text="The same for VMs, including those of lost hosts. `0`: no limit.",
    ),
    "brake.per_rack": Option(
        form=Forms.COUNT,
        most=LOST_LIMIT_MAX,
        text="The same for the hosts of one rack. `0`: no limit.",
    ),
    "brake.within": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=DAY,
        text="The span in which lost hosts and VMs are counted.",
    ),
    "brake.calm": Option(
        form=Forms.DURATION,
        text="Time without further losses after which a brake that came on by itself is "
        "taken off. `0s`: only an operator takes it off.",
    ),
    **CLUSTER_OPTIONS,
    **INVENTORY_OPTIONS,
    **DRIVER_OPTIONS,
    **QEMU_OPTIONS,
    **LIBVIRT_OPTIONS,
    **LOG_OPTIONS,
}

OPTIONS: Mapping[str, Option] = {
    f"{section}.{field.name}": _TABLE[f"{section}.{field.name}"]
    for section, group in SECTIONS.items()
    for field in fields(group)
}
"""Every setting by its full name, in the order of the file."""
