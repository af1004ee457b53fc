"""RabbitMQ's conversions between AMQP 1.0, AMQP 0.9.1 and MQTT 5.0.

>>> from wirefmt import convert, mqtt
>>> packet = mqtt.Publish(topic_name="a/b", payload=b"21.5", version=5)
>>> convert.convert(packet, to="amqp10").octets.hex(" ")
'00 53 70 c0 02 01 42 00 53 75 a0 04 32 31 2e 35'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.loading import on_first_use

from ._engine import Container, Conversion, convert, routing_key_of, topic_of
from ._engine import restore_container as restore_container  # pickles name it
from ._engine import restore_conversion as restore_conversion
from .annotations import Death
from .conversion import Loss, Topics
from .dialects import DIALECTS, Change, Dialect, tables_of
from .messages import PROTOCOLS, Protocol, Wire
from .rules import TABLES, Row, Table

if TYPE_CHECKING:
    from .table import convert_table


#: It needs numpy, which nothing else here does.
__getattr__, __dir__ = on_first_use(__name__, {"wirefmt.convert.table": ("convert_table",)})

__all__ = [
    "DIALECTS",
    "PROTOCOLS",
    "TABLES",
    "Change",
    "Container",
    "Conversion",
    "Death",
    "Dialect",
    "Loss",
    "Protocol",
    "Row",
    "Table",
    "Topics",
    "Wire",
    "convert",
    "convert_table",
    "routing_key_of",
    "tables_of",
    "topic_of",
]
