"""The typed face of the codec of AMQP 0.9.1, in the order of its rooms."""

import sys
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeAlias, final

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch, FrameDecoder
from wirefmt.framing import Limits, NeedData
from wirefmt.strictness import Note, Strictness

_Side: TypeAlias = Literal["client", "server"]

# ---- values
_FieldType: TypeAlias = Literal[
    "t", "b", "B", "s", "u", "I", "i", "l", "L", "f", "d", "D", "S", "A", "T", "F", "V", "x"
]
_Table: TypeAlias = Mapping[Any, Any] | Iterable[tuple[str | bytes, Any]]

class Amqp091Timestamp(int):
    @classmethod
    def of(cls, moment: datetime) -> Self: ...
    def to_datetime(self) -> datetime: ...

@final
class Amqp091FieldValue:
    __match_args__ = ("letter", "value")
    value: Final[Any]
    def __init__(self, letter: str, value: Any) -> None: ...
    @property
    def letter(self) -> _FieldType: ...
    @property
    def type(self) -> str: ...
    def __hash__(self) -> int: ...

@final
class Amqp091Table(Mapping[str | bytes, Any]):
    def __init__(self, source: _Table = (), /) -> None: ...
    @classmethod
    def decode(cls, data: Buffer, /) -> Amqp091Table: ...
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
class Amqp091Array:
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

def restore_amqp091_value(is_table: bool, octets: bytes) -> Amqp091Table | Amqp091Array: ...

# ---- objects
@final
class Amqp091BasicProperties:
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
    headers: Final[Amqp091Table | None]
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
    def decode(cls, data: Buffer, /) -> Amqp091BasicProperties: ...
    def encode(self) -> bytes: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

@disjoint_base
class Amqp091Message:
    @property
    def channel(self) -> int: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def encode(self) -> bytes: ...
    def detach(self) -> Self: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

class Amqp091Method(Amqp091Message):
    @property
    def ids(self) -> tuple[int, int]: ...
    @property
    def name(self) -> str: ...
    @property
    def has_content(self) -> bool: ...
    @property
    def synchronous(self) -> bool: ...

@final
class Amqp091ContentHeader(Amqp091Message):
    __match_args__ = ("channel", "body_size", "properties")
    def __init__(
        self, *, channel: int, body_size: int = 0, properties: Amqp091BasicProperties | None = None
    ) -> None: ...
    @property
    def class_id(self) -> int: ...
    @property
    def weight(self) -> int: ...
    @property
    def body_size(self) -> int: ...
    @property
    def properties(self) -> Amqp091BasicProperties: ...

@final
class Amqp091Body(Amqp091Message):
    __match_args__ = ("channel", "payload")
    def __init__(self, *, channel: int, payload: Buffer) -> None: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

    @property
    def payload(self) -> memoryview: ...
    def payload_bytes(self) -> bytes: ...

@final
class Amqp091Heartbeat(Amqp091Message):
    __match_args__ = ()
    def __init__(self) -> None: ...

@final
class Amqp091ProtocolHeader(Amqp091Message):
    __match_args__ = ("octets",)
    def __init__(self, octets: Buffer = b"\x00\x00\x09\x01") -> None: ...
    @property
    def octets(self) -> bytes: ...

def restore_amqp091(octets: bytes, side: int, noted: bool) -> Amqp091Message: ...
def restore_amqp091_properties(octets: bytes) -> Amqp091BasicProperties: ...

# ---- methods
@final
class Amqp091ConnectionStart(Amqp091Method):
    __match_args__ = ("channel", "version_major", "version_minor", "server_properties", "mechanisms", "locales")
    version_major: Final[int]
    version_minor: Final[int]
    server_properties: Final[Amqp091Table]
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
class Amqp091ConnectionStartOk(Amqp091Method):
    __match_args__ = ("channel", "client_properties", "mechanism", "response", "locale")
    client_properties: Final[Amqp091Table]
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
class Amqp091ConnectionSecure(Amqp091Method):
    __match_args__ = ("channel", "challenge")
    challenge: Final[bytes]
    def __init__(self, *, channel: int = 0, challenge: Buffer | str) -> None: ...

@final
class Amqp091ConnectionSecureOk(Amqp091Method):
    __match_args__ = ("channel", "response")
    response: Final[bytes]
    def __init__(self, *, channel: int = 0, response: Buffer | str) -> None: ...

