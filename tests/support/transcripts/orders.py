"""What an operator orders in a story: the verbs, as on the command line."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from forewarn.control.requests import approvals, failures, outcome, verbs
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import Action, Verb
from tests.support.transcripts.story import Story
from tests.support.transcripts.words import Words

Decide: TypeAlias = Callable[[Work], object]
BY_HAND = Said(text="cancelled by an operator")


def order(story: Story, words: Words) -> None:
    """Give the order that the words write."""
    decide = ORDERS[words.name](story, words)
    story.world.order(decide)


def _wishes(story: Story, words: Words) -> verbs.OrderOptions:
    description = words.option("--description")
    return verbs.OrderOptions(
        duration_seconds=words.seconds("--duration"),
        not_before=words.moment("--not-before", now=story.world.now),
        description=description or None,
        emergency=words.flag("--emergency"),
    )


def _maintain(story: Story, words: Words) -> Decide:
    at_once = words.option("--at-once")
    wishes = replace(_wishes(story, words), at_once=int(at_once) if at_once else None)
    try:
        action = Action(words.option("--impact"))
    except ValueError as error:
        raise words.error(str(error)) from error
    hosts = words.all(least=0)
    return lambda work: verbs.maintain(work, hosts, action, wishes)


def _restart(verb: Verb, story: Story, words: Words) -> Decide:
    wishes = _wishes(story, words)
    vms = words.all()
    return lambda work: verbs.restart(work, vms, verb, wishes)


def _evict(story: Story, words: Words) -> Decide:
    wishes = _wishes(story, words)
    vms = words.all()
    return lambda work: verbs.evict(work, vms, wishes)


def _terminate(story: Story, words: Words) -> Decide:
    wishes = _wishes(story, words)
    vms = words.all()
    return lambda work: verbs.terminate(work, vms, wishes)


def _renew_image(verb: Verb, story: Story, words: Words) -> Decide:
    wishes = _wishes(story, words)
    vms = words.all()
    return lambda work: verbs.renew_image(work, vms, verb, wishes)


def _fail(story: Story, words: Words) -> Decide:
    name = words.one()
    if _is_host(story, name):
        return lambda work: failures.fail_host(work, name)
    return lambda work: failures.fail_vm(work, name)


def _restore(story: Story, words: Words) -> Decide:
    name = words.one()
    if _is_host(story, name):
        return lambda work: failures.restore_host(work, name)
    return lambda work: failures.restore_vm(work, name)


def _is_host(story: Story, name: str) -> bool:
    return story.world.read(lambda reader: reader.get(Host, name)) is not None


def _predict_failure(story: Story, words: Words) -> Decide:
    wishes = _wishes(story, words)
    notice = words.duration("--in") or story.world.policy.failure_notice
    name = words.one()
    return lambda work: verbs.predict_failure(work, name, notice, wishes)


def _cancel(story: Story, words: Words) -> Decide:
    del story
    name = words.one()
    return lambda work: verbs.cancel(work, name, note=BY_HAND)


def _approve(story: Story, words: Words) -> Decide:
    del story
    as_vm = words.option("--as")
    event = words.one()
    return lambda work: approvals.approve_for(work, event, as_vm=as_vm)


def _resolve(story: Story, words: Words) -> Decide:
    del story
    down = words.options("--down")
    operation, word = words.all(least=2, most=2)
    if word not in {"done", "failed"}:
        raise words.error("say done or failed")
    return lambda work: outcome.resolve(work, operation, done=word == "done", down=down)


ORDERS: Mapping[str, Callable[[Story, Words], Decide]] = {
    "maintain": _maintain,
    "reboot": partial(_restart, Verb.REBOOT),
    "redeploy": partial(_restart, Verb.REDEPLOY),
    "evict": _evict,
    "terminate": _terminate,
    "upgrade-os": partial(_renew_image, Verb.UPGRADE_OS),
    "reimage": partial(_renew_image, Verb.REIMAGE),
    "fail": _fail,
    "restore": _restore,
    "predict-failure": _predict_failure,
    "cancel": _cancel,
    "approve": _approve,
    "resolve": _resolve,
}
