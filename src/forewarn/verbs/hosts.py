"""The verbs of the command `forewarn host`: which hosts take new VMs."""

from forewarn.verbs.arguments import SHARED
from forewarn.verbs.model import Answer, Argument, Entry, Form, Kind, Refusal, Targets

HOSTS = Targets(
    kind=Kind.HOST, key="hosts", metavar="HOST", about="Names of hosts in the fleet."
)

UNABLE_HOST = Refusal(
    when="the driver told that the impact is not possible on the host or for a VM on it",
    sentences=("host … cannot be maintained with the impact …",),
)
UNABLE_VM = Refusal(
    when="the driver told that this is not possible for the VM or on its host",
    sentences=("… of VM … is not possible",),
)
UNFIT_HOST = (
    Refusal(when="the host is down", sentences=("host … is down",)),
    Refusal(
        when="the host has other announced or running maintenance",
        sentences=("host … already has operation … (…, …)",),
    ),
    Refusal(
        when="a VM is moving to the host",
        sentences=("VM … is moving to host … and would get no notice",),
    ),
)
UNFIT_TOGETHER = (
    *UNFIT_HOST,
    Refusal(
        when="several hosts are named, and this one has failed in a campaign that has not "
        "ended",
        sentences=("host … has failed in campaign …",),
    ),
)
"""Refusals of hosts that are worked on one after the other, as a campaign."""

HOST_ENTRIES = (
    Entry(
        name="host-cordon",
        group="host",
        summary="cordon hosts, so that they take no new VM",
        text="Cordon hosts. A cordoned host takes no new VM: no redeploy and no live "
        "migration places one there. Its VMs stay. A cordon belongs to its requester, and "
        "a host is open when no cordon is left.",
        targets=HOSTS,
        answer=Answer.HOSTS,
        refusals=(
            Refusal(
                when="the requester has already cordoned the host",
                sentences=("host … is already cordoned by …",),
            ),
        ),
        examples=("forewarn host cordon h1 h2 --reason 'bad DIMM'",),
        body={"hosts": ["h1"], "reason": "bad DIMM"},
    ),
    Entry(
        name="host-open",
        group="host",
        summary="open cordoned hosts to new VMs",
        text="Remove the requester's cordons from hosts, and those of campaigns that have ended "
        "or have skipped the host. Operations that wait for capacity are checked at once.",
        targets=HOSTS,
        arguments=(
            Argument(
                key="all_owners",
                form=Form.SWITCH,
                about="Also remove the cordons of others.",
            ),
        ),
        answer=Answer.HOSTS,
        refusals=(
            Refusal(
                when="the host has no cordon", sentences=("host … is not cordoned",)
            ),
            Refusal(
                when="only others have cordoned the host",
                sentences=("host … is cordoned by …, not by …",),
            ),
        ),
        examples=(
            "forewarn host open h1",
            "forewarn host open h1 --all-owners --reason 'DIMM replaced'",
        ),
        body={"hosts": ["h1"], "reason": "DIMM replaced"},
    ),
    Entry(
        name="host-drain",
        group="host",
        summary="cordon hosts and move their VMs away, with notice",
        text="Cordon hosts, and maintain them by moving their VMs to other hosts. The VMs "
        "get notice and can approve, as for `forewarn maintain`. The operation of a host "
        "ends when its VMs are gone; the host stays cordoned until `forewarn host open`.",
        targets=HOSTS,
        arguments=(
            Argument(
                key="impact",
                form=Form.WORD,
                words=("live-migrate", "redeploy"),
                about="How the VMs move. Default: live-migrate.",
            ),
            Argument(
                key="at_once",
                form=Form.COUNT,
                about="Maximum hosts that are announced or running at once. Default: the "
                "setting policy.hosts_at_once of the service.",
            ),
            *SHARED,
        ),
        refusals=(
            Refusal(
                when="several hosts are named, and none of them can be emptied",
                sentences=("none of these … hosts can be emptied: …",),
            ),
            Refusal(
                when="a VM on the host has movable = false",
                sentences=("host … cannot be emptied: VM … cannot be moved",),
            ),
            UNABLE_HOST,
            *UNFIT_TOGETHER,
        ),
        examples=(
            "forewarn host drain h1 --reason 'bad DIMM'",
            "forewarn host drain h1 h2 --impact redeploy --at-once 2",
        ),
        body={"hosts": ["h1"], "impact": "live-migrate", "reason": "bad DIMM"},
    ),
)
"""In the order in which help lists them."""
