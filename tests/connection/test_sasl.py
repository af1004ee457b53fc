"""SASL mechanisms: the examples of their RFCs, both sides against each other, and what must be refused."""

from __future__ import annotations

import base64

import pytest

from wirefmt.connection.sasl import (
    Anonymous,
    External,
    Plain,
    Scram,
    ScramCredentials,
    ScramServer,
    read_plain,
    saslprep,
)
from wirefmt.errors import RemoteProtocolError

#: RFC 5802, 5 and RFC 7677, 3: name, client's nonce, server's part of it, salt, and the four messages.
EXAMPLES = [
    (
        "SCRAM-SHA-1",
        "fyko+d2lbbFgONRv9qkxdawL",
        "3rfcNHYJY1ZVvWVs7j",
        "QSXCR+Q6sek8bf92",
        "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    (
        "SCRAM-SHA-256",
        "rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
]


@pytest.mark.parametrize(("name", "nonce", "more", "salt", "first", "challenge", "final", "proof"), EXAMPLES)
def test_scram_of_the_rfcs(
    name: str, nonce: str, more: str, salt: str, first: str, challenge: str, final: str, proof: str
) -> None:
    client = Scram("user", "pencil", nonce, name=name)
    assert client.start() == first.encode()
    assert client.respond(challenge.encode()) == final.encode()
    client.finish(proof.encode())
    server = ScramServer(name, first.encode())
    assert server.user_name == "user"
    credentials = ScramCredentials.of("pencil", base64.b64decode(salt), 4096, name)
    assert server.challenge(credentials, more) == challenge.encode()
    assert server.verify(final.encode()) == proof.encode()


def exchange(password: str = "pencil", nonce: str = "abc", user_name: str = "user") -> tuple[Scram, ScramServer, bytes]:
    client = Scram(user_name, password, nonce)
    server = ScramServer("SCRAM-SHA-256", client.start())
    challenge = server.challenge(ScramCredentials.of("pencil", b"salt"), "xyz")
    return client, server, challenge


def test_scram_refuses_another_password() -> None:
    client, server, challenge = exchange("pen")
    assert server.verify(client.respond(challenge)) is None


@pytest.mark.parametrize(("name", "size"), [("SCRAM-SHA-256", 32), ("SCRAM-SHA-1", 20)])
def test_scram_of_an_unknown_user(name: str, size: int) -> None:
    """RFC 5802, 9: what is known of a user is not told. Each name has a salt that stays, and no password fits."""
    secret = bytes(range(32))
    made = {user: ScramCredentials.unknown(user, secret, 5000, name) for user in ("eve", "mal", "\ud800")}
    assert len({each.salt for each in made.values()}) == 3
    for user, credentials in made.items():
        assert credentials == ScramCredentials.unknown(user, secret, 5000, name)
        assert credentials.salt != ScramCredentials.unknown(user, secret[::-1], 5000, name).salt
        assert (len(credentials.salt), credentials.iterations) == (16, 5000)
        assert len(credentials.stored_key) == len(credentials.server_key) == size
    client = Scram("eve", "", "abc", name=name)
    server = ScramServer(name, client.start())
    assert server.verify(client.respond(server.challenge(made["eve"], "xyz"))) is None


def test_scram_escapes_names() -> None:
    _, server, _ = exchange(user_name="a=b,c=2C")
    assert server.user_name == "a=b,c=2C"


@pytest.mark.parametrize(
    "final",
    [b"", b"c=biws,r=abcxyz", b"c=biws,r=abcxyz,p=", b"c=biws,r=abcxyz,p=AAAA", b"c=biws,r=abc,p=AAAA", b"\xff,p="],
)
def test_scram_server_refuses_what_is_no_proof(final: bytes) -> None:
    _, server, _ = exchange()
    assert server.verify(final) is None


def test_scram_server_refuses_the_proof_of_another_binding_or_nonce() -> None:
    client, server, challenge = exchange()
    final = client.respond(challenge)
    assert server.verify(final.replace(b"c=biws", b"c=eSws")) is None
    assert server.verify(final.replace(b"r=abcxyz", b"r=abcxyy")) is None
    assert server.verify(final) is not None


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=abcxyz,s=c2FsdA==",
        b"r=abcxyz,s=!,i=4096",
        b"r=abcxyz,s=c2FsdA==,i=x",
        b"r=xyz,s=c2FsdA==,i=4096",
        b"r=abc,s=c2FsdA==,i=4096",
        b"r=abcxyz,s=c2FsdA==,i=4095",
        b"r=abcxyz,s=c2FsdA==,i=1000001",
        b"m=x,r=abcxyz,s=c2FsdA==,i=4096",
        b"\xff",
    ],
)
def test_scram_client_refuses(challenge: bytes) -> None:
    client = Scram("user", "pencil", "abc")
    client.start()
    with pytest.raises(RemoteProtocolError):
        client.respond(challenge)


def test_scram_client_wants_the_server_to_prove_itself() -> None:
    client, _, challenge = exchange()
    client.respond(challenge)
    for data in (None, b"", b"v=AAAA", b"e=other-error"):
        with pytest.raises(RemoteProtocolError, match="proved"):
            client.finish(data)


def test_scram_takes_the_proof_in_a_challenge_too() -> None:
    client, server, challenge = exchange()
    proof = server.verify(client.respond(challenge))
    assert proof is not None
    assert client.respond(proof) == b""
    client.finish(None)


@pytest.mark.parametrize(
    "first", [b"", b"n,,", b"p=tls-unique,,n=u,r=a", b"n,,n=u", b"n,,m=1,n=u,r=a", b"n,,n=a=x,r=a", b"\xff,,"]
)
def test_scram_server_refuses_first_messages(first: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        ScramServer("SCRAM-SHA-256", first)


def test_plain_of_rfc_4616() -> None:
    assert Plain("tim", "tanstaaftanstaaf").start() == b"\0tim\0tanstaaftanstaaf"
    assert Plain("Kurt", "xipj3plmq", "Ursel").start() == b"Ursel\0Kurt\0xipj3plmq"
    assert read_plain(b"Ursel\0Kurt\0xipj3plmq") == ("Ursel", "Kurt", "xipj3plmq")
    for wrong in (b"", b"a\0b", b"a\0b\0c\0d", b"\0\xff\0x"):
        with pytest.raises(RemoteProtocolError):
            read_plain(wrong)
    with pytest.raises(ValueError, match="NUL"):
        Plain("a\0b", "c")
    assert "tanstaaf" not in repr(Plain("tim", "tanstaaftanstaaf"))


def test_mechanisms_of_one_step() -> None:
    assert Anonymous("sirhc").start() == b"sirhc"
    assert External("fred").start() == b"fred"
    with pytest.raises(RemoteProtocolError):
        External().respond(b"")


@pytest.mark.parametrize(
    ("text", "prepared"),
    [("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX")],
)
def test_saslprep_of_rfc_4013(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize("text", ["\u0007", "\u06271"])
def test_saslprep_prohibits(text: str) -> None:
    with pytest.raises(ValueError, match="RFC"):
        saslprep(text)
