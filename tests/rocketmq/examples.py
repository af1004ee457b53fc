"""RocketMQ for the tests that go over all protocols. lib/protocols.py says what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lib import rocketmq_vectors
from lib.planted_secret import CLIENT, MARKER, OCTETS, SERVER
from wirefmt import rocketmq
from wirefmt.rocketmq import spec

OPENING: tuple[bytes, bytes, list[Any]] = (
    rocketmq.RemotingCommand(code=105, opaque=7, ext_fields={"topic": "t"}).encode(),
    rocketmq.RemotingCommand(code=0, flag=1, opaque=7).encode(),
    [],
)

USES = (
    lambda thing: rocketmq.encode_batch_messages([thing]),
    lambda thing: rocketmq.RemotingCommand(code=1, header=thing, ext_fields=thing, body=thing),
    lambda thing: rocketmq.MessageExt(topic="t", born_host=thing, store_host=thing, properties=thing),
)


def samples() -> Iterator[Callable[..., Any]]:
    for v in rocketmq_vectors.load()[:200]:
        yield lambda v=v: rocketmq.decode(v.octets)
        yield lambda v=v: rocketmq.decode_messages(v.octets)[0]
        yield lambda v=v: rocketmq.decode(v.octets).header
        yield lambda v=v: rocketmq.decode(v.octets).decode_body()
    yield lambda: rocketmq.Message(body=b"x", properties={"a": "b"})


# ---- secrets


def plants() -> list[tuple[int, Any]]:
    names = "AccessKey accessKey SecretKey secretkey Signature SIGNATURE securityToken SecurityToken"
    fields = dict.fromkeys(names.split(), MARKER)
    properties = f"TAGS\x01a\x02password\x01{MARKER}\x02UNIQ_KEY\x01u\x02"
    user = b'{"username":"u", "password": "%s"}' % OCTETS
    config = b"brokerName=a\naclSecretKey = %s\n" % OCTETS
    found: list[tuple[int, Any]] = []
    for i, row in enumerate(spec.REQUEST_CODES):
        letters = row.code in (310, 320, 325)
        more = {"i": properties, "b": "T"} if letters else {"properties": properties, "topic": "T"}
        body = user if 3001 <= row.code <= 3005 else config if "CONFIG" in row.name else b""
        form: Any = "ROCKETMQ" if i % 2 and row.code < 1 << 15 else "JSON"
        found.append((CLIENT, rocketmq.RemotingCommand(
            code=row.code, opaque=i, ext_fields=fields | more, body=body, serialize_type=form)))  # fmt: skip
        found.append((SERVER, rocketmq.RemotingCommand(code=0, flag=1, opaque=i, ext_fields=fields, body=body)))
    stored = rocketmq.MessageExt(topic="T", body=b"21.5", properties=properties, store_host=("192.0.2.1", 10911))
    found.append((CLIENT, rocketmq.RemotingCommand(code=11, opaque=9000, ext_fields={"topic": "T"})))
    found.append((SERVER, rocketmq.RemotingCommand(code=0, flag=1, opaque=9000, body=stored.encode())))
    return found
