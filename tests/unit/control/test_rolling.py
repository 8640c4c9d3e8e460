"""Whose turn it is: the hosts that may be announced, and why the others may not."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.rules.rolling import RolloutState, Waiting, admit
from forewarn.protocol.blockers import HostInUse, ScopeInUse, ScopeReserved

BUSY = HostInUse(host="h1")


def host(operation: str, *, busy: bool = False, **domains: int) -> Waiting:
    """Return a waiting host with one fault domain of each scope."""
    return Waiting(
        operation=operation,
        domains={scope: frozenset({domain}) for scope, domain in domains.items()},
        obstacles=(BUSY,) if busy else (),
    )


def test_hosts_are_announced_in_order_while_slots_are_free() -> None:
    hosts = [host("op-1"), host("op-2"), host("op-3")]
    assert admit(hosts, slots=2, scopes={}).announced == ("op-1", "op-2")
    assert admit(hosts, slots=0, scopes={}).announced == ()


def test_only_one_fault_domain_of_a_scope_is_announced() -> None:
    hosts = [host("op-1", db=0), host("op-2", db=1), host("op-3", db=0)]
    decided = admit(hosts, slots=3, scopes={})
    assert decided.announced == ("op-1", "op-3")
    assert decided.passed_over == (
        ("op-2", ScopeInUse(scope="db", fault_domain=0, operation="op-1")),
    )


def test_domain_in_progress_blocks_other_domains_of_its_scope() -> None:
    scopes = {"db": RolloutState(domains={1: "op-0"})}
    hosts = [host("op-1", db=0), host("op-2", db=1)]
    assert admit(hosts, slots=2, scopes=scopes).announced == ("op-2",)


def test_host_with_two_fault_domains_waits_until_the_scope_is_idle() -> None:
    both = Waiting(operation="op-1", domains={"db": frozenset({0, 1})})
    scopes = {"db": RolloutState(domains={1: "op-0"})}
    assert admit([both], slots=1, scopes=scopes).passed_over == (
        ("op-1", ScopeInUse(scope="db", fault_domain=1, operation="op-0")),
    )
    assert admit([both], slots=1, scopes={}).announced == ("op-1",)


def test_reserved_scope_is_kept_for_the_waiting_host() -> None:
    scopes = {"db": RolloutState(reserved_by="op-2")}
    hosts = [host("op-1", db=0), host("op-2", db=0), host("op-3", db=0)]
    decided = admit(hosts, slots=3, scopes=scopes)
    assert decided.announced == ("op-1", "op-2")
    assert decided.passed_over == (
        ("op-3", ScopeReserved(scope="db", operation="op-2")),
    )


def test_busy_host_does_not_delay_the_next() -> None:
    decided = admit([host("op-1", busy=True), host("op-2")], slots=1, scopes={})
    assert decided.announced == ("op-2",)
    assert decided.passed_over == (("op-1", BUSY),)


DOMAINS = st.dictionaries(
    st.sampled_from(["db", "web", "mail"]),
    st.frozensets(st.integers(0, 2), min_size=1, max_size=2),
    max_size=3,
)
HOSTS = st.lists(st.tuples(DOMAINS, st.booleans()), max_size=8).map(
    lambda parts: [
        Waiting(
            operation=f"op-{number}", domains=domains, obstacles=(BUSY,) if busy else ()
        )
        for number, (domains, busy) in enumerate(parts)
    ]
)
SCOPES = st.dictionaries(
    st.sampled_from(["db", "web", "mail"]),
    st.builds(
        RolloutState,
        domains=st.dictionaries(
            st.integers(0, 2), st.sampled_from(["", "op-9"]), max_size=2
        ),
        reserved_by=st.sampled_from(["", "op-0", "op-3", "op-7"]),
    ),
)


@given(hosts=HOSTS, slots=st.integers(0, 9), scopes=SCOPES)
def test_announced_hosts_satisfy_all_constraints(
    hosts: list[Waiting], slots: int, scopes: dict[str, RolloutState]
) -> None:
    decided = admit(hosts, slots=slots, scopes=scopes)
    assert len(decided.announced) <= slots
    by_id = {each.operation: each for each in hosts}
    under_way = {scope: set(each.domains) for scope, each in scopes.items()}
    for operation in decided.announced:
        assert not by_id[operation].obstacles
        for scope, domains in by_id[operation].domains.items():
            there = under_way.setdefault(scope, set())
            assert there <= domains
            assert not there or len(domains) == 1
            there |= domains


@given(hosts=HOSTS, slots=st.integers(1, 9), scopes=SCOPES)
def test_each_host_is_announced_or_has_a_reason_until_slots_are_full(
    hosts: list[Waiting], slots: int, scopes: dict[str, RolloutState]
) -> None:
    decided = admit(hosts, slots=slots, scopes=scopes)
    looked_at = {*decided.announced, *(name for name, _ in decided.passed_over)}
    rest = [each.operation for each in hosts if each.operation not in looked_at]
    assert not rest or len(decided.announced) == slots


@given(hosts=HOSTS)
def test_first_free_host_is_always_announced(hosts: list[Waiting]) -> None:
    free = [each.operation for each in hosts if not each.obstacles]
    assert admit(hosts, slots=1, scopes={}).announced == tuple(free[:1])
