"""Type stub of PHPMQ's codec, in the order of its rooms."""

from collections.abc import Iterable
from typing import ClassVar, Literal, Self, SupportsIndex, TypeAlias, final

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch, FrameDecoder, _ArrowColumns
from wirefmt.framing import Limits, NeedData
from wirefmt.strictness import Note, Strictness

_Side: TypeAlias = Literal["client", "server"]

# ---- objects
@disjoint_base
class Message:
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

class Queued(Message):
    @property
    def queue_name(self) -> str | None: ...

class Carrier(Queued):
    @property
    def content(self) -> memoryview | None: ...
    @property
    def ttl(self) -> int | None: ...

@final
class MessageClientToServer(Carrier):
    def __init__(self, *, queue_name: str, content: Buffer, ttl: SupportsIndex | None = 0) -> None: ...

@final
class ConsumeRequest(Queued):
    def __init__(self, *, queue_name: str, message_count: SupportsIndex) -> None: ...
    @property
    def message_count(self) -> int | None: ...

@final
class MessageServerToClient(Carrier):
    def __init__(self, *, queue_name: str, content: Buffer, message_id: str, ttl: SupportsIndex | None) -> None: ...
    @property
    def message_id(self) -> str | None: ...

class Answer(Queued):
    @property
    def message_id(self) -> str | None: ...

@final
class Acknowledgement(Answer):
    def __init__(self, *, queue_name: str, message_id: str) -> None: ...

@final
class ReQueue(Answer):
    def __init__(self, *, queue_name: str, message_id: str, ttl: SupportsIndex | None) -> None: ...
    @property
    def ttl(self) -> int | None: ...

@final
class DeadLetter(Answer):
    def __init__(self, *, queue_name: str, message_id: str) -> None: ...

@final
class Decoder(FrameDecoder):
    def __init__(
        self,
        *,
        side: _Side | None = None,
        strictness: Strictness | str = Strictness.STRICT,
        limits: Limits | None = None,
    ) -> None: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Message]: ...

def decode(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = Strictness.STRICT,
    limits: Limits | None = None,
) -> Message: ...
def frame_size(
    data: Buffer, *, strictness: Strictness | str = Strictness.STRICT, limits: Limits | None = None
) -> int | NeedData: ...
def encode(message: Message, /, *, profile: Literal["present", "early"] | None = None) -> bytes: ...
def restore(octets: bytes, noted: bool) -> Message: ...
def decode_batch(
    data: Buffer,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = "lax",
    columns: Iterable[str] | None = None,
    payload: bool = True,
    limits: Limits | None = None,
) -> Batch: ...
def encode_batch(
    data: _ArrowColumns,
    *,
    side: _Side | None = None,
    strictness: Strictness | str = "strict",
) -> bytes: ...

PROTOCOL: object
