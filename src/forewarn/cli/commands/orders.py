"""The commands that order something."""

from forewarn.cli.command_table import CLIENT, REASON, Command, Option

_VMS = Option(name="vm", metavar="VM", many=True, help="Names of VMs in the fleet.")
_NOT_BEFORE = Option(
    name="--not-before",
    metavar="TIME|+DURATION",
    help="NotBefore: it starts then, or earlier if all whom it concerns approve. "
    "2026-11-21T10:00:00Z, with any offset such as +02:00; "
    "2026-11-21T10:00 in the local time of this machine; or +30m from now. Never with "
    "less than the least notice.",
)
_DESCRIPTION = Option(
    name="--description",
    metavar="TEXT",
    may_be_empty=True,
    help="Description of the events, instead of the usual one.",
)
_ALL = Option(
    name="--all",
    is_flag=True,
    help="Print a row for each VM too, with the event that it is told of.",
)
_WISHES = (_NOT_BEFORE, _DESCRIPTION, REASON, _ALL, *CLIENT)
_ORDER = "forewarn.cli.orders:order"

_KIND = Option(
    name="--kind",
    choices=("host", "vm"),
    help="Which is meant, where a host and a VM share the name.",
)


def _of_vms(name: str, summary: str, text: str, *examples: str) -> Command:
    return Command(
        path=(name,),
        summary=summary,
        text=text,
        run=_ORDER,
        options=(_VMS, *_WISHES),
        examples=examples,
    )


