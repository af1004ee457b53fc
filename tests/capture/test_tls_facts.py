"""What the table of connections says of TLS: compared with what tshark and openssl say of the same handshakes
(tests/data/tls/recorded/facts.py)."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lib.paths import DATA
from lib.wire import Tcp, pcap
from wirefmt import capture
from wirefmt.capture import tls_facts
from wirefmt.capture.reader import open_tables
from wirefmt.capture.suites import suite_name
from wirefmt.capture.tls import READ, REASONS, client_hello

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
pytest.importorskip("cryptography", reason="needs cryptography (pip install 'wirefmt[tls]')")

from lib.tls_peer import Peers, extension, message, record  # noqa: E402

TLS = DATA / "tls"
RECORDED = TLS / "recorded"
FACTS = [json.loads(line) for line in (RECORDED / "facts.jsonl").read_text().splitlines()]
FILES = sorted({(row["file"], row["keys"]) for row in FACTS})
#: Messages are missing, or the packets of a handshake are cut: tshark and wirefmt read on at different places.
HOLES = ("lost-", "snapped-", "begun-later")
#: Of connections whose handshake cannot be decrypted with this key log.
UNKEYED = ("keys-none", "keys-of-one", "keys-wrong-for-one", "keys-rsa-line", "dsb-after-packets")


def path_of(file: str) -> Path:
    folder, name = file.split("/")
    return (RECORDED if folder == "recorded" else TLS) / name


def keylog_of(file: str) -> Path:
    name = path_of(file).name.split(".")[0]
    return RECORDED / f"{name}.log" if file.startswith("recorded/") else TLS / "keys" / f"{name}.log"


def connections(source: Any, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    reader = open_tables(source, ["connections"], all_connections=True, **options)
    rows = [row for _, batch in reader.tables() for row in pa.record_batch(batch).to_pylist()]
    return rows, reader.stats


def facts_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("tls_"): value for name, value in row.items() if name.startswith("tls_")}


@pytest.mark.parametrize(("file", "keys"), FILES)
@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"batch_rows": 1}], ids=str)
def test_facts_are_those_of_tshark_and_openssl(file: str, keys: bool, options: dict[str, Any]) -> None:
    rows, _ = connections(str(path_of(file)), keylog=str(keylog_of(file)) if keys else None, **options)
    by_client = {f"{row['client_ip']}:{row['client_port']}": facts_of(row) for row in rows}
    for told in FACTS:
        if (told["file"], told["keys"]) != (file, keys):
            continue
        found = by_client[told["client"]]
        assert (found["version"], found["cipher"]) == (told["version"], told["cipher"])
        assert found["server_name"] == told["server_name"]
        if told["chosen"] or told["version"] != "TLS 1.3":
            assert found["alpn"] == told["chosen"]
        elif "subject" not in told:
            assert found["alpn"] == told["offered"]
        name = path_of(file).name
        if not name.startswith((*HOLES, *UNKEYED)):
            times = [None if t is None else t.isoformat() for t in (found["not_before"], found["not_after"])]
            assert [found["subject"], *times] == [told.get(n) for n in ("subject", "not_before", "not_after")]


@pytest.mark.parametrize("file", sorted({file for file, _ in FILES}))
def test_the_message_table_and_the_counters_are_the_same_without_them(file: str) -> None:
    """Without a key: the handshakes are read for the connections, and counted as not decoded."""
    stats = []
    tables = []
    for names in (["messages"], ["messages", "connections"]):
        reader = open_tables(str(path_of(file)), names)
        tables.append(
            [row for name, b in reader.tables() if name == "messages" for row in pa.record_batch(b).to_pylist()]
        )
        stats.append(reader.stats)
    plain = list(capture.read(str(path_of(file))))
    assert tables[0] == tables[1] == [row for batch in plain for row in pa.record_batch(batch).to_pylist()]
    reader = capture.read(str(path_of(file)))
    list(reader)
    for name in ("not_decoded", "carrier_bytes", "tls", "rows", "packets", "not_recognised_ports"):
        assert stats[1][name] == reader.stats[name], name
    assert stats[1]["buffered"] == 0


REASONS_OF = [
    ("alpn-tls12", "rsa-aes128gcm", "no_secret"),
    ("alpn-tls13", "rsa-aes128gcm", "no_secret"),
    ("camellia", "camellia", "cipher_not_supported"),
    ("old-tls10", "old-tls10", "version_not_supported"),
    ("old-tls11", "old-tls11", "version_not_supported"),
    ("expired", None, "no_secrets"),
    ("expired", "expired", None),
    ("coming", "coming", None),
]


@pytest.mark.parametrize(("name", "keys", "reason"), REASONS_OF)
def test_why_a_connection_is_not_decrypted(name: str, keys: str | None, reason: str | None) -> None:
    keylog = None if keys is None else str(RECORDED / f"{keys}.log")
    (row,), stats = connections(str(RECORDED / f"{name}.pcap.gz"), keylog=keylog)
    assert row["tls_undecrypted"] == (None if reason is None else REASONS[reason])
    assert row["carrier"] == "tls"
    assert {name for name, n in stats["tls"].items() if n} == {reason or "decrypted"}
    assert row["tls_server_name"] == "broker.example"
    if row["tls_version"] != "TLS 1.3":
        assert row["tls_subject"] == "O=wirefmt\\, tests,CN=broker.example", "also if it cannot be decrypted"


def test_a_connection_whose_beginning_was_not_captured() -> None:
    (row,), _ = connections(str(TLS / "begun-later-tls13.pcap.gz"), keylog=str(TLS / "keys/begun-later-tls13.log"))
    assert row["tls_undecrypted"] == REASONS["handshake_not_captured"]
    assert row["tls_version"] is None


def test_no_tls_has_no_facts() -> None:
    tcp = Tcp()
    rows, _ = connections(io.BytesIO(pcap([*tcp.open(), *tcp.send(0, b"\x10\x0d\0\4MQTT\4\2\0\0\0\1x"), *tcp.close()])))
    assert [set(facts_of(row).values()) for row in rows] == [{None}]


# ---- what both sides say


def hello(*extensions: bytes, version: int = 0x0303) -> bytes:
    tail = b"".join(extensions)
    body = version.to_bytes(2, "big") + bytes(32) + b"\0" + b"\0\x02\0\x2f" + b"\x01\0"
    return record(22, message(1, body + len(tail).to_bytes(2, "big") + tail))


def answer(*extensions: bytes, version: int = 0x0303, suite: int = 0x002F) -> bytes:
    tail = b"".join(extensions)
    body = version.to_bytes(2, "big") + bytes(32) + b"\0" + suite.to_bytes(2, "big") + b"\0"
    return record(22, message(2, body + len(tail).to_bytes(2, "big") + tail))


def named(name: bytes) -> bytes:
    """RFC 6066, 3."""
    one = b"\0" + len(name).to_bytes(2, "big") + name
    return extension(0, len(one).to_bytes(2, "big") + one)


def offering(*names: bytes) -> bytes:
    """RFC 7301, 3.1."""
    every = b"".join(bytes([len(name)]) + name for name in names)
    return extension(16, len(every).to_bytes(2, "big") + every)


def told(client: bytes, server: bytes = b"", size: int = 1448, **options: Any) -> dict[str, Any]:
    tcp = Tcp(port=8883)
    frames = [*tcp.open(), *tcp.send(0, client, size), *tcp.send(1, server, size), *tcp.close()]
    rows, stats = connections(io.BytesIO(pcap(frames)), **options)
    assert stats["buffered"] == 0
    assert len(rows) == 1
    return facts_of(rows[0])


@pytest.mark.parametrize("size", [1, 1448])
@pytest.mark.parametrize(
    ("version", "name"), [(0x0300, "SSL 3.0"), (0x0301, "TLS 1.0"), (0x0302, "TLS 1.1"), (0x0305, "0x0305")]
)
def test_versions(version: int, name: str, size: int) -> None:
    found = told(hello(version=version), answer(version=version, suite=0x0005), size)
    assert (found["version"], found["cipher"]) == (name, "TLS_RSA_WITH_RC4_128_SHA")


def test_what_the_client_says_alone() -> None:
    found = told(hello(named(b"broker.example"), offering(b"\x1a\x1a", b"x-amzn-mqtt-ca", b"mqtt")))
    assert (found["server_name"], found["alpn"]) == ("broker.example", "x-amzn-mqtt-ca,mqtt")
    assert found["version"] is None
    assert found["cipher"] is None


@pytest.mark.parametrize("name", [b"", b"a b", b"\xff", b"a\n", b"a" * 256])
def test_names_that_are_none(name: bytes) -> None:
    assert told(hello(named(name)))["server_name"] is None


def test_a_suite_without_a_name() -> None:
    assert told(hello(), answer(suite=0x9999))["cipher"] == "0x9999"


def test_octets_of_any_kind_in_a_hello_and_a_certificate() -> None:
    r = random.Random(3)
    scene = Peers()
    for _ in range(300):
        client = bytearray(hello(named(b"broker.example"), offering(b"mqtt")))
        server = bytearray(
            answer(offering(b"mqtt")) + record(22, message(11, bytes([0, 0, 40, 0, 0, 37]) + r.randbytes(37)))
        )
        for octets in r.choice(([client], [server], [client, server])):
            octets[r.randrange(5, len(octets))] = r.randrange(256)
        told(bytes(client), bytes(server), r.choice((7, 1448)))
    assert told(scene.hello, scene.answer)["version"] == "TLS 1.3"


def test_a_certificate_with_octets_of_any_kind() -> None:
    """What the package raises of it, and warns of, is for nobody."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker.example")])
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 5, begin, end).sign(key, hashes.SHA256())
    good = made.public_bytes(serialization.Encoding.DER)
    assert tls_facts._parse(good).subject == "CN=broker.example"
    version = good.index(bytes.fromhex("a003020102")) + 4
    r, raised = random.Random(1), []
    for i in range(3000):
        octets = bytearray(good)
        octets[version if i == 0 else r.randrange(len(octets) - 70)] = 7 if i == 0 else r.randrange(256)
        tls_facts._parse(bytes(octets))
        try:
            x509.load_der_x509_certificate(bytes(octets)).subject.rfc4514_string()
        except Exception as error:
            raised.append(type(error))
    assert x509.InvalidVersion in raised, "which is not a ValueError"


