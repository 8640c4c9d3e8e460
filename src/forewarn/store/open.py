"""Opening of the store that a URL names."""

from pathlib import Path

from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.sqlite import SqliteStore

_EXAMPLES = (
    "write memory://, sqlite:///forewarn.db (in the current directory)"
    " or sqlite:////var/lib/forewarn/forewarn.db"
)


def open_store(url: str) -> Store:
    """Open the store at `url`.

    Raises ValueError if `url` is not the URL of a store, or if its directory does not
    exist; StoreError if the store cannot be opened.
    """
    path = check_url(url)
    return MemoryStore() if path is None else SqliteStore(path)


def check_url(url: str) -> Path | None:
    """Return the file of a store's URL; None: the store is in memory.

    Raises ValueError as `open_store` does, but opens nothing.
    """
    scheme, separator, _ = url.partition("://")
    if url == "memory://":
        return None
    if separator and scheme in {"postgres", "postgresql"}:
        raise ValueError(
            f"this version of forewarn does not support PostgreSQL: {_EXAMPLES}"
        )
    if (path := path_of(url)) is not None:
        if not path.absolute().parent.is_dir():
            raise ValueError(f"there is no directory {path.absolute().parent}")
        if path.is_dir():
            raise ValueError(f"{path} is a directory: name a file in it")
        return path
    raise ValueError(f"{url!r} is not the URL of a store: {_EXAMPLES}")


def path_of(url: str) -> Path | None:
    """Return the file of a URL; None: it is not the URL of a file."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and _is_path(rest[1:]):
        return Path(rest[1:])
    return None


def _is_path(text: str) -> bool:
    """Tell whether `text` names a file, not a directory or a special name of SQLite."""
    return bool(text) and not text.endswith("/") and not text.startswith(":")
