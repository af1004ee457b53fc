"""The published tables of RabbitMQ's conversions, row by row and in their order."""

from __future__ import annotations

from typing import Final

from . import amqp091_to_amqp10, amqp091_to_mqtt5, amqp10_to_amqp091, amqp10_to_mqtt5, mqtt5_to_amqp091, mqtt5_to_amqp10
from .row import Row, Table

#: In the order of the document.
TABLES: Final[tuple[Table, ...]] = (
    amqp10_to_amqp091.TABLE,
    amqp091_to_amqp10.TABLE,
    mqtt5_to_amqp10.TABLE,
    mqtt5_to_amqp091.TABLE,
    amqp10_to_mqtt5.TABLE,
    amqp091_to_mqtt5.TABLE,
)

__all__ = ["TABLES", "Row", "Table"]
