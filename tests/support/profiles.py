"""The number of examples that each run of the tests tries of unbounded sets.

A usual run (`make test`) tries what finds most bugs per second. `--long`, which
`make real` gives, tries the rest: larger fleets, more lives, more kills (tests marked
`amounts`), and tests that are marked `long`: what takes minutes, and what differs
little from a test of the same mechanism in a usual run. `some` marks parameters so.

Hypothesis gives the same examples on every usual run and on any Python, so that a
failure is a change's own. `--hypothesis-profile=deep` looks further, with new examples
each time. No profile has a deadline or checks how long examples take: on a busy machine,
this depends on the machine. No profile limits how many drawn values a test refuses.

The time limit of a test that draws examples includes the time in which hypothesis looks
for a simpler failure. Without it, the run would end before the failure is printed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import hypothesis
import pytest

SHRINKING_SECONDS = 360
"""Time that hypothesis can take after a failure to print a simple one: it searches for
300 s, and then repeats what it found."""


@dataclass(frozen=True)
class Amounts:
    """The numbers of one kind of run."""

    rollout_hosts: int
    """Hosts of a large rollout, whose costs must not grow with their number."""
    cluster_hosts: int
    """Hosts of a cluster that is migrated with the capacity of one."""
    kills: int
    """Deaths of a service under load."""
    replica_kills: int
    """The number of kills, pauses and lost sessions of one of two replicas under
    load."""
    soak_seconds: int
    """Time for which a simulator is kept busy with all faults."""
    described_examples: int
    """Requests for each operation of the API and each way to make them."""
    parsed_examples: int
    """Answers that the agent's HTTP client reads whole and in pieces."""
    store_examples: int
    """Lists of transactions for each kind of record and each store."""
    order_examples: int
    """Orders of requests that are due at once."""
    search_states: int
    """States of each small world, breadth first; 0: all. Every planted bug but one is
    found within 1,500."""
    campaign_states: int
    """States of each small world with a campaign, as `search_states`. Every planted bug
    is found within 700."""
    visit_states: int
    """States of each small world with visits, depth first; 0: all. Each takes some forks
    of the service."""
    lease_states: int
    """States of each small world of replicas and of their documents, breadth first. Every
    planted bug is found within 7,000."""
    cluster_lives: int
    """Random lives of three replicas. Every planted bug is found within 60."""
    walks: int
    """Random sequences of steps. Each is applied to the model of the search and to a
    world of each setting, and the results are compared."""
    crash_stride: int
    """One of so many checkpoints of each story is a place where the service dies."""
    pause_stride: int
    """One of so many checkpoints of each story is a place where the leader is paused."""
    deaths: int
    """One of so many places where an agent dies is tried with each kind of lock."""
    lie_stride: int
    """One of so many requests of an integration gets a wrong answer."""
    courses: int
    """Courses in which `conform` must not report clauses that no client can decide."""
    checked_lives: int
    """Random lives whose stores are checked."""


USUAL = Amounts(
    rollout_hosts=240,
    cluster_hosts=8,
    kills=4,
    replica_kills=4,
    soak_seconds=15,
    described_examples=2,
    parsed_examples=300,
    store_examples=4,
    order_examples=15,
    search_states=1_500,
    campaign_states=700,
    visit_states=25,
    lease_states=7_000,
    cluster_lives=60,
    walks=8,
    crash_stride=16,
    pause_stride=8,
    deaths=4,
    lie_stride=4,
    courses=1,
    checked_lives=3,
)
FAR = Amounts(
    rollout_hosts=1_000,
    cluster_hosts=20,
    kills=20,
    replica_kills=100,
    soak_seconds=120,
    described_examples=20,
    parsed_examples=1_500,
    store_examples=40,
    order_examples=100,
    search_states=0,
    campaign_states=0,
    visit_states=0,
    lease_states=50_000,
    cluster_lives=2_000,
    walks=50,
    crash_stride=1,
    pause_stride=1,
    deaths=1,
    lie_stride=1,
    courses=3,
    checked_lives=20,
)

hypothesis.settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.filter_too_much,
    ],
)
_quick = hypothesis.settings.get_profile("quick")
hypothesis.settings.register_profile("far", _quick, max_examples=100)
hypothesis.settings.register_profile(
    "deep", _quick, derandomize=False, max_examples=2_000
)
hypothesis.settings.load_profile("quick")


_amounts = USUAL


def pytest_configure(config: pytest.Config) -> None:
    """Take the numbers of the run before any test is collected."""
    global _amounts  # noqa: PLW0603 - one run has one kind
    if config.getoption("--long", False):
        _amounts = FAR
        if not config.getoption("--hypothesis-profile", None):
            hypothesis.settings.load_profile("far")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Give tests that draw examples, and have no limit of their own, time to shrink."""
    if not config.pluginmanager.hasplugin("timeout"):
        # The oldest Python runs the tests of decisions without that plugin.
        return
    limit = float(config.getini("timeout"))
    if config.getoption("timeout", None) is not None:
        return
    for item in items:
        draws = hypothesis.is_hypothesis_test(getattr(item, "obj", None))
        if draws and item.get_closest_marker("timeout") is None:
            item.add_marker(drawing_limit(limit))


def drawing_limit(seconds: float) -> pytest.MarkDecorator:
    """Return the limit of a test that draws examples, and passes within `seconds`."""
    return pytest.mark.timeout(seconds + SHRINKING_SECONDS)


def amounts() -> Amounts:
    """Return the numbers of this run."""
    return _amounts


def some(values: Iterable[object], *, usual: Sequence[object]) -> list[object]:
    """Return parameters of a test, of which a usual run tries only the `usual` ones."""
    listed = [*values]
    assert usual, "a usual run would try none of them"
    assert all(value in listed for value in usual), usual
    return [
        pytest.param(value, marks=() if value in usual else pytest.mark.long)
        for value in listed
    ]
