"""The asyncio client against the broker in memory: requests and replies, filter expressions, and what brokers ask consumers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lib.loopback import run, until
from lib.rocketmq_served import served, watched
from wirefmt import rocketmq
from wirefmt.connection import Acknowledged
from wirefmt.errors import LocalProtocolError, Refused
from wirefmt.rocketmq import MessageExt, Queue, RemotingCommand, Sql

T = "orders"
FAST = {"poll_time": 0.2, "store_interval": 0.02, "pause": 0.01, "rebalance_interval": 0.1}
CALM: Any = {"route_interval": 3600.0, "heartbeat_interval": 3600.0}


# ---- requests and replies


@asynccontextmanager
async def replying(address: str, **more: Any) -> AsyncIterator[list[MessageExt]]:
    """A consumer, at a client of its own, that replies to each message with its body reversed."""
    asked: list[MessageExt] = []
    async with rocketmq.connect(address, **more) as client:
        producer = client.producer("Repliers")

        async def listen(message: MessageExt) -> None:
            asked.append(message)
            await producer.reply(message, bytes(message.body or b"")[::-1])

        async with client.push_consumer("R", {T: "*"}, listen, begin="first", **FAST):
            yield asked


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_a_request_gets_its_reply(form: Any) -> None:
    options = rocketmq.ConnectionOptions(serialize_type=form)

    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address, options=options) as client:
            producer = client.producer("Askers")
            async with replying(address, options=options) as asked:
                bodies = [b"one", b"two", b"x" * 6000 + b"y"]
                replies = await asyncio.gather(*(producer.request(T, body, tags="t", timeout=30.0) for body in bodies))
                assert [bytes(reply.body or b"") for reply in replies] == [body[::-1] for body in bodies]
                assert len(asked) == 3
                request = next(m for m in asked if m.body == b"one")
                properties = request.properties or {}
                assert properties["REPLY_TO_CLIENT"] == client.client_id
                assert (properties["TTL"], properties["CLUSTER"], request.tags) == ("30000", "wirefmt", "t")
                said = replies[0].properties or {}
                assert replies[0].topic == "wirefmt_REPLY_TOPIC"
                assert said["CORRELATION_ID"] == properties["CORRELATION_ID"]
                assert said["MSG_TYPE"] == "reply"
                assert {"ARRIVE_TIME", "PUSH_REPLY_TIME"} <= said.keys()
            assert client.replies == {}
            assert client.strays == 0
            assert (
                sum(queue.end for queue in broker.topics["wirefmt_REPLY_TOPIC"]) == 3
            )  # the real broker keeps them, too

    run(main())


def test_a_request_without_a_reply_times_out() -> None:
    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("Askers")
            with pytest.raises(TimeoutError):
                await producer.request(T, b"x", timeout=0.05)
            assert client.replies == {}
            (stored,) = [m for q in broker.topics[T] for m in q.messages]
            (message,) = rocketmq.decode_messages(stored.frame)
            # the reply still reaches the client, which does not know it any more
            await producer.reply(message, b"late")
            assert client.strays == 1

    run(main())


def test_a_reply_needs_a_request_and_its_sender() -> None:
    async def main() -> None:
        async with served() as (_, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P")
            with pytest.raises(LocalProtocolError, match="not a request"):
                await producer.reply(MessageExt(topic=T), b"")
            properties = {"CORRELATION_ID": "1", "CLUSTER": "wirefmt", "REPLY_TO_CLIENT": "nobody"}
            with pytest.raises(Refused, match="nobody") as refused:
                await producer.reply(MessageExt(topic=T, properties=properties), b"")
            assert refused.value.code == 1

    run(main())


def test_a_sender_that_goes_or_does_not_answer_fails_the_reply() -> None:
    """The client of the request is asked and hangs up, or says nothing: the broker answers the one who replies."""

    async def main() -> None:
        async with served(ask=0.05) as (broker, _, address), rocketmq.connect(address, **CALM) as client:
            producer = client.producer("P")
            async with rocketmq.connect(address, **CALM) as asker:
                await asker.producer("Q").send(T, b"x")
                properties = {"CORRELATION_ID": "1", "CLUSTER": "wirefmt", "REPLY_TO_CLIENT": asker.client_id}
                request = MessageExt(topic=T, properties=properties)
                asker._replied = lambda link, request: None  # type: ignore[method-assign]
                with pytest.raises(Refused, match="fail"):
                    await producer.reply(request, b"late")
                broker.options = rocketmq_options(ask=60.0)
                waiting = asyncio.ensure_future(producer.reply(request, b"cut", timeout=30.0))
                await until(lambda: broker._clients.asked)
                (peer,) = {member.peer for member in broker.producers["Q"].values()}
                peer.driver.abort()
                with pytest.raises(Refused):
                    await waiting
            assert broker._clients.asked == {}

    run(main())


def rocketmq_options(**options: Any) -> Any:
    from wirefmt.broker.rocketmq import BrokerOptions

    return BrokerOptions(**options)


def test_a_reply_that_cannot_be_read_is_refused() -> None:
    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            await client.producer("P").send(T, b"x")
            (peer,) = {member.peer for member in broker.producers["P"].values()}
            got: list[RemotingCommand] = []
            header = rocketmq.ReplyMessageRequestHeader(
                producer_group="P", topic="R", default_topic="D", default_topic_queue_nums=1, queue_id=0, sys_flag=1,
                born_timestamp=0, flag=0, properties="", born_host="x:y", store_host="", store_timestamp=0,
            )  # fmt: skip
            for body in (b"no zlib", b""):
                assert broker._clients.ask(peer, 326, header, body, lambda response: got.append(response))  # type: ignore[arg-type]
            assert broker._clients.ask(peer, 326, None, b"", lambda response: got.append(response))  # type: ignore[arg-type]
            await until(lambda: len(got) == 3)
            assert {command.code for command in got} <= {0, 1}
            assert got[0].code == got[2].code == 1
            assert (await client.producer("P").send(T, b"y")).status == "SEND_OK"

    run(main())


# ---- filter expressions


def test_consumers_subscribe_by_expressions() -> None:
    """Push, pull and pop; what is not wanted is skipped."""
    wanted = Sql("price BETWEEN 10 AND 20 AND colour IS NOT NULL AND NOT (colour = 'red')")
    prices = {
        b"%d %s" % (n, colour): (n, colour.decode()) for n in (5, 10, 15, 25) for colour in (b"red", b"blue", b"")
    }

    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P")
            for body, (price, colour) in prices.items():
                properties = {"price": str(price), **({"colour": colour} if colour else {})}
                await producer.send(T, body, properties=properties, queue=Queue(T, "broker-a", 1))
            got: list[bytes] = []

            def listen(message: MessageExt) -> None:
                got.append(bytes(message.body or b""))

            async with client.push_consumer("G", {T: wanted}, listen, begin="first", **FAST):
                await until(lambda: len(got) == 2 and broker.offsets.get(("G", T, 1)) == len(prices))
                data = broker.consumers["G"][client.client_id].topics[T]
                assert (data.expression, data.kind, data.wrong) == (wanted.expression, "SQL92", False)
            assert got == [b"10 blue", b"15 blue"]
            pull = client.pull_consumer("H")
            result = await pull.pull(Queue(T, "broker-a", 1), 0, expression=wanted)
            assert [bytes(m.body or b"") for m in result.messages] == got
            assert (
                await pull.pull(Queue(T, "broker-a", 1), 0, expression=Sql("price > 99"))
            ).status == "NO_MATCHED_MSG"
            popped = await client.pop_consumer("I").pop(T, expression=wanted, invisible=30.0)
            assert [bytes(p.message.body or b"") for p in popped] == got

    run(main())


@pytest.mark.parametrize("expression", ["price >", "price = NULL", "price > '5'", "", "(" * 200 + "price" + ")" * 200])
def test_wrong_expressions_are_refused(expression: str) -> None:
    """SUBSCRIPTION_PARSE_FAILED (23) where the expression is said; FILTER_DATA_NOT_EXIST (27) where heartbeats said it."""

    async def main() -> None:
        async with served() as (_, _, address), rocketmq.connect(address) as client:
            await client.producer("P").send(T, b"x")
            queue = Queue(T, "broker-a", 0)
            calls: list[Any] = [
                lambda: client.pull_consumer("G").pull(queue, 0, expression=Sql(expression)),
                lambda: client.push_consumer("G", {T: Sql(expression)}, print, **FAST).start(),
            ]
            if expression:  # a pop without one wants all
                calls.append(lambda: client.pop_consumer("G").pop(T, expression=Sql(expression)))
            for call in calls:
                with pytest.raises(Refused) as refused:
                    await call()
                assert refused.value.code == 23
            assert "G" not in client._consumers
            consumer = client.push_consumer("G", {T: Sql(expression or "-")}, print, **FAST)
            client._consumers["G"] = consumer
            await client.heartbeat()
            with pytest.raises(Refused) as refused:
                await client.pull_consumer("G").pull(queue, 0, subscribed=True)
            assert refused.value.code == 27
            del client._consumers["G"]

    run(main())


def test_a_pull_knows_more_than_the_heartbeat() -> None:
    """SUBSCRIPTION_NOT_LATEST (25): the broker has not heard of the subscription that the pull means."""

    async def main() -> None:
        async with served() as (_, _, address), rocketmq.connect(address) as client:
            await client.producer("P").send(T, b"x")
            async with client.push_consumer("G", {T: "*"}, print, **FAST) as consumer:
                pull = client.pull_consumer("G")
                queue = Queue(T, "broker-a", 0)
                await pull.pull(queue, 0, subscribed=True, version=consumer._version)
                with pytest.raises(Refused) as refused:
                    await pull.pull(queue, 0, subscribed=True, version=consumer._version + 1)
                assert refused.value.code == 25

    run(main())


def test_what_nobody_wants_is_looked_at_in_parts() -> None:
    """A pull and a pop end after 800 messages that do not match, as the real broker's pull does."""

    async def main() -> None:
        async with served() as (_, _, address), rocketmq.connect(address) as client:
            queue = Queue(T, "broker-a", 0)
            batch = [rocketmq.Message(body=b"", properties={"TAGS": "no"}) for _ in range(1000)]
            await client.producer("P").send_batch(T, batch, queue=queue)
            await client.producer("P").send(T, b"yes", tags="yes", queue=queue)
            result = await client.pull_consumer("G").pull(queue, 0, expression="yes", wait=30.0)
            assert (result.status, result.next_offset) == ("NO_MATCHED_MSG", 800)
            result = await client.pull_consumer("G").pull(queue, 800, expression="yes")
            assert (result.status, result.next_offset, len(result.messages)) == ("FOUND", 1001, 1)
            assert await client.pop_consumer("G").pop(T, expression="yes", wait=30.0) == []
            (popped,) = await client.pop_consumer("G").pop(T, expression="yes", wait=30.0)
            assert popped.message.body == b"yes"

    run(main())