@pytest.mark.parametrize("body", [b"", b"\0", bytes(6), b"\0\0\4\0\0\1", b"\xff" * 9, b"\0\0\3\0\0\0"])
@pytest.mark.parametrize("numbered", [True, False])
def test_messages_without_a_certificate(body: bytes, numbered: bool) -> None:
    assert tls_facts.first_certificate(body, numbered) is None


def test_certificates_that_are_remembered_are_bounded() -> None:
    for number in range(tls_facts.CERTIFICATES_MOST + 10):
        octets = number.to_bytes(4, "big")
        tls_facts.Facts().certificate(b"\0\0\7\0\0\4" + octets)
    assert len(tls_facts._known) == tls_facts.CERTIFICATES_MOST


def test_handshakes_that_are_not_whole_are_bounded() -> None:
    """Of many connections at a time, each with the beginning of a long message."""
    start = record(22, message(11, bytes(1 << 17))[:16000])
    frames = []
    for port in range(40000, 40200):
        tcp = Tcp(port=8883, client_port=port)
        frames += [*tcp.open(), *tcp.send(0, hello()), *tcp.send(1, answer() + start * 8)]
    rows, stats = connections(io.BytesIO(pcap(frames)), limits={"max_buffered": 1 << 20})
    assert len(rows) == 200
    assert stats["most_buffered"] < 3 << 20


def test_what_is_kept_of_a_hello_counts() -> None:
    """A client may send much, and the server's hello need not follow."""
    large = extension(16, (14_080).to_bytes(2, "big") + (b"\xff" + bytes(255)) * 55)
    frames = []
    for port in range(40000, 40100):
        tcp = Tcp(port=8883, client_port=port)
        frames += [*tcp.open(), *tcp.send(0, hello(large))]
    _, stats = connections(io.BytesIO(pcap(frames)))
    assert stats["most_buffered"] > 100 * 2 * 14_000
    rows, stats = connections(io.BytesIO(pcap(frames)), limits={"max_buffered": 1 << 20})
    assert stats["most_buffered"] < 2 << 20
    assert len(rows) == 100


def test_extensions_that_are_not_read_are_not_kept() -> None:
    many = b"".join(extension(1000 + i, b"") for i in range(10_000))
    found = client_hello(hello(many)[9:]).extensions
    assert set(found) <= READ


def test_suites_have_the_names_of_the_registry() -> None:
    """Of those that openssl knows."""
    listed = json.loads((RECORDED / "suites.json").read_text())
    assert len(listed) > 150
    assert {number: suite_name(int(number, 16)) for number in listed} == listed
