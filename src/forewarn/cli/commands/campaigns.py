"""The commands for campaigns."""

from forewarn.cli.command_table import CLIENT, Command, Option

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
            Option(
                name="file",
                metavar="FILE",
                help="Campaign file; - for standard input.",
            ),
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
)