ORDERS = (
    Command(
        path=("maintain",),
        summary="maintain hosts, with notice to their VMs",
        text="Maintain hosts. Several hosts are one rollout. They are announced one after "
        "the other, each with a full notice when its turn comes. Each starts when its "
        "tenants have approved or at NotBefore, as the guard of fault domains allows. A "
        "failed one stops the rollout before the next announcement.",
        run="forewarn.cli.orders:maintain",
        options=(
            Option(name="host", metavar="HOST", many=True, help="Names of hosts."),
            Option(
                name="--impact",
                is_needed=True,
                choices=("freeze", "live-migrate", "reboot", "redeploy"),
                help="What the maintenance does to the hosts' VMs.",
            ),
            Option(
                name="--duration",
                metavar="DURATION",
                help="How long each VM is interrupted: 5s, or whole seconds without a unit; "
                "-1 is unknown.",
            ),
            Option(
                name="--emergency",
                is_flag=True,
                help="It is an emergency repair: the events' description says so.",
            ),
            Option(
                name="--at-once",
                metavar="N",
                help="How many of the hosts are announced or worked on at once; without "
                "it, the service's setting policy.hosts_at_once.",
            ),
            *_WISHES,
        ),
        examples=(
            "forewarn maintain h1 h2 --impact live-migrate --reason 'firmware 2.4'",
            "forewarn maintain h1 h2 h3 --impact reboot --at-once 2",
            "forewarn maintain h1 --impact freeze --duration 5s --not-before +1h",
        ),
    ),
    _of_vms(
        "reboot",
        "restart VMs as their user would",
        "Restart VMs on their user's order. Each waits for its scope's approval or for "
        "NotBefore, unless the scope approves by itself or does not listen.",
        "forewarn reboot web_0",
    ),
    _of_vms(
        "redeploy",
        "move VMs to other hosts as their user would",
        "Move VMs to other hosts on their user's order; ephemeral disks are lost.",
        "forewarn redeploy web_0",
    ),
    _of_vms(
        "evict",
        "delete Spot VMs after a short notice",
        "Evict Spot VMs: they are deleted after a Preempt's notice.",
        "forewarn evict spot_3",
    ),
    _of_vms(
        "terminate",
        "delete VMs together",
        "Delete VMs: one request, one NotBefore, and none is deleted before all are "
        "approved or due. Spot VMs, and scopes without terminate_notice, get no notice: "
        "`forewarn evict` gives a Spot VM the notice of a Preempt.",
        "forewarn terminate db_1 db_2 --reason 'scaled in'",
    ),
    _of_vms(
        "upgrade-os",
        "upgrade the guest OS of scale-set instances",
        "Upgrade the guest OS of scale-set instances, one fault domain at a time.",
        "forewarn upgrade-os db_1 db_2",
    ),
    _of_vms(
        "reimage",
        "make scale-set instances anew from their image",
        "Make the disks of scale-set instances anew, one fault domain at a time.",
        "forewarn reimage db_1",
    ),
    Command(
        path=("fail",),
        summary="say that a host or VM is down now",
        text="Say that a host or a VM is down. Its VMs see Started at once; what was "
        "scheduled there is cancelled.",
        run="forewarn.cli.orders:fail",
        options=(
            Option(name="name", metavar="HOST|VM", help="What is down."),
            _KIND,
            REASON,
            _ALL,
            *CLIENT,
        ),
        examples=("forewarn fail h1", "forewarn fail web_0 --kind vm"),
    ),
    Command(
        path=("restore",),
        summary="say that a host or VM is up again",
        text="Say that a host or a VM is up again: the failure's events go.",
        run="forewarn.cli.orders:restore",
        options=(
            Option(name="name", metavar="HOST|VM", help="What is up again."),
            _KIND,
            REASON,
            *CLIENT,
        ),
        examples=("forewarn restore h1",),
    ),
    Command(
        path=("predict-failure",),
        summary="announce that a host will fail",
        text="Announce that a host will fail: each of its VMs is told to leave, and "
        "goes early if it approves.",
        run="forewarn.cli.orders:predict_failure",
        options=(
            Option(name="host", metavar="HOST", help="The host."),
            Option(
                name="--in",
                metavar="DURATION",
                help="How far ahead; else [timing] failure_notice, 7d.",
            ),
            _DESCRIPTION,
            REASON,
            _ALL,
            *CLIENT,
        ),
        examples=("forewarn predict-failure h1 --in 3d",),
    ),
    Command(
        path=("cancel",),
        summary="cancel what has not started",
        text="Cancel an operation, or all of a rollout that has not started. It is "
        "removed without impact; Started is the point of no return.",
        run="forewarn.cli.orders:cancel",
        options=(
            Option(
                name="id",
                metavar="OPERATION|ROLLOUT",
                help="Such as op-w2147h2k9m4x3qa8.",
            ),
            REASON,
            *CLIENT,
        ),
        examples=("forewarn cancel op-w2147h2k9m4x3qa8 --reason 'the part is late'",),
    ),
    Command(
        path=("approve",),
        summary="approve an event",
        text="Approve an event on your own word, or in the place of a VM that sees it.",
        run="forewarn.cli.orders:approve",
        options=(
            Option(name="event", metavar="EVENT_ID", help="The event's GUID."),
            Option(name="--as", metavar="VM", help="Approve in the place of this VM."),
            REASON,
            *CLIENT,
        ),
        examples=("forewarn approve C7061BAC-AFDC-4513-B24B-AA5F13A16123 --as web_0",),
    ),
    Command(
        path=("resolve",),
        summary="say how an operation ended that nobody knows of",
        text="Say what became of an operation whose outcome the driver does not know. "
        "Look at its VMs first: it is never done again by itself.",
        run="forewarn.cli.orders:resolve",
        options=(
            Option(name="operation", metavar="OPERATION", help="The operation's id."),
            Option(
                name="outcome", choices=("done", "failed"), help="What you have seen."
            ),
            Option(
                name="--down",
                metavar="VM",
                repeated=True,
                help="With `failed`: a VM of it that does not run.",
            ),
            REASON,
            *CLIENT,
        ),
        examples=("forewarn resolve op-w2147h2k9m4x3qa8 failed --down web_0",),
    ),
)
