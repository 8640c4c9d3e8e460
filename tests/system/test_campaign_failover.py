"""A campaign, repeated orders and a stream of changes while the leader is killed.

The leader is killed while a program of the campaign runs and while the commit of an order
waits. The work of each host runs once, the repeated order is carried out once, and a
viewer who knows the URLs of both replicas misses nothing.
"""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from forewarn.campaigns.record import CampaignRecord
from forewarn.clock import SystemClock
from forewarn.control.rules.policy import Policy
from forewarn.instants import DAY, format_instant
from forewarn.protocol.operations import ENDED_STATES
from forewarn.protocol.visits import ENTERED_VISITS, Visit, VisitState
from tests.support import postgres
from tests.support.invariants import EVERY_COMMIT
from tests.support.moments import Moment
from tests.support.processes import Serving, eventually
from tests.system.rack_pair import SPARE, RackPair, Watch
from tests.system.racks import NEW, STEPS, TIMES, twice

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

LOCK = 7
"""An advisory lock: while the test holds it, commits of orders wait."""

WAIT_AT_COMMITS = f"""
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared({LOCK}); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON order_keys
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()
"""

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
    " AND datname = current_database()"
)

LATER = format_instant(SystemClock().now() + 1_000 * DAY)
"""A time that never comes, even if the service is 6,000 times as fast."""

ENDED = {state.value for state in ENDED_STATES}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[RackPair]:
    with postgres.one_database(is_empty=True) as url:
        racks = RackPair(url, tmp_path, 3)
        yield racks
        racks.end()


@pytest.fixture
def watch(pair: RackPair) -> Iterator[Watch]:
    watch = Watch(pair.urls)
    yield watch
    watch.end()


