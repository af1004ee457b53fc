"""How fast does a capture become the message table in Arrow, TCP reassembly and MQTT decoding on?

    python bench/bench_capture.py

Beside it, in one run: a copy of the file's octets (memcpy into fresh memory, and into memory written before),
`tshark -T fields`, and dpkt with the fastest MQTT codecs there are, mqtt5 (Rust) and zmqtt (Python), told only to join
segments that come in order. The capture is 200 clients that publish with QoS 1 and are acknowledged, MQTT 5, messages
crossing segments, or one message per packet; a seeded generator makes it. tshark and dpkt read its first tenth: they are
slow, and in step with the octets.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import dpkt
import inputs
import mqtt5
import numpy
from ratios import compare, versions
from zmqtt._internal.packets import codec as zmqtt_codec

from wirefmt import capture

MESSAGES = 200_000
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "mqtt.msgtype", "mqtt.topic", "mqtt.msgid", "mqtt.qos", "mqtt.msg")


def ours(path: Path, **options: object) -> int:
    with capture.read(path, **options) as reader:
        return sum(batch.num_rows for batch in reader)


def tshark(path: Path) -> None:
    command = ["tshark", "-n", "-r", str(path), "-Y", "mqtt", "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rust_codec(data: bytes) -> tuple[list[object], int]:
    out, at, view = [], 0, memoryview(data)
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
    out, at, view = [], 0, memoryview(data)
    while found := zmqtt_codec.decode(view[at:], version="5.0"):
        message, used = found
        at += used
        if isinstance(message, zmqtt_codec.Publish):
            out.append((message.topic, message.payload, message.qos, message.packet_id))
        else:
            out.append((None, None, None, getattr(message, "packet_id", None)))
    return out, at


def with_dpkt(path: Path, codec: Callable[[bytes], tuple[list[object], int]]) -> int:
    """Every packet, every message; what does not come in order would be lost."""
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
                unit="octet",
            )
            peers = {
                "wirefmt, all columns": lambda p=tenth: ours(p),
                "dpkt and mqtt5 (Rust)": lambda p=tenth: with_dpkt(p, rust_codec),
                "dpkt and zmqtt": lambda p=tenth: with_dpkt(p, python_codec),
            }
            if shutil.which("tshark"):
                peers["tshark -T fields"] = lambda p=tenth: tshark(p)
            compare(f"Capture to messages, peers, {title}", peers, units=small, unit="octet", rounds=3)


if __name__ == "__main__":
    main()
