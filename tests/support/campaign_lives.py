"""Lives with campaigns: what their operators do, and a watcher of their rules."""

from collections.abc import Callable
from typing import Any

from forewarn.campaigns.record import CampaignRecord
from forewarn.campaigns.text import CampaignFileError, CampaignText
from forewarn.control.requests import campaign_changes, campaign_starts, campaigns
from forewarn.control.requests.verbs import campaign_hosts
from forewarn.control.rules.policy import BrakeLimits, Policy
from forewarn.control.transactions.work import Work
from forewarn.instants import HOUR, MINUTE, SECOND, format_instant
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import RequestState
from forewarn.protocol.verbs import Verb
from forewarn.settings.amounts import Amount
from tests.support.campaign_watcher import CampaignWatcher
from tests.support.lives import Life
from tests.support.watched import Change

IMPACTS = ("reboot", "live-migrate", "freeze", "redeploy", "none")
ACTORS = ("alice", "bob")
BUDGETS = (
    "",
    "unavailable = 3\n",
    '[[campaign.budget.by]]\nlabel = "rack"\nmax = 1\n',
    "tenant_vms = 1\n",
    'tenant_vms = "50%"\n',
    "overlap_notice = 1\n",
)
STAGES = (
    '[[campaign.stage]]\nhosts = "100%"\n',
    '[[campaign.stage]]\nhosts = 1\nsoak = "30m"\n',
    "[[campaign.stage]]\nhosts = 1\napproval = true\n",
    '[[campaign.stage]]\nhosts = 1\n[[campaign.stage]]\nhosts = 2\nsoak = "1h"\n',
)
EXPECT = '[campaign.expect]\ntypical = "20m"\nslow = "1h"\n'
WINDOW = '[[campaign.window]]\nstart = "09:00"\nlength = "6h"\n'
BLACKOUT = '[[campaign.blackout]]\nname = "noon"\nstart = "11:00"\nlength = "2h"\n'
HOURS = ("", EXPECT + WINDOW, EXPECT + BLACKOUT, EXPECT + WINDOW + BLACKOUT)
"""When a campaign may work: at any time, in its windows, and outside its blackouts."""
STEPS = "[campaign.steps]\n" + "".join(
    f'{name} = {{ step = "{name}" }}\n'
    for name in ("needed", "enter", "work", "verify", "exit")
)
VERBS = (
    *("pause", "resume", "halt", "abort", "retry", "skip", "approve", "set"),
    *("add", "add drift", "add blackout", "remove blackout"),
)
BLACKOUT_NAMES = ("noon", "fair")
EMERGENCY = 4
"""The rank of a campaign above all priorities."""
POLICIES = (
    Policy(),
    Policy(campaigns_in_flight=1),
    Policy(campaigns_in_flight=2),
    Policy(reserve=Amount(value=1)),
    Policy(brake=BrakeLimits(hosts=Amount(value=1), vms=3, per_rack=1, calm=HOUR)),
    Policy(hold_max=6 * HOUR, driver_timeout=5 * MINUTE, recovery=30 * MINUTE),
)


