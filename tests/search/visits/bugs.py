"""Planted bugs of visits: a function of the service, what replaces it, and the rule that
the search must name.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from forewarn.campaigns import progress
from forewarn.control.execution import campaign_ends, visits
from forewarn.control.requests import campaign_turns
from forewarn.control.rules import brake, campaign_gate
from forewarn.control.transactions.work import Work
from tests.search.visits import settings
from tests.search.visits.settings import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A bug, where it is planted, and what must catch it."""

    what: str
    setting: Setting
    home: Any
    function: str
    instead: Callable[..., Any]
    caught_by: str


IN_PLACE = replace(settings.IN_PLACE, hosts=4)
"""With four hosts, a depth-first search comes sooner to two hosts of one rack."""


def _nothing(*_args: Any, **_more: Any) -> None:
    """Do nothing."""


def _none(*_args: Any, **_more: Any) -> Iterator[Any]:
    return iter(())


PLANTED = (
    Planted(
        what="The step verify is left out",
        setting=settings.STEPS,
        home=visits,
        function="verify",
        instead=visits.leave,
        caught_by="table",
    ),
    Planted(
        what="A host that is entered takes new VMs",
        setting=settings.STEPS,
        home=visits,
        function="_cordon",
        instead=_nothing,
        caught_by="K4",
    ),
    Planted(
        what="A canary whose step fails halts nothing",
        setting=settings.STEPS,
        home=progress,
        function="why_halt",
        instead=_nothing,
        caught_by="2.6",
    ),
    Planted(
        what="The work begins although the VMs could not be moved away",
        setting=settings.DEFERRALS,
        home=visits,
        function="defer",
        instead=visits._work,
        caught_by="phases",
    ),
    Planted(
        what="A host whose VMs could not be moved away is not tried again",
        setting=settings.DEFERRALS,
        home=campaign_ends,
        function="_defer",
        instead=_nothing,
        caught_by="K7",
    ),
    Planted(
        what="VMs that were stopped for the work are not started",
        setting=IN_PLACE,
        home=visits,
        function="_restore",
        instead=_nothing,
        caught_by="K7",
    ),
    Planted(
        what="A halted campaign withdraws nothing",
        setting=settings.STEERED,
        home=campaign_turns,
        function="_withdraw",
        instead=_nothing,
        caught_by="K3",
    ),
    Planted(
        what="The brake stops nothing",
        setting=settings.STEERED,
        home=brake,
        function="in_force",
        instead=_nothing,
        caught_by="K3",
    ),
    Planted(
        what="The budget of a rack is not asked",
        setting=IN_PLACE,
        home=campaign_gate,
        function="_groups",
        instead=_none,
        caught_by="K1",
    ),
    Planted(
        what="What became free is not checked by those that wait for it",
        setting=IN_PLACE,
        home=Work,
        function="free_budgets",
        instead=_nothing,
        caught_by="K8",
    ),
)
