"""The table of verbs: the requests that operators and users can send.

A new verb is an entry here and its decision in `control.requests.verbs`.
"""

from collections.abc import Mapping

from forewarn.verbs.arguments import SHARED
from forewarn.verbs.blackouts import BLACKOUT_ENTRIES
from forewarn.verbs.campaigns import CAMPAIGN_ENTRIES, EMERGENCY_ALONE
from forewarn.verbs.hosts import (
    HOST_ENTRIES,
    HOSTS,
    UNABLE_HOST,
    UNABLE_VM,
    UNFIT_HOST,
    UNFIT_TOGETHER,
)
from forewarn.verbs.model import (
    TARGETS_MAX,
    Answer,
    Argument,
    Entry,
    Form,
    Kind,
    Refusal,
    Targets,
)
from forewarn.verbs.roles import Role
from forewarn.verbs.tenants import TENANT_ENTRIES
from forewarn.verbs.visits import STEP_REFUSALS, STEPS, VISIT_ENTRIES

_VMS = Targets(
    kind=Kind.VM, key="vms", metavar="VM", about="Names of VMs in the fleet."
)
_EITHER = Targets(
    kind=Kind.EITHER,
    key="names",
    metavar="HOST|VM",
    about="Names of hosts or VMs in the fleet.",
)

# Arguments

_KIND = Argument(
    key="kind",
    form=Form.WORD,
    words=("host", "vm"),
    about="Kind of the names, if a host and a VM have the same name.",
)

# Refusals

SHARED_REFUSALS = (
    Refusal(
        when="a name is unknown",
        sentences=("there is no … …", "there is no host or VM …"),
    ),
    Refusal(
        when="the VM was deleted by an earlier request", sentences=("VM … was deleted",)
    ),
    Refusal(when="no target is named", sentences=("name at least one …",)),
    Refusal(when="a target is named twice", sentences=("… … is named twice",)),
    Refusal(
        when=f"more than {TARGETS_MAX:,} targets are named",
        sentences=("one request can name at most … …, not …",),
    ),
    Refusal(
        when="NotBefore gives less than the minimum notice",
        sentences=("… needs a notice of at least …",),
    ),
    Refusal(
        when="the driver does not support the action",
        sentences=("the driver of this service does not support …",),
    ),
)
"""Refusals of several verbs."""

_UNDER_WAY = Refusal(
    when="the VM already has the same request, or a deletion",
    sentences=("VM … already has operation … (…, …)",),
)
_IN_HAND = Refusal(
    when="the driver works on the VM",
    sentences=("VM … is busy: operation … (…) is running on it",),
)
_BUSY = (_UNDER_WAY, _IN_HAND)
_BOTH = Refusal(
    when="a host and a VM have the name",
    sentences=("… is the name of a host and of a VM",),
)
_NOT_SCALE_SET = Refusal(
    when="the VM is not in a scale set",
    sentences=("VM … is not a scale-set instance: scope … is of kind …",),
)
_VM_DOWN = Refusal(when="the VM is down", sentences=("VM … is down",))

_BOTH_HALVES = (
    "scopes without os_image_notice, and VMs that are not memory_preserving, get no "
    "notice of "
)


def _of_vms(*names: str, **more: object) -> Mapping[str, object]:
    return {"vms": list(names), "reason": "a ticket of theirs", **more}


