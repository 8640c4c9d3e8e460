"""The commands that make, list and revoke tokens of the operator API."""

from forewarn.cli.command_table import CLIENT, REASON, Command, Option

_TENANT = Option(
    name="--tenant",
    metavar="TENANT",
    help="The tenant whose VMs it is for; else it is an operator's.",
)

TOKENS = (
    Command(
        path=("token", "create"),
        summary="make a token for a tenant or an operator",
        text="Make a token and print it, alone, on standard output: it is told this "
        "once, and the service keeps only a digest. With --tenant it is good for that "
        "tenant's VMs and shows nothing of others; its holder sets FOREWARN_TOKEN.",
        run="forewarn.cli.tokens:create",
        options=(
            _TENANT,
            Option(
                name="--name",
                metavar="NAME",
                help="Who holds it, as the history shows it: a name that no other token has. "
                "Default: a name made of its ID.",
            ),
            Option(name="--read-only", is_flag=True, help="It may order nothing."),
            Option(
                name="--expires-in",
                metavar="DURATION",
                help="When it ends: 30d, or never. Default: 90d.",
            ),
            REASON,
            *CLIENT,
        ),
        examples=(
            "forewarn token create --tenant shop --name ci --expires-in 30d",
            "forewarn token create --name dashboard --read-only",
        ),
    ),
    Command(
        path=("token", "list"),
        summary="list tokens, never their secrets",
        text="List the tokens that the service keeps, expired ones too, with their last "
        "use to the hour. Those of [admin] token_file are not among them.",
        run="forewarn.cli.tokens:list_tokens",
        options=(
            Option(name="--tenant", metavar="TENANT", help="Only this tenant's."),
            *CLIENT,
        ),
        examples=("forewarn token list", "forewarn token list --tenant shop --json"),
    ),
    Command(
        path=("token", "revoke"),
        summary="make a token good for nothing, at once",
        text="Revoke a token. From then on it is refused everywhere, and streams that "
        "were opened with it end.",
        run="forewarn.cli.tokens:revoke",
        options=(
            Option(name="token_id", metavar="ID", help="The token's id, as listed."),
            REASON,
            *CLIENT,
        ),
        examples=("forewarn token revoke tk-4h7k2m9xqa",),
    ),
)

GROUP = {"token": "make, list and revoke tokens of the operator API"}
"""The word that begins these commands."""
