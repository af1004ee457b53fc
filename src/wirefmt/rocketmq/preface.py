"""What may come before the first frame of a client: TLS, or the PROXY protocol of HAProxy, version 1 and 2 (section 12)."""

from __future__ import annotations

from typing import Final

from wirefmt.connection.proxy import begins, read_header

#: The first byte of a TLS handshake record.
TLS: Final = 0x16


def proxy_preface(data: bytes) -> tuple[int, tuple[str, int] | None] | None:
    """Read a PROXY preface at the start of `data`.

    Returns its size in bytes and its source address (None: it has none). Returns None if more bytes are needed, and size 0
    if `data` begins with no preface. Raises DecodeError.
    """
    if begins(data) is False:
        return 0, None
    header = read_header(data)
    if isinstance(header, int):
        return None
    return header.size, (header.source[0], header.source[1]) if isinstance(header.source, tuple) else None
