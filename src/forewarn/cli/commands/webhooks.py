"""The commands for receivers of webhooks."""

from forewarn.cli.command_table import CLIENT, Command, Option

WEBHOOKS = (
    Command(
        path=("webhook", "list"),
        summary="list receivers and their state",
        text="List the receivers of [[webhook]]: the tenant of each, its pending "
        "messages, its last error, and the next attempt.",
        run="forewarn.cli.webhooks:list_",
        options=CLIENT,
        examples=("forewarn webhook list", "forewarn webhook list --json"),
    ),
    Command(
        path=("webhook", "test"),
        summary="send a receiver a signed ping",
        text="Send a receiver a signed ping at once, and print its response. If it "
        "succeeds, a receiver with paused or refused deliveries gets its pending "
        "messages again. The exit status is 1 if it fails.",
        run="forewarn.cli.webhooks:test",
        options=(
            Option(name="name", metavar="NAME", help="The receiver's name."),
            *CLIENT,
        ),
        examples=("forewarn webhook test shop-oncall",),
    ),
)

GROUPS = {"webhook": "list and test receivers of webhooks"}
"""Words that begin several commands."""
