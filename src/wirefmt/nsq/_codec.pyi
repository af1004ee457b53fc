"""Type stub of the codec of NSQ, in the order of its rooms."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Self, SupportsIndex, TypeAlias, final

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch, EndpointFlows, FrameDecoder, _ArrowColumns
from wirefmt.framing import Limits, NeedData
from wirefmt.nsq.spec import ServerOptions
from wirefmt.strictness import Note, Strictness

_Side: TypeAlias = Literal["client", "server"]

# ---- objects
_Members: TypeAlias = tuple[tuple[str, Any], ...]

@disjoint_base
class Message:
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

class Command(Message):
    @property
    def line(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> tuple[bytes, ...]: ...

@final
class Magic(Command):
    def __init__(self) -> None: ...

class Members(Command): ...

@final
class Identify(Members):
    def __init__(
        self, members: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), **known: str | bool | int
    ) -> None: ...
    @property
    def members(self) -> _Members | None: ...
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
class Auth(Command):
    def __init__(self, *, secret: Buffer) -> None: ...
    @property
    def secret(self) -> bytes: ...

@final
class Sub(Command):
    def __init__(self, *, topic: str, channel: str) -> None: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def channel(self) -> str | None: ...

class Publication(Command):
    @property
    def topic(self) -> str | None: ...
    @property
    def body(self) -> memoryview: ...
    def body_bytes(self) -> bytes: ...

@final
class Publish(Publication):
    def __init__(self, *, topic: str, body: Buffer) -> None: ...

@final
class DeferredPublish(Publication):
    def __init__(self, *, topic: str, defer_time: SupportsIndex, body: Buffer) -> None: ...
    @property
    def defer_time(self) -> int | None: ...

@final
class MultiPublish(Command):
    def __init__(self, *, topic: str, bodies: Iterable[Buffer]) -> None: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def bodies(self) -> tuple[bytes, ...]: ...

@final
class Ready(Command):
    def __init__(self, *, count: SupportsIndex) -> None: ...
    @property
    def count(self) -> int | None: ...

class Answer(Command):
    @property
    def message_id(self) -> bytes | None: ...

@final
class Finish(Answer):
    def __init__(self, *, message_id: Buffer) -> None: ...

@final
class Requeue(Answer):
    def __init__(self, *, message_id: Buffer, timeout: SupportsIndex = 0) -> None: ...
    @property
    def timeout(self) -> int | None: ...

@final
class Touch(Answer):
    def __init__(self, *, message_id: Buffer) -> None: ...

@final
class Close(Command):
    def __init__(self) -> None: ...

@final
class Nop(Command):
    def __init__(self) -> None: ...

class Frame(Message):
    def __init__(self, *, frame_type: SupportsIndex, data: Buffer = b"") -> None: ...
    @property
    def frame_type(self) -> int: ...
    @property
    def data(self) -> bytes: ...

@final
class Response(Frame):
    def __init__(
        self,
        data: Buffer | None = None,
        *,
        members: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
    ) -> None: ...
    @property
    def members(self) -> _Members | None: ...
    @property
    def is_heartbeat(self) -> bool: ...

@final
class Error(Frame):
    def __init__(self, data: Buffer) -> None: ...
    @property
    def code(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def fatal(self) -> bool | None: ...

@final
class MessageFrame(Frame):
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
class Decoder(FrameDecoder):
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
    @property
    def _faulty(self) -> tuple[bytes, bytes] | None: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Message]: ...

def decode(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    limits: Limits | None = None,
    server: ServerOptions | None = None,
) -> Message: ...
def frame_size(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    limits: Limits | None = None,
    server: ServerOptions | None = None,
) -> int | NeedData: ...
def encode(message: Message, /) -> bytes: ...
def restore(octets: bytes, of_server: bool, noted: bool) -> Message: ...
def decode_batch(
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
def encode_batch(
    data: _ArrowColumns,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = "strict",
) -> bytes: ...

PROTOCOL: object

# ---- connection
@disjoint_base
class Flows(EndpointFlows):
    _flowing: bool
    """The state takes what `_flow` takes, and stays as it is. `Endpoint._enter` sets it."""
    _subscribed: bool
    """The state is SUBSCRIBED. `Endpoint._enter` sets it."""
    _in_flight: Any
    """Messages in flight: an InFlight. SUB begins a new one."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def _configure(self, most_pending: int, acknowledged: type[Any]) -> None:
        """Take the limit on queued bytes, and the class of the event for an answered command."""
    def _number(self) -> int:
        """The number of a new handle."""

@final
class Arrival:
    until: float | None
    def __init__(self, message: MessageFrame, moment: Any) -> None: ...
    @property
    def message(self) -> MessageFrame: ...
    @property
    def moment(self) -> Any: ...

@final
class Request:
    def __init__(self, number: int, command: Command) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def command(self) -> Command: ...

@disjoint_base
class ClientFlows(Flows):
    _window_closed: bool
    """A command was refused since too many await their answer: `WindowOpened` follows."""
    _watching: bool
    """The timer for messages in flight runs."""
    _requests: Final[deque[Request]]
    """Commands whose answer is awaited, in order."""
    _most_ready: int
    """The largest RDY so far."""
    _moment: Any
    """Of the call that runs: messages that come in it share it."""
    def _answer_within(self, most_unanswered: int) -> None:
        """Take the number of commands that may await their answer."""
    def _allow(self, messages: bool, answers: bool, publishing: bool) -> None:
        """What may be done without a look at the state: take messages, take answers, publish."""
    def _flow(self, messages: Sequence[Any], at: int, events: list[Any]) -> int:
        """Take messages for which RDY leaves space, and OK for publishing commands. Returns the number of another frame."""
    def _publish(self, command: Command) -> Request | None:
        """Queue a publishing command; None: it needs a further look, and nothing has changed."""
    def finish(self, message: MessageFrame) -> None: ...
    def holds(self, message: MessageFrame) -> bool: ...

@disjoint_base
class Taken:
    _link: Any
    """The link it came by; None: it is answered."""
    @property
    def frame(self) -> MessageFrame: ...
    @property
    def _consumer(self) -> Any:
        """Who hands it over."""
    def finish(self) -> bool: ...

@final
class Run: ...

@disjoint_base
class Inbox:
    _watched: bool
    """`_answered` is called after each message that is done."""
    _last: Any
    """What the iterator has handed over last."""
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def _hand_over(self, made: type[Any]) -> None:
        """Take the class of messages."""
    def _put(self, link: Any, events: list[Any], at: int) -> int:
        """Keep messages of a link. Returns the number of the first other event."""
    def _next(self) -> Any:
        """The first message that is still in flight, or None."""
    def _following(self) -> Any:
        """Finish what the iterator has handed over last, and hand over the next one, or None."""

@final
class Delivery:
    host: Any
    until: float | None
    def __init__(self, number: int, message_id: bytes, attempts: int, moment: Any, host: Any = None) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def message_id(self) -> bytes: ...
    @property
    def attempts(self) -> int: ...
    @property
    def moment(self) -> Any: ...

@disjoint_base
class ServerFlows(Flows):
    ready_count: int
    def _flow(self, messages: Sequence[Any], at: int, events: list[Any]) -> int:
        """Take FINs of messages in flight. Returns the number of the first other command."""
    def deliver(
        self, message_id: bytes, body: Buffer, timestamp: int = 0, attempts: int = 1, host: Any = None
    ) -> Delivery: ...

def size_of(message: Message) -> int: ...
