"""The contents of the column `detail` for each kind of message of AMQP 1.0. src/wirefmt/_core/detail.pxi describes the rows."""

from __future__ import annotations

from typing import Final

#: By performative or SASL frame: its fields, `address` for the address of the link, `size` for the bytes of the message's
#: body, `a.b` for the entry b of the map a.
KINDS: Final[dict[str, str]] = {
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

#: The message of a transfer, after its fields: fields of the sections header and properties, number of application
#: properties.
MESSAGE: Final = (
    "durable priority ttl delivery_count? message_id to subject correlation_id reply_to content_type "
    "content_encoding group_id application_properties"
)
