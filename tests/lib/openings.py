"""What the two sides of a connection say first, in our protocols and in others."""

from __future__ import annotations

from lib.protocols import EXAMPLES

#: What others say first on a connection: the client, then the server.
OTHERS: dict[str, tuple[bytes, bytes]] = {
    "http": (
        b"GET / HTTP/1.1\r\nHost: example.test\r\nAccept: */*\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ),
    "http-post": (
        b"POST /pub?topic=t HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ),
    "http2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", b"\0\0\0\4\0\0\0\0\0"),
    "tls": (
        bytes.fromhex("16030100b5010000b10303") + bytes(range(32)) + bytes(140),
        bytes.fromhex("160303007a020000760303") + bytes(range(32)) + bytes(85),
    ),
    "redis": (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n", b"+OK\r\n"),
    "redis-inline": (b"PING\r\n", b"+PONG\r\n"),
    "kafka": (
        bytes.fromhex("00000024 0012 0003 00000001 0007")
        + b"client1"
        + bytes.fromhex("00 06")
        + b"kafka"
        + b"\x062.8.0\0",
        bytes.fromhex("0000001a 00000001 0000 00000002 0012 0000 0003 0001 0000 0004 00000000"),
    ),
    "postgresql": (
        bytes.fromhex("0000002300030000") + b"user\0alice\0database\0db\0\0",
        b"R\0\0\0\x0c\0\0\0\5abcd",
    ),
    "postgresql-ssl": (bytes.fromhex("0000000804d2162f"), b"N"),
    "dns": (
        bytes.fromhex("001c 1234 0100 0001 0000 0000 0000 07") + b"example" + bytes.fromhex("03636f6d00 0001 0001"),
        bytes.fromhex("002c 1234 8180 0001 0001 0000 0000 07")
        + b"example"
        + bytes.fromhex("03636f6d00 0001 0001")
        + bytes.fromhex("c00c 0001 0001 00000e10 0004 5db8d822"),
    ),
    "ssh": (b"SSH-2.0-OpenSSH_9.2\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"),
    "smtp": (b"EHLO client.test\r\n", b"220 mail.test ESMTP\r\n"),
    "memcached": (b"get key\r\n", b"END\r\n"),
    "nsqlookupd": (b"  V1PING\n", b"\0\0\0\2OK"),
    "text": (b"HELLO 0100103 world\n", b"  V2 is not where this begins\n"),
}

#: The client, the server, and kinds that are found.
OURS: dict[str, tuple[bytes, bytes, list[str]]] = {name: module.OPENING for name, module in EXAMPLES.items()}
