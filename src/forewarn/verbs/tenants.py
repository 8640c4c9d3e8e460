"""The verbs by which tenants decide when their VMs are maintained."""

from forewarn.verbs.model import Answer, Argument, Entry, Form, Kind, Refusal, Targets
from forewarn.verbs.roles import Role

_SCOPES = Targets(
    kind=Kind.SCOPE, key="scopes", metavar="SCOPE", about="Names of scopes."
)

_NOT_PLANNED = Refusal(
    when="no maintenance of the VM or scope is planned or announced",
    sentences=("no maintenance of … is planned or announced",),
)

TENANT_ENTRIES = (
    Entry(
        name="defer",
        summary="defer the maintenance of VMs or scopes, as their tenant",
        text="Defer the planned and announced maintenance of VMs or scopes. Announced "
        "maintenance is withdrawn without impact. Its host stays in its rollout, and is "
        "announced again later with a full notice. Windows and the maintenance of other "
        "VMs are not affected. With --clear, end a deferral: the maintenance can be "
        "announced at once. The deferral still counts.",
        targets=Targets(
            kind=Kind.VM_OR_SCOPE,
            key="names",
            metavar="VM|SCOPE",
            about="Names of VMs or scopes in the fleet.",
        ),
        arguments=(
            Argument(
                key="until",
                form=Form.MOMENT,
                about="The maintenance does not start before: RFC 3339, such as "
                "2026-11-21T10:00:00+02:00, or +2d from now; at most 7d.",
                typed="A time without an offset, such as 2026-11-21T10:00, is local time.",
                example="+2d",
            ),
            Argument(
                key="clear",
                form=Form.SWITCH,
                about="End the deferral of the VMs or scopes now.",
            ),
            Argument(
                key="kind",
                form=Form.WORD,
                words=("vm", "scope"),
                about="Kind of the names, if a VM and a scope have the same name.",
            ),
        ),
        answer=Answer.CHOICES,
        role=Role.APPROVE,
        for_tenants=True,
        refusals=(
            _NOT_PLANNED,
            Refusal(
                when="a name is that of no VM or scope",
                sentences=("there is no VM or scope …",),
            ),
            Refusal(
                when="a VM and a scope have the name",
                sentences=("… is the name of a VM and of a scope",),
            ),
            Refusal(
                when="the scope has too many VMs",
                sentences=("scope … has more than … VMs",),
            ),
            Refusal(
                when="the time is not within the next 7 days",
                sentences=("… has passed", "maintenance is deferred by at most …"),
            ),
            Refusal(
                when="neither a time nor --clear is given",
                sentences=("give either a time or the end of a deferral",),
            ),
            Refusal(
                when="--clear is given, and it is not deferred",
                sentences=("the maintenance of … is not deferred",),
            ),
            Refusal(
                when="the tenant has deferred the maintenance of its host twice",
                sentences=("the maintenance of VM … was deferred … times",),
            ),
            Refusal(
                when="it begins within an hour, or its notice is half over",
                sentences=(
                    "the maintenance of … begins too soon to defer it: at …",
                    "the maintenance of … can begin at any moment",
                ),
            ),
            Refusal(
                when="it is an emergency repair",
                sentences=("the maintenance of … is an emergency repair",),
            ),
            Refusal(
                when="its rollout has stopped",
                sentences=("the maintenance of … cannot be announced again",),
            ),
        ),
        examples=(
            "forewarn defer web_0 --until +2d --reason 'month end'",
            "forewarn defer web --until 2026-11-23T06:00 --reason 'release'",
            "forewarn defer web_0 --clear --reason 'wrong VM'",
        ),
        body={"names": ["web_0"], "until": "+2d", "reason": "month end"},
    ),
    Entry(
        name="expedite",
        summary="maintain VMs as soon as possible, as their tenant",
        text="Have the planned maintenance of VMs as soon as possible. Their hosts come "
        "before the other hosts of their rollout, or of their stage in a campaign, as "
        "soon as guard and limits allow. The events of their scopes are approved at once, "
        "even if an agent in a VM has not prepared: drain the VMs first. The windows and "
        "deferrals of these scopes do not delay it; those of other tenants on the hosts do.",
        targets=Targets(
            kind=Kind.VM, key="vms", metavar="VM", about="Names of VMs in the fleet."
        ),
        answer=Answer.CHOICES,
        role=Role.APPROVE,
        for_tenants=True,
        refusals=(
            _NOT_PLANNED,
            Refusal(
                when="it is the name of a scope",
                sentences=("… is a scope, whose VMs are expedited one by one",),
            ),
        ),
        examples=("forewarn expedite web_0 web_1 --reason 'drained'",),
        body={"vms": ["web_0"], "reason": "drained"},
    ),
    Entry(
        name="window-set",
        group="window",
        summary="set the maintenance windows of scopes",
        text="Set the maintenance windows of scopes. Maintenance of their VMs starts only "
        "in a window, even after an approval. Announced maintenance keeps to the new "
        "windows too. Emergency repairs ignore windows. A fleet file that changes the "
        "windows of a scope replaces them.",
        targets=_SCOPES,
        arguments=(
            Argument(
                key="windows",
                form=Form.LINES,
                option="--window",
                metavar="'[DAYS] START LENGTH [TIMEZONE]'",
                about="A window: days, local start time, length, and time zone. "
                "Default: all days, and UTC.",
                is_needed=True,
            ),
        ),
        answer=Answer.SCOPES,
        for_tenants=True,
        refusals=(
            Refusal(
                when="a window is not valid",
                sentences=("… is not a window: …",),
            ),
            Refusal(
                when="there are more than 20 windows",
                sentences=("a scope has at most … windows, not …",),
            ),
        ),
        examples=(
            "forewarn window set web --window 'sat,sun 02:00 4h Europe/Berlin'",
            "forewarn window set web db --window '22:00 6h' --reason 'quiet at night'",
        ),
        body={"scopes": ["web"], "windows": ["sat,sun 02:00 4h Europe/Berlin"]},
    ),
    Entry(
        name="window-clear",
        group="window",
        summary="remove the maintenance windows of scopes",
        text="Remove the maintenance windows of scopes: maintenance of their VMs can start "
        "at any time.",
        targets=_SCOPES,
        answer=Answer.SCOPES,
        for_tenants=True,
        refusals=(
            Refusal(
                when="the scope has no window",
                sentences=("scope … has no maintenance window",),
            ),
        ),
        examples=("forewarn window clear web",),
        body={"scopes": ["web"]},
    ),
)
"""In the order in which help lists them."""
