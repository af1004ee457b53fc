"""The contents of the column `detail` for each kind of PHPMQ message. src/wirefmt/_core/detail.pxi describes the rows."""

from __future__ import annotations

from typing import Final

#: By message.
KINDS: Final[dict[str, str]] = {
    "": "type queue=queue_name messages=message_count size ttl message_id",
    "MESSAGE_CLIENT_TO_SERVER": "queue=queue_name size ttl",
    "CONSUME_REQUEST": "queue=queue_name messages=message_count",
    "MESSAGE_SERVER_TO_CLIENT": "queue=queue_name size message_id ttl",
    "ACKNOWLEDGEMENT": "queue=queue_name message_id",
    "REQUEUE": "queue=queue_name message_id ttl",
    "DEAD_LETTER": "queue=queue_name message_id",
}
