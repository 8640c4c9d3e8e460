"""Drains of a Nomad node, with a fake of Nomad."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.protocol.notices import Notice
from tests.support.fake_nomad import NODE_ID, Allocation, FakeNomad
from tests.support.handled import JOB, Turned
from tests.support.json_api import Response

pytestmark = pytest.mark.slow

SECONDS = 1_000_000_000
"""Nanoseconds, the unit of Nomad's durations."""

WEB = {"ID": "id-of-web", "Name": "web.web[0]", "ClientStatus": "running"}


@pytest.fixture
def nomad() -> Iterator[FakeNomad]:
    with FakeNomad() as fake:
        yield fake


class Story:
    """A node of Nomad, and handlers of it."""

    def __init__(self, nomad: FakeNomad, directory: Path) -> None:
        self.nomad = nomad
        self.directory = directory

    def handler(self, settings: str = "") -> Turned:
        url = f'url = "{self.nomad.url}"\n'
        return Turned("nomad", url + settings, self.directory, {})

    def recover(self, handler: Turned) -> str:
        """Recover from an event, not from a journal that was lost."""
        job = replace(JOB, notice=Notice(event_id="E1"))
        return handler.worker.recover(job, handler.context()).detail


@pytest.fixture
def story(nomad: FakeNomad, tmp_path: Path) -> Story:
    return Story(nomad, tmp_path)


def test_node_is_drained_and_made_eligible_again(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("web.web[0]", looks=2), Allocation("b.b[0]")]
    nomad.allocations.append(Allocation("log.log[0]", kind="system"))
    handler = story.handler()
    job = replace(JOB, notice=Notice(event_id="E1", event_type="Reboot"))
    assert handler.worker.prepare(job, handler.context(120)).detail == (
        "node worker-1 is drained"
    )
    assert [allocation.status for allocation in nomad.allocations] == [
        *("complete", "complete"),
        "running",
    ]
    (deadline,) = nomad.deadlines
    assert 95 * SECONDS < deadline <= 100 * SECONDS
    assert nomad.last == {
        "Status": "complete",
        "Meta": {
            "forewarn": JOB.run_id,
            "forewarn_was": "eligible",
            "message": "Reboot, by forewarn's handler it",
        },
    }
    assert nomad.eligibility == "ineligible"
    handler.again()
    assert story.recover(handler) == "node worker-1 is eligible again"
    assert nomad.eligibility == "eligible"
    assert not handler.memo.exists()
    assert story.recover(handler) == "this handler drained nothing"


def test_prepare_and_recover_are_idempotent(story: Story) -> None:
    story.nomad.allocations = [Allocation("web.web[0]")]
    handler = story.handler()
    handler.prepare()
    assert handler.prepare() == "node worker-1 is drained"
    assert story.recover(handler) == "node worker-1 is eligible again"
    assert story.nomad.eligibility == "eligible"


def test_an_operators_drain_is_waited_for_and_stays(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("web.web[0]", looks=2)]
    nomad.begin_drain({"Deadline": 0, "IgnoreSystemJobs": False}, {"why": "disk"})
    handler = story.handler()
    message = "node worker-1 is drained; this handler did not start the drain"
    assert handler.prepare() == message
    assert nomad.writes() == []
    assert story.recover(handler) == "this handler drained nothing"
    # It is not treated as the handler's even if the memo is lost.
    assert handler.recover() == (
        "the last drain of node worker-1 has another owner, or was ended"
    )
    assert nomad.eligibility == "ineligible"


