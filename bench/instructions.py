"""How many instructions does one message take? callgrind counts them: the same on every run, whatever else the machine does.

    python bench/instructions.py                                  this checkout, built in place
    python bench/instructions.py --before TREE --threshold 3      and another one; exit status 1 if a case takes 3 % more
    python bench/instructions.py --case mqtt_decode_batch

A case runs in a process of its own, once with few rounds and once with more. The difference is what the rounds took, without the
start of Python. It needs valgrind. Ratios say more than numbers, which depend on compiler and Python.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEW, MORE = 2, 12
MESSAGES = 200


def capture_of(name: str) -> bytes:
    import inputs
    import insight_inputs

    packets = enumerate(insight_inputs.packets(name, MESSAGES, pairs=1))
    return inputs.PCAP_HEADER + b"".join(
        struct.pack("<IIII", 1_700_000_000, 20 * i, len(packet), len(packet)) + packet for i, packet in packets
    )


def cases() -> dict[str, Callable[[], object]]:
    """Each takes some 200 messages. What they import is imported only by the process that runs them."""
    from wirefmt import amqp091, amqp10, capture, convert, mqtt, nsq, rocketmq

    def publish(i: int) -> mqtt.Publish:
        properties = (("content_type", "text/plain"), ("user_property", ("site", "north")))
        topic = f"plant/line-{i % 20}"
        return mqtt.Publish(
            topic_name=topic, payload=b"21.5" * 8, qos=1, packet_identifier=i + 1, properties=properties, version=5
        )

    def content(i: int) -> bytes:
        properties = amqp091.BasicProperties(content_type="text/plain", headers={"site": "north", "n": i})
        return amqp091.BasicMessage(
            amqp091.BasicPublish(channel=1, routing_key="orders"), properties, b"21.5" * 8
        ).encode()

    def transfer(i: int) -> bytes:
        message = amqp10.Message(application_properties={"site": "north"}, body=b"21.5" * 8).encode()
        return amqp10.Transfer(
            handle=0, delivery_id=i, delivery_tag=b"%d" % i, message_format=0, payload=message
        ).encode()

    def measured(i: int) -> bytes:
        values = {"temperature": 21.5, "pressure": 1013.25 + i / 7, "wind": amqp10.Float(i / 3)}
        return amqp10.Transfer(
            handle=0,
            delivery_id=i,
            delivery_tag=b"t",
            payload=amqp10.Message(application_properties=values, body=b"").encode(),
        ).encode()

    packets = [publish(i) for i in range(MESSAGES)]
    mqtt_bytes = b"".join(packet.encode() for packet in packets)
    contents = b"".join(map(content, range(MESSAGES)))
    transfers = b"".join(map(transfer, range(MESSAGES)))
    measurements = b"".join(map(measured, range(MESSAGES)))
    fields = {"topic": "Orders", "queueId": "3"}
    commands = b"".join(
        rocketmq.RemotingCommand(code=10, opaque=i, ext_fields=fields, body=b"21.5").encode() for i in range(MESSAGES)
    )
    published = b"".join(nsq.Publish(topic="orders", body=b"21.5" * 8).encode() for _ in range(MESSAGES))
    batch = mqtt.decode_batch(mqtt_bytes, version=5)
    sample = ROOT / "samples" / "mosquitto-paho-v5.pcap"

    def read() -> None:
        with capture.read(sample) as reader:
            for _ in reader:
                pass

    def of_insight(name: str, *tables: str) -> Callable[[], object]:
        """The capture is made in the first round."""
        made: list[bytes] = []

        def run() -> None:
            if not made:
                made.append(capture_of(name))
            source = io.BytesIO(made[0])
            for _ in capture.read_tables(source, tables) if tables else capture.read(source):
                pass

        return run

    every = ("messages", "connections", "operations", "paths", "findings")
    return {
        "mqtt_decode": lambda: [p.topic_name for p in mqtt.Decoder(version=5).feed(mqtt_bytes)],  # type: ignore[attr-defined]
        "mqtt_construct": lambda: [publish(i) for i in range(MESSAGES)],
        "mqtt_decode_batch": lambda: mqtt.decode_batch(mqtt_bytes, version=5),
        "mqtt_encode_batch": lambda: mqtt.encode_batch(batch, version=5),
        "amqp091_assemble": lambda: amqp091.Assembler().feed(contents),
        "amqp091_decode_batch": lambda: amqp091.decode_batch(contents),
        "amqp10_decode": lambda: amqp10.Decoder().feed(transfers),
        "amqp10_decode_batch": lambda: amqp10.decode_batch(transfers),
        "amqp10_decode_batch_floats": lambda: amqp10.decode_batch(measurements),
        "rocketmq_decode_batch": lambda: rocketmq.decode_batch(commands),
        "nsq_decode": lambda: nsq.Decoder(side="client").feed(published),
        "convert_mqtt5_to_amqp10": lambda: [convert.convert(packet, to="amqp10") for packet in packets],
        "capture_read": read,
        **{
            f"insight_{name.replace(', QoS ', '_')}_{kind}": of_insight(name, *tables)
            for name in ("mqtt, QoS 0", "mqtt, QoS 1", "amqp091", "amqp10", "rocketmq", "nsq", "phpmq")
            for kind, tables in (("messages", ()), ("tables", every))
        },
    }


def count(tree: Path, case: str) -> int:
    """Instructions of a round of a case, with the modules that are built in `tree`."""
    collected = []
    for rounds in (FEW, MORE):
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, __file__]
        environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "PYTHONPATH": str(tree / "src")}
        done = subprocess.run(
            [*command, "--run", case, "--rounds", str(rounds)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        found = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode or found is None:
            raise SystemExit(f"{case} with {tree}: {done.stderr[-2000:]}")
        collected.append(int(found[1]))
    return (collected[1] - collected[0]) // (MORE - FEW)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--case", action="append", help="only this one; repeatable")
    parser.add_argument("--before", type=Path, help="a checkout, built in place, to compare with")
    parser.add_argument("--threshold", type=float, default=3.0, help="per cent")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        case = cases()[options.run]
        for _ in range(options.rounds):
            case()
        return 0
    names = options.case or list(cases())
    dearer = []
    if options.before is None:
        print("| case | instructions |\n|---|---|")
    else:
        print("| case | before | after | ratio |\n|---|---|---|---|")
    for name in names:
        after = count(ROOT, name)
        if options.before is None:
            print(f"| {name} | {after:,} |", flush=True)
            continue
        before = count(options.before.resolve(), name)
        print(f"| {name} | {before:,} | {after:,} | {after / before:.3f} |", flush=True)
        if after > before * (1 + options.threshold / 100):
            dearer.append(name)
    if dearer:
        print(f"\nMore than {options.threshold:g} % dearer: {', '.join(dearer)}")
    return 1 if dearer else 0


if __name__ == "__main__":
    sys.exit(main())
