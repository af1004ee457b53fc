"""The typed face of the codec of AMQP 0.9.1, in the order of its rooms."""

import sys
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeAlias, final

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch, FrameDecoder, _ArrowColumns
from wirefmt.framing import Limits, NeedData
from wirefmt.strictness import Note, Strictness

_Side: TypeAlias = Literal["client", "server"]

# ---- values
_FieldType: TypeAlias = Literal[
    "t", "b", "B", "s", "u", "I", "i", "l", "L", "f", "d", "D", "S", "A", "T", "F", "V", "x"
]
_Table: TypeAlias = Mapping[Any, Any] | Iterable[tuple[str | bytes, Any]]

class Timestamp(int):
    @classmethod
    def of(cls, moment: datetime) -> Self: ...
    def to_datetime(self) -> datetime: ...

@final
class FieldValue:
    __match_args__ = ("letter", "value")
    value: Final[Any]
    def __init__(self, letter: str, value: Any) -> None: ...
    @property
    def letter(self) -> _FieldType: ...
    @property
    def type(self) -> str: ...
    def __hash__(self) -> int: ...

@final
class FieldTable(Mapping[str | bytes, Any]):
    def __init__(self, source: _Table = (), /) -> None: ...
    @classmethod
    def decode(cls, data: Buffer, /) -> FieldTable: ...
    def encode(self) -> bytes: ...
    @property
    def pairs(self) -> tuple[tuple[str | bytes, Any], ...]: ...
    @property
    def entries(self) -> tuple[tuple[str | bytes, _FieldType, Any], ...]: ...
    def __getitem__(self, name: str | bytes, /) -> Any: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str | bytes]: ...
    def get(self, name: str | bytes, default: Any = None, /) -> Any: ...
    def keys(self) -> KeysView[str | bytes]: ...
    def values(self) -> ValuesView[Any]: ...
    def items(self) -> ItemsView[str | bytes, Any]: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

@final
class FieldArray:
    def __init__(self, source: Iterable[Any] = (), /) -> None: ...
    def encode(self) -> bytes: ...
    @property
    def items(self) -> tuple[tuple[_FieldType, Any], ...]: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def restore_value(is_table: bool, octets: bytes) -> FieldTable | FieldArray: ...

# ---- objects
@final
class BasicProperties:
    __match_args__ = (
        "content_type",
        "content_encoding",
        "headers",
        "delivery_mode",
        "priority",
        "correlation_id",
        "reply_to",
        "expiration",
        "message_id",
        "timestamp",
        "type",
        "user_id",
        "app_id",
        "cluster_id",
    )
    content_type: Final[str | bytes | None]
    content_encoding: Final[str | bytes | None]
    headers: Final[FieldTable | None]
    delivery_mode: Final[int | None]
    priority: Final[int | None]
    correlation_id: Final[str | bytes | None]
    reply_to: Final[str | bytes | None]
    expiration: Final[str | bytes | None]
    message_id: Final[str | bytes | None]
    timestamp: Final[int | None]
    type: Final[str | bytes | None]
    user_id: Final[str | bytes | None]
    app_id: Final[str | bytes | None]
    cluster_id: Final[str | bytes | None]
    def __init__(
        self,
        *,
        content_type: str | bytes | None = None,
        content_encoding: str | bytes | None = None,
        headers: _Table | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | bytes | None = None,
        expiration: str | bytes | None = None,
        message_id: str | bytes | None = None,
        timestamp: int | datetime | None = None,
        type: str | bytes | None = None,
        user_id: str | bytes | None = None,
        app_id: str | bytes | None = None,
        cluster_id: str | bytes | None = None,
    ) -> None: ...
    @classmethod
    def decode(cls, data: Buffer, /) -> BasicProperties: ...
    def encode(self) -> bytes: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

@disjoint_base
class Frame:
    @property
    def channel(self) -> int: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def encode(self) -> bytes: ...
    def detach(self) -> Self: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

class Method(Frame):
    @property
    def ids(self) -> tuple[int, int]: ...
    @property
    def name(self) -> str: ...
    @property
    def has_content(self) -> bool: ...
    @property
    def synchronous(self) -> bool: ...

