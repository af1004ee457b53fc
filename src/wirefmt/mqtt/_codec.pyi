"""Type stub of MQTT's codec, in the order of its rooms."""

import sys
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from types import GenericAlias
from typing import Any, Final, Generic, Literal, Self, SupportsIndex, TypeAlias, TypeVar, final, overload

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch, EndpointFlows, FrameDecoder, Identifiers, Window, _ArrowColumns
from wirefmt.framing import Limits, NeedData
from wirefmt.strictness import Note, Strictness

# ---- properties
_Properties: TypeAlias = Iterable[tuple[str, Any]]
_Form: TypeAlias = Literal["short", "reason_only", "full"]
_Side: TypeAlias = Literal["client", "server"]

@final
class Properties(Sequence[tuple[str, Any]]):
    def __init__(self, pairs: _Properties = (), /) -> None: ...
    def get(self, name: str, default: Any = None, /) -> Any: ...
    def get_all(self, name: str, /) -> tuple[Any, ...]: ...
    def index(self, value: Any, *bounds: int) -> int: ...
    def count(self, value: Any) -> int: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> tuple[str, Any]: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[tuple[str, Any], ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...

@final
class Subscription:
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
class Will:
    __match_args__ = ("topic", "payload", "qos", "retain", "properties")
    topic: Final[str]
    payload: Final[bytes]
    qos: Final[int]
    retain: Final[bool]
    properties: Final[Properties]
    def __init__(
        self, topic: str, payload: Buffer = b"", qos: int = 0, retain: bool = False, properties: _Properties = ()
    ) -> None: ...
    def __hash__(self) -> int: ...

# ---- objects

@disjoint_base
class Packet:
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
class Connect(Packet):
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
        will: Will | None = None,
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
    def will(self) -> Will | None: ...
    @property
    def user_name(self) -> str | None: ...
    @property
    def password(self) -> bytes | None: ...
    @property
    def properties(self) -> Properties: ...

@final
class Connack(Packet):
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
    def properties(self) -> Properties: ...

@final
class Publish(Packet):
    __match_args__ = ("dup", "qos", "retain", "topic_name", "packet_identifier", "properties", "payload", "version")
    dup: Final[bool]
    qos: Final[int]
    retain: Final[bool]
    topic_name: Final[str]
    packet_identifier: Final[int | None]
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
    def properties(self) -> Properties: ...
    @property
    def payload(self) -> memoryview: ...
    def payload_bytes(self) -> bytes: ...

class Acknowledgement(Packet):
    @property
    def packet_identifier(self) -> int: ...
    @property
    def reason_code(self) -> int | None: ...
    @property
    def properties(self) -> Properties: ...
    @property
    def form(self) -> _Form | None: ...

@final
class Puback(Acknowledgement):
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
class Pubrec(Acknowledgement):
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
class Pubrel(Acknowledgement):
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
class Pubcomp(Acknowledgement):
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
class Subscribe(Packet):
    __match_args__ = ("dup", "packet_identifier", "properties", "subscriptions", "version")
    def __init__(
        self,
        *,
        packet_identifier: int,
        subscriptions: Iterable[Subscription],
        properties: _Properties = (),
        dup: bool = False,
        version: int = 5,
    ) -> None: ...
    @property
    def dup(self) -> bool: ...
    @property
    def packet_identifier(self) -> int: ...
    @property
    def properties(self) -> Properties: ...
    @property
    def subscriptions(self) -> tuple[Subscription, ...]: ...

class Codes(Packet):
    __match_args__ = ("packet_identifier", "properties", "reason_codes", "version")
    @property
    def packet_identifier(self) -> int: ...
    @property
    def properties(self) -> Properties: ...
    @property
    def reason_codes(self) -> tuple[int, ...]: ...

@final
class Suback(Codes):
    def __init__(
        self, *, packet_identifier: int, reason_codes: Iterable[int], properties: _Properties = (), version: int = 5
    ) -> None: ...
    @property
    def return_codes(self) -> tuple[int, ...]: ...

@final
class Unsubscribe(Packet):
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
    def properties(self) -> Properties: ...
    @property
    def topic_filters(self) -> tuple[str, ...]: ...

@final
class Unsuback(Codes):
    def __init__(
        self,
        *,
        packet_identifier: int,
        reason_codes: Iterable[int] = (),
        properties: _Properties = (),
        version: int = 5,
    ) -> None: ...

@final
class Pingreq(Packet):
    __match_args__ = ("version",)
    def __init__(self, *, version: int = 5) -> None: ...

@final
class Pingresp(Packet):
    __match_args__ = ("version",)
    def __init__(self, *, version: int = 5) -> None: ...

class Reason(Packet):
    __match_args__ = ("reason_code", "properties", "form", "version")
    @property
    def reason_code(self) -> int | None: ...
    @property
    def properties(self) -> Properties: ...
    @property
    def form(self) -> _Form | None: ...

@final
class Disconnect(Reason):
    def __init__(
        self,
        *,
        reason_code: int | None = None,
        properties: _Properties = (),
        form: _Form | None = None,
        version: int = 5,
    ) -> None: ...

@final
class Auth(Reason):
    def __init__(
        self,
        *,
        reason_code: int | None = None,
        properties: _Properties = (),
        form: _Form | None = None,
        version: int = 5,
    ) -> None: ...

# ---- stream

def decode(
    data: Buffer,
    *,
    version: int | None = None,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    limits: Limits | None = None,
) -> Packet: ...
def frame_size(data: Buffer, *, limits: Limits | None = None) -> int | Literal[NeedData.NEED_DATA]: ...
def encode(message: Packet, /) -> bytes: ...
def restore(octets: bytes, version: int, side: int, noted: bool) -> Packet: ...

@final
class Decoder(FrameDecoder):
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
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Packet]: ...

