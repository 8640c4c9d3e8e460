"""The commands that let the guests of this host reach the service."""

from forewarn.cli.command_table import JSON, Command, Option

_INPUT = (
    Option(
        name="file",
        metavar="FILE",
        is_optional=True,
        default="addresses.toml",
        help="Plan file with the guest behind each interface; - for standard input. "
        "Default: addresses.toml.",
    ),
    Option(
        name="--fleet",
        metavar="FILE",
        help="Fleet file with the VMs' addresses and listeners that FILE omits.",
    ),
)
_DRY_RUN = Option(
    name="--dry-run", is_flag=True, help="Print the changes without making them."
)


ADDRESSES = (
    Command(
        path=("addresses", "plan"),
        summary="print how guests would reach 169.254.169.254",
        text="Print a shell script with the nftables rules and routes that let each "
        "guest of this host reach the service. This changes nothing and does not need "
        "root.",
        run="forewarn.cli.addresses:plan",
        options=(*_INPUT, JSON),
        examples=(
            "forewarn addresses plan addresses.toml",
            "forewarn addresses plan addresses.toml --fleet fleet.toml",
        ),
    ),
    Command(
        path=("addresses", "apply"),
        summary="let the guests of this host reach 169.254.169.254",
        text="Apply the rules and routes of the file to this host. The rules are "
        "loaded in one transaction, in separate tables. Rules and routes of an earlier "
        "file are removed if this file does not need them. You can run this at any "
        "time. Run it again when a routed tap has been recreated.",
        run="forewarn.cli.addresses:apply",
        options=(*_INPUT, _DRY_RUN),
        examples=(
            "forewarn addresses apply addresses.toml --dry-run",
            "forewarn addresses apply addresses.toml",
        ),
    ),
    Command(
        path=("addresses", "show"),
        summary="show which guests reach 169.254.169.254 and which send spoofed packets",
        text="Show each guest of the file: whether its interface exists and its rules "
        "are active, how many packets it has sent to the service, and how many were "
        "dropped because their source address was spoofed.",
        run="forewarn.cli.addresses:show",
        options=(*_INPUT, JSON),
        examples=("forewarn addresses show addresses.toml",),
    ),
    Command(
        path=("addresses", "undo"),
        summary="remove all changes of `addresses apply`",
        text="Remove forewarn's nftables tables, routes and rules from this host, and "
        "nothing else. This needs no file: they have forewarn's name and number.",
        run="forewarn.cli.addresses:undo",
        options=(_DRY_RUN,),
        examples=("forewarn addresses undo",),
    ),
)
