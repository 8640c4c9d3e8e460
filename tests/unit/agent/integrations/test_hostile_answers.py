"""Whatever a server answers that is not what was asked for: nothing is done by it.

A table of wrong answers, integrations and phases. In each run the server tells the
truth for a while and lies then, once or always, from every request on that there is.
A run that says that it is done must be right by what the fake behind it knows, and an
honest recovery afterwards finds what is to be undone.
"""

import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.run_context import HandlerError, OverError
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
from tests.support.hostile_answers import LIES, Liar, Lie, lying
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
"""Maximum requests of an honest run; more would never end here."""

ALWAYS = 1_000_000


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patroni_worker, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(patroni_worker, "AGAIN_SECONDS", 0.001)


@dataclass
class Stage:
    """A handler, the liar that it asks, and what is true behind it."""

    liar: Liar
    prepare: Callable[[], object]
    recover: Callable[[], object]
    check: Callable[[], object]
    is_prepared: Callable[[], bool]
    is_undone: Callable[[], bool]


@contextlib.contextmanager
def kubernetes(folder: Path) -> Generator[Stage]:
    clock = VirtualClock(START)
    with serving_kubernetes(clock) as fake, lying(fake.url) as liar:
        fake.add_node(NODE)
        fake.add_pod("web-1")
        cluster = Cluster(fake, clock, folder)
        worker = make_worker(liar.url, folder, clock=clock)

        def is_prepared() -> bool:
            node = fake.nodes[NODE]
            kinds = {each["type"] for each in node["status"]["conditions"]}
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
            liar=liar,
            prepare=lambda: cluster.prepare(worker),
            recover=lambda: cluster.recover(worker),
            check=worker.check,
            is_prepared=is_prepared,
            is_undone=is_undone,
        )


def stage_of(handler: Turned, liar: Liar, **truth: Callable[[], bool]) -> Stage:
    return Stage(
        liar=liar,
        prepare=handler.prepare,
        recover=handler.recover,
        check=handler.check,
        **truth,
    )


@contextlib.contextmanager
def consul(folder: Path) -> Generator[Stage]:
    with FakeConsul() as fake, lying(fake.url) as liar:
        handler = Turned("consul", f'url = "{liar.url}"', folder, {})
        yield stage_of(
            handler,
            liar,
            is_prepared=lambda: NODE_CHECK in fake.maintained(),
            is_undone=lambda: not fake.maintained(),
        )


@contextlib.contextmanager
def nomad(folder: Path) -> Generator[Stage]:
    with FakeNomad([Allocation("web.web[0]")]) as fake, lying(fake.url) as liar:
        handler = Turned("nomad", f'url = "{liar.url}"', folder, {})
        yield stage_of(
            handler,
            liar,
            is_prepared=lambda: (
                fake.eligibility == "ineligible"
                and fake.drain is None
                and all(each.status != "running" for each in fake.allocations)
            ),
            is_undone=lambda: fake.eligibility == "eligible" and fake.drain is None,
        )


@contextlib.contextmanager
def patroni(folder: Path) -> Generator[Stage]:
    with serving_patroni(FakePatroni("pg1", "pg2")) as fake, lying(fake.url) as liar:
        worker: Worker = jobs.worker_of(
            "patroni",
            folder,
            url=liar.url,
            candidate_wait=50 * MILLISECOND,
            switch_back=True,
        )
        yield Stage(
            liar=liar,
            prepare=lambda: jobs.prepare(worker),
            recover=lambda: jobs.recover(worker),
            check=worker.check,
            is_prepared=lambda: fake.leader() == "pg2",
            is_undone=lambda: fake.leader() == "pg1",
        )


STAGES = {each.__name__: each for each in (kubernetes, consul, nomad, patroni)}


def until_none_is_told(
    make: Callable[[], contextlib.AbstractContextManager[Stage]],
) -> Iterator[tuple[Stage, int, int]]:
    """Yield a stage for each request, or every second one, that may be lied about.

    The server lies once there, or from there on.
    """
    for lies in (1, ALWAYS):
        for honest in range(0, REQUESTS_MAX, amounts().lie_stride):
            with make() as stage:
                yield stage, honest, lies
                if not stage.liar.told:
                    break
        else:
            raise AssertionError("it never ceased to ask")


