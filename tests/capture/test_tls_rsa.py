"""TLS 1.2 with RSA key exchange, decrypted with the server's private key: what tshark reads with it (tests/data/tls/recorded/
messages.py). AES-CCM of TLS 1.2 with a key log beside it."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import secrets as chance
from pathlib import Path
from typing import Any

import pytest

from lib.paths import DATA
from lib.wire import Tcp, connack, connect, pcap
from wirefmt import capture
from wirefmt.capture.keylog import Secrets
from wirefmt.errors import CaptureError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
pytest.importorskip("cryptography", reason="needs cryptography (pip install 'wirefmt[tls]')")

from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: E402
from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: E402
from cryptography.hazmat.primitives.serialization import (  # noqa: E402
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from lib.tls_peer import extension, message, record  # noqa: E402

RECORDED = DATA / "tls/recorded"
MESSAGES: dict[str, dict[str, list[list[str]]]] = json.loads((RECORDED / "messages.json").read_text())
KEY = str(RECORDED / "rsa.pem")
#: Types of MQTT packets.
KINDS = ("", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK",
         "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT")  # fmt: skip


def told(name: str, **options: Any) -> list[tuple[Any, ...]]:
    rows = pa.table(capture.read(RECORDED / f"{name}.pcap.gz", **options)).to_pylist()
    assert {row["status"] for row in rows} <= {"ok"}
    return [(row["frame_no"], row["kind"], row["destination"], row["payload"]) for row in rows]


def expected(rows: list[list[str]]) -> list[tuple[Any, ...]]:
    return [
        (int(frame), KINDS[int(kind)], topic or None, bytes.fromhex(text) if kind == "3" else None)
        for frame, kind, topic, text in rows
    ]


@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"batch_rows": 1}], ids=str)
@pytest.mark.parametrize("name", MESSAGES)
def test_messages_are_those_of_tshark(name: str, options: dict[str, Any]) -> None:
    """All suites with RSA, with and without extended master secret; with a key log all that are supported."""
    assert told(name, keys=KEY, **options) == expected(MESSAGES[name]["keys"])
    assert len(MESSAGES[name]["keys"]) == (8 if name.startswith("rsa-") else 0)
    if name != "camellia" and not name.startswith("old-"):
        assert told(name, keylog=str(RECORDED / f"{name}.log"), **options) == expected(MESSAGES[name]["keylog"])
        assert MESSAGES[name]["keylog"]


@pytest.mark.parametrize("name", ["mqtt311-tls12-rsa-aes128gcm", "mqtt311-tls12-rsa-aes256cbc-sha1-noems"])
def test_captures_that_have_a_key_log_too(name: str) -> None:
    path = DATA / f"tls/{name}.pcap.gz"
    with_log = pa.table(capture.read(path, keylog=str(DATA / f"tls/keys/{name}.log"))).to_pylist()
    assert with_log
    assert pa.table(capture.read(path, keys=str(DATA / "tls/keys/test-rsa.key"))).to_pylist() == with_log


def test_a_line_of_the_premaster_secret_in_a_key_log() -> None:
    name = DATA / "tls/keys-rsa-line.pcap.gz"
    reader = capture.read(name, keylog=str(DATA / "tls/keys/keys-rsa-line.log"))
    assert sum(batch.num_rows for batch in reader) == 35
    assert reader.stats["tls"]["decrypted"] == 1


# ---- files of keys


def pem(key: Any, password: bytes | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    made: bytes = key.private_bytes(Encoding.PEM, form, encryption)
    return made


OTHER = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
OWN = Path(KEY).read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        OWN,
        pem(OTHER) + OWN,
        OWN + pem(CURVE),
        b"Bag Attributes\n    name: x\n" + pem(CURVE) + OWN,
        pem(OTHER, form=PrivateFormat.TraditionalOpenSSL) + OWN.replace(b"\n", b"\r\n"),
    ],
)
def test_the_key_of_the_server_is_found_among_others(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    path.write_bytes(text)
    assert len(told("rsa-aes128gcm", keys=str(path))) == 8


def test_another_key_decrypts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    path.write_bytes(pem(OTHER))
    reader = capture.read(RECORDED / "rsa-aes128gcm.pcap.gz", keys=str(path))
    assert list(reader) == []
    assert reader.stats["tls"]["no_secret"] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "it has no RSA private key"),
        (pem(CURVE), "it has no RSA private key"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "it has no RSA private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "cannot read the private key"),
        (pem(OTHER, b"secret"), "it has a password"),
        (None, "No such file"),
    ],
)
def test_files_that_are_not_read(text: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(CaptureError, match=says):
        capture.read(RECORDED / "rsa-aes128gcm.pcap.gz", keys=str(path))
    with pytest.raises(CaptureError):
        Secrets(None, path)


# ---- both sides, from RFC 5246 and RFC 7627


def prf(secret: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """RFC 5246, 5."""
    out, step = b"", label + seed
    while len(out) < size:
        step = hmac.digest(secret, step, "sha256")
        out += hmac.digest(secret, step + label + seed, "sha256")
    return out[:size]


class Rsa:
    """Handshakes of both sides for TLS_RSA_WITH_AES_128_GCM_SHA256 and the octets of messages."""

    def __init__(self, extended: bool, certificates: bool) -> None:
        key = OTHER
        self.key = pem(key)
        randoms = chance.token_bytes(32), chance.token_bytes(32)
        tail = extension(23, b"") if extended else b""
        tails = len(tail).to_bytes(2, "big") + tail
        hello = message(1, b"\3\3" + randoms[0] + b"\0\0\2\0\x9c\1\0" + tails)
        flight = [message(2, b"\3\3" + randoms[1] + b"\0\0\x9c\0" + tails), message(11, b"\0\0\6\0\0\3abc")]
        flight += [message(13, b"\1\1\0\2\4\1\0\0")] if certificates else []
        flight.append(message(14, b""))
        premaster = b"\3\3" + chance.token_bytes(46)
        encrypted = key.public_key().encrypt(premaster, PKCS1v15())
        answer = [message(11, b"\0\0\0")] if certificates else []
        answer.append(message(16, len(encrypted).to_bytes(2, "big") + encrypted))
        transcript = hashlib.sha256(b"".join([hello, *flight, *answer])).digest()
        label, seed = (
            (b"extended master secret", transcript) if extended else (b"master secret", randoms[0] + randoms[1])
        )
        block = prf(prf(premaster, label, seed, 48), b"key expansion", randoms[1] + randoms[0], 40)
        self._keys = [(AESGCM(block[16 * i : 16 * i + 16]), block[32 + 4 * i : 36 + 4 * i]) for i in (0, 1)]
        self._sequence = [0, 0]
        self.hello, self.flight = record(22, hello), record(22, flight[0]) + record(22, b"".join(flight[1:]))
        self.exchange = record(22, b"".join(answer))
        self.done = [record(20, b"\1") + self.write(side, message(20, bytes(12)), 22) for side in (0, 1)]

    def write(self, side: int, octets: bytes, kind: int = 23) -> bytes:
        aead, salt = self._keys[side]
        sequence = self._sequence[side].to_bytes(8, "big")
        self._sequence[side] += 1
        content = aead.encrypt(salt + sequence, octets, sequence + bytes([kind, 3, 3]) + len(octets).to_bytes(2, "big"))
        return record(kind, sequence + content)


@pytest.mark.parametrize("size", [1448, 1])
@pytest.mark.parametrize("order", ["in order", "the client's packets first", "the server's packets first"])
@pytest.mark.parametrize("certificates", [False, True])
@pytest.mark.parametrize("extended", [False, True])
def test_both_sides_in_any_order(extended: bool, certificates: bool, order: str, size: int, tmp_path: Path) -> None:
    peers = Rsa(extended, certificates)
    path = tmp_path / "key.pem"
    path.write_bytes(peers.key)
    tcp = Tcp(port=8883)
    begun = tcp.open()
    client = [*tcp.send(0, peers.hello, size)]
    server = [*tcp.send(1, peers.flight, size)]
    late_client = tcp.send(0, peers.exchange + peers.done[0] + peers.write(0, connect()), size)
    late_server = tcp.send(1, peers.done[1] + peers.write(1, connack()), size)
    frames = {
        "in order": [*client, *server, *late_client, *late_server],
        "the client's packets first": [*client, *late_client, *server, *late_server],
        "the server's packets first": [*server, *late_server, *client, *late_client],
    }[order]
    rows = pa.table(capture.read(io.BytesIO(pcap([*begun, *frames, *tcp.close()])), keys=str(path))).to_pylist()
    assert sorted((row["kind"], row["status"]) for row in rows) == [("CONNACK", "ok"), ("CONNECT", "ok")]


@pytest.mark.parametrize("extended", [False, True])
def test_a_packet_of_the_server_s_messages_that_is_missing(extended: bool, tmp_path: Path) -> None:
    """The extended master secret depends on it."""
    peers = Rsa(extended, True)
    path = tmp_path / "key.pem"
    path.write_bytes(peers.key)
    tcp = Tcp(port=8883)
    frames = [*tcp.open(), *tcp.send(0, peers.hello)]
    flight = tcp.send(1, peers.flight, 20)
    assert len(flight) > 4
    frames += [*flight[:3], *flight[4:], tcp.segment(0)]
    frames += tcp.send(0, peers.exchange + peers.done[0] + peers.write(0, connect()))
    frames += [*tcp.send(1, peers.done[1] + peers.write(1, connack())), *tcp.close()]
    reader = capture.read(io.BytesIO(pcap(frames)), keys=str(path))
    rows = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    assert ([row["kind"] for row in rows if row["direction"] == 0 and row["kind"]] == ["CONNECT"]) is not extended
    assert reader.stats["buffered"] == 0
