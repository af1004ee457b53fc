"""_core/table_columns.pxi and docs/message-table.md from spec/table.py."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from tables.text import enum


def table_columns(spec: ModuleType) -> list[str]:
    """Numbers of the columns: T_ the message table's, M_ those of its MQTT struct, B_ those of MQTT's decode_batch; for
    other protocols the same with letters of the protocol before: RM_, RB_;
    NSQ_F_, NSQ_B_, PHPMQ_F_, PHPMQ_B_."""
    lines = []
    for name, prefix, columns in (
        ("TableColumn", "T", spec.COLUMNS),
        ("MqttTableField", "M", spec.MQTT_FIELDS),
        ("MqttBatchColumn", "B", spec.MQTT_BATCH),
        ("Amqp091TableField", "A9", spec.AMQP091_FIELDS),
        ("Amqp091BatchColumn", "A9B", spec.AMQP091_BATCH),
        ("Amqp10TableField", "A10", spec.AMQP10_FIELDS),
        ("Amqp10BatchColumn", "A10B", spec.AMQP10_BATCH),
        ("RocketmqTableField", "RM", spec.ROCKETMQ_FIELDS),
        ("RocketmqBatchColumn", "RB", spec.ROCKETMQ_BATCH),
        ("NsqTableField", "NSQ_F", spec.NSQ_FIELDS),
        ("NsqBatchColumn", "NSQ_B", spec.NSQ_BATCH),
        ("PhpmqTableField", "PHPMQ_F", spec.PHPMQ_FIELDS),
        ("PhpmqBatchColumn", "PHPMQ_B", spec.PHPMQ_BATCH),
    ):
        lines += enum(name, ((f"{prefix}_{c.name.upper()}", i) for i, c in enumerate(columns)))
    return lines


def table_page(spec: ModuleType) -> list[str]:
    """docs/message-table.md: the columns for people."""
    intro = """
# The message table

One row is one protocol message, or one thing that went wrong while reading (`kind` is null then, `status` and `error`
say what). It is the same table in Arrow, on the command line and in Spark: `wirefmt.spec.table.COLUMNS` is the only
place that names the columns. All columns may be null. Times are UTC. Secrets are hidden unless credentials are exposed:
[secrets](secrets.md) has the rule.

| column | type | meaning |
|---|---|---|"""
    further = """
## {0}

The struct column `{0}` has what this protocol says beyond the common columns. On the command line and in Spark a field is
`{0}.{1}`. It is null where the message has none.

| field | type | meaning |
|---|---|---|"""

    def rows(columns: Iterable[tuple[str, str, str]]) -> list[str]:
        # a struct's fields have a table of their own
        return [
            f"| `{name}` | {kind if kind[:7] != 'struct<' else 'struct'} | {said} |" for name, kind, said in columns
        ]

    lines = [*intro.splitlines(), *rows(spec.COLUMNS)]
    for name, fields in structs(spec):
        lines += [*further.format(name, fields[0].name).splitlines(), *rows(fields)]
    return lines


def structs(spec: ModuleType) -> list[tuple[str, tuple]]:
    """The struct columns and their fields, in the table's order."""
    return [(c.name, getattr(spec, f"{c.name.upper()}_FIELDS")) for c in spec.COLUMNS if c.type.startswith("struct<")]