# ---- questions to consumers


async def asked(client: rocketmq.Client, address: str, code: int, header: Any) -> RemotingCommand:
    return await client.remote(address).call(code, header, timeout=30.0)


def named_by_queue_ids(body: bytes) -> Any:
    """A body whose maps have objects as names, as fastjson writes them: "topic id" is in their place."""
    name = rb'\{"(?:brokerName|queueId|topic)":[^{}]*?\}:'

    def plain(match: re.Match[bytes]) -> bytes:
        members = json.loads(match[0][:-1])
        assert members.keys() == {"brokerName", "queueId", "topic"}
        return json.dumps(f"{members['topic']} {members['queueId']}").encode() + b":"

    return json.loads(re.sub(name, plain, body))


def test_a_consumer_says_what_it_does() -> None:
    """GET_CONSUMER_RUNNING_INFO, handed on by the broker. Names of maps are objects, as fastjson writes them."""

    async def main() -> None:
        async with served() as (_, _, address), rocketmq.connect(address, client_id="me") as client:
            await client.producer("P").send(T, b"x" * 10, queue=Queue(T, "broker-a", 2))
            held = asyncio.Event()

            async def listen(message: MessageExt) -> None:
                await held.wait()

            consumer = client.push_consumer("G", {T: "a || b", "other": Sql("x > 1")}, listen, begin="first", **FAST)
            await client.producer("P").send(T, b"y", tags="a", queue=Queue(T, "broker-a", 2))
            async with consumer:
                await until(lambda: any(w.open for w in consumer._works.values()))
                header = rocketmq.GetConsumerRunningInfoRequestHeader(
                    consumer_group="G", client_id="me", jstack_enable=False
                )
                response = await asked(client, address, 307, header)
                assert response.code == 0
                info = named_by_queue_ids(bytes(response.body_bytes() or b""))
                assert {T + " 0", T + " 1", T + " 2", T + " 3"} <= info["mqTable"].keys()
                held_queue = info["mqTable"][T + " 2"]
                assert (
                    held_queue["cachedMsgMinOffset"],
                    held_queue["cachedMsgMaxOffset"],
                    held_queue["commitOffset"],
                ) == (1, 1, 1)
                assert held_queue["locked"] is True
                assert held_queue["droped"] is False  # codespell:ignore droped
                assert held_queue["lastPullTimestamp"] > 0
                assert {s["topic"]: s["expressionType"] for s in info["subscriptionSet"]} == {
                    T: "TAG", "other": "SQL92", "%RETRY%G": "TAG"
                }  # fmt: skip
                properties = info["properties"]
                assert properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
                assert properties["PROP_NAMESERVER_ADDR"] == f"{address};"
                assert properties["PROP_CONSUMEORDERLY"] == "false"
                assert int(properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
                held.set()
                for group, who in (("G", "other"), ("other", "me")):
                    gone = rocketmq.GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=who)
                    response = await asked(client, address, 307, gone)
                    assert (response.code, "not online" in (response.remark or "")) == (1, True)

    run(main())


