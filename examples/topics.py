"""Which subscriptions does a message of a capture go to? An index of many topic filters.

python examples/topics.py [CAPTURE]
"""

import sys
from collections import Counter
from pathlib import Path

from wirefmt import capture, mqtt

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "mosquitto-paho-v5.pcap"

index: mqtt.TopicIndex[str] = mqtt.TopicIndex()
index.add("#", "everything")
index.add("+/+/#", "two levels and more")
index.add("$SYS/#", "about the broker")

taken: Counter[str] = Counter()
with capture.read(sys.argv[1] if len(sys.argv) > 1 else SAMPLE, columns=["kind", "destination"]) as reader:
    for batch in reader:
        for kind, topic in zip(batch["kind"], batch["destination"], strict=True):
            if kind == "PUBLISH" and topic:
                taken.update(index.match(topic))
for name, count in taken.most_common():
    print(f"{count:6} {name}")
