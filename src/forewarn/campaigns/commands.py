"""The commands that end a failed visit: those of its campaign, if it has one. Pure."""


def retry_visit(host: str, campaign: str) -> str:
    """Return the command that repeats the failed step of a host.

    `campaign` is the name of the open campaign of the visit; empty: it has none.
    """
    if campaign:
        return f"forewarn campaign retry {campaign} {host}"
    return f"forewarn visit retry {host}"


def skip_visit(host: str, campaign: str) -> str:
    """Return the command that gives up the failed visit of a host."""
    if campaign:
        return f"forewarn campaign skip {campaign} {host} --reason TEXT"
    return f"forewarn visit skip {host}"