@final
class ContentHeader(Frame):
    __match_args__ = ("channel", "body_size", "properties")
    def __init__(self, *, channel: int, body_size: int = 0, properties: BasicProperties | None = None) -> None: ...
    @property
    def class_id(self) -> int: ...
    @property
    def weight(self) -> int: ...
    @property
    def body_size(self) -> int: ...
    @property
    def properties(self) -> BasicProperties: ...

@final
class Body(Frame):
    __match_args__ = ("channel", "payload")
    def __init__(self, *, channel: int, payload: Buffer) -> None: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

    @property
    def payload(self) -> memoryview: ...
    def payload_bytes(self) -> bytes: ...

@final
class Heartbeat(Frame):
    __match_args__ = ()
    def __init__(self) -> None: ...

@final
class ProtocolHeader(Frame):
    __match_args__ = ("octets",)
    def __init__(self, octets: Buffer = b"\x00\x00\x09\x01") -> None: ...
    @property
    def octets(self) -> bytes: ...

def restore(octets: bytes, side: int, noted: bool) -> Frame: ...
def restore_properties(octets: bytes) -> BasicProperties: ...

# ---- methods
@final
class ConnectionStart(Method):
    __match_args__ = ("channel", "version_major", "version_minor", "server_properties", "mechanisms", "locales")
    version_major: Final[int]
    version_minor: Final[int]
    server_properties: Final[FieldTable]
    mechanisms: Final[bytes]
    locales: Final[bytes]
    def __init__(
        self,
        *,
        channel: int = 0,
        version_major: int = 0,
        version_minor: int = 9,
        server_properties: _Table,
        mechanisms: Buffer | str = b"PLAIN",
        locales: Buffer | str = b"en_US",
    ) -> None: ...

@final
class ConnectionStartOk(Method):
    __match_args__ = ("channel", "client_properties", "mechanism", "response", "locale")
    client_properties: Final[FieldTable]
    mechanism: Final[str | bytes]
    response: Final[bytes]
    locale: Final[str | bytes]
    def __init__(
        self,
        *,
        channel: int = 0,
        client_properties: _Table,
        mechanism: str | bytes = "PLAIN",
        response: Buffer | str,
        locale: str | bytes = "en_US",
    ) -> None: ...

@final
class ConnectionSecure(Method):
    __match_args__ = ("channel", "challenge")
    challenge: Final[bytes]
    def __init__(self, *, channel: int = 0, challenge: Buffer | str) -> None: ...

@final
class ConnectionSecureOk(Method):
    __match_args__ = ("channel", "response")
    response: Final[bytes]
    def __init__(self, *, channel: int = 0, response: Buffer | str) -> None: ...

@final
class ConnectionTune(Method):
    __match_args__ = ("channel", "channel_max", "frame_max", "heartbeat")
    channel_max: Final[int]
    frame_max: Final[int]
    heartbeat: Final[int]
    def __init__(self, *, channel: int = 0, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None: ...

@final
class ConnectionTuneOk(Method):
    __match_args__ = ("channel", "channel_max", "frame_max", "heartbeat")
    channel_max: Final[int]
    frame_max: Final[int]
    heartbeat: Final[int]
    def __init__(self, *, channel: int = 0, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None: ...

@final
class ConnectionOpen(Method):
    __match_args__ = ("channel", "virtual_host", "capabilities", "insist")
    virtual_host: Final[str | bytes]
    capabilities: Final[str | bytes]
    insist: Final[bool]
    def __init__(
        self, *, channel: int = 0, virtual_host: str | bytes = "/", capabilities: str | bytes = "", insist: bool = False
    ) -> None: ...

@final
class ConnectionOpenOk(Method):
    __match_args__ = ("channel", "known_hosts")
    known_hosts: Final[str | bytes]
    def __init__(self, *, channel: int = 0, known_hosts: str | bytes = "") -> None: ...

@final
class ConnectionClose(Method):
    __match_args__ = ("channel", "reply_code", "reply_text", "class_id", "method_id")
    reply_code: Final[int]
    reply_text: Final[str | bytes]
    class_id: Final[int]
    method_id: Final[int]
    def __init__(
        self, *, channel: int = 0, reply_code: int, reply_text: str | bytes = "", class_id: int, method_id: int
    ) -> None: ...

@final
class ConnectionCloseOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int = 0) -> None: ...

@final
class ConnectionBlocked(Method):
    __match_args__ = ("channel", "reason")
    reason: Final[str | bytes]
    def __init__(self, *, channel: int = 0, reason: str | bytes = "") -> None: ...

@final
class ConnectionUnblocked(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int = 0) -> None: ...

@final
class ConnectionUpdateSecret(Method):
    __match_args__ = ("channel", "new_secret", "reason")
    new_secret: Final[bytes]
    reason: Final[str | bytes]
    def __init__(self, *, channel: int = 0, new_secret: Buffer | str, reason: str | bytes) -> None: ...

@final
class ConnectionUpdateSecretOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int = 0) -> None: ...

