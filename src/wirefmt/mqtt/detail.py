"""The contents of the column `detail` for each kind of message of MQTT. src/wirefmt/_core/detail.pxi describes the rows."""

from __future__ import annotations

from typing import Final

#: By packet type. Properties have the names of MQTT 5.0, 2.2.2.2; `reason` is the reason code or return code by name.
KINDS: Final[dict[str, str]] = {
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