# ---- topics
_Value = TypeVar("_Value", bound=Hashable)

def validate_topic_name(topic: str | Buffer, version: int = 5) -> None: ...
def validate_topic_filter(filter: str | Buffer, version: int = 5) -> None: ...
def parse_shared(filter: str | Buffer, version: int = 5) -> tuple[str, str] | None: ...
def matches(filter: str | Buffer, topic: str | Buffer, version: int = 5) -> bool: ...

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

# ---- batch

def decode_batch(
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

# ---- encode_batch

def encode_batch(
    data: _ArrowColumns,
    *,
    version: int | None = None,
    side: _Side | None = None,
    strictness: Strictness | str = "strict",
) -> bytes: ...

# ---- probe

PROTOCOL: object

# ---- connection
@disjoint_base
class Delivery:
    number: Final[int]
    packet_identifier: Final[int]
    version: Final[int]
    qos: Final[int]
    received: bool
    transmitted: bool
    charged: bool
    def __init__(
        self, number: int, packet_identifier: int, version: int, head: bytes, tail: bytes | memoryview
    ) -> None: ...
    @property
    def mark(self) -> int | None: ...
    @mark.setter
    def mark(self, value: int | None) -> None: ...
    @property
    def packet(self) -> bytes: ...
    @property
    def message(self) -> Publish | None: ...
    @property
    def size(self) -> int: ...
    @property
    def buffers(self) -> tuple[bytes, bytes | memoryview]: ...
    def drop_content(self) -> None: ...

def split_packet(packet: bytes, packet_identifier: int) -> tuple[bytes, bytes | memoryview]: ...

@disjoint_base
class SessionFlows:
    @property
    def identifiers(self) -> Identifiers: ...
    @identifiers.setter
    def identifiers(self, value: Identifiers) -> None: ...
    outgoing: Final[dict[int, Delivery]]
    incoming: Final[dict[int, Any]]
    outgoing_bytes: Final[int]
    _number: int
    """Of the next handle. `Session` sets it when it is restored."""
    _changes: list[Any] | None
    """For a journal, since it was last read; None: there is no journal."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def _keep(self, delivery: Delivery) -> None:
        """Put a delivery among the outgoing ones: of an earlier session, or in place of another with its identifier."""
    def _drop_all(self) -> tuple[Delivery, ...]:
        """Forget the messages of both directions. Returns the deliveries, which are lost."""
    def next_number(self) -> int: ...
    def add(self, packet: bytes, version: int) -> Delivery: ...
    def receive_pubrec(self, delivery: Delivery) -> None: ...
    def finish(self, delivery: Delivery) -> None: ...
    def hold(self, packet_identifier: int, held: Any = None) -> None: ...

@final
class ArrivalView:
    message: Final[Publish]
    qos: Final[int]
    decided: Final[bool]

@disjoint_base
class Arrivals:
    undecided: Final[int]
    def __len__(self) -> int: ...
    def __contains__(self, identifier: object, /) -> bool: ...
    def __getitem__(self, identifier: int, /) -> ArrivalView: ...
    def get(self, identifier: int) -> ArrivalView | None: ...
    def waits(self, qos: int) -> bool: ...
    def add(self, message: Publish, answer: bytes | None = None) -> None: ...
    def clear(self) -> None: ...

@disjoint_base
class Flows(EndpointFlows):
    _arrivals: Final[Arrivals]
    """QoS 1 and 2 messages of the peer whose PUBACK or PUBREC is not queued."""
    _releasing: Final[set[int]]
    """Packet identifiers of QoS 2 messages of the peer: PUBREC is queued on this connection, PUBREL has not arrived."""
    _quota: Final[Window]
    """For the PUBLISHes of QoS 1 and 2 that we send. `_keep_to` makes it."""
    _replay: Final[deque[Delivery]]
    """Deliveries of a resumed session that are not yet sent again."""
    _asked: Final[dict[int, Any]]
    """SUBSCRIBE and UNSUBSCRIBE of the peer that wait for the host, by packet identifier."""
    _up: bool
    """The handshake is complete, and the connection is not over. `Endpoint._enter` sets it."""
    _window_closed: bool
    """A message was refused, or the last place was taken: `WindowOpened` follows once there is a place."""
    _restricted: bool
    """Text, QoS or RETAIN of each PUBLISH of the peer must be looked at."""
    _session: Any
    """What is kept; None: the host has not accepted."""
    bytes_in: int
    packets_in: int
    packets_out: int
    publishes_in: int
    publishes_out: int
    payload_in: int
    payload_out: int
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def _configure(self, options: Any, acknowledged: type[Any], window_opened: type[Any]) -> None:
        """Take the limits of a ConnectionOptions, and the classes of events."""
    def _keep_to(self, receive_maximum: int, largest: int, aliased: bool, looks: bool) -> None:
        """Keep to what the peer has announced."""
    @property
    def version(self) -> int | None: ...
    @version.setter
    def version(self, value: int | None) -> None: ...
    def receive(self, data: Buffer, now: float) -> list[Any]: ...
    def _capacity(self) -> int:
        """How many packets may be read now."""
    def publish(
        self,
        topic_name: str,
        payload: Buffer = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Iterable[tuple[str, Any]] = ...,
    ) -> Delivery | None: ...
    def _pong_last(self) -> None:
        """A PINGRESP leaves after what the host answers in this turn."""
    def _end_last(self, packet: bytes = b"") -> None:
        """The connection ends. What the host answers in this turn leaves, then this packet."""
    @property
    def _answers_leave(self) -> bool:
        """True: the connection has ended, and what the host answers still leaves."""
    def forward(
        self,
        message: Publish,
        qos: int,
        most: int = -1,
        retain: bool = False,
        expiry: int | None = None,
        identifiers: tuple[int, ...] = ...,
    ) -> Any: ...
    @property
    def send_quota(self) -> int: ...
    def _send_delivery(self, delivery: Delivery, head: bytes, tail: bytes | memoryview) -> None:
        """Queue the PUBLISH of a delivery, in two parts. It takes a place in the window."""
    def _note_window(self, events: list[Any]) -> None:
        """Tell that the window is open again."""
    def _run(self, messages: list[Packet], at: int, events: list[Any]) -> int:
        """Handle PUBACKs, and PUBLISHes that need no look. Returns the number of the first other packet."""
    def _arrive(self, message: Publish) -> bool:
        """A PUBLISH has arrived, and has been looked at. Returns True if it is an event; False: it is a copy."""
    def _on_puback(self, message: Puback, events: list[Any]) -> None:
        """The handler of PUBACK."""
    def _finish(self, delivery: Delivery, message: Packet, code: int, events: list[Any]) -> None:
        """A delivery is acknowledged: its identifier and its place in the window are free."""
    def acknowledge(
        self, message: Publish, reason_code: int = 0, properties: Iterable[tuple[str, Any]] = ...
    ) -> list[Any]: ...
    def _decide(self, message: Publish, answer: bytes, code: int, held: Any = None, silent: bool = False) -> None:
        """Answer a waiting message. The answer leaves in its turn; silent: it does not."""
