"""The commands for campaigns."""

from forewarn.cli.command_table import CLIENT, DRY_RUN, REASON, Command, Option

_FILE = Option(name="file", metavar="FILE", help="Campaign file; - for standard input.")

_CAMPAIGN = Option(name="campaign", metavar="NAME", help="Name or ID of the campaign.")

CAMPAIGNS = (
    Command(
        path=("campaign", "plan"),
        summary="show what a campaign would do",
        text="Show in which order the hosts of a campaign file would be announced, which "
        "constraint binds, which hosts cannot be done, and when the campaign would end. "
        "The command announces and changes nothing. The plan is a forecast for the "
        "current fleet.",
        run="forewarn.cli.campaigns:plan",
        options=(
            _FILE,
            Option(
                name="--all",
                is_flag=True,
                help="Print a row for each host, instead of the first 20.",
            ),
            Option(
                name="--html",
                metavar="OUT",
                help="Also write a page with the hosts over time to this file.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn campaign plan bios.toml",
            "forewarn campaign plan bios.toml --html bios.html",
            "forewarn campaign plan bios.toml --json",
        ),
    ),
    Command(
        path=("campaign", "simulate"),
        summary="play a campaign before it is started",
        text="Play a campaign on a copy of the fleet and a virtual clock, with the rules of "
        "the service. The result has the stages, the nights, the end, the minutes that VMs "
        "are down, and the worst moment of each budget. A campaign that would halt or "
        "could not continue says why. The command announces and changes nothing. Equal "
        "seeds give equal chances.",
        run="forewarn.cli.simulations:simulate",
        options=(
            _FILE,
            Option(
                name="--approve",
                metavar="PERCENT",
                help="Share of the scopes that approve, after a random part of the "
                "notice. The others do not answer. Default: as fast as tenants approved "
                "past work, if at least 10 hosts were done, or 70%.",
            ),
            Option(
                name="--failures",
                metavar="PERCENT",
                default="0%",
                help="Share of the hosts whose work fails.",
            ),
            Option(
                name="--seed",
                metavar="NUMBER",
                default="1",
                help="Number that all chances follow from.",
            ),
            Option(
                name="--html",
                metavar="OUT",
                help="Also write a page with the hosts over time to this file.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn campaign simulate bios.toml",
            "forewarn campaign simulate bios.toml --approve 40% --failures 0.5% --seed 7",
            "forewarn campaign simulate bios.toml --html bios.html",
        ),
    ),
    Command(
        path=("campaign", "start"),
        summary="start a campaign whose plan you have seen",
        text="Start a campaign. --plan is the digest that `forewarn campaign plan` prints "
        "last. If the file or the fleet has changed since then, nothing is started, and the "
        "refusal names the difference.",
        run="forewarn.cli.campaigns:start",
        options=(
            _FILE,
            Option(
                name="--plan",
                metavar="DIGEST",
                is_needed=True,
                help="Digest of the plan.",
            ),
            REASON,
            DRY_RUN,
            *CLIENT,
        ),
        examples=("forewarn campaign start bios.toml --plan 9f31c0a45be2d708",),
    ),
    Command(
        path=("campaign", "list"),
        summary="list campaigns",
        text="List the campaigns that have not ended, with what each waits for.",
        run="forewarn.cli.campaigns:list_",
        options=(
            Option(
                name="--all",
                is_flag=True,
                help="Include ended campaigns. Not with --watch.",
            ),
            Option(
                name="--watch",
                is_flag=True,
                help="Continue until Ctrl-C, and show changes.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn campaign list",
            "forewarn campaign list --all --json",
            "forewarn campaign list --watch",
        ),
    ),
    Command(
        path=("campaign", "report"),
        summary="show the results of a campaign",
        text="Show the results so far: hosts by state and stage; downtime and moves of VMs; "
        "notice and approvals; the time in each phase; failures with their notes. The "
        "campaign can still run. A host that was retried has several attempts.",
        run="forewarn.cli.campaigns:report",
        options=(
            _CAMPAIGN,
            Option(
                name="--html",
                metavar="FILE",
                help="Write the sums and the first attempts to an HTML page instead.",
            ),
            Option(
                name="--csv",
                metavar="FILE",
                help="Write one row for each attempt to a file instead.",
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn campaign report bios-2.19",
            "forewarn campaign report bios-2.19 --csv bios.csv",
            "forewarn campaign report bios-2.19 --json",
        ),
    ),
    Command(
        path=("campaign", "watch"),
        summary="follow a campaign",
        text="Show a campaign, and keep showing its changes until Ctrl-C.",
        run="forewarn.cli.campaigns:watch",
        options=(
            _CAMPAIGN,
            *CLIENT,
        ),
        examples=(
            "forewarn campaign watch bios-2.19",
            "forewarn campaign watch bios-2.19 --json",
        ),
    ),
    Command(
        path=("campaign", "show"),
        summary="show a campaign, and what it waits for",
        text="Show a campaign: its stages, budgets, failed hosts, and why it announces no "
        "further host now. With --racks, also its hosts by stage and rack.",
        run="forewarn.cli.campaigns:show",
        options=(
            _CAMPAIGN,
            Option(
                name="--racks",
                is_flag=True,
                help="Also print a row for each stage and rack.",
            ),
            Option(
                name="--all", is_flag=True, help="Also print a row for each operation."
            ),
            *CLIENT,
        ),
        examples=(
            "forewarn campaign show bios-2.19",
            "forewarn campaign show bios-2.19 --racks",
            "forewarn campaign show bios-2.19 --json",
        ),
    ),
)
