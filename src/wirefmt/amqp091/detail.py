"""The contents of the column `detail` for each kind of message of AMQP 0.9.1. src/wirefmt/_core/detail.pxi describes the rows."""

from __future__ import annotations

from typing import Final

_CLOSE = "=reply_code =reply_text method"
_TUNE = "channel_max frame_max heartbeat"

#: By method: its arguments, `method` for class_id and method_id, `a.b` for the entry b of the table a, `size` for the bytes of
#: the content's body. `header` is a content whose method is unknown.
KINDS: Final[dict[str, str]] = {
    "protocol-header": "=version",
    "heartbeat": "",
    "header": "size",
    "connection.start": "product=server_properties.product version=server_properties.version "
    "cluster_name=server_properties.cluster_name mechanisms locales",
    "connection.start-ok": "connection_name=client_properties.connection_name product=client_properties.product "
    "version=client_properties.version platform=client_properties.platform mechanism locale",
    "connection.secure": "",
    "connection.secure-ok": "",
    "connection.tune": _TUNE,
    "connection.tune-ok": _TUNE,
    "connection.open": "virtual_host",
    "connection.open-ok": "known_hosts?",
    "connection.close": _CLOSE,
    "connection.close-ok": "",
    "connection.blocked": "=reason",
    "connection.unblocked": "",
    "connection.update-secret": "=reason",
    "connection.update-secret-ok": "",
    "channel.open": "",
    "channel.open-ok": "",
    "channel.flow": "active!",
    "channel.flow-ok": "active!",
    "channel.close": _CLOSE,
    "channel.close-ok": "",
    "access.request": "realm exclusive passive active write read",
    "access.request-ok": "ticket",
    "exchange.declare": "exchange type passive durable auto_delete internal nowait arguments",
    "exchange.declare-ok": "",
    "exchange.delete": "exchange if_unused nowait",
    "exchange.delete-ok": "",
    "exchange.bind": "destination source key=routing_key nowait arguments",
    "exchange.bind-ok": "",
    "exchange.unbind": "destination source key=routing_key nowait arguments",
    "exchange.unbind-ok": "",
    "queue.declare": "queue passive durable exclusive auto_delete nowait arguments",
    "queue.declare-ok": "queue messages=message_count consumers=consumer_count",
    "queue.bind": "queue exchange key=routing_key nowait arguments",
    "queue.bind-ok": "",
    "queue.purge": "queue nowait",
    "queue.purge-ok": "messages=message_count",
    "queue.delete": "queue if_unused if_empty nowait",
    "queue.delete-ok": "messages=message_count",
    "queue.unbind": "queue exchange key=routing_key arguments",
    "queue.unbind-ok": "",
    "basic.qos": "prefetch_count prefetch_size? global",
    "basic.qos-ok": "",
    "basic.consume": "queue consumer_tag no_ack exclusive no_local nowait arguments",
    "basic.consume-ok": "consumer_tag",
    "basic.cancel": "consumer_tag nowait",
    "basic.cancel-ok": "consumer_tag",
    "basic.publish": "exchange key=routing_key size mandatory immediate",
    "basic.return": "=reply_code =reply_text exchange key=routing_key size",
    "basic.deliver": "exchange key=routing_key size delivery_tag redelivered consumer_tag",
    "basic.get": "queue no_ack",
    "basic.get-ok": "exchange key=routing_key size delivery_tag redelivered messages=message_count",
    "basic.get-empty": "",
    "basic.ack": "delivery_tag multiple",
    "basic.reject": "delivery_tag requeue",
    "basic.recover-async": "requeue",
    "basic.recover": "requeue",
    "basic.recover-ok": "",
    "basic.nack": "delivery_tag multiple requeue",
    "confirm.select": "nowait",
    "confirm.select-ok": "",
    "tx.select": "",
    "tx.select-ok": "",
    "tx.commit": "",
    "tx.commit-ok": "",
    "tx.rollback": "",
    "tx.rollback-ok": "",
}

#: The content of a method, after the method's fields: properties, `persistent` for delivery_mode 2, how many headers.
CONTENT: Final = (
    "persistent content_type content_encoding type message_id correlation_id reply_to expiration priority app_id "
    "headers"
)
