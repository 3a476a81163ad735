"""One schedule: daemons, what happens to them, and how it all comes to rest."""

import random
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

from tests.simulation import plan
from tests.simulation.daemon import Daemon
from tests.simulation.kafka import Kafka, Source
from tests.simulation.loop import VirtualLoop
from tests.simulation.plan import Ask, Blow, Happening, Publish
from tests.simulation.quiescence import RENEWAL, come_to_rest, left_open
from tests.simulation.replaced import Present
from tests.simulation.scheduler import Scheduler
from tests.simulation.server import Server
from tests.simulation.session import POSTGRES, UNANSWERED, Statement
from tests.simulation.spark import Application, Cluster, is_submit
from tests.simulation.step import Step
from tests.simulation.user import User
from tests.storms.limits.faults import LINGER_S
from tidegate.daemon.intake import ingest
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.work import Work
from tidegate.events import cloudevents
from tidegate.events.sink import ProducerRecord
from tidegate.schemas.queries import sources
from tidegate.schemas.queries.memory import Memory
from tidegate.schemas.wire.event import DatasetUpdated, Kind, encode

RARER = 6
"""How much more often commits go wrong than statements, which are many."""

LOOKING = 100
"""The most steps until a moment at which it matters that a daemon is frozen."""

MOST_STEPS = 5000

SETTLING = 2
"""The renewals of leases until all daemons have as many as they should."""

LATE = 0.02
"""The share of turns in which a request arrives that stalled; the others arrive when all is at rest."""

OUTLIVING = 3
"""Renewals of leases until another daemon has found that a frozen one did not submit its claim."""

SPECS_WANTED = ("sources.contexts", "sources.files")
"""Asked for between a claim and its submit."""

EVENTS_WANTED = ("sources.event_sizes", "sources.events")
"""Asked for there last, where the events of a run are read apart."""

CHANGES_OF_LEASES = ("leases.release", "leases.claim")
"""Asked for when a renewal has told what the share of a daemon is."""

HEARTBEAT = "insert job"
"""A renewal."""

LEFT_BEHIND = """
    SELECT kind || ' ' || key FROM lease WHERE owner = $1
    UNION ALL SELECT 'its place among those that live' FROM job WHERE id = $1
"""


