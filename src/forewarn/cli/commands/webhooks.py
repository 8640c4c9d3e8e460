"""The commands about receivers of webhooks."""

from forewarn.cli.command_table import CLIENT, Command, Option

WEBHOOKS = (
    Command(
        path=("webhook", "list"),
        summary="list receivers, and how each does",
        text="List the receivers of [[webhook]]: whose events each hears of, what waits "
        "for it, what went wrong last, and when it is tried next.",
        run="forewarn.cli.webhooks:list_",
        options=CLIENT,
        examples=("forewarn webhook list", "forewarn webhook list --json"),
    ),
    Command(
        path=("webhook", "test"),
        summary="send a receiver a signed ping",
        text="Send a receiver a signed ping at once and print what it answered. Where "
        "that is good, a receiver that was not tried for a while, or wanted nothing "
        "any more, is told again what waits. Exit status 1 where it is not.",
        run="forewarn.cli.webhooks:test",
        options=(
            Option(name="name", metavar="NAME", help="The receiver's name."),
            *CLIENT,
        ),
        examples=("forewarn webhook test shop-oncall",),
    ),
)

GROUPS = {"webhook": "look at receivers of changes of events, and try them"}
"""Words that begin several commands."""
