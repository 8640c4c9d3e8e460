"""Two replicas under load, of which one is killed, stopped or paused again and again.

No approval is lost, no incarnation goes back, no call is made twice, no replica acts that
does not lead, and no document is from before a call that has begun. `--kills=1000`
searches longer.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support import postgres
from tests.support.processes import eventually
from tests.system.conftest import KILLED
from tests.system.replica_pair import LEASE_SECONDS, NAMES, Pair

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.amounts,
    postgres.needing_postgres,
]

SHORT_SECONDS, LONG_SECONDS = (0.2, 1.5), (4.0, 7.0)
"""Seconds between two kills. In the long ones, calls begin: they wait for up to 5.5 s for
a replica that was killed."""
LONG = 0.3
"""The share of long ones."""

ENOUGH = 100
"""Calls and approvals that show that the replicas worked, however many were killed: while
they are killed, each call waits for seconds."""

PAUSES = (1.5, 3.0)
"""Leases for which a replica is paused."""


@pytest.fixture
def pair(tmp_path: Path, kill_seed: int) -> Iterator[Pair]:
    with postgres.one_database(is_empty=True) as url:
        new_pair = Pair(url, tmp_path, kill_seed)
        yield new_pair
        new_pair.close()


def befall(pair: Pair, rng: Random) -> str:
    """Do something to a replica, mostly to the one that leads; return what."""
    name = pair.leader() if rng.random() < 0.7 else ""
    name = name or rng.choice(NAMES)
    fault = rng.choice(("killed", "killed", "terminated", "paused", "sessions lost"))
    if fault == "killed":
        pair.kill(name)
    elif fault == "terminated":
        pair.terminate(name)
    elif fault == "paused":
        pair.pause(name, LEASE_SECONDS * rng.uniform(*PAUSES))
    else:
        pair.lose_sessions(rng)
    sys.stderr.write(f"{name}: {fault}\n")
    return fault


def test_promises_hold_when_replicas_are_killed(
    pair: Pair,
    replica_kills: int,
    kill_seed: int,
    record_property: Callable[[str, object], None],
) -> None:
    rng, done, pause = Random(kill_seed), Counter[str](), threading.Event()
    pair.begin()
    for _ in range(replica_kills):
        pause.wait(
            rng.uniform(*(LONG_SECONDS if rng.random() < LONG else SHORT_SECONDS))
        )
        done[befall(pair, rng)] += 1
        pair.another_life()
    enough = min(replica_kills, ENOUGH)
    eventually(pair.journal, lambda calls: len(calls) >= enough, what="calls")
    eventually(pair.approvals, lambda count: count >= enough, what="approvals")
    pair.part()
    pair.end()
    record_property(
        KILLED,
        f"{dict(done)}, seed {kill_seed}: {pair.approvals()} approvals,"
        f" {len(pair.journal()) // 2} calls, {len(pair.acts())} programs,"
        f" answers {pair.told['answers']},"
        f" without a document for at most {pair.told['longest']:.1f} s",
    )
