"""The commands that create, list and revoke tokens of the operator API."""

from forewarn.cli.command_table import CLIENT, REASON, Command, Option

_TENANT = Option(
    name="--tenant",
    metavar="TENANT",
    help="The tenant of the token. Default: an operator token.",
)

TOKENS = (
    Command(
        path=("token", "create"),
        summary="create a token for a tenant or an operator",
        text="Create a token and print only it on standard output. It is shown once: "
        "the service stores a digest. With --tenant, it is for that tenant's VMs and "
        "shows nothing of others. Its holder sets FOREWARN_TOKEN.",
        run="forewarn.cli.tokens:create",
        options=(
            _TENANT,
            Option(
                name="--name",
                metavar="NAME",
                help="Name of the holder in the history; no other token can have it. "
                "Default: a name made from the token's ID.",
            ),
            Option(
                name="--read-only",
                is_flag=True,
                help="The token can only read.",
            ),
            Option(
                name="--expires-in",
                metavar="DURATION",
                help="Lifetime, such as 30d, or never. Default: 90d.",
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
        summary="list tokens, without their secrets",
        text="List the tokens in the store, expired ones too, with their last use "
        "rounded to the hour. Tokens in [admin] token_file are not listed.",
        run="forewarn.cli.tokens:list_tokens",
        options=(
            Option(
                name="--tenant", metavar="TENANT", help="Only tokens of this tenant."
            ),
            *CLIENT,
        ),
        examples=("forewarn token list", "forewarn token list --tenant shop --json"),
    ),
    Command(
        path=("token", "revoke"),
        summary="revoke a token",
        text="Revoke a token. From then on it is refused, and streams that use it end.",
        run="forewarn.cli.tokens:revoke",
        options=(
            Option(name="token_id", metavar="ID", help="ID of the token in the list."),
            REASON,
            *CLIENT,
        ),
        examples=("forewarn token revoke tk-4h7k2m9xqa",),
    ),
)

GROUP = {"token": "create, list and revoke tokens of the operator API"}
"""The word that begins these commands."""