@final
class ChannelOpen(Method):
    __match_args__ = ("channel", "out_of_band")
    out_of_band: Final[str | bytes]
    def __init__(self, *, channel: int, out_of_band: str | bytes = "") -> None: ...

@final
class ChannelOpenOk(Method):
    __match_args__ = ("channel", "channel_id")
    channel_id: Final[bytes]
    def __init__(self, *, channel: int, channel_id: Buffer | str = b"") -> None: ...

@final
class ChannelFlow(Method):
    __match_args__ = ("channel", "active")
    active: Final[bool]
    def __init__(self, *, channel: int, active: bool) -> None: ...

@final
class ChannelFlowOk(Method):
    __match_args__ = ("channel", "active")
    active: Final[bool]
    def __init__(self, *, channel: int, active: bool) -> None: ...

@final
class ChannelClose(Method):
    __match_args__ = ("channel", "reply_code", "reply_text", "class_id", "method_id")
    reply_code: Final[int]
    reply_text: Final[str | bytes]
    class_id: Final[int]
    method_id: Final[int]
    def __init__(
        self, *, channel: int, reply_code: int, reply_text: str | bytes = "", class_id: int, method_id: int
    ) -> None: ...

@final
class ChannelCloseOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class AccessRequest(Method):
    __match_args__ = ("channel", "realm", "exclusive", "passive", "active", "write", "read")
    realm: Final[str | bytes]
    exclusive: Final[bool]
    passive: Final[bool]
    active: Final[bool]
    write: Final[bool]
    read: Final[bool]
    def __init__(
        self,
        *,
        channel: int,
        realm: str | bytes = "/data",
        exclusive: bool = False,
        passive: bool = True,
        active: bool = True,
        write: bool = True,
        read: bool = True,
    ) -> None: ...

@final
class AccessRequestOk(Method):
    __match_args__ = ("channel", "ticket")
    ticket: Final[int]
    def __init__(self, *, channel: int, ticket: int = 1) -> None: ...

@final
class ExchangeDeclare(Method):
    __match_args__ = (
        "channel",
        "ticket",
        "exchange",
        "type",
        "passive",
        "durable",
        "auto_delete",
        "internal",
        "nowait",
        "arguments",
    )
    ticket: Final[int]
    exchange: Final[str | bytes]
    type: Final[str | bytes]
    passive: Final[bool]
    durable: Final[bool]
    auto_delete: Final[bool]
    internal: Final[bool]
    nowait: Final[bool]
    arguments: Final[FieldTable]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        exchange: str | bytes,
        type: str | bytes = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        nowait: bool = False,
        arguments: _Table = (),
    ) -> None: ...

@final
class ExchangeDeclareOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class ExchangeDelete(Method):
    __match_args__ = ("channel", "ticket", "exchange", "if_unused", "nowait")
    ticket: Final[int]
    exchange: Final[str | bytes]
    if_unused: Final[bool]
    nowait: Final[bool]
    def __init__(
        self, *, channel: int, ticket: int = 0, exchange: str | bytes, if_unused: bool = False, nowait: bool = False
    ) -> None: ...

@final
class ExchangeDeleteOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class ExchangeBind(Method):
    __match_args__ = ("channel", "ticket", "destination", "source", "routing_key", "nowait", "arguments")
    ticket: Final[int]
    destination: Final[str | bytes]
    source: Final[str | bytes]
    routing_key: Final[str | bytes]
    nowait: Final[bool]
    arguments: Final[FieldTable]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        destination: str | bytes,
        source: str | bytes,
        routing_key: str | bytes = "",
        nowait: bool = False,
        arguments: _Table = (),
    ) -> None: ...

