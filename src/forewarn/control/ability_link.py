"""Asks the plane's driver what can be done on hosts and to their VMs, and takes answers.

All hosts are asked when the service starts, and one host when a VM has come to it, when an
order was refused for what the driver told about it, and before a campaign is planned. One
question is open at a time, and it is about many hosts. Which hosts have to be asked is
only in memory: the next start asks about all.
"""

from collections import deque
from collections.abc import Callable, Iterable

from forewarn.control.requests.told_abilities import news_in, take_told
from forewarn.control.transactions.inquiries import (
    AbilityAnswer,
    AbilityQuestion,
    Inquirer,
)
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Driver, HostVms
from forewarn.fleet.model import Host
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.blockers import DriverUnable, HinderedError
from forewarn.protocol.errors import ForewarnError
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, every, latest
from forewarn.store.records import FLEET_HOSTS, Tally

HOSTS_PER_QUESTION = 50
"""Maximum hosts of one question: with 15 VMs on each, the program of a driver gets 50
lines, and its answers are 50 rows in one transaction of some milliseconds."""

HOSTS_BEFORE_PLAN = 2_000
"""Maximum hosts of a fleet that are asked again before a campaign is planned: 40
questions. A plan of a larger fleet uses what is known."""


AGAIN_AFTER: Micros = MINUTE
"""Time after which hosts are asked again that have not answered. Each silence doubles it."""

AGAIN_AFTER_MAX: Micros = 30 * MINUTE
"""Maximum of this time: a driver that never answers is asked twice an hour."""


class AbilityLink:
    """Asks about the hosts of one driver."""

    def __init__(
        self,
        driver: Driver,
        *,
        inquirer: Inquirer,
        store: Store,
        run: Callable[[Callable[[Work], object], Micros], object],
    ) -> None:
        """Ask nothing yet; `run` carries out a decision in a transaction."""
        self._driver, self._inquirer = driver, inquirer
        self._store, self._run = store, run
        self._wanted: dict[str, None] = {}
        self._after: str | None = None
        """The last host of the list of all that was asked; None: the list has ended."""
        self._silent: dict[str, None] = {}
        """Hosts that did not answer. They are asked again when the time has come."""
        self._again_at: Micros | None = None
        self._patience = AGAIN_AFTER
        self._is_asked = False
        self._answers: deque[AbilityAnswer] = deque()

    def want_all(self) -> None:
        """Ask about every host, page by page."""
        self._after = ""

    def want(self, hosts: Iterable[str]) -> None:
        """Ask about these hosts."""
        if self._driver.tells_abilities:
            self._wanted.update(dict.fromkeys(hosts))

    def want_before_plan(self) -> None:
        """Ask about every host, unless the fleet is large."""
        hosts = latest(self._store, lambda reader: reader.get(Tally, FLEET_HOSTS))
        if hosts is not None and hosts.count <= HOSTS_BEFORE_PLAN:
            self.want_all()

    def want_after(self, error: ForewarnError) -> None:
        """Ask about the hosts because of which an order was refused.

        The reason can have ended, and a repeated order then succeeds.
        """
        if isinstance(error, HinderedError):
            self.want(
                blocker.host
                for blocker in error.because
                if isinstance(blocker, DriverUnable)
            )

    def collect(self, *, now: Micros) -> None:
        """Ask the hosts again that have not answered, if it is time."""
        if self._again_at is not None and now >= self._again_at:
            self._again_at = None
            self.want(self._silent)
            self._silent.clear()

    def next_due(self) -> Micros | None:
        """Return when hosts that have not answered are asked again."""
        return self._again_at

    @property
    def is_asking(self) -> bool:
        """Return whether a question or an answer is pending."""
        return self._driver.tells_abilities and bool(
            self._is_asked or self._answers or self._wanted or self._after is not None
        )

    def take(self, answer: AbilityAnswer) -> None:
        """Take an answer of the driver, which is stored in its turn."""
        self._is_asked = False
        self._answers.append(answer)

    def has_more(self) -> bool:
        """Return whether there is something to do now."""
        return self.is_asking and (bool(self._answers) or not self._is_asked)

    def take_one(self, now: Micros) -> bool:
        """Do one step; return whether it needed a transaction.

        An answer that cannot be stored, because the store is locked, is kept.
        """
        if self._answers:
            answer = self._answers[0]
            news = latest(self._store, lambda reader: news_in(reader, answer.told))
            if news:
                self._run(lambda work: take_told(work, news), now)
            self._answers.popleft()
            self._note_silent(answer, now)
            return bool(news)
        hosts = latest(self._store, self._next_question)
        if hosts:
            self._is_asked = True
            self._inquirer.ask(AbilityQuestion(hosts=hosts), now=now)
        return False

    def _note_silent(self, answer: AbilityAnswer, now: Micros) -> None:
        """Remember the hosts that did not answer."""
        hosts = [host.host for host in answer.question.hosts]
        silent = [host for host in hosts if host not in answer.told]
        if not silent:
            self._patience = AGAIN_AFTER
            return
        self._silent.update(dict.fromkeys(silent))
        if self._again_at is None:
            self._again_at = now + self._patience
            self._patience = min(2 * self._patience, AGAIN_AFTER_MAX)

    def _next_question(self, reader: Reader) -> tuple[HostVms, ...]:
        """Return the next hosts to ask about, with the VMs on them now."""
        names = list(self._wanted)[:HOSTS_PER_QUESTION]
        if not names and self._after is not None:
            page = reader.select(
                kinds.ALL_HOSTS, after=self._after, limit=HOSTS_PER_QUESTION
            )
            names = [host.name for host in page]
            self._after = names[-1] if len(names) == HOSTS_PER_QUESTION else None
        for name in names:
            self._wanted.pop(name, None)
        return tuple(
            HostVms(
                host=name,
                vms=tuple(vm.name for vm in every(reader, kinds.VMS_ON_HOST, name)),
            )
            for name in names
            if reader.get(Host, name) is not None
        )
