"""Whose turn it is: the hosts that may be announced, and why the others may not."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.rules.rolling import (
    RolloutState,
    Usage,
    Waiting,
    why_not_announced,
)
from forewarn.protocol.blockers import HostInUse, ScopeInUse, ScopeReserved

BUSY = HostInUse(host="h1")


def host(operation: str, *, busy: bool = False, **domains: int) -> Waiting:
    """Return a waiting host with one fault domain of each scope."""
    return Waiting(
        operation=operation,
        domains={scope: frozenset({domain}) for scope, domain in domains.items()},
        obstacles=(BUSY,) if busy else (),
    )


def test_host_of_a_scope_without_work_is_announced() -> None:
    assert why_not_announced(host("op-1", db=0), {}) is None
    assert why_not_announced(host("op-1", db=0), {"db": RolloutState()}) is None


def test_domain_in_progress_blocks_other_domains_of_its_scope() -> None:
    scopes = {"db": RolloutState(domains={1: Usage("op-0")})}
    assert why_not_announced(host("op-1", db=0), scopes) == ScopeInUse(
        scope="db", fault_domain=1, operation="op-0"
    )
    assert why_not_announced(host("op-2", db=1), scopes) is None


def test_host_with_two_fault_domains_waits_until_the_scope_is_idle() -> None:
    both = Waiting(operation="op-1", domains={"db": frozenset({0, 1})})
    scopes = {"db": RolloutState(domains={1: Usage("op-0")})}
    assert why_not_announced(both, scopes) == ScopeInUse(
        scope="db", fault_domain=1, operation="op-0"
    )
    assert why_not_announced(both, {}) is None


def test_reserved_scope_is_kept_for_the_waiting_host() -> None:
    scopes = {"db": RolloutState(reserved_by="op-2")}
    assert why_not_announced(host("op-1", db=0), scopes) is None
    assert why_not_announced(host("op-2", db=0), scopes) is None
    assert why_not_announced(host("op-3", db=0), scopes) == ScopeReserved(
        scope="db", operation="op-2"
    )


def test_scopes_come_before_a_busy_host() -> None:
    scopes = {"db": RolloutState(domains={1: Usage("op-0")})}
    assert why_not_announced(host("op-1", busy=True), scopes) == BUSY
    blocker = why_not_announced(host("op-1", busy=True, db=0), scopes)
    assert isinstance(blocker, ScopeInUse)


DOMAINS = st.dictionaries(
    st.sampled_from(["db", "web", "mail"]),
    st.frozensets(st.integers(0, 2), min_size=1, max_size=2),
    max_size=3,
)
HOSTS = st.builds(
    Waiting,
    operation=st.sampled_from([f"op-{number}" for number in range(9)]),
    domains=DOMAINS,
    obstacles=st.sampled_from([(), (BUSY,)]),
)
SCOPES = st.dictionaries(
    st.sampled_from(["db", "web", "mail"]),
    st.builds(
        RolloutState,
        domains=st.dictionaries(
            st.integers(0, 2),
            st.builds(Usage, st.sampled_from(["", "op-9"])),
            max_size=2,
        ),
        reserved_by=st.sampled_from(["", "op-0", "op-3", "op-7"]),
    ),
)


@given(host=HOSTS, scopes=SCOPES)
def test_announced_host_satisfies_all_constraints(
    host: Waiting, scopes: dict[str, RolloutState]
) -> None:
    if why_not_announced(host, scopes) is not None:
        return
    assert not host.obstacles
    for scope, domains in host.domains.items():
        there = scopes.get(scope, RolloutState())
        assert there.domains.keys() <= domains
        assert not there.domains or len(domains) == 1
        assert not there.reserved_by or there.reserved_by >= host.operation


@given(host=HOSTS)
def test_only_obstacles_keep_a_host_where_nothing_is_in_use(host: Waiting) -> None:
    assert why_not_announced(host, {}) == next(iter(host.obstacles), None)
