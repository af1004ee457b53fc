"""The typed face of the codec of AMQP 1.0, in the order of its rooms."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final, Self, SupportsIndex, TypeAlias, final

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch, FrameDecoder, _ArrowColumns
from wirefmt.framing import Limits, NeedData
from wirefmt.strictness import Note, Strictness

# ---- scalars
class Integer(int):
    lowest: ClassVar[int]
    highest: ClassVar[int]
    def __new__(cls, value: SupportsIndex = 0, /) -> Self: ...

class UByte(Integer): ...
class UShort(Integer): ...
class UInt(Integer): ...
class ULong(Integer): ...
class Byte(Integer): ...
class Short(Integer): ...
class Int(Integer): ...

class Timestamp(Integer):
    @classmethod
    def of(cls, moment: datetime, /) -> Self: ...
    def to_datetime(self) -> datetime: ...

class Float(float):
    def __new__(cls, value: float = 0.0, /) -> Self: ...

class Char(str):
    def __new__(cls, value: str | int, /) -> Self: ...

class Symbol(str): ...

class Decimal(bytes):
    width: ClassVar[int]
    def __new__(cls, value: Buffer, /) -> Self: ...

class Decimal32(Decimal): ...
class Decimal64(Decimal): ...
class Decimal128(Decimal): ...

# ---- values
_Symbols: TypeAlias = str | Iterable[str]
_Map: TypeAlias = Map | Mapping[Any, Any]

@disjoint_base
class Value:
    def encode(self) -> bytes: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

class BaseSequence(Value, Sequence[Any]):
    def index(self, value: Any, *bounds: int) -> int: ...
    def count(self, value: Any) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __hash__(self) -> int: ...

@final
class List(BaseSequence):
    def __init__(self, items: Iterable[Any] = (), /) -> None: ...

@final
class Array(BaseSequence):
    def __init__(self, type: str, values: Iterable[Any] = (), /, *, descriptors: Iterable[Any] = ()) -> None: ...
    @staticmethod
    def repeat(value: Any, count: int, /) -> Array: ...
    @property
    def type(self) -> str: ...
    @property
    def constructor(self) -> int: ...
    @property
    def descriptors(self) -> tuple[Any, ...]: ...
    def walk(self) -> Iterator[Any]: ...
    def __hash__(self) -> int: ...

@final
class Map(Value, Mapping[Any, Any]):
    def __init__(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), /) -> None: ...
    @property
    def pairs(self) -> tuple[tuple[Any, Any], ...]: ...
    def get(self, key: Any, default: Any = None, /) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __hash__(self) -> int: ...

@final
class Described(Value):
    __match_args__ = ("descriptor", "value")
    def __init__(self, descriptor: Any, value: Any, /) -> None: ...
    @property
    def descriptor(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Composite:
    @property
    def descriptor(self) -> Any: ...
    @property
    def value(self) -> List: ...
    def encode(self) -> bytes: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def decode_value(data: Buffer, /, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> Any: ...
def encode_value(value: Any, /) -> bytes: ...
def restore_value(octets: bytes) -> Any: ...
def restore_composite(octets: bytes) -> Composite: ...

# ---- objects
class Performative(Composite):
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
class Open(Performative):
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
    outgoing_locales: Final[Symbol | Array | None]
    incoming_locales: Final[Symbol | Array | None]
    offered_capabilities: Final[Symbol | Array | None]
    desired_capabilities: Final[Symbol | Array | None]
    properties: Final[Map | None]
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
class Begin(Performative):
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
    offered_capabilities: Final[Symbol | Array | None]
    desired_capabilities: Final[Symbol | Array | None]
    properties: Final[Map | None]
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
class Attach(Performative):
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
    unsettled: Final[Map | None]
    incomplete_unsettled: Final[bool | None]
    initial_delivery_count: Final[int | None]
    max_message_size: Final[int | None]
    offered_capabilities: Final[Symbol | Array | None]
    desired_capabilities: Final[Symbol | Array | None]
    properties: Final[Map | None]
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
class Flow(Performative):
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
    properties: Final[Map | None]
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
class Transfer(Performative):
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
        payload: Buffer | Message = b"",
    ) -> None: ...
    @property
    def payload(self) -> memoryview: ...
    def payload_bytes(self) -> bytes: ...
    @property
    def message(self) -> Message: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Disposition(Performative):
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
class Detach(Performative):
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
        error: Error | None = None,
        channel: int = 0,
        extended_header: Buffer = b"",
    ) -> None: ...

@final
class End(Performative):
    __match_args__ = (
        "error",
        "channel",
    )
    error: Final[Any]
    def __init__(self, *, error: Error | None = None, channel: int = 0, extended_header: Buffer = b"") -> None: ...

@final
class Close(Performative):
    __match_args__ = (
        "error",
        "channel",
    )
    error: Final[Any]
    def __init__(self, *, error: Error | None = None, channel: int = 0, extended_header: Buffer = b"") -> None: ...

@final
class SaslMechanisms(Performative):
    __match_args__ = (
        "sasl_server_mechanisms",
        "channel",
    )
    sasl_server_mechanisms: Final[Symbol | Array | None]
    def __init__(
        self, *, sasl_server_mechanisms: _Symbols | None, channel: int = 0, extended_header: Buffer = b""
    ) -> None: ...

@final
class SaslInit(Performative):
    __match_args__ = (
        "mechanism",
        "initial_response",
        "hostname",
        "channel",
    )
    mechanism: Final[Symbol | None]
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
class SaslChallenge(Performative):
    __match_args__ = (
        "challenge",
        "channel",
    )
    challenge: Final[bytes | None]
    def __init__(self, *, challenge: Buffer | None, channel: int = 0, extended_header: Buffer = b"") -> None: ...

@final
class SaslResponse(Performative):
    __match_args__ = (
        "response",
        "channel",
    )
    response: Final[bytes | None]
    def __init__(self, *, response: Buffer | None, channel: int = 0, extended_header: Buffer = b"") -> None: ...

@final
class SaslOutcome(Performative):
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
class Error(Composite):
    __match_args__ = (
        "condition",
        "description",
        "info",
    )
    condition: Final[Symbol | None]
    description: Final[str | None]
    info: Final[Map | None]
    def __init__(self, *, condition: str | None, description: str | None = None, info: _Map | None = None) -> None: ...

@final
class Header(Composite):
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
class Properties(Composite):
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
    content_type: Final[Symbol | None]
    content_encoding: Final[Symbol | None]
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
class Received(Composite):
    __match_args__ = (
        "section_number",
        "section_offset",
    )
    section_number: Final[int | None]
    section_offset: Final[int | None]
    def __init__(self, *, section_number: int | None, section_offset: int | None) -> None: ...

@final
class Accepted(Composite):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Rejected(Composite):
    __match_args__ = ("error",)
    error: Final[Any]
    def __init__(self, *, error: Error | None = None) -> None: ...

@final
class Released(Composite):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Modified(Composite):
    __match_args__ = (
        "delivery_failed",
        "undeliverable_here",
        "message_annotations",
    )
    delivery_failed: Final[bool | None]
    undeliverable_here: Final[bool | None]
    message_annotations: Final[Map | None]
    def __init__(
        self,
        *,
        delivery_failed: bool | None = None,
        undeliverable_here: bool | None = None,
        message_annotations: _Map | None = None,
    ) -> None: ...

@final
class Source(Composite):
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
    expiry_policy: Final[Symbol | None]
    timeout: Final[int | None]
    dynamic: Final[bool | None]
    dynamic_node_properties: Final[Map | None]
    distribution_mode: Final[Symbol | None]
    filter: Final[Map | None]
    default_outcome: Final[Any]
    outcomes: Final[Symbol | Array | None]
    capabilities: Final[Symbol | Array | None]
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
class Target(Composite):
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
    expiry_policy: Final[Symbol | None]
    timeout: Final[int | None]
    dynamic: Final[bool | None]
    dynamic_node_properties: Final[Map | None]
    capabilities: Final[Symbol | Array | None]
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
class DeleteOnClose(Composite):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class DeleteOnNoLinks(Composite):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class DeleteOnNoMessages(Composite):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class DeleteOnNoLinksOrMessages(Composite):
    __match_args__ = ()
    def __init__(
        self,
    ) -> None: ...

@final
class Coordinator(Composite):
    __match_args__ = ("capabilities",)
    capabilities: Final[Symbol | Array | None]
    def __init__(self, *, capabilities: _Symbols | None = None) -> None: ...

@final
class Declare(Composite):
    __match_args__ = ("global_id",)
    global_id: Final[Any]
    def __init__(self, *, global_id: Any = None) -> None: ...

@final
class Discharge(Composite):
    __match_args__ = (
        "txn_id",
        "fail",
    )
    txn_id: Final[bytes | None]
    fail: Final[bool | None]
    def __init__(self, *, txn_id: Buffer | None, fail: bool | None = None) -> None: ...

@final
class Declared(Composite):
    __match_args__ = ("txn_id",)
    txn_id: Final[bytes | None]
    def __init__(self, *, txn_id: Buffer | None) -> None: ...

@final
class TransactionalState(Composite):
    __match_args__ = (
        "txn_id",
        "outcome",
    )
    txn_id: Final[bytes | None]
    outcome: Final[Any]
    def __init__(self, *, txn_id: Buffer | None, outcome: Any = None) -> None: ...

@final
class ProtocolHeader:
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
class EmptyFrame:
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
class Data(Value):
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
class AmqpSequence(Value):
    __match_args__ = ("items",)
    def __init__(self, items: Iterable[Any], /) -> None: ...
    @property
    def items(self) -> List: ...
    def __hash__(self) -> int: ...

@final
class AmqpValue(Value):
    __match_args__ = ("value",)
    def __init__(self, value: Any, /) -> None: ...
    @property
    def value(self) -> Any: ...
    def __hash__(self) -> int: ...

_Section: TypeAlias = Data | AmqpSequence | AmqpValue

@final
class Message:
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
        header: Header | None = None,
        delivery_annotations: _Map | None = None,
        message_annotations: _Map | None = None,
        properties: Properties | None = None,
        application_properties: _Map | None = None,
        body: _Section | Sequence[_Section] | Buffer,
        footer: _Map | None = None,
    ) -> None: ...
    @staticmethod
    def decode(data: Buffer, /, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> Message: ...
    def encode(self) -> bytes: ...
    def detach(self) -> Self: ...
    @property
    def header(self) -> Header | None: ...
    @property
    def delivery_annotations(self) -> Map | None: ...
    @property
    def message_annotations(self) -> Map | None: ...
    @property
    def properties(self) -> Properties | None: ...
    @property
    def application_properties(self) -> Map | None: ...
    @property
    def body(self) -> tuple[_Section, ...]: ...
    @property
    def footer(self) -> Map | None: ...
    @property
    def payload(self) -> memoryview | None: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

_Frame: TypeAlias = Performative | ProtocolHeader | EmptyFrame

def decode(data: Buffer, /, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> _Frame: ...
def decode_message(data: Buffer, /, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> Message: ...
def frame_size(data: Buffer, /, *, limits: Limits | None = None) -> int | NeedData: ...
def encode(message: _Frame | Composite | Message, /) -> bytes: ...
def restore_frame(octets: bytes, strict: bool) -> _Frame: ...
def restore_message(octets: bytes) -> Message: ...

@final
class Decoder(FrameDecoder):
    def __init__(self, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> None: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[_Frame]: ...

@final
class Delivery:
    transfer: Final[Transfer]
    transfers: Final[int]
    settled: Final[bool]
    @property
    def payload(self) -> memoryview: ...
    @property
    def message(self) -> Message: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def restore_delivery(
    transfer: Transfer, joined: bytes | None, transfers: int, settled: bool, strict: bool, max_elements: int
) -> Delivery: ...

@final
class TransferAssembler:
    def __init__(self, *, strictness: Strictness | str = ..., limits: Limits | None = None) -> None: ...
    @property
    def unfinished(self) -> int: ...
    def receive(self, frame: _Frame, /) -> Delivery | None: ...

# ---- batch
def decode_batch(
    data: Buffer,
    *,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    payload: bool = True,
    expose_credentials: bool = False,
    limits: Limits | None = None,
) -> Batch: ...
def encode_batch(
    data: _ArrowColumns,
    *,
    strictness: Strictness | str = "strict",
    max_frame_size: SupportsIndex = 0,
) -> bytes: ...

PROTOCOL: object