@final
class Amqp091ConnectionTune(Amqp091Method):
    __match_args__ = ("channel", "channel_max", "frame_max", "heartbeat")
    channel_max: Final[int]
    frame_max: Final[int]
    heartbeat: Final[int]
    def __init__(self, *, channel: int = 0, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None: ...

@final
class Amqp091ConnectionTuneOk(Amqp091Method):
    __match_args__ = ("channel", "channel_max", "frame_max", "heartbeat")
    channel_max: Final[int]
    frame_max: Final[int]
    heartbeat: Final[int]
    def __init__(self, *, channel: int = 0, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None: ...

@final
class Amqp091ConnectionOpen(Amqp091Method):
    __match_args__ = ("channel", "virtual_host", "capabilities", "insist")
    virtual_host: Final[str | bytes]
    capabilities: Final[str | bytes]
    insist: Final[bool]
    def __init__(
        self, *, channel: int = 0, virtual_host: str | bytes = "/", capabilities: str | bytes = "", insist: bool = False
    ) -> None: ...

@final
class Amqp091ConnectionOpenOk(Amqp091Method):
    __match_args__ = ("channel", "known_hosts")
    known_hosts: Final[str | bytes]
    def __init__(self, *, channel: int = 0, known_hosts: str | bytes = "") -> None: ...

@final
class Amqp091ConnectionClose(Amqp091Method):
    __match_args__ = ("channel", "reply_code", "reply_text", "class_id", "method_id")
    reply_code: Final[int]
    reply_text: Final[str | bytes]
    class_id: Final[int]
    method_id: Final[int]
    def __init__(
        self, *, channel: int = 0, reply_code: int, reply_text: str | bytes = "", class_id: int, method_id: int
    ) -> None: ...

@final
class Amqp091ConnectionCloseOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int = 0) -> None: ...

@final
class Amqp091ConnectionBlocked(Amqp091Method):
    __match_args__ = ("channel", "reason")
    reason: Final[str | bytes]
    def __init__(self, *, channel: int = 0, reason: str | bytes = "") -> None: ...

@final
class Amqp091ConnectionUnblocked(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int = 0) -> None: ...

@final
class Amqp091ConnectionUpdateSecret(Amqp091Method):
    __match_args__ = ("channel", "new_secret", "reason")
    new_secret: Final[bytes]
    reason: Final[str | bytes]
    def __init__(self, *, channel: int = 0, new_secret: Buffer | str, reason: str | bytes) -> None: ...

@final
class Amqp091ConnectionUpdateSecretOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int = 0) -> None: ...

@final
class Amqp091ChannelOpen(Amqp091Method):
    __match_args__ = ("channel", "out_of_band")
    out_of_band: Final[str | bytes]
    def __init__(self, *, channel: int, out_of_band: str | bytes = "") -> None: ...

@final
class Amqp091ChannelOpenOk(Amqp091Method):
    __match_args__ = ("channel", "channel_id")
    channel_id: Final[bytes]
    def __init__(self, *, channel: int, channel_id: Buffer | str = b"") -> None: ...

@final
class Amqp091ChannelFlow(Amqp091Method):
    __match_args__ = ("channel", "active")
    active: Final[bool]
    def __init__(self, *, channel: int, active: bool) -> None: ...

@final
class Amqp091ChannelFlowOk(Amqp091Method):
    __match_args__ = ("channel", "active")
    active: Final[bool]
    def __init__(self, *, channel: int, active: bool) -> None: ...

@final
class Amqp091ChannelClose(Amqp091Method):
    __match_args__ = ("channel", "reply_code", "reply_text", "class_id", "method_id")
    reply_code: Final[int]
    reply_text: Final[str | bytes]
    class_id: Final[int]
    method_id: Final[int]
    def __init__(
        self, *, channel: int, reply_code: int, reply_text: str | bytes = "", class_id: int, method_id: int
    ) -> None: ...

@final
class Amqp091ChannelCloseOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091AccessRequest(Amqp091Method):
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
class Amqp091AccessRequestOk(Amqp091Method):
    __match_args__ = ("channel", "ticket")
    ticket: Final[int]
    def __init__(self, *, channel: int, ticket: int = 1) -> None: ...

@final
class Amqp091ExchangeDeclare(Amqp091Method):
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
    arguments: Final[Amqp091Table]
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
class Amqp091ExchangeDeclareOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091ExchangeDelete(Amqp091Method):
    __match_args__ = ("channel", "ticket", "exchange", "if_unused", "nowait")
    ticket: Final[int]
    exchange: Final[str | bytes]
    if_unused: Final[bool]
    nowait: Final[bool]
    def __init__(
        self, *, channel: int, ticket: int = 0, exchange: str | bytes, if_unused: bool = False, nowait: bool = False
    ) -> None: ...

