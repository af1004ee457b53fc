"""NSQ's connections against real peers on loopback: our client with nsqd, and pynsq, ansq and go-nsq with our server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import shutil
import ssl
import subprocess
import threading
import urllib.request
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from live.test_nsqd import NSQD, AuthServer, needs_ansq, needs_nsqd, needs_pynsq, running_nsqd, stop

from lib.loopback import HOST, OPENSSL, certificate, run, until
from lib.ports import free_port
from lib.skips import imported
from wirefmt import nsq
from wirefmt.broker.nsq import Broker, BrokerOptions
from wirefmt.connection import ConnectionDown
from wirefmt.errors import Refused

pytestmark = pytest.mark.live

NSQLOOKUPD = shutil.which("nsqlookupd", path=str(Path(NSQD).parent) if NSQD else None)
GO = shutil.which("go")


# ---- our client, a real nsqd


async def everything(client: nsq.Client, topic: str, *, defer: bool = False) -> None:
    """Publish in every way, consume, fail once, and finish. nsqd is slow with the deferred messages of a new channel."""
    large = bytes(range(256)) * 1000
    async with client:
        await asyncio.gather(*(client.publish(topic, b"%d" % n) for n in range(50)))
        await client.publish_many(topic, [b"a", b"b"])
        await client.publish(topic, large)
        await client.publish(topic, "later", defer=0.05 if defer else None)
        backoff = nsq.Backoff(first=0.01, most=0.05)
        seen: dict[bytes, int] = {}
        async with client.consume(topic, "c", max_in_flight=7, requeue_delay=0.0, backoff=backoff) as messages:
            async for message in messages:
                if message.body == b"7" and message.attempts == 1:
                    message.touch()
                    message.requeue()
                    continue
                seen[message.body] = message.attempts
                if len(seen) == 54:
                    break
        assert set(seen) == {b"%d" % n for n in range(50)} | {b"a", b"b", large, b"later"}
        assert seen[b"7"] > 1


@needs_nsqd
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("features", [{}, {"deflate": True}, {"snappy": True}], ids=["plain", "deflate", "snappy"])
def test_our_client_and_nsqd(secure: bool, features: dict[str, Any], tmp_path: Path) -> None:
    if "snappy" in features:
        imported("cramjam")
    options, context = [], None
    if secure:
        if OPENSSL is None:
            pytest.skip("needs openssl (apt install openssl)")
        _, context = certificate(tmp_path)
        options = [f"-tls-cert={tmp_path}/certificate.pem", f"-tls-key={tmp_path}/key.pem", "-tls-required"]
    with running_nsqd(*options) as port:
        client = nsq.connect(f"{'nsqs' if secure else 'nsq'}://{HOST}:{port}", ssl=context, **features)
        run(everything(client, "t", defer=not secure and not features))


@needs_nsqd
def test_auth_with_nsqd() -> None:
    with ThreadingHTTPServer((HOST, 0), AuthServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with running_nsqd(f"-auth-http-address={HOST}:{server.server_address[1]}") as port:
                run(everything(nsq.connect(f"nsq://{HOST}:{port}", secret="let me in"), "t"))

                async def refused() -> None:
                    with pytest.raises(Refused) as error:
                        await nsq.connect(f"nsq://{HOST}:{port}", secret="wrong").open()
                    assert error.value.code == "E_AUTH_FAILED"

                run(refused())
        finally:
            server.shutdown()


@needs_nsqd
def test_heartbeats_keep_a_connection_with_nsqd() -> None:
    async def main(port: int) -> None:
        async with nsq.connect(f"nsq://{HOST}:{port}", identify={"heartbeat_interval": 1000}) as client:
            await asyncio.sleep(3.5)  # nsqd ends a connection that is silent for two intervals
            await client.publish("t", b"x")
            assert client.connections == 1

    with running_nsqd() as port:
        run(main(port))


@needs_nsqd
def test_nsqd_waits_for_a_message_that_is_touched() -> None:
    """The host works for more than twice the time of a message: nsqd does not deliver it again, and takes FIN."""

    async def main(port: int) -> None:
        client = nsq.connect(f"nsq://{HOST}:{port}", identify={"msg_timeout": 1000})
        async with client, client.consume("t", "c") as messages:
            await client.publish("t", b"long")
            message = await messages.get()
            await asyncio.sleep(2.2)
            assert message.attempts == 1
            assert message.finish()
            await client.publish("t", b"next")
            following = await messages.get()
            assert (following.body, following.attempts) == (b"next", 1)
            assert following.finish()
            (link,) = messages._links
            assert link.connection.failures == 0

    with running_nsqd() as port:
        run(main(port))


@needs_nsqd
def test_a_message_that_nsqd_refuses() -> None:
    async def main(port: int) -> None:
        async with nsq.connect(f"nsq://{HOST}:{port}") as client:
            with pytest.raises(Refused) as refused:
                await client.publish("t", bytes(2000))
            assert refused.value.code == "E_BAD_MESSAGE"

    with running_nsqd("-max-msg-size=1000") as port:
        run(main(port))


@needs_nsqd
def test_max_in_flight_of_one_over_four_nsqd() -> None:
    """Never two handlers at once, never two messages in flight, and each nsqd has its turn."""

    async def main(ports: list[int]) -> None:
        urls = [f"nsq://{HOST}:{port}" for port in ports]
        for number, url in enumerate(urls):
            async with nsq.connect(url) as client:
                await client.publish_many("t", [b"%d" % number] * 50)
        seen: dict[bytes, int] = {}
        running = most = in_flight = 0

        async with nsq.connect(*urls) as client, client.consume("t", "c", max_in_flight=1) as messages:

            async def handler(message: nsq.Message) -> None:
                nonlocal running, most, in_flight
                running += 1
                most, in_flight = max(most, running), max(in_flight, messages._in_flight())
                seen[message.body] = seen.get(message.body, 0) + 1
                await asyncio.sleep(0.005)
                running -= 1

            task = asyncio.create_task(messages.run(handler, concurrency=8))
            await until(lambda: sum(seen.values()) == 200)
            task.cancel()
        assert seen == {b"%d" % number: 50 for number in range(4)}
        assert (most, in_flight) == (1, 1)

    with contextlib.ExitStack() as stack:
        run(main([stack.enter_context(running_nsqd()) for _ in range(4)]))


@needs_nsqd
def test_touch_with_several_nsqd_up_to_their_limit() -> None:
    """Each has its own timeout. nsqd delivers a message again once its max-msg-timeout is over, whatever TOUCH asks for."""

    async def main(*ports: int) -> None:
        client = nsq.connect(*(f"nsq://{HOST}:{port}" for port in ports))
        async with client, client.consume("t", "c", max_in_flight=10) as messages:
            for port in ports:
                async with nsq.connect(f"nsq://{HOST}:{port}") as publisher:
                    await publisher.publish("t", b"%d" % port)
            first = {(message := await messages.get()).body: message for _ in ports}
            assert len(first) == 2
            again = await messages.get()
            assert again.body == b"%d" % ports[0]
            assert again.attempts == 2
            assert not first[again.body].in_flight
            assert not first[again.body].finish()
            assert again.finish()
            assert first[b"%d" % ports[1]].finish()

    with running_nsqd("-msg-timeout=1s", "-max-msg-timeout=3s") as one, running_nsqd("-msg-timeout=2s") as two:
        run(main(one, two))


@needs_nsqd
@pytest.mark.skipif(NSQLOOKUPD is None, reason="needs nsqlookupd (github.com/nsqio/nsq, beside nsqd)")
def test_a_topic_that_was_deleted_or_tombstoned() -> None:
    assert NSQLOOKUPD is not None
    tcp, http, nsqd_http = free_port(), free_port(), free_port()
    command = [NSQLOOKUPD, f"-tcp-address={HOST}:{tcp}", f"-http-address={HOST}:{http}", "-log-level=fatal"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(port: int, path: str, method: str = "GET") -> str:
        request = urllib.request.Request(f"http://{HOST}:{port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    async def main(port: int) -> None:
        async with nsq.connect(f"nsq://{HOST}:{port}") as publisher:
            await publisher.publish("t", b"x")
            events: list[object] = []
            client = nsq.connect(lookup=[f"http://{HOST}:{http}"], lookup_interval=0.1, on_event=events.append)
            async with client, client.consume("t", "c") as messages:
                assert (await messages.get()).finish()
                ask(nsqd_http, "/topic/delete?topic=t", "POST")
                await until(lambda: any(isinstance(e, ConnectionDown) and e.wait is None for e in events))
                await asyncio.sleep(0.5)
                assert '"topic_name":"t"' not in ask(nsqd_http, "/stats?format=json")
                await publisher.publish("t", b"y")
                assert (await messages.get()).body == b"y"
            ask(http, f"/topic/tombstone?topic=t&node={HOST}:{nsqd_http}", "POST")
            client = nsq.connect(lookup=[f"http://{HOST}:{http}"], lookup_interval=0.1)
            async with client, client.consume("t", "c") as messages:
                await asyncio.sleep(0.5)
                assert not messages.connections

    try:
        options = (f"-lookupd-tcp-address={HOST}:{tcp}", f"-http-address={HOST}:{nsqd_http}")
        with running_nsqd(*options) as port:
            run(main(port))
    finally:
        stop(process)


@needs_nsqd
@pytest.mark.skipif(NSQLOOKUPD is None, reason="needs nsqlookupd (github.com/nsqio/nsq, beside nsqd)")
def test_nsqlookupd() -> None:
    assert NSQLOOKUPD is not None
    tcp, http = free_port(), free_port()
    command = [NSQLOOKUPD, f"-tcp-address={HOST}:{tcp}", f"-http-address={HOST}:{http}", "-log-level=fatal"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def main(port: int) -> None:
        async with nsq.connect(f"nsq://{HOST}:{port}") as client:
            await client.publish("t", b"x")
        client = nsq.connect(lookup=[f"http://{HOST}:{http}"], lookup_interval=0.1)
        async with client, client.consume("t", "c") as messages:
            assert (await anext(messages)).body == b"x"

    try:
        with running_nsqd(f"-lookupd-tcp-address={HOST}:{tcp}") as port:
            run(main(port))
    finally:
        stop(process)


# ---- real clients, our server


async def with_broker(
    talk: Any, options: nsq.ConnectionOptions | None = None, context: ssl.SSLContext | None = None
) -> None:
    broker = Broker(BrokerOptions())
    async with await nsq.serve(broker, HOST, 0, options=options, ssl=context) as server:
        await talk(server.port, broker)
    broker.close()


@needs_ansq
def test_ansq_and_our_server() -> None:
    from live.test_nsqd import ansq_session

    async def talk(port: int, broker: Broker) -> None:
        await ansq_session(port, "topic")
        # it ends once it has seen each message; the one that it has requeued may be the last to come again
        await until(lambda: broker.counts["finished"] >= 3)
        assert broker.counts["requeued"] >= 1

    asyncio.run(asyncio.wait_for(with_broker(talk), 60))


@needs_pynsq
def test_pynsq_and_our_server() -> None:
    from live.test_nsqd import pynsq_session

    async def talk(port: int, broker: Broker) -> None:
        await pynsq_session(port, "t", deflate=False)
        assert broker.counts["finished"] >= 3
        assert broker.counts["requeued"] >= 1

    asyncio.run(asyncio.wait_for(with_broker(talk), 90))


PROGRAM = """
package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nsqio/go-nsq"
)