@final
class ExchangeBindOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class ExchangeUnbind(Method):
    __match_args__ = ("channel", "ticket", "destination", "source", "routing_key", "nowait", "arguments")
    ticket: Final[int]
    destination: Final[str | bytes]
    source: Final[str | bytes]
    routing_key: Final[str | bytes]
    nowait: Final[bool]
    arguments: Final[FieldTable]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        destination: str | bytes,
        source: str | bytes,
        routing_key: str | bytes = "",
        nowait: bool = False,
        arguments: _Table = (),
    ) -> None: ...

@final
class ExchangeUnbindOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class QueueDeclare(Method):
    __match_args__ = (
        "channel",
        "ticket",
        "queue",
        "passive",
        "durable",
        "exclusive",
        "auto_delete",
        "nowait",
        "arguments",
    )
    ticket: Final[int]
    queue: Final[str | bytes]
    passive: Final[bool]
    durable: Final[bool]
    exclusive: Final[bool]
    auto_delete: Final[bool]
    nowait: Final[bool]
    arguments: Final[FieldTable]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        queue: str | bytes = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        nowait: bool = False,
        arguments: _Table = (),
    ) -> None: ...

@final
class QueueDeclareOk(Method):
    __match_args__ = ("channel", "queue", "message_count", "consumer_count")
    queue: Final[str | bytes]
    message_count: Final[int]
    consumer_count: Final[int]
    def __init__(self, *, channel: int, queue: str | bytes, message_count: int, consumer_count: int) -> None: ...

@final
class QueueBind(Method):
    __match_args__ = ("channel", "ticket", "queue", "exchange", "routing_key", "nowait", "arguments")
    ticket: Final[int]
    queue: Final[str | bytes]
    exchange: Final[str | bytes]
    routing_key: Final[str | bytes]
    nowait: Final[bool]
    arguments: Final[FieldTable]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        queue: str | bytes = "",
        exchange: str | bytes,
        routing_key: str | bytes = "",
        nowait: bool = False,
        arguments: _Table = (),
    ) -> None: ...

@final
class QueueBindOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class QueuePurge(Method):
    __match_args__ = ("channel", "ticket", "queue", "nowait")
    ticket: Final[int]
    queue: Final[str | bytes]
    nowait: Final[bool]
    def __init__(self, *, channel: int, ticket: int = 0, queue: str | bytes = "", nowait: bool = False) -> None: ...

@final
class QueuePurgeOk(Method):
    __match_args__ = ("channel", "message_count")
    message_count: Final[int]
    def __init__(self, *, channel: int, message_count: int) -> None: ...

@final
class QueueDelete(Method):
    __match_args__ = ("channel", "ticket", "queue", "if_unused", "if_empty", "nowait")
    ticket: Final[int]
    queue: Final[str | bytes]
    if_unused: Final[bool]
    if_empty: Final[bool]
    nowait: Final[bool]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        queue: str | bytes = "",
        if_unused: bool = False,
        if_empty: bool = False,
        nowait: bool = False,
    ) -> None: ...

@final
class QueueDeleteOk(Method):
    __match_args__ = ("channel", "message_count")
    message_count: Final[int]
    def __init__(self, *, channel: int, message_count: int) -> None: ...

@final
class QueueUnbind(Method):
    __match_args__ = ("channel", "ticket", "queue", "exchange", "routing_key", "arguments")
    ticket: Final[int]
    queue: Final[str | bytes]
    exchange: Final[str | bytes]
    routing_key: Final[str | bytes]
    arguments: Final[FieldTable]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        queue: str | bytes = "",
        exchange: str | bytes,
        routing_key: str | bytes = "",
        arguments: _Table = (),
    ) -> None: ...

@final
class QueueUnbindOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class BasicQos(Method):
    __match_args__ = ("channel", "prefetch_size", "prefetch_count", "global_")
    prefetch_size: Final[int]
    prefetch_count: Final[int]
    global_: Final[bool]
    def __init__(
        self, *, channel: int, prefetch_size: int = 0, prefetch_count: int = 0, global_: bool = False
    ) -> None: ...