@final
class Amqp091ExchangeDeleteOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091ExchangeBind(Amqp091Method):
    __match_args__ = ("channel", "ticket", "destination", "source", "routing_key", "nowait", "arguments")
    ticket: Final[int]
    destination: Final[str | bytes]
    source: Final[str | bytes]
    routing_key: Final[str | bytes]
    nowait: Final[bool]
    arguments: Final[Amqp091Table]
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
class Amqp091ExchangeBindOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091ExchangeUnbind(Amqp091Method):
    __match_args__ = ("channel", "ticket", "destination", "source", "routing_key", "nowait", "arguments")
    ticket: Final[int]
    destination: Final[str | bytes]
    source: Final[str | bytes]
    routing_key: Final[str | bytes]
    nowait: Final[bool]
    arguments: Final[Amqp091Table]
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
class Amqp091ExchangeUnbindOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091QueueDeclare(Amqp091Method):
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
    arguments: Final[Amqp091Table]
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
class Amqp091QueueDeclareOk(Amqp091Method):
    __match_args__ = ("channel", "queue", "message_count", "consumer_count")
    queue: Final[str | bytes]
    message_count: Final[int]
    consumer_count: Final[int]
    def __init__(self, *, channel: int, queue: str | bytes, message_count: int, consumer_count: int) -> None: ...

@final
class Amqp091QueueBind(Amqp091Method):
    __match_args__ = ("channel", "ticket", "queue", "exchange", "routing_key", "nowait", "arguments")
    ticket: Final[int]
    queue: Final[str | bytes]
    exchange: Final[str | bytes]
    routing_key: Final[str | bytes]
    nowait: Final[bool]
    arguments: Final[Amqp091Table]
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
class Amqp091QueueBindOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091QueuePurge(Amqp091Method):
    __match_args__ = ("channel", "ticket", "queue", "nowait")
    ticket: Final[int]
    queue: Final[str | bytes]
    nowait: Final[bool]
    def __init__(self, *, channel: int, ticket: int = 0, queue: str | bytes = "", nowait: bool = False) -> None: ...

@final
class Amqp091QueuePurgeOk(Amqp091Method):
    __match_args__ = ("channel", "message_count")
    message_count: Final[int]
    def __init__(self, *, channel: int, message_count: int) -> None: ...

@final
class Amqp091QueueDelete(Amqp091Method):
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
class Amqp091QueueDeleteOk(Amqp091Method):
    __match_args__ = ("channel", "message_count")
    message_count: Final[int]
    def __init__(self, *, channel: int, message_count: int) -> None: ...

@final
class Amqp091QueueUnbind(Amqp091Method):
    __match_args__ = ("channel", "ticket", "queue", "exchange", "routing_key", "arguments")
    ticket: Final[int]
    queue: Final[str | bytes]
    exchange: Final[str | bytes]
    routing_key: Final[str | bytes]
    arguments: Final[Amqp091Table]
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
class Amqp091QueueUnbindOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091BasicQos(Amqp091Method):
    __match_args__ = ("channel", "prefetch_size", "prefetch_count", "global_")
    prefetch_size: Final[int]
    prefetch_count: Final[int]
    global_: Final[bool]
    def __init__(
        self, *, channel: int, prefetch_size: int = 0, prefetch_count: int = 0, global_: bool = False
    ) -> None: ...

@final
class Amqp091BasicQosOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091BasicConsume(Amqp091Method):
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
    arguments: Final[Amqp091Table]
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
class Amqp091BasicConsumeOk(Amqp091Method):
    __match_args__ = ("channel", "consumer_tag")
    consumer_tag: Final[str | bytes]
    def __init__(self, *, channel: int, consumer_tag: str | bytes) -> None: ...

@final
class Amqp091BasicCancel(Amqp091Method):
    __match_args__ = ("channel", "consumer_tag", "nowait")
    consumer_tag: Final[str | bytes]
    nowait: Final[bool]
    def __init__(self, *, channel: int, consumer_tag: str | bytes, nowait: bool = False) -> None: ...

@final
class Amqp091BasicCancelOk(Amqp091Method):
    __match_args__ = ("channel", "consumer_tag")
    consumer_tag: Final[str | bytes]
    def __init__(self, *, channel: int, consumer_tag: str | bytes) -> None: ...

