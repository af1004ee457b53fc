"""How fast does a capture become the message table in Arrow, with TCP reassembly and MQTT decoding?

    python bench/bench_capture.py

Beside it, in one run: a copy of the file's octets (memcpy into fresh memory, and into memory written before),
`tshark -T fields`, and dpkt with the fastest MQTT codecs, mqtt5 (Rust) and zmqtt (Python), which only join
segments that come in order. The capture is 200 clients that publish with QoS 1 and are acknowledged, MQTT 5, with messages
that cross segments, or one message per packet; a seeded generator makes it. tshark and dpkt read its first tenth: they are
slow, and their time is proportional to the size.

Then, in CPU time, a capture of five protocols on few connections and on many, with all columns, five and one; beside
walking the headers alone, and the halves that two processes could decode at the same time. The same in two threads, in wall time.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dpkt
import inputs
import mqtt5
import numpy
from ratios import compare, versions
from zmqtt._internal.packets import codec as zmqtt_codec

from wirefmt import amqp091, amqp10, capture, rocketmq

MESSAGES = 200_000
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "mqtt.msgtype", "mqtt.topic", "mqtt.msgid", "mqtt.qos", "mqtt.msg")


def ours(path: Path, **options: Any) -> int:
    with capture.read(path, **options) as reader:
        return sum(batch.num_rows for batch in reader)


def tshark(path: Path) -> None:
    command = ["tshark", "-n", "-r", str(path), "-Y", "mqtt", "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rust_codec(data: bytes) -> tuple[list[object], int]:
    out: list[object] = []
    at, view = 0, memoryview(data)
    while at < len(data):
        try:
            message, used = mqtt5.read(view[at:])
        except IndexError:  # the rest comes with the next segment
            break
        at += used
        if isinstance(message, mqtt5.PublishPacket):
            out.append((message.topic, message.payload, message.qos, message.packet_id))
        else:
            out.append((None, None, None, getattr(message, "packet_id", None)))
    return out, at


def python_codec(data: bytes) -> tuple[list[object], int]:
    out: list[object] = []
    at, view = 0, memoryview(data)
    while found := zmqtt_codec.decode(view[at:], version="5.0"):
        message, used = found
        at += used
        if isinstance(message, zmqtt_codec.Publish):
            out.append((message.topic, message.payload, message.qos, message.packet_id))
        else:
            out.append((None, None, None, getattr(message, "packet_id", None)))
    return out, at


def with_dpkt(path: Path, codec: Callable[[bytes], tuple[list[object], int]]) -> int:
    """Every packet, every message; out-of-order data would be lost."""
    pending: dict[tuple[bytes, int, bytes, int], bytes] = defaultdict(bytes)
    rows: list[tuple[float, object]] = []
    with path.open("rb") as file:
        for time, octets in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(octets).data
            tcp = ip.data
            if not tcp.data:
                continue
            key = (ip.src, tcp.sport, ip.dst, tcp.dport)
            data = pending[key] + tcp.data
            messages, used = codec(data)
            rows += [(time, message) for message in messages]
            pending[key] = data[used:]
    return len(rows)


def messages() -> dict[int, tuple[bytes, bytes, list[tuple[bytes, bytes]]]]:
    """By port: the first bytes of client and server, and pairs of a message and its answer."""
    chance = random.Random(7)
    found: dict[int, tuple[bytes, bytes, list[tuple[bytes, bytes]]]] = {
        1883: (inputs.connect("c", 5), inputs.mqtt_packet(0x20, b"\0\0\0"), []),
        5671: (b"AMQP\0\0\x09\x01", b"", []),
        5672: (b"AMQP\0\1\0\0", b"AMQP\0\1\0\0", []),
        10911: (b"", b"", []),
        4150: (b"  V2", b"", []),
    }
    for i in range(200):
        identifier = (i + 1).to_bytes(2, "big")
        topic = inputs.string(f"site/{i % 7}/room{i % 50:03}/temperature")
        publish = inputs.mqtt_packet(0x32, topic + identifier + b"\0" + chance.randbytes(128))
        found[1883][2].append((publish, b"\x40\x02" + identifier))
        content = amqp091.BasicMessage(
            amqp091.BasicPublish(channel=1, exchange="orders", routing_key=f"room{i % 50:02}.new"),
            amqp091.BasicProperties(
                content_type="application/json",
                headers={"x-origin": "bench", "x-retries": i % 5},
                delivery_mode=2,
                message_id=f"message-{i:06}",
            ),
            chance.randbytes(256),
        )
        found[5671][2].append((content.encode(), b""))
        message = amqp10.Message(
            header=amqp10.Header(durable=True),
            properties=amqp10.Properties(message_id=f"id-{i}", to="/queues/measurements", content_type="a/b"),
            application_properties={"site": f"north-{i % 7}", "sequence": i},
            body=chance.randbytes(256),
        )
        transfer = amqp10.Transfer(handle=0, delivery_id=i, delivery_tag=identifier, settled=True, payload=message)
        found[5672][2].append((transfer.encode(), b""))
        properties = rocketmq.encode_properties(
            {"KEYS": f"key{i}", "UNIQ_KEY": f"{i:032X}", "WAIT": "true", "TAGS": "TagA"}
        )
        header = rocketmq.SendMessageRequestHeaderV2(
            a="producers", b="orders", c="TBW102", d=4, e=i % 4, f=0, g=1700000000000 + i, h=0, i=properties, j=0, k=False,
            m=False, n="broker-a",
        )  # fmt: skip
        send = rocketmq.RemotingCommand(code=310, opaque=i, header=header, body=chance.randbytes(256), language="JAVA")
        fields = {"msgId": f"{i:032X}", "queueId": "2", "queueOffset": str(1000 + i)}
        sent = rocketmq.RemotingCommand(code=0, flag=1, opaque=i, ext_fields=fields, language="JAVA")
        found[10911][2].append((send.encode(), sent.encode()))
        body = chance.randbytes(256)
        found[4150][2].append((b"PUB orders\n" + len(body).to_bytes(4, "big") + body, b"\0\0\0\x06\0\0\0\0OK"))
    return found


def mixed(octets: int, connections: int) -> Iterator[bytes]:
    """Packets of five protocols; each turn is on a random connection: up to four messages, then their answers."""
    chance = random.Random(1)
    kinds = list(messages().items())
    clients = []
    for i in range(connections):
        port, (hello, answer, pool) = kinds[i % len(kinds)]
        client = inputs.Connection(i, chance, port)
        yield from client.open()
        if hello:
            yield client.segment(0, 24, hello)
        if answer:
            yield client.segment(1, 24, answer)
        clients.append((client, pool))
    sent = 0
    while sent < octets:
        client, pool = chance.choice(clients)
        some = chance.choices(pool, k=chance.randint(1, 4))
        stream = b"".join(message for message, _ in some)
        for at in range(0, len(stream), inputs.MTU_PAYLOAD):
            yield client.segment(0, 24, stream[at : at + inputs.MTU_PAYLOAD])
        sent += len(stream)
        yield client.segment(1, 24, b"".join(answer for _, answer in some))
    for client, _ in clients:
        yield from client.close()


def of_many_connections(path: Path) -> None:
    five = ["ts", "src_ip", "protocol", "kind", "destination"]
    for connections in (100, 4000):
        size = inputs.write_pcap(path, mixed(100_000_000, connections))
        compare(
            f"Capture of five protocols on {connections} connections",
            {
                "wirefmt, all columns": lambda: ours(path),
                "wirefmt, five columns": lambda: ours(path, columns=five),
                "wirefmt, one column": lambda: ours(path, columns=["ts"]),
                "wirefmt, all columns, half of the connections": lambda: ours(path, slice=(0, 2)),
                "wirefmt, all columns, the other half": lambda: ours(path, slice=(1, 2)),
                "wirefmt, headers alone": lambda: ours(path, slice=(0, 1 << 40)),
            },
            units=size,
            unit="byte",
            clock=time.process_time,
        )
        for title, columns in (("all columns", None), ("five columns", five)):
            compare(
                f"The same in threads, {title}, wall time",
                {
                    "wirefmt, two threads": lambda c=columns: ours(path, columns=c, threads=2),
                    "wirefmt, one thread": lambda c=columns: ours(path, columns=c),
                },
                units=size,
                unit="byte",
            )


def main() -> None:
    print(versions("wirefmt", "numpy", "pyarrow", "dpkt", "mqtt5"))
    with tempfile.TemporaryDirectory() as folder:
        for payload, turn in ((128, 8), (128, 1), (1024, 8)):
            path, tenth = Path(folder) / "whole.pcap", Path(folder) / "tenth.pcap"
            size = inputs.write_pcap(path, inputs.capture(MESSAGES, payload=payload, version=5, turn=turn))
            small = inputs.write_pcap(tenth, inputs.capture(MESSAGES // 10, payload=payload, version=5, turn=turn))
            title = f"payloads of {payload} octets, " + (
                "one message per packet" if turn == 1 else f"up to {turn} at a time"
            )
            assert ours(path) == 2 * MESSAGES + 400
            assert ours(tenth) == with_dpkt(tenth, rust_codec) == 2 * MESSAGES // 10 + 400
            assert ours(tenth) == with_dpkt(tenth, python_codec)
            source = numpy.frombuffer(path.read_bytes(), dtype="u1")
            written = source.copy()
            compare(
                f"Capture to the message table, {title}",
                {
                    "wirefmt, all columns": lambda p=path: ours(p),
                    "wirefmt, without payload": lambda p=path: ours(p, payload=False),
                    "wirefmt, time, topic and payload": lambda p=path: ours(
                        p, columns=["ts", "destination", "payload"]
                    ),
                    "memcpy, fresh memory": source.copy,
                    "memcpy, memory written before": lambda s=source, w=written: numpy.copyto(w, s),
                },
                units=size,
                unit="byte",
            )
            peers: dict[str, Callable[..., object]] = {
                "wirefmt, all columns": lambda p=tenth: ours(p),
                "dpkt and mqtt5 (Rust)": lambda p=tenth: with_dpkt(p, rust_codec),
                "dpkt and zmqtt": lambda p=tenth: with_dpkt(p, python_codec),
            }
            if shutil.which("tshark"):
                peers["tshark -T fields"] = lambda p=tenth: tshark(p)
            compare(f"Capture to messages, peers, {title}", peers, units=small, unit="byte", rounds=3)
        of_many_connections(Path(folder) / "mixed.pcap")


if __name__ == "__main__":
    main()
