"""The options of reading captures, defined once for `capture.read`, `CaptureDecoder`, the command line and Spark.

Public as `wirefmt.capture.Options`. This module loads no compiled code, so that `wirefmt decode --help` does not either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple

from wirefmt.errors import check_choice, suggest
from wirefmt.protocols import PROTOCOLS
from wirefmt.spec.columns import ON_REQUEST
from wirefmt.spec.insight import TABLES

Flows = Literal["auto", "in-file", "across-files"]
Strictness = Literal["lax", "strict"]


class Limit(NamedTuple):
    default: int
    meaning: str
    most: int | None = None


class Flag(NamedTuple):
    """The form of an option on the command line. Its type decides the rest; a default of True makes a negating flag."""

    name: str
    help: str
    metavar: str | None = None


def _flag(name: str, help: str, metavar: str | None = None) -> dict[str, Flag]:
    return {"flag": Flag(name, help, metavar)}


def _known(value: str) -> None:
    names = [row.name for row in PROTOCOLS]
    if value not in names:
        raise ValueError(f"no protocol {value!r}; {suggest(value, names)}")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How captures are read. Each value is checked when the object is made.

    Args:
        protocols: names of the protocols to decode; all by default.
        decode_as: rules like `tcp.port==8884,mqtt` that set the protocol of a port, whatever its bytes look like.
        table: the rows that are read: "messages" (the default), or what is made of them in the same pass: "connections",
            "operations", "paths", "findings". docs/insight.md has their columns.
        all_connections: connections: also those that were not decoded have a row.
        columns: names of the columns of the table to fill, in the order given; all by default.
        filter: only rows for which this is true, in the language of docs/cli.md: "qos >= 1 and kind == 'PUBLISH'". It may name
            any column; one of ON_REQUEST is filled then. Needs pyarrow (wirefmt[cli]). Counters of reading count all rows.
        payload: False omits message payloads.
        payload_max: bytes of a payload to keep; None keeps all. `payload_size` is the full size in both cases.
        expose_credentials: True shows secrets, which are hidden by default: docs/secrets.md.
        strictness: "lax" reads what can be framed and reports violations in `error`; with "strict" such a message is malformed.
        batch_rows, batch_bytes: a batch is emitted as soon as either limit is reached. `batch_bytes` counts strings and
            binaries, at most 256 MiB; the rows of one message may exceed it.
        flows: "auto": files that are one rotated capture, by their names and times, are read as one, others are independent;
            "in-file": each file is independent; "across-files": the files are one rotated capture, in this order. A
            `CaptureDecoder`, which knows no names, and Spark take "auto" as "in-file".
        keylog: path or URL of an NSS key log, as a TLS library writes it for SSLKEYLOGFILE: TLS 1.2 and 1.3 are decrypted with
            its secrets, and with those in a pcapng file. Needs the package cryptography (wirefmt[tls]).
        keys: path of a PEM file with RSA private keys of servers: connections of TLS 1.2 whose key exchange is RSA (suites
            TLS_RSA_WITH_...) are decrypted with them. Needs the package cryptography (wirefmt[tls]).
        tunnels: True also decodes packets in VXLAN, GENEVE, GRE, IP in IP ...
        slice: (i, n): only flows whose hash belongs to shard i of n; the n slices together have exactly all rows.
        threads: how many threads decode a capture, each a part of the connections; at most 65,535. Rows of one connection keep
            their order. Those of different connections come in another order than with one thread, the same each time.
        limits: any of the names in `Options.LIMITS`, which has defaults and meanings: max_flows, max_out_of_order, max_message,
            max_buffered, max_inflated, idle_seconds, path_seconds, max_paths.
        raw: True fills the column `raw`, the input of wirefmt.convert; False leaves it null. None: whether `columns` or
            `filter` names it decides.
        detail: the same for the column `detail`, a one-line summary of the message.
        vlan: the same for the column `vlan`, the VLAN identifiers of the packet that began the message.

    Raises: ValueError if a value is invalid (FilterError, with the place, for a filter); TypeError for an unknown name.
    """

    protocols: Sequence[str] | None = field(
        default=None,
        metadata=_flag(
            "--protocol",
            f"Only this protocol: {', '.join(row.name for row in PROTOCOLS)}. May be given several times.",
            "NAME",
        ),
    )
    decode_as: str | Sequence[str] = field(
        default=(),
        metadata=_flag(
            "--decode-as", "Set the protocol of a port: tcp.port==N,mqtt. May be given several times.", "RULE"
        ),
    )
    table: str = "messages"
    all_connections: bool = field(
        default=False,
        metadata=_flag("--all-connections", "Also connections that were not decoded: unknown protocols, TLS."),
    )
    columns: Sequence[str] | None = None
    filter: str | None = field(
        default=None,
        metadata=_flag(
            "--filter",
            "Only rows for which this is true: columns, numbers, 'texts', == != < <= in and or not, "
            ".startswith() .endswith() .contains() .matches(), len(), headers\\['name'].",
            "EXPR",
        ),
    )
    payload: bool = field(default=True, metadata=_flag("--no-payload", "Omit payloads; payload_size is kept."))
    payload_max: int | None = field(
        default=None, metadata=_flag("--payload-max", "Keep only the first N bytes of a payload.", "N")
    )
    expose_credentials: bool = field(
        default=False,
        metadata=_flag("--expose-credentials", "Show passwords, tokens and other secrets (hidden by default)."),
    )
    strictness: Strictness = "lax"
    batch_rows: int = 16384
    batch_bytes: int = 16 << 20
    flows: Flows = field(
        default="auto",
        metadata=_flag(
            "--flows",
            "in-file: each file is independent. across-files: the files are one rotated capture, in the given order.",
        ),
    )
    keylog: str | None = field(
        default=None,
        metadata=_flag(
            "--keylog",
            "An NSS key log (SSLKEYLOGFILE), to decrypt TLS 1.2 and 1.3. Secrets in a pcapng file are always used.",
            "FILE",
        ),
    )
    keys: str | None = field(
        default=None,
        metadata=_flag(
            "--tls-key",
            "RSA private keys of servers (PEM), to decrypt TLS 1.2 with RSA key exchange. Other suites need a key log.",
            "FILE",
        ),
    )
    tunnels: bool = field(
        default=False, metadata=_flag("--tunnels", "Decode packets in VXLAN, GENEVE, GRE and other tunnels.")
    )
    slice: tuple[int, int] = (0, 1)
    threads: int = field(
        default=1,
        metadata=_flag(
            "--threads", "Decode a capture of many connections with N threads; about one per processor.", "N"
        ),
    )
    limits: Mapping[str, int] | None = None
    raw: bool | None = field(
        default=None,
        metadata=_flag(
            "--raw",
            "Fill the column raw (naming it does the same): the encoded message, the input of wirefmt convert.",
        ),
    )
    detail: bool | None = field(
        default=None,
        metadata=_flag(
            "--detail",
            "Fill the column detail (naming it does the same): a one-line summary, as in the default table.",
        ),
    )
    vlan: bool | None = field(
        default=None,
        metadata=_flag(
            "--vlan",
            "Fill the column vlan (naming it does the same): the VLAN identifiers of a message's first packet.",
        ),
    )

    TABLE_NAMES: ClassVar[tuple[str, ...]] = tuple(TABLES)
    LIMITS: ClassVar[dict[str, Limit]] = {
        "max_flows": Limit(1 << 18, "TCP connections tracked at a time; the one idle for longest is ended first"),
        "max_out_of_order": Limit(4 << 20, "bytes buffered out of order, per direction"),
        # a column of a batch has 32-bit offsets, and JSON's escapes make a text six times as long as its bytes
        "max_message": Limit(16 << 20, "bytes of a message that comes in several packets", 1 << 28),
        "max_buffered": Limit(256 << 20, "bytes of memory that all flows use"),
        "max_inflated": Limit(
            64 << 20, "decompressed bytes of a direction; 100 times its compressed bytes if that is more"
        ),
        "idle_seconds": Limit(3 * 3600, "time after which an idle connection is ended"),
        "path_seconds": Limit(3600, "paths: the longest time between a publish and its delivery"),
        "max_paths": Limit(1 << 19, "paths: publishes and deliveries that are kept at a time"),
    }

    def __post_init__(self) -> None:
        check_choice("strictness", self.strictness, Strictness)
        check_choice("table", self.table, self.TABLE_NAMES)
        check_choice("flows", self.flows, Flows)
        if self.batch_rows < 1 or self.batch_bytes < 1:
            raise ValueError("batch_rows and batch_bytes must be at least 1")
        if self.payload_max is not None and self.payload_max < 0:
            raise ValueError(f"payload_max must be at least 0, not {self.payload_max}")
        if not 1 <= self.threads < 1 << 16:
            raise ValueError(f"threads must be 1 to 65,535, not {self.threads}")
        if not 0 <= self.slice[0] < self.slice[1]:
            raise ValueError(f"slice must be (i, n) with 0 <= i < n, not {self.slice!r}")
        for name in self.protocols or ():
            _known(name)
        self.forced_ports()
        self.all_limits()
        named = {*(self.columns or ()), *self._filtered()}
        for column in ON_REQUEST:
            if getattr(self, column.name) is None:
                object.__setattr__(self, column.name, column.name in named)

    def _filtered(self) -> list[str]:
        """The columns that the filter names."""
        if self.filter is None:
            return []
        from wirefmt.spec.filter import Filter

        return Filter(self.filter, TABLES[self.table]).columns

    def of_messages(self) -> Options:
        """The options of reading the messages that another table is made of: all columns, and whole payloads."""
        if self.table == "messages":
            return self
        return replace(
            self,
            table="messages",
            columns=None,
            filter=None,
            payload=True,
            payload_max=None,
            raw=False,
            detail=False,
            vlan=False,
        )

    def columns_read(self) -> list[str] | None:
        """The columns that a decoder fills: `columns`, and those that `filter` names. None: all."""
        return None if self.columns is None else list(dict.fromkeys([*self.columns, *self._filtered()]))

    def forced_ports(self) -> dict[int, str]:
        """Port -> protocol, from `decode_as`: `tcp.port==8884,mqtt` is {8884: "mqtt"}."""
        ports: dict[int, str] = {}
        for rule in (self.decode_as,) if isinstance(self.decode_as, str) else self.decode_as:
            selector, _, name = str(rule).partition(",")
            field, _, port = selector.partition("==")
            if field.strip() != "tcp.port" or not port.strip().isdigit() or not 0 < int(port) < 65536:
                raise ValueError(f"decode_as must be like 'tcp.port==8884,mqtt', not {rule!r}")
            try:
                _known(name.strip())
            except ValueError as fault:
                raise ValueError(f"decode_as {rule!r}: {fault}") from None
            ports[int(port)] = name.strip()
        return ports

    def all_limits(self) -> dict[str, int]:
        """`limits`, with defaults for the missing ones."""
        values = {name: limit.default for name, limit in self.LIMITS.items()}
        for name, value in (self.limits or {}).items():
            if name not in values:
                raise ValueError(f"no limit {name!r}; {suggest(name, values)}")
            if value < 1:
                raise ValueError(f"limit {name} must be at least 1, not {value}")
            if (most := self.LIMITS[name].most) is not None and value > most:
                raise ValueError(f"limit {name} must be at most {most}, not {value}")
            values[name] = value
        return values


#: The options of the command line, by name of the field.
FLAGS: dict[str, Flag] = {f.name: f.metadata["flag"] for f in fields(Options) if "flag" in f.metadata}


def options_of(options: Options | None, keywords: Mapping[str, Any]) -> Options:
    """The options, given as one value or as keywords. Raises TypeError if both are given."""
    if options is None:
        return Options(**keywords)
    if keywords:
        raise TypeError("options are given as an Options or as keywords, not both: dataclasses.replace changes one")
    return options