class CampaignLife(Life):
    """A life whose operators start and steer campaigns."""

    _watcher: CampaignWatcher | None = None

    def _committed(self, changes: list[Change]) -> None:
        super()._committed(changes)
        if self._world is not None:
            if self._watcher is None:
                self._watcher = CampaignWatcher(self.world.clock.monotonic)
            self._watcher.committed(self.moment(changes))

    def step_clock(self, seconds: float, *, is_down: bool) -> None:
        """Set the clock; after that, the watcher trusts no stored time."""
        if self._watcher is not None:
            self._watcher.is_reset |= is_down
        super().step_clock(seconds, is_down=is_down)

    def _open_campaigns(self) -> list[CampaignRecord]:
        campaign_records = self.mirror.table(CampaignRecord).values()
        return sorted(
            (x for x in campaign_records if not x.has_ended), key=lambda x: x.name
        )

    def _steered(self) -> list[str]:
        """Return the steerable requests: campaigns, and rollouts without a campaign
        yet."""
        rollouts = [
            request.request_id
            for request in self.mirror.requests.values()
            if request.state is RequestState.OPEN
            and request.verb is Verb.MAINTAIN
            and request.at_once
            and request.hosts > 1
            and not request.campaign
        ]
        return [x.campaign_id for x in self._open_campaigns()] + sorted(rollouts)

    def campaign(
        self,
        first: int,
        hosts: int,
        impact: int,
        at_once: int,
        *,
        budget: int = 0,
        stages: int = 0,
        hours: int = 0,
        rank: int = 0,
        has_steps: bool = False,
    ) -> None:
        """Plan a campaign of some hosts, from `first` on and in turn, and start it.

        A campaign of all hosts selects all, so that it also has what the fleet gains.
        """
        names = sorted(self.mirror.hosts)
        start = first % len(names)
        chosen = (names[start:] + names[:start])[: 1 + hosts % len(names)]
        kind = IMPACTS[impact % len(IMPACTS)]
        has_steps |= kind == "none"
        is_all = len(chosen) == len(names)
        listed = ", ".join(f'"{name}"' for name in chosen)
        selects = "all = true" if is_all else f"host = [{listed}]"
        order = "rack" if is_all else "listed"
        text = (
            f'[campaign]\nname = "c{len(self.mirror.table(CampaignRecord))}"\n'
            f'reason = "CVE"\nimpact = "{kind}"\norder = "{order}"\n'
            f"priority = {rank % 4}\nemergency = {'true' if rank == EMERGENCY else 'false'}\n"
            f"[campaign.select]\n{selects}\n"
            f"[campaign.budget]\nin_flight = {at_once}\n{BUDGETS[budget % len(BUDGETS)]}"
            f"{STAGES[stages % len(STAGES)]}{HOURS[hours % len(HOURS)]}"
            f"{STEPS if has_steps else ''}"
        )
        file = CampaignText(name="campaign.toml", text=text)
        planned = campaign_starts.plan_request(
            file, self.world.plane.policy, now=self.world.now
        )
        try:
            prepared = self.world.read(
                lambda reader: campaign_starts.prepared_of(
                    reader, campaign_starts.plan_of(reader, planned), file
                )
            )
        except (RefusedError, CampaignFileError):
            self.refused += 1
            return
        self.order(lambda work: campaigns.start(work, prepared), actor="alice")
        self.world.settle()
        self._settled()

    def steer(self, which: int, verb: int, actor: int, number: int) -> None:
        """Steer a campaign or a rollout that has not ended, if there is one."""
        names = self._steered()
        if not names:
            return
        name = names[which % len(names)]
        who = ACTORS[actor % len(ACTORS)]
        verb_name = VERBS[verb % len(VERBS)]
        old = self.mirror.table(CampaignRecord).get(name)
        order = self.order(
            self._decision(name, verb_name, number), actor=who, reason="a reason"
        )
        if old is not None:
            self._k6(old, verb_name, who, by_all=number % 3 == 0)
        self.world.settle()
        self._settled()
        if isinstance(order, CampaignRecord):
            self._judge_verb(verb_name, order.campaign_id)

    def _judge_verb(self, verb: str, name: str) -> None:
        """Judge what a verb that was not refused must have done when all has settled."""
        campaign_record = self.mirror.table(CampaignRecord)[name]
        if verb == "add blackout" and not campaign_record.has_ended:
            assert self._watcher is not None
            self._watcher.fits_blackouts(self.moment(), campaign_record)
        if verb == "add drift":
            left = [x.name for x in self.mirror.hosts.values() if x.drift_of == name]
            assert not left, f"2.1: {left} were not added: {campaign_record}"

    def _decision(
        self, name: str, verb: str, number: int
    ) -> Callable[[Work], CampaignRecord]:
        old = self.mirror.table(CampaignRecord).get(name)
        failed = old.failed_hosts if old else ()
        hosts = [failed[number % len(failed)]] if failed else []
        host = self._host(number)
        stage = 1 + (old.stage if old else 1)
        terms = {
            "set": {"in_flight": str(1 + number % 3), "failures": str(number % 3)},
            "add blackout": {"blackout": self._blackout(number)},
            "remove blackout": {"remove_blackout": BLACKOUT_NAMES[number % 2]},
        }.get(verb, {})
        decisions: dict[str, Callable[[Work], CampaignRecord]] = {
            "pause": lambda work: campaigns.pause(work, name),
            "resume": lambda work: campaigns.resume(work, name, by_all=number % 3 == 0),
            "halt": lambda work: campaigns.halt(work, name),
            "abort": lambda work: campaigns.abort(work, name),
            "retry": lambda work: campaigns.retry(work, name, hosts),
            "skip": lambda work: campaigns.skip(work, name, hosts or [host]),
            "approve": lambda work: campaigns.approve(work, name, stage),
            "add": lambda work: campaign_hosts.add_hosts(
                work, name, [host], with_drift=False
            ),
            "add drift": lambda work: campaign_hosts.add_hosts(
                work, name, [], with_drift=True
            ),
        }
        return decisions.get(
            verb,
            lambda work: campaign_changes.change(
                work, campaigns.find_open(work, name), terms
            ),
        )

    def _blackout(self, number: int) -> str:
        """Return the line of a blackout that begins now, or in a quarter of an hour."""
        begins = self.world.now + number % 2 * 15 * MINUTE
        times = [
            format_instant(at - at % SECOND).removesuffix("Z")
            for at in (begins, begins + (1 + number // 2) * HOUR)
        ]
        return f"{BLACKOUT_NAMES[1]} {' '.join(times)}"

    def _k6(self, old: CampaignRecord, verb: str, who: str, *, by_all: bool) -> None:
        """K6: no operator ends the pause of another, unless they say so."""
        new = self.mirror.table(CampaignRecord)[old.campaign_id]
        if new.has_ended:
            return
        pauses = [pause for pause in old.pauses if pause.by.name != who]
        if verb == "resume" and by_all:
            return
        assert all(pause in new.pauses for pause in pauses), f"K6: {old}, {new}"

    def _end_orders(self) -> bool:
        """K7: campaigns that nothing stops come to their end."""
        for campaign in self._open_campaigns():
            for verb in ("resume", "approve", "skip"):
                self._to_end(campaign.campaign_id, verb)
        return not self._open_campaigns()

    def end(self) -> None:
        """K7: everything ends, and each host of a campaign is done or skipped."""
        super().end()
        assert not self._open_campaigns(), f"K7: never ended: {self._open_campaigns()}"

    def _to_end(self, name: str, verb: str) -> None:
        campaign_record = self.mirror.table(CampaignRecord)[name]
        if campaign_record.has_ended or (verb == "skip" and not campaign_record.failed):
            return
        hosts = campaign_record.failed_hosts
        decide: dict[str, Callable[[Work], Any]] = {
            "resume": lambda work: campaigns.resume(work, name, by_all=True),
            "approve": lambda work: campaigns.approve(
                work, name, campaign_record.stage + 1
            ),
            "skip": lambda work: campaigns.skip(work, name, hosts),
        }
        self.order(decide[verb], actor="alice", reason="the end")
        self.world.settle()
