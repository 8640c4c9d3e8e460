"""The URLs of PostgreSQL databases, and their names in messages. Pure."""

from urllib.parse import urlsplit

SCHEMES = ("postgresql", "postgres")


def is_url(url: str) -> bool:
    """Tell whether a URL names a PostgreSQL database."""
    return urlsplit(url).scheme in SCHEMES


def place_of(url: str) -> str:
    """Return the URL for messages: without password and options."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
