"""The commands for tokens, receivers of webhooks, the file of the store, and completion."""

from forewarn.cli.command_table import CLIENT, JSON, REASON, Command, Option

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


BRAKE = (
    Command(
        path=("brake", "on"),
        summary="stop routine work",
        text="Stop routine work: while the brake is on, no maintenance, OS upgrade or "
        "reimage is announced or started. Work that has started continues, and so do "
        "failures, predicted failures and requests of users.",
        run="forewarn.cli.brake:put_on",
        options=(REASON, *CLIENT),
        examples=("forewarn brake on --reason 'power is unstable'",),
    ),
    Command(
        path=("brake", "off"),
        summary="let routine work go on",
        text="Let routine work go on. Operations that the brake held are checked at once.",
        run="forewarn.cli.brake:take_off",
        options=(REASON, *CLIENT),
        examples=("forewarn brake off --reason 'power is stable again'",),
    ),
    Command(
        path=("brake", "show"),
        summary="show whether the brake is on",
        text="Show whether the brake is on, who put it on, and why.",
        run="forewarn.cli.brake:show",
        options=CLIENT,
        examples=("forewarn brake show", "forewarn brake show --json"),
    ),
)


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


_CONFIG = Option(
    name="--config",
    metavar="FILE",
    help="Settings file with [store]. Default: forewarn.toml, if it exists.",
)

UPKEEP = (
    Command(
        path=("store", "check"),
        summary="check the consistency of a store's file",
        text="Check the file of a store: its pages, each row, and the relations "
        "between the rows. Each violation is printed as a sentence. The file is only "
        "read: it can be a backup, or the file of a running service.",
        run="forewarn.cli.store:check",
        options=(
            Option(
                name="file",
                metavar="FILE",
                is_optional=True,
                help="The file. Default: the file in [store] url.",
            ),
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store check", "forewarn store check backup.db --json"),
    ),
    Command(
        path=("store", "backup"),
        summary="copy the file of the store, even while the service runs",
        text="Copy the file of the store as it is at one moment, while the service "
        "continues to run. The copy is checked before it gets its name. No file is "
        "overwritten.",
        run="forewarn.cli.store:backup",
        options=(
            Option(name="file", metavar="FILE", help="The file to write."),
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store backup /var/backups/forewarn.db",),
    ),
    Command(
        path=("completion",),
        summary="print a shell completion script",
        text="Print a script that completes the commands, their options and the "
        "values of options. Bash and fish read it from their directories of "
        "completions. For zsh, add this line to .zshrc after compinit: source "
        "<(forewarn completion zsh).",
        run="forewarn.cli.completion:completion",
        options=(
            Option(
                name="shell",
                choices=("bash", "zsh", "fish"),
                help="The shell that reads the script.",
            ),
        ),
        examples=("forewarn completion bash", "forewarn completion zsh"),
    ),
)
