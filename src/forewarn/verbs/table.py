"""The table of verbs: what operators and users can order.

A new verb is an entry here and its decision in `control.requests.verbs`.
"""

from collections.abc import Mapping

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

# Targets

_HOSTS = Targets(
    kind=Kind.HOST, key="hosts", metavar="HOST", about="Names of hosts in the fleet."
)
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

REASON = Argument(
    key="reason",
    form=Form.TEXT,
    about="Why; it is kept in the history of what the order causes.",
)
NOT_BEFORE = Argument(
    key="not_before",
    form=Form.MOMENT,
    about="NotBefore: it starts then, or earlier if all whom it concerns approve. "
    "RFC 3339, such as 2026-11-21T10:00:00+02:00, or +30m from now. Never with less "
    "than the least notice.",
    typed="A time without an offset, 2026-11-21T10:00, is in the local time of this "
    "machine.",
    example="+30m",
)
DURATION = Argument(
    key="duration",
    form=Form.SECONDS,
    metavar="DURATION",
    about="DurationInSeconds of the events: 5s, or whole seconds without a unit; -1 is "
    "unknown.",
    example="5s",
)
DESCRIPTION = Argument(
    key="description",
    form=Form.TEXT,
    about="Description of the events, instead of the usual one.",
)
_SHARED = (NOT_BEFORE, DURATION, DESCRIPTION)

_KIND = Argument(
    key="kind",
    form=Form.WORD,
    words=("host", "vm"),
    about="Which is meant, if a host and a VM share the name.",
)

# Refusals

SHARED_REFUSALS = (
    Refusal(
        when="a name is unknown",
        sentences=("there is no … …", "there is no host or vm …"),
    ),
    Refusal(
        when="the VM was deleted by an earlier order", sentences=("vm … was deleted",)
    ),
    Refusal(when="nothing is named", sentences=("name at least one …",)),
    Refusal(when="something is named twice", sentences=("… … is named twice",)),
    Refusal(
        when=f"more than {TARGETS_MAX:,} are named",
        sentences=("one order takes at most … …s",),
    ),
    Refusal(
        when="a time given by hand leaves less than the least notice",
        sentences=("… needs a notice of at least … (5.1)",),
    ),
    Refusal(
        when="the driver has no way to do it",
        sentences=("the driver of this service cannot …",),
    ),
)
"""What several verbs refuse."""