type handler struct{ done chan string }

func (h *handler) HandleMessage(m *nsq.Message) error {
	if string(m.Body) == "b" && m.Attempts == 1 {
		return fmt.Errorf("once more")
	}
	h.done <- string(m.Body)
	return nil
}

func main() {
	config := nsq.NewConfig()
	config.DefaultRequeueDelay = 0
	config.MaxBackoffDuration = 0
	config.LookupdPollInterval = 100 * time.Millisecond
	config.Snappy = strings.Contains(os.Args[2], "snappy")
	config.Deflate = strings.Contains(os.Args[2], "deflate")
	if strings.Contains(os.Args[2], "tls") {
		config.TlsV1 = true
		config.TlsConfig = &tls.Config{InsecureSkipVerify: true}
	}
	producer, err := nsq.NewProducer(os.Args[1], config)
	if err != nil {
		panic(err)
	}
	producer.SetLoggerLevel(nsq.LogLevelError)
	for _, e := range []error{
		producer.Publish("t", []byte("a")),
		producer.MultiPublish("t", [][]byte{[]byte("b"), make([]byte, 100000)}),
		producer.DeferredPublish("t", 10*time.Millisecond, []byte("later")),
	} {
		if e != nil {
			panic(e)
		}
	}
	consumer, err := nsq.NewConsumer("t", "c", config)
	if err != nil {
		panic(err)
	}
	consumer.SetLoggerLevel(nsq.LogLevelError)
	h := &handler{make(chan string, 10)}
	consumer.AddHandler(h)
	if len(os.Args) > 3 {
		err = consumer.ConnectToNSQLookupd(os.Args[3])
	} else {
		err = consumer.ConnectToNSQD(os.Args[1])
	}
	if err != nil {
		panic(err)
	}
	for i := 0; i < 4; i++ {
		select {
		case body := <-h.done:
			fmt.Println(len(body))
		case <-time.After(30 * time.Second):
			panic("nothing comes")
		}
	}
	consumer.Stop()
	<-consumer.StopChan
	producer.Stop()
}
"""


@pytest.fixture(scope="module")
def go_nsq(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with go-nsq, built when it is first needed."""
    if GO is None:
        pytest.skip("needs go (apt install golang-go)")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(PROGRAM)
    for command in (["mod", "init", "talk"], ["get", "github.com/nsqio/go-nsq@v1.1.0"], ["build", "-o", "talk", "."]):
        done = subprocess.run([GO, *command], cwd=folder, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"needs go-nsq v1.1.0 (go get github.com/nsqio/go-nsq@v1.1.0: {done.stderr.strip()[-200:]})")
    return folder / "talk"


