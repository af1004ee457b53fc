"""Type stub of the kernel, in the order of its rooms."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer, disjoint_base

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
    @property
    def unread(self) -> int: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Any]: ...
    def rest(self) -> bytes: ...
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

# ---- source
class _HasArray(Protocol):
    def __arrow_c_array__(self) -> tuple[object, object]: ...

class _HasStream(Protocol):
    def __arrow_c_stream__(self) -> object: ...

#: A table, record batch, reader or array of structs of any library of Arrow.
_ArrowColumns: TypeAlias = _HasArray | _HasStream
