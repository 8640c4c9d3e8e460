"""The verbs of the command `forewarn host`: which hosts take new VMs."""

from forewarn.verbs.model import Answer, Argument, Entry, Form, Kind, Refusal, Targets

HOSTS = Targets(
    kind=Kind.HOST, key="hosts", metavar="HOST", about="Names of hosts in the fleet."
)

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
        text="Remove the requester's cordons from hosts. Operations that wait for capacity "
        "are checked at once.",
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
)
"""In the order in which help lists them."""
