"""Vectors of tests/vectors/rocketmq: octets made or judged by the real Java code, with what it says of them.

`public.jsonl` has an object a line: `id`, `kind`, `hex`, `decoded`. A null key of a map stands as `<null>`; hosts are
`address|port`; an opaque that is null is not in the octets (the real decoder makes one up).
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from lib.paths import VECTORS
from wirefmt import rocketmq

#: Kinds that are one frame, made by a real encoder and read by a real decoder.
FRAMES = {"request", "response", "captured-frame", "acl-signed-request"}


@dataclass(frozen=True, slots=True)
class Vector:
    id: str
    kind: str
    octets: bytes
    decoded: Any
    row: dict[str, Any]


@cache
def load() -> tuple[Vector, ...]:
    rows = map(json.loads, (VECTORS / "rocketmq" / "public.jsonl").read_text(encoding="utf-8").splitlines())
    return tuple(Vector(r["id"], r["kind"], bytes.fromhex(r["hex"]), r["decoded"], r) for r in rows)


def of(*kinds: str) -> list[Vector]:
    return [v for v in load() if v.kind in kinds]


def shown(command: rocketmq.RemotingCommand) -> dict[str, Any]:
    """A command as `decoded` has it."""
    fields = command.ext_fields
    return {
        "code": command.code,
        "language": command.language,
        "version": command.version,
        "opaque": command.opaque,
        "flag": command.flag,
        "remark": command.remark,
        "extFields": None if fields is None else {"<null>" if k is None else k: v for k, v in fields.items()},
        "serializeType": command.serialize_type,
        "isResponse": command.is_response,
        "isOneway": command.is_oneway,
        "body_hex": None if command.body is None else bytes(command.body).hex(),
    }


def host(text: str) -> tuple[str, int]:
    address, port = text.split("|")
    return str(ipaddress.ip_address(address)), int(port)


def message_fields(decoded: dict[str, Any]) -> dict[str, Any]:
    """What `decoded` says of a stored message, by our names."""
    body = decoded["body_hex"]
    return {
        "total_size": decoded["storeSize"],
        "body_crc": decoded["bodyCRC"],
        "queue_id": decoded["queueId"],
        "flag": decoded["flag"],
        "queue_offset": decoded["queueOffset"],
        "physical_offset": decoded["commitLogOffset"],
        "sys_flag": decoded["sysFlag"],
        "born_timestamp": decoded["bornTimestamp"],
        "born_host": host(decoded["bornHost"]),
        "store_timestamp": decoded["storeTimestamp"],
        "store_host": host(decoded["storeHost"]),
        "reconsume_times": decoded["reconsumeTimes"],
        "prepared_transaction_offset": decoded["preparedTransactionOffset"],
        "body": None if body is None else bytes.fromhex(body),
        "topic": decoded["topic"],
        "properties": decoded["properties"],
        "msg_id": decoded["msgId"],
        "offset_msg_id": decoded["offsetMsgId"],
    }


def commands_of(vector: Vector) -> list[Any]:
    """`decoded` of each frame of a vector that is frames, in order."""
    return [vector.decoded] if vector.kind in FRAMES else list(vector.decoded["commands"])


def rebuilt(command: rocketmq.RemotingCommand) -> rocketmq.RemotingCommand:
    """A command built of what another one says: its header class where the code has one, and the fields beside it."""
    fields = command.ext_fields
    header = None if command.is_response else command.header
    if command.is_response and fields:
        for found in (rocketmq.SendMessageResponseHeader, rocketmq.PullMessageResponseHeader):
            try:
                header = command.decode_header(found)
            except ValueError:
                continue
    extra = None if fields is None else {k: v for k, v in fields.items() if k is not None}
    if header is not None and extra is not None:
        known = header.ext_fields()
        extra = {k: v for k, v in extra.items() if k not in known} or None
    return rocketmq.RemotingCommand(
        code=command.code,
        flag=command.flag,
        opaque=command.opaque,
        remark=command.remark,
        ext_fields=extra,
        header=None if fields is None else header,
        body=command.body_bytes(),
        language=command.language,
        version=command.version,
        serialize_type=command.serialize_type,
    )
