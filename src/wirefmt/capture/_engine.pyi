"""Type stub of the captures, in the order of its rooms."""

from collections.abc import Iterable
from typing import Any, Literal

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch, ColumnSet
from wirefmt.framing import NeedData
from wirefmt.spec.options import Options

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

# ---- protocols

def sniff(data: Buffer) -> str | Literal[NeedData.NEED_DATA] | None: ...

# ---- resync

@disjoint_base
class BoundarySearch:
    skipped: int
    def __init__(self, *names: str, direction: int = 0, websocket: bool = False) -> None: ...
    def packet(self, payload: bytes, *, push: bool = False) -> tuple[int, str] | None: ...
    def end(self) -> tuple[int, str] | None: ...
    @property
    def size(self) -> int: ...

# ---- decoder

@disjoint_base
class CaptureDecoder:
    def __init__(self, options: Options | None = None, /, **keywords: Any) -> None: ...
    def set_share(self, index: int, count: int) -> None: ...
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
