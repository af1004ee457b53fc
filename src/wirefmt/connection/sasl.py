"""SASL mechanisms, both sides: PLAIN (RFC 4616), ANONYMOUS (RFC 4505), EXTERNAL (RFC 4422) and SCRAM (RFC 5802, 7677).

They work on the messages of an exchange. What carries them is the protocol's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import stringprep
import unicodedata
from dataclasses import dataclass, field
from typing import Final, Protocol

from wirefmt.errors import RemoteProtocolError

#: Names of the SCRAM mechanisms, and their hash functions.
SCRAM_HASHES: Final[dict[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}
#: Iterations that a client accepts. A server could otherwise keep it busy for hours.
MOST_ITERATIONS: Final = 1_000_000
#: RFC 7677, 4: the least number that a server should use, and a client should accept.
LEAST_ITERATIONS: Final = 4096


class Mechanism(Protocol):
    """A client's side of an exchange."""

    @property
    def name(self) -> str: ...

    def start(self) -> bytes | None:
        """The initial response."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """The answer to a challenge. Raises RemoteProtocolError if the challenge is wrong."""
        ...

    def finish(self, data: bytes | None) -> None:
        """The server has accepted, with this data. Raises RemoteProtocolError if the server has not proved itself."""
        ...


class _OneStep:
    def respond(self, challenge: bytes) -> bytes:
        raise RemoteProtocolError("this mechanism has no challenges")

    def finish(self, data: bytes | None) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Anonymous(_OneStep):
    """RFC 4505.

    Attributes:
        trace: what the server may log.
    """

    trace: str = ""
    name: str = field(default="ANONYMOUS", init=False)

    def start(self) -> bytes:
        return self.trace.encode()


@dataclass(frozen=True, slots=True)
class Plain(_OneStep):
    """RFC 4616.

    Attributes:
        user_name, password: the credentials.
        authorization: whose rights are asked for; "": the user's.
    """

    user_name: str
    password: str = field(repr=False)
    authorization: str = ""
    name: str = field(default="PLAIN", init=False)

    def __post_init__(self) -> None:
        if "\0" in self.user_name + self.password + self.authorization:
            raise ValueError("a NUL in a user name or password (RFC 4616, 2)")

    def start(self) -> bytes:
        return "\0".join((self.authorization, self.user_name, self.password)).encode()


@dataclass(frozen=True, slots=True)
class External(_OneStep):
    """RFC 4422, appendix A: the credentials of a lower layer, as TLS.

    Attributes:
        authorization: whose rights are asked for; "": the server decides.
    """

    authorization: str = ""
    name: str = field(default="EXTERNAL", init=False)

    def start(self) -> bytes:
        return self.authorization.encode()


class Scram:
    """A client's side of SCRAM, without channel binding.

    Args:
        user_name, password: the credentials.
        nonce: printable ASCII without a comma, random, new for every exchange.
        name: a key of SCRAM_HASHES.
        authorization: whose rights are asked for; "": the user's.
        least_iterations: an exchange with fewer is refused.
    """

    def __init__(
        self,
        user_name: str,
        password: str,
        nonce: str,
        *,
        name: str = "SCRAM-SHA-256",
        authorization: str = "",
        least_iterations: int = LEAST_ITERATIONS,
    ) -> None:
        self.name = name
        self._hash = SCRAM_HASHES[name]
        self._password = saslprep(password).encode()
        self._nonce = nonce
        self._least = least_iterations
        self._header = f"n,{'a=' + _escape(saslprep(authorization)) if authorization else ''},"
        self._bare = f"n={_escape(saslprep(user_name))},r={nonce}"
        self._signature: bytes | None = None
        self._proved = False

    def start(self) -> bytes:
        return (self._header + self._bare).encode()

    def respond(self, challenge: bytes) -> bytes:
        if self._signature is not None:
            self._prove(challenge)
            return b""
        try:
            text = challenge.decode()
            fields = _fields(text)
            nonce, salt, count = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
        except (ValueError, KeyError) as error:
            raise RemoteProtocolError(
                "the first message of the server is not a valid SCRAM message (RFC 5802, 7)"
            ) from error
        if "m" in fields:
            raise RemoteProtocolError("a mandatory extension of SCRAM (RFC 5802, 5.1)")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise RemoteProtocolError("the server's nonce does not begin with ours (RFC 5802, 5.1)")
        if not self._least <= count <= MOST_ITERATIONS:
            raise RemoteProtocolError(f"{count} iterations: {self._least} to {MOST_ITERATIONS} are accepted")
        final = f"c={base64.b64encode(self._header.encode()).decode()},r={nonce}"
        said = f"{self._bare},{text},{final}".encode()
        credentials = ScramCredentials.of(self._password, salt, count, self.name)
        client_key = hmac.digest(
            hashlib.pbkdf2_hmac(self._hash, self._password, salt, count), b"Client Key", self._hash
        )
        proof = _xor(client_key, hmac.digest(credentials.stored_key, said, self._hash))
        self._signature = hmac.digest(credentials.server_key, said, self._hash)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def finish(self, data: bytes | None) -> None:
        if not self._proved:
            self._prove(data or b"")

    def _prove(self, data: bytes) -> None:
        expected = b"v=" + base64.b64encode(self._signature or b"")
        if self._signature is None or not hmac.compare_digest(data.split(b",")[0], expected):
            raise RemoteProtocolError("the server has not proved that it knows the password (RFC 5802, 5)")
        self._proved = True


@dataclass(frozen=True, slots=True)
class ScramCredentials:
    """What a server keeps of a password (RFC 5802, 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @staticmethod
    def of(
        password: str | bytes, salt: bytes, iterations: int = LEAST_ITERATIONS, name: str = "SCRAM-SHA-256"
    ) -> ScramCredentials:
        """From a password. The salt is random, and of this user alone."""
        algorithm = SCRAM_HASHES[name]
        octets = saslprep(password).encode() if isinstance(password, str) else password
        salted = hashlib.pbkdf2_hmac(algorithm, octets, salt, iterations)
        stored = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
        return ScramCredentials(salt, iterations, stored, hmac.digest(salted, b"Server Key", algorithm))

    @staticmethod
    def unknown(
        user_name: str, secret: bytes, iterations: int = LEAST_ITERATIONS, name: str = "SCRAM-SHA-256"
    ) -> ScramCredentials:
        """For a user name that the server does not know: no password fits. With these the exchange is that of a known one until
        it fails at its end, so that nobody learns which users there are (RFC 5802, 9).

        Args:
            user_name: what the client has said; it always has the same salt, of 16 bytes.
            secret: random bytes that only the server has, the same for all exchanges.
            iterations, name: as those of the known users.
        """

        def made(what: bytes, algorithm: str = SCRAM_HASHES[name]) -> bytes:
            return hmac.digest(secret, what + user_name.encode("utf-8", "surrogatepass"), algorithm)

        return ScramCredentials(made(b"salt ", "sha256")[:16], iterations, made(b"stored "), made(b"server "))


class ScramServer:
    """A server's side of SCRAM: first the client's first message, then `challenge`, then `verify`.

    Raises RemoteProtocolError if the message is not one of SCRAM.

    Attributes:
        user_name: who logs in.
        authorization: whose rights are asked for; "": the user's.
    """

    def __init__(self, name: str, first: bytes) -> None:
        self._hash = SCRAM_HASHES[name]
        try:
            binding, authorization, bare = first.decode().split(",", 2)
            fields = _fields(bare)
            self.user_name = _unescape(fields["n"])
            self._client_nonce = fields["r"]
        except (ValueError, KeyError) as error:
            raise RemoteProtocolError("the first message is not a valid SCRAM message (RFC 5802, 7)") from error
        if "m" in fields or not self._client_nonce or binding not in ("n", "y"):
            raise RemoteProtocolError("channel binding or an extension of SCRAM that is not spoken here (RFC 5802, 6)")
        self.authorization = _unescape(authorization.removeprefix("a="))
        self._header = f"{binding},{authorization},".encode()
        self._bare = bare
        self._first = ""
        self._nonce = ""
        self._credentials: ScramCredentials | None = None

    def challenge(self, credentials: ScramCredentials, nonce: str) -> bytes:
        """The server's first message. `nonce`: random, printable ASCII without a comma."""
        self._credentials = credentials
        self._nonce = self._client_nonce + nonce
        salt = base64.b64encode(credentials.salt).decode()
        self._first = f"r={self._nonce},s={salt},i={credentials.iterations}"
        return self._first.encode()

    def verify(self, final: bytes) -> bytes | None:
        """The server's last message, or None if the client does not know the password."""
        assert self._credentials is not None
        try:
            without, _, proof_text = final.decode().rpartition(",p=")
            fields = _fields(without)
            proof = base64.b64decode(proof_text, validate=True)
            binding, nonce = base64.b64decode(fields["c"], validate=True), fields["r"]
        except (ValueError, KeyError):
            return None
        if binding != self._header or nonce != self._nonce:
            return None
        said = f"{self._bare},{self._first},{without}".encode()
        signature = hmac.digest(self._credentials.stored_key, said, self._hash)
        if len(proof) != len(signature):
            return None
        stored = hashlib.new(self._hash, _xor(proof, signature)).digest()
        if not hmac.compare_digest(stored, self._credentials.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(self._credentials.server_key, said, self._hash))


def read_plain(response: bytes) -> tuple[str, str, str]:
    """Authorization, user name and password of PLAIN's response (RFC 4616, 2). Raises RemoteProtocolError."""
    try:
        authorization, user_name, password = response.decode().split("\0")
    except ValueError as error:
        raise RemoteProtocolError("the response is not that of PLAIN (RFC 4616, 2)") from error
    return authorization, user_name, password


def saslprep(text: str) -> str:
    """RFC 4013, for stored strings. Raises ValueError for a prohibited character."""
    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in text if not stringprep.in_table_b1(c))
    text = unicodedata.normalize("NFKC", mapped)
    for c in text:
        if any(table(c) for table in _PROHIBITED) or stringprep.in_table_a1(c):
            raise ValueError(f"a prohibited character: {c!r} (RFC 4013, 2.3)")
    if any(stringprep.in_table_d1(c) for c in text):
        ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
        if not ends or any(stringprep.in_table_d2(c) for c in text):
            raise ValueError("characters of both directions (RFC 3454, 6)")
    return text


_PROHIBITED: Final = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def _fields(text: str) -> dict[str, str]:
    """`a=b,c=d` as a dictionary. Raises ValueError."""
    fields: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not equals or name in fields:
            raise ValueError(item)
        fields[name] = value
    return fields


def _escape(text: str) -> str:
    return text.replace("=", "=3D").replace(",", "=2C")


def _unescape(text: str) -> str:
    parts = text.replace("=2C", ",").split("=3D")
    if any("=" in part for part in parts):
        raise ValueError(text)
    return "=".join(parts)


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))