def test_later_drain_by_another_owner_is_kept(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    story.nomad.allocations = [Allocation("web.web[0]", looks=-1)]
    story.nomad.begin_drain({"Deadline": 0, "IgnoreSystemJobs": True})
    assert "has another owner" in story.recover(handler)
    assert story.nomad.drain is not None
    assert not handler.memo.exists()


def test_a_node_that_was_ineligible_stays_so(story: Story) -> None:
    nomad = story.nomad
    nomad.eligibility = "ineligible"
    nomad.allocations = [Allocation("web.web[0]")]
    handler = story.handler()
    assert handler.prepare() == "node worker-1 is drained"
    handler.prepare()
    assert story.recover(handler) == "node worker-1 stays ineligible, as before"
    assert nomad.eligibility == "ineligible"


def test_recovery_ends_an_unfinished_drain(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("b.b[0]", kind="batch", looks=-1)]
    handler = story.handler("force = false")
    assert handler.fails("prepare", 20) == (
        "timed out while waiting for 1 allocation: b.b[0]"
    )
    assert nomad.deadlines == [0]
    assert nomad.drain is not None
    assert story.recover(handler) == "node worker-1 is eligible again"
    assert nomad.drain is None
    assert nomad.allocations[0].status == "running"


def test_recovery_of_an_ineligible_node_only_ends_the_drain(story: Story) -> None:
    story.nomad.eligibility = "ineligible"
    story.nomad.allocations = [Allocation("b.b[0]", kind="batch", looks=-1)]
    handler = story.handler("force = false")
    handler.fails("prepare", 20)
    assert (
        story.recover(handler)
        == "ended the drain; node worker-1 stays ineligible, as before"
    )
    assert (story.nomad.drain, story.nomad.eligibility) == (None, "ineligible")


def test_allocations_that_do_not_end_are_stopped_in_time(story: Story) -> None:
    nomad = story.nomad
    names = [f"b.b[{number}]" for number in range(6)]
    nomad.allocations = [Allocation(name, kind="batch", looks=-1) for name in names]
    handler = story.handler('force_before = "9s"')
    # Nomad's own clock does not reach the deadline here: the handler sends it again.
    assert handler.prepare(9.1) == (
        "node worker-1 is drained; stopped by force: "
        "6 allocations: b.b[0], b.b[1], b.b[2], b.b[3], b.b[4], …"
    )
    assert 0 < nomad.deadlines[0] < SECONDS
    assert nomad.deadlines[1:] == [-1_000]


def test_without_time_left_all_allocations_are_stopped_at_once(story: Story) -> None:
    story.nomad.allocations = [Allocation("b.b[0]", kind="batch", looks=-1)]
    handler = story.handler()
    assert handler.prepare(2) == "node worker-1 is drained"
    assert story.nomad.deadlines == [-1_000]


def test_system_jobs_are_drained_if_configured(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("log.log[0]", kind="system", looks=3)]
    handler = story.handler("system_jobs = true")
    assert handler.prepare() == "node worker-1 is drained"
    assert nomad.allocations[0].status == "complete"
    (drained,) = [a.body["DrainSpec"] for a in nomad.asked if a.method == "POST"]
    assert drained["IgnoreSystemJobs"] is False


def test_drain_ended_by_others_stays_ended(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("web.web[0]", looks=-1)]
    handler = story.handler("force = false")
    handler.fails("prepare", 10)
    nomad.end_drain(eligible=False)
    assert "or was ended" in story.recover(handler)
    assert nomad.eligibility == "ineligible", "that was their will"


def test_cancelled_drain_fails_the_preparation(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("web.web[0]", looks=-1)]
    ended = nomad._node() | {"LastDrain": {"Status": "canceled", "Meta": None}}
    # The agent itself, the node, our order; and then the node again.
    nomad.refusals = [
        Response({"stats": {"client": {"node_id": NODE_ID}}}),
        Response(nomad._node()),
        Response({}),
        Response(ended),
    ]
    message = story.handler().fails("prepare")
    assert message == "the drain of node worker-1 was cancelled by others"


def test_drain_after_one_ended_by_others_is_a_new_drain(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("web.web[0]", looks=-1)]
    handler = story.handler("force = false")
    handler.fails("prepare", 10)
    nomad.end_drain(eligible=False)
    nomad.allocations = []
    handler.prepare()
    assert nomad.last is not None
    assert nomad.last["Meta"]["forewarn_was"] == "ineligible"


def test_crash_before_the_drain_leaves_nothing_to_undo(story: Story) -> None:
    handler = story.handler()
    handler.memo.parent.mkdir()
    handler.memo.write_text(json.dumps({"mark": "E1.1.prepare.1.it"}))
    assert "has another owner" in story.recover(handler)
    assert story.nomad.writes() == []


def test_lost_memo_is_replaced_by_the_drain_metadata(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    handler.memo.unlink()
    assert story.recover(handler) == "this handler drained nothing"
    assert handler.recover() == "node worker-1 is eligible again"


def test_missing_permission_is_named(story: Story, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    story.nomad.token = "s3cret"
    handler = story.handler(f'token_file = "{secret}"')
    assert "No such file" in handler.check()[0]
    secret.write_text("wrong\n")
    message = handler.fails("prepare")
    assert "403: Permission denied; its token needs a policy with agent" in message
    assert "wrong" not in message
    secret.write_text("s3cret\n")
    assert handler.check() == []
    assert handler.prepare() == "node worker-1 is drained"


def test_missing_nomad_node_is_reported(story: Story) -> None:
    nomad, handler = story.nomad, story.handler()
    nomad.is_client = False
    (problem,) = handler.check()
    assert problem.endswith("is not a client and has no node")
    nomad.is_client, nomad.is_old = True, True
    assert "use Nomad 1.1 or newer" in handler.fails("prepare")
    nomad.is_old = False
    nomad.refusals = [nomad.answer_self(), Response(status=404, text="node not found")]
    assert "has the node left the cluster?" in handler.fails("prepare")
    nomad.refusals = [nomad.answer_self(), Response([])]
    assert "no JSON object" in handler.fails("prepare")
    nomad.refusals = [nomad.answer_self(), Response({"ID": "another"})]
    assert "no such node of Nomad" in handler.fails("prepare")
    nomad.refusals = [nomad.answer_self(), Response(status=400, text="no")]
    assert handler.fails("prepare").endswith("was answered 400: no")


def test_unavailable_servers_are_retried(story: Story) -> None:
    nomad, handler = story.nomad, story.handler()
    nomad.refusals = [Response(status=500, text="No cluster leader")] * 2
    assert handler.prepare() == "node worker-1 is drained"
    nomad.end()
    message = handler.fails("recover", 40)
    assert message.startswith("timed out while retrying")
    assert handler.memo.exists()
    nomad.begin()
    assert story.recover(handler) == "node worker-1 is eligible again"


def test_remaining_allocations_are_reported_even_if_servers_fail(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("web.web[0]", looks=-1)]
    handler = story.handler("force = false")
    away = [Response(status=500, text="No cluster leader")] * 99
    first = [nomad.answer_self(), Response(nomad._node()), Response({})]
    listed = [Response(nomad._node()), Response([WEB])]
    nomad.refusals = [*first, *listed, *away]
    assert handler.fails("prepare", 50).startswith(
        "timed out while waiting for 1 allocation: web.web[0]: GET "
    )


def test_missing_eligibility_is_reported(story: Story) -> None:
    nomad, handler = story.nomad, story.handler()
    handler.prepare()
    stuck = Response(nomad._node())
    nomad.refusals = [nomad.answer_self(), *[stuck, Response({})] * 99]
    assert handler.fails("recover", 20) == (
        "timed out while waiting for node worker-1 to be eligible"
    )


def test_drain_that_nomad_never_completes_is_reported(story: Story) -> None:
    nomad, handler = story.nomad, story.handler("force = false")
    draining = nomad._node() | {"DrainStrategy": {"Deadline": 0}}
    first = [nomad.answer_self(), Response(nomad._node()), Response({})]
    nomad.refusals = [*first, *[Response(draining), Response([])] * 99]
    assert handler.fails("prepare", 20) == (
        "timed out while waiting for Nomad to complete the drain"
    )


def test_refusal_during_the_wait_fails_at_once(story: Story) -> None:
    nomad = story.nomad
    nomad.allocations = [Allocation("web.web[0]", looks=-1)]
    first = [nomad.answer_self(), Response(nomad._node()), Response({})]
    listed = [Response(nomad._node()), Response([WEB])]
    refused = Response(status=403, text="Permission denied")
    nomad.refusals = [*first, *listed, refused]
    assert "403: Permission denied" in story.handler("force = false").fails("prepare")


def test_drain_that_was_not_stored_is_reported(story: Story) -> None:
    nomad, handler = story.nomad, story.handler()
    nomad.refusals = [nomad.answer_self(), Response(nomad._node()), Response({})]
    assert handler.fails("prepare").startswith("node worker-1 is eligible: ")


@pytest.mark.parametrize("said", [None, {}, [None], [{"Name": "web"}]])
def test_invalid_list_of_allocations_is_not_an_empty_node(
    story: Story, said: object
) -> None:
    nomad, handler = story.nomad, story.handler()
    node = Response(nomad._node())
    nomad.refusals = [nomad.answer_self(), node, Response({}), node, Response(said)]
    message = handler.fails("prepare")
    assert "/allocations was answered 200 with no" in message
