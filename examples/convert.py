"""What do the messages of a capture look like in another protocol? RabbitMQ's rules, and what they lose.

python examples/convert.py [CAPTURE [PROTOCOL]]
"""

import sys
from collections import Counter
from pathlib import Path
from typing import cast

import pyarrow as pa

from wirefmt import capture, convert

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "rabbitmq-pyamqp-amqp091.pcap"

source = sys.argv[1] if len(sys.argv) > 1 else SAMPLE
to = cast(convert.Protocol, sys.argv[2] if len(sys.argv) > 2 else "mqtt5")

told: Counter[str] = Counter()
octets: list[int] = []
with capture.read(source, raw=True) as reader:
    for batch in reader:
        rows = convert.convert_table(pa.record_batch(batch), to=to)
        for message in rows.column("converted").drop_null().to_pylist():
            told.update(message["losses"] or ())
            if message["error"]:
                told[f"not converted: {message['error']}"] += 1
            else:
                octets.append(len(message["raw"]))
print(f"{len(octets)} messages, {sum(octets):,} bytes as {to}")
for text, count in told.most_common(10):
    print(f"{count:6} {text}")
