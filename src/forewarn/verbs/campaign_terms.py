"""The verb `forewarn campaign set`: the terms of a campaign that can change."""

from forewarn.verbs.model import Answer, Argument, Entry, Form, Kind, Refusal, Targets

CAMPAIGN_TARGETS = Targets(
    kind=Kind.CAMPAIGN,
    key="campaign",
    metavar="NAME",
    about="Name or ID of the campaign.",
    is_list=False,
)

HOSTS = "hosts"
"""The key of the argument with hosts of a campaign."""

CAMPAIGN_ENDED = Refusal(
    when="the campaign has ended",
    sentences=("campaign … is …",),
)
_BUDGETS = (
    Argument(
        key="in_flight",
        form=Form.NAME,
        metavar="AMOUNT",
        about="Maximum hosts in flight: a number, or a percentage of its hosts.",
        example="8",
    ),
    Argument(
        key="unavailable",
        form=Form.NAME,
        metavar="AMOUNT",
        about="Maximum hosts of the fleet that are away for any cause: a number or "
        "a percentage; none removes the budget.",
        example="3%",
    ),
    Argument(
        key="tenant_vms",
        form=Form.NAME,
        metavar="N",
        about="Maximum VMs of one tenant under notice or in work; none removes the budget.",
        example="20",
    ),
    Argument(
        key="by",
        form=Form.TEXT,
        metavar="LABEL=AMOUNT",
        about="Maximum hosts in flight with the same value of a label, or a percentage of "
        "them; LABEL=none removes the budget.",
        example="rack=2",
    ),
    Argument(
        key="overlap_notice",
        form=Form.NAME,
        metavar="N",
        about="Further fault domains of a scope that can be announced while one is "
        "announced, in work or down. A smaller number withdraws nothing.",
        example="1",
    ),
)

_TOLERANCE = (
    Argument(
        key="failures",
        form=Form.NAME,
        metavar="N",
        about="Failures that are tolerated among the last hosts.",
        example="2",
    ),
    Argument(
        key="of_last",
        form=Form.NAME,
        metavar="N",
        about="Number of finished hosts that --failures refers to.",
        example="50",
    ),
    Argument(
        key="in_a_row",
        form=Form.NAME,
        metavar="N",
        about="Failures in a row that are tolerated.",
        example="1",
    ),
    Argument(
        key="vms_down",
        form=Form.NAME,
        metavar="N",
        about="VMs that can be down after the work.",
        example="8",
    ),
)

_COURSE = (
    Argument(
        key="priority",
        form=Form.NAME,
        metavar="N",
        about="Rank among the campaigns that share the limit of the service.",
        example="5",
    ),
    Argument(
        key="soak",
        form=Form.TEXT,
        metavar="STAGE=DURATION",
        about="Time between the last host of a stage and the next stage.",
        example="2=30m",
    ),
    Argument(
        key="approval",
        form=Form.TEXT,
        metavar="STAGE=yes|no",
        about="Whether an operator must approve the stage after this one.",
        example="2=yes",
    ),
    Argument(
        key="check",
        form=Form.NAME,
        metavar="CHECK",
        about="A check of the settings that must pass from now on.",
        example="error-rate",
    ),
    Argument(
        key="remove_check",
        form=Form.NAME,
        metavar="CHECK",
        about="A check that does not count any more.",
        example="error-rate",
    ),
)

_HOURS = (
    Argument(
        key="window",
        form=Form.TEXT,
        metavar="WINDOW",
        about="A window to add: days, start, length and time zone.",
        example="mon,tue 22:00 8h Europe/Berlin",
    ),
    Argument(
        key="remove_window",
        form=Form.TEXT,
        metavar="WINDOW",
        about="A window to remove, as the campaign shows it.",
        example="mon,tue 22:00 7h Europe/Berlin",
    ),
    Argument(
        key="blackout",
        form=Form.TEXT,
        metavar="BLACKOUT",
        about="A blackout to add, which replaces one with its name: name, start, "
        "end and time zone; or a name and a window, which recurs.",
        example="year-end 2026-12-24T18:00 2027-01-02T06:00 Europe/Berlin",
    ),
    Argument(
        key="remove_blackout",
        form=Form.NAME,
        metavar="NAME",
        about="Name of a blackout to remove.",
        example="year-end",
    ),
)