def order(service: Serving, host: str) -> tuple[int, Any]:
    """Order work on a spare host, with the key of this host; 0: no answer came."""
    address = urlsplit(service.urls["operators"]).netloc
    connection = http.client.HTTPConnection(address, timeout=60)
    body = {
        "hosts": [host],
        "impact": "live-migrate",
        "not_before": LATER,
    }
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"key-{host}"}
    try:
        connection.request("POST", "/v1/maintain", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()


def open_operations(service: Serving) -> dict[str, str]:
    """Return the state of each operation that has not ended."""
    listed = service.admin("/v1/operations?limit=100")["operations"]
    return {operation["operation"]: operation["state"] for operation in listed}


class FailOvers:
    """A campaign, and how its leader is killed."""

    def __init__(self, pair: RackPair, watch: Watch) -> None:
        self.pair, self.watch = pair, watch
        self.events_read: dict[str, set[str]] = {}
        """The EventIds that each VM has seen."""

    def kill_in(
        self, step: str, host: str, *, leader: str, other: str, is_committed: bool
    ) -> None:
        """Kill the leader while a program runs, and an order is at its commit."""
        pair, spare = self.pair, SPARE[0 if is_committed else 1]
        killed = pair.running[leader]
        pair.wait_held(step, host)
        self.listen()
        with psycopg.connect(pair.url, autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
            first: list[tuple[int, Any]] = []
            giving = threading.Thread(target=lambda: first.append(order(killed, spare)))
            giving.start()

            def is_at_commit() -> bool:
                assert not first, f"the order does not wait: {first}"
                return holder.execute(WAITING).fetchone() == (1,)

            eventually(is_at_commit, bool)
            killed.kill()
            giving.join()
            assert first == [(0, None)]
            if is_committed:
                holder.execute("SELECT pg_advisory_unlock_all()")
            pair.release(step, host)
            service = pair.wait_leader(other)
        status, answer = order(service, spare)
        assert status == 201, answer
        again = order(service, spare)
        assert again[1]["request"] == answer["request"]
        self.judge_stream(service)
        self.listen()

    def judge_stream(self, service: Serving) -> None:
        """After a reset, the viewer has the same operations as the leader."""
        watch = self.watch

        def is_right(listed: dict[str, str]) -> bool:
            shown = {name: it for name, it in watch.states.items() if it not in ENDED}
            return watch.is_complete and shown == listed

        eventually(
            lambda: open_operations(service), is_right, what=f"{watch.states} for all"
        )

    def listen(self) -> None:
        """Let each VM read its document at the leader."""
        service = self.pair.services[-1]
        for number in range(1, len(self.pair.hosts)):
            events = service.document(f"vm_{number}")["Events"]
            event_ids = self.events_read.setdefault(f"vm_{number}", set())
            event_ids.update(event["EventId"] for event in events)

    def check_end(self) -> None:
        """Check the journal and the database after the campaign."""
        pair, rows = self.pair, self.pair.stored()
        wanted = Counter(
            {
                (change, step, host): TIMES if step == "verify" else 1
                for change in ("begun", "done")
                for step in STEPS
                for host in pair.hosts
                if (step, host) != ("drain", "h0")
            }
        )
        lines = pair.journal()
        assert Counter((x.what, x.step, x.host) for x in lines) == wanted
        assert not twice(lines), "a program ran twice for one call"
        inside: set[str] = set()
        for line in lines:
            inside.add(line.host)
            assert len(inside) == 1, f"{inside} are in flight, and the budget is 1"
            inside -= (
                {line.host} if (line.what, line.step) == ("done", "exit") else {""}
            )
        assert set(pair.firmware().values()) == {NEW}
        [campaign] = [
            campaign
            for campaign in rows.table(CampaignRecord).values()
            if campaign.name == "bios"
        ]
        assert campaign.done == len(pair.hosts)
        assert not [
            visit
            for visit in rows.table(Visit).values()
            if visit.state in ENTERED_VISITS
        ]
        states = Counter(visit.state for visit in rows.table(Visit).values())
        assert states[VisitState.DONE] == len(pair.hosts)
        # One operation for each host, and one for each order with a key.
        hosts = sorted(operation.host for operation in rows.operations.values())
        assert hosts == sorted([*pair.hosts, *SPARE])
        ordered = [
            operation
            for operation in rows.operations.values()
            if operation.host in SPARE
        ]
        assert not [
            operation
            for operation in ordered
            if operation.started_at or operation.ended_at
        ]
        of_vms = {
            name: {
                event.key for event in rows.events.values() if event.scope == vm.scope
            }
            for name, vm in rows.vms.items()
            if name in self.events_read
        }
        assert self.events_read == of_vms, "a VM saw its event, and no other"
        assert self.watch.seen == set(rows.operations), "the viewer missed an operation"
        now = SystemClock().now()
        moment = Moment(mirror=rows, policy=Policy(), now=now, changes=[])
        for invariant in EVERY_COMMIT:
            invariant(moment)


def test_campaign_keys_and_streams_survive_the_leader(
    pair: RackPair, watch: Watch
) -> None:
    for name in ("a", "b"):
        pair.start_replica(name)
    pair.wait_leader("a")
    with psycopg.connect(pair.url, autocommit=True) as connection:
        connection.execute(WAIT_AT_COMMITS.encode())
    story = FailOvers(pair, watch)
    watch.begin()
    for step in ("work", "drain", "exit"):
        for host in pair.hosts[1:]:
            pair.hold(step, host)
    started = pair.start(stages='[[campaign.stage]]\nhosts = "100%"\n')
    assert started["hosts"] == len(pair.hosts)
    first, second = (
        operation["host"]
        for operation in pair.services[-1].admin("/v1/operations")["operations"]
        if operation["host"] != "h0"
    )
    pair.wait_held("drain", first)
    story.listen()
    pair.release("drain", first)
    story.kill_in("work", first, leader="a", other="b", is_committed=True)
    assert watch.resets == 1
    pair.start_replica("a")
    pair.services.append(pair.running["b"])
    pair.release("exit", first)
    story.kill_in("drain", second, leader="b", other="a", is_committed=False)
    assert watch.resets == 2
    for step in ("work", "exit"):
        pair.release(step, second)
    assert pair.wait_for("Done")["done"] == len(pair.hosts)
    story.judge_stream(pair.services[-1])
    assert pair.services[-1].terminate() == 0
    story.check_end()
    for service in pair.services:
        assert "Traceback" not in service.log()
