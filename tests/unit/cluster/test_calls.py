"""When a driver call may begin, and which replicas have ended."""

from forewarn.cluster import calls
from forewarn.cluster.calls import Beats, Commit, Positions, Wait, why_wait
from forewarn.cluster.port import LeaseRow, ReplicaRow
from forewarn.cluster.times import Times

TIMES = Times()
COMMIT = Commit(number=8, at=100.0)


def replica(key: str, position: int, beat: int = 0) -> ReplicaRow:
    return ReplicaRow(
        key=key, name=f"name of {key}", url="", position=position, beat=beat
    )


def why(positions: Positions | None, now: float = 100.1) -> Wait | None:
    return why_wait(COMMIT, positions, TIMES, key="a", now=now)


def test_call_begins_when_all_other_replicas_have_applied_the_commit() -> None:
    rows = (replica("a", 7), replica("b", 8), replica("c", 9))
    assert why(Positions(asked=100.05, rows=rows)) is None
    assert why(Positions(asked=100.05, rows=rows[:1])) is None


def test_wait_names_the_replicas_that_are_behind() -> None:
    rows = (replica("a", 8), replica("b", 7), replica("c", 8))
    wait = why(Positions(asked=100.05, rows=rows))
    assert wait == Wait(replicas=("name of b",), until=105.5)


def test_rows_from_before_the_commit_do_not_count() -> None:
    unknown = Wait(replicas=(), until=105.5)
    assert why(Positions(asked=99.9, rows=(replica("b", 8),))) == unknown
    assert why(None) == unknown
    # The clock has not moved between the question and the commit.
    assert why(Positions(asked=100.0, rows=())) == unknown


def test_call_begins_when_all_read_leases_have_run_out() -> None:
    behind = Positions(asked=100.0, rows=(replica("b", 7),))
    assert why(behind, 105.4) is not None
    assert why(behind, 105.5) is None
    assert why(None, 105.5) is None


def test_calls_of_earlier_terms_wait_for_the_number_of_the_takeover() -> None:
    row = LeaseRow(term=2, holder="a", url="", beat=3, number=8)
    assert calls.of_takeover(row, now=100.0) == COMMIT


def test_row_is_removed_after_twice_the_read_lease_without_a_beat() -> None:
    rows = (replica("a", 8, 1), replica("b", 8, 1), replica("c", 8, 1))
    beats = calls.watched(Beats(), rows, now=50.0)
    rows = (replica("a", 8, 1), replica("b", 8, 1), replica("c", 8, 2))
    beats = calls.watched(beats, rows, now=59.9)

    def silent(now: float, since: float = 40.0) -> tuple[ReplicaRow, ...]:
        return calls.silent(beats, rows, TIMES, key="a", since=since, now=now)

    assert silent(59.9) == ()
    assert silent(60.0) == (rows[1],)
    # A former leader can have written no row, and still answer VMs for a read lease.
    assert silent(60.0, since=50.1) == ()
    assert silent(60.1, since=50.1) == (rows[1],)
    beats = calls.watched(beats, rows[2:], now=61.0)
    assert set(beats.first_seen) == {"c"}


def test_only_a_replica_whose_beat_changes_is_heard() -> None:
    """The rows of others can be from before the database was restored."""
    rows = (replica("a", 8, 1), replica("b", 9, 1))
    beats = calls.watched(Beats(), rows, now=50.0)
    assert calls.seen_by_others(beats, rows) == 0
    later = (replica("a", 8, 2), replica("b", 9, 1))
    beats = calls.watched(beats, later, now=51.0)
    assert calls.seen_by_others(beats, later) == 8
    beats = calls.watched(beats, later, now=52.0)
    assert calls.seen_by_others(beats, later) == 8
    beats = calls.watched(beats, later[1:], now=53.0)
    assert beats.living == frozenset()


def test_answer_waits_for_the_replicas_that_give_signs_of_life() -> None:
    rows = (replica("a", 7), replica("b", 8), replica("c", 7))

    def is_read(*quiet: str, asked: float = 100.05) -> bool:
        positions = Positions(asked=asked, rows=rows, quiet=frozenset(quiet))
        return calls.is_read(COMMIT, positions, key="a")

    assert not is_read()
    assert not is_read("b")
    assert is_read("c")
    # These rows can be from before the commit.
    assert not is_read("b", "c", asked=100.0)


def test_replica_gives_no_sign_of_life_while_its_row_stays_as_it_was() -> None:
    rows = (replica("b", 8, 1), replica("c", 8, 1))
    beats = calls.watched(Beats(), rows, now=50.0)
    assert calls.quiet(beats, rows, now=51.9) == frozenset()
    rows = (replica("b", 8, 2), replica("c", 8, 1))
    beats = calls.watched(beats, rows, now=51.0)
    assert calls.quiet(beats, rows, now=51.9) == frozenset()
    assert calls.quiet(beats, rows, now=52.0) == {"c"}
    beats = calls.watched(beats, rows, now=53.0)
    assert calls.quiet(beats, rows, now=52.9) == {"c"}
    assert calls.quiet(beats, rows, now=53.0) == {"b", "c"}
