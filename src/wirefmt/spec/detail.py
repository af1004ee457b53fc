"""What the column `detail` of the message table says of each kind of message: its fields, in their order.

A row is a text of words with spaces between them. A word is a field: `queue` is written as `queue=orders`, `key=routing_key`
is written as `key=...`, and `=reply_text` is written without a label. With `?` behind it a field is left out where it is zero
or empty. A flag is its label alone, and is written only where it is set; with `!` behind it, it is written as true or false. A
field that the message does not have is left out.

No field here holds a credential: user names, passwords, SASL data, authentication data and secrets of any kind are not fields
that a row can name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wirefmt.rocketmq.spec import HEADERS, REQUEST_CODES, SEND_MESSAGE_V2_LETTERS

# ---- MQTT

#: By packet type. Properties have the names of MQTT 5.0, 2.2.2.2; `reason` is the reason code or return code by name.
MQTT: Final[dict[str, str]] = {
    "CONNECT": "version keep_alive clean_start client_id will will_qos will_retain will_size session_expiry_interval "
    "receive_maximum maximum_packet_size topic_alias_maximum authentication_method user_properties",
    "CONNACK": "=reason session_present =reason_string assigned_client_identifier server_keep_alive maximum_qos "
    "session_expiry_interval receive_maximum maximum_packet_size topic_alias_maximum retain_available "
    "wildcard_subscription_available subscription_identifiers_available shared_subscription_available server_reference "
    "authentication_method user_properties",
    "PUBLISH": "=topic qos retain dup id size content_type response_topic correlation_data message_expiry_interval "
    "topic_alias subscription_identifier payload_format_indicator? user_properties",
    "PUBACK": "id =reason =reason_string user_properties",
    "PUBREC": "id =reason =reason_string user_properties",
    "PUBREL": "id =reason dup =reason_string user_properties",
    "PUBCOMP": "id =reason =reason_string user_properties",
    "SUBSCRIBE": "id =filters dup subscription_identifier user_properties",
    "SUBACK": "id =codes =reason_string user_properties",
    "UNSUBSCRIBE": "id =filters dup user_properties",
    "UNSUBACK": "id =codes =reason_string user_properties",
    "PINGREQ": "",
    "PINGRESP": "",
    "DISCONNECT": "=reason =reason_string session_expiry_interval server_reference user_properties",
    "AUTH": "=reason authentication_method =reason_string user_properties",
}

# ---- AMQP 0.9.1

_CLOSE = "=reply_code =reply_text method"
_TUNE = "channel_max frame_max heartbeat"

#: By method: its arguments, `method` for class_id and method_id, `a.b` for the entry b of the table a, `size` for the octets of
#: the content's body. `header` is a content whose method is not known.
AMQP091: Final[dict[str, str]] = {
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

#: The content of a method, behind the method's fields: properties, `persistent` for delivery_mode 2, how many headers.
AMQP091_CONTENT: Final = (
    "persistent content_type content_encoding type message_id correlation_id reply_to expiration priority app_id "
    "headers"
)

# ---- AMQP 1.0

#: By performative or SASL frame: its fields, `address` for the address of the link, `size` for the octets of the message's
#: body, `a.b` for the entry b of the map a.
AMQP10: Final[dict[str, str]] = {
    "protocol-header": "=protocol",
    "empty": "",
    "sasl-mechanisms": "=sasl_server_mechanisms",
    "sasl-init": "mechanism hostname",
    "sasl-challenge": "",
    "sasl-response": "",
    "sasl-outcome": "=code",
    "open": "container_id hostname max_frame_size channel_max idle_time_out product=properties.product "
    "version=properties.version",
    "begin": "remote_channel next_outgoing_id incoming_window outgoing_window",
    "attach": "=role name handle source target snd_settle_mode rcv_settle_mode initial_delivery_count? "
    "max_message_size?",
    "flow": "link_credit handle delivery_count available drain echo next_incoming_id incoming_window next_outgoing_id "
    "outgoing_window",
    "transfer": "=address size delivery_id delivery_tag settled state aborted resume transfers handle message_format?",
    "disposition": "=role first last settled state",
    "detach": "error handle closed",
    "end": "error",
    "close": "error",
}

#: The message of a transfer, behind its fields: fields of the sections header and properties, how many application
#: properties.
AMQP10_MESSAGE: Final = (
    "durable priority ttl delivery_count? message_id to subject correlation_id reply_to content_type "
    "content_encoding group_id application_properties"
)

# ---- RocketMQ

#: Fields of headers that say little, are long, or may hold anything.
_LEFT_OUT: Final = frozenset((
    *SEND_MESSAGE_V2_LETTERS, "properties", "defaultTopic", "defaultTopicQueueNums", "sysFlag", "flag", "bornTimestamp",
    "unitMode", "batch", "subVersion", "extraInfo", "startOffsetInfo", "msgOffsetInfo", "orderCountInfo", "recallHandle",
    "registerCheckCode", "bornTime", "value", "exp", "tranStateTableOffset", "storeTimestamp", "topicSysFlag",
    "groupSysFlag", "requestSource", "attributes",
))  # fmt: skip
_SEND = "=topic queueId producerGroup size tags=TAGS keys=KEYS delay=DELAY reconsumeTimes? msgId=UNIQ_KEY"

#: Requests that are told of otherwise than by the fields of their header. TAGS and others in capitals are properties of the
#: message; `commitOrRollback` is told by name.
_ROCKETMQ_REQUESTS: Final[dict[str, str]] = {
    "SEND_MESSAGE": _SEND,
    "SEND_MESSAGE_V2": _SEND,
    "SEND_BATCH_MESSAGE": "=topic queueId producerGroup messages size",
    "SEND_REPLY_MESSAGE": _SEND,
    "SEND_REPLY_MESSAGE_V2": _SEND,
    "PUSH_REPLY_MESSAGE_TO_CLIENT": _SEND,
    "PULL_MESSAGE": "=topic queueId queueOffset consumerGroup maxMsgNums subscription commitOffset suspendTimeoutMillis",
    "LITE_PULL_MESSAGE": "=topic queueId queueOffset consumerGroup maxMsgNums subscription commitOffset "
    "suspendTimeoutMillis",
    "UPDATE_CONSUMER_OFFSET": "=topic queueId commitOffset consumerGroup",
    "QUERY_CONSUMER_OFFSET": "=topic queueId consumerGroup",
    "POP_MESSAGE": "=topic queueId consumerGroup maxMsgNums invisibleTime pollTime order",
    "ACK_MESSAGE": "=topic queueId offset consumerGroup",
    "HEART_BEAT": "clientID size",
    "END_TRANSACTION": "commitOrRollback topic producerGroup msgId commitLogOffset fromTransactionCheck transactionId",
    "CHECK_TRANSACTION_STATE": "topic msgId transactionId commitLogOffset",
}

#: A stored message in the body of a response, and of the two requests that have them.
ROCKETMQ_STORED: Final = (
    "=topic queueId queueOffset consumerGroup size tags=TAGS keys=KEYS reconsumeTimes? msgId=UNIQ_KEY"
)
#: A request whose code or header is not known.
ROCKETMQ_OTHER_REQUEST: Final = "topic queueId group producerGroup size?"
#: A response to a request that is not known. Every response begins with its code by name and its remark.
ROCKETMQ_OTHER_RESPONSE: Final = (
    "=response =remark topic msgId queueId queueOffset nextBeginOffset minOffset maxOffset size?"
)


def _fields(header: str) -> Iterator[str]:
    """The fields of a header class of RocketMQ, without the inherited ones."""
    for row in HEADERS:
        if row.name == header:
            yield from (name for name in (f.split(":")[0] for f in row.fields.split()) if name not in _LEFT_OUT)


def _requests() -> Iterator[tuple[str, str]]:
    for row in REQUEST_CODES:
        if row.name in _ROCKETMQ_REQUESTS:
            yield row.name, _ROCKETMQ_REQUESTS[row.name]
        elif row.header:
            yield row.name, " ".join([*_fields(row.header), "size?"])
        else:
            yield row.name, ROCKETMQ_OTHER_REQUEST


def _responses() -> Iterator[tuple[str, str]]:
    for row in REQUEST_CODES:
        own = [name for name in _fields(row.response_header) if name not in ("topic", "consumerGroup", "group")]
        if row.response_header == "SendMessageResponseHeader":
            own = ["queueId", "queueOffset", "msgId", "transactionId"]
        yield row.name, " ".join(["=response", "=remark", *own, "topic", "consumerGroup", "size?"])


#: By the request's code.
ROCKETMQ_REQUEST: Final[dict[str, str]] = dict(_requests())
ROCKETMQ_RESPONSE: Final[dict[str, str]] = dict(_responses())

# ---- NSQ

#: By command or frame. The fields of JSON objects have the names of the struct column `nsq`.
NSQ: Final[dict[str, str]] = {
    "": "=command",
    "MAGIC": "",
    "IDENTIFY": "client_id hostname user_agent heartbeat_interval msg_timeout sample_rate? tls_v1 deflate deflate_level? "
    "snappy output_buffer_size output_buffer_timeout feature_negotiation topology_region? topology_zone?",
    "AUTH": "",
    "SUB": "topic channel",
    "PUB": "=topic size",
    "MPUB": "=topic messages=message_count size",
    "DPUB": "=topic timeout_ms size",
    "RDY": "count",
    "FIN": "message_id topic channel",
    "REQ": "message_id timeout_ms topic channel",
    "TOUCH": "message_id topic channel",
    "CLS": "",
    "NOP": "",
    "frame": "frame_type",
    "response": "=response",
    "error": "=error_code =error_text fatal",
    "message": "message_id attempts size topic channel",
}

#: A response frame that holds a JSON object: the answer to IDENTIFY or AUTH.
NSQ_ANSWER: Final = (
    "version=server_version max_rdy_count msg_timeout max_msg_timeout sample_rate? tls_v1 deflate deflate_level? snappy "
    "auth_required identity permission_count output_buffer_size output_buffer_timeout"
)

# ---- PHPMQ

#: By message.
PHPMQ: Final[dict[str, str]] = {
    "": "type queue=queue_name messages=message_count size ttl message_id",
    "MESSAGE_CLIENT_TO_SERVER": "queue=queue_name size ttl",
    "CONSUME_REQUEST": "queue=queue_name messages=message_count",
    "MESSAGE_SERVER_TO_CLIENT": "queue=queue_name size message_id ttl",
    "ACKNOWLEDGEMENT": "queue=queue_name message_id",
    "REQUEUE": "queue=queue_name message_id ttl",
    "DEAD_LETTER": "queue=queue_name message_id",
}
