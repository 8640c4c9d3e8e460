"""`store check` finds every damage, and nothing in a file of the service."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from forewarn.store import queries
from forewarn.store.check import check
from forewarn.store.codec import CODECS
from forewarn.store.port import StoreError
from tests.support.machine import LivesInFile
from tests.support.profiles import amounts, drawing_limit

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture
def file(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path / "forewarn.db"))


def test_file_written_by_the_service_passes_the_check(written: Path) -> None:
    assert check(written) == []


class CheckedLives(LivesInFile):
    """Random lives, whose file is checked when they end, beside the service."""

    def teardown(self) -> None:
        try:
            if self.life is not None and self.directory and not self.life.is_broken:
                violations = check(Path(self.directory.name) / "forewarn.db")
                if self.life._crowded:
                    # A hypervisor put VMs where the rules would not have.
                    violations = [
                        text for text in violations if "not valid" not in text
                    ]
                assert violations == []
        finally:
            super().teardown()


@pytest.mark.amounts
@pytest.mark.slow
@drawing_limit(300)
def test_check_finds_no_problem_after_random_operations() -> None:
    run_state_machine_as_test(
        CheckedLives,
        settings=settings(
            max_examples=amounts().checked_lives,
            stateful_step_count=30,
            suppress_health_check=SLOW,
        ),
    )


MESSAGE = "INSERT INTO outbox VALUES ('{:06}.000000009999', '{}', 2, 'started', 'X', '{}', 0, '', '')"

BUSY = '{"kind":"vm busy","vm":"idle","operation":"op-x"}'


def _held(state: str, *blockers: str) -> str:
    """Return SQL that stores blockers with the operation that waits."""
    stored = f"[{','.join(blockers)}]"
    return (
        f"UPDATE operations SET state = '{state}', held_by = '{stored}'"
        " WHERE state = 'Announced'"
    )


def _unplanned(*hosts: list[str]) -> str:
    """Return SQL that leaves hosts to plan in a request."""
    return (
        "INSERT INTO unplanned_pages SELECT 'op-a', max(request_id),"
        f" '{json.dumps(hosts)}', 0 FROM requests"
    )


REDACTED = '{"kind":"platform"}'
OPERATES = '["view","plan","run","approve","emergency"]'
MAKER = '{"kind":"operator","name":"alice"}'


def _token(
    token_id: str, name: str, *, created: int = 1, expires: int = 0, **more: str
) -> str:
    """Return SQL that stores a token."""
    tenant, maker = more.get("tenant", ""), more.get("maker", MAKER)
    return (
        f"INSERT INTO tokens VALUES ('{token_id}', '{name}', '{tenant}',"
        f" '{more.get('roles', OPERATES)}',"
        f" '{'0' * 64}', {created}, '{maker}', {expires}, 0, 0, 0, '{more.get('host', '')}')"
    )


DAMAGES = {
    _unplanned(["op-x", "gone"]): "has host gone to plan, which does not exist",
    _unplanned(["op-x", "h9"]): "has 1 hosts to plan but covers 0",
    _unplanned(["op-y", "h9"], ["op-x", "h5"]): "to plan twice or out of order",
    _unplanned(["op-x", "h9"], ["op-y", "h9"]): "to plan twice or out of order",
    _unplanned(["op-x", "h5"]): "counts 0 hosts to plan, but has 1",
    "UPDATE requests SET hosts_unplanned = 2": "counts 2 hosts to plan, but has 0",
    "INSERT INTO unplanned_pages SELECT 'op-a', request, json_array(json_array("
    "operation_id, 'h9')), 0 FROM operations WHERE state = 'Announced'": (
        "to plan, which exists"
    ),
    "INSERT INTO unplanned_pages VALUES ('op-a', 'ro-gone', '[]', 0)": (
        "page op-a of hosts to plan is of request ro-gone, which does not exist"
    ),
    "INSERT INTO unplanned_hosts VALUES ('h9', 'op-a')": (
        "the link unplanned host of op-a and h9 is stray"
    ),
    "UPDATE rooms SET used = used + 1": "or another zone, pool",
    "UPDATE rooms SET works = works + 1": "or another zone, pool",
    "UPDATE rooms SET is_up = 0": "or another zone, pool, size or state",
    "UPDATE rooms SET pool = 'amd'": "or another zone, pool, size or state",
    "UPDATE rooms SET vcpu_used = 1": "or another zone, pool, size or state",
    "UPDATE rooms SET memory = 5": "or another zone, pool, size or state",
    "UPDATE rooms SET is_cordoned = 1": "or a cordon",
    "DELETE FROM rooms": "there is no capacity of host",
    "INSERT INTO rooms (host, zone, places, used, is_up, works, done_in, revision)"
    " VALUES ('gone', '', 1, 0, 1, 0, '', 0)": (
        "there is a capacity of host gone, which does not exist"
    ),
    MESSAGE.format(7, "ops", "{}"): "is of term 7, but the store is in term 1",
    "INSERT INTO outbox VALUES ('5', 'ops', 2, 'started', 'X', '{}', 0, '', '')": (
        "has no term and number"
    ),
    MESSAGE.format(1, "", "{}"): "has no receiver or no public ID",
    MESSAGE.format(1, "ops", "[]"): "contains no event",
    MESSAGE.format(1, "ops", "{"): "contains no event",
    "INSERT INTO outbox VALUES ('000001.000000009999', 'ops', 2, NULL, 'X',"
    """ '{"EventId":"E","EventStatus":"Scheduled"}', 0, '', '')""": "has no change",
    "INSERT INTO outbox VALUES ('000001.000000009999', 'ops', 2, 'started', 'X', '', 0,"
    """ '', '{"kind":"brake-off","by":{"kind":"operator","name":"bob"}}')""": (
        "is both a notice and the change of an event"
    ),
    MESSAGE.format(1, "ops", "{}"): "contains no event",
    _token("tk-1", "ci", tenant="nobody", roles='["view"]'): (
        "token tk-1 is of tenant nobody, which does not exist"
    ),
    _token("tk-2", "ci", maker=REDACTED): "the creator of token tk-2 is redacted",
    **{
        _token("tk-3", "ci", roles=f"[{roles}]"): "token tk-3 has the invalid roles"
        for roles in ("", '"run","view"', '"run"', '"view","view"')
    },
    _token("tk-4", "ci", tenant="shop"): "token tk-4 has the invalid roles",
    _token("tk-5", "r", roles='["view"]', host="h1"): "tk-5 has the invalid roles view",
    _token("tk-6", "r", roles="[]", host="gone"): (
        "tk-6 is for the relay of gone, which does not exist"
    ),
    _token("tk-7", "r", roles="[]", host="h1", tenant="shop"): (
        "tk-7 is of a relay and of a tenant"
    ),
    "INSERT INTO order_keys VALUES ('k', 'operator',"
    f" '{'0' * 64}', '[]', 1, 2, 0)": "order key k has an invalid digest of the caller and key",
    f"INSERT INTO order_keys VALUES ('{'0' * 64}', 'operator',"
    f" '{'0' * 64}', '[]', 2, 2, 0)": "has no caller or no validity period",
    f"INSERT INTO order_keys VALUES ('{'0' * 64}', 'operator',"
    f" '{'0' * 64}', '[', 1, 2, 0)": "has no valid result",
    "INSERT INTO spans SELECT span_id || 'x', vm, scope, tenant,"
    " fault_domain, kind, operation, began, ended, is_exact, revision FROM spans"
    " WHERE vm = 'idle'": "of VM idle overlap",
    "UPDATE views SET events_from = 5 WHERE view_id = 'web'": (
        "view web has a delay without a timer"
    ),
    "UPDATE views SET due_at = 5 WHERE view_id = 'web'": (
        "view web has a delay without a timer, or a timer without a delay"
    ),
    "UPDATE views SET events_from = 5, due_at = 5, state = 'Disabled'": (
        "is disabled but has a delay"
    ),
    "UPDATE events SET shown_in = '[]' WHERE status = 'Scheduled'": (
        "is shown in view web without its mark, and could not be approved"
    ),
    "UPDATE events SET shown_in = '[\"web\"]' WHERE status = 'Scheduled'": (
        "has an invalid view mark"
    ),
    "UPDATE vms SET left_views = '[\"web 1\"]' WHERE name = 'idle'": (
        "VM idle has an invalid view mark"
    ),
    "UPDATE spans SET began = began - 1 WHERE kind = 'reboot'": (
        "of VM done_0 begins before it was written"
    ),
    "DELETE FROM spans WHERE vm = 'idle'": (
        "VM idle does not have exactly one open span in scope idle"
    ),
    "UPDATE spans SET tenant = 'bank' WHERE vm = 'idle'": (
        "VM idle does not have exactly one open span in scope idle"
    ),
    "UPDATE spans SET ended = 5, began = 9 WHERE kind = 'reboot'": (
        "ends before it begins"
    ),
    "UPDATE spans SET vm = 'idle' WHERE kind = 'reboot'": (
        "of VM idle has the ID of another VM"
    ),
    "UPDATE spans SET ended = 0 WHERE kind = 'reboot'": (
        "VM done_0 runs but has an open outage"
    ),
    "DELETE FROM spans WHERE kind = 'failure'": (
        "VM down_0 is down but has no open span of a failure"
    ),
    "INSERT INTO spans SELECT 'down_0/x', vm, scope, tenant, fault_domain, kind,"
    " operation, began, ended, is_exact, revision FROM spans WHERE kind = 'failure'": (
        "VM down_0 has 2 open outages at the same time"
    ),
    "UPDATE vms SET state = 'deleted' WHERE name = 'idle'": (
        "VM idle was deleted but has an open span"
    ),
    "INSERT INTO spans SELECT 'gone/x', 'gone', scope, tenant, fault_domain, kind,"
    " operation, began, ended, is_exact, revision FROM spans WHERE vm = 'idle'": (
        "VM gone does not exist but has an open span"
    ),
    "UPDATE scopes SET tenant = 'nobody' WHERE name = 'web'": (
        "scope web is of tenant nobody, which does not exist"
    ),
    "UPDATE vms SET host = 'nowhere' WHERE name = 'idle'": (
        "VM idle is on or moves to host nowhere, which does not exist"
    ),
    "UPDATE vms SET tenant = 'bank' WHERE name = 'idle'": (
        "VM idle is of tenant bank, but its scope is of shop"
    ),
    "UPDATE vms SET fault_domain = 1 WHERE name = 'idle_1'": "the fleet is not valid",
    "UPDATE hosts SET capacity = 1 WHERE name = 'h9'": "the fleet is not valid",
    "UPDATE vms SET started = '[\"op-x\"]' WHERE name = 'idle'": (
        "VM idle still lists operation op-x as started"
    ),
    "UPDATE vms SET started = '[]' WHERE name = 'moved_0'": (
        "VM moved_0 does not list operation"
    ),
    "UPDATE vms SET moving_to = 'h9' WHERE name = 'idle'": (
        "VM idle and its operation disagree whether capacity is reserved on host h9"
    ),
    "UPDATE vms SET view = 'web' WHERE name = 'idle'": (
        "VM idle is served view web instead of idle"
    ),
    "INSERT INTO views SELECT 'extra', scope, enabling, vm, state, epoch, incarnation,"
    " digest, ready_at, events_from, due_at, last_seen, revision FROM views"
    " WHERE view_id = 'web'": "view extra has no VMs",
    "UPDATE views SET digest = 'x' WHERE view_id = 'web'": (
        "of view web belongs to other content than its events"
    ),
    "UPDATE views SET epoch = 0 WHERE view_id = 'web'": (
        "view web is enabled but has no epoch or incarnation"
    ),
    "UPDATE vms SET state = 'running' WHERE name = 'down_0'": (
        "VM down_0 runs on host h3, which is down"
    ),
    "UPDATE vms SET state = 'down' WHERE name = 'idle'": (
        "VM idle is down, but no Started event names it"
    ),
    "UPDATE operations SET request = 'rq-x' WHERE state = 'Announced'": (
        "is of request rq-x, which does not exist"
    ),
    "UPDATE operations SET due_at = 0 WHERE state = 'Announced'": (
        "needs a timer and has none"
    ),
    "UPDATE operations SET started_at = 5 WHERE state = 'Announced'": (
        "is Announced, but it has started"
    ),
    "UPDATE operations SET call_state = 'issued' WHERE state = 'Announced'": (
        "is Announced, but its driver call is issued"
    ),
    "UPDATE operations SET call_state = 'none' WHERE action = 'live-migrate'": (
        "is Impacting, but it has no driver call"
    ),
    "UPDATE operations SET driver = '', driver_memory = 'memory-x'": (
        "its driver call names a driver's memory but no driver"
    ),
    "UPDATE operations SET moves = json_set(moves, '$[0].done', json('true'))"
    " WHERE action = 'live-migrate'": "has moved VM moved_0 to host h5, but it is recorded on",
    "UPDATE operations SET generation = 0 WHERE action = 'live-migrate'": (
        "its driver call has no generation"
    ),
    "UPDATE operations SET ended_at = 0 WHERE state = 'Done'": "is Done, but it has no end",
    "UPDATE operations SET due_at = 9 WHERE state = 'Done'": (
        "is Done, but it waits for a timer"
    ),
    "UPDATE operations SET started_at = 0 WHERE action = 'live-migrate'": (
        "is Impacting, but it has not started"
    ),
    "UPDATE operations SET state = 'Recovering', impact_ended_at = 0"
    " WHERE action = 'live-migrate'": "is Recovering, but its impact has not ended",
    "UPDATE operations SET state = 'Planned' WHERE state = 'Announced'": (
        "is Planned, but nothing that it waits for would announce it"
    ),
    "UPDATE operations SET host = 'hx' WHERE state = 'Announced'": (
        "is on host hx, which does not exist"
    ),
    "UPDATE events SET status = 'Started' WHERE status = 'Scheduled'": (
        "is Announced, but its event"
    ),
    "UPDATE events SET operation = 'op-x' WHERE status = 'Removed'": (
        "is of operation op-x, which does not exist"
    ),
    "UPDATE events SET scope = 'sx' WHERE status = 'Scheduled'": (
        "is of scope sx, which does not exist"
    ),
    "UPDATE events SET not_before = not_before + 1 WHERE status = 'Scheduled'": (
        "has a NotBefore with a fraction of a second"
    ),
    "UPDATE events SET approver = '' WHERE approver != ''": (
        "has an approver or a time of approval without the other"
    ),
    "UPDATE events SET outcome = NULL WHERE status = 'Removed'": (
        "is Removed, but its end or outcome contradicts that"
    ),
    "UPDATE events SET started_at = 0 WHERE status = 'Started'": (
        "is Started but has no start time"
    ),
    "UPDATE events SET resources = '[]' WHERE status = 'Scheduled'": (
        "is live but names no VM"
    ),
    "UPDATE requests SET state = 'Closed' WHERE state = 'Open'": (
        "is Closed but has an open operation"
    ),
    "UPDATE requests SET state = 'Cancelled' WHERE state = 'Open'": (
        "is Cancelled but has a waiting operation"
    ),
    "UPDATE requests SET state = 'Open' WHERE state = 'Closed'": (
        "is Open but has no open operation"
    ),
    _held("Announced", BUSY): "is Announced, but it has blockers",
    _held("Ready", '{"kind":"not before","remaining":5}'): (
        "a blocker of kind 'not before' cannot hold a start"
    ),
    _held("Ready", BUSY): "is Ready, but it has blockers, and nothing would wake it",
    _held("Ready", BUSY, BUSY, BUSY, BUSY): "4 blockers of kind 'vm busy' are stored",
    _held("Ready", '{"kind":"more","of":"vm busy","count":0}'): (
        "the number of further blockers is below 1"
    ),
    _held(
        "Ready",
        '{"kind":"fault domain","scope":"web","fault_domain":1,"causes":[],"more":2}',
    ): "0 causes of one fault domain are stored",
    'UPDATE audit SET facts = \'{"blockers":[{"kind":"platform","what":"held"}]}\''
    " WHERE kind = 'operation ready'": "has blockers",
    'UPDATE audit SET facts = \'{"blockers":[{"kind":"platform","what":"held"}]}\','
    " kind = 'operation held' WHERE kind = 'operation ready'": (
        "a blocker of kind 'platform' cannot hold a start"
    ),
    'UPDATE audit SET facts = \'{"by":{"kind":"tenant"}}\''
    " WHERE kind = 'event approved'": "its approver has no name",
    "UPDATE audit SET facts = '[]'": "a row of AuditEntry cannot be read",
    "UPDATE audit SET kind = 'weather'": "a row of AuditEntry cannot be read",
    "UPDATE audit SET operation = 'op-x' WHERE operation != ''": (
        "does not name its operation"
    ),
    "UPDATE operations SET left_vms = '[\"idle\"]' WHERE state = 'Done'": (
        "the link operation vm of"
    ),
    "UPDATE operations SET left_vms = json_array(json_extract(moves, '$[0].vm'))": (
        "is both part of it and one that left it"
    ),
    'UPDATE operations SET cancelled_by = \'{"kind":"operator"}\''
    " WHERE state = 'Done'": "it has an actor who cancelled it",
    "UPDATE operations SET state = 'Cancelled',"
    " cancelled_by = '{\"kind\":\"operator\"}' WHERE state = 'Done'": (
        "the actor who cancelled it has no name"
    ),
    "UPDATE leader SET term = 0": "is of term 1, but the store is in term 0",
    "UPDATE audit SET entry_id = 'x' || entry_id": ("has no term and number"),
    "UPDATE audit SET actor = ''": "a row of AuditEntry cannot be read",
    """UPDATE audit SET actor = '{"kind":"operator"}'""": "its actor has no name",
    """UPDATE audit SET actor = '{"kind":"platform"}'""": "its actor is redacted",
    """UPDATE requests SET actor = '{"kind":"tenant","name":"ci"}'""": (
        "has no tenant, or a tenant without being one"
    ),
    """UPDATE events SET approver = '{"kind":"policy"}' WHERE approver != ''""": (
        "its approver has no name"
    ),
    "DELETE FROM operation_vms": "the link operation vm of",
    "DELETE FROM open_operation_vms": "the link open operation vm of",
    "DELETE FROM open_operation_scopes": "the link open operation scope of",
    "DELETE FROM audit_subjects": "the link audit subject of",
    "INSERT INTO host_places VALUES ('rack=r9', 'h9')": "is stray",
    'UPDATE hosts SET labels = \'[["model","m1"]]\'': "and label=model=m1 is missing",
    "INSERT INTO vm_tags VALUES ('role=web', 'idle')": "is stray",
    'UPDATE vms SET tags = \'[["role","db"]]\'': "role=db is missing",
    "INSERT INTO operation_vms VALUES ('idle', 'op-x')": "is stray",
    "INSERT INTO open_operation_vms VALUES ('idle', 'op-x')": "is stray",
    "INSERT INTO open_operation_scopes VALUES ('web', 'op-x')": "is stray",
    "INSERT INTO audit_subjects VALUES ('vm:idle', 'x')": "is stray",
    "UPDATE vms SET state = 'asleep' WHERE name = 'idle'": (
        "a row of Vm cannot be read"
    ),
}


MOVES_OF_FAILURE = "(SELECT moves FROM operations WHERE verb = 'fail')"

OVERLAPS = {
    "UPDATE operations SET state = 'Impacting', started_at = 5, due_at = 9,"
    " call_state = 'issued', generation = 1,"
    " moves = (SELECT moves FROM operations WHERE action = 'live-migrate')"
    " WHERE state = 'Announced'": "have driver calls for VM moved_0 at once",
    "UPDATE operations SET state = 'Impacting', started_at = 5, verb = 'fail',"
    f" action = 'none', moves = {MOVES_OF_FAILURE} WHERE state = 'Announced'": (
        "VM down_0 has two failures"
    ),
    "UPDATE operations SET position = 1; UPDATE events SET scope = 'web',"
    " resources = json_set(resources, '$[0].fault_domain', 7)"
    " WHERE is_planned_work = 1 AND status = 'Started'": (
        "rollouts have announced two fault domains of scope web"
    ),
    "UPDATE operations SET request = (SELECT request FROM operations"
    " WHERE state = 'Announced') WHERE action = 'live-migrate';"
    " UPDATE requests SET in_flight = 2 WHERE in_flight = 1": (
        "has 2 hosts announced or running, but at most 1 are allowed"
    ),
    _token("tk-1", "ci", created=1, expires=0)
    + ";"
    + _token("tk-2", "CI", created=2, expires=9): (
        "token tk-2 and token tk-1 have the same name CI"
    ),
}


@pytest.mark.parametrize("damage", OVERLAPS, ids=OVERLAPS.values())
def test_conflicting_records_are_found(file: Path, damage: str) -> None:
    with sqlite3.connect(file) as connection:
        for statement in damage.split(";"):
            assert connection.execute(statement).rowcount, statement
    connection.close()
    violations = check(file)
    assert any(OVERLAPS[damage] in text for text in violations), "\n".join(violations)


def test_name_of_an_expired_token_can_be_reused(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(_token("tk-1", "ci", created=1, expires=5))
        connection.execute(_token("tk-2", "ci", created=5, expires=0))
    connection.close()
    assert check(file) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_kind_of_damage_is_found(file: Path, damage: str) -> None:
    with sqlite3.connect(file) as connection:
        changed = connection.execute(damage).rowcount
    connection.close()
    assert changed, "the life has nothing of the kind"
    violations = check(file)
    assert any(DAMAGES[damage] in text for text in violations), "\n".join(violations)


def test_damaged_file_is_reported(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(3 * 4096)
        opened.write(b"\xff" * 4096 * 4)
    with pytest.raises(StoreError, match="malformed"):
        check(file)


def test_file_that_is_not_a_store_is_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        check(tmp_path / "missing")
    fresh = tmp_path / "fresh.db"
    fresh.touch()
    with pytest.raises(StoreError, match="is empty: no service has used it yet"):
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


def test_each_link_is_checked() -> None:
    wanted = {links.noun for codec in CODECS for links in codec.links}
    assert set(queries.parse(queries.read_sql("check.sql"))) == wanted