_ENTRIES = (
    Entry(
        name="maintain",
        summary="maintain hosts, with notice to their VMs",
        text="Maintain hosts. Several hosts are one rollout: they are announced one after "
        "the other, each with a full notice. Each starts when its tenants have approved, "
        "or at NotBefore, if the guard of fault domains allows it. If one fails, the "
        "rollout stops and announces no further hosts. The verbs of campaigns show and "
        "steer a rollout of several hosts by its ID.",
        targets=HOSTS,
        arguments=(
            Argument(
                key="impact",
                form=Form.WORD,
                is_needed=True,
                words=("freeze", "live-migrate", "reboot", "redeploy", "none"),
                about="Effect of the maintenance on the VMs of the hosts. With none, "
                "only host steps run, and the VMs get no event.",
            ),
            *STEPS,
            Argument(
                key="emergency",
                form=Form.SWITCH,
                about="Describe the events as emergency repair, and ignore windows.",
                role=Role.EMERGENCY,
            ),
            Argument(
                key="at_once",
                form=Form.COUNT,
                about="Maximum hosts that are announced or running at once. Default: the "
                "setting policy.hosts_at_once of the service.",
            ),
            Argument(
                key="in_flight",
                form=Form.COUNT,
                about="The same as at_once, by its name in campaigns.",
            ),
            *SHARED,
        ),
        refusals=(
            Refusal(
                when="several hosts must be emptied (live-migrate, redeploy), and none of "
                "them can be",
                sentences=("none of these … hosts can be emptied: …",),
            ),
            Refusal(
                when="the host must be emptied, and a VM on it has movable = false",
                sentences=("host … cannot be emptied: VM … cannot be moved",),
            ),
            UNABLE_HOST,
            Refusal(
                when="a single host has two fault domains of a scope, and the impact is "
                "not live-migrate",
                sentences=("host … cannot be maintained this way",),
            ),
            *UNFIT_TOGETHER,
            *STEP_REFUSALS,
            Refusal(
                when="at_once and in_flight are given",
                sentences=("give `at_once` or `in_flight`, not both",),
            ),
            Refusal(
                when="the impact is not one of the five",
                sentences=("maintenance cannot have the impact …",),
            ),
            EMERGENCY_ALONE,
        ),
        examples=(
            "forewarn maintain h1 h2 --impact live-migrate --reason 'firmware 2.4'",
            "forewarn maintain h1 h2 h3 --impact reboot --at-once 2",
            "forewarn maintain h1 --impact freeze --duration 5s --not-before +1h",
            (
                "forewarn maintain h1 --impact live-migrate --work flash:version=2.19 "
                "--verify flashed:version=2.19"
            ),
        ),
        body={
            "hosts": ["h1", "h2"],
            "impact": "live-migrate",
            "not_before": "+1h",
            "at_once": 1,
            "reason": "firmware 2.4",
        },
    ),
    Entry(
        name="reboot",
        summary="restart VMs, as their user",
        text="Restart VMs as a request of their user. Each waits for the approval of its "
        "scope or for NotBefore, unless the scope approves automatically or has not "
        "enabled Scheduled Events.",
        targets=_VMS,
        arguments=SHARED,
        for_tenants=True,
        refusals=(
            Refusal(
                when="the VM's host is down",
                sentences=("cannot restart VM …: its host … is down",),
            ),
            Refusal(
                when="a tenant requests it, and the host is down",
                sentences=("cannot restart VM …: its host is down",),
            ),
            UNABLE_VM,
            *_BUSY,
        ),
        examples=("forewarn reboot web_0",),
        body=_of_vms("web_0", "web_1"),
    ),
    Entry(
        name="redeploy",
        summary="move VMs to other hosts, as their user",
        text="Move VMs to other hosts as a request of their user. Ephemeral disks are lost.",
        targets=_VMS,
        arguments=SHARED,
        for_tenants=True,
        refusals=(
            Refusal(
                when="the VM has movable = false in the fleet file",
                sentences=("VM … cannot be moved to another host",),
            ),
            UNABLE_VM,
            *_BUSY,
        ),
        examples=("forewarn redeploy web_0",),
        body=_of_vms("web_0", "web_1"),
    ),
    Entry(
        name="evict",
        summary="delete Spot VMs after a short notice",
        text="Evict Spot VMs: they are deleted after the notice of a Preempt.",
        targets=_VMS,
        arguments=SHARED,
        refusals=(
            Refusal(
                when="the VM is not a Spot VM", sentences=("VM … is not a Spot VM",)
            ),
            *_BUSY,
        ),
        examples=("forewarn evict spot_3",),
        body=_of_vms("spot_3"),
    ),
    Entry(
        name="terminate",
        summary="delete VMs together",
        text="Delete VMs. They have one NotBefore, and none is deleted before all are "
        "approved or due. Spot VMs, and scopes without terminate_notice, get no notice: "
        "`forewarn evict` gives a Spot VM the notice of a Preempt.",
        targets=_VMS,
        arguments=SHARED,
        for_tenants=True,
        refusals=_BUSY,
        examples=("forewarn terminate db_1 db_2 --reason 'scaled in'",),
        body=_of_vms("db_1", "db_2"),
        without_notice="Spot VMs, and scopes without terminate_notice, get no notice of "
        "a deletion; `forewarn evict VM` gives a Spot VM the notice of a Preempt",
    ),
    Entry(
        name="upgrade-os",
        summary="upgrade the guest OS of scale-set instances",
        text="Upgrade the guest OS of scale-set instances, one fault domain at a time.",
        targets=_VMS,
        arguments=SHARED,
        refusals=(_NOT_SCALE_SET, _VM_DOWN, UNABLE_VM, *_BUSY),
        examples=("forewarn upgrade-os db_1 db_2",),
        body=_of_vms("db_1", "db_2"),
        without_notice=f"{_BOTH_HALVES}an upgrade",
    ),
    Entry(
        name="reimage",
        summary="recreate scale-set instances from their image",
        text="Recreate the disks of scale-set instances from their image, one fault domain "
        "at a time.",
        targets=_VMS,
        arguments=SHARED,
        refusals=(_NOT_SCALE_SET, _VM_DOWN, UNABLE_VM, *_BUSY),
        examples=("forewarn reimage db_1",),
        body=_of_vms("db_1"),
        without_notice=f"{_BOTH_HALVES}a reimage",
    ),
    Entry(
        name="fail",
        summary="record that hosts or VMs are down",
        text="Record that hosts or VMs are down. Their VMs see a Started event at once. "
        "Scheduled operations there are cancelled.",
        targets=_EITHER,
        arguments=(_KIND,),
        role=Role.EMERGENCY,
        refusals=(
            Refusal(
                when="it is already down",
                sentences=("host … is already down", "VM … is already down"),
            ),
            _BOTH,
        ),
        examples=("forewarn fail h1", "forewarn fail web_0 --kind vm"),
        body={"names": ["h1"]},
    ),
    Entry(
        name="restore",
        summary="record that hosts or VMs are up again",
        text="Record that hosts or VMs are up again. The events of their failures are "
        "removed.",
        targets=_EITHER,
        arguments=(_KIND,),
        answer=Answer.RESTORED,
        role=Role.EMERGENCY,
        refusals=(
            Refusal(
                when="it is not down",
                sentences=("host … is not down", "VM … is not down"),
            ),
            Refusal(
                when="the VM's host is down",
                sentences=("VM … cannot run: its host … is down",),
            ),
            _BOTH,
        ),
        examples=("forewarn restore h1", "forewarn restore web_0 web_1"),
        body={"names": ["h1"]},
    ),
    Entry(
        name="predict-failure",
        summary="announce that hosts will fail",
        text="Announce that hosts will fail. Each of their VMs gets an event, and moves "
        "early if it approves.",
        targets=HOSTS,
        arguments=(
            Argument(
                key="in",
                form=Form.DURATION,
                about="Notice, instead of a NotBefore. Default: the setting "
                "timing.failure_notice of the service, usually 7d.",
                example="3d",
            ),
            *SHARED,
        ),
        refusals=(
            Refusal(
                when="the notice is shorter than that of a Redeploy",
                sentences=("a Redeploy needs a notice of at least …",),
            ),
            Refusal(when="the host has no VM", sentences=("host … has no VMs",)),
            *UNFIT_HOST,
        ),
        examples=("forewarn predict-failure h1 --in 3d",),
        body={"hosts": ["h1"], "in": "3d"},
    ),
    *HOST_ENTRIES,
    *TENANT_ENTRIES,
    *CAMPAIGN_ENTRIES,
    *BLACKOUT_ENTRIES,
    *VISIT_ENTRIES,
    Entry(
        name="cancel",
        summary="cancel operations that have not started",
        text="Cancel operations, and the operations of a rollout or request that have "
        "not started. They are removed without impact. Started is the point of no return.",
        targets=Targets(
            kind=Kind.WORK,
            key="names",
            metavar="OPERATION|ROLLOUT",
            about="IDs of operations, rollouts or other requests, such as "
            "op-w2147h2k9m4x3qa8.",
        ),
        answer=Answer.CANCELLED,
        for_tenants=True,
        refusals=(
            Refusal(
                when="it has started or ended",
                sentences=(
                    "… has started and cannot be cancelled",
                    "… is already …",
                ),
            ),
            Refusal(
                when="no operation of the request can be cancelled",
                sentences=("no operation of … can be cancelled: …",),
            ),
            Refusal(
                when="it is the rollout of a campaign that has not ended",
                sentences=("… is the rollout of campaign …, which is …",),
            ),
            Refusal(
                when="the tenant did not request it",
                sentences=("tenant … did not request …",),
            ),
        ),
        examples=("forewarn cancel op-w2147h2k9m4x3qa8 --reason 'the part is late'",),
        body={"names": ["op-w2147h2k9m4x3qa8"]},
    ),
    Entry(
        name="approve",
        summary="approve events",
        text="Approve events as an operator or tenant, or on behalf of a VM that sees "
        "them.",
        targets=Targets(
            kind=Kind.EVENT,
            key="event_ids",
            metavar="EVENT_ID",
            about="GUIDs of events, in upper or lower case.",
        ),
        arguments=(
            Argument(
                key="as_vm",
                form=Form.NAME,
                option="--as",
                metavar="VM",
                about="Approve on behalf of this VM, which must see the events.",
            ),
        ),
        answer=Answer.APPROVED,
        role=Role.APPROVE,
        for_tenants=True,
        refusals=(
            Refusal(
                when="that VM does not see the event",
                sentences=("VM … cannot approve it: …",),
            ),
        ),
        examples=("forewarn approve C7061BAC-AFDC-4513-B24B-AA5F13A16123 --as web_0",),
        body={"event_ids": ["C7061BAC-AFDC-4513-B24B-AA5F13A16123"]},
    ),
    Entry(
        name="resolve",
        summary="set the outcome of an operation when the driver does not know it",
        text="Set the outcome of an operation when the driver does not know it. Check its "
        "VMs first: the operation is never repeated automatically.",
        targets=Targets(
            kind=Kind.WORK,
            key="operation",
            metavar="OPERATION",
            about="ID of the operation.",
            is_list=False,
        ),
        arguments=(
            Argument(
                key="outcome",
                form=Form.WORD,
                option="outcome",
                is_needed=True,
                words=("done", "failed"),
                about="The outcome that you observed.",
            ),
            Argument(
                key="down",
                form=Form.NAMES,
                metavar="VM",
                about="With `failed`: its VMs that do not run.",
            ),
            Argument(
                key="moved",
                form=Form.LINES,
                metavar="VM=HOST",
                about="With `done`: a VM and its host, if the driver chose the host.",
            ),
        ),
        answer=Answer.OPERATION,
        refusals=(
            Refusal(
                when="the outcome is not unknown",
                sentences=("cannot resolve …: its outcome is not unknown (state …)",),
            ),
            Refusal(
                when="a VM is not part of the operation",
                sentences=("VM … is not part of …",),
            ),
            Refusal(
                when="the outcome is done, and VMs are down",
                sentences=(
                    "outcome done cannot be combined with VMs that are down; use failed",
                ),
            ),
            Refusal(
                when="the host of a moved VM is missing or wrong",
                sentences=(
                    "the host that VM … is on now is not known",
                    "… is not a VM and its host",
                    "the driver does not choose the hosts of this operation's VMs",
                    "VMs that have moved need the outcome done",
                    "VM … has not left host …",
                ),
            ),
        ),
        examples=(
            "forewarn resolve op-w2147h2k9m4x3qa8 failed --down web_0",
            "forewarn resolve op-w2147h2k9m4x3qa8 done --moved web_0=h3",
        ),
        body={"operation": "op-w2147h2k9m4x3qa8", "outcome": "done"},
    ),
)

VERBS: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""Every verb by its name, in the order in which help lists them."""
