"""Type stub of the conversions, in the order of its rooms."""

from collections.abc import Iterable, Mapping
from typing import Any, final

from typing_extensions import Buffer

from wirefmt._core import Batch
from wirefmt.convert.annotations import Annotation, Annotations
from wirefmt.convert.conversion import Loss, Topics
from wirefmt.convert.messages import Protocol, Wire

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
        expiry_delivered: bool = True,
    ) -> None: ...
    @property
    def ids(self) -> tuple[str, ...]: ...
    @property
    def valid(self) -> bool: ...

def topic_of(routing_key: str | bytes, topics: Topics = "translated", /) -> str: ...
def routing_key_of(topic: str | bytes, topics: Topics = "translated", /) -> str: ...

@final
class Container:
    def __init__(
        self,
        message: object,
        *,
        source: Protocol | None = None,
        exchange: str = "",
        routing_key: str = "",
        dialect: str = "documented",
        mqtt_exchange: str = "amq.topic",
        topics: Topics = "translated",
        percent_encoding: bool = True,
        now_ms: int | None = None,
        annotations: Mapping[str, Annotation] | None = None,
    ) -> None: ...
    @property
    def wire(self) -> Wire: ...
    @property
    def dialect(self) -> str: ...
    @property
    def mqtt_exchange(self) -> str: ...
    @property
    def percent_encoding(self) -> bool: ...
    @property
    def protocol(self) -> Protocol: ...
    @property
    def octets(self) -> bytes: ...
    @property
    def body(self) -> bytes | None: ...
    @property
    def topics(self) -> Topics: ...
    @property
    def now_ms(self) -> int: ...
    @property
    def annotations(self) -> Annotations: ...
    def to(self, protocol: Protocol, *, lossless: bool = False, explain: bool = False) -> Conversion: ...
    def deliver(
        self,
        protocol: Protocol,
        *,
        redelivered: bool = False,
        delivery_count: int = 0,
        qos: int = 1,
        retain: bool | None = None,
        packet_identifier: int = 1,
        waited_ms: int = 0,
        explain: bool = False,
    ) -> Conversion: ...
    def stream_entry(self) -> bytes: ...
    @staticmethod
    def from_stream_entry(
        entry: bytes,
        *,
        stream: str = "",
        offset: int | None = None,
        dialect: str = "documented",
        mqtt_exchange: str = "amq.topic",
        topics: Topics = "translated",
        percent_encoding: bool = True,
        now_ms: int | None = None,
    ) -> Container: ...
    def annotated(self, **known: Annotation) -> Container: ...
    def dead_lettered(
        self,
        queue: str,
        reason: str,
        *,
        exchange: str,
        routing_key: str | None = None,
        now_ms: int | None = None,
        clear_ttl: bool = False,
    ) -> Container: ...

def restore_container(
    wire: Wire,
    exchange: str,
    routing_key: str,
    dialect: str,
    mqtt_exchange: str,
    topics: Topics,
    percent_encoding: bool,
    now_ms: int,
    extra: Mapping[str, Annotation] | None,
    stream: bool,
    annotations: Annotations | None,
) -> Container: ...

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
def protocol_number(protocol: str) -> int: ...
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
