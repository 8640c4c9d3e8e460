"""Stores by URL."""

from pathlib import Path

import pytest

from forewarn.fleet.model import Tenant
from forewarn.store.memory import MemoryStore
from forewarn.store.open import check_url, companion_file, open_store, place_of
from forewarn.store.postgres.store import PostgresStore
from forewarn.store.snapshot import reading
from forewarn.store.sqlite import SqliteStore
from tests.support import postgres


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


@postgres.needing_postgres
def test_url_of_postgresql_opens_a_database() -> None:
    with postgres.one_database() as url:
        store = open_store(url)
        assert isinstance(store, PostgresStore)
        store.transact(lambda tx: tx.add(Tenant(name="shop")))
        store.close()
        with reading(url) as reader:
            assert reader.get(Tenant, "shop")


def test_password_file_must_be_private(tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    url = f"postgresql://forewarn@db.example/forewarn?passfile={file}"
    with pytest.raises(ValueError, match="passfile: No such file"):
        check_url(url)
    file.write_text("db.example:5432:forewarn:forewarn:geheim\n")
    file.chmod(0o644)
    with pytest.raises(ValueError, match=f"others can read .* chmod 600 {file}"):
        check_url(url)
    file.chmod(0o600)
    check_url(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://forewarn:geheim@db/forewarn", "a password in the URL"),
        ("postgresql://db/forewarn?sslpassword=geheim", "a password in the URL"),
        ("postgresql://forewarn@db.example", "names no database"),
        ("postgresql://[geheim/forewarn", "cannot be read"),
    ],
)
def test_url_of_postgresql_is_refused_without_showing_it(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        check_url(url)
    assert "geheim" not in str(caught.value)
    assert "passfile=" in str(caught.value)


def test_missing_client_of_postgresql_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'forewarn\[postgres\]'"):
        check_url("postgresql://forewarn@db.example/forewarn")


def test_other_memory_is_beside_the_file_or_in_the_current_directory() -> None:
    assert companion_file("sqlite:////var/lib/fw.db", "qemu") == Path(
        "/var/lib/fw.db.qemu"
    )
    assert companion_file("postgresql://db/forewarn", "qemu") == Path("forewarn.qemu")
    assert companion_file("memory://", "qemu") is None


def test_place_in_messages_has_no_user_and_no_option() -> None:
    url = "postgresql://forewarn@db.example/forewarn?passfile=/etc/pgpass"
    assert place_of(url) == "postgresql://db.example/forewarn"
    assert place_of("sqlite:///forewarn.db") == "forewarn.db"
    assert place_of("memory://") == ""


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
