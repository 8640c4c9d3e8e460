"""Handlers and locks ignore invalid answers of a server.

Each test runs an integration in one phase behind a proxy. The proxy forwards a number of
requests, and then answers one request, or all further ones, with one kind of invalid
data. This is repeated for every number of forwarded requests. A run that reports success
must be right according to the fake server. A recovery with valid answers must then undo
everything.
"""

import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.run_context import HandlerError, RunEndedError
from forewarn.agent.integrations import patroni as patroni_worker
from forewarn.agent.locks.port import Lock, make_lock
from forewarn.clock import SystemClock, VirtualClock
from forewarn.instants import MILLISECOND
from forewarn.protocol.errors import ForewarnError
from tests.support import jobs
from tests.support.agent_journals import START
from tests.support.fake_consul import NODE_CHECK, FakeConsul
from tests.support.fake_kubernetes import serving as serving_kubernetes
from tests.support.fake_nomad import Allocation, FakeNomad
from tests.support.fake_patroni import FakePatroni
from tests.support.fake_patroni import serving as serving_patroni
from tests.support.handled import Turned
from tests.support.hostile_answers import (
    INVALID_ANSWERS,
    HostileProxy,
    InvalidAnswer,
    hostile_proxy,
)
from tests.support.kubernetes_workers import (
    NODE,
    Cluster,
    kubeconfig,
    make_worker,
)
from tests.support.lock_benches import (
    Bench,
    ConsulBench,
    KubernetesBench,
    bench_of,
)
from tests.support.profiles import amounts

pytestmark = pytest.mark.slow

REQUESTS_MAX = 40
"""Maximum number of requests of a run without invalid answers."""

