"""RabbitMQ's conversions between AMQP 1.0, AMQP 0.9.1 and MQTT 5.0.

>>> from wirefmt import convert, mqtt
>>> packet = mqtt.Publish(topic_name="a/b", payload=b"21.5", version=5)
>>> convert.convert(packet, to="amqp10").octets.hex(" ")
'00 53 70 c0 02 01 42 00 53 75 a0 04 32 31 2e 35'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.convert._engine import (
    Container as Container,
    Conversion as Conversion,
    convert as convert,
    restore_container as restore_container,
    restore_conversion as restore_conversion,
    routing_key_of as routing_key_of,
    topic_of as topic_of,
)
from wirefmt.convert.annotations import (
    Death as Death,
)
from wirefmt.convert.conversion import (
    Loss as Loss,
    Topics as Topics,
)
from wirefmt.convert.dialects import (
    DIALECTS as DIALECTS,
    Change as Change,
    Dialect as Dialect,
    tables_of as tables_of,
)
from wirefmt.convert.messages import (
    PROTOCOLS as PROTOCOLS,
    Protocol as Protocol,
    Wire as Wire,
)
from wirefmt.convert.rules import (
    TABLES as TABLES,
    Row as Row,
    Table as Table,
)
from wirefmt.loading import lazy

if TYPE_CHECKING:
    from wirefmt.convert.table import convert_table as convert_table

#: It needs numpy, which nothing else here does.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "wirefmt.convert.table": "convert_table",
    },
)
