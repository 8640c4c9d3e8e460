"""`store check`: nothing is found in what the service wrote, and every damage is."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from forewarn.store import queries
from forewarn.store.backup import backup
from forewarn.store.check import check
from forewarn.store.codec import CODECS
from forewarn.store.port import StoreError
from tests.support.machine import LivesInFile
from tests.unit.store.written import write_a_life

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which something of everything is under way."""
    file = tmp_path_factory.mktemp("store") / "forewarn.db"
    write_a_life(file)
    return file


@pytest.fixture
def file(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path / "forewarn.db"))


def test_what_the_service_wrote_is_sound(written: Path) -> None:
    assert check(written) == []


class CheckedLives(LivesInFile):
    """Random lives, whose file is checked when they end, beside the service."""

    def teardown(self) -> None:
        try:
            if self.life is not None and self.folder and not self.life.is_broken:
                found = check(Path(self.folder.name) / "forewarn.db")
                if self.life._crowded:
                    # A hypervisor put VMs where the rules would not have.
                    found = [each for each in found if "not sound" not in each]
                assert found == []
        finally:
            super().teardown()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_found_in_random_lives() -> None:
    run_state_machine_as_test(
        CheckedLives,
        settings=settings(
            max_examples=10,
            stateful_step_count=30,
            suppress_health_check=SLOW,
        ),
    )


MESSAGE = "INSERT INTO outbox VALUES ('{:017}.1', '{}', 2, 'started', 'X', '{}', 0)"

