"""The PHP library on loopback: what its classes write is read under STRICT, what we write is read by its headers.

cd tests; python -m live.test_phpmq      records the capture of tests/data/phpmq anew
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lib.paths import DATA
from lib.proxy import CLIENT, HOST, SERVER, Conversation, Proxy, capture
from lib.skips import imported
from wirefmt import phpmq

pytestmark = pytest.mark.live

PATIENCE = 15.0  # seconds for something that must come
PHP = shutil.which("php")
LIBRARY = os.environ.get("WIREFMT_PHPMQ")
PEER = str(Path(__file__).parent / "phpmq" / "peer.php")
RECORDED = DATA / "phpmq" / "protocol-37bf1fb.pcap.gz"

CONTENT = "Héllo\nP01\0 World".encode()  # as in peer.php
ID = "d7e7f68761d34838494b233148b5486c"
FROM_PHP = [
    phpmq.MessageClientToServer(queue_name="Foo", content=CONTENT, ttl=3600),
    phpmq.MessageClientToServer(queue_name="Foo", content=b"", ttl=0),
    phpmq.ConsumeRequest(queue_name="Foo", message_count=5),
    phpmq.Acknowledgement(queue_name="Foo", message_id=ID),
    phpmq.ReQueue(queue_name="Foo", message_id=ID, ttl=-1),
    phpmq.DeadLetter(queue_name="Foo", message_id=ID),
]
TO_PHP = [
    phpmq.MessageClientToServer(queue_name="Warteschlange ä", content=bytes(range(256)) * 40, ttl=1),
    phpmq.MessageClientToServer(queue_name="", content=b"", ttl=0),
    phpmq.ReQueue(queue_name="q", message_id="x", ttl=1 << 40),
    phpmq.Acknowledgement(queue_name="q", message_id=""),
    phpmq.DeadLetter(queue_name="q", message_id="y"),
    phpmq.ConsumeRequest(queue_name="Foo", message_count=2),
]
ANSWERS = [
    phpmq.MessageServerToClient(queue_name="Foo", content=CONTENT + b"%d" % i, message_id=ID, ttl=3300 + i)
    for i in range(2)
]


def peer(*arguments: str) -> subprocess.Popen[str]:
    assert PHP is not None
    assert LIBRARY is not None
    command = [PHP, PEER, LIBRARY, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def printed(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What a peer that has ended had read."""
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return [json.loads(line) for line in out.splitlines()]


def shown(message: Any) -> dict[str, Any]:
    """A message of ours as the peer prints what it reads."""
    packets = [[number, content.hex()] for number, content in message.packets]
    return {"version": 1, "type": message.message_type, "packets": packets}


def read_to_end(end: socket.socket, side: str) -> list[phpmq.Message]:
    end.settimeout(PATIENCE)
    decoder = phpmq.Decoder(side=side)  # type: ignore[arg-type]
    found = []
    while octets := end.recv(65536):
        found += decoder.feed(octets)
    decoder.close()
    return found


def ask_php() -> tuple[list[Conversation], list[phpmq.Message], list[dict[str, Any]]]:
    """A client of ours and the library as the server: what was said, our reading, the library's."""
    process = peer("serve")
    assert process.stdout is not None
    proxy = Proxy(int(process.stdout.readline()))
    try:
        with socket.create_connection((HOST, proxy.port), timeout=PATIENCE) as end:
            end.sendall(b"".join(message.encode() for message in TO_PHP))
            end.shutdown(socket.SHUT_WR)
            found = read_to_end(end, "server")
        return proxy.finish(), found, printed(process)
    finally:
        proxy.close()
        process.kill()
        process.wait()


def be_asked_by_php() -> tuple[list[Conversation], list[phpmq.Message], list[dict[str, Any]]]:
    """The library as a client, and a server of ours."""
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(PATIENCE)
        proxy = Proxy(int(listener.getsockname()[1]))
        process = peer("connect", str(proxy.port))
        try:
            end, _ = listener.accept()
            with end:
                found = read_to_end(end, "client")
                end.sendall(b"".join(message.encode() for message in ANSWERS))
            return proxy.finish(), found, printed(process)
        finally:
            proxy.close()
            process.kill()
            process.wait()


needs_php = pytest.mark.skipif(
    PHP is None or LIBRARY is None,
    reason="needs php-mq/protocol (apt install php-cli; WIREFMT_PHPMQ, see tests/README.md)",
)


@needs_php
def test_the_library_as_server() -> None:
    _, found, read = ask_php()
    assert found == ANSWERS
    assert read == [shown(message) for message in TO_PHP]


@needs_php
def test_the_library_as_client() -> None:
    conversations, found, read = be_asked_by_php()
    assert found == FROM_PHP
    assert b"".join(message.encode() for message in FROM_PHP) == conversations[0].octets(CLIENT)
    assert read == [shown(message) for message in ANSWERS]


def test_the_recorded_capture() -> None:
    imported("pyarrow")
    from lib.batches import rows_of

    rows, _ = rows_of(gzip.decompress(RECORDED.read_bytes()))
    assert {(row["protocol"], row["status"]) for row in rows} == {("phpmq", "ok")}
    client = [row for row in rows if row["direction"] == CLIENT]
    server = [row for row in rows if row["direction"] == SERVER]
    for found, messages in ((client, TO_PHP + FROM_PHP), (server, ANSWERS * 2)):
        assert [row["kind"] for row in found] == [message.kind for message in messages]
        assert [row["destination"] for row in found] == [message.queue_name for message in messages]
        assert [row["wire_size"] for row in found] == [len(message.encode()) for message in messages]
        payloads = [m.content_bytes() if hasattr(m, "content_bytes") else None for m in messages]
        assert [row["payload"] for row in found] == payloads


if __name__ == "__main__":
    RECORDED.parent.mkdir(exist_ok=True)
    said = [*ask_php()[0], *be_asked_by_php()[0]]
    RECORDED.write_bytes(gzip.compress(capture(said, 9100), mtime=0))
