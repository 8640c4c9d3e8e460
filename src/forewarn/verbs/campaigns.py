"""The verbs of the command `forewarn campaign` that steer a campaign."""

from forewarn.verbs.campaign_terms import (
    CAMPAIGN_ENDED,
    CAMPAIGN_SET,
    CAMPAIGN_TARGETS,
    HOSTS,
)
from forewarn.verbs.model import Answer, Argument, Entry, Form, Refusal
from forewarn.verbs.roles import Role

EMERGENCY_ALONE = Refusal(
    when="it is an emergency, and campaigns.second_person is on",
    sentences=("emergency work needs a second person, and this request has none",),
)
"""Refusal of emergency work that would begin at once."""

_HOSTS = Argument(
    key=HOSTS,
    form=Form.NAMES,
    option=HOSTS,
    metavar="HOST",
    about="Names of failed or deferred hosts of the campaign.",
)

_ALL_OWNERS = Argument(
    key="all_owners",
    form=Form.SWITCH,
    about="Also end the pauses of others.",
)

_UNEXPLAINED = Refusal(
    when="no reason is given",
    sentences=("… needs a reason",),
)

CAMPAIGN_ENTRIES = (
    Entry(
        name="campaign-pause",
        group="campaign",
        stops=True,
        summary="announce no further host of a campaign",
        text="Pause a campaign: it announces no further host. Announced hosts continue. "
        "Several operators can pause a campaign; it continues when the last of them "
        "resumes it.",
        targets=CAMPAIGN_TARGETS,
        answer=Answer.CAMPAIGN,
        refusals=(
            CAMPAIGN_ENDED,
            _UNEXPLAINED,
            Refusal(
                when="the requester has already paused it",
                sentences=("campaign … is already paused by …",),
            ),
        ),
        examples=("forewarn campaign pause bios-2.19 --reason 'release tonight'",),
        body={"campaign": "bios-2.19", "reason": "release tonight"},
    ),
    Entry(
        name="campaign-halt",
        group="campaign",
        stops=True,
        summary="stop a campaign, and withdraw what it has announced",
        text="Halt a campaign: it announces and starts no host, and its announcements are "
        "withdrawn without impact. On a host that is being emptied, the VM under way is moved, "
        "and the others stay: the host is opened without work, and announced again after "
        "`campaign resume`. Work that has begun on a host continues to its end.",
        targets=CAMPAIGN_TARGETS,
        answer=Answer.CAMPAIGN,
        refusals=(
            CAMPAIGN_ENDED,
            _UNEXPLAINED,
            Refusal(
                when="the campaign is halted",
                sentences=("campaign … is already halted",),
            ),
        ),
        examples=("forewarn campaign halt bios-2.19 --reason 'hosts lose memory'",),
        body={"campaign": "bios-2.19", "reason": "hosts lose memory"},
    ),
    Entry(
        name="campaign-resume",
        group="campaign",
        summary="let a paused or halted campaign continue",
        text="Let a campaign continue: its halt ends, and so does the requester's pause. "
        "It begins with one host in flight, then two, four, and so on up to its budget. "
        "Earlier failures do not halt it again.",
        targets=CAMPAIGN_TARGETS,
        arguments=(
            _ALL_OWNERS,
            Argument(
                key="despite",
                form=Form.NAMES,
                metavar="CHECK",
                about="Ignore this check until the next stage.",
            ),
        ),
        answer=Answer.CAMPAIGN,
        refusals=(
            CAMPAIGN_ENDED,
            _UNEXPLAINED,
            Refusal(
                when="the campaign is not paused or halted",
                sentences=("campaign … is neither paused nor halted",),
            ),
            Refusal(
                when="the campaign does not use the check",
                sentences=("campaign … has no check …",),
            ),
            Refusal(
                when="a check of the campaign fails, and is not given",
                sentences=("check … of campaign … fails: …",),
            ),
            Refusal(
                when="a check is given, the requester started the campaign, and "
                "campaigns.second_person is on",
                sentences=("… started the campaign and cannot …",),
            ),
            Refusal(
                when="only others have paused it",
                sentences=("campaign … is paused by …, not by …",),
            ),
            Refusal(
                when="only checks that do not answer have paused it, and they are not "
                "given",
                sentences=("campaign … is paused until its checks answer: …",),
            ),
        ),
        examples=(
            "forewarn campaign resume bios-2.19 --reason 'released'",
            "forewarn campaign resume bios-2.19 --all-owners --reason 'cause found'",
        ),
        body={"campaign": "bios-2.19", "reason": "released"},
    ),
    Entry(
        name="campaign-abort",
        group="campaign",
        summary="end a campaign before its end",
        text="End a campaign: its announcements are withdrawn without impact, and hosts "
        "that have not started are left out. A host that is being emptied is opened without "
        "work after the move of the VM under way. Work that has begun on a host continues "
        "to its end. Failed hosts stay cordoned.",
        targets=CAMPAIGN_TARGETS,
        answer=Answer.CAMPAIGN,
        refusals=(CAMPAIGN_ENDED, _UNEXPLAINED),
        examples=("forewarn campaign abort bios-2.19 --reason 'faulty image'",),
        body={"campaign": "bios-2.19", "reason": "faulty image"},
    ),
    Entry(
        name="campaign-approve",
        group="campaign",
        role=Role.APPROVE,
        summary="let the next stage of a campaign begin",
        text="Approve the next stage of a campaign, when all hosts of the current stage are "
        "done or skipped. It begins when the current stage has soaked. A halt in this time "
        "withdraws the approval. If campaigns.second_person is on, the approval of stage 1 "
        "by another operator releases an emergency campaign.",
        targets=CAMPAIGN_TARGETS,
        arguments=(
            Argument(
                key="stage",
                form=Form.COUNT,
                option="stage",
                metavar="STAGE",
                is_needed=True,
                about="Number of the next stage.",
            ),
        ),
        answer=Answer.CAMPAIGN,
        refusals=(
            CAMPAIGN_ENDED,
            Refusal(
                when="the stage is not the next one",
                sentences=(
                    "campaign … is in stage … of …, so stage … cannot be approved",
                ),
            ),
            Refusal(
                when="the campaign is an emergency that was not released, and another stage "
                "is given",
                sentences=(
                    "emergency campaign … has not begun, so stage … cannot be approved",
                ),
            ),
            Refusal(
                when="the stage needs no approval, or has one",
                sentences=(
                    "stage … of campaign … needs no approval",
                    "stage … of campaign … is already approved",
                ),
            ),
            Refusal(
                when="hosts of the current stage are left, so that it has no result yet",
                sentences=(
                    "stage … of campaign … cannot be approved yet: … of stage … left",
                ),
            ),
            Refusal(
                when="the requester started the campaign, and campaigns.second_person "
                "is on",
                sentences=("… started the campaign and cannot …",),
            ),
        ),
        examples=("forewarn campaign approve bios-2.19 2",),
        body={"campaign": "bios-2.19", "stage": 2},
    ),
    Entry(
        name="campaign-retry",
        group="campaign",
        summary="try failed hosts of a campaign again",
        text="Try failed hosts of a campaign again. A visit continues with the host step "
        "that failed, if its work had begun. Otherwise, the VMs get a full notice again. A "
        "deferred host, whose VMs could not be moved away, is tried at its turn without a "
        "pause. A halted campaign also needs `campaign resume`.",
        targets=CAMPAIGN_TARGETS,
        arguments=(
            _HOSTS,
            Argument(
                key="failed",
                form=Form.SWITCH,
                about="All failed hosts of the campaign.",
            ),
        ),
        answer=Answer.CAMPAIGN_HOSTS,
        refusals=(
            CAMPAIGN_ENDED,
            Refusal(
                when="neither hosts nor --failed are given",
                sentences=("name hosts, or all failed hosts",),
            ),
            Refusal(
                when="the host has neither failed nor is deferred",
                sentences=(
                    "host … is not a failed host of campaign …",
                    "campaign … has no failed host",
                ),
            ),
        ),
        examples=(
            "forewarn campaign retry bios-2.19 h7",
            "forewarn campaign retry bios-2.19 --failed",
        ),
        body={"campaign": "bios-2.19", "hosts": ["h7"]},
    ),
    Entry(
        name="campaign-skip",
        group="campaign",
        summary="leave hosts out of a campaign",
        text="Leave hosts out of a campaign: hosts that have failed, or have not started. "
        "An announcement is withdrawn without impact. A failed host stays cordoned until "
        "`forewarn host open`.",
        targets=CAMPAIGN_TARGETS,
        arguments=(
            Argument(
                key=HOSTS,
                form=Form.NAMES,
                option=HOSTS,
                metavar="HOST",
                is_needed=True,
                about="Names of hosts of the campaign.",
            ),
        ),
        answer=Answer.CAMPAIGN_HOSTS,
        refusals=(
            CAMPAIGN_ENDED,
            _UNEXPLAINED,
            Refusal(
                when="all hosts that are left have started",
                sentences=("each host that is left in campaign … has started",),
            ),
            Refusal(
                when="the host has started",
                sentences=("host … has started (…) and cannot be skipped",),
            ),
            Refusal(
                when="the host does not wait in the campaign, or is done",
                sentences=(
                    "host … does not wait in campaign …",
                    "host … is done in campaign …",
                ),
            ),
        ),
        examples=("forewarn campaign skip bios-2.19 h7 --reason 'will be replaced'",),
        body={"campaign": "bios-2.19", "hosts": ["h7"], "reason": "will be replaced"},
    ),
    Entry(
        name="campaign-add",
        group="campaign",
        summary="take hosts into a running campaign",
        text="Take hosts into a campaign that has not ended. They come last in its order, "
        "in its last stage. A host must be free, up, in no other campaign, and possible "
        "to empty if the campaign moves VMs away.",
        targets=CAMPAIGN_TARGETS,
        arguments=(
            Argument(
                key=HOSTS,
                form=Form.NAMES,
                option=HOSTS,
                metavar="HOST",
                about="Names of hosts, at most 25.",
            ),
            Argument(
                key="drift",
                form=Form.SWITCH,
                about="The first 25 hosts that match its selection and were added to the "
                "fleet since its start.",
            ),
        ),
        answer=Answer.CAMPAIGN_HOSTS,
        refusals=(
            CAMPAIGN_ENDED,
            _UNEXPLAINED,
            Refusal(
                when="neither hosts nor --drift are given, or there is no drift",
                sentences=(
                    "name hosts, or all hosts that the fleet has gained",
                    "campaign … has no drift",
                ),
            ),
            Refusal(
                when="too many hosts are named, or the campaign is being started",
                sentences=(
                    "one request can add at most … hosts, not …",
                    "campaign … is being started",
                ),
            ),
            Refusal(
                when="the campaign is an emergency",
                sentences=("campaign … is an emergency, and takes no more hosts",),
            ),
            Refusal(
                when="a campaign has the host, or this one has done it",
                sentences=(
                    "host … has failed in campaign …",
                    "host … is in campaign …, which has not ended",
                    "host … is done in campaign …",
                ),
            ),
            Refusal(
                when="the host is down or in use",
                sentences=(
                    "host … is down",
                    "host … already has operation … (…, …)",
                ),
            ),
            Refusal(
                when="the VMs of the host could not be moved away or restarted",
                sentences=(
                    "host … cannot be cleared",
                    "host … cannot be emptied: VM … cannot be moved",
                    "host … cannot be maintained with the impact …",
                ),
            ),
        ),
        examples=(
            "forewarn campaign add bios-2.19 h401 h402 --reason 'new rack'",
            "forewarn campaign add bios-2.19 --drift --reason 'new rack'",
        ),
        body={"campaign": "bios-2.19", "hosts": ["h401"], "reason": "new rack"},
    ),
    CAMPAIGN_SET,
)
"""In the order in which help lists them."""