DAMAGES = {
    MESSAGE.format(1, "ops", "{}"): "is not where its time belongs",
    MESSAGE.format(2, "", "{}"): "does not say for whom it is",
    MESSAGE.format(2, "ops", "[]"): "tells of no event",
    MESSAGE.format(2, "ops", "{"): "tells of no event",
    MESSAGE.format(2, "ops", "{}"): "tells of no event",
    "INSERT INTO tokens VALUES ('tk-1', 'ci', 'nobody', 0,"
    f" '{'0' * 64}', 1, 'operator', 0, 0)": (
        "token tk-1 is of tenant nobody, which is not there"
    ),
    "INSERT INTO spans SELECT span_id || 'x', vm, scope, tenant,"
    " fault_domain, kind, operation, began + 1, ended, is_exact, revision FROM spans"
    " WHERE kind = 'reboot'": "of vm done_0 are at once",
    "INSERT INTO spans SELECT span_id || 'x', vm, scope, tenant,"
    " fault_domain, kind, operation, began, began + 1, is_exact, revision FROM spans"
    " WHERE vm = 'idle'": "of vm idle are at once",
    "UPDATE spans SET began = began - 1 WHERE kind = 'reboot'": (
        "of vm done_0 begins before it was written"
    ),
    "DELETE FROM spans WHERE vm = 'idle'": (
        "it is not noted once that vm idle is in scope idle"
    ),
    "UPDATE spans SET tenant = 'bank' WHERE vm = 'idle'": (
        "it is not noted once that vm idle is in scope idle"
    ),
    "UPDATE spans SET ended = 5, began = 9 WHERE kind = 'reboot'": (
        "ends before it begins"
    ),
    "UPDATE spans SET vm = 'idle' WHERE kind = 'reboot'": (
        "of vm idle is not where its vm's belong"
    ),
    "UPDATE spans SET ended = 0 WHERE kind = 'reboot'": (
        "vm done_0 runs, and an interruption of it goes on"
    ),
    "DELETE FROM spans WHERE kind = 'failure'": (
        "vm down_0 is down, and it is not noted since when"
    ),
    "INSERT INTO spans SELECT 'down_0/x', vm, scope, tenant, fault_domain, kind,"
    " operation, began, ended, is_exact, revision FROM spans WHERE kind = 'failure'": (
        "vm down_0 has 2 interruptions at once"
    ),
    "UPDATE vms SET state = 'deleted' WHERE name = 'idle'": (
        "vm idle was deleted, and a time of it goes on"
    ),
    "INSERT INTO spans SELECT 'gone/x', 'gone', scope, tenant, fault_domain, kind,"
    " operation, began, ended, is_exact, revision FROM spans WHERE vm = 'idle'": (
        "vm gone is not there, and a time of it goes on"
    ),
    "UPDATE scopes SET tenant = 'nobody' WHERE name = 'web'": (
        "scope web is of tenant nobody, which is not there"
    ),
    "UPDATE vms SET host = 'nowhere' WHERE name = 'idle'": (
        "vm idle is on host nowhere, or moves there, which is not there"
    ),
    "UPDATE vms SET tenant = 'bank' WHERE name = 'idle'": (
        "vm idle is of tenant bank, its scope of shop"
    ),
    "UPDATE vms SET fault_domain = 1 WHERE name = 'idle_1'": "the fleet is not sound",
    "UPDATE hosts SET capacity = 1 WHERE name = 'h9'": "the fleet is not sound",
    "UPDATE vms SET started = '[\"op-x\"]' WHERE name = 'idle'": (
        "vm idle still names operation op-x, as to what has started"
    ),
    "UPDATE vms SET started = '[]' WHERE name = 'moved_0'": (
        "vm moved_0 does not know of operation"
    ),
    "UPDATE vms SET moving_to = 'h9' WHERE name = 'idle'": (
        "host h9 and vm idle disagree whether a place is kept there"
    ),
    "UPDATE vms SET view = 'web' WHERE name = 'idle'": (
        "vm idle is served view web instead of idle"
    ),
    "INSERT INTO views SELECT 'extra', scope, enabling, vm, state, epoch, incarnation,"
    " digest, ready_at, events_from, due_at, last_seen, revision FROM views"
    " WHERE view_id = 'web'": "view extra is served to no vm",
    "UPDATE views SET digest = 'x' WHERE view_id = 'web'": (
        "view web stands at incarnation"
    ),
    "UPDATE views SET epoch = 0 WHERE view_id = 'web'": (
        "view web is enabled and has never begun"
    ),
    "UPDATE vms SET state = 'running' WHERE name = 'down_0'": (
        "vm down_0 runs on host h3, which is down"
    ),
    "UPDATE vms SET state = 'down' WHERE name = 'idle'": (
        "vm idle is down and no Started event names it"
    ),
    "UPDATE operations SET request = 'rq-x' WHERE state = 'Noticed'": (
        "is of request rq-x, which is not there"
    ),
    "UPDATE operations SET due_at = 0 WHERE state = 'Noticed'": (
        "waits for a timer that it does not have"
    ),
    "UPDATE operations SET started_at = 5 WHERE state = 'Noticed'": (
        "is Noticed and has started"
    ),
    "UPDATE operations SET call_state = 'issued' WHERE state = 'Noticed'": (
        "is Noticed and its driver call is issued"
    ),
    "UPDATE operations SET call_state = 'none' WHERE action = 'live-migrate'": (
        "is Impacting and no driver call of it is under way"
    ),
    "UPDATE operations SET generation = 0 WHERE action = 'live-migrate'": (
        "its driver call has no generation"
    ),
    "UPDATE operations SET ended_at = 0 WHERE state = 'Done'": "is Done and has no end",
    "UPDATE operations SET due_at = 9 WHERE state = 'Done'": (
        "is Done and waits for a timer"
    ),
    "UPDATE operations SET started_at = 0 WHERE action = 'live-migrate'": (
        "is Impacting and has not started"
    ),
    "UPDATE operations SET state = 'Recovering', impact_ended_at = 0"
    " WHERE action = 'live-migrate'": "is Recovering and its impact has not ended",
    "UPDATE operations SET state = 'Planned' WHERE state = 'Noticed'": (
        "is Planned and was never told to anybody"
    ),
    "UPDATE operations SET host = 'hx' WHERE state = 'Noticed'": (
        "is on host hx, which is not there"
    ),
    "UPDATE events SET status = 'Started' WHERE status = 'Scheduled'": (
        "is Noticed and its event"
    ),
    "UPDATE events SET operation = 'op-x' WHERE status = 'Removed'": (
        "is of operation op-x, which is not there"
    ),
    "UPDATE events SET scope = 'sx' WHERE status = 'Scheduled'": (
        "is of scope sx, which is not there"
    ),
    "UPDATE events SET not_before = not_before + 1 WHERE status = 'Scheduled'": (
        "has a NotBefore within a second"
    ),
    "UPDATE events SET approved_by = '' WHERE approved_by != ''": (
        "is approved by nobody, or never"
    ),
    "UPDATE events SET outcome = NULL WHERE status = 'Removed'": (
        "is Removed, and its end says otherwise"
    ),
    "UPDATE events SET started_at = 0 WHERE status = 'Started'": (
        "is Started and never did"
    ),
    "UPDATE events SET resources = '[]' WHERE status = 'Scheduled'": (
        "is shown and names no vm"
    ),
    "UPDATE requests SET state = 'Closed' WHERE state = 'Open'": (
        "is Closed and something of it is under way"
    ),
    "UPDATE requests SET state = 'Cancelled' WHERE state = 'Open'": (
        "is Cancelled and something of it still waits"
    ),
    "UPDATE requests SET state = 'Open' WHERE state = 'Closed'": (
        "is Open and nothing of it is under way"
    ),
    "UPDATE audit SET at = at + 1": "of the trail is not where its time belongs",
    "UPDATE audit SET actor = ''": "of the trail does not say who",
    "DELETE FROM operation_vms": "the link operation vm of",
    "DELETE FROM open_operation_vms": "the link open operation vm of",
    "DELETE FROM open_operation_scopes": "the link open operation scope of",
    "DELETE FROM audit_subjects": "the link audit subject of",
    "INSERT INTO operation_vms VALUES ('idle', 'op-x')": "is stray",
    "INSERT INTO open_operation_vms VALUES ('idle', 'op-x')": "is stray",
    "INSERT INTO open_operation_scopes VALUES ('web', 'op-x')": "is stray",
    "INSERT INTO audit_subjects VALUES ('vm:idle', 'x')": "is stray",
    "UPDATE vms SET state = 'asleep' WHERE name = 'idle'": (
        "a row of Vm cannot be read"
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_found(file: Path, damage: str) -> None:
    with sqlite3.connect(file) as connection:
        changed = connection.execute(damage).rowcount
    connection.close()
    assert changed, "the life has nothing of the kind"
    found = check(file)
    assert any(DAMAGES[damage] in each for each in found), "\n".join(found)


def test_a_file_that_is_not_whole_is_told(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(3 * 4096)
        opened.write(b"\xff" * 4096 * 4)
    with pytest.raises(StoreError, match="malformed"):
        check(file)


def test_what_is_no_store_is_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        check(tmp_path / "missing")
    fresh = tmp_path / "fresh.db"
    fresh.touch()
    with pytest.raises(StoreError, match="is empty: no forewarn has written to it"):
        check(fresh)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(StoreError, match="of another program"):
        check(other)
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM schema_steps")
    connection.close()
    with pytest.raises(StoreError, match="older forewarn"):
        check(file)


def test_every_table_and_link_is_looked_at() -> None:
    wanted = {f"every_{codec.noun}" for codec in CODECS} | {
        f"{what}_{links.noun}"
        for codec in CODECS
        for links in codec.links
        for what in ("missing", "stray")
    }
    assert set(queries.load_checks()) == wanted


# Backups


def leftovers(folder: Path) -> Iterator[Path]:
    return folder.glob(".*")


def test_a_backup_is_one_whole_file_for_its_owner(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    assert backup(file, target) == target.stat().st_size
    assert check(target) == []
    assert target.stat().st_mode & 0o777 == 0o600
    assert not list(leftovers(tmp_path))
    assert not list(tmp_path.glob("copy.db-*"))


def test_a_backup_overwrites_nothing(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    for each in (target, file):
        with pytest.raises(StoreError, match="exists already"):
            backup(file, each)
    assert target.read_text() == "precious"
    with pytest.raises(StoreError, match="there is no store"):
        backup(tmp_path / "missing", tmp_path / "new")
    with pytest.raises(StoreError, match="cannot be written"):
        backup(file, tmp_path / "no" / "where")
    (tmp_path / "empty").touch()
    with pytest.raises(StoreError, match="is empty"):
        backup(tmp_path / "empty", tmp_path / "new")
    assert not list(leftovers(tmp_path))
    assert not (tmp_path / "new").exists()
