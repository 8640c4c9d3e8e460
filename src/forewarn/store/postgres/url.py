"""The URLs of PostgreSQL databases: what they may hold, and their form in messages.

A URL is shown in messages, in `config show` and in the list of processes, so it may not
hold a password. libpq reads passwords from a file. Pure.
"""

from urllib.parse import parse_qsl, urlsplit

SCHEMES = ("postgresql", "postgres")

EXAMPLE = "postgresql://forewarn@db.example/forewarn?passfile=/etc/forewarn/pgpass"

_SECRETS = frozenset({"password", "sslpassword"})


def is_url(url: str) -> bool:
    """Return whether a URL names a PostgreSQL database."""
    scheme, separator, _ = url.partition("://")
    return bool(separator) and scheme in SCHEMES


def check(url: str) -> None:
    """Raise ValueError if the URL has no database, or holds a password.

    The message has no part of the URL that may be a password.
    """
    try:
        parts = urlsplit(url)
        has_password = parts.password is not None
    except ValueError as error:
        raise ValueError(f"the URL cannot be read: write it as {EXAMPLE}") from error
    if has_password or _SECRETS & {name for name, _ in parse_qsl(parts.query, True)}:
        raise ValueError(
            "a password in the URL would be shown in messages: write it to a file"
            " host:port:database:user:password with mode 0600, and name the file in the"
            f" URL: {EXAMPLE}"
        )
    if not parts.path.strip("/"):
        raise ValueError(f"the URL names no database: write it as {EXAMPLE}")


def place_of(url: str) -> str:
    """Return the URL for messages: without user and options."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def password_file_of(url: str) -> str:
    """Return the file that has the password; empty: the URL names none."""
    return dict(parse_qsl(urlsplit(url).query)).get("passfile", "")
