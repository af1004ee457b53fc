"""The typed face of the compiled core, in the order of its rooms."""

import sys
from collections.abc import Callable, Hashable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from datetime import datetime
from types import GenericAlias
from typing import Any, ClassVar, Final, Generic, Literal, Self, SupportsIndex, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer, disjoint_base

from wirefmt._rocketmq import *  # noqa: F403
from wirefmt._rocketmq import SendMessageRequestHeader, SendMessageRequestHeaderV2
from wirefmt.convert.conversion import Loss, Topics
from wirefmt.convert.messages import Protocol, Wire
from wirefmt.framing import Limits, NeedData
from wirefmt.spec.nsq import ServerOptions
from wirefmt.spec.rocketmq import ExtraInfo
from wirefmt.strictness import Note, Strictness

# ---- secrets
class HiddenText(str):
    __slots__ = ()

class HiddenBytes(bytes):
    __slots__ = ()

class HiddenInt(int):
    __slots__ = ()

class HiddenFloat(float):
    __slots__ = ()

def secret_name(name: object, /) -> bool: ...

# ---- framer
@disjoint_base
class FrameDecoder:
    @property
    def offset(self) -> int: ...
    @property
    def pending(self) -> int: ...
    def feed(self, data: Buffer, /) -> list[Any]: ...
    def close(self) -> None: ...

# ---- arrow
_Columns: TypeAlias = Sequence[tuple[str, str, str]]

@disjoint_base
class Field:
    name: Final[str]
    type: Final[str]
    nullable: Final[bool]
    def __init__(self, name: str, type: str, nullable: bool = True) -> None: ...

@disjoint_base
class ColumnSet:
    def __init__(self, columns: _Columns, names: Iterable[str] | None = None) -> None: ...

@disjoint_base
class Batch:
    num_rows: Final[int]
    rest: Final[int]
    def __len__(self) -> int: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def nbytes(self) -> int: ...
    def __getitem__(self, name: str, /) -> NDArray[Any]: ...
    def validity(self, name: str) -> NDArray[np.bool_]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def schema_capsule(columns: _Columns, names: Iterable[str] | None = None) -> object: ...
def stream_capsule(columns: _Columns, batches: Iterable[Batch], names: Iterable[str] | None = None) -> object: ...

# ---- mqtt_messages
_Properties: TypeAlias = Iterable[tuple[str, Any]]
_Form: TypeAlias = Literal["short", "reason_only", "full"]
_Side: TypeAlias = Literal["client", "server"]

@final
class MqttSubscription:
    __match_args__ = ("topic_filter", "qos", "no_local", "retain_as_published", "retain_handling")
    topic_filter: Final[str]
    qos: Final[int]
    no_local: Final[bool]
    retain_as_published: Final[bool]
    retain_handling: Final[int]
    def __init__(
        self,
        topic_filter: str,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
    ) -> None: ...
    def __hash__(self) -> int: ...

@final
class MqttWill:
    __match_args__ = ("topic", "payload", "qos", "retain", "properties")
    topic: Final[str]
    payload: Final[bytes]
    qos: Final[int]
    retain: Final[bool]
    properties: Final[tuple[tuple[str, Any], ...]]
    def __init__(
        self, topic: str, payload: Buffer = b"", qos: int = 0, retain: bool = False, properties: _Properties = ()
    ) -> None: ...
    def __hash__(self) -> int: ...

@disjoint_base
class MqttMessage:
    @property
    def version(self) -> Literal[3, 4, 5]: ...
    @property
    def flags(self) -> int: ...
    @property
    def remaining_length(self) -> int: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def encode(self) -> bytes: ...
    def detach(self) -> Self: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

@final
class MqttConnect(MqttMessage):
    __match_args__ = (
        "connect_flags",
        "clean_start",
        "keep_alive",
        "properties",
        "client_identifier",
        "will",
        "user_name",
        "password",
        "version",
    )
    def __init__(
        self,
        *,
        client_identifier: str = "",
        clean_start: bool = True,
        keep_alive: int = 0,
        will: MqttWill | None = None,
        user_name: str | None = None,
        password: Buffer | None = None,
        properties: _Properties = (),
        connect_flags: int | None = None,
        version: int = 5,
    ) -> None: ...
    @property
    def protocol_name(self) -> str: ...
    @property
    def protocol_version(self) -> int: ...
    @property
    def connect_flags(self) -> int: ...
    @property
    def clean_start(self) -> bool: ...
    @property
    def clean_session(self) -> bool: ...
    @property
    def keep_alive(self) -> int: ...
    @property
    def client_identifier(self) -> str: ...
    @property
    def will(self) -> MqttWill | None: ...
    @property
    def user_name(self) -> str | None: ...
    @property
    def password(self) -> bytes | None: ...
    @property
    def properties(self) -> tuple[tuple[str, Any], ...]: ...

@final
class MqttConnack(MqttMessage):
    __match_args__ = ("session_present", "reason_code", "properties", "version")
    def __init__(
        self, *, session_present: bool = False, reason_code: int = 0, properties: _Properties = (), version: int = 5
    ) -> None: ...
    @property
    def session_present(self) -> bool | None: ...
    @property
    def reason_code(self) -> int: ...
    @property
    def return_code(self) -> int: ...
    @property
    def properties(self) -> tuple[tuple[str, Any], ...]: ...