@pytest.mark.parametrize("features", ["plain", "deflate", "snappy", "tls", "tls deflate", "tls snappy"])
def test_go_nsq_and_our_server(go_nsq: Path, features: str, tmp_path: Path) -> None:
    options, context = None, None
    if "tls" in features:
        if OPENSSL is None:
            pytest.skip("needs openssl (apt install openssl)")
        options, context = nsq.ConnectionOptions(tls="required"), certificate(tmp_path)[0]
    if "snappy" in features and importlib.util.find_spec("cramjam") is None:
        pytest.skip("needs cramjam (pip install cramjam)")

    async def talk(port: int, broker: Broker) -> None:
        process = await asyncio.create_subprocess_exec(
            str(go_nsq), f"{HOST}:{port}", features, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        assert sorted(map(int, out.split())) == [1, 1, 5, 100_000]
        assert broker.counts["finished"] == 4
        assert broker.counts["requeued"] >= 1

    asyncio.run(asyncio.wait_for(with_broker(talk, options, context), 90))


def test_go_nsq_finds_our_server_by_lookup(go_nsq: Path) -> None:
    """go-nsq polls the look-up of the broker, as it does nsqlookupd's."""

    async def talk(port: int, broker: Broker) -> None:
        lookups: list[str] = []
        look_up: Any = broker._look_up

        def noted(path: str, *others: Any) -> Any:
            lookups.append(path)
            return look_up(path, *others)

        broker._look_up = noted  # type: ignore[method-assign, assignment]
        lookup = await broker.serve_lookup(port)
        try:
            address = f"{HOST}:{lookup.port}"
            process = await asyncio.create_subprocess_exec(
                str(go_nsq), f"{HOST}:{port}", "plain", address, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await process.communicate()
        finally:
            await lookup.close()
        assert process.returncode == 0
        assert sorted(map(int, out.split())) == [1, 1, 5, 100_000]
        assert broker.counts["finished"] == 4
        assert lookups
        assert set(lookups) == {"/lookup?topic=t"}

    asyncio.run(asyncio.wait_for(with_broker(talk), 90))
