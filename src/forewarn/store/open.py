"""A store from the URL that a setting names."""

from pathlib import Path

from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store, StoreError
from forewarn.store.sqlite import SqliteStore

_EXAMPLES = (
    "write memory://, sqlite:///forewarn.db (beside the service)"
    " or sqlite:////var/lib/forewarn/forewarn.db"
)


def open_store(url: str) -> Store:
    """Open the store at `url`.

    Raises ValueError for what is no URL of a store, StoreError if the store
    cannot be opened.
    """
    scheme, separator, _ = url.partition("://")
    if url == "memory://":
        return MemoryStore()
    if separator and scheme in {"postgres", "postgresql"}:
        raise StoreError(
            "this version of forewarn cannot keep its store in PostgreSQL",
            hint=f"In [store] url {_EXAMPLES}.",
        )
    if (path := path_of(url)) is not None:
        return SqliteStore(path)
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
