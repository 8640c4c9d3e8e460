"""A restored store begins above all that was served from the lost one."""

from pathlib import Path

import pytest

from forewarn.cli import main
from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.operations import Action
from forewarn.protocol.published import Publication, ViewSnapshot
from forewarn.relay import knowledge
from forewarn.relay.knowledge import Knowledge, Line, Place, Position
from forewarn.store import backup, check, restored, sequence
from forewarn.store.port import StoreError
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.store import PostgresStore
from forewarn.store.records import LEADER_KEY, Leader
from forewarn.store.sqlite import SqliteStore
from tests.support import postgres
from tests.support.worlds import World

FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
[[vm]]
name = "unused"
host = "h1"
"""


class Served(World):
    """A service whose documents are kept, as a relay keeps them."""

    def __init__(self, path: Path, fleet: str = "") -> None:
        self.views: dict[str, ViewSnapshot] = {}
        super().__init__(
            store=lambda: SqliteStore(path), driver=SimulatedDriver(), fleet=fleet
        )

    def publish(self, publication: Publication) -> None:
        super().publish(publication)
        self.views.update({view.view_id: view for view in publication.views})

    @property
    def line(self) -> Line:
        """Return the first line of the stream to a relay."""
        leader = self.read(lambda reader: reader.get(Leader, LEADER_KEY))
        assert leader is not None
        return Line(
            position=Position(term=leader.term, number=1, start=f"{id(self)}"),
            is_whole=True,
            host="h1",
            views=tuple(self.views.values()),
        )


def freeze(world: World) -> None:
    world.order(
        lambda work: verbs.maintain(work, ["h1"], Action.FREEZE, OrderOptions())
    )


def lose(path: Path) -> tuple[Knowledge, dict[str, int]]:
    """Make a backup, then serve newer documents; return what a relay has, and what VMs
    have seen."""
    world = Served(path, FLEET)
    world.vm("web_0").get()
    backup.backup(path, path.with_name("backup.db"))
    for _ in range(3):
        world.restart()
    freeze(world)
    # The first request of this VM comes after the backup.
    world.vm("unused").get()
    incarnations = {vm: world.vm(vm).get().incarnation for vm in ("web_0", "unused")}
    relay = knowledge.take(Knowledge(), world.line).knowledge
    world.store.close()
    return relay, incarnations


def restore(path: Path) -> None:
    for file in path.parent.glob("forewarn.db*"):
        file.unlink()
    path.with_name("backup.db").rename(path)


def test_relay_follows_a_restored_store_only_after_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "forewarn.db"
    relay, incarnations = lose(path)
    restore(path)
    world = Served(path)
    assert knowledge.place_of(relay, world.line) in {Place.BEHIND, Place.LOST}
    world.store.close()
    assert main(["store", "restored", str(path)]) == 0
    assert "2 views" in capsys.readouterr().out
    assert check.check(path) == []
    world = Served(path)
    step = knowledge.take(relay, world.line)
    assert step.place is Place.OTHER
    assert step.knowledge.views == world.views
    # A view that is not enabled begins again.
    assert world.vm("web_0").get().incarnation > incarnations["web_0"]
    world.vm("unused").get()
    assert knowledge.place_of(relay, world.line) is Place.OTHER
    freeze(world)
    assert knowledge.take(relay, world.line).place is Place.OTHER
    world.store.close()
    assert check.check(path) == []


def test_second_restore_begins_above_the_first(tmp_path: Path) -> None:
    path = tmp_path / "forewarn.db"
    lose(path)
    store = SqliteStore(path)
    terms: list[int] = []
    for _ in range(2):
        assert restored.note(store) == 2
        leader = store.read(lambda reader: reader.get(Leader, LEADER_KEY))
        assert leader is not None
        terms.append(leader.term)
    assert terms[1] - terms[0] == restored.TERMS
    for _ in range(10**sequence.TERM_DIGITS // restored.TERMS - 3):
        restored.note(store)
    with pytest.raises(StoreError, match="too many"):
        restored.note(store)
    store.close()


def test_store_that_no_service_has_used_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "forewarn.db")
    with pytest.raises(StoreError, match="no service has written"):
        restored.note(store)
    store.close()


@postgres.needing_postgres
def test_restored_database_begins_above_what_replicas_remember() -> None:
    with postgres.one_database() as url:
        cluster = PostgresCluster(url)
        first = cluster.take(cluster.lease(), holder="a", url="")
        assert first is not None
        leading = PostgresStore(url, term=first.term)
        leading.transact(lambda tx: tx.add(Leader(term=1)))
        leading.close()
        assert cluster.release(first.term)
        before = cluster.lease()
        assert before.database == first.database != ""
        assert main(["store", "restored", url]) == 0
        after = cluster.lease()
        assert after.number == before.number + restored.TRANSACTIONS + 1
        assert after.database == before.database
        # A replica that still follows reads everything.
        row = cluster.take(after, holder="b", url="")
        assert row is not None
        moment = cluster.follow(before.number, lambda _reader, moment: moment)
        assert moment.rows is None
        cluster.close()


def test_command_refuses_a_store_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "forewarn.db"
    world = Served(path, FLEET)
    assert main(["store", "restored", str(path)]) == 1
    assert "forewarn" in capsys.readouterr().err
    world.store.close()
    assert main(["store", "restored", str(tmp_path / "none.db")]) == 2
