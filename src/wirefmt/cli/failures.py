"""Messages that report a failure: refused, rejected, returned, closed with an error. Counted by protocol, kind and reason,
each with the first one of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

#: What is known of the first message of a kind of failure: columns that `failures` reads, beside these of the message table.
FIRST = ("ts_ns", "client", "about", "capture", "frame_no")
COLUMNS = ("protocol", "version", "kind", "direction", "code", "mqtt", "amqp091", "amqp10", "nsq", "rocketmq")


class Failure(NamedTuple):
    protocol: str
    kind: str
    code: int | str | None  # reason code, reply code, error condition, E_ code, response code
    text: str  # the code's name, or the text of the message


class First(NamedTuple):
    """The first message of a kind of failure."""

    ts_ns: int | None
    client: str | None
    about: str | None  # the queue or group, or else the destination
    capture: str
    frame_no: int


def failures(table: pa.Table) -> Iterator[tuple[Failure, int, First]]:
    """The failures among rows of the message table with the columns of FIRST, each with its count and its first row."""
    yield from _mqtt(table)
    yield from _mqtt_lists(table)
    yield from _amqp091(table)
    yield from _amqp10(table)
    yield from _nsq(table)
    yield from _rocketmq(table)


def _mqtt(table: pa.Table) -> Iterator[tuple[Failure, int, First]]:
    import pyarrow.compute as pc

    from wirefmt.mqtt.codes import ReasonCode
    from wirefmt.mqtt.spec import FAILURE

    code, kind = pc.field("code"), pc.field("kind")
    refused = (kind == "CONNACK") & (code > 0)  # before 5.0 the codes are 1 to 5
    refused = refused | (kind.isin(["PUBACK", "PUBREC"]) & (code == ReasonCode.NO_MATCHING_SUBSCRIBERS))
    for (version, name, number), n, first in _counted(
        table, (pc.field("protocol") == "mqtt") & ((code >= FAILURE) | refused), ["version", "kind", "code"]
    ):
        yield Failure("mqtt", name, number, _reason(version, name, number)), n, first


def _mqtt_lists(table: pa.Table) -> Iterator[tuple[Failure, int, First]]:
    """SUBACK and UNSUBACK have one code per filter."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from wirefmt.mqtt.spec import FAILURE

    part = table.filter((pc.field("protocol") == "mqtt") & pc.field("kind").isin(["SUBACK", "UNSUBACK"]))
    codes = pc.struct_field(part["mqtt"], "reason_codes").combine_chunks()
    rows = pc.list_parent_indices(codes)
    flat = pa.table(
        {name: part[name].take(rows) for name in ("version", "kind", *FIRST)} | {"code": pc.list_flatten(codes)}
    )
    for (version, name, number), n, first in _counted(flat, pc.field("code") >= FAILURE, ["version", "kind", "code"]):
        yield Failure("mqtt", name, number, _reason(version, name, number)), n, first


def _amqp091(table: pa.Table) -> Iterator[tuple[Failure, int, First]]:
    import pyarrow.compute as pc

    from wirefmt.amqp091.codes import ReplyCode

    kind = pc.field("kind")
    # basic.cancel from a server: the consumer's queue is gone
    refused = kind.isin(["basic.nack", "basic.reject"]) | ((kind == "basic.cancel") & (pc.field("direction") == 1))
    failed = refused | (pc.field("code") > ReplyCode.REPLY_SUCCESS) | (kind == "connection.blocked")
    keys = ["kind", "code", "amqp091.reply_text"]
    for (name, code, text), n, first in _counted(table, (pc.field("protocol") == "amqp091") & failed, keys):
        yield Failure("amqp091", name, code, text or ""), n, first


def _amqp10(table: pa.Table) -> Iterator[tuple[Failure, int, First]]:
    import pyarrow.compute as pc

    from wirefmt.amqp10.spec import SASL_CODES

    error, state = pc.field("amqp10", "error_condition"), pc.field("amqp10", "state")
    login = (pc.field("kind") == "sasl-outcome") & (pc.field("code") > 0)
    failed = error.is_valid() | (state == "rejected") | login
    keys = ["kind", "code", "amqp10.error_condition", "amqp10.error_description", "amqp10.state"]
    for (name, code, condition, text, outcome), n, first in _counted(
        table, (pc.field("protocol") == "amqp10") & failed, keys
    ):
        yield Failure("amqp10", name, condition or code, text or outcome or SASL_CODES.get(code, "")), n, first


def _nsq(table: pa.Table) -> Iterator[tuple[Failure, int, First]]:
    import pyarrow.compute as pc

    keys = ["kind", "nsq.error_code"]
    for (name, code), n, first in _counted(table, pc.field("nsq", "error_code").is_valid(), keys):
        yield Failure("nsq", name, code, ""), n, first


def _rocketmq(table: pa.Table) -> Iterator[tuple[Failure, int, First]]:
    import pyarrow.compute as pc

    from wirefmt.rocketmq.codes import ResponseCode as Code
    from wirefmt.rocketmq.spec import FLAG_RESPONSE, RESPONSE_CODES

    nothing_yet = [int(code) for code in (Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.POLLING_TIMEOUT)]

    answer = pc.bit_wise_and(pc.field("rocketmq", "flag"), pc.scalar(FLAG_RESPONSE)) == FLAG_RESPONSE
    failed = answer & (pc.field("code") != int(Code.SUCCESS)) & ~pc.field("code").isin(nothing_yet)
    for (name, code), n, first in _counted(table, failed, ["kind", "code"]):
        yield Failure("rocketmq", name, code, RESPONSE_CODES.get(code, "")), n, first


def _counted(table: pa.Table, condition: Any, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], int, First]]:
    """The number of rows for each combination of values among rows for which the condition is true, and the first of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    part = table.filter(condition)
    if not part.num_rows:
        return
    columns = {name: part[name] for name in FIRST}
    for key in keys:
        column, _, field = key.partition(".")
        columns[key] = pc.struct_field(part[column], field) if field else part[column]
    firsts = [(name, "first", pc.ScalarAggregateOptions(skip_nulls=False)) for name in FIRST]
    groups = pa.table(columns).group_by(keys, use_threads=False).aggregate([([], "count_all"), *firsts])
    for row in groups.to_pylist():
        yield tuple(row[key] for key in keys), row["count_all"], First(*(row[f"{name}_first"] for name in FIRST))


@cache
def _reason(version: str | None, kind: str, code: int) -> str:
    """The name of a reason code, or of a return code before 5.0."""
    from wirefmt.mqtt.spec import CONNACK_RETURN_CODES, REASON_CODES, SUBACK_RETURN_CODES

    if version != "5.0":
        return (CONNACK_RETURN_CODES if kind == "CONNACK" else SUBACK_RETURN_CODES[4]).get(code, "")
    return next((row.name for row in REASON_CODES if row.code == code and kind in row.packets), "")