@final
class Amqp091BasicPublish(Amqp091Method):
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
class Amqp091BasicReturn(Amqp091Method):
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
class Amqp091BasicDeliver(Amqp091Method):
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
class Amqp091BasicGet(Amqp091Method):
    __match_args__ = ("channel", "ticket", "queue", "no_ack")
    ticket: Final[int]
    queue: Final[str | bytes]
    no_ack: Final[bool]
    def __init__(self, *, channel: int, ticket: int = 0, queue: str | bytes = "", no_ack: bool = False) -> None: ...

@final
class Amqp091BasicGetOk(Amqp091Method):
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
class Amqp091BasicGetEmpty(Amqp091Method):
    __match_args__ = ("channel", "cluster_id")
    cluster_id: Final[str | bytes]
    def __init__(self, *, channel: int, cluster_id: str | bytes = "") -> None: ...

@final
class Amqp091BasicAck(Amqp091Method):
    __match_args__ = ("channel", "delivery_tag", "multiple")
    delivery_tag: Final[int]
    multiple: Final[bool]
    def __init__(self, *, channel: int, delivery_tag: int = 0, multiple: bool = False) -> None: ...

@final
class Amqp091BasicReject(Amqp091Method):
    __match_args__ = ("channel", "delivery_tag", "requeue")
    delivery_tag: Final[int]
    requeue: Final[bool]
    def __init__(self, *, channel: int, delivery_tag: int, requeue: bool = True) -> None: ...

@final
class Amqp091BasicRecoverAsync(Amqp091Method):
    __match_args__ = ("channel", "requeue")
    requeue: Final[bool]
    def __init__(self, *, channel: int, requeue: bool = False) -> None: ...

@final
class Amqp091BasicRecover(Amqp091Method):
    __match_args__ = ("channel", "requeue")
    requeue: Final[bool]
    def __init__(self, *, channel: int, requeue: bool = False) -> None: ...

@final
class Amqp091BasicRecoverOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091BasicNack(Amqp091Method):
    __match_args__ = ("channel", "delivery_tag", "multiple", "requeue")
    delivery_tag: Final[int]
    multiple: Final[bool]
    requeue: Final[bool]
    def __init__(
        self, *, channel: int, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True
    ) -> None: ...

@final
class Amqp091ConfirmSelect(Amqp091Method):
    __match_args__ = ("channel", "nowait")
    nowait: Final[bool]
    def __init__(self, *, channel: int, nowait: bool = False) -> None: ...

@final
class Amqp091ConfirmSelectOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091TxSelect(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091TxSelectOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091TxCommit(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091TxCommitOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091TxRollback(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

@final
class Amqp091TxRollbackOk(Amqp091Method):
    __match_args__ = ("channel",)
    def __init__(self, *, channel: int) -> None: ...

# ---- pending
@final
class Amqp091BasicMessage:
    __match_args__ = ("method", "properties", "body")
    def __init__(
        self,
        method: Amqp091Method,
        properties: Amqp091BasicProperties | None = None,
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
    def header(self) -> Amqp091ContentHeader: ...
    @property
    def properties(self) -> Amqp091BasicProperties: ...
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

def restore_amqp091_content(
    method: Amqp091Method, header: Amqp091ContentHeader, body: bytes, sizes: Iterable[int]
) -> Amqp091BasicMessage: ...
def decode_amqp091(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    frame_max: int = 131072,
    channel_max: int = 0,
    limits: Limits | None = None,
) -> Any: ...
def amqp091_size(
    data: Buffer,
    *,
    strictness: Strictness | str = Strictness.STRICT,
    frame_max: int = 131072,
    limits: Limits | None = None,
) -> int | NeedData: ...
def encode_amqp091(message: Amqp091Message | Amqp091BasicMessage, /) -> bytes: ...

@disjoint_base
class Amqp091FrameDecoder(FrameDecoder):
    @property
    def frame_max(self) -> int: ...
    @frame_max.setter
    def frame_max(self, value: int) -> None: ...
    @property
    def channel_max(self) -> int: ...
    @channel_max.setter
    def channel_max(self, value: int) -> None: ...

@final
class Amqp091Decoder(Amqp091FrameDecoder):
    def __init__(
        self,
        *,
        side: _Side | None = None,
        strictness: Strictness | str = Strictness.STRICT,
        frame_max: int = 131072,
        channel_max: int = 0,
        limits: Limits | None = None,
    ) -> None: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Amqp091Message]: ...

@final
class Amqp091Assembler(Amqp091FrameDecoder):
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
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Amqp091Message | Amqp091BasicMessage]: ...

# ---- batch
def amqp091_decode_batch(
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

PROTOCOL: object