def lied_to(stage: Stage, phase: Phase, lie: Lie, honest: int, lies: int) -> bool:
    """Return whether a run with these lies says that it is done."""
    stage.liar.lie, stage.liar.honest, stage.liar.lies = lie, honest, lies
    is_done = False
    with contextlib.suppress(HandlerError, OverError):
        (stage.prepare if phase is Phase.PREPARE else stage.recover)()
        is_done = True
    stage.liar.lie = None
    return is_done


@pytest.mark.amounts
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", STAGES)
def test_invalid_answer_prepares_nothing(kind: str, lie: str, tmp_path: Path) -> None:
    number = 0

    def make() -> contextlib.AbstractContextManager[Stage]:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        return STAGES[kind](folder)

    for stage, honest, lies in until_none_is_told(make):
        is_done = lied_to(stage, Phase.PREPARE, LIES[lie], honest, lies)
        where = f"{lies} lies after {honest} honest answers"
        assert not is_done or stage.is_prepared(), where
        if stage.liar.told and not honest and lies == ALWAYS:
            assert not is_done, where
        stage.recover()
        assert stage.is_undone(), where


@pytest.mark.amounts
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", STAGES)
def test_invalid_answer_undoes_nothing(kind: str, lie: str, tmp_path: Path) -> None:
    number = 0

    @contextlib.contextmanager
    def make() -> Generator[Stage]:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        with STAGES[kind](folder) as stage:
            stage.prepare()
            assert stage.is_prepared()
            yield stage

    for stage, honest, lies in until_none_is_told(make):
        is_done = lied_to(stage, Phase.RECOVER, LIES[lie], honest, lies)
        where = f"{lies} lies after {honest} honest answers"
        assert not is_done or stage.is_undone(), where
        # It is tried again, and finds what is to be undone.
        stage.recover()
        assert stage.is_undone(), where


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", STAGES)
def test_check_reports_an_invalid_answer(kind: str, lie: str, tmp_path: Path) -> None:
    with STAGES[kind](tmp_path) as stage:
        assert stage.check() in ([], ())
        stage.liar.lie, stage.liar.lies = LIES[lie], ALWAYS
        assert stage.check() not in ([], ())


# Locks


@contextlib.contextmanager
def lock_and_liar(kind: str, folder: Path) -> Generator[tuple[Bench, Lock, Liar]]:
    """Return a lock whose agent asks the liar instead of the fake."""
    with bench_of(kind, folder) as bench:
        assert isinstance(bench, KubernetesBench | ConsulBench)
        with lying(bench.fake.url) as liar:
            settings = bench.settings()
            if isinstance(bench, KubernetesBench):
                bench.file.write_text(kubeconfig(liar.url))
            else:
                settings = replace(settings, url=liar.url)
            yield bench, make_lock(settings, {}, SystemClock()), liar


@pytest.mark.amounts
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", ["kubernetes", "consul"])
@pytest.mark.parametrize("phase", ["take", "release"])
def test_invalid_answer_neither_takes_nor_releases_a_lock(
    kind: str, phase: str, lie: str, tmp_path: Path
) -> None:
    for lies in (1, ALWAYS):
        for honest in range(0, REQUESTS_MAX, amounts().lie_stride):
            folder = tmp_path / f"{lies}.{honest}"
            folder.mkdir()
            with lock_and_liar(kind, folder) as (bench, lock, liar):
                if phase == "release":
                    assert lock.take("web_0", jobs.context()).is_held
                liar.lie, liar.honest, liar.lies = LIES[lie], honest, lies
                is_done = False
                with contextlib.suppress(ForewarnError):
                    if phase == "take":
                        is_done = lock.take("web_0", jobs.context()).is_held
                    else:
                        lock.release("web_0", jobs.context())
                        is_done = True
                wanted = {"web_0"} if phase == "take" else set[str]()
                assert not is_done or bench.holders() == wanted
                if not liar.told:
                    break
        else:
            raise AssertionError("it never ceased to ask")
