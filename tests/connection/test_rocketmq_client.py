"""The asyncio client against the broker in memory: every kind of producer and consumer, and what may go wrong."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from lib.rocketmq_served import served, watched
from wirefmt import rocketmq
from wirefmt.connection import Acknowledged
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused
from wirefmt.rocketmq import (
    GetConsumerStatusRequestHeader,
    Message,
    MessageExt,
    Queue,
    RemotingCommand,
    ResetOffsetRequestHeader,
)
from wirefmt.rocketmq.asked import reset_offsets
from wirefmt.rocketmq.subscriptions import allocate, tags_of

T = "orders"
WRONG = rocketmq.GetBrokerConfigResponseHeader(version="1")  # of no request that the broker knows
FAST = {"poll_time": 0.2, "store_interval": 0.02, "pause": 0.01, "lock_interval": 0.1}


def bodies(messages: list[MessageExt]) -> list[bytes]:
    return [bytes(m.body or b"") for m in messages]


# ---- what needs no connection


def test_allocation_is_that_of_the_real_client() -> None:
    """AllocateMessageQueueAveragely of the Java client, on the examples of its own test: 6 queues."""
    queues = [Queue(T, "b", n) for n in range(6)]
    shares = {
        n: [[q.queue_id for q in allocate(queues, [f"c{k}" for k in range(n)], f"c{k}")] for k in range(n)]
        for n in (1, 2, 4, 7)
    }
    assert shares[1] == [[0, 1, 2, 3, 4, 5]]
    assert shares[2] == [[0, 1, 2], [3, 4, 5]]
    assert shares[4] == [[0, 1], [2, 3], [4], [5]]
    assert shares[7] == [[0], [1], [2], [3], [4], [5], []]
    assert allocate(queues, ["other"], "me") == []


def test_tags() -> None:
    assert tags_of("*") == tags_of("") == ()
    assert tags_of("a || b||c") == ("a", "b", "c")


def test_offsets_of_a_reset() -> None:
    """A map whose names are objects, as fastjson writes it, and the list for clients in C."""
    body = (
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:12,{"topic":"t","brokerName":"b","queueId":2}:0}}'
    )
    assert reset_offsets(body) == {Queue("t", "b", 1): 12, Queue("t", "b", 2): 0}
    body = b'{"offsetTable":[{"brokerName":"b","offset":5,"queueId":1,"topic":"t"}]}'
    assert reset_offsets(body) == {Queue("t", "b", 1): 5}
    for nothing in (b"", b"{}", b"[1]", b'{"offsetTable":7}', b"{{}:1}", b'{"offsetTable":{{"queueId":{}}:1}}'):
        assert reset_offsets(nothing) == {}


def test_names_are_checked() -> None:
    for wrong in (
        "",
        "host",
        (),
        "rocketmq://",
        "rocketmq://host",
        "rocketmq://a:1;rocketmq://b:1",
        "rocketmq://a:1/topic",
    ):
        with pytest.raises(ValueError, match="host:port"):
            rocketmq.connect(wrong)
    with pytest.raises(ValueError, match=r"the scheme of 'http:' is not one of rocketmq, rocketmqs"):
        rocketmq.connect("http://host:9876")
    for right in ("a:1;b:2", ("a:1", "b:2"), "rocketmq://a:1;b:2", "rocketmqs://alice:se%2Fcret@a:1;b:2/"):
        assert rocketmq.connect(right).names == ("a:1", "b:2")
    with pytest.raises(ValueError, match="tls"):
        asyncio.run(rocketmq.serve(None, options=rocketmq.ConnectionOptions(tls="permissive")))  # type: ignore[arg-type]


# ---- producers and the push consumer


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_all_ways_to_send(form: Any) -> None:
    async def main() -> None:
        async with (
            served() as (broker, _, address),
            rocketmq.connect(address, options=rocketmq.ConnectionOptions(serialize_type=form)) as client,
        ):
            producer = client.producer("P")
            sent = await producer.send(T, b"first", tags="A", keys=["k1", "k2"], properties={"colour": "blü"}, flag=7)
            assert (sent.status, sent.queue_offset, sent.queue.topic) == ("SEND_OK", 0, T)
            await producer.send_oneway(T, b"oneway")
            batch = await producer.send_batch(T, [Message(body=b"b%d" % n) for n in range(3)])
            assert len(batch.message_id.split(",")) == 3
            await producer.send(T, b"x" * 5000)
            await producer.send(T, b"later", delay_level=2)
            for n in range(4):
                await producer.send(T, b"o%d" % n, queue=lambda queues: queues[2])
            got: list[MessageExt] = []
            async with client.push_consumer("G", {T: "*"}, got.append, begin="first", **FAST):
                await until(lambda: len(got) >= 11)
            assert sorted(bodies(got)) == sorted([b"first", b"oneway", b"b0", b"b1", b"b2", b"x" * 5000, b"later",
                                                  b"o0", b"o1", b"o2", b"o3"])  # fmt: skip
            first = next(m for m in got if m.body == b"first")
            assert first.properties is not None
            assert first.properties["UNIQ_KEY"] == sent.message_id
            assert first.properties["colour"] == "blü"
            assert (first.tags, first.keys, first.flag, first.offset_msg_id) == (
                "A",
                "k1 k2",
                7,
                sent.offset_message_id,
            )
            # offsets are stored behind all that was consumed
            stored = {n: broker.offsets.get(("G", T, n), 0) for n in range(4)}
            assert stored == {n: q.end for n, q in enumerate(broker.topics[T])}
            for wrong in ({"": "x"}, {"a": ""}, {"a\x01": "x"}, {"a": "\x02"}):
                with pytest.raises(LocalProtocolError):
                    await producer.send(T, b"", properties=wrong)
            with pytest.raises(ValueError, match="message"):
                await producer.send_batch(T, [])
            with pytest.raises(ValueError, match="delay"):
                await producer.send_batch(T, [Message(body=b"", properties={"DELAY": "1"})])
            with pytest.raises(Refused) as refused:
                await producer.send("no good", b"")
            assert refused.value.code == 1

    run(main())


def test_transactions() -> None:
    """Committed at once, rolled back, decided by a check, given up by a check, and one whose host raises."""

    async def main() -> None:
        asked: list[bytes] = []

        async def decide(half: MessageExt) -> Any:
            asked.append(bytes(half.body or b""))
            return {b"checked": "commit", b"raised": "rollback"}[bytes(half.body or b"")]

        def fail(_: str) -> Any:
            raise RuntimeError("the host")

        async with served(check_after=3600.0) as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P", check=decide)
            got: list[MessageExt] = []
            sent = await producer.send_transaction(T, b"committed", lambda number: "commit")
            assert sent.transaction_id == sent.message_id
            await producer.send_transaction(T, b"rolled back", lambda number: "rollback")
            await until(
                lambda: not broker._transactions.halves
            )  # decisions have no answer: a broker that waits less may ask before
            broker.options = replace(broker.options, check_after=0.02)
            await producer.send_transaction(T, b"checked", lambda number: "unknown")
            with pytest.raises(RuntimeError):
                await producer.send_transaction(T, b"raised", fail)
            async with client.push_consumer("G", {T: "*"}, got.append, begin="first", **FAST):
                await until(lambda: len(got) >= 2 and not broker._transactions.halves)
            assert sorted(bodies(got)) == [b"checked", b"committed"]
            assert set(asked) == {b"checked", b"raised"}
            assert {m.sys_flag & 0xC for m in got} == {8}

    run(main())


def test_a_broker_hears_of_our_groups_before_anything_else_on_a_new_connection() -> None:
    calm: Any = {"route_interval": 3600.0, "heartbeat_interval": 3600.0}

    async def main() -> None:
        async with served() as (broker, server, address), rocketmq.connect(address, **calm) as client:
            await client.producer("P").send(T, b"x")
            (queue, *_) = await client.pull_consumer("G").queues(T)
            await client.pull_consumer("G").min_offset(queue)
            for driver in list(server.drivers):
                driver.abort()
            await until(lambda: not client.remote(address)._links)
            codes: list[int] = []
            serve = broker._serve

            def served_(peer: Any, event: Any) -> None:
                codes.append(event.code)
                serve(peer, event)

            broker._serve = served_  # type: ignore[method-assign]
            await client.pull_consumer("G").min_offset(queue)
            assert codes == [34, 31]  # HEART_BEAT, GET_MIN_OFFSET

    run(main())


def test_an_offset_is_stored_though_it_was_reached_while_a_pull_was_under_way() -> None:
    """The pull said an older one. Its response does not mean that the broker has the new one."""

    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            (queue,) = list(broker.topic(T, 1) or ())
            producer = client.producer("P")
            got: list[bytes] = []
            first, rest = asyncio.Event(), asyncio.Event()

            async def listen(message: MessageExt) -> None:
                got.append(bytes(message.body or b""))
                await (first if message.body == b"0" else rest).wait()

            consumer = client.push_consumer(
                "G", {T: "*"}, listen, begin="first", cached=2, poll_time=60.0, store_interval=3600.0
            )
            async with consumer:
                await producer.send(T, b"0")
                await until(lambda: got and T in broker._waits.waiting)
                first.set()
                await until(lambda: [w.committed for q, w in consumer._works.items() if q.topic == T] == [1])
                waiting = broker._waits.waiting.pop(
                    T
                )  # the next two come with one response, and then there is no space
                await producer.send(T, b"1")
                await producer.send(T, b"2")
                broker._waits.waiting[T] = waiting
                broker._waits.wake(T, 0)
                await until(lambda: len(got) == 3)
            assert queue.end == 3
            assert broker.offsets["G", T, 0] == 1

    run(main())


def test_what_a_listener_refuses_comes_again_and_then_goes_to_the_dead_letters() -> None:
    async def main() -> None:
        seen: list[tuple[str, bytes, int]] = []

        def listen(message: MessageExt) -> bool:
            seen.append((message.topic, bytes(message.body or b""), message.reconsume_times))
            return message.body != b"bad" and not (message.body == b"once" and message.reconsume_times == 0)

        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P")
            for body in (b"good", b"once", b"bad"):
                await producer.send(T, body)
            consumer = client.push_consumer(
                "G", {T: "*"}, listen, begin="first", most_attempts=2, rebalance_interval=0.1, **FAST
            )
            async with consumer:
                await until(lambda: "%DLQ%G" in broker.topics and broker.topics["%DLQ%G"][0].end)
                await until(lambda: (T, b"once", 1) in seen)
            assert [s for s in seen if s[1] == b"bad"] == [(T, b"bad", 0), (T, b"bad", 1), (T, b"bad", 2)]
            assert [s for s in seen if s[1] == b"good"] == [(T, b"good", 0)]
            (dead,) = rocketmq.decode_messages(broker.topics["%DLQ%G"][0].messages[0].frame)
            assert dead.body == b"bad"
            assert consumer.failed == 4

    run(main())


def test_orderly_consumers_keep_the_order_and_try_in_place() -> None:
    async def main() -> None:
        got: list[tuple[int, int]] = []
        failed: list[MessageExt] = []

        async def listen(message: MessageExt) -> bool:
            await asyncio.sleep(0)
            if message.queue_offset == 2 and len(failed) < 3:
                failed.append(message)
                return False
            got.append((message.queue_id, message.queue_offset))
            return True

        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P")
            for n in range(40):
                await producer.send(T, b"%d" % n, queue=lambda queues, n=n: queues[n % 4])  # type: ignore[misc]
            async with client.push_consumer("G", {T: "*"}, listen, begin="first", orderly=True, **FAST):
                await until(lambda: len(got) >= 40)
                assert {owner for owner, *_ in broker._locks.locks.values()} == {client.client_id}
            assert broker._locks.locks == {}
            for queue in range(4):
                assert [offset for q, offset in got if q == queue] == list(range(10))
            assert len(failed) == 3

    run(main())


def test_an_orderly_consumer_gives_up_after_as_many_retries_as_another_one() -> None:
    """Three deliveries with two retries; then the message is a dead letter, and the next one of its queue follows."""

    async def main() -> None:
        seen: list[bytes] = []

        def listen(message: MessageExt) -> bool:
            seen.append(bytes(message.body or b""))
            return message.body != b"bad"

        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            for body in (b"bad", b"good"):
                await client.producer("P").send(T, body, queue=Queue(T, "broker-a", 0))
            async with client.push_consumer(
                "G", {T: "*"}, listen, begin="first", orderly=True, most_attempts=2, **FAST
            ):
                await until(lambda: b"good" in seen)
            assert seen == [b"bad", b"bad", b"bad", b"good"]
            assert [q.end for q in broker.topics["%DLQ%G"]] == [1]

    run(main())


def test_members_of_a_group_share_the_queues() -> None:
    """One joins: no queue has two members, in the end all are consumed. One leaves: the other has them all."""

    async def main() -> None:
        got: list[bytes] = []
        async with served() as (broker, _, address):
            async with rocketmq.connect(address) as one, rocketmq.connect(address) as two:
                producer = one.producer("P")
                await producer.send(T, b"0")

                def listen(message: MessageExt) -> None:
                    got.append(bytes(message.body or b""))

                first = one.push_consumer("G", {T: "*"}, listen, begin="first", **FAST)
                second = two.push_consumer("G", {T: "*"}, listen, begin="first", **FAST)

                def share(consumer: rocketmq.PushConsumer) -> set[int]:
                    return {q.queue_id for q in consumer.assigned if q.topic == T}

                async with first:
                    await until(lambda: share(first) == {0, 1, 2, 3})
                    async with second:
                        await until(lambda: len(share(first)) == len(share(second)) == 2)
                        assert share(first) | share(second) == {0, 1, 2, 3}
                        for n in range(1, 30):
                            await producer.send(T, b"%d" % n)
                        await until(lambda: len(set(got)) == 30)
                    await until(lambda: share(first) == {0, 1, 2, 3})
                with pytest.raises(LocalProtocolError):
                    async with two.push_consumer("H", {T: "*"}, listen, **FAST):
                        await two.push_consumer("H", {T: "*"}, listen, **FAST).start()
            await until(lambda: not any(broker.consumers.values()))

    run(main())


def test_broadcasting_and_tags() -> None:
    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P")
            for n in range(9):
                await producer.send(T, b"%d" % n, tags="abc"[n % 3])
            got: list[MessageExt] = []
            offsets: dict[Queue, int] = {}

            def listen(message: MessageExt) -> bool:
                got.append(message)
                return False

            for _ in range(2):  # the second begins where the first has ended
                consumer = client.push_consumer(
                    "G", {T: "a || b"}, listen, begin="first", model="broadcasting", offsets=offsets, **FAST
                )

                def done(consumer: rocketmq.PushConsumer = consumer) -> bool:
                    works = consumer._works.values()
                    return sum(w.next for w in works) == 9 and len(got) >= 6 and all(not w.open for w in works)

                async with consumer:
                    await until(done)
            assert sorted(bodies(got)) == [b"0", b"1", b"3", b"4", b"6", b"7"]
            assert not broker.offsets
            assert "%RETRY%G" not in broker.topics

    run(main())


def test_the_broker_resets_offsets_and_asks_for_them() -> None:
    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P")
            for n in range(5):
                await producer.send(T, b"%d" % n, queue=Queue(T, "broker-a", 1))
            got: list[MessageExt] = []
            async with client.push_consumer("G", {T: "*"}, got.append, begin="first", **FAST):
                await until(lambda: len(got) == 5)
                (member,) = broker.consumers["G"].values()
                body = b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"orders"}:3}}'
                outcomes = watched(broker)
                member.peer.request(
                    220, ResetOffsetRequestHeader(topic=T, group="G", timestamp=0, is_force=True), body, oneway=True
                )
                for group in ("G", "other"):
                    member.peer.request(221, GetConsumerStatusRequestHeader(topic=T, group=group))
                member.peer.request(9999)
                await until(lambda: len([o for o in outcomes if isinstance(o, Acknowledged)]) == 3)
                answers = {o.handle.number: o.message for o in outcomes if isinstance(o, Acknowledged)}
                first, second, third = (answers[n] for n in sorted(answers))
                assert b'{"brokerName":"broker-a","queueId":1,"topic":"orders"}:3' in bytes(first.body)
                assert (second.code, third.code) == (206, 3)
                assert client.ignored == 1
                await until(lambda: len(got) == 7)
            assert [m.queue_offset for m in got] == [0, 1, 2, 3, 4, 3, 4]

    run(main())


# ---- pull and pop


def test_the_pull_consumer() -> None:
    async def main() -> None:
        async with served(queue_messages=6) as (_, _, address), rocketmq.connect(address) as client:
            producer, consumer = client.producer("P"), client.pull_consumer("G")
            with pytest.raises(Refused) as refused:
                await consumer.queues(T)
            assert refused.value.code == 17
            for n in range(8):
                await producer.send(T, b"%d" % n, tags="ab"[n % 2], queue=Queue(T, "broker-a", 0))
            queue, other, *_ = await consumer.queues(T)
            assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (2, 8)
            assert await consumer.search(queue, 0.0) == 2
            result = await consumer.pull(queue, 0)
            assert (result.status, result.next_offset) == ("OFFSET_ILLEGAL", 2)
            result = await consumer.pull(queue, 2, 3)
            assert (result.status, bodies(list(result.messages)), result.next_offset) == (
                "FOUND",
                [b"2", b"3", b"4"],
                5,
            )
            result = await consumer.pull(queue, 2, expression="b", commit=4)
            assert bodies(list(result.messages)) == [b"3", b"5", b"7"]
            assert await consumer.offset(queue) == 4
            assert (await consumer.pull(queue, 2, expression="none")).status == "NO_MATCHED_MSG"
            assert (await consumer.pull(queue, 8)).status == "NO_NEW_MSG"
            assert (await consumer.pull(other, 0, wait=0.01)).status == "NO_NEW_MSG"
            waiting = asyncio.ensure_future(consumer.pull(other, 0, wait=30.0))
            await asyncio.sleep(0.01)
            await producer.send(T, b"late", queue=other)
            assert bodies(list((await waiting).messages)) == [b"late"]
            assert await consumer.offset(other) is None
            await consumer.commit(other, 1)
            assert await consumer.offset(other) == 1

    run(main())


def test_the_pop_consumer() -> None:
    async def main() -> None:
        async with served() as (_, _, address), rocketmq.connect(address) as client:
            producer, consumer = client.producer("P"), client.pop_consumer("G")
            for n in range(3):
                await producer.send(T, b"%d" % n)
            popped = await consumer.pop(T, invisible=30.0)
            assert sorted(bodies([p.message for p in popped])) == [b"0", b"1", b"2"]
            await consumer.ack(popped[0])
            with pytest.raises(Refused):
                await consumer.ack(popped[0])
            again = await consumer.change_invisible(popped[1], 0.01)
            with pytest.raises(Refused):
                await consumer.ack(popped[1])
            (second,) = await consumer.pop(T, wait=20.0)
            assert second.message.body == popped[1].message.body
            assert second.message.reconsume_times == 1
            with pytest.raises(Refused):
                await consumer.ack(again)
            await consumer.ack(second)
            await consumer.ack(popped[2])
            assert await consumer.pop(T, wait=0.01) == []

    run(main())


# ---- what may go wrong


def test_name_servers_and_brokers_that_are_gone() -> None:
    """Another name server answers; another broker takes the message; a broker that comes back is found again."""

    async def main() -> None:
        async with served() as (names, _, address):
            dead = f"{HOST}:1"
            async with rocketmq.connect([dead, address], timeout=2.0) as client:
                producer = client.producer("P")
                assert (await producer.send(T, b"1")).status == "SEND_OK"
                route: Any = names._names.route

                def two_brokers(peer: Any, event: RemotingCommand) -> Any:
                    answer = route(peer, event)
                    data = rocketmq.TopicRouteData.decode(answer.body)
                    assert data.queue_datas
                    assert data.broker_datas
                    queue = data.queue_datas[0]
                    gone = rocketmq.QueueData(
                        broker_name="gone", read_queue_nums=4, write_queue_nums=4, perm=6, topic_sys_flag=0
                    )
                    both = rocketmq.TopicRouteData(
                        broker_datas=[
                            *data.broker_datas,
                            rocketmq.BrokerData(cluster="c", broker_name="gone", broker_addrs={0: dead}),
                        ],
                        queue_datas=[gone, queue],
                    )
                    return answer._replace(body=both.encode())

                names._codes[105] = two_brokers
                client.forget_route(T)
                for n in range(12):
                    assert (await producer.send(T, b"%d" % n)).queue.broker == "broker-a"
                with pytest.raises(ConnectionLost):
                    await producer.send(T, b"", queue=Queue(T, "gone", 0))
                with pytest.raises(ConnectionLost):
                    await client.broker("unknown", T)
            async with rocketmq.connect([dead]) as lost:
                with pytest.raises(ConnectionLost):
                    await lost.route(T)

    run(main())


def test_go_away_and_cut_connections() -> None:
    async def main() -> None:
        async with served() as (_, server, address), rocketmq.connect(address) as client:
            producer = client.producer("P")
            await producer.send(T, b"1")
            (driver,) = server.drivers
            peer: Any = driver.host
            peer.connection._undecided[0] = RemotingCommand(code=1)  # so that it drains
            peer.connection.close(wait=60.0)
            await producer.send(T, b"2")
            assert client.remote(address).connections == 2
            peer.abort()
            for driver in list(server.drivers):
                driver.abort()
            await producer.send(T, b"3")

    run(main())


def test_timeouts_cancellation_and_pending_calls() -> None:
    async def main() -> None:
        async with served() as (broker, server, address), rocketmq.connect(address, timeout=30.0) as client:
            remote = client.remote(address)
            broker._codes[9] = lambda peer, event: None  # never answered
            with pytest.raises(TimeoutError):
                await remote.call(9, timeout=0.01)
            call = asyncio.ensure_future(remote.call(9))
            await until(lambda: remote._link and remote._link.connection.pending)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert remote._link is not None
            assert remote._link.connection.pending == 0
            call = asyncio.ensure_future(remote.call(9))
            await until(lambda: remote._link and remote._link.connection.pending)
            for driver in list(server.drivers):
                driver.abort()
            with pytest.raises(ConnectionLost):
                await call
            assert (await remote.call(8)).code == 3

    run(main())


def test_signed_requests() -> None:
    async def main() -> None:
        async with served(accounts={"key": "secret"}) as (broker, _, address):
            good = rocketmq.Credentials("key", "secret")
            async with rocketmq.connect(address, credentials=good) as client:
                assert (await client.producer("P").send(T, b"1")).status == "SEND_OK"
            for bad in (None, rocketmq.Credentials("key", "wrong"), rocketmq.Credentials("nobody", "secret")):
                async with rocketmq.connect(address, credentials=bad) as client:
                    with pytest.raises(Refused) as refused:
                        await client.producer("P").send(T, b"2")
                    assert refused.value.code == 16
            assert "secret" not in repr(broker.options)

    run(main())


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
def test_tls(tmp_path: Path) -> None:
    ours, theirs = certificate(tmp_path)

    async def main() -> None:
        async with served(ssl=ours) as (_, _, address), rocketmq.connect(address, ssl=theirs) as client:
            assert (await client.producer("P").send(T, b"1")).status == "SEND_OK"

    run(main())


def test_a_broker_is_bounded() -> None:
    async def main() -> None:
        limits = {
            "topics": 2,
            "memory": 8000,
            "client_share": 1.0,
            "user_share": 1.0,
            "message_bytes": 4000,
            "groups": 2,
            "waiting": 0,
            "queue_messages": 2,
        }
        async with served(**limits) as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P", retries=0, compress_from=1 << 30)
            await producer.send("a", bytes(3800))
            for body, code in ((bytes(4001), 13), (bytes(3800), 2)):
                with pytest.raises(Refused) as refused:
                    await producer.send("a", body)
                assert refused.value.code == code
            await producer.send("b", b"1")
            with pytest.raises(Refused) as refused:
                await producer.send("c", b"1")
            assert refused.value.code == 2
            for n in range(4):
                await producer.send("b", b"%d" % n, queue=Queue("b", "broker-a", 0))
            assert len(broker.topics["b"][0].messages) == 2
            assert broker.dropped
            consumer = client.pull_consumer("G")
            queue = Queue("b", "broker-a", 1)
            answer = await consumer.pull(queue, 5, wait=30.0)
            assert answer.status == "OFFSET_ILLEGAL"
            assert (await consumer.pull(queue, answer.next_offset, wait=30.0)).status == "NO_NEW_MSG"
            client.producer("Q")
            third = client.producer("R")
            with pytest.raises(Refused) as refused:
                await third.send("b", b"")
            assert refused.value.code == 2

    run(main())


def test_requests_that_are_wrong_are_answered() -> None:
    """No field, a wrong one, no JSON: code 1 with the reason, and the connection stays, as at real brokers (10)."""

    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            remote = client.remote(address)
            for code in broker._codes:
                answer = await remote.call(code, None, b"\x00")
                assert answer.code in (1, 17), code
                assert answer.remark
                answer = await remote.call(code, WRONG, b"{}")
                assert answer.code in (0, 1, 17), code
            assert remote.connections == 1

    run(main())


def test_a_fault_right_behind_a_request() -> None:
    """The request is an event, but its connection is over: neither the broker nor the client is at fault."""

    async def main() -> None:
        async with served() as (_, server, address):
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(RemotingCommand(code=105, opaque=1, ext_fields={"topic": T}).encode() + b"\xff" * 8)
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
            await until(lambda: not server.drivers)

        async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(RemotingCommand(code=221, opaque=1).encode() + b"\xff" * 8)
            await reader.read()
            writer.close()

        faulty = await asyncio.start_server(peer, HOST, 0)
        async with faulty, rocketmq.connect(f"{HOST}:{faulty.sockets[0].getsockname()[1]}") as client:
            with pytest.raises(ConnectionLost):
                await client.route(T)

    run(main())


# ---- servers that say nothing


def test_a_connection_on_which_the_server_says_nothing_is_dropped() -> None:
    """A request times out, and nothing arrived since it was sent: the next one has another connection, as the Java client's."""
    silent = True

    class Model:
        def handle(self, peer: rocketmq.Peer, event: Any) -> None:
            if isinstance(event, RemotingCommand) and not silent:
                peer.respond(event, 17, remark="no such topic")

        def writable(self, peer: rocketmq.Peer) -> None: ...

        def closed(self, peer: rocketmq.Peer) -> None: ...

    async def test() -> None:
        nonlocal silent
        async with (
            await rocketmq.serve(Model(), HOST, 0) as server,
            rocketmq.connect(f"{HOST}:{server.port}", timeout=0.1) as client,
        ):
            with pytest.raises(TimeoutError):
                await client.route(T)
            await until(lambda: not server.drivers)
            silent = False
            with pytest.raises(Refused):
                await client.route(T)
            remote = client.remote(f"{HOST}:{server.port}")
            assert remote.connections == 2
            silent = True
            with pytest.raises(TimeoutError):  # less than the client's own time: it says nothing of the connection
                await remote.call(105, timeout=0.02)
            silent = False
            with pytest.raises(Refused):
                await client.route(T)
            assert remote.connections == 2

    run(test())


def test_a_connection_that_takes_no_bytes_is_dropped() -> None:
    """Nothing is outstanding, so no time runs out; the server neither reads nor speaks: the next call has a new connection."""

    async def test() -> None:
        async with served() as (_, server, address), rocketmq.connect(address, timeout=0.2) as client:
            remote = client.remote(address)
            with pytest.raises(Refused):
                await client.route("nothing")
            (driver,) = server.drivers
            driver.pause()
            for _ in range(200):
                try:
                    await remote.send_oneway(34, body=bytes(1 << 16))
                except TimeoutError:
                    break
            else:
                raise AssertionError("the transport takes everything")
            with pytest.raises(Refused):
                await client.route("nothing")
            assert remote.connections == 2

    run(test())


def test_a_consumer_that_is_closed_while_it_starts() -> None:
    async def test() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            broker.topic(T)
            consumer = client.push_consumer("g", {T: "*"}, lambda message: True)
            starting = asyncio.ensure_future(consumer.start())
            await asyncio.sleep(0)
            await consumer.close()
            with pytest.raises(ConnectionLost):
                await starting

    run(test())
