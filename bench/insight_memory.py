"""Is the memory of insight bounded? Peak resident memory of very many connections, and of very many open operations.

    python bench/insight_memory.py

Each case runs in a process of its own: 10^4 and 10^5 connections of MQTT clients, through all five tables; 10^5 and 10^7
publishes of one AMQP 0.9.1 channel that no server confirms.
"""

from __future__ import annotations

import io
import json
import resource
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from wirefmt import amqp091, capture, insight, mqtt

TABLES = ("messages", "connections", "operations", "paths", "findings")
SYN, ACK, FIN = 2, 16, 1
HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101)  # raw IP


def packet(
    ends: tuple[tuple[int, int], tuple[int, int]], side: int, seq: list[int], flags: int, payload: bytes
) -> bytes:
    (src, sport), (dst, dport) = ends[side], ends[1 - side]
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, src, dst)
    tcp = struct.pack(">HHIIBBHHH", sport, dport, seq[side], seq[1 - side], 0x50, flags, 65535, 0, 0)
    seq[side] += len(payload) + bool(flags & (SYN | FIN))
    return ip + tcp + payload


def conversation(client: int, port: int, said: list[tuple[int, bytes]]) -> Iterator[bytes]:
    ends, seq = ((client, 40000), (0x0A000001, port)), [100, 200]
    yield packet(ends, 0, seq, SYN, b"")
    yield packet(ends, 1, seq, SYN | ACK, b"")
    for side, octets in said:
        for at in range(0, len(octets), 1400):
            yield packet(ends, side, seq, ACK, octets[at : at + 1400])
    yield packet(ends, 0, seq, FIN | ACK, b"")
    yield packet(ends, 1, seq, FIN | ACK, b"")
    yield packet(ends, 0, seq, ACK, b"")


def record(number: int, octets: bytes) -> bytes:
    return (
        struct.pack("<IIII", 1_700_000_000 + number // 10_000, number % 10_000 * 100, len(octets), len(octets)) + octets
    )


def connections(count: int) -> int:
    """Returns the rows of all tables."""
    accepted = mqtt.Connack(version=5).encode()
    number = 0
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        file.write(HEAD)
        for client in range(count):
            login = mqtt.Connect(client_identifier=f"client-{client}", version=5).encode()
            publish = mqtt.Publish(
                topic_name="t", payload=b"%d" % client, qos=1, packet_identifier=1, version=5
            ).encode()
            said = [(0, login), (1, accepted), (0, publish), (0, mqtt.Disconnect(version=5).encode())]
            for octets in conversation(0x0B000000 + client, 1883, said):
                file.write(record(number, octets))
                number += 1
        file.flush()
        return sum(batch.num_rows for _, batch in capture.read_tables(file.name, TABLES))


def open_operations(count: int) -> int:
    """Returns how many operations were given up."""
    publish = amqp091.BasicMessage(method=amqp091.BasicPublish(channel=1, routing_key="orders"), body=b"b").encode()
    part = 10_000
    said = [(0, b"AMQP\0\0\x09\x01" + amqp091.ConfirmSelect(channel=1).encode() + publish * part)]
    frames = b"".join(record(n, octets) for n, octets in enumerate(conversation(0x0B000000, 5672, said)))
    with capture.read(io.BytesIO(HEAD + frames)) as reader:
        batches = list(reader)
    engine = insight.Insight()
    for _ in range(count // part):
        for batch in batches:
            engine.messages(batch)
        engine.take_operations()
    return int(engine.stats["operations_evicted"])


CASES: dict[str, tuple[Callable[[int], int], str]] = {
    "connections": (connections, "rows"),
    "operations": (open_operations, "given up"),
}


def main() -> None:
    for name, count in (("connections", 10**4), ("connections", 10**5), ("operations", 10**5), ("operations", 10**7)):
        run = subprocess.run([sys.executable, __file__, name, str(count)], check=True, stdout=subprocess.PIPE)
        told = json.loads(run.stdout)
        print(
            f"{count:12,} {name:12} {told['result']:12,} {CASES[name][1]:9} peak {told['peak'] / 1e6:8.1f} MB",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        result = CASES[sys.argv[1]][0](int(sys.argv[2]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"result": result, "peak": peak, "name": Path(__file__).name}))
    else:
        main()
