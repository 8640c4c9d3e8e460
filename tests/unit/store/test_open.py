"""Stores by URL."""

from pathlib import Path

import pytest

from forewarn.fleet.model import Tenant
from forewarn.store.memory import MemoryStore
from forewarn.store.open import open_store
from forewarn.store.sqlite import SqliteStore


def test_memory_url_opens_a_memory_store() -> None:
    assert isinstance(open_store("memory://"), MemoryStore)


def test_absolute_path_opens_a_file(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/my store #1?.db")
    assert isinstance(store, SqliteStore)
    store.close()
    assert (tmp_path / "my store #1?.db").exists()


def test_relative_path_opens_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///forewarn.db")
    assert (tmp_path / "forewarn.db").exists()
    # What comes later is written there too, wherever the process has gone.
    monkeypatch.chdir("/")
    store.transact(lambda tx: tx.add(Tenant(name="shop")))
    assert store.read(lambda reader: reader.get(Tenant, "shop"))
    store.close()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_unsupported_store_url_is_rejected(scheme: str) -> None:
    with pytest.raises(ValueError, match=r"PostgreSQL: write .* sqlite:///"):
        open_store(f"{scheme}://db.example/forewarn")


def test_store_in_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no directory .*/nowhere"):
        open_store(f"sqlite:///{tmp_path}/nowhere/forewarn.db")
    with pytest.raises(ValueError, match="is a directory: name a file in it"):
        open_store(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "forewarn.db",
        "mysql://db.example/forewarn",
        "memory:",
        "memory://x",
        "sqlite://",
        "sqlite:///",
        "sqlite://forewarn.db",
        "sqlite:forewarn.db",
        "sqlite:///:memory:",
        "sqlite:////var/lib/forewarn/",
    ],
)
def test_invalid_store_url_is_refused_with_examples(url: str) -> None:
    with pytest.raises(ValueError, match="is not the URL of a store: write"):
        open_store(url)
