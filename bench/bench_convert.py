"""How long does a conversion take, octets in, octets out, beside pamqp reading one content header with five properties? And what
adds a Container, which derives the annotations and converts (`to`), also with them (`deliver`)?

    python bench/bench_convert.py

RabbitMQ's own code took 2.3 to 5.6 us per message (random messages of the vectors, by direction) on a machine where pamqp
took 6.6 us to read such a header: compare ratios. Needs pamqp.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pamqp import commands, frame, header

from wirefmt.convert import Container, Wire, convert
from wirefmt.errors import ConversionError

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "conversions" / "public.jsonl"
ROUNDS = 30
DIRECTIONS = [(a, b) for a in ("amqp10", "amqp091", "mqtt5") for b in ("amqp10", "amqp091", "mqtt5") if a != b]


def messages(source: str, target: str) -> list[Wire]:
    """The random messages of a direction that the server converts."""
    out = []
    with VECTORS.open() as lines:
        for line in lines:
            case = json.loads(line)
            if (case["from"], case["to"], case["path"]) != (source, target, "convert") or "random" not in case["rule"]:
                continue
            if case.get("error"):
                continue
            octets = case["input_hex"]
            if source == "amqp091":
                properties, body = (bytes.fromhex(octets[name]) for name in ("properties_hex", "body_hex"))
                out.append(Wire("amqp091", properties, body))
            else:
                out.append(Wire(source, bytes.fromhex(octets)))  # type: ignore[arg-type]
    return out


def best(work: Callable[[], None], count: int) -> float:
    """Microseconds per message: the median of the better half of the rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(sorted(times)[: ROUNDS // 2])


def yardstick() -> float:
    properties = commands.Basic.Properties(
        content_type="application/json", delivery_mode=2, correlation_id="c-1", message_id="m-1", app_id="bench"
    )
    octets = frame.marshal(header.ContentHeader(0, 100, properties), 1)

    def work() -> None:
        for _ in range(200):
            frame.unmarshal(octets)

    return best(work, 200)


def main() -> None:
    unit = yardstick()
    print(f"pamqp, content header of five properties   {unit:6.2f} us   1.00")
    for source, target in DIRECTIONS:
        every = messages(source, target)
        for dialect in ("documented", "rabbitmq-4.3"):
            good = []
            for message in every:
                try:
                    convert(message, to=target, dialect=dialect, routing_key="k")  # type: ignore[arg-type]
                    good.append(message)
                except ConversionError:
                    continue

            def work(good: list[Wire] = good, target: str = target, dialect: str = dialect) -> None:
                for message in good:
                    convert(message, to=target, dialect=dialect, routing_key="k")  # type: ignore[arg-type]

            def kept(good: list[Wire] = good, target: str = target, dialect: str = dialect, verb: str = "to") -> None:
                for message in good:
                    getattr(Container(message, routing_key="k", dialect=dialect, now_ms=1), verb)(target)

            took = best(work, len(good))
            to, deliver = best(kept, len(good)), best(partial(kept, verb="deliver"), len(good))
            print(
                f"{source:8} -> {target:8} {dialect:13} {len(good):4} messages {took:6.2f} us   {took / unit:.2f}"
                f"   Container.to {to:6.2f} us   .deliver {deliver:6.2f} us"
            )


if __name__ == "__main__":
    main()
