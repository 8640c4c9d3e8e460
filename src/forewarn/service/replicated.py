"""A service that is one of several replicas.

It follows the replica that leads, and takes over when that one has gone. Its endpoint and
its operator API are open in both roles; `Deciding` exists only while it leads.

Start: the listeners; the connections to the database; everything that is committed is
published, and VMs get documents. Then the operator API, and the two threads of `Replica`.

Lead: the store of the term is opened, the follower publishes what is committed and leaves
the documents to the plane, and then come the other steps of the start of a service. A
crash at any of them leaves what a killed service leaves, and the lease runs out.

Follow: requests are passed on, the control thread and the driver end, and the follower
reads what was committed since it led.

Stop: the control thread ends after the waiting requests, approvals get their answers, and
the lease is released, so that another replica leads at once. Meanwhile VMs get documents here, and their requests are
passed on.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from forewarn.admin.gateways import ClusterGateway
from forewarn.admin.leader import Leader
from forewarn.admin.meters import Reading
from forewarn.cluster.lease import LeaseState
from forewarn.cluster.port import LeaseRow, Role
from forewarn.cluster.times import Times
from forewarn.control.call_gate import OPEN, CallGate
from forewarn.control.gateway import FOLLOWS, BusyError, Health
from forewarn.control.requests import fleet_changes
from forewarn.control.transactions.work import Who
from forewarn.instants import SECOND
from forewarn.metadata.passed_on import replica_key
from forewarn.protocol.actors import service_part
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.published import Publication
from forewarn.service import limits, secret_files
from forewarn.service.api import Answers, Api
from forewarn.service.campaign_plans import not_asked
from forewarn.service.checking import refuse_empty_store
from forewarn.service.cluster.addresses import ReplicaAddress, address_of
from forewarn.service.cluster.answering import LeaderGuests
from forewarn.service.cluster.follower import NotTakenError
from forewarn.service.cluster.following import FollowingGateway, NothingSent
from forewarn.service.cluster.passing import FollowerGuests
from forewarn.service.cluster.replica import Backend, Replica, secret_in
from forewarn.service.cluster.showing import ShownCluster
from forewarn.service.deciding import Around, Deciding
from forewarn.service.inbox import StoppedError
from forewarn.service.options import socket_path
from forewarn.service.patience import patiently
from forewarn.service.readings import Readings
from forewarn.service.service import Service, StartFleet, guest_listeners
from forewarn.service.settings import Settings
from forewarn.service.tls import authorities
from forewarn.store.feed import LeaderStore
from forewarn.store.open import memory_file
from forewarn.store.port import (
    LostError,
    NotLeaderError,
    StoreError,
    StoreGoneError,
)
from forewarn.wording import replicas as wording

TERM_ENDS = (NotLeaderError, LostError, StoreGoneError)
"""Errors that end a term, and not the replica: another one leads, or the database does not
answer. systemd gives up a service that ends again and again, and a database can be away
for longer."""

NOT_LED = (*TERM_ENDS, BusyError, NotTakenError)
"""Errors that end a takeover, and not the replica. It is busy if the database takes no
write."""

logger = logging.getLogger("forewarn.service")


class ReplicatedService(Service):
    """A service with replicas; created, used and stopped on one event loop."""

    _replica: Replica | None = None
    _following: FollowerGuests
    _own_readings: Readings
    """Reads what this replica needs itself."""
    _store_of_term: LeaderStore | None = None
    _leading: LeaderGuests | None = None
    """The gateway of VMs while it leads."""

    def __init__(
        self,
        settings: Settings,
        backend: Backend,
        *,
        api_apart: bool = False,
    ) -> None:
        """Prepare the components, over the database of `backend`."""
        super().__init__(settings, api_apart=api_apart)
        self._backend = backend
        self._own_threads = ThreadPoolExecutor(
            limits.CLUSTER_THREADS, thread_name_prefix="forewarn-cluster"
        )
        self._role_changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._decides = False
        """Whether it has begun to decide in its term: until then, it follows."""
        self._led: LeaseRow | None = None
        """The term in which `_deciding` decides."""
        self._lost: LeaseRow | None = None
        """The last term that the database has refused."""
        self._told: Leader | None = None
        self._has_settled = asyncio.Event()
        """Set when this replica has led, knows another one that leads, or refuses."""

    # Starting

    async def _begin(self, api: Api, fleet: StartFleet) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._fleet = fleet
        reader = await patiently(
            lambda: loop.run_in_executor(self._own_threads, self._backend.prepare)
        )
        self._owned.enter_context(contextlib.closing(reader))
        readings = Readings(store=reader, threads=self._threads)
        self._own_readings = Readings(store=reader, threads=self._own_threads)
        replica = await patiently(
            lambda: loop.run_in_executor(self._own_threads, self._connect, loop)
        )
        self._replica = replica
        self._following = FollowerGuests(
            door=replica.door,
            caught_up=replica.caught_up,
            readings=readings,
            clock=self.clock,
            sender=replica.key,
            tls=authorities(self.settings, "cluster", self.settings.cluster.ca_file),
        )
        self._follow_gateway = FollowingGateway(
            readings=readings,
            watchers=self.watchers,
            clock=self.clock,
            reserve=self.settings.policy.reserve,
            second_person=self.settings.campaigns.second_person,
            ask_health=self.health,
        )
        self.endpoint.directory.trust_replicas(b"")
        self.server.attach(self._following)
        listeners = await patiently(lambda: readings.read(guest_listeners))
        await self._guests.open(listeners)
        await patiently(
            lambda: loop.run_in_executor(self._own_threads, replica.follower.turn)
        )
        replica.know(await patiently(lambda: self._own_readings.read(secret_in)))
        self._update_door()
        await self._guests.begin()
        await api.begin(self._answers_following())
        await api.follow(replica.leader(), self._answers_following())
        replica.start()
        self._tasks = [
            asyncio.create_task(self._guarded(work))
            for work in (
                self._keep_role,
                self._keep_door,
                self._look_at_cluster,
                self._keep_seen,
            )
        ]
        settled = asyncio.create_task(self._has_settled.wait())
        await asyncio.wait({settled, self._failed}, return_when=asyncio.FIRST_COMPLETED)
        settled.cancel()
        if self.failure is not None:
            raise self.failure
        self._is_ready = True
        await api.ready()

    def _connect(self, loop: asyncio.AbstractEventLoop) -> Replica:
        return Replica(
            self._backend,
            self._address(),
            loop=loop,
            clock=self.clock,
            times=Times(lease=self.settings.cluster.lease / SECOND),
            memory=memory_file(self.settings.store.url, "replica"),
            threads=self._own_threads,
            ids=self._ids,
            publish=self._publish,
            changed=self.watchers.queue,
            role_changed=self._role_changed.set,
            may_call=self._release,
        )

    def _release(self) -> None:
        """Release the calls and answers that waited for other replicas; any thread."""
        self.wake()
        guests = self._leading
        if guests is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(guests.release)

    def _around(self, gate: CallGate = OPEN) -> Around:
        return replace(super()._around(gate), publish=self._publish_of_term)

    def _publish_of_term(self, publication: Publication) -> None:
        self._publish(publication)
        if self._replica is not None:
            self._replica.follower.note(publication)

    def _address(self) -> ReplicaAddress:
        is_socket = bool(socket_path(self.settings.admin.listen))
        return address_of(
            self.settings,
            metadata=self.addresses().get(""),
            admin=None if is_socket else self.admin_address,
        )

    def _answers_following(self) -> Answers:
        nothing = NothingSent()
        return Answers(
            gateway=self._follow_gateway,
            webhooks=nothing,
            checks=nothing,
            cluster=self._cluster(),
            relays=self._relay_news,
            collect=lambda: self.metrics.collect(self._parts()),
            watchers=self.watchers,
            ask_abilities=not_asked,
        )

    def _cluster(self) -> ClusterGateway:
        assert self._replica is not None, "it has been connected"
        return ShownCluster(self._replica.view)

    def _cluster_readings(self) -> Iterable[Reading]:
        assert self._replica is not None, "it has been connected"
        return self._replica.readings(self._following.passed_on)

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` until the service stops; end the service if it fails."""
        try:
            await work()
        except Exception as error:
            if not isinstance(error, ForewarnError):
                logger.exception("this replica ends because of a bug in forewarn")
            super()._fail(error)

    # The role

    async def _keep_role(self) -> None:
        """Lead and follow, as the keeper says, one after the other."""
        assert self._replica is not None, "it has been connected"
        while True:
            await self._role_changed.wait()
            self._role_changed.clear()
            term = self._replica.term
            wanted = None if term is self._lost else term
            if self._deciding is not None and wanted is not self._led:
                await self._step_down()
            if wanted is not None and self._deciding is None:
                await self._take_over(wanted)

    async def _take_over(self, row: LeaseRow) -> None:
        try:
            await self._lead(row)
        except (*NOT_LED, StoppedError) as error:
            if not isinstance(self._reason(error), NOT_LED):
                raise
            self._note_lost(row)
            await self._step_down()

    def _reason(self, error: ForewarnError) -> BaseException | None:
        """Return why `error` was raised: the control thread says why it has ended."""
        if isinstance(error, StoppedError) and self._deciding is not None:
            return self._deciding.runner.failure
        return error

    async def _lead(self, row: LeaseRow) -> None:
        replica, api, loop = self._replica, self._api, asyncio.get_running_loop()
        assert replica is not None, "it has been connected"
        assert api is not None, "it has been opened"
        store = await loop.run_in_executor(self._own_threads, self._backend.lead, row)
        self._store_of_term, self._led = store, row
        own_readings = Readings(store=store, threads=self._own_threads)
        stale = await loop.run_in_executor(self._own_threads, replica.follower.lead)
        if stale is None:
            stale = await own_readings.read(replica.follower.publish_all_of)
        refuse_empty_store(self.settings, store)
        gate = replica.keeper.gate_of(row.term)
        gate.use(lambda: store.number)
        deciding = self._deciding = Deciding(self._around(gate), store)
        await deciding.publish(stale)
        replica.published = row.term
        # The first transaction of the term: it also creates the secret of a new store.
        who = Who(actor=service_part("service"))
        await deciding.gateway.order(who, lambda _work: None)
        secret, has_fleet = await own_readings.read(
            lambda reader: (secret_in(reader), fleet_changes.has_fleet(reader))
        )
        replica.know(secret)
        if not has_fleet:
            await self._apply_at_start(self._fleet)
        elif self._fleet is not None and not self._has_settled.is_set():
            # A takeover must not bring back the fleet of an old file.
            logger.info("the fleet file is not read, because the store has a fleet")
        self._decides = True
        self._leading = LeaderGuests(deciding.guests, gate)
        self.server.attach(self._leading)
        self.endpoint.directory.trust_replicas(replica_key(secret, row.term))
        if secret_files.authenticates(self.settings):
            await deciding.end_unauthenticated()
        await api.follow(None, self._answers(deciding))
        await deciding.resume()
        deciding.repeat_inventory()
        self._has_settled.set()

    async def _step_down(self) -> None:
        """Pass requests on, and end what decides."""
        replica, api, deciding = self._replica, self._api, self._deciding
        assert replica is not None, "it has been connected"
        assert api is not None, "it has been opened"
        self._decides = False
        self.endpoint.directory.trust_replicas(b"")
        self.server.attach(self._following)
        self._told = replica.leader()
        await api.follow(self._told, self._answers_following())
        if self._store_of_term is not None:
            # Otherwise the control thread waits longer than a stop may take.
            self._store_of_term.stop_waiting()
        if deciding is not None and not await deciding.end():
            logger.error("the control thread does not end, so the service does")
            super()._fail(StoreError("the control thread does not end"))
            return
        if self._leading is not None:
            # The keeper still reads the positions of the replicas.
            await self._leading.end()
            self._leading = None
        self._deciding = None
        await self._close_term()
        await asyncio.to_thread(replica.follower.follow)

    async def _close_term(self) -> None:
        store, self._store_of_term = self._store_of_term, None
        if store is not None:
            await asyncio.to_thread(store.close)

    def _fail(self, error: BaseException) -> None:
        """End the term, or the service."""
        if not isinstance(error, TERM_ENDS):
            super()._fail(error)
            return
        assert self._led is not None, "its control thread has failed"
        self._note_lost(self._led)
        self._role_changed.set()

    def _note_lost(self, row: LeaseRow) -> None:
        assert self._replica is not None, "it has been connected"
        # It may lead in a newer term by now.
        self._lost = row
        self._replica.keeper.lost(row.term)

    # Running

    @property
    def failure(self) -> BaseException | None:
        """Return the error that ends this replica, if any: the end of a term does not."""
        error = super().failure
        return (
            error if self._failed.done() or not isinstance(error, TERM_ENDS) else None
        )

    def health(self) -> Health:
        """Return the health of this replica."""
        replica = self._replica
        is_open = self.endpoint.is_open(self.clock.monotonic())
        decides = self._decides and not isinstance(super().failure, TERM_ENDS)
        if decides and replica is not None:
            return _with_lease(
                super().health(), replica.keeper.lease_state, is_open=is_open
            )
        if decides or replica is None:
            return super().health()
        problems: list[str] = []
        if not self._is_ready:
            problems.append("the service is starting or stopping")
        elif replica.refuses:
            problems.append(wording.LOST)
        elif not is_open:
            problems.append("this replica does not follow: its documents may be old")
        problems += self._listener_problems()
        return Health(
            alive=self.failure is None,
            ready=self._is_ready and is_open and self.failure is None,
            problems=tuple(problems),
            role=FOLLOWS,
        )

    async def _keep_door(self) -> None:
        """Let VMs have documents as long as they are complete; this waits for no read."""
        while True:
            self._update_door()
            await asyncio.sleep(limits.REPLICA_LOOK_SECONDS)

    async def _look_at_cluster(self) -> None:
        """Look at the other replicas again and again."""
        assert self._replica is not None, "it has been connected"
        while True:
            with contextlib.suppress(StoreError):
                await self._replica.read_cluster()
            if not self._replica.knows_secret:
                with contextlib.suppress(StoreError):
                    self._replica.know(await self._own_readings.read(secret_in))
            await self._tell_leader()
            await asyncio.sleep(limits.REPLICA_LOOK_SECONDS)

    def _update_door(self) -> None:
        assert self._replica is not None, "it has been connected"
        self.endpoint.open(until=self._replica.answers_until)

    async def _tell_leader(self) -> None:
        """Tell the operator API which replica leads, when that has changed."""
        replica, api = self._replica, self._api
        if replica is None or api is None or self._deciding is not None:
            return
        leader = replica.leader()
        if replica.refuses or (replica.follows_leader and leader.name):
            self._has_settled.set()
        if leader != self._told:
            self._told = leader
            await api.follow(leader, self._answers_following())

    async def _keep_seen(self) -> None:
        """Tell the leader which views are in use here, so that they stay enabled."""
        pause = self.settings.metadata.disable_after / SECOND / limits.SEEN_SHARE
        while True:
            await asyncio.sleep(pause)
            if self._deciding is None:
                await self._following.tell_seen(self._seen_vms())

    def _seen_vms(self) -> list[str]:
        """Return a VM of each view that was asked for here since the last time."""
        times = self.endpoint.take_last_seen(now=self.clock.now())
        vms = {
            caller.guest.view_id: name
            for name, caller in self.endpoint.directory.by_vm.items()
            if caller.guest.view_id in times
        }
        return list(vms.values())

    # Stopping

    async def stop(self) -> None:
        """Hand over if it leads, then stop; can be called at any time and repeatedly."""
        self._is_ready = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._replica is not None:
            if self._deciding is not None:
                await self._step_down()
            # A control thread that does not end may still decide.
            await self._replica.leave(releases=self._deciding is None)
        await super().stop()
        await self._close_term()
        if self._replica is not None:
            self._following.close()
            await self._replica.stop()
        self._own_threads.shutdown(wait=False)


def _with_lease(health: Health, lease_state: LeaseState, *, is_open: bool) -> Health:
    """Return the health of a replica that leads, with the problem of its lease, if any.

    Without a lease it begins no driver calls. It stays ready as long as it may answer from
    its documents.
    """
    if is_open and lease_state.role is not Role.UNSURE:
        return health
    problem = "the database does not answer: this replica cannot renew its lease"
    if not is_open:
        problem = f"{problem}, and its documents may be old"
    ready, problems = health.ready and is_open, (*health.problems, problem)
    return replace(health, ready=ready, problems=problems)