_UNDER_WAY = Refusal(
    when="the same order waits already, or it is being deleted",
    sentences=("vm … has … (…, …) under way",),
)
_IN_HAND = Refusal(
    when="the driver works on it", sentences=("vm … is in the hands of … (…)",)
)
_BUSY = (_UNDER_WAY, _IN_HAND)
_HOST_DOWN = Refusal(when="the host is down", sentences=("host … is down",))
_HOST_IN_USE = Refusal(
    when="it is under, or before, other maintenance",
    sentences=("host … has … (…, …) under way",),
)
_EXPECTS_VM = Refusal(
    when="a VM is being moved to it",
    sentences=("vm … is on its way to host …: it would get no notice",),
)
_BOTH = Refusal(
    when="a host and a VM have the name",
    sentences=("… is the name of a host and of a VM",),
)
_NOT_SCALE_SET = Refusal(
    when="the VM is in no scale set",
    sentences=("vm … is not a scale-set instance: scope … is of kind …",),
)
_VM_DOWN = Refusal(when="it does not run", sentences=("vm … is down",))

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
        text="Maintain hosts. Several hosts are one rollout. They are announced one after "
        "the other, each with a full notice when its turn comes. Each starts when its "
        "tenants have approved or at NotBefore, as the guard of fault domains allows. A "
        "failed one stops the rollout before the next announcement.",
        targets=_HOSTS,
        arguments=(
            Argument(
                key="impact",
                form=Form.WORD,
                is_needed=True,
                words=("freeze", "live-migrate", "reboot", "redeploy"),
                about="What the maintenance does to the hosts' VMs.",
            ),
            Argument(
                key="emergency",
                form=Form.SWITCH,
                about="It is an emergency repair: the events' description says so.",
            ),
            Argument(
                key="at_once",
                form=Form.COUNT,
                about="How many of the hosts are announced or worked on at once; without "
                "it, the service's setting policy.hosts_at_once.",
            ),
            *_SHARED,
        ),
        refusals=(
            Refusal(
                when="several hosts are to be emptied (live-migrate, redeploy), and it is "
                "sure that none of them can be",
                sentences=("none of these … hosts can be emptied: …",),
            ),
            _HOST_DOWN,
            _HOST_IN_USE,
            _EXPECTS_VM,
            Refusal(
                when="the impact is none of the four",
                sentences=("maintenance has no impact …",),
            ),
        ),
        examples=(
            "forewarn maintain h1 h2 --impact live-migrate --reason 'firmware 2.4'",
            "forewarn maintain h1 h2 h3 --impact reboot --at-once 2",
            "forewarn maintain h1 --impact freeze --duration 5s --not-before +1h",
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
        summary="restart VMs as their user would",
        text="Restart VMs on their user's order. Each waits for its scope's approval or "
        "for NotBefore, unless the scope approves by itself or does not listen.",
        targets=_VMS,
        arguments=_SHARED,
        for_tenants=True,
        refusals=(
            Refusal(
                when="the VM's host is down",
                sentences=("vm … cannot be restarted: its host … is down",),
            ),
            Refusal(
                when="a tenant's token orders it, and the host is down",
                sentences=("vm … cannot be restarted: what it runs on is down",),
            ),
            *_BUSY,
        ),
        examples=("forewarn reboot web_0",),
        body=_of_vms("web_0", "web_1"),
    ),
    Entry(
        name="redeploy",
        summary="move VMs to other hosts as their user would",
        text="Move VMs to other hosts on their user's order; ephemeral disks are lost.",
        targets=_VMS,
        arguments=_SHARED,
        for_tenants=True,
        refusals=_BUSY,
        examples=("forewarn redeploy web_0",),
        body=_of_vms("web_0", "web_1"),
    ),
    Entry(
        name="evict",
        summary="delete Spot VMs after a short notice",
        text="Evict Spot VMs: they are deleted after a Preempt's notice.",
        targets=_VMS,
        arguments=_SHARED,
        refusals=(
            Refusal(when="it is no Spot VM", sentences=("vm … is not a Spot VM",)),
            *_BUSY,
        ),
        examples=("forewarn evict spot_3",),
        body=_of_vms("spot_3"),
    ),
    Entry(
        name="terminate",
        summary="delete VMs together",
        text="Delete VMs: one request, one NotBefore, and none is deleted before all are "
        "approved or due. Spot VMs, and scopes without terminate_notice, get no notice: "
        "`forewarn evict` gives a Spot VM the notice of a Preempt.",
        targets=_VMS,
        arguments=_SHARED,
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
        arguments=_SHARED,
        refusals=(_NOT_SCALE_SET, _VM_DOWN, *_BUSY),
        examples=("forewarn upgrade-os db_1 db_2",),
        body=_of_vms("db_1", "db_2"),
        without_notice=f"{_BOTH_HALVES}an upgrade",
    ),
    Entry(
        name="reimage",
        summary="make scale-set instances anew from their image",
        text="Make the disks of scale-set instances anew from their image, one fault "
        "domain at a time.",
        targets=_VMS,
        arguments=_SHARED,
        refusals=(_NOT_SCALE_SET, _VM_DOWN, *_BUSY),
        examples=("forewarn reimage db_1",),
        body=_of_vms("db_1"),
        without_notice=f"{_BOTH_HALVES}a reimage",
    ),
    Entry(
        name="fail",
        summary="say that hosts or VMs are down now",
        text="Say that hosts or VMs are down. Their VMs see Started at once; what was "
        "scheduled there is cancelled.",
        targets=_EITHER,
        arguments=(_KIND,),
        refusals=(
            Refusal(
                when="it is known to be down",
                sentences=("host … is down already", "vm … is down already"),
            ),
            _BOTH,
        ),
        examples=("forewarn fail h1", "forewarn fail web_0 --kind vm"),
        body={"names": ["h1"]},
    ),
    Entry(
        name="restore",
        summary="say that hosts or VMs are up again",
        text="Say that hosts or VMs are up again: the events of their failures go.",
        targets=_EITHER,
        arguments=(_KIND,),
        answer=Answer.RESTORED,
        refusals=(
            Refusal(
                when="it was not down",
                sentences=("host … is not down", "vm … is not down"),
            ),
            Refusal(
                when="the VM's host is down",
                sentences=("vm … cannot run: its host … is down",),
            ),
            _BOTH,
        ),
        examples=("forewarn restore h1", "forewarn restore web_0 web_1"),
        body={"names": ["h1"]},
    ),
    Entry(
        name="predict-failure",
        summary="announce that hosts will fail",
        text="Announce that hosts will fail: each of their VMs is told to leave, and "
        "goes early if it approves.",
        targets=_HOSTS,
        arguments=(
            Argument(
                key="in",
                form=Form.DURATION,
                about="How far ahead, instead of a NotBefore; without either, the "
                "service's setting timing.failure_notice, usually 7d.",
                example="3d",
            ),
            *_SHARED,
        ),
        refusals=(
            Refusal(
                when="the notice is shorter than a Redeploy's",
                sentences=("a Redeploy needs a notice of at least … (5.1)",),
            ),
            Refusal(
                when="no VM is on the host", sentences=("host … has no VMs to be told",)
            ),
            _HOST_DOWN,
            _HOST_IN_USE,
            _EXPECTS_VM,
        ),
        examples=("forewarn predict-failure h1 --in 3d",),
        body={"hosts": ["h1"], "in": "3d"},
    ),
    Entry(
        name="cancel",
        summary="cancel what has not started",
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
                    "… has started, which is its point of no return",
                    "… is … already",
                ),
            ),
            Refusal(
                when="nothing of the request can be cancelled",
                sentences=("nothing of … can be cancelled: …",),
            ),
            Refusal(
                when="a tenant's token did not order it",
                sentences=("… was not ordered by tenant …",),
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
        for_tenants=True,
        refusals=(
            Refusal(
                when="that VM does not see the event",
                sentences=("vm … may not approve it: …",),
            ),
        ),
        examples=("forewarn approve C7061BAC-AFDC-4513-B24B-AA5F13A16123 --as web_0",),
        body={"event_ids": ["C7061BAC-AFDC-4513-B24B-AA5F13A16123"]},
    ),
    Entry(
        name="resolve",
        summary="say how an operation ended that nobody knows of",
        text="Say what became of an operation whose outcome the driver does not know. "
        "Look at its VMs first: it is never done again by itself.",
        targets=Targets(
            kind=Kind.WORK,
            key="operation",
            metavar="OPERATION",
            about="The operation's ID.",
            is_list=False,
        ),
        arguments=(
            Argument(
                key="outcome",
                form=Form.WORD,
                option="outcome",
                is_needed=True,
                words=("done", "failed"),
                about="What you have seen.",
            ),
            Argument(
                key="down",
                form=Form.NAMES,
                metavar="VM",
                about="With `failed`: VMs of it that do not run.",
            ),
        ),
        answer=Answer.OPERATION,
        refusals=(
            Refusal(
                when="the outcome is not unknown",
                sentences=("the outcome of … is not unknown: it is …",),
            ),
            Refusal(
                when="a VM is not the operation's",
                sentences=("vm … is not part of …",),
            ),
            Refusal(
                when="both are said",
                sentences=("what is done leaves no VM down: say failed",),
            ),
        ),
        examples=("forewarn resolve op-w2147h2k9m4x3qa8 failed --down web_0",),
        body={"operation": "op-w2147h2k9m4x3qa8", "outcome": "done"},
    ),
)

VERBS: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""Every verb by its name, in the order in which help lists them."""