@final
class MqttPublish(MqttMessage):
    __match_args__ = ("dup", "qos", "retain", "topic_name", "packet_identifier", "properties", "payload", "version")
    def __init__(
        self,
        *,
        topic_name: str,
        payload: Buffer = b"",
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        packet_identifier: int | None = None,
        properties: _Properties = (),
        version: int = 5,
    ) -> None: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

    @property
    def dup(self) -> bool: ...
    @property
    def qos(self) -> int: ...
    @property
    def retain(self) -> bool: ...
    @property
    def topic_name(self) -> str: ...
    @property
    def packet_identifier(self) -> int | None: ...
    @property
    def properties(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def payload(self) -> memoryview: ...
    def payload_bytes(self) -> bytes: ...

class MqttAcknowledgement(MqttMessage):
    @property
    def packet_identifier(self) -> int: ...
    @property
    def reason_code(self) -> int | None: ...
    @property
    def properties(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def form(self) -> _Form | None: ...

@final
class MqttPuback(MqttAcknowledgement):
    __match_args__ = ("packet_identifier", "reason_code", "properties", "form", "version")
    def __init__(
        self,
        *,
        packet_identifier: int,
        reason_code: int | None = None,
        properties: _Properties = (),
        form: _Form | None = None,
        version: int = 5,
    ) -> None: ...

@final
class MqttPubrec(MqttAcknowledgement):
    __match_args__ = ("packet_identifier", "reason_code", "properties", "form", "version")
    def __init__(
        self,
        *,
        packet_identifier: int,
        reason_code: int | None = None,
        properties: _Properties = (),
        form: _Form | None = None,
        version: int = 5,
    ) -> None: ...

@final
class MqttPubrel(MqttAcknowledgement):
    __match_args__ = ("dup", "packet_identifier", "reason_code", "properties", "form", "version")
    def __init__(
        self,
        *,
        packet_identifier: int,
        reason_code: int | None = None,
        properties: _Properties = (),
        form: _Form | None = None,
        dup: bool = False,
        version: int = 5,
    ) -> None: ...
    @property
    def dup(self) -> bool: ...

@final
class MqttPubcomp(MqttAcknowledgement):
    __match_args__ = ("packet_identifier", "reason_code", "properties", "form", "version")
    def __init__(
        self,
        *,
        packet_identifier: int,
        reason_code: int | None = None,
        properties: _Properties = (),
        form: _Form | None = None,
        version: int = 5,
    ) -> None: ...

@final
class MqttSubscribe(MqttMessage):
    __match_args__ = ("dup", "packet_identifier", "properties", "subscriptions", "version")
    def __init__(
        self,
        *,
        packet_identifier: int,
        subscriptions: Iterable[MqttSubscription],
        properties: _Properties = (),
        dup: bool = False,
        version: int = 5,
    ) -> None: ...
    @property
    def dup(self) -> bool: ...
    @property
    def packet_identifier(self) -> int: ...
    @property
    def properties(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def subscriptions(self) -> tuple[MqttSubscription, ...]: ...

class MqttCodes(MqttMessage):
    __match_args__ = ("packet_identifier", "properties", "reason_codes", "version")
    @property
    def packet_identifier(self) -> int: ...
    @property
    def properties(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def reason_codes(self) -> tuple[int, ...]: ...

@final
class MqttSuback(MqttCodes):
    def __init__(
        self, *, packet_identifier: int, reason_codes: Iterable[int], properties: _Properties = (), version: int = 5
    ) -> None: ...
    @property
    def return_codes(self) -> tuple[int, ...]: ...

@final
class MqttUnsubscribe(MqttMessage):
    __match_args__ = ("dup", "packet_identifier", "properties", "topic_filters", "version")
    def __init__(
        self,
        *,
        packet_identifier: int,
        topic_filters: Iterable[str],
        properties: _Properties = (),
        dup: bool = False,
        version: int = 5,
    ) -> None: ...
    @property
    def dup(self) -> bool: ...
    @property
    def packet_identifier(self) -> int: ...
    @property
    def properties(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def topic_filters(self) -> tuple[str, ...]: ...

@final
class MqttUnsuback(MqttCodes):
    def __init__(
        self,
        *,
        packet_identifier: int,
        reason_codes: Iterable[int] = (),
        properties: _Properties = (),
        version: int = 5,
    ) -> None: ...

@final
class MqttPingreq(MqttMessage):
    __match_args__ = ("version",)
    def __init__(self, *, version: int = 5) -> None: ...

@final
class MqttPingresp(MqttMessage):
    __match_args__ = ("version",)
    def __init__(self, *, version: int = 5) -> None: ...

class MqttReason(MqttMessage):
    __match_args__ = ("reason_code", "properties", "form", "version")
    @property
    def reason_code(self) -> int | None: ...
    @property
    def properties(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def form(self) -> _Form | None: ...

@final
class MqttDisconnect(MqttReason):
    def __init__(
        self,
        *,
        reason_code: int | None = None,
        properties: _Properties = (),
        form: _Form | None = None,
        version: int = 5,
    ) -> None: ...

@final
class MqttAuth(MqttReason):
    def __init__(
        self,
        *,
        reason_code: int | None = None,
        properties: _Properties = (),
        form: _Form | None = None,
        version: int = 5,
    ) -> None: ...

@final
class MqttDecoder(FrameDecoder):
    def __init__(
        self,
        *,
        version: int | None = None,
        side: _Side | None = None,
        strictness: Strictness | str = Strictness.STRICT,
        limits: Limits | None = None,
    ) -> None: ...
    @property
    def version(self) -> Literal[3, 4, 5] | None: ...
    def feed(self, data: Buffer, /) -> list[MqttMessage]: ...

def mqtt_decode_batch(
    data: Buffer,
    *,
    version: int | None = None,
    side: _Side | None = None,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    payload: bool = True,
    expose_credentials: bool = False,
    limits: Limits | None = None,
) -> Batch: ...
def decode_mqtt(
    data: Buffer,
    *,
    version: int | None = None,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    limits: Limits | None = None,
) -> MqttMessage: ...
def mqtt_size(data: Buffer, *, limits: Limits | None = None) -> int | Literal[NeedData.NEED_DATA]: ...
def encode_mqtt(message: MqttMessage, /) -> bytes: ...
def restore_mqtt(octets: bytes, version: int, side: int, noted: bool) -> MqttMessage: ...

# ---- mqtt_topics
_Value = TypeVar("_Value", bound=Hashable)

def validate_topic_name(topic: str | Buffer, version: int = 5) -> None: ...
def validate_topic_filter(filter: str | Buffer, version: int = 5) -> None: ...
def parse_shared(filter: str | Buffer, version: int = 5) -> tuple[str, str] | None: ...
def topic_matches(filter: str | Buffer, topic: str | Buffer, version: int = 5) -> bool: ...

@final
class TopicIndex(Generic[_Value]):
    @property
    def version(self) -> int: ...
    def __init__(self, version: int = 5) -> None: ...
    def __len__(self) -> int: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    def add(self, filter: str | Buffer, value: _Value) -> bool: ...
    def discard(self, filter: str | Buffer, value: _Value) -> bool: ...
    def match(self, topic: str | Buffer) -> list[_Value]: ...

# ---- amqp091_values
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

# ---- amqp091_messages
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

# ---- amqp091_methods
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

# ---- amqp091_stream
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
    def feed(self, data: Buffer, /) -> list[Amqp091Message]: ...

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
    def feed(self, data: Buffer, /) -> list[Amqp091Message | Amqp091BasicMessage]: ...

# ---- amqp091_columns
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

# ---- rocketmq_values
def rocketmq_decode_json(data: Buffer, *, limits: Limits | None = None) -> Any: ...
def rocketmq_encode_json(value: Any, /, *, loose: bool = False) -> bytes: ...
def rocketmq_hash_code(text: str, /) -> int: ...

# ---- rocketmq_headers
@disjoint_base
class RocketmqHeader:
    FIELDS: ClassVar[tuple[tuple[str, str, str, bool], ...]]
    INHERITED: ClassVar[tuple[str, ...]]
    PLACES: ClassVar[Mapping[str, int]]
    FAST: ClassVar[bool]
    __match_args__: ClassVar[tuple[str, ...]]
    def __init__(self) -> None: ...
    @classmethod
    def from_ext_fields(cls, fields: Mapping[str, str] | None, *, strictness: Strictness | str = ...) -> Self: ...
    def ext_fields(self) -> dict[str, str]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def restore_rocketmq_header(name: str, items: tuple[Any, ...]) -> RocketmqHeader: ...
def rocketmq_header_class(code: int, /, *, response: bool = False) -> type[RocketmqHeader] | None: ...
def rocketmq_send_v1(header: SendMessageRequestHeaderV2, /) -> SendMessageRequestHeader: ...
def rocketmq_send_v2(header: SendMessageRequestHeader, /) -> SendMessageRequestHeaderV2: ...

# ---- rocketmq_bodies
_Host: TypeAlias = tuple[str, int]
_RocketmqProperties: TypeAlias = Mapping[str, str | None] | str | Buffer | None

def rocketmq_decode_properties(text: str | Buffer, /) -> dict[str, str]: ...
def rocketmq_encode_properties(properties: Mapping[str, str | None], /) -> str: ...
def rocketmq_decode_message_id(text: str, /) -> tuple[str, int, int]: ...
def rocketmq_encode_message_id(address: str, port: int, offset: int, /) -> str: ...
def rocketmq_decode_extra_info(text: str, /) -> ExtraInfo: ...
def rocketmq_encode_extra_info(info: ExtraInfo, /) -> str: ...
def rocketmq_decode_start_offset_info(text: str, /) -> dict[tuple[str, int], int]: ...
def rocketmq_decode_msg_offset_info(text: str, /) -> dict[tuple[str, int], tuple[int, ...]]: ...
def rocketmq_decode_order_count_info(text: str, /) -> dict[tuple[str, str], int]: ...
def rocketmq_decode_unique_id(text: str, /) -> tuple[str, int, int, int, int]: ...
def rocketmq_encode_unique_id(
    address: str, process_id: int, class_loader_hash: int, milliseconds: int, counter: int, /
) -> str: ...
def rocketmq_compress(body: Buffer, /, *, method: Literal["zlib", "lz4", "zstd"] = "zlib") -> tuple[bytes, int]: ...

@final
class RocketmqMessageExt:
    __match_args__ = (
        "topic",
        "body",
        "properties",
        "queue_id",
        "queue_offset",
        "physical_offset",
        "flag",
        "sys_flag",
        "born_timestamp",
        "born_host",
        "store_timestamp",
        "store_host",
        "reconsume_times",
        "prepared_transaction_offset",
        "version",
    )
    def __init__(
        self,
        *,
        topic: str,
        body: Buffer | None = None,
        properties: _RocketmqProperties = None,
        queue_id: int = 0,
        queue_offset: int = 0,
        physical_offset: int = 0,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp: int = 0,
        born_host: _Host = ("0.0.0.0", 0),
        store_timestamp: int = 0,
        store_host: _Host = ("0.0.0.0", 0),
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        version: Literal[1, 2] | None = None,
    ) -> None: ...
    @property
    def total_size(self) -> int: ...
    @property
    def magic_code(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def body_crc(self) -> int: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def flag(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def born_timestamp(self) -> int: ...
    @property
    def store_timestamp(self) -> int: ...
    @property
    def born_host(self) -> _Host: ...
    @property
    def store_host(self) -> _Host: ...
    @property
    def reconsume_times(self) -> int: ...
    @property
    def prepared_transaction_offset(self) -> int: ...
    @property
    def body(self) -> bytes | None: ...
    @property
    def topic(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str] | None: ...
    @property
    def properties_string(self) -> str: ...
    @property
    def tags(self) -> str | None: ...
    @property
    def keys(self) -> str | None: ...
    @property
    def offset_msg_id(self) -> str: ...
    @property
    def msg_id(self) -> str: ...
    def encode(self) -> bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def restore_rocketmq_message(octets: bytes, inflated: bytes | None) -> RocketmqMessageExt: ...
def rocketmq_decode_messages(
    data: Buffer,
    *,
    decompress: bool = True,
    check_crc: bool = False,
    strictness: Strictness | str = ...,
    body_size: int = ...,
    max_inflated: int = ...,
) -> tuple[RocketmqMessageExt, ...]: ...

@final
class RocketmqBatchMessage:
    __match_args__ = ("body", "properties", "flag")
    body: Final[bytes]
    flag: Final[int]
    properties_string: Final[str]
    def __init__(self, *, body: Buffer = b"", properties: _RocketmqProperties = None, flag: int = 0) -> None: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    def encode(self) -> bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def restore_rocketmq_item(body: bytes, properties: str, flag: int) -> RocketmqBatchMessage: ...
def rocketmq_decode_batch_messages(data: Buffer, /) -> tuple[RocketmqBatchMessage, ...]: ...
def rocketmq_encode_batch_messages(messages: Iterable[RocketmqBatchMessage], /) -> bytes: ...

# ---- rocketmq_json
@disjoint_base
class RocketmqBody:
    FIELDS: ClassVar[tuple[tuple[str, str, str], ...]]
    __match_args__: ClassVar[tuple[str, ...]]
    def __init__(self) -> None: ...
    @classmethod
    def from_json(cls, value: Any) -> Self: ...
    @classmethod
    def decode(cls, data: Buffer, *, limits: Limits | None = None) -> Self: ...
    def encode(self, *, loose: bool = False) -> bytes: ...
    def to_json(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def restore_rocketmq_body(name: str, members: dict[str, Any]) -> RocketmqBody: ...
def rocketmq_body_class(code: int, /, *, response: bool = False) -> type[RocketmqBody] | None: ...

# ---- rocketmq_messages
@final
class RocketmqCommand:
    __match_args__ = (
        "code",
        "flag",
        "opaque",
        "remark",
        "ext_fields",
        "body",
        "language",
        "version",
        "serialize_type",
    )
    def __init__(
        self,
        *,
        code: int,
        flag: int = 0,
        opaque: int | None = 0,
        remark: str | None = None,
        ext_fields: Mapping[str, str | None] | None = None,
        header: RocketmqHeader | None = None,
        body: Buffer | None = b"",
        language: str | None = "PYTHON",
        version: int = ...,
        serialize_type: Literal["JSON", "ROCKETMQ"] = "JSON",
    ) -> None: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

    @property
    def code(self) -> int: ...
    @property
    def flag(self) -> int: ...
    @property
    def opaque(self) -> int | None: ...
    @property
    def version(self) -> int: ...
    @property
    def language(self) -> str | None: ...
    @property
    def serialize_type(self) -> Literal["JSON", "ROCKETMQ"]: ...
    @property
    def remark(self) -> str | None: ...
    @property
    def ext_fields(self) -> Mapping[str, str] | None: ...
    @property
    def is_response(self) -> bool: ...
    @property
    def is_oneway(self) -> bool: ...
    @property
    def name(self) -> str | None: ...
    @property
    def header(self) -> Any: ...
    def decode_header(
        self,
        header_class: type[_Header] | None = None,
        *,
        request: int | None = None,
        strictness: Strictness | str = ...,
    ) -> _Header: ...
    def decode_body(self, *, request: int | None = None, **options: Any) -> Any: ...
    @property
    def body(self) -> memoryview | None: ...
    def body_bytes(self) -> bytes | None: ...
    def encode(self) -> bytes: ...
    def detach(self) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

_Header = TypeVar("_Header", bound=RocketmqHeader)

def rocketmq_signed_octets(command: RocketmqCommand, /) -> bytes: ...
def rocketmq_sign(
    command: RocketmqCommand, /, *, access_key: str, secret_key: str, security_token: str | None = None
) -> RocketmqCommand: ...
def rocketmq_signature(command: RocketmqCommand, secret_key: str, /) -> str: ...
def decode_rocketmq(
    data: Buffer, *, strictness: Strictness | str = ..., limits: Limits | None = None
) -> RocketmqCommand: ...
def rocketmq_size(data: Buffer, *, limits: Limits | None = None) -> int | NeedData: ...
def encode_rocketmq(command: RocketmqCommand, /) -> bytes: ...
def restore_rocketmq(octets: bytes) -> RocketmqCommand: ...

@final
class RocketmqDecoder(FrameDecoder):
    def __init__(self, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> None: ...
    def feed(self, data: Buffer, /) -> list[RocketmqCommand]: ...

# ---- rocketmq_columns
def rocketmq_decode_batch(
    data: Buffer,
    *,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    body: bool = True,
    expose_credentials: bool = False,
    limits: Limits | None = None,
) -> Batch: ...

# ---- amqp10_scalars
class Amqp10Integer(int):
    lowest: ClassVar[int]
    highest: ClassVar[int]
    def __new__(cls, value: SupportsIndex = 0, /) -> Self: ...

class Amqp10UByte(Amqp10Integer): ...
class Amqp10UShort(Amqp10Integer): ...
class Amqp10UInt(Amqp10Integer): ...
class Amqp10ULong(Amqp10Integer): ...
class Amqp10Byte(Amqp10Integer): ...
class Amqp10Short(Amqp10Integer): ...
class Amqp10Int(Amqp10Integer): ...

class Amqp10Timestamp(Amqp10Integer):
    @classmethod
    def of(cls, moment: datetime, /) -> Self: ...
    def to_datetime(self) -> datetime: ...

class Amqp10Float(float):
    def __new__(cls, value: float = 0.0, /) -> Self: ...

class Amqp10Char(str):
    def __new__(cls, value: str | int, /) -> Self: ...

class Amqp10Symbol(str): ...

class Amqp10Decimal(bytes):
    width: ClassVar[int]
    def __new__(cls, value: Buffer, /) -> Self: ...

class Amqp10Decimal32(Amqp10Decimal): ...
class Amqp10Decimal64(Amqp10Decimal): ...
class Amqp10Decimal128(Amqp10Decimal): ...

# ---- amqp10_values
_Symbols: TypeAlias = str | Iterable[str]
_Map: TypeAlias = Amqp10Map | Mapping[Any, Any]

@disjoint_base
class Amqp10Held:
    def encode(self) -> bytes: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

class Amqp10Sequence(Amqp10Held, Sequence[Any]):
    def index(self, value: Any, *bounds: int) -> int: ...
    def count(self, value: Any) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __hash__(self) -> int: ...

@final
class Amqp10List(Amqp10Sequence):
    def __init__(self, items: Iterable[Any] = (), /) -> None: ...

@final
class Amqp10Array(Amqp10Sequence):
    def __init__(self, type: str, values: Iterable[Any] = (), /, *, descriptors: Iterable[Any] = ()) -> None: ...
    @staticmethod
    def repeat(value: Any, count: int, /) -> Amqp10Array: ...
    @property
    def type(self) -> str: ...
    @property
    def constructor(self) -> int: ...
    @property
    def descriptors(self) -> tuple[Any, ...]: ...
    def walk(self) -> Iterator[Any]: ...
    def __hash__(self) -> int: ...

@final
class Amqp10Map(Amqp10Held, Mapping[Any, Any]):
    def __init__(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), /) -> None: ...
    @property
    def pairs(self) -> tuple[tuple[Any, Any], ...]: ...
    def get(self, key: Any, default: Any = None, /) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __hash__(self) -> int: ...

@final
class Amqp10Described(Amqp10Held):
    __match_args__ = ("descriptor", "value")
    def __init__(self, descriptor: Any, value: Any, /) -> None: ...
    @property
    def descriptor(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Amqp10CompositeValue:
    @property
    def descriptor(self) -> Any: ...
    @property
    def value(self) -> Amqp10List: ...
    def encode(self) -> bytes: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def decode_amqp10_value(
    data: Buffer, /, *, strictness: Strictness | str = ..., limits: Limits | None = None
) -> Any: ...
def encode_amqp10_value(value: Any, /) -> bytes: ...
def restore_amqp10_value(octets: bytes) -> Any: ...
def restore_amqp10_composite(octets: bytes) -> Amqp10CompositeValue: ...

# ---- amqp10_messages
class Amqp10Performative(Amqp10CompositeValue):
    __match_args__: ClassVar[tuple[str, ...]] = ("channel",)
    @property
    def channel(self) -> int: ...
    @property
    def extended_header(self) -> bytes: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def detach(self) -> Self: ...
    def __hash__(self) -> int: ...

@final
class Amqp10Open(Amqp10Performative):
    __match_args__ = (
        "container_id",
        "hostname",
        "max_frame_size",
        "channel_max",
        "idle_time_out",
        "outgoing_locales",
        "incoming_locales",
        "offered_capabilities",
        "desired_capabilities",
        "properties",
        "channel",
    )
    container_id: Final[str | None]
    hostname: Final[str | None]
    max_frame_size: Final[int | None]
    channel_max: Final[int | None]
    idle_time_out: Final[int | None]
    outgoing_locales: Final[Amqp10Symbol | Amqp10Array | None]
    incoming_locales: Final[Amqp10Symbol | Amqp10Array | None]
    offered_capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    desired_capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    properties: Final[Amqp10Map | None]
    def __init__(
        self,
        *,
        container_id: str | None,
        hostname: str | None = None,
        max_frame_size: int | None = None,
        channel_max: int | None = None,
        idle_time_out: int | None = None,
        outgoing_locales: _Symbols | None = None,
        incoming_locales: _Symbols | None = None,
        offered_capabilities: _Symbols | None = None,
        desired_capabilities: _Symbols | None = None,
        properties: _Map | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class Amqp10Begin(Amqp10Performative):
    __match_args__ = (
        "remote_channel",
        "next_outgoing_id",
        "incoming_window",
        "outgoing_window",
        "handle_max",
        "offered_capabilities",
        "desired_capabilities",
        "properties",
        "channel",
    )
    remote_channel: Final[int | None]
    next_outgoing_id: Final[int | None]
    incoming_window: Final[int | None]
    outgoing_window: Final[int | None]
    handle_max: Final[int | None]
    offered_capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    desired_capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    properties: Final[Amqp10Map | None]
    def __init__(
        self,
        *,
        remote_channel: int | None = None,
        next_outgoing_id: int | None,
        incoming_window: int | None,
        outgoing_window: int | None,
        handle_max: int | None = None,
        offered_capabilities: _Symbols | None = None,
        desired_capabilities: _Symbols | None = None,
        properties: _Map | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class Amqp10Attach(Amqp10Performative):
    __match_args__ = (
        "name",
        "handle",
        "role",
        "snd_settle_mode",
        "rcv_settle_mode",
        "source",
        "target",
        "unsettled",
        "incomplete_unsettled",
        "initial_delivery_count",
        "max_message_size",
        "offered_capabilities",
        "desired_capabilities",
        "properties",
        "channel",
    )
    name: Final[str | None]
    handle: Final[int | None]
    role: Final[bool | None]
    snd_settle_mode: Final[int | None]
    rcv_settle_mode: Final[int | None]
    source: Final[Any]
    target: Final[Any]
    unsettled: Final[Amqp10Map | None]
    incomplete_unsettled: Final[bool | None]
    initial_delivery_count: Final[int | None]
    max_message_size: Final[int | None]
    offered_capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    desired_capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    properties: Final[Amqp10Map | None]
    def __init__(
        self,
        *,
        name: str | None,
        handle: int | None,
        role: bool | None,
        snd_settle_mode: int | None = None,
        rcv_settle_mode: int | None = None,
        source: Any = None,
        target: Any = None,
        unsettled: _Map | None = None,
        incomplete_unsettled: bool | None = None,
        initial_delivery_count: int | None = None,
        max_message_size: int | None = None,
        offered_capabilities: _Symbols | None = None,
        desired_capabilities: _Symbols | None = None,
        properties: _Map | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class Amqp10Flow(Amqp10Performative):
    __match_args__ = (
        "next_incoming_id",
        "incoming_window",
        "next_outgoing_id",
        "outgoing_window",
        "handle",
        "delivery_count",
        "link_credit",
        "available",
        "drain",
        "echo",
        "properties",
        "channel",
    )
    next_incoming_id: Final[int | None]
    incoming_window: Final[int | None]
    next_outgoing_id: Final[int | None]
    outgoing_window: Final[int | None]
    handle: Final[int | None]
    delivery_count: Final[int | None]
    link_credit: Final[int | None]
    available: Final[int | None]
    drain: Final[bool | None]
    echo: Final[bool | None]
    properties: Final[Amqp10Map | None]
    def __init__(
        self,
        *,
        next_incoming_id: int | None = None,
        incoming_window: int | None,
        next_outgoing_id: int | None,
        outgoing_window: int | None,
        handle: int | None = None,
        delivery_count: int | None = None,
        link_credit: int | None = None,
        available: int | None = None,
        drain: bool | None = None,
        echo: bool | None = None,
        properties: _Map | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class Amqp10Transfer(Amqp10Performative):
    __match_args__ = (
        "handle",
        "delivery_id",
        "delivery_tag",
        "message_format",
        "settled",
        "more",
        "rcv_settle_mode",
        "state",
        "resume",
        "aborted",
        "batchable",
        "payload",
        "channel",
    )
    handle: Final[int | None]
    delivery_id: Final[int | None]
    delivery_tag: Final[bytes | None]
    message_format: Final[int | None]
    settled: Final[bool | None]
    more: Final[bool | None]
    rcv_settle_mode: Final[int | None]
    state: Final[Any]
    resume: Final[bool | None]
    aborted: Final[bool | None]
    batchable: Final[bool | None]
    def __init__(
        self,
        *,
        handle: int | None,
        delivery_id: int | None = None,
        delivery_tag: Buffer | None = None,
        message_format: int | None = None,
        settled: bool | None = None,
        more: bool | None = None,
        rcv_settle_mode: int | None = None,
        state: Any = None,
        resume: bool | None = None,
        aborted: bool | None = None,
        batchable: bool | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
        payload: Buffer | Amqp10AnnotatedMessage = b"",
    ) -> None: ...
    @property
    def payload(self) -> memoryview: ...
    def payload_bytes(self) -> bytes: ...
    @property
    def message(self) -> Amqp10AnnotatedMessage: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Amqp10Disposition(Amqp10Performative):
    __match_args__ = (
        "role",
        "first",
        "last",
        "settled",
        "state",
        "batchable",
        "channel",
    )
    role: Final[bool | None]
    first: Final[int | None]
    last: Final[int | None]
    settled: Final[bool | None]
    state: Final[Any]
    batchable: Final[bool | None]
    def __init__(
        self,
        *,
        role: bool | None,
        first: int | None,
        last: int | None = None,
        settled: bool | None = None,
        state: Any = None,
        batchable: bool | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class Amqp10Detach(Amqp10Performative):
    __match_args__ = (
        "handle",
        "closed",
        "error",
        "channel",
    )
    handle: Final[int | None]
    closed: Final[bool | None]
    error: Final[Any]
    def __init__(
        self,
        *,
        handle: int | None,
        closed: bool | None = None,
        error: Amqp10Error | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class Amqp10End(Amqp10Performative):
    __match_args__ = (
        "error",
        "channel",
    )
    error: Final[Any]
    def __init__(
        self, *, error: Amqp10Error | None = None, channel: int = 0, extended_header: Buffer = b""
    ) -> None: ...

@final
class Amqp10Close(Amqp10Performative):
    __match_args__ = (
        "error",
        "channel",
    )
    error: Final[Any]
    def __init__(
        self, *, error: Amqp10Error | None = None, channel: int = 0, extended_header: Buffer = b""
    ) -> None: ...

@final
class Amqp10SaslMechanisms(Amqp10Performative):
    __match_args__ = (
        "sasl_server_mechanisms",
        "channel",
    )
    sasl_server_mechanisms: Final[Amqp10Symbol | Amqp10Array | None]
    def __init__(
        self, *, sasl_server_mechanisms: _Symbols | None, channel: int = 0, extended_header: Buffer = b""
    ) -> None: ...

@final
class Amqp10SaslInit(Amqp10Performative):
    __match_args__ = (
        "mechanism",
        "initial_response",
        "hostname",
        "channel",
    )
    mechanism: Final[Amqp10Symbol | None]
    initial_response: Final[bytes | None]
    hostname: Final[str | None]
    def __init__(
        self,
        *,
        mechanism: str | None,
        initial_response: Buffer | None = None,
        hostname: str | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class Amqp10SaslChallenge(Amqp10Performative):
    __match_args__ = (
        "challenge",
        "channel",
    )
    challenge: Final[bytes | None]
    def __init__(self, *, challenge: Buffer | None, channel: int = 0, extended_header: Buffer = b"") -> None: ...

@final
class Amqp10SaslResponse(Amqp10Performative):
    __match_args__ = (
        "response",
        "channel",
    )
    response: Final[bytes | None]
    def __init__(self, *, response: Buffer | None, channel: int = 0, extended_header: Buffer = b"") -> None: ...

@final
class Amqp10SaslOutcome(Amqp10Performative):
    __match_args__ = (
        "code",
        "additional_data",
        "channel",
    )
    code: Final[int | None]
    additional_data: Final[bytes | None]
    def __init__(
        self,
        *,
        code: int | None,
        additional_data: Buffer | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class Amqp10Error(Amqp10CompositeValue):
    __match_args__ = (
        "condition",
        "description",
        "info",
    )
    condition: Final[Amqp10Symbol | None]
    description: Final[str | None]
    info: Final[Amqp10Map | None]
    def __init__(self, *, condition: str | None, description: str | None = None, info: _Map | None = None) -> None: ...

@final
class Amqp10Header(Amqp10CompositeValue):
    __match_args__ = (
        "durable",
        "priority",
        "ttl",
        "first_acquirer",
        "delivery_count",
    )
    durable: Final[bool | None]
    priority: Final[int | None]
    ttl: Final[int | None]
    first_acquirer: Final[bool | None]
    delivery_count: Final[int | None]
    def __init__(
        self,
        *,
        durable: bool | None = None,
        priority: int | None = None,
        ttl: int | None = None,
        first_acquirer: bool | None = None,
        delivery_count: int | None = None,
    ) -> None: ...

@final
class Amqp10Properties(Amqp10CompositeValue):
    __match_args__ = (
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
    message_id: Final[Any]
    user_id: Final[bytes | None]
    to: Final[Any]
    subject: Final[str | None]
    reply_to: Final[Any]
    correlation_id: Final[Any]
    content_type: Final[Amqp10Symbol | None]
    content_encoding: Final[Amqp10Symbol | None]
    absolute_expiry_time: Final[int | None]
    creation_time: Final[int | None]
    group_id: Final[str | None]
    group_sequence: Final[int | None]
    reply_to_group_id: Final[str | None]
    def __init__(
        self,
        *,
        message_id: Any = None,
        user_id: Buffer | None = None,
        to: Any = None,
        subject: str | None = None,
        reply_to: Any = None,
        correlation_id: Any = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        absolute_expiry_time: int | datetime | None = None,
        creation_time: int | datetime | None = None,
        group_id: str | None = None,
        group_sequence: int | None = None,
        reply_to_group_id: str | None = None,
    ) -> None: ...

@final
class Amqp10Received(Amqp10CompositeValue):
    __match_args__ = (
        "section_number",
        "section_offset",
    )
    section_number: Final[int | None]
    section_offset: Final[int | None]
    def __init__(self, *, section_number: int | None, section_offset: int | None) -> None: ...

@final
class Amqp10Accepted(Amqp10CompositeValue):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Amqp10Rejected(Amqp10CompositeValue):
    __match_args__ = ("error",)
    error: Final[Any]
    def __init__(self, *, error: Amqp10Error | None = None) -> None: ...

@final
class Amqp10Released(Amqp10CompositeValue):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Amqp10Modified(Amqp10CompositeValue):
    __match_args__ = (
        "delivery_failed",
        "undeliverable_here",
        "message_annotations",
    )
    delivery_failed: Final[bool | None]
    undeliverable_here: Final[bool | None]
    message_annotations: Final[Amqp10Map | None]
    def __init__(
        self,
        *,
        delivery_failed: bool | None = None,
        undeliverable_here: bool | None = None,
        message_annotations: _Map | None = None,
    ) -> None: ...

@final
class Amqp10Source(Amqp10CompositeValue):
    __match_args__ = (
        "address",
        "durable",
        "expiry_policy",
        "timeout",
        "dynamic",
        "dynamic_node_properties",
        "distribution_mode",
        "filter",
        "default_outcome",
        "outcomes",
        "capabilities",
    )
    address: Final[Any]
    durable: Final[int | None]
    expiry_policy: Final[Amqp10Symbol | None]
    timeout: Final[int | None]
    dynamic: Final[bool | None]
    dynamic_node_properties: Final[Amqp10Map | None]
    distribution_mode: Final[Amqp10Symbol | None]
    filter: Final[Amqp10Map | None]
    default_outcome: Final[Any]
    outcomes: Final[Amqp10Symbol | Amqp10Array | None]
    capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    def __init__(
        self,
        *,
        address: Any = None,
        durable: int | None = None,
        expiry_policy: str | None = None,
        timeout: int | None = None,
        dynamic: bool | None = None,
        dynamic_node_properties: _Map | None = None,
        distribution_mode: str | None = None,
        filter: _Map | None = None,
        default_outcome: Any = None,
        outcomes: _Symbols | None = None,
        capabilities: _Symbols | None = None,
    ) -> None: ...

@final
class Amqp10Target(Amqp10CompositeValue):
    __match_args__ = (
        "address",
        "durable",
        "expiry_policy",
        "timeout",
        "dynamic",
        "dynamic_node_properties",
        "capabilities",
    )
    address: Final[Any]
    durable: Final[int | None]
    expiry_policy: Final[Amqp10Symbol | None]
    timeout: Final[int | None]
    dynamic: Final[bool | None]
    dynamic_node_properties: Final[Amqp10Map | None]
    capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    def __init__(
        self,
        *,
        address: Any = None,
        durable: int | None = None,
        expiry_policy: str | None = None,
        timeout: int | None = None,
        dynamic: bool | None = None,
        dynamic_node_properties: _Map | None = None,
        capabilities: _Symbols | None = None,
    ) -> None: ...

@final
class Amqp10DeleteOnClose(Amqp10CompositeValue):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Amqp10DeleteOnNoLinks(Amqp10CompositeValue):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Amqp10DeleteOnNoMessages(Amqp10CompositeValue):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Amqp10DeleteOnNoLinksOrMessages(Amqp10CompositeValue):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Amqp10Coordinator(Amqp10CompositeValue):
    __match_args__ = ("capabilities",)
    capabilities: Final[Amqp10Symbol | Amqp10Array | None]
    def __init__(self, *, capabilities: _Symbols | None = None) -> None: ...

@final
class Amqp10Declare(Amqp10CompositeValue):
    __match_args__ = ("global_id",)
    global_id: Final[Any]
    def __init__(self, *, global_id: Any = None) -> None: ...

@final
class Amqp10Discharge(Amqp10CompositeValue):
    __match_args__ = (
        "txn_id",
        "fail",
    )
    txn_id: Final[bytes | None]
    fail: Final[bool | None]
    def __init__(self, *, txn_id: Buffer | None, fail: bool | None = None) -> None: ...

@final
class Amqp10Declared(Amqp10CompositeValue):
    __match_args__ = ("txn_id",)
    txn_id: Final[bytes | None]
    def __init__(self, *, txn_id: Buffer | None) -> None: ...

@final
class Amqp10TransactionalState(Amqp10CompositeValue):
    __match_args__ = (
        "txn_id",
        "outcome",
    )
    txn_id: Final[bytes | None]
    outcome: Final[Any]
    def __init__(self, *, txn_id: Buffer | None, outcome: Any = None) -> None: ...

@final
class Amqp10ProtocolHeader:
    __match_args__ = ("protocol_id", "major", "minor", "revision")
    def __init__(self, protocol_id: int = 0, major: int = 1, minor: int = 0, revision: int = 0) -> None: ...
    @property
    def protocol_id(self) -> int: ...
    @property
    def major(self) -> int: ...
    @property
    def minor(self) -> int: ...
    @property
    def revision(self) -> int: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def encode(self) -> bytes: ...
    def __hash__(self) -> int: ...

@final
class Amqp10EmptyFrame:
    __match_args__ = ("channel", "extended_header", "type")
    def __init__(self, channel: int = 0, extended_header: Buffer = b"", type: int = 0) -> None: ...
    @property
    def channel(self) -> int: ...
    @property
    def extended_header(self) -> bytes: ...
    @property
    def type(self) -> int: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def encode(self) -> bytes: ...
    def __hash__(self) -> int: ...

@final
class Amqp10Data(Amqp10Held):
    __match_args__ = ("payload",)
    def __init__(self, payload: Buffer, /) -> None: ...
    @property
    def payload(self) -> memoryview: ...
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __hash__(self) -> int: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Amqp10AmqpSequence(Amqp10Held):
    __match_args__ = ("items",)
    def __init__(self, items: Iterable[Any], /) -> None: ...
    @property
    def items(self) -> Amqp10List: ...
    def __hash__(self) -> int: ...

@final
class Amqp10AmqpValue(Amqp10Held):
    __match_args__ = ("value",)
    def __init__(self, value: Any, /) -> None: ...
    @property
    def value(self) -> Any: ...
    def __hash__(self) -> int: ...

_Section: TypeAlias = Amqp10Data | Amqp10AmqpSequence | Amqp10AmqpValue

@final
class Amqp10AnnotatedMessage:
    __match_args__ = (
        "header",
        "delivery_annotations",
        "message_annotations",
        "properties",
        "application_properties",
        "body",
        "footer",
    )
    def __init__(
        self,
        *,
        header: Amqp10Header | None = None,
        delivery_annotations: _Map | None = None,
        message_annotations: _Map | None = None,
        properties: Amqp10Properties | None = None,
        application_properties: _Map | None = None,
        body: _Section | Sequence[_Section] | Buffer,
        footer: _Map | None = None,
    ) -> None: ...
    @staticmethod
    def decode(
        data: Buffer, /, *, strictness: Strictness | str = ..., limits: Limits | None = None
    ) -> Amqp10AnnotatedMessage: ...
    def encode(self) -> bytes: ...
    def detach(self) -> Self: ...
    @property
    def header(self) -> Amqp10Header | None: ...
    @property
    def delivery_annotations(self) -> Amqp10Map | None: ...
    @property
    def message_annotations(self) -> Amqp10Map | None: ...
    @property
    def properties(self) -> Amqp10Properties | None: ...
    @property
    def application_properties(self) -> Amqp10Map | None: ...
    @property
    def body(self) -> tuple[_Section, ...]: ...
    @property
    def footer(self) -> Amqp10Map | None: ...
    @property
    def payload(self) -> memoryview | None: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

_Amqp10Frame: TypeAlias = Amqp10Performative | Amqp10ProtocolHeader | Amqp10EmptyFrame

def decode_amqp10(
    data: Buffer, /, *, strictness: Strictness | str = ..., limits: Limits | None = None
) -> _Amqp10Frame: ...
def decode_amqp10_message(
    data: Buffer, /, *, strictness: Strictness | str = ..., limits: Limits | None = None
) -> Amqp10AnnotatedMessage: ...
def amqp10_size(data: Buffer, /, *, limits: Limits | None = None) -> int | NeedData: ...
def encode_amqp10(message: _Amqp10Frame | Amqp10CompositeValue | Amqp10AnnotatedMessage, /) -> bytes: ...
def restore_amqp10_frame(octets: bytes, strict: bool) -> _Amqp10Frame: ...
def restore_amqp10_message(octets: bytes) -> Amqp10AnnotatedMessage: ...

@final
class Amqp10Decoder(FrameDecoder):
    def __init__(self, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> None: ...
    def feed(self, data: Buffer, /) -> list[_Amqp10Frame]: ...

@final
class Amqp10DeliveryValue:
    transfer: Final[Amqp10Transfer]
    transfers: Final[int]
    settled: Final[bool]
    @property
    def payload(self) -> memoryview: ...
    @property
    def message(self) -> Amqp10AnnotatedMessage: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def restore_amqp10_delivery(
    transfer: Amqp10Transfer, joined: bytes | None, transfers: int, settled: bool, strict: bool, max_elements: int
) -> Amqp10DeliveryValue: ...

@final
class Amqp10TransferAssembler:
    def __init__(self, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> None: ...
    @property
    def unfinished(self) -> int: ...
    def receive(self, frame: _Amqp10Frame, /) -> Amqp10DeliveryValue | None: ...

# ---- amqp10_columns
def amqp10_decode_batch(
    data: Buffer,
    *,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    payload: bool = True,
    expose_credentials: bool = False,
    limits: Limits | None = None,
) -> Batch: ...

# ---- reassembly

@disjoint_base
class StreamTrace:
    events: list[tuple[Any, ...]]
    def __init__(
        self,
        *,
        max_flows: int = ...,
        max_buffered: int = ...,
        max_out_of_order: int = ...,
        idle_seconds: int = ...,
    ) -> None: ...
    def segment_in(
        self,
        source: tuple[int, int],
        destination: tuple[int, int],
        flags: int,
        seq: int,
        ack: int = 0,
        payload: bytes = b"",
        *,
        size: int | None = None,
        ts_ns: int = 0,
        frame_no: int = 0,
        capture: int = 0,
        realm: int = 0,
    ) -> None: ...
    def finish(self) -> None: ...
    @property
    def stats(self) -> dict[str, int]: ...

# ---- pcapfile

@disjoint_base
class PcapReader:
    faults: list[tuple[int, str]]
    def __init__(self) -> None: ...
    def feed(self, chunk: Buffer) -> list[tuple[int, int, int, int, bytes]]: ...
    def close(self) -> list[tuple[int, int, int, int, bytes]]: ...

# ---- packets

@disjoint_base
class PacketTrace:
    def __init__(self, *, tunnels: bool = False, fragments: bool = True) -> None: ...
    def parse(
        self, link_type: int, packet: Buffer, *, original_size: int | None = None, ts_ns: int = 0
    ) -> tuple[str, dict[str, Any] | None]: ...

# ---- scanner
@disjoint_base
class PacketScanner(ColumnSet):
    def __init__(
        self,
        *,
        tunnels: bool = False,
        columns: Iterable[str] | None = None,
        ports: Iterable[int] = (),
        batch_rows: int = 16384,
        batch_bytes: int = ...,
    ) -> None: ...
    def begin_file(
        self, name: str, index: int = 0, *, prefix: Buffer = b"", offset: int = 0, first_frame: int = 1
    ) -> None: ...
    def feed(self, chunk: Buffer) -> None: ...
    def end_file(self) -> None: ...
    def take(self, final: bool = False) -> Batch | None: ...
    @property
    def stats(self) -> dict[str, int]: ...

def find_record(prefix: Buffer, window: Buffer, base: int, last: bool, split: int) -> int: ...

# ---- capture

@disjoint_base
class CaptureDecoder:
    LIMITS: ClassVar[dict[str, int]]
    def __init__(
        self,
        *,
        protocols: Iterable[str] | None = None,
        decode_as: str | Iterable[str] = (),
        columns: Iterable[str] | None = None,
        payload: bool = True,
        payload_max: int | None = None,
        expose_credentials: bool = False,
        strictness: str = "lax",
        batch_rows: int = 16384,
        batch_bytes: int = ...,
        flows: str = "in-file",
        tunnels: bool = False,
        slice: tuple[int, int] = (0, 1),
        limits: Mapping[str, int] | None = None,
        octets: bool = False,
        detail: bool = False,
    ) -> None: ...
    def begin_file(self, name: str, index: int = 0) -> None: ...
    def feed(self, chunk: Buffer) -> int: ...
    def end_file(self) -> bool: ...
    def finish(self) -> bool: ...
    def feed_segments(self, rows: Buffer) -> int: ...
    def report(self, text: str) -> None: ...
    def take(self, final: bool = False) -> Batch | None: ...
    @property
    def rows(self) -> int: ...
    @property
    def stats(self) -> dict[str, Any]: ...
    @property
    def fault(self) -> str | None: ...
    @property
    def not_a_capture(self) -> bool: ...

# ---- nsq_messages
_NsqMembers: TypeAlias = tuple[tuple[str, Any], ...]

@disjoint_base
class NsqMessage:
    __match_args__: ClassVar[tuple[str, ...]]
    @property
    def kind(self) -> str: ...
    def encode(self) -> bytes: ...
    def detach(self) -> Self: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...

class NsqCommand(NsqMessage):
    @property
    def line(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> tuple[bytes, ...]: ...

@final
class NsqMagic(NsqCommand):
    def __init__(self) -> None: ...

class NsqMembers(NsqCommand): ...

@final
class NsqIdentify(NsqMembers):
    def __init__(
        self, members: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), **known: str | bool | int
    ) -> None: ...
    @property
    def members(self) -> _NsqMembers | None: ...
    @property
    def body(self) -> bytes: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def hostname(self) -> str | None: ...
    @property
    def user_agent(self) -> str | None: ...
    @property
    def feature_negotiation(self) -> bool | None: ...
    @property
    def heartbeat_interval(self) -> int | None: ...
    @property
    def output_buffer_timeout(self) -> int | None: ...
    @property
    def output_buffer_size(self) -> int | None: ...
    @property
    def sample_rate(self) -> int | None: ...
    @property
    def msg_timeout(self) -> int | None: ...
    @property
    def tls_v1(self) -> bool | None: ...
    @property
    def deflate(self) -> bool | None: ...
    @property
    def deflate_level(self) -> int | None: ...
    @property
    def snappy(self) -> bool | None: ...
    @property
    def topology_region(self) -> str | None: ...
    @property
    def topology_zone(self) -> str | None: ...

@final
class NsqAuth(NsqCommand):
    def __init__(self, *, secret: Buffer) -> None: ...
    @property
    def secret(self) -> bytes: ...

@final
class NsqSub(NsqCommand):
    def __init__(self, *, topic: str, channel: str) -> None: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def channel(self) -> str | None: ...

class NsqPublication(NsqCommand):
    @property
    def topic(self) -> str | None: ...
    @property
    def body(self) -> memoryview: ...
    def body_bytes(self) -> bytes: ...

@final
class NsqPublish(NsqPublication):
    def __init__(self, *, topic: str, body: Buffer) -> None: ...

@final
class NsqDeferredPublish(NsqPublication):
    def __init__(self, *, topic: str, defer_time: SupportsIndex, body: Buffer) -> None: ...
    @property
    def defer_time(self) -> int | None: ...

@final
class NsqMultiPublish(NsqCommand):
    def __init__(self, *, topic: str, bodies: Iterable[Buffer]) -> None: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def bodies(self) -> tuple[bytes, ...]: ...

@final
class NsqReady(NsqCommand):
    def __init__(self, *, count: SupportsIndex) -> None: ...
    @property
    def count(self) -> int | None: ...

class NsqAnswer(NsqCommand):
    @property
    def message_id(self) -> bytes | None: ...

@final
class NsqFinish(NsqAnswer):
    def __init__(self, *, message_id: Buffer) -> None: ...

@final
class NsqRequeue(NsqAnswer):
    def __init__(self, *, message_id: Buffer, timeout: SupportsIndex = 0) -> None: ...
    @property
    def timeout(self) -> int | None: ...

@final
class NsqTouch(NsqAnswer):
    def __init__(self, *, message_id: Buffer) -> None: ...

@final
class NsqClose(NsqCommand):
    def __init__(self) -> None: ...

@final
class NsqNop(NsqCommand):
    def __init__(self) -> None: ...

class NsqFrame(NsqMessage):
    def __init__(self, *, frame_type: SupportsIndex, data: Buffer = b"") -> None: ...
    @property
    def frame_type(self) -> int: ...
    @property
    def data(self) -> bytes: ...

@final
class NsqResponse(NsqFrame):
    def __init__(
        self,
        data: Buffer | None = None,
        *,
        members: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
    ) -> None: ...
    @property
    def members(self) -> _NsqMembers | None: ...
    @property
    def is_heartbeat(self) -> bool: ...

@final
class NsqError(NsqFrame):
    def __init__(self, data: Buffer) -> None: ...
    @property
    def code(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def fatal(self) -> bool | None: ...

@final
class NsqMessageFrame(NsqFrame):
    def __init__(
        self, *, timestamp: SupportsIndex, attempts: SupportsIndex, message_id: Buffer, body: Buffer
    ) -> None: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def attempts(self) -> int: ...
    @property
    def message_id(self) -> bytes: ...
    @property
    def body(self) -> memoryview: ...
    def body_bytes(self) -> bytes: ...

@final
class NsqDecoder(FrameDecoder):
    def __init__(
        self,
        *,
        side: _Side | None = None,
        magic: bool | None = None,
        strictness: Strictness | str = Strictness.STRICT,
        limits: Limits | None = None,
        server: ServerOptions | None = None,
    ) -> None: ...
    @property
    def side(self) -> _Side | None: ...
    def feed(self, data: Buffer, /) -> list[NsqMessage]: ...

def decode_nsq(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    limits: Limits | None = None,
    server: ServerOptions | None = None,
) -> NsqMessage: ...
def nsq_size(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    limits: Limits | None = None,
    server: ServerOptions | None = None,
) -> int | NeedData: ...
def encode_nsq(message: NsqMessage, /) -> bytes: ...
def restore_nsq(octets: bytes, of_server: bool, noted: bool) -> NsqMessage: ...
def nsq_decode_batch(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    payload: bool = True,
    expose_credentials: bool = False,
    limits: Limits | None = None,
    server: ServerOptions | None = None,
) -> Batch: ...

# ---- phpmq_messages
@disjoint_base
class PhpmqObject:
    __match_args__: ClassVar[tuple[str, ...]]
    def __init__(self, *, message_type: SupportsIndex, packets: Iterable[tuple[SupportsIndex, Buffer]]) -> None: ...
    def encode(self) -> bytes: ...
    def detach(self) -> Self: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    @property
    def kind(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def message_type(self) -> int: ...
    @property
    def packets(self) -> tuple[tuple[int, bytes], ...]: ...
    def content_bytes(self) -> bytes | None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...

class PhpmqQueued(PhpmqObject):
    @property
    def queue_name(self) -> str | None: ...

class PhpmqCarrier(PhpmqQueued):
    @property
    def content(self) -> memoryview | None: ...
    @property
    def ttl(self) -> int | None: ...

@final
class PhpmqMessageClientToServer(PhpmqCarrier):
    def __init__(self, *, queue_name: str, content: Buffer, ttl: SupportsIndex | None = 0) -> None: ...

@final
class PhpmqConsumeRequest(PhpmqQueued):
    def __init__(self, *, queue_name: str, message_count: SupportsIndex) -> None: ...
    @property
    def message_count(self) -> int | None: ...

@final
class PhpmqMessageServerToClient(PhpmqCarrier):
    def __init__(self, *, queue_name: str, content: Buffer, message_id: str, ttl: SupportsIndex | None) -> None: ...
    @property
    def message_id(self) -> str | None: ...

class PhpmqAnswer(PhpmqQueued):
    @property
    def message_id(self) -> str | None: ...

@final
class PhpmqAcknowledgement(PhpmqAnswer):
    def __init__(self, *, queue_name: str, message_id: str) -> None: ...

@final
class PhpmqReQueue(PhpmqAnswer):
    def __init__(self, *, queue_name: str, message_id: str, ttl: SupportsIndex | None) -> None: ...
    @property
    def ttl(self) -> int | None: ...

@final
class PhpmqDeadLetter(PhpmqAnswer):
    def __init__(self, *, queue_name: str, message_id: str) -> None: ...

@final
class PhpmqDecoder(FrameDecoder):
    def __init__(
        self,
        *,
        side: _Side | None = None,
        strictness: Strictness | str = Strictness.STRICT,
        limits: Limits | None = None,
    ) -> None: ...
    def feed(self, data: Buffer, /) -> list[PhpmqObject]: ...

def decode_phpmq(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    limits: Limits | None = None,
) -> PhpmqObject: ...
def phpmq_size(
    data: Buffer, *, strictness: Strictness | str = Strictness.STRICT, limits: Limits | None = None
) -> int | NeedData: ...
def encode_phpmq(message: PhpmqObject, /, *, profile: Literal["present", "early"] | None = None) -> bytes: ...
def restore_phpmq(octets: bytes, noted: bool) -> PhpmqObject: ...
def phpmq_decode_batch(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    payload: bool = True,
    limits: Limits | None = None,
) -> Batch: ...

# ---- conversions

CONVERT_REASONS: tuple[str, ...]
CONVERT_REFUSALS: tuple[tuple[str, str], ...]
CONVERT_TOPICS: tuple[str, ...]

@final
class ConvertRules:
    def __init__(
        self,
        rows: Iterable[tuple[Any, ...]],
        ids: Iterable[str],
        *,
        valid: bool = False,
        annotation_keys: bool = False,
        same_is_identity: bool = True,
        short_arrays: bool = False,
        sections: bool = True,
        all_fields: bool = False,
        short_strings: int = 255,
    ) -> None: ...
    @property
    def ids(self) -> tuple[str, ...]: ...
    @property
    def valid(self) -> bool: ...

@final
class Delivery:
    def __init__(
        self,
        *,
        durable: int = -1,
        priority: int = -1,
        ttl_ms: int = -1,
        expiry_s: int = -1,
        timestamp_ms: int | None = None,
        delivery_count: int = 0,
        first_acquirer: bool = True,
        redelivered: bool = False,
        stored: bool = False,
        entry: bool = False,
        keeps_expiry: bool = False,
        retain: bool = False,
        clears_ttl: bool = False,
        qos: int = 1,
        annotations: Iterable[tuple[str, object]] = (),
        deaths: Iterable[tuple[Any, ...]] = (),
    ) -> None: ...

@final
class Conversion:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @property
    def protocol(self) -> Protocol: ...
    @property
    def octets(self) -> bytes: ...
    @property
    def body(self) -> bytes | None: ...
    @property
    def wire(self) -> Wire: ...
    @property
    def message(self) -> Any: ...
    @property
    def losses(self) -> tuple[Loss, ...]: ...

def restore_conversion(
    protocol: Protocol, octets: bytes, body: bytes | None, losses: tuple[Loss, ...]
) -> Conversion: ...
def set_convert_face(
    *,
    wire: type[Wire],
    loss: type[Loss],
    wire_of: Callable[[object, str | None], Wire],
    rules_of: Callable[[str], ConvertRules],
) -> None: ...
def convert_message(
    message: object,
    *,
    to: Protocol,
    source: Protocol | None = None,
    dialect: str = "documented",
    routing_key: str | bytes = "",
    mqtt_exchange: str | bytes = "amq.topic",
    topics: Topics = "translated",
    percent_encoding: bool = True,
    packet_identifier: int = 1,
    lossless: bool = False,
    explain: bool = False,
) -> Conversion: ...
def convert_wire(
    wire: Wire,
    *,
    to: Protocol,
    dialect: str,
    topic: bytes,
    mqtt_exchange: str | bytes,
    packet_identifier: int,
    explain: bool,
    delivery: Delivery | None = None,
    topics: Topics = "translated",
    percent_encoding: bool = True,
) -> Conversion: ...
def topic_of(routing_key: str | bytes, topics: Topics = "translated", /) -> bytes: ...
def routing_key_of(topic: str | bytes, topics: Topics = "translated", /) -> bytes: ...
def check_lossless(result: Conversion, /) -> None: ...
def protocol_number(protocol: str) -> int: ...
def essentials_of(rules: ConvertRules, source: int, data: bytes, routed: bool) -> dict[str, object]: ...
def unconverted(wire: Wire, /) -> Conversion: ...

# ---- convert_rows

def split_content(data: Buffer, /) -> tuple[bytes, bytes]: ...
def join_content(properties: bytes, body: bytes, *, channel: int = 1) -> bytes: ...

@final
class ConvertRun: ...

def convert_rows(
    rules: ConvertRules,
    target: int,
    kinds: Buffer,
    offsets: Buffer,
    data: Buffer,
    key_offsets: Buffer,
    keys: Buffer,
    *,
    exchange: bytes = b"amq.topic",
    topics: Topics = "translated",
    percent_encoding: bool = True,
) -> Batch: ...