@final
class BasicQosOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class BasicConsume(Method):
    __match_args__ = (
        "channel",
        "ticket",
        "queue",
        "consumer_tag",
        "no_local",
        "no_ack",
        "exclusive",
        "nowait",
        "arguments",
    )
    ticket: Final[int]
    queue: Final[str | bytes]
    consumer_tag: Final[str | bytes]
    no_local: Final[bool]
    no_ack: Final[bool]
    exclusive: Final[bool]
    nowait: Final[bool]
    arguments: Final[FieldTable]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        queue: str | bytes = "",
        consumer_tag: str | bytes = "",
        no_local: bool = False,
        no_ack: bool = False,
        exclusive: bool = False,
        nowait: bool = False,
        arguments: _Table = (),
    ) -> None: ...

@final
class BasicConsumeOk(Method):
    __match_args__ = ("channel", "consumer_tag")
    consumer_tag: Final[str | bytes]
    def __init__(self, *, channel: int, consumer_tag: str | bytes) -> None: ...

@final
class BasicCancel(Method):
    __match_args__ = ("channel", "consumer_tag", "nowait")
    consumer_tag: Final[str | bytes]
    nowait: Final[bool]
    def __init__(self, *, channel: int, consumer_tag: str | bytes, nowait: bool = False) -> None: ...

@final
class BasicCancelOk(Method):
    __match_args__ = ("channel", "consumer_tag")
    consumer_tag: Final[str | bytes]
    def __init__(self, *, channel: int, consumer_tag: str | bytes) -> None: ...

