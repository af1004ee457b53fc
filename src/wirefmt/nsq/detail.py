"""The contents of the column `detail` for each kind of message of NSQ. src/wirefmt/_core/detail.pxi describes the rows."""

from __future__ import annotations

from typing import Final

#: By command or frame. The fields of JSON objects have the names of the struct column `nsq`.
KINDS: Final[dict[str, str]] = {
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
ANSWER: Final = (
    "version=server_version max_rdy_count msg_timeout max_msg_timeout sample_rate? tls_v1 deflate deflate_level? snappy "
    "auth_required identity permission_count output_buffer_size output_buffer_timeout"
)
