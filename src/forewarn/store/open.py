"""Opening of the store that a URL names."""

import importlib.util
import stat
from pathlib import Path

from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.postgres import url as postgres_url
from forewarn.store.snapshot import Source
from forewarn.store.sqlite import SqliteStore

_EXAMPLES = (
    "write memory://, sqlite:///forewarn.db (in the current directory),"
    " sqlite:////var/lib/forewarn/forewarn.db or " + postgres_url.EXAMPLE
)

_MEMORY_PREFIX = Path("forewarn")
"""Beginning of the path of a driver's records if the store is not a file. It is relative,
because the service runs in the directory of its state."""


def open_store(url: str) -> Store:
    """Open the store at `url`.

    Raises ValueError if `url` is not the URL of a store, or if its directory does not
    exist; StoreError if the store cannot be opened.
    """
    check_url(url)
    source = source_of(url)
    if isinstance(source, Path):
        return SqliteStore(source)
    if source is None:
        return MemoryStore()
    # A service with another store does not load the client of PostgreSQL.
    from forewarn.store.postgres.store import PostgresStore  # noqa: PLC0415

    return PostgresStore(source)


def check_url(url: str) -> None:
    """Raise ValueError as `open_store` does, but open nothing."""
    if url == "memory://":
        return
    if postgres_url.is_url(url):
        _check_postgres(url)
        return
    path = path_of(url)
    if path is None:
        raise ValueError(f"{url!r} is not the URL of a store: {_EXAMPLES}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"there is no directory {path.absolute().parent}")
    if path.is_dir():
        raise ValueError(f"{path} is a directory: name a file in it")


def _check_postgres(url: str) -> None:
    postgres_url.check(url)
    if importlib.util.find_spec("psycopg") is None:
        raise ValueError(
            "the client of PostgreSQL is not installed: pip install 'forewarn[postgres]'"
        )
    file = postgres_url.password_file_of(url)
    if not file:
        return
    try:
        mode = Path(file).stat().st_mode
    except OSError as error:
        raise ValueError(f"the file {file} of passfile: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(
            f"others can read the file {file} of passfile, so libpq does not use it:"
            f" chmod 600 {file}"
        )


def source_of(url: str) -> Source | None:
    """Return what other processes can read the store from; None: it is in memory."""
    return url if postgres_url.is_url(url) else path_of(url)


def path_of(url: str) -> Path | None:
    """Return the file of a URL; None: it is not the URL of a file."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and _is_path(rest[1:]):
        return Path(rest[1:])
    return None


def place_of(url: str) -> str:
    """Return the name of a store in messages; empty: it is in memory."""
    if postgres_url.is_url(url):
        return postgres_url.place_of(url)
    return str(path_of(url) or "")


def companion_file(url: str, ending: str) -> Path | None:
    """Return the file for other memory of a service with a store, by its ending.

    None: the store is in memory.
    """
    file = _MEMORY_PREFIX if postgres_url.is_url(url) else path_of(url)
    return None if file is None else file.with_name(f"{file.name}.{ending}")


def memory_file(url: str, ending: str) -> Path:
    """Return the file for other memory of a service, whatever its store is."""
    return companion_file(url, ending) or Path(f"{_MEMORY_PREFIX}.{ending}")


def _is_path(text: str) -> bool:
    """Return whether `text` names a file, not a directory or a special name of SQLite."""
    return bool(text) and not text.endswith("/") and not text.startswith(":")
