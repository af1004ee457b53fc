"""Type stub of insight, in the order of its rooms."""

from collections.abc import Mapping, Sequence
from typing import final

from typing_extensions import Buffer, disjoint_base

from wirefmt._core import Batch
from wirefmt.spec.columns import Column

CONNECTION_FACTS: tuple[Column, ...]

@disjoint_base
class OpenOperations: ...

@final
class Insight(OpenOperations):
    def __init__(
        self,
        *,
        max_operations: int = 1048576,
        max_octets: int = 268435456,
        operations: bool = True,
        paths: bool = False,
        path_seconds: int = 3600,
        max_paths: int = 524288,
        findings: bool = False,
        large_message: int = 1048576,
        max_seen: int = 65536,
    ) -> None: ...
    def messages(self, batch: Batch) -> None: ...
    def transport(self, batch: Batch, all_connections: bool = False) -> None: ...
    def finish(self) -> None: ...
    def take_noted(self) -> tuple[bytes, bytes]: ...
    def take_operations(self) -> Batch | None: ...
    def take_connections(self) -> Batch | None: ...
    def finish_paths(self, rows: int) -> bool: ...
    def take_paths(self) -> Batch | None: ...
    @property
    def stats(self) -> dict[str, int]: ...

def with_values(
    batch: Batch,
    columns: Sequence[Column],
    values: Mapping[str, Sequence[str | int | None]],
    names: Sequence[str] | None = None,
) -> Batch: ...
def codes_of(batch: Batch, name: str, names: Sequence[str]) -> bytearray: ...
def batch_of(columns: Sequence[Column], rows: Sequence[Mapping[str, str | int | Sequence[int] | None]]) -> Batch: ...
def payload_hash(payload: Buffer) -> int: ...
