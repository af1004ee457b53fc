"""Type stub of the conversions, in the order of its rooms."""

from collections.abc import Iterable
from typing import Any, TypeVar, final

from typing_extensions import Buffer

from wirefmt._core import Batch
from wirefmt.convert.container import Annotations
from wirefmt.convert.conversion import Loss, Topics
from wirefmt.convert.messages import Protocol, Wire

_T = TypeVar("_T")

# ---- objects

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
        known: Annotations,
        said: dict[str, Any],
        redelivered: bool,
        delivery_count: int,
        qos: int,
        retain: bool | None,
        waited_ms: int,
        stream: bool,
        published: bool,
        keeps_expiry: bool,
        /,
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
def convert(
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
def frozen(cls: type[_T], names: tuple[str, ...], *values: object) -> _T: ...
def essentials_of(rules: ConvertRules, source: int, data: bytes, routed: bool) -> dict[str, Any]: ...
def unconverted(wire: Wire, /) -> Conversion: ...

# ---- batch

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
