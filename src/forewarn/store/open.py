"""A store from the URL that a setting names."""

from pathlib import Path

from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.sqlite import SqliteStore

_EXAMPLES = (
    "write memory://, sqlite:///forewarn.db (beside the service)"
    " or sqlite:////var/lib/forewarn/forewarn.db"
)


def open_store(url: str) -> Store:
    """Open the store at `url`.

    Raises ValueError for what is no URL of a store of ours, or names a folder that
    is not there; StoreError if the store cannot be opened.
    """
    path = check_url(url)
    return MemoryStore() if path is None else SqliteStore(path)


def check_url(url: str) -> Path | None:
    """Return the file that a store's URL names; None: it is in memory.

    Raises ValueError as `open_store` does; nothing is opened.
    """
    scheme, separator, _ = url.partition("://")
    if url == "memory://":
        return None
    if separator and scheme in {"postgres", "postgresql"}:
        raise ValueError(
            f"this version of forewarn cannot keep its store in PostgreSQL: {_EXAMPLES}"
        )
    if (path := path_of(url)) is not None:
        if not path.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {path.absolute().parent}")
        if path.is_dir():
            raise ValueError(f"{path} is a folder: name a file in it")
        return path
    raise ValueError(f"{url!r} is not the URL of a store: {_EXAMPLES}")


def path_of(url: str) -> Path | None:
    """Return the file that a URL names; None: it names none."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and _is_path(rest[1:]):
        return Path(rest[1:])
    return None


def _is_path(text: str) -> bool:
    """Tell whether `text` names a file, not a folder or one of SQLite's own names."""
    return bool(text) and not text.endswith("/") and not text.startswith(":")
