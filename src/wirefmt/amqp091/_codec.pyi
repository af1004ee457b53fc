"""Type stub of the codec of AMQP 0.9.1, in the order of its rooms."""

import sys
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from datetime import datetime
from typing import Any, Final, Generic, Literal, Self, SupportsIndex, TypeAlias, TypeVar, final

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch, EndpointFlows, FrameDecoder, _ArrowColumns
from wirefmt.amqp091._classes import *  # noqa: F403
from wirefmt.amqp091._classes import (
    BasicAck as BasicAck,
    BasicConsume as BasicConsume,
    BasicNack as BasicNack,
    BasicProperties as BasicProperties,
    BasicReject as BasicReject,
)
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
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

@final
class FieldArray:
    def __init__(self, source: Iterable[Any] = (), /) -> None: ...
    def encode(self) -> bytes: ...
    @property
    def items(self) -> tuple[tuple[_FieldType, Any], ...]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> Any: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

def restore_value(is_table: bool, octets: bytes) -> FieldTable | FieldArray: ...

# ---- objects
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

# ---- content
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
    @property
    def faulty_content(self) -> Method | None: ...

# ---- batch
def decode_batch(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    payload: bool = True,
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
    frame_max: int = 131072,
    channel_max: int = 0,
) -> bytes: ...

PROTOCOL: object

# ---- tags
_Record = TypeVar("_Record")

@final
class Tags(Generic[_Record]):
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, tag: object, /) -> bool: ...
    def add(self, tag: int, record: _Record) -> None: ...
    def get(self, tag: int) -> _Record | None: ...
    def pop(self, tag: int) -> _Record: ...
    def settle_up_to(self, tag: int) -> list[_Record]: ...
    def values(self) -> list[_Record]: ...
    def clear(self) -> None: ...
    def note(self, tag: int) -> None: ...

# ---- connection
@final
class Publication:
    returned: BasicMessage | None
    def __init__(self, number: int, channel: int, tag: int, message: BasicMessage) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def channel(self) -> int: ...
    @property
    def tag(self) -> int: ...
    @property
    def message(self) -> BasicMessage: ...

@final
class Delivery:
    context: Any
    def __init__(self, number: int, channel: int, tag: int, consumer: Consumer | None, context: Any) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def channel(self) -> int: ...
    @property
    def tag(self) -> int: ...
    @property
    def consumer(self) -> Consumer | None: ...

@final
class Consumer:
    prefetch: int
    unacknowledged: int
    def __init__(self, tag: str, consume: BasicConsume, prefetch: int = 0) -> None: ...
    @property
    def tag(self) -> str: ...
    @property
    def no_ack(self) -> bool: ...
    @property
    def consume(self) -> BasicConsume: ...

@disjoint_base
class SessionFlows:
    journaled: bool
    _number: int
    """Of the last handle. `Session` sets it when it is restored."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @property
    def outgoing(self) -> dict[int, Publication]: ...

@disjoint_base
class Flows(EndpointFlows):
    frame_max: int
    blocked: bool
    _up: bool
    """The connection is open. `Endpoint._enter` sets it."""
    _undecided: int
    """Events that wait for an answer of the host, and what waits after them."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @property
    def channels(self) -> dict[int, Any]: ...
    @property
    def _at(self) -> int:
        """The message that `_flow` took last, or at which it raises."""
    @property
    def _marked(self) -> list[Any]:
        """Channels with acks to write."""
    @property
    def _session(self) -> Any:
        """Messages of a client that wait for their confirms."""
    @_session.setter
    def _session(self, session: SessionFlows) -> None: ...
    def _configure(self, options: Any, opened: Any, confirmed: type[Any], settled: type[Any]) -> None:
        """Take the limits of a ConnectionOptions, ChannelState.OPEN, and the classes of events."""
    def _next_number(self) -> int:
        """The number of a new handle."""
    def _flow(self, messages: list[Any], at: int, events: list[Any]) -> int:
        """Take messages and basic.ack on channels that are open. Returns the number of the first other frame."""

class ServerFlows(Flows):
    def waits(self, event: Any) -> bool: ...
    def _confirmed(self, event: BasicMessage) -> bool:
        """Was this published in confirm mode, and has its confirm been decided?"""
    def acknowledge(self, *events: BasicMessage) -> list[Any]: ...
    def run_of(self, events: list[Any], at: int) -> int: ...

