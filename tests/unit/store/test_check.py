"""`store check`: nothing is found in what the service wrote, and every damage is."""

import json
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


MESSAGE = "INSERT INTO outbox VALUES ('{:06}.000000009999', '{}', 2, 'started', 'X', '{}', 0, '')"

BUSY = '{"kind":"vm busy","vm":"idle","operation":"op-x"}'


def _held(state: str, *blockers: str) -> str:
    """Return SQL that stores blockers with the operation that waits."""
    stored = f"[{','.join(blockers)}]"
    return (
        f"UPDATE operations SET state = '{state}', held_by = '{stored}'"
        " WHERE state = 'Announced'"
    )


def _unplanned(*hosts: list[str]) -> str:
    """Return SQL that leaves hosts to plan in each request."""
    return f"UPDATE requests SET unplanned = '{json.dumps(hosts)}'"


REDACTED = '{"kind":"platform"}'
MAKER = '{"kind":"operator","name":"alice"}'
DAMAGES = {
    _unplanned(["op-x", "gone"]): "has host gone to plan, which is not there",
    _unplanned(["op-x", "h9"]): "has 1 hosts to plan, and is for 0",
    _unplanned(["op-y", "h9"], ["op-x", "h5"]): "to plan twice, or not in their order",
    _unplanned(["op-x", "h9"], ["op-y", "h9"]): "to plan twice, or not in their order",
    "UPDATE requests SET unplanned = json_array(json_array("
    "(SELECT operation_id FROM operations WHERE state = 'Announced'), 'h9'))": (
        "to plan, which is there"
    ),
    "UPDATE rooms SET used = used + 1": "are kept, or its zone or state differs",
    "UPDATE rooms SET works = works + 1": "are kept, or its zone or state differs",
    "UPDATE rooms SET is_up = 0": "are kept, or its zone or state differs",
    "DELETE FROM rooms": "no places are kept of host",
    "INSERT INTO rooms VALUES ('gone', '', 1, 0, 1, 0, '', 0)": (
        "places are kept of host gone, which is not there"
    ),
    MESSAGE.format(7, "ops", "{}"): "is of term 7, and the store is in term 1",
    "INSERT INTO outbox VALUES ('5', 'ops', 2, 'started', 'X', '{}', 0, '')": (
        "has no term and number"
    ),
    MESSAGE.format(1, "", "{}"): "does not say for whom it is",
    MESSAGE.format(1, "ops", "[]"): "tells of no event",
    MESSAGE.format(1, "ops", "{"): "tells of no event",
    MESSAGE.format(1, "ops", "{}"): "tells of no event",
    "INSERT INTO tokens VALUES ('tk-1', 'ci', 'nobody', 0,"
    f" '{'0' * 64}', 1, '{MAKER}', 0, 0, 0, 0)": (
        "token tk-1 is of tenant nobody, which is not there"
    ),
    "INSERT INTO tokens VALUES ('tk-2', 'ci', '', 0,"
    f" '{'0' * 64}', 1, '{REDACTED}', 0, 0, 0, 0)": (
        "the maker of token tk-2 is by an actor who is redacted"
    ),
    "INSERT INTO order_keys VALUES ('k', 'operator',"
    f" '{'0' * 64}', '[]', 1, 2, 0)": "order key k has no digest of a caller and a key",
    f"INSERT INTO order_keys VALUES ('{'0' * 64}', 'operator',"
    f" '{'0' * 64}', '[]', 2, 2, 0)": "does not say who gave the order, or has no time",
    f"INSERT INTO order_keys VALUES ('{'0' * 64}', 'operator',"
    f" '{'0' * 64}', '[', 1, 2, 0)": "does not say what the order made",
    "INSERT INTO spans SELECT span_id || 'x', vm, scope, tenant,"
    " fault_domain, kind, operation, began, ended, is_exact, revision FROM spans"
    " WHERE vm = 'idle'": "of vm idle are at once",
    "UPDATE views SET events_from = 5 WHERE view_id = 'web'": (
        "view web has a delay that no timer ends"
    ),
    "UPDATE views SET due_at = 5 WHERE view_id = 'web'": (
        "view web has a delay that no timer ends, or a timer of none"
    ),
    "UPDATE views SET events_from = 5, due_at = 5, state = 'Disabled'": (
        "is disabled and has a delay"
    ),
    "UPDATE events SET shown_in = '[]' WHERE status = 'Scheduled'": (
        "is shown in view web, and could not be approved after a change of views"
    ),
    "UPDATE events SET shown_in = '[\"web\"]' WHERE status = 'Scheduled'": (
        "has a mark that is none"
    ),
    "UPDATE vms SET left_views = '[\"web 1\"]' WHERE name = 'idle'": (
        "vm idle has a mark that is none"
    ),
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
    "UPDATE operations SET request = 'rq-x' WHERE state = 'Announced'": (
        "is of request rq-x, which is not there"
    ),
    "UPDATE operations SET due_at = 0 WHERE state = 'Announced'": (
        "waits for a timer that it does not have"
    ),
    "UPDATE operations SET started_at = 5 WHERE state = 'Announced'": (
        "is Announced and has started"
    ),
    "UPDATE operations SET call_state = 'issued' WHERE state = 'Announced'": (
        "is Announced and its driver call is issued"
    ),
    "UPDATE operations SET call_state = 'none' WHERE action = 'live-migrate'": (
        "is Impacting and no driver call of it is under way"
    ),
    "UPDATE operations SET driver = '', driver_memory = 'memory-x'": (
        "its driver call names a driver's memory, and no driver"
    ),
    "UPDATE operations SET moves = json_set(moves, '$[0].done', json('true'))"
    " WHERE action = 'live-migrate'": "has moved vm moved_0 to host h5, and it is on",
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
    "UPDATE operations SET state = 'Planned' WHERE state = 'Announced'": (
        "is Planned and waits for nothing that could call it up"
    ),
    "UPDATE operations SET host = 'hx' WHERE state = 'Announced'": (
        "is on host hx, which is not there"
    ),
    "UPDATE events SET status = 'Started' WHERE status = 'Scheduled'": (
        "is Announced and its event"
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
    "UPDATE events SET approver = '' WHERE approver != ''": (
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
    _held("Announced", BUSY): "is Announced and something holds it",
    _held("Ready", '{"kind":"not before","remaining":5}'): (
        "a reason of kind 'not before' cannot hold a start"
    ),
    _held("Ready", BUSY): "is Ready and something holds it, and nothing would wake it",
    _held("Ready", BUSY, BUSY, BUSY, BUSY): "4 reasons of kind 'vm busy' are kept",
    _held("Ready", '{"kind":"more","of":"vm busy","count":0}'): (
        "no reasons are counted as more"
    ),
    _held(
        "Ready",
        '{"kind":"fault domain","scope":"web","fault_domain":1,"causes":[],"more":2}',
    ): "0 causes are kept of one fault domain",
    'UPDATE audit SET facts = \'{"blockers":[{"kind":"platform","what":"held"}]}\''
    " WHERE kind = 'operation ready'": "of the trail has reasons of a hold",
    'UPDATE audit SET facts = \'{"blockers":[{"kind":"platform","what":"held"}]}\','
    " kind = 'operation held' WHERE kind = 'operation ready'": (
        "of the trail: a reason of kind 'platform' cannot hold a start"
    ),
    'UPDATE audit SET facts = \'{"by":{"kind":"tenant"}}\''
    " WHERE kind = 'event approved'": "its approval does not say who",
    "UPDATE audit SET facts = '[]'": "a row of AuditEntry cannot be read",
    "UPDATE audit SET kind = 'weather'": "a row of AuditEntry cannot be read",
    "UPDATE audit SET operation = 'op-x' WHERE operation != ''": (
        "of the trail does not name its operation"
    ),
    "UPDATE operations SET left_vms = '[\"idle\"]' WHERE state = 'Done'": (
        "the link operation vm of"
    ),
    "UPDATE operations SET left_vms = json_array(json_extract(moves, '$[0].vm'))": (
        "is part of it, and has left it"
    ),
    'UPDATE operations SET cancelled_by = \'{"kind":"operator"}\''
    " WHERE state = 'Done'": "was cancelled by an order",
    "UPDATE operations SET state = 'Cancelled',"
    " cancelled_by = '{\"kind\":\"operator\"}' WHERE state = 'Done'": (
        "its end does not say who"
    ),
    "UPDATE leader SET term = 0": "is of term 1, and the store is in term 0",
    "UPDATE audit SET entry_id = 'x' || entry_id": (
        "of the trail has no term and number"
    ),
    "UPDATE audit SET actor = ''": "a row of AuditEntry cannot be read",
    """UPDATE audit SET actor = '{"kind":"operator"}'""": "of the trail does not say who",
    """UPDATE audit SET actor = '{"kind":"platform"}'""": "by an actor who is redacted",
    """UPDATE requests SET actor = '{"kind":"tenant","name":"ci"}'""": (
        "does not say whose token it was"
    ),
    """UPDATE events SET approver = '{"kind":"policy"}' WHERE approver != ''""": (
        "its approval does not say who"
    ),
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


def _token(token_id: str, name: str, *, created: int, expires: int) -> str:
    """Return SQL that stores an operator's token."""
    return (
        f"INSERT INTO tokens VALUES ('{token_id}', '{name}', '', 0,"
        f" '{'0' * 64}', {created}, '{MAKER}', {expires}, 0, 0, 0)"
    )


MOVES_OF_FAILURE = "(SELECT moves FROM operations WHERE verb = 'fail')"

OVERLAPS = {
    "UPDATE operations SET state = 'Impacting', started_at = 5, due_at = 9,"
    " call_state = 'issued', generation = 1,"
    " moves = (SELECT moves FROM operations WHERE action = 'live-migrate')"
    " WHERE state = 'Announced'": "have driver calls for vm moved_0 at once",
    "UPDATE operations SET state = 'Impacting', started_at = 5, verb = 'fail',"
    f" action = 'none', moves = {MOVES_OF_FAILURE} WHERE state = 'Announced'": (
        "vm down_0 has two failures"
    ),
    "UPDATE operations SET position = 1; UPDATE events SET scope = 'web',"
    " resources = json_set(resources, '$[0].fault_domain', 7)"
    " WHERE is_planned_work = 1 AND status = 'Started'": (
        "rollouts have announced two fault domains of scope web"
    ),
    "UPDATE operations SET request = (SELECT request FROM operations"
    " WHERE state = 'Announced') WHERE action = 'live-migrate';"
    " UPDATE requests SET in_flight = 2 WHERE in_flight = 1": (
        "has 2 hosts announced or worked on, and may have 1"
    ),
    _token("tk-1", "ci", created=1, expires=0)
    + ";"
    + _token("tk-2", "CI", created=2, expires=9): (
        "token tk-2 has the name of token tk-1, CI"
    ),
}


@pytest.mark.parametrize("damage", OVERLAPS, ids=OVERLAPS.values())
def test_what_must_not_be_at_once_is_found(file: Path, damage: str) -> None:
    with sqlite3.connect(file) as connection:
        for statement in damage.split(";"):
            assert connection.execute(statement).rowcount, statement
    connection.close()
    found = check(file)
    assert any(OVERLAPS[damage] in each for each in found), "\n".join(found)


def test_a_name_is_free_when_its_token_has_expired(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(_token("tk-1", "ci", created=1, expires=5))
        connection.execute(_token("tk-2", "ci", created=5, expires=0))
    connection.close()
    assert check(file) == []


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


def test_every_link_is_looked_at() -> None:
    wanted = {links.noun for codec in CODECS for links in codec.links}
    assert set(queries.parse(queries.read_sql("check.sql"))) == wanted


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