CAMPAIGN_SET = Entry(
    name="campaign-set",
    group="campaign",
    summary="change the terms of a running campaign",
    text="Change the budgets, tolerance, stages, checks, windows and blackouts of a running "
    "or paused campaign, and its priority. The next decision uses them. Its hosts and steps "
    "stay as they are: start another campaign for these. If a host is announced and would "
    "start outside the new windows or in a new blackout, its announcement is withdrawn "
    "without impact.",
    targets=CAMPAIGN_TARGETS,
    arguments=(*_BUDGETS, *_TOLERANCE, *_COURSE, *_HOURS),
    answer=Answer.CAMPAIGN,
    refusals=(
        CAMPAIGN_ENDED,
        Refusal(
            when="no value is given",
            sentences=("give at least one value to change",),
        ),
        Refusal(
            when="a value is not valid",
            sentences=(
                "…: must be …, not …",
                "…: … is not a whole number",
                "tenant_vms: must be a number or none, because …",
            ),
        ),
        Refusal(
            when="so many tolerated failures would never halt the campaign",
            sentences=("… failures of the last … hosts would never halt the campaign",),
        ),
        Refusal(
            when="the blackout is not valid, unknown or one too many",
            sentences=(
                "… is not a blackout: …",
                "campaign … has no blackout …",
                "a campaign has at most … blackouts",
            ),
        ),
        Refusal(
            when="the window is not valid, unknown or one too many",
            sentences=(
                "… is not a window: …",
                "campaign … has no window …",
                "a campaign has at most … windows",
            ),
        ),
        Refusal(
            when="the budget of a group is unknown or one too many",
            sentences=(
                "the campaign has no budget by …",
                "a campaign has budgets of at most … labels",
            ),
        ),
        Refusal(
            when="the stage has ended, or has none after it",
            sentences=(
                "stage … of campaign … has ended",
                "stage … of campaign … is its last one",
            ),
        ),
        Refusal(
            when="the check is unknown or one too many",
            sentences=(
                "there is no check …",
                "campaign … has no check …",
                "a campaign has at most … checks",
            ),
        ),
        Refusal(
            when="the windows or the blackout would leave no time for its hosts",
            sentences=(
                "no window of campaign … would be long enough for a host, which takes up to … after its notice",
                "with these windows, beside blackout …, no opening ever comes for campaign …",
                "with blackout …, no opening ever comes for campaign …",
                "with blackout …, beside blackout …, no opening ever comes for campaign …",
            ),
        ),
        Refusal(
            when="the change allows more, the requester started the campaign, and "
            "campaigns.second_person is on",
            sentences=("… started the campaign and cannot …",),
        ),
        Refusal(
            when="a window or a blackout is given, and the campaign is an emergency",
            sentences=(
                "campaign … is an emergency, which no window and no blackout stops",
            ),
        ),
    ),
    examples=(
        "forewarn campaign set bios-2.19 --in-flight 8 --reason 'it goes well'",
        "forewarn campaign set bios-2.19 --failures 4",
        "forewarn campaign set bios-2.19 --by rack=2 --soak 2=30m",
        "forewarn campaign set bios-2.19 --window 'sat 08:00 4h Europe/Berlin'",
        "forewarn campaign set bios-2.19 --blackout 'trading mon,fri 09:00 8h'",
    ),
    body={"campaign": "bios-2.19", "in_flight": "8"},
)

TERM_KEYS = tuple(argument.key for argument in CAMPAIGN_SET.arguments)
"""The keys of the terms that can change."""
