"""Handlers that are Python functions, as real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Finished, StepState, Stop
from forewarn.agent.handlers.making import make_workers
from forewarn.agent.handlers.port import Ground, Worker
from forewarn.agent.settings_model import HandlerSettings
from tests.support.handler_bench import CLOCK, ENVIRONMENT, Bench

pytestmark = pytest.mark.system


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for run_id in bench.runner.running():
        bench.runner.stop(Stop(run_id=run_id, kill_at=0))


def worker(
    bench: Bench,
    entry: str,
    *,
    recover: tuple[str, ...] = (),
    check: tuple[str, ...] = (),
) -> Worker:
    (bench.directory / "mine.py").write_text(
        "import os\n"
        "def good(event):\n"
        "    print(os.environ['FOREWARN_PHASE'], event['EventType'])\n"
        "def bad(event):\n"
        "    return False\n"
        "def worse(event):\n"
        "    raise ValueError('no such pool')\n"
        "word = 'x'\n"
        "def well(event):\n"
        "    assert event == {}\n"
        "async def later(event):\n"
        "    print('never')\n"
        "def bit_by_bit(event):\n"
        "    yield 'never'\n"
        "def handed_on(event):\n"
        "    return later(event)\n"
        "class Callable:\n"
        "    async def __call__(self, event):\n"
        "        print('never')\n"
        "called = Callable()\n"
        "def in_lines(event):\n"
        "    raise ValueError('the pool\\n  says no')\n"
        "def noted(event):\n"
        "    error = ValueError('no such pool')\n"
        "    error.add_note('ask somebody')\n"
        "    raise error\n"
        "def without():\n"
        "    pass\n"
        "def with_more(event, more):\n"
        "    pass\n"
        "def with_any(*given, **named):\n"
        "    print('done')\n"
    )
    settings = HandlerSettings(
        name="h",
        kind="python",
        prepare=(entry,),
        directory=str(bench.directory),
        recover=recover,
        check=check,
    )
    ground = Ground(records=bench.records, environment=ENVIRONMENT, clock=CLOCK)
    bench.workers.update(make_workers([settings], ground))
    return bench.workers["h"]


@pytest.mark.parametrize(
    ("entry", "state", "detail"),
    [
        ("mine:good", StepState.DONE, "prepare Reboot"),
        ("mine:bad", StepState.FAILED, "exit status 1"),
        ("mine:worse", StepState.FAILED, "exit status 1: ValueError: no such pool"),
        (
            "mine:in_lines",
            StepState.FAILED,
            "exit status 1: ValueError: the pool says no",
        ),
        ("mine:noted", StepState.FAILED, "exit status 1: ValueError: no such pool"),
        ("mine:with_any", StepState.DONE, "done"),
        (
            "mine:word",
            StepState.FAILED,
            "exit status 1: mine:word cannot be called",
        ),
    ],
)
def test_result_of_a_function_is_reported(
    bench: Bench, entry: str, state: StepState, detail: str
) -> None:
    worker(bench, entry)
    bench.run()
    assert bench.end() == Finished(run_id="r1", state=state, detail=detail)


def test_check_finds_a_function_that_cannot_be_imported(bench: Bench) -> None:
    assert not worker(bench, "mine:good").check()
    [fault] = worker(bench, "mine:nobody").check()
    assert "has no attribute 'nobody'" in fault


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("mine:without", "too many positional arguments"),
        ("mine:with_more", "missing a required argument: 'more'"),
    ],
)
def test_check_finds_a_function_that_cannot_take_the_event(
    bench: Bench, entry: str, why: str
) -> None:
    [fault] = worker(bench, entry).check()
    assert (
        f"{entry} cannot be called with the event as its only argument: {why}" in fault
    )
    assert not worker(bench, "mine:with_any").check()


@pytest.mark.parametrize(
    "entry", ["mine:later", "mine:bit_by_bit", "mine:handed_on", "mine:called"]
)
def test_asynchronous_function_fails(bench: Bench, entry: str) -> None:
    worker(bench, entry)
    bench.run()
    done = bench.end()
    assert done.state is StepState.FAILED
    why = f"{entry} is asynchronous or a generator, so calling it runs nothing: "
    assert done.detail.startswith(f"exit status 1: {why}make it a normal function")


@pytest.mark.parametrize("entry", ["mine:later", "mine:bit_by_bit", "mine:called"])
def test_check_reports_a_function_that_would_not_run(bench: Bench, entry: str) -> None:
    why = f"{entry} is asynchronous or a generator"
    for candidate in (
        worker(bench, entry),
        worker(bench, "mine:good", recover=(entry,)),
        worker(bench, entry, check=("mine:well",)),
        worker(bench, "mine:good", check=(entry,)),
    ):
        [fault] = candidate.check()
        assert why in fault


def test_check_function_gets_an_empty_event(bench: Bench) -> None:
    assert not worker(bench, "mine:good", check=("mine:well",)).check()
    [fault] = worker(bench, "mine:good", check=("mine:bad",)).check()
    assert "exit status 1" in fault