@final
class BasicPublish(Method):
    __match_args__ = ("channel", "ticket", "exchange", "routing_key", "mandatory", "immediate")
    ticket: Final[int]
    exchange: Final[str | bytes]
    routing_key: Final[str | bytes]
    mandatory: Final[bool]
    immediate: Final[bool]
    def __init__(
        self,
        *,
        channel: int,
        ticket: int = 0,
        exchange: str | bytes = "",
        routing_key: str | bytes = "",
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None: ...

@final
class BasicReturn(Method):
    __match_args__ = ("channel", "reply_code", "reply_text", "exchange", "routing_key")
    reply_code: Final[int]
    reply_text: Final[str | bytes]
    exchange: Final[str | bytes]
    routing_key: Final[str | bytes]
    def __init__(
        self,
        *,
        channel: int,
        reply_code: int,
        reply_text: str | bytes = "",
        exchange: str | bytes,
        routing_key: str | bytes,
    ) -> None: ...

@final
class BasicDeliver(Method):
    __match_args__ = ("channel", "consumer_tag", "delivery_tag", "redelivered", "exchange", "routing_key")
    consumer_tag: Final[str | bytes]
    delivery_tag: Final[int]
    redelivered: Final[bool]
    exchange: Final[str | bytes]
    routing_key: Final[str | bytes]
    def __init__(
        self,
        *,
        channel: int,
        consumer_tag: str | bytes,
        delivery_tag: int,
        redelivered: bool = False,
        exchange: str | bytes,
        routing_key: str | bytes,
    ) -> None: ...

@final
class BasicGet(Method):
    __match_args__ = ("channel", "ticket", "queue", "no_ack")
    ticket: Final[int]
    queue: Final[str | bytes]
    no_ack: Final[bool]
    def __init__(self, *, channel: int, ticket: int = 0, queue: str | bytes = "", no_ack: bool = False) -> None: ...

@final
class BasicGetOk(Method):
    __match_args__ = ("channel", "delivery_tag", "redelivered", "exchange", "routing_key", "message_count")
    delivery_tag: Final[int]
    redelivered: Final[bool]
    exchange: Final[str | bytes]
    routing_key: Final[str | bytes]
    message_count: Final[int]
    def __init__(
        self,
        *,
        channel: int,
        delivery_tag: int,
        redelivered: bool = False,
        exchange: str | bytes,
        routing_key: str | bytes,
        message_count: int,
    ) -> None: ...

@final
class BasicGetEmpty(Method):
    __match_args__ = ("channel", "cluster_id")
    cluster_id: Final[str | bytes]
    def __init__(self, *, channel: int, cluster_id: str | bytes = "") -> None: ...

@final
class BasicAck(Method):
    __match_args__ = ("channel", "delivery_tag", "multiple")
    delivery_tag: Final[int]
    multiple: Final[bool]
    def __init__(self, *, channel: int, delivery_tag: int = 0, multiple: bool = False) -> None: ...

@final
class BasicReject(Method):
    __match_args__ = ("channel", "delivery_tag", "requeue")
    delivery_tag: Final[int]
    requeue: Final[bool]
    def __init__(self, *, channel: int, delivery_tag: int, requeue: bool = True) -> None: ...

@final
class BasicRecoverAsync(Method):
    __match_args__ = ("channel", "requeue")
    requeue: Final[bool]
    def __init__(self, *, channel: int, requeue: bool = False) -> None: ...

@final
class BasicRecover(Method):
    __match_args__ = ("channel", "requeue")
    requeue: Final[bool]
    def __init__(self, *, channel: int, requeue: bool = False) -> None: ...

@final
class BasicRecoverOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class BasicNack(Method):
    __match_args__ = ("channel", "delivery_tag", "multiple", "requeue")
    delivery_tag: Final[int]
    multiple: Final[bool]
    requeue: Final[bool]
    def __init__(
        self, *, channel: int, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True
    ) -> None: ...

@final
class ConfirmSelect(Method):
    __match_args__ = ("channel", "nowait")
    nowait: Final[bool]
    def __init__(self, *, channel: int, nowait: bool = False) -> None: ...

@final
class ConfirmSelectOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class TxSelect(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class TxSelectOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class TxCommit(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class TxCommitOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class TxRollback(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class TxRollbackOk(Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

# ---- pending
@final
class BasicMessage:
    __match_args__ = ("method", "properties", "body")
    def __init__(
        self,
        method: Method,
        properties: BasicProperties | None = None,
        body: Buffer = b"",
        *,
        frame_max: int = 131072,
    ) -> None: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

    @property
    def method(self) -> Any: ...
    @property
    def channel(self) -> int: ...
    @property
    def header(self) -> ContentHeader: ...
    @property
    def properties(self) -> BasicProperties: ...
    @property
    def body(self) -> memoryview: ...
    def body_bytes(self) -> bytes: ...
    @property
    def body_sizes(self) -> tuple[int, ...]: ...
    def encode(self, *, frame_max: int | None = None) -> bytes: ...
    def detach(self) -> Self: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def restore_content(method: Method, header: ContentHeader, body: bytes, sizes: Iterable[int]) -> BasicMessage: ...
def decode(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    frame_max: int = 131072,
    channel_max: int = 0,
    limits: Limits | None = None,
) -> Any: ...
def frame_size(
    data: Buffer,
    *,
    strictness: Strictness | str = Strictness.STRICT,
    frame_max: int = 131072,
    limits: Limits | None = None,
) -> int | NeedData: ...
def encode(message: Frame | BasicMessage, /) -> bytes: ...

@disjoint_base
class BaseDecoder(FrameDecoder):
    @property
    def frame_max(self) -> int: ...
    @frame_max.setter
    def frame_max(self, value: int) -> None: ...
    @property
    def channel_max(self) -> int: ...
    @channel_max.setter
    def channel_max(self, value: int) -> None: ...

@final
class Decoder(BaseDecoder):
    def __init__(
        self,
        *,
        side: _Side | None = None,
        strictness: Strictness | str = Strictness.STRICT,
        frame_max: int = 131072,
        channel_max: int = 0,
        limits: Limits | None = None,
    ) -> None: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Frame]: ...

@final
class Assembler(BaseDecoder):
    def __init__(
        self,
        *,
        side: _Side | None = None,
        strictness: Strictness | str = Strictness.STRICT,
        frame_max: int = 131072,
        channel_max: int = 0,
        body_max: int = 536870912,
        pending_max: int = 1073741824,
        limits: Limits | None = None,
    ) -> None: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Frame | BasicMessage]: ...

# ---- batch
def decode_batch(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    body: bool = True,
    expose_credentials: bool = False,
    frame_max: int = 0,
    channel_max: int = 0,
    body_max: int = 536870912,
    limits: Limits | None = None,
) -> Batch: ...
def encode_batch(
    data: _ArrowColumns,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = "strict",
    frame_max: SupportsIndex = ...,
    channel_max: SupportsIndex = 0,
) -> bytes: ...

PROTOCOL: object
