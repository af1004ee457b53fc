"""How fast does an AMQP 1.0 message become objects with every field read once, and objects a message?

    python bench/bench_amqp10_objects.py

One message: header, properties, ten application properties of several types, one data section of 256 octets. Peers:
python-qpid-proton (`Message.decode`, `Message.encode`) and the decoder of Azure's pyamqp (in azure-servicebus). `lazy` is
our decoder without reading a field. Before timing, the peers' fields are compared with ours.
"""

from __future__ import annotations

from azure.servicebus._pyamqp._decode import decode_payload
from proton import Message as ProtonMessage
from ratios import compare, versions

from wirefmt import amqp10

COUNT = 100
PROPERTIES = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)
KEYS = ("site", "room", "sensor", "unit", "firmware", "sequence", "retries", "battery", "online", "calibrated")


def application_properties(i: int) -> dict[str, object]:
    return dict(
        zip(
            KEYS,
            (
                f"north-{i % 7}",
                f"room-{i % 50:03}",
                f"t{i:05}",
                "celsius",
                "v2.11.4",
                i,
                i % 3,
                3.7 + i / 1000,
                True,
                False,
            ),
            strict=True,
        )
    )


def message(i: int) -> amqp10.Message:
    return amqp10.Message(
        header=amqp10.Header(durable=True, priority=5, ttl=60000, delivery_count=0),
        properties=amqp10.Properties(
            message_id=f"id-{i}",
            user_id=b"guest",
            to="/queues/measurements",
            subject="temperature",
            correlation_id=f"request-{i}",
            content_type="application/octet-stream",
            creation_time=1_700_000_000_000 + i,
        ),
        application_properties=application_properties(i),
        body=bytes((i + k) & 0xFF for k in range(256)),
    )


OCTETS = [message(i).encode() for i in range(COUNT)]


# ---- decoding


def ours() -> None:
    for octets in OCTETS:
        m = amqp10.decode_message(octets)
        h, p = m.header, m.properties
        h.durable, h.priority, h.ttl, h.first_acquirer, h.delivery_count  # type: ignore[union-attr]  # noqa: B018
        p.message_id, p.user_id, p.to, p.subject, p.reply_to, p.correlation_id, p.content_type  # type: ignore[union-attr]  # noqa: B018
        p.content_encoding, p.absolute_expiry_time, p.creation_time, p.group_id  # type: ignore[union-attr]  # noqa: B018
        p.group_sequence, p.reply_to_group_id  # type: ignore[union-attr]  # noqa: B018
        for _ in m.application_properties.items():  # type: ignore[union-attr]
            pass
        m.payload, m.delivery_annotations, m.message_annotations, m.footer  # noqa: B018


def lazy() -> None:
    for octets in OCTETS:
        amqp10.decode_message(octets)


def proton() -> None:
    for octets in OCTETS:
        m = ProtonMessage()
        m.decode(octets)
        m.durable, m.priority, m.ttl, m.first_acquirer, m.delivery_count  # noqa: B018
        m.id, m.user_id, m.address, m.subject, m.reply_to, m.correlation_id, m.content_type  # noqa: B018
        m.content_encoding, m.expiry_time, m.creation_time, m.group_id, m.group_sequence, m.reply_to_group_id  # noqa: B018
        for _ in m.properties.items():
            pass
        m.body, m.instructions, m.annotations  # noqa: B018


def pyamqp() -> None:
    for octets in OCTETS:
        m = decode_payload(memoryview(octets))
        h, p = m.header, m.properties
        h.durable, h.priority, h.ttl, h.first_acquirer, h.delivery_count  # noqa: B018
        p.message_id, p.user_id, p.to, p.subject, p.reply_to, p.correlation_id, p.content_type  # noqa: B018
        p.content_encoding, p.absolute_expiry_time, p.creation_time, p.group_id  # noqa: B018
        p.group_sequence, p.reply_to_group_id  # noqa: B018
        for _ in m.application_properties.items():
            pass
        m.data, m.delivery_annotations, m.message_annotations, m.footer  # noqa: B018


# ---- encoding: from plain values to octets

VALUES = [
    (f"id-{i}", f"request-{i}", 1_700_000_000_000 + i, application_properties(i), bytes(256)) for i in range(COUNT)
]


def ours_encode() -> None:
    for identifier, correlation, created, values, body in VALUES:
        amqp10.Message(
            header=amqp10.Header(durable=True, priority=5, ttl=60000),
            properties=amqp10.Properties(
                message_id=identifier,
                user_id=b"guest",
                to="/queues/measurements",
                subject="temperature",
                correlation_id=correlation,
                content_type="application/octet-stream",
                creation_time=created,
            ),
            application_properties=values,
            body=body,
        ).encode()


def proton_encode() -> None:
    for identifier, correlation, created, values, body in VALUES:
        m = ProtonMessage()
        m.durable, m.priority, m.ttl = True, 5, 60.0
        m.id, m.user_id, m.address, m.subject = identifier, b"guest", "/queues/measurements", "temperature"
        m.correlation_id, m.content_type, m.creation_time = correlation, "application/octet-stream", created / 1000
        m.properties, m.body, m.inferred = values, body, True
        m.encode()


def check() -> None:
    for i, octets in enumerate(OCTETS):
        ours_, theirs, azure = amqp10.decode_message(octets), ProtonMessage(), decode_payload(memoryview(octets))
        theirs.decode(octets)
        assert ours_.application_properties == application_properties(i) == theirs.properties
        assert {
            k.decode(): v.decode() if isinstance(v, bytes) else v for k, v in azure.application_properties.items()
        } == (application_properties(i))
        assert ours_.properties is not None
        assert ours_.properties.message_id == theirs.id == azure.properties.message_id.decode()
        assert bytes(ours_.payload or b"") == bytes(theirs.body) == azure.data[0]
    ours_encode()
    for (identifier, *_, values, body), _ in zip(VALUES, range(3), strict=False):
        made = ProtonMessage()
        made.decode(amqp10.Message(application_properties=values, body=body).encode())
        assert (made.properties, bytes(made.body)) == (values, body), identifier


def main() -> None:
    check()
    print(versions("wirefmt", "python-qpid-proton", "azure-servicebus"))
    compare(
        f"AMQP 1.0 message of {len(OCTETS[0])} octets with ten application properties to objects",
        {"wirefmt, every field": ours, "wirefmt, lazy": lazy, "python-qpid-proton": proton, "pyamqp (Azure)": pyamqp},
        units=COUNT,
    )
    compare(
        "AMQP 1.0 message with ten application properties from values to octets",
        {"wirefmt": ours_encode, "python-qpid-proton": proton_encode},
        units=COUNT,
    )


if __name__ == "__main__":
    main()