ALWAYS = 1_000_000
"""More invalid answers than a run has requests."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patroni_worker, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(patroni_worker, "AGAIN_SECONDS", 0.001)


@dataclass
class Stage:
    """A handler, the proxy that it uses, and the state of the fake behind the proxy."""

    proxy: HostileProxy
    prepare: Callable[[], object]
    recover: Callable[[], object]
    check: Callable[[], object]
    is_prepared: Callable[[], bool]
    is_undone: Callable[[], bool]


@contextlib.contextmanager
def kubernetes(directory: Path) -> Generator[Stage]:
    clock = VirtualClock(START)
    with serving_kubernetes(clock) as fake, hostile_proxy(fake.url) as proxy:
        fake.add_node(NODE)
        fake.add_pod("web-1")
        cluster = Cluster(fake, clock, directory)
        worker = make_worker(proxy.url, directory, clock=clock)

        def is_prepared() -> bool:
            node = fake.nodes[NODE]
            kinds = {condition["type"] for condition in node["status"]["conditions"]}
            return (
                node["spec"].get("unschedulable") is True
                and bool(node["spec"].get("taints"))
                and bool(node["metadata"]["annotations"])
                and "ForewarnMaintenance" in kinds
                and not fake.pods
            )

        def is_undone() -> bool:
            node = fake.nodes[NODE]
            return (
                not node["spec"].get("unschedulable")
                and not node["spec"].get("taints")
                and not node["metadata"]["annotations"]
            )

        yield Stage(
            proxy=proxy,
            prepare=lambda: cluster.prepare(worker),
            recover=lambda: cluster.recover(worker),
            check=worker.check,
            is_prepared=is_prepared,
            is_undone=is_undone,
        )


def stage_of(
    handler: Turned, proxy: HostileProxy, **truth: Callable[[], bool]
) -> Stage:
    return Stage(
        proxy=proxy,
        prepare=handler.prepare,
        recover=handler.recover,
        check=handler.check,
        **truth,
    )


@contextlib.contextmanager
def consul(directory: Path) -> Generator[Stage]:
    with FakeConsul() as fake, hostile_proxy(fake.url) as proxy:
        handler = Turned("consul", f'url = "{proxy.url}"', directory, {})
        yield stage_of(
            handler,
            proxy,
            is_prepared=lambda: NODE_CHECK in fake.maintained(),
            is_undone=lambda: not fake.maintained(),
        )


@contextlib.contextmanager
def nomad(directory: Path) -> Generator[Stage]:
    with (
        FakeNomad([Allocation("web.web[0]")]) as fake,
        hostile_proxy(fake.url) as proxy,
    ):
        handler = Turned("nomad", f'url = "{proxy.url}"', directory, {})
        yield stage_of(
            handler,
            proxy,
            is_prepared=lambda: (
                fake.eligibility == "ineligible"
                and fake.drain is None
                and all(
                    allocation.status != "running" for allocation in fake.allocations
                )
            ),
            is_undone=lambda: fake.eligibility == "eligible" and fake.drain is None,
        )


@contextlib.contextmanager
def patroni(directory: Path) -> Generator[Stage]:
    with (
        serving_patroni(FakePatroni("pg1", "pg2")) as fake,
        hostile_proxy(fake.url) as proxy,
    ):
        worker: Worker = jobs.worker_of(
            "patroni",
            directory,
            url=proxy.url,
            candidate_wait=50 * MILLISECOND,
            switch_back=True,
        )
        yield Stage(
            proxy=proxy,
            prepare=lambda: jobs.prepare(worker),
            recover=lambda: jobs.recover(worker),
            check=worker.check,
            is_prepared=lambda: fake.leader() == "pg2",
            is_undone=lambda: fake.leader() == "pg1",
        )


STAGES = {
    integration.__name__: integration
    for integration in (kubernetes, consul, nomad, patroni)
}


def until_all_are_forwarded(
    make: Callable[[], contextlib.AbstractContextManager[Stage]],
) -> Iterator[tuple[Stage, int, int]]:
    """Yield a stage for each request that can get an invalid answer, or for a sample.

    Also yield the number of requests that are forwarded before, and the maximum number
    of invalid answers.
    """
    for invalid_max in (1, ALWAYS):
        for forwarded in range(0, REQUESTS_MAX, amounts().lie_stride):
            with make() as stage:
                yield stage, forwarded, invalid_max
                if not stage.proxy.invalid_sent:
                    break
        else:
            raise AssertionError(f"the run sent more than {REQUESTS_MAX} requests")


def reports_success(
    stage: Stage, phase: Phase, invalid: InvalidAnswer, forwarded: int, invalid_max: int
) -> bool:
    """Return whether a run with these invalid answers reports success."""
    proxy = stage.proxy
    proxy.invalid, proxy.forwarded_first, proxy.invalid_max = (
        invalid,
        forwarded,
        invalid_max,
    )
    is_done = False
    with contextlib.suppress(HandlerError, RunEndedError):
        (stage.prepare if phase is Phase.PREPARE else stage.recover)()
        is_done = True
    proxy.invalid = None
    return is_done


@pytest.mark.amounts
@pytest.mark.parametrize("defect", INVALID_ANSWERS)
@pytest.mark.parametrize("kind", STAGES)
def test_invalid_answer_prepares_nothing(
    kind: str, defect: str, tmp_path: Path
) -> None:
    number = 0

    def make() -> contextlib.AbstractContextManager[Stage]:
        nonlocal number
        number += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        return STAGES[kind](directory)

    for stage, forwarded, invalid_max in until_all_are_forwarded(make):
        is_done = reports_success(
            stage, Phase.PREPARE, INVALID_ANSWERS[defect], forwarded, invalid_max
        )
        where = f"{invalid_max} invalid answers after {forwarded} valid ones"
        assert not is_done or stage.is_prepared(), where
        if stage.proxy.invalid_sent and not forwarded and invalid_max == ALWAYS:
            assert not is_done, where
        stage.recover()
        assert stage.is_undone(), where


@pytest.mark.amounts
@pytest.mark.parametrize("defect", INVALID_ANSWERS)
@pytest.mark.parametrize("kind", STAGES)
def test_invalid_answer_undoes_nothing(kind: str, defect: str, tmp_path: Path) -> None:
    number = 0

    @contextlib.contextmanager
    def make() -> Generator[Stage]:
        nonlocal number
        number += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        with STAGES[kind](directory) as stage:
            stage.prepare()
            assert stage.is_prepared()
            yield stage

    for stage, forwarded, invalid_max in until_all_are_forwarded(make):
        is_done = reports_success(
            stage, Phase.RECOVER, INVALID_ANSWERS[defect], forwarded, invalid_max
        )
        where = f"{invalid_max} invalid answers after {forwarded} valid ones"
        assert not is_done or stage.is_undone(), where
        # The next recovery undoes the rest.
        stage.recover()
        assert stage.is_undone(), where


@pytest.mark.parametrize("defect", INVALID_ANSWERS)
@pytest.mark.parametrize("kind", STAGES)
def test_check_reports_an_invalid_answer(
    kind: str, defect: str, tmp_path: Path
) -> None:
    with STAGES[kind](tmp_path) as stage:
        assert stage.check() in ([], ())
        stage.proxy.invalid, stage.proxy.invalid_max = INVALID_ANSWERS[defect], ALWAYS
        assert stage.check() not in ([], ())


# Locks


@contextlib.contextmanager
def lock_behind_proxy(
    kind: str, directory: Path
) -> Generator[tuple[Bench, Lock, HostileProxy]]:
    """Yield a lock that sends its requests to the proxy instead of the fake."""
    with bench_of(kind, directory) as bench:
        assert isinstance(bench, KubernetesBench | ConsulBench)
        with hostile_proxy(bench.fake.url) as proxy:
            settings = bench.settings()
            if isinstance(bench, KubernetesBench):
                bench.file.write_text(kubeconfig(proxy.url))
            else:
                settings = replace(settings, url=proxy.url)
            yield bench, make_lock(settings, {}, SystemClock()), proxy


@pytest.mark.amounts
@pytest.mark.parametrize("defect", INVALID_ANSWERS)
@pytest.mark.parametrize("kind", ["kubernetes", "consul"])
@pytest.mark.parametrize("phase", ["take", "release"])
def test_invalid_answer_neither_takes_nor_releases_a_lock(
    kind: str, phase: str, defect: str, tmp_path: Path
) -> None:
    for invalid_max in (1, ALWAYS):
        for forwarded in range(0, REQUESTS_MAX, amounts().lie_stride):
            directory = tmp_path / f"{invalid_max}.{forwarded}"
            directory.mkdir()
            with lock_behind_proxy(kind, directory) as (bench, lock, proxy):
                if phase == "release":
                    assert lock.take("web_0", jobs.context()).is_held
                proxy.invalid = INVALID_ANSWERS[defect]
                proxy.forwarded_first, proxy.invalid_max = forwarded, invalid_max
                is_done = False
                with contextlib.suppress(ForewarnError):
                    if phase == "take":
                        is_done = lock.take("web_0", jobs.context()).is_held
                    else:
                        lock.release("web_0", jobs.context())
                        is_done = True
                wanted = {"web_0"} if phase == "take" else set[str]()
                assert not is_done or bench.holders() == wanted
                if not proxy.invalid_sent:
                    break
        else:
            raise AssertionError(f"the run sent more than {REQUESTS_MAX} requests")