class World:
    """All of it is drawn from the seed."""

    def __init__(self, loop: VirtualLoop, server: Server, memory: Memory, seed: int, groups: Collection[str]) -> None:
        self.loop = loop
        self.server = server
        self.memory = memory
        self.seed = seed
        self.chance = Random(seed)
        random.seed(seed)  # the product's own back-off
        self.plan: plan.Plan = plan.draw(self.chance, groups, seed)
        self.scheduler = Scheduler(loop, server, self.chance)
        self.kafka = Kafka(self)
        self.cluster = Cluster(self)
        self.daemons: list[Daemon] = []
        self.frozen: set[int] = set()
        self.parted: set[tuple[int, str]] = set()
        self.late: list[TimerHandle] = []
        self.reached = self.scheduler.reached
        self.left: Sequence[str] = ()
        self.left_behind: list[str] = []
        self.at_rest = False
        self.open_at: tuple[object, Sequence[str]] | None = None
        self.taken: Counter[str] = Counter()
        self.backfill_runs: Counter[int] = Counter()
        self.looked_at = 0
        self.user = User(self)
        Source.daemons = {}
        Present.world = self

    async def play(self) -> None:
        """From the beginning to rest."""
        self.loop.begin()
        await self.server.begin(self.plan.slots)
        ingest.BACKLOG, sources.MAX_EVENTS = self.plan.backlog, self.plan.most_events
        for _ in range(self.plan.daemons):
            self.start()
        await self.scheduler.settle()
        if self.plan.settled:
            await self.find_places()
        todo = list(self.plan.happenings)
        pace = 1.4 * len(todo) / self.plan.steps
        while self.scheduler.steps < self.plan.steps and not self.at_rest:
            await self.turn(todo, pace)
        for happening in todo:
            if isinstance(happening, Publish | Ask):
                await self.happen(happening)
        self.left = await come_to_rest(self)
        while self.kafka.stalled:
            self.kafka.deliver_stalled()
        await self.end()

    async def find_places(self) -> None:
        """Each daemon has its share of the leases, and has looked at all there is to do."""
        for _ in range(SETTLING):
            await self.run_those(lambda _: True)
            await self.scheduler.pass_time(RENEWAL * self.plan.ttl_s)
        self.scheduler.steps = 0

    def start(self) -> None:
        daemon = Daemon(self, len(self.daemons) + 1)
        self.daemons.append(daemon)
        Source.daemons[daemon.address] = daemon
        daemon.start()

    @property
    def alive(self) -> list[Daemon]:
        return [daemon for daemon in self.daemons if not daemon.dead]

    def ring(self, database: Database, work: Work) -> None:
        for daemon in self.alive:
            is_within_reach = (daemon.number, POSTGRES) not in self.parted
            if daemon.context.database is not database and is_within_reach and self.chance.random() < 0.5:
                daemon.context.signals.set_local(work)

    async def turn(self, todo: list[Happening], pace: float) -> None:
        """One thing of all that may happen now."""
        able = [step for step in self.scheduler.parked if step.place.daemon not in self.frozen]
        if todo and self.chance.random() < (pace if able else 0.5):
            await self.happen(happening := todo.pop(0))
            while self.plan.at_once and isinstance(happening, Publish) and todo and isinstance(todo[0], Publish):
                await self.happen(todo.pop(0))
        elif (ending := self.cluster.ending) and self.chance.random() < (0.05 if able else 0.5):
            await self.end_application(ending)
        elif self.kafka.stalled and self.chance.random() < LATE:
            self.kafka.deliver_stalled()
            await self.scheduler.settle()
        elif able and self.chance.random() > 0.03:
            await self.step(self.scheduler.choose(able, self.plan.stickiness))
        else:
            self.at_rest = not (able or todo or self.cluster.running or await self.have_more_to_do())
            await self.let_time_pass(self.chance.choice([0.0, 0.03, 0.3]))

    async def have_more_to_do(self) -> bool:
        """The daemons that have not ended by themselves."""
        return not all(daemon.ended for daemon in self.daemons) and bool(await left_open(self))

    async def step(self, step: Step) -> None:
        trouble = ""
        if step.troubles and self.chance.random() < self.share_of_trouble(step):
            trouble = self.chance.choice(list(step.troubles))
            self.reached[trouble] += 1
        await self.take(step, trouble)

    async def take(self, step: Step, trouble: str = "") -> None:
        """What is asked of a server that its daemon is parted from does not get there."""
        if (step.place.daemon, step.server) in self.parted:
            trouble = step.troubles[0]
        await self.scheduler.take(step, trouble)

    def share_of_trouble(self, step: Step) -> float:
        if not isinstance(step, Statement):
            return self.plan.call_trouble
        return self.plan.trouble * (RARER if UNANSWERED in step.troubles else 1)

    async def let_time_pass(self, more: float) -> None:
        until = self.loop.next_timer()
        await self.scheduler.pass_time((until - self.loop.time() if until is not None else 0.1) + more)

    async def happen(self, happening: Happening) -> None:
        match happening:
            case Publish(uri, id_):
                self.publish(uri, id_)
            case Ask(request):
                self.user.ask(request)
            case _:
                await self.strike(happening)
        await self.scheduler.settle()

    async def strike(self, blow: Blow) -> None:
        """A run at work, or a daemon; or all daemons that were struck so far are well again."""
        match blow:
            case Blow.CANCEL:
                await self.user.cancel()
            case Blow.CRASH:
                await self.crash(self.chance.choice(self.alive))
                self.start()
            case Blow.STOP:
                await self.stop(await self.one_to_stop())
                self.start()
            case Blow.FREEZE:
                await self.freeze(await self.one_at_stake(self.is_at_stake))
            case Blow.THAW:
                self.thaw()
            case Blow.PART:
                self.part(await self.one_at_stake(self.is_at_stake))
            case Blow.HEAL:
                self.heal()

    def publish(self, uri: str, id_: str) -> None:
        self.scheduler.tell(f"producer: {uri} {id_}")
        headers = cloudevents.headers(Kind.DATASET_UPDATED, event_id=id_, source="producer", time=self.server.now)
        key, update = f"{uri}{self.chance.randint(0, 1)}".encode(), DatasetUpdated(uri=uri, extra={"event": id_})
        self.kafka.append(ProducerRecord(f"tidegate.{Kind.DATASET_UPDATED}", key, encode(update), headers))

    async def crash(self, daemon: Daemon) -> None:
        self.reached["crash"] += 1
        self.scheduler.tell(f"d{daemon.number} is killed")
        daemon.kill()
        await self.scheduler.settle()

    async def stop(self, daemon: Daemon) -> None:
        self.reached["stop"] += 1
        self.scheduler.tell(f"d{daemon.number} is told to stop")
        self.frozen.discard(daemon.number)
        self.parted.discard((daemon.number, self.plan.away))
        daemon.stop()
        await self.scheduler.settle()
        for _ in range(MOST_STEPS):
            if daemon.ended:
                break
            mine = [step for step in self.scheduler.parked if step.place.daemon == daemon.number]
            await self.step_or_wait(mine)
        daemon.dead = True
        kept = await self.server.ask(LEFT_BEHIND, daemon.context.held_leases.job.id)
        self.left_behind += [f"d{daemon.number} stopped and keeps {row[0]}" for row in kept]

    async def step_or_wait(self, steps: Sequence[Step]) -> None:
        """One of these, in any order; others where these wait for them; or time."""
        able = steps or [step for step in self.scheduler.parked if step.place.daemon not in self.frozen]
        if able:
            await self.take(self.scheduler.choose(able, self.plan.stickiness))
        else:
            await self.let_time_pass(0.0)

    async def one_to_stop(self) -> Daemon:
        """Where leases are at stake, preferably one of which a duty renews them while it leaves."""
        is_about_leases = self.plan.at_stake == plan.LEASES
        return await self.one_at_stake(renews_by_the_way) if is_about_leases else self.chance.choice(self.alive)

    async def one_at_stake(self, is_at_stake: Callable[[Step], bool]) -> Daemon:
        """Preferably one that has begun something, and not got to where that counts."""
        for _ in range(LOOKING):
            steps = [step for step in self.scheduler.parked if is_at_stake(step)]
            if busy := [daemon for daemon in self.alive if any(step.place.daemon == daemon.number for step in steps)]:
                return self.chance.choice(busy)
            await self.turn([], 0.0)
        return self.chance.choice(self.alive)

    def is_at_stake(self, step: Step) -> bool:
        match self.plan.at_stake:
            case plan.CLAIMS:
                wanted = SPECS_WANTED if self.plan.most_events else EVENTS_WANTED
                return step.place.duty == "dispatch" and step.what in wanted
            case plan.SENDS:
                return step.place.duty == "relay" and step.what.startswith(("connect", "send"))
            case plan.LEASES:
                return step.what in CHANGES_OF_LEASES
            case _:
                return self.scheduler.before.get(step.place) == "fetch"

    async def freeze(self, daemon: Daemon) -> None:
        """For longer than its leases last; the others renew theirs."""
        self.reached["freeze"] += 1
        self.scheduler.tell(f"d{daemon.number} is frozen")
        for step in [step for step in self.scheduler.parked if step.place.daemon == daemon.number and is_submit(step)]:
            await self.take(step)
        self.frozen.add(daemon.number)
        for _ in range(3):
            await self.run_those(lambda step: step.binding or step.place.duty == "leases")
            await self.scheduler.pass_time(RENEWAL * self.plan.ttl_s)
        await self.run_those(lambda step: step.place.duty == "leases")
        if self.plan.frozen == plan.OUTLIVED:
            await self.outlive()
        if self.plan.frozen != plan.LONG:
            self.thaw()

    def thaw(self) -> None:
        self.scheduler.tell("all go on")
        self.frozen.clear()

    def part(self, daemon: Daemon) -> None:
        """From one server, for all others may reach it."""
        self.reached["part"] += 1
        self.scheduler.tell(f"d{daemon.number} is parted from {self.plan.away}")
        self.parted.add((daemon.number, self.plan.away))

    def heal(self) -> None:
        self.scheduler.tell("all reach all again")
        self.parted.clear()

    async def outlive(self) -> None:
        """The others take over what it had, and do all of it that does not need it. They renew first, or would be stale."""
        for _ in range(OUTLIVING):
            await self.run_those(lambda step: step.place.duty == "leases")
            await self.run_those(lambda _: True)
            await self.scheduler.pass_time(RENEWAL * self.plan.ttl_s)

    async def run_those(self, which: Any) -> None:
        """Until none of these steps is left, in the order in which they came."""
        for _ in range(MOST_STEPS):
            able = [step for step in self.scheduler.parked if step.place.daemon not in self.frozen and which(step)]
            if not able:
                return
            await self.take(able[0])

    async def end_application(self, among: Sequence[Application]) -> None:
        application = self.chance.choice(among)
        told = self.chance.choice([0, 1, 1, 1, 2])
        self.scheduler.tell(f"cluster: {application.name} {application.outcome}, told {told} times")
        self.cluster.end(application, told)
        await self.scheduler.settle()

    async def end(self) -> None:
        for daemon in self.alive:
            daemon.kill()
        self.user.leave()
        await self.scheduler.settle()
        for handle in self.late:
            handle.cancel()
        if not all(daemon.ended for daemon in self.daemons):  # a seeded fault may have one linger where nothing else would
            await self.scheduler.pass_time(LINGER_S)
        assert all(daemon.ended for daemon in self.daemons), "a daemon survived its death"


def renews_by_the_way(step: Step) -> bool:
    """Whether another duty than that of the leases renews them: after a failure, to read where it stands."""
    return step.what == HEARTBEAT and step.place.duty != "leases"
