"""Vectors of tests/vectors/nsq: octets of go-nsq and of a running nsqd, with what those programs made of them."""

from __future__ import annotations

from typing import Any

from lib import json_vectors
from wirefmt import nsq

#: The nsqd of the vectors whose id begins with `nsq-live-small`.
SMALL = nsq.ServerOptions(max_msg_size=100, max_body_size=200, max_req_timeout=60_000)


def load() -> tuple[dict[str, Any], ...]:
    return json_vectors.load("nsq")


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [row for row in load() if row["kind"] in kinds]


def client_octets(row: dict[str, Any]) -> bytes:
    """All that the client of a transcript sent; very long lines are given as a recipe."""
    if "send_recipe" in row:
        words = row["send_recipe"].split()  # magic, then N letters A and a newline
        return b"  V2" + b"A" * int(words[2]) + b"\n"
    return bytes.fromhex(row["hex"])


def server_of(row: dict[str, Any]) -> nsq.ServerOptions | None:
    return SMALL if row["id"].startswith("nsq-live-small") else None


def frame_of(decoded: dict[str, Any]) -> dict[str, Any]:
    """A frame of `decoded` under the names of our attributes."""
    if "message_id" in decoded:
        message_id = decoded.get("message_id_hex") or decoded["message_id"].encode().hex()
        return {
            "timestamp": int(decoded["timestamp_ns"]),
            "attempts": decoded["attempts"],
            "message_id": bytes.fromhex(message_id),
            "body": bytes.fromhex(decoded["body_hex"]),
        }
    return {"frame_type": decoded["type"], "data": decoded["text"].encode()}