@disjoint_base
class ChannelFlows:
    active: bool
    _held: bool
    """A request waits for the host, and what comes after it waits, too."""
    def __init__(self, connection: Flows, number: int) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def connection(self) -> Any: ...
    @property
    def consumers(self) -> dict[str, Consumer]: ...
    @property
    def state(self) -> Any: ...
    @state.setter
    def state(self, state: Any) -> None: ...
    @property
    def mode(self) -> Literal["plain", "confirm", "tx"]: ...
    @mode.setter
    def mode(self, mode: str) -> None: ...
    @property
    def _tags(self) -> Tags[Any]:
        """Deliveries of a client, publishes in confirm mode of a server, that wait to be settled."""
    def _flush(self) -> None:
        """Write the acks that have been noted."""
    def _put_content(self, method: Method, properties: BasicProperties | None, body: Buffer) -> None:
        """Queue a method with its content. Raises LocalProtocolError; nothing has changed then."""
    def _on_ack(self, message: BasicAck, events: list[Any]) -> None:
        """The handler of basic.ack."""
    def _on_nack(self, message: BasicNack, events: list[Any]) -> None:
        """The handler of basic.nack."""
    def _on_reject(self, message: BasicReject, events: list[Any]) -> None:
        """The handler of basic.reject."""

# ---- channels
@disjoint_base
class ClientChannelFlows(ChannelFlows):
    _full: bool
    """A publish was refused: `WindowOpened` follows."""
    _recovering: int
    """Calls of recover without recover-ok: what comes before it is delivered again."""
    @property
    def _last_delivery(self) -> int:
        """The delivery-tag that came last."""
    @property
    def _unconfirmed(self) -> Tags[Publication]:
        """Publications that wait for their confirms."""
    @property
    def _mandatory(self) -> Tags[Publication]:
        """Those of them that may still be returned."""
    @property
    def _leaving(self) -> dict[str, Consumer]:
        """Consumers cancelled without a reply: deliveries may still come."""
    def publish(
        self,
        exchange: str | bytes = "",
        routing_key: str | bytes = "",
        body: Buffer = b"",
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
    ) -> Publication | None: ...
    def _publish(self, message: BasicMessage) -> Publication | None:
        """Publish a message with basic.publish."""
    def _check_publish(self) -> None:
        """Raise LocalProtocolError if no message may be published now."""
    def _send_again(self, publication: Publication, method: Method) -> None:
        """Publish a message of another channel once more, with this method."""
    def _take_tag(self, tag: int, no_ack: bool) -> None:
        """A basic.get-ok has arrived with this delivery-tag."""
    def ack(self, delivery_tag: int, multiple: bool = False) -> list[Any]: ...

@disjoint_base
class ServerChannelFlows(ChannelFlows):
    prefetch: int
    shared_prefetch: int
    _transacted: int
    """Deliveries that the transaction has settled."""
    _unheard: bool
    """Messages have arrived since the host was last known to have handled all."""
    @property
    def _deliveries(self) -> Tags[Delivery]:
        """Those that wait for their acknowledgement."""
    @property
    def _last_delivery(self) -> int:
        """The delivery-tag that was given last."""
    def _take_confirm(self, event: Any) -> int:
        """Settle a message that waits for its confirm; its number."""
    def credit(self, consumer_tag: str) -> int: ...
    def deliver(
        self,
        consumer_tag: str,
        exchange: str | bytes,
        routing_key: str | bytes,
        body: Buffer = b"",
        properties: BasicProperties | None = None,
        *,
        redelivered: bool = False,
        context: Any = None,
    ) -> Delivery | None: ...
    def deliver_all(
        self,
        consumer_tag: str,
        exchange: str | bytes,
        routing_key: str | bytes,
        bodies: list[Any],
        properties: list[BasicProperties | None],
        *,
        redelivered: bool = False,
        contexts: list[Any] | None = None,
        pending_bytes: int = 0,
    ) -> int: ...
    def _delivered(self, context: Any, no_ack: bool) -> Delivery | None:
        """A basic.get-ok has been sent: its handle; None: it is not acknowledged."""
    def _release(self, deliveries: list[Delivery]) -> None:
        """Deliveries are finished: they count no more for the windows."""
    def _restore(self, deliveries: list[Delivery]) -> None:
        """Deliveries of a transaction that is undone wait again."""

def tag_of_delivery(delivery: Delivery) -> int: ...