def test_a_consumer_consumes_one_message_directly() -> None:
    async def main() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address, client_id="me") as client:
            sent = await client.producer("P").send(T, b"direct")
            got: list[bytes] = []
            results: list[Any] = [None, False, ValueError("no"), True]

            def listen(message: MessageExt) -> Any:
                got.append(bytes(message.body or b""))
                result = results.pop(0)
                if isinstance(result, Exception):
                    raise result
                return result

            def header(message_id: str, group: str = "G") -> rocketmq.ConsumeMessageDirectlyResultRequestHeader:
                return rocketmq.ConsumeMessageDirectlyResultRequestHeader(
                    consumer_group=group, client_id="me", msg_id=message_id, topic=T
                )

            async with client.push_consumer("G", {"other": "*"}, listen, **FAST) as consumer:
                said = []
                for _ in range(4):
                    response = await asked(client, address, 309, header(sent.offset_message_id))
                    assert response.code == 0
                    said.append(json.loads(bytes(response.body_bytes() or b"")))
                assert [s["consumeResult"] for s in said] == [
                    "CR_SUCCESS",
                    "CR_LATER",
                    "CR_THROW_EXCEPTION",
                    "CR_SUCCESS",
                ]
                assert said[2]["remark"] == "ValueError: no"
                assert {s["order"] for s in said} == {False}
                assert got == [b"direct"] * 4
                assert consumer.failed == 0
                nowhere = rocketmq.encode_message_id("127.0.0.1", 1, 99_999)
                assert (await asked(client, address, 309, header(nowhere))).code == 1
                assert (await asked(client, address, 309, header("no id"))).code == 1
                (member,) = broker.consumers["G"].values()
                outcomes = watched(broker)
                member.peer.request(309, header(sent.offset_message_id), b"no message")
                member.peer.request(309, header(sent.offset_message_id, "nobody"), b"")
                await until(lambda: len([o for o in outcomes if isinstance(o, Acknowledged)]) == 2)
                assert {o.code for o in outcomes if isinstance(o, Acknowledged)} == {1}

    run(main())


def test_a_consumer_that_takes_too_long_is_given_up() -> None:
    async def main() -> None:
        async with served(ask=0.02) as (broker, _, address), rocketmq.connect(address, client_id="me") as client:
            sent = await client.producer("P").send(T, b"slow")
            held = asyncio.Event()

            async def listen(message: MessageExt) -> None:
                await held.wait()

            async with client.push_consumer("G", {"other": "*"}, listen, **FAST):
                header = rocketmq.ConsumeMessageDirectlyResultRequestHeader(
                    consumer_group="G", client_id="me", msg_id=sent.offset_message_id
                )
                assert (await asked(client, address, 309, header)).code == 207
                held.set()
            assert broker._clients.asked == {}

    run(main())
