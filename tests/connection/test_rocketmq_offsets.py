"""Push consumers under cuts and kills: an offset that is stored never goes back, and skips nothing that is not consumed.

`SIMULATE_SEED=7 pytest tests/connection/test_rocketmq_offsets.py` runs other decisions. Time and tasks are those of asyncio, so
a seed gives the same decisions, but not the same run.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from lib.loopback import run, until
from lib.rocketmq_served import Served, served
from wirefmt import rocketmq
from wirefmt.broker.rocketmq import Broker
from wirefmt.broker.shares import Holder
from wirefmt.rocketmq import MessageExt, RemotingCommand
from wirefmt.rocketmq.push_consumer import PushConsumer

SEED = int(os.environ.get("SIMULATE_SEED", "0"))
TOPIC, GROUP = "orders", "G"
Commit = Callable[[str, str, int, int, Holder], bool]
FAST = {"poll_time": 0.2, "store_interval": 0.005, "pause": 0.005, "rebalance_interval": 0.05, "cached": 20, "batch": 7}


class Judge:
    """Sees what the broker stores, and knows what the listeners have said.

    A pull that the broker refuses stores nothing, whatever its header says.

    Attributes:
        wrong: what should not have been stored.
    """

    def __init__(self, place: Served) -> None:
        self.consumed: set[tuple[str, int, int]] = set()
        self.wrong: list[str] = []
        self.broker = place.broker
        place.broker._offsets.commit = self.watch(place.broker._offsets.commit)  # type: ignore[method-assign, assignment]
        codes = place.broker._codes
        send_back: Any = codes[36]

        def sent_back(peer: Any, event: RemotingCommand) -> Any:
            answer = send_back(peer, event)
            if answer.code == 0:
                offset = event.decode_header(rocketmq.ConsumerSendMsgBackRequestHeader).offset
                self.consumed.add(self.broker._log.places[offset])  # its place in the retry topic is another one
            return answer

        codes[36] = sent_back

    def watch(self, commit: Commit) -> Commit:
        def watched(group: str, topic: str, queue_id: int, offset: int, holder: Holder) -> bool:
            before = self.broker.offsets.get((group, topic, queue_id), 0)
            if offset < before:
                self.wrong.append(f"{topic} {queue_id}: {offset} goes back from {before}")
            missing = [n for n in range(offset) if (topic, queue_id, n) not in self.consumed]
            if missing:
                self.wrong.append(f"{topic} {queue_id}: {offset} skips {missing}, which are not consumed")
            return commit(group, topic, queue_id, offset, holder)

        return watched


async def at_the_end(consumer: PushConsumer, broker: Broker) -> None:
    """Wait until the consumer has consumed all that it was given, up to the end of each queue."""
    ends = {n: queue.end for n, queue in enumerate(broker.topics[TOPIC])}
    await until(lambda: {q.queue_id: w.committed for q, w in consumer._works.items() if q.topic == TOPIC} == ends)


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_offsets_never_go_back_and_skip_nothing(seed: int, orderly: bool) -> None:
    random_ = random.Random(f"{SEED} {seed} {orderly}")

    async def main() -> None:
        async with served() as place:
            judge = Judge(place)
            bodies: set[bytes] = set()
            calm = False

            async def listen(message: MessageExt) -> bool:
                for _ in range(random_.randrange(4)):
                    await asyncio.sleep(0)
                if not calm and random_.random() < 0.1:
                    return False
                retried = message.reconsume_times > 0 and not orderly
                topic = f"%RETRY%{GROUP}" if retried else TOPIC
                judge.consumed.add((topic, 0 if retried else message.queue_id, message.queue_offset))
                bodies.add(bytes(message.body or b""))
                return True

            async with rocketmq.connect(place.address) as sender:
                producer = sender.producer("P")
                for n in range(100):
                    await producer.send(TOPIC, b"%d" % n)
                for life in range(5):
                    calm = life == 4
                    client = rocketmq.connect(place.address, client_id="member")
                    client.open()
                    consumer = client.push_consumer(GROUP, {TOPIC: "*"}, listen, begin="first", orderly=orderly, **FAST)
                    await consumer.start()
                    if calm:
                        await until(lambda: len(bodies) == 100)
                        await at_the_end(consumer, place.broker)  # a life before it may have consumed them all
                        await consumer.close()
                        await client.close()
                        break
                    for _ in range(random_.randrange(3)):
                        await asyncio.sleep(random_.random() * 0.05)
                        for driver in list(place.server.drivers):
                            if random_.random() < 0.6:
                                driver.abort()
                    await asyncio.sleep(random_.random() * 0.1)
                    for task in list(client._tasks):  # it dies: nothing is stored, nobody takes leave
                        task.cancel()
                    await asyncio.gather(*client._tasks, return_exceptions=True)
                    for remote in client._remotes.values():
                        for link in list(remote._links):
                            link.driver.abort()
                            await link.driver.wait_closed()
                    await until(lambda: not place.broker.consumers.get(GROUP))
            assert judge.wrong == []
            # all that was stored at the end is consumed, by the message or by one sent back
            for n, queue in enumerate(place.broker.topics[TOPIC]):
                assert place.broker.offsets.get((GROUP, TOPIC, n), 0) == queue.end

    run(main())
