"""TLS 1.2 and 1.3 as a capture sees them: what both sides say in the handshake -> the keys that open the records.

RFC 5246 (1.2), 8446 (1.3), 5288, 6655, 7905 (AEAD suites of 1.2), 7366 (encrypt-then-MAC), 7627 (extended master secret: a key
log has its result), 5077 (tickets). `tls_rsa` has the RSA key exchange. Ciphers and HKDF are those of the package `cryptography`.
The engine splits streams into records and opens them with `Keys`; here are messages, secrets and the order of keys.

A `Connection` is asked in the order of the capture, which may not be that of the peers: a direction that needs something that the
other one says first is `blocked`, and the engine keeps its records meanwhile.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from wirefmt.capture.suites import suite_name
from wirefmt.capture.tls_facts import ALPN, SERVER_NAME, Facts
from wirefmt.capture.tls_rsa import Exchange
from wirefmt.spec.insight import TLS_REASONS

#: Directions: what the client sends, what the server sends.
CLIENT, SERVER = 0, 1
TLS_1_2, TLS_1_3 = 0x0303, 0x0304

#: Forms of records, by which the engine makes the nonce and the additional data: 1.3; 1.2 with a nonce of the sequence number;
#: 1.2 with the explicit part of the nonce in the record; a function that does all.
FORM_13, FORM_SEQUENCE, FORM_EXPLICIT, FORM_BLOCK = range(4)

#: Content types (RFC 8446, 5.1).
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23

#: RFC 8446, 4.1.3: the random of a ServerHello that is a HelloRetryRequest; SHA-256 of "HelloRetryRequest".
RETRY = hashlib.sha256(b"HelloRetryRequest").digest()

#: Bytes of a handshake message that are kept until it is whole; longer ones are skipped.
MESSAGE_MOST = 1 << 18
#: Sessions of TLS 1.2 that are remembered, to read those that resume them.
SESSIONS_MOST = 1 << 16
#: Records that may fail at the beginning of a direction: early data that the server rejected, or a handshake without its secret.
PASSED_MOST = 256


class Reason:
    """Why a connection is not decrypted: numbers of `REASONS`, in the order of the engine's counters."""

    NONE, NO_SECRETS, NO_SECRET, HANDSHAKE, CIPHER, VERSION, WRONG_SECRET, LIBRARY, LIMIT, NO_DATA = range(10)


#: Names of the counters, and what `wirefmt summary` says.
REASONS = TLS_REASONS


def cells_of(facts: Facts | None, reason: int) -> tuple[str | int | None, ...]:
    """The columns TLS_COLUMNS of a connection. reason: the `Reason` why it is not decrypted; 0: it is."""
    return (facts or Facts()).cells(list(REASONS.values())[reason] if reason else None)


class GivenUp(Exception):
    """The connection cannot be decrypted: a `Reason`."""


class Keys(NamedTuple):
    """What opens the records of a direction: `open(nonce, octets, additional data)`; FORM_BLOCK: `open(head, octets)`, where head
    is the sequence number, content type and version. It raises an exception if the record is not of these keys."""

    form: int
    open: Callable[..., bytes]
    iv: bytes
    tag: int = 16
    secret: bytes = b""  # 1.3: of the traffic


class Suite(NamedTuple):
    aead: str
    key: int
    hash: str  # of HKDF or the PRF
    tag: int = 16
    mac: str = ""  # CBC


def _suites(aead: str, key: int, name: str, ids: str, **more: Any) -> dict[int, Suite]:
    return {int(number, 16): Suite(aead, key, name, **more) for number in ids.split()}


#: RFC 8446, B.4.
SUITES_13: dict[int, Suite] = {
    0x1301: Suite("gcm", 16, "sha256"),
    0x1302: Suite("gcm", 32, "sha384"),
    0x1303: Suite("chacha20", 32, "sha256"),
    0x1304: Suite("ccm", 16, "sha256"),
    0x1305: Suite("ccm", 16, "sha256", 8),
}
#: IANA's registry of cipher suites: those of AES and ChaCha20, by what happens after the key exchange.
SUITES_12: dict[int, Suite] = {
    **_suites("gcm", 16, "sha256", "009c 009e 00a0 00a2 00a4 00a6 00a8 00aa 00ac c02b c02d c02f c031 d001"),
    **_suites("gcm", 32, "sha384", "009d 009f 00a1 00a3 00a5 00a7 00a9 00ab 00ad c02c c02e c030 c032 d002"),
    **_suites("chacha20", 32, "sha256", "cca8 cca9 ccaa ccab ccac ccad ccae"),
    **_suites("ccm", 16, "sha256", "c09c c09e c0a4 c0a6 c0ac d005"),
    **_suites("ccm", 32, "sha256", "c09d c09f c0a5 c0a7 c0ad"),
    **_suites("ccm", 16, "sha256", "c0a0 c0a2 c0a8 c0aa c0ae d003", tag=8),
    **_suites("ccm", 32, "sha256", "c0a1 c0a3 c0a9 c0ab c0af", tag=8),
    **_suites(
        "cbc", 16, "sha256", "002f 0030 0031 0032 0033 0034 008c 0090 0094 c004 c009 c00e c013 c018 c035", mac="sha1"
    ),
    **_suites(
        "cbc", 32, "sha256", "0035 0036 0037 0038 0039 003a 008d 0091 0095 c005 c00a c00f c014 c019 c036", mac="sha1"
    ),
    **_suites(
        "cbc", 16, "sha256", "003c 003e 003f 0040 0067 006c 00ae 00b2 00b6 c023 c025 c027 c029 c037", mac="sha256"
    ),
    **_suites("cbc", 32, "sha256", "003d 0068 0069 006a 006b 006d", mac="sha256"),
    **_suites("cbc", 32, "sha384", "00af 00b3 00b7 c024 c026 c028 c02a c038", mac="sha384"),
}


class Secrets(Protocol):
    """Where secrets come from: `keylog.Secrets`."""

    complete: bool
    sessions: Sessions

    def find(self, random: bytes) -> dict[str, bytes]: ...
    def masters(self) -> Iterator[bytes]: ...
    def premaster(self, encrypted: bytes, version: int) -> bytes | None: ...


class Sessions:
    """Master secrets of TLS 1.2 by session identifier or ticket: a resumed session may have no line of its own in a key log. The
    most recent `SESSIONS_MOST` are kept, each as a hash and 48 bytes."""

    def __init__(self) -> None:
        self._masters: OrderedDict[bytes, bytes] = OrderedDict()

    def add(self, name: bytes, master: bytes) -> None:
        key = hashlib.sha256(name).digest()[:16]
        self._masters.pop(key, None)
        self._masters[key] = master
        if len(self._masters) > SESSIONS_MOST:
            self._masters.popitem(last=False)

    def find(self, name: bytes) -> bytes | None:
        return self._masters.get(hashlib.sha256(name).digest()[:16]) if name else None


# ---- keys


def _aead(suite: Suite, key: bytes) -> Callable[..., bytes]:
    from cryptography.hazmat.primitives.ciphers import aead

    if suite.aead == "gcm":
        return aead.AESGCM(key).decrypt
    if suite.aead == "ccm":
        return aead.AESCCM(key, suite.tag).decrypt
    return aead.ChaCha20Poly1305(key).decrypt


def expand_label(name: str, secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446, 7.1)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    full = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(full)]) + full + b"\0"
    return HKDFExpand({"sha256": hashes.SHA256, "sha384": hashes.SHA384}[name](), size, info).derive(secret)


def keys_13(suite: Suite, secret: bytes) -> Keys:
    """RFC 8446, 7.3."""
    key = expand_label(suite.hash, secret, b"key", suite.key)
    return Keys(FORM_13, _aead(suite, key), expand_label(suite.hash, secret, b"iv", 12), suite.tag, secret)


def following_keys(suite: Suite, keys: Keys) -> Keys:
    """After a KeyUpdate (RFC 8446, 7.2)."""
    return keys_13(suite, expand_label(suite.hash, keys.secret, b"traffic upd", len(keys.secret)))


def prf(name: str, secret: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """RFC 5246, 5."""
    out, step = b"", label + seed
    while len(out) < size:
        step = hmac.digest(secret, step, name)
        out += hmac.digest(secret, step + label + seed, name)
    return out[:size]


def keys_12(
    suite: Suite, master: bytes, client_random: bytes, server_random: bytes, encrypt_then_mac: bool
) -> list[Keys]:
    """Those of the client and of the server (RFC 5246, 6.3)."""
    mac = hashlib.new(suite.mac).digest_size if suite.mac else 0
    iv = 0 if suite.mac else 12 if suite.aead == "chacha20" else 4
    sizes = (mac, mac, suite.key, suite.key, iv, iv)
    block = prf(suite.hash, master, b"key expansion", server_random + client_random, sum(sizes))
    parts, at = [], 0
    for size in sizes:
        parts.append(block[at : at + size])
        at += size
    found = []
    for side in (CLIENT, SERVER):
        key = parts[2 + side]
        if suite.mac:
            found.append(Keys(FORM_BLOCK, _block(suite.mac, key, parts[side], encrypt_then_mac), b""))
        else:
            form = FORM_SEQUENCE if suite.aead == "chacha20" else FORM_EXPLICIT
            found.append(Keys(form, _aead(suite, key), parts[4 + side], suite.tag))
    return found


def _block(mac: str, key: bytes, mac_key: bytes, encrypt_then_mac: bool) -> Callable[[bytes, bytes], bytes]:
    """AES-CBC with HMAC (RFC 5246, 6.2.3.2; RFC 7366)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    size = hashlib.new(mac).digest_size
    cipher = algorithms.AES(key)

    def check(head: bytes, octets: bytes, tag: bytes) -> None:
        if not hmac.compare_digest(hmac.digest(mac_key, head + len(octets).to_bytes(2, "big") + octets, mac), tag):
            raise ValueError("MAC")

    def open_record(head: bytes, octets: bytes) -> bytes:
        if encrypt_then_mac:
            octets, tag = octets[:-size], octets[-size:]
            check(head, octets, tag)
        if len(octets) < 32 or len(octets) % 16:
            raise ValueError("size")
        decryptor = Cipher(cipher, modes.CBC(octets[:16])).decryptor()
        plain = decryptor.update(octets[16:]) + decryptor.finalize()
        pad = plain[-1] + 1
        if pad > len(plain) or plain[-pad:] != bytes([pad - 1]) * pad:
            raise ValueError("padding")
        plain = plain[:-pad]
        if not encrypt_then_mac:
            plain, tag = plain[:-size], plain[-size:]
            check(head, plain, tag)
        return plain

    return open_record


# ---- handshake messages


class _Fields:
    """Fields of a message, one after another. Raises GivenUp beyond its end."""

    def __init__(self, octets: bytes) -> None:
        self.octets, self.at = octets, 0

    def take(self, size: int) -> bytes:
        found = self.octets[self.at : self.at + size]
        if len(found) < size:
            raise GivenUp(Reason.HANDSHAKE)
        self.at += size
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """With its length in `size` bytes before it."""
        return self.take(self.number(size))

    def left(self) -> int:
        return len(self.octets) - self.at

    def extensions(self) -> dict[int, bytes]:
        """Those that are READ: a hello may have thousands."""
        if not self.left():
            return {}
        inner, found = _Fields(self.vector(2)), {}
        while inner.left():
            number, value = inner.number(2), inner.vector(2)
            if number in READ:
                found[number] = value
        return found


def message_of(kind: int, body: bytes) -> bytes:
    """As it was sent: its type, its length, its body."""
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


class Hello(NamedTuple):
    version: int
    random: bytes
    session: bytes
    suite: int  # of a ServerHello
    compression: int
    extensions: dict[int, bytes]


def client_hello(body: bytes) -> Hello:
    """RFC 8446, 4.1.2."""
    f = _Fields(body)
    version, random, session = f.number(2), f.take(32), f.vector(1)
    f.vector(2)
    f.vector(1)
    return Hello(version, random, session, 0, 0, f.extensions())


def server_hello(body: bytes) -> Hello:
    """RFC 8446, 4.1.3."""
    f = _Fields(body)
    version, random, session, suite, compression = f.number(2), f.take(32), f.vector(1), f.number(2), f.number(1)
    extensions = f.extensions()
    if len(chosen := extensions.get(SUPPORTED_VERSIONS, b"")) == 2:
        version = int.from_bytes(chosen, "big")
    return Hello(version, random, session, suite, compression, extensions)


#: Handshake types.
HELLO_REQUEST, CLIENT_HELLO, SERVER_HELLO, NEW_TICKET, END_OF_EARLY_DATA, ENCRYPTED_EXTENSIONS, CERTIFICATE = (
    0,
    1,
    2,
    4,
    5,
    8,
    11,
)
SERVER_HELLO_DONE, FINISHED, KEY_UPDATE = 14, 20, 24
#: Extensions.
ENCRYPT_THEN_MAC, EXTENDED_MASTER, TICKET, EARLY_DATA, SUPPORTED_VERSIONS = 22, 23, 35, 42, 43
READ = frozenset((SERVER_NAME, ALPN, ENCRYPT_THEN_MAC, EXTENDED_MASTER, TICKET, EARLY_DATA, SUPPORTED_VERSIONS))


class Connection:
    """What is known of one TLS connection.

    Attributes, by direction:
        keys: what opens the next record; None: it is not encrypted.
        blocked: its records wait for the other direction.
    waiting: nothing can be read until a secret arrives.

    Args:
        facts: takes what the handshake says; None: nobody asks.
        reason: nothing can be decrypted, for this `Reason`; only what is not encrypted is read, for `facts`.
    """

    def __init__(self, secrets: Secrets, facts: Facts | None = None, reason: int = Reason.NONE) -> None:
        self.secrets = secrets
        self.facts = facts
        self._reason = reason
        self.keys: list[Keys | None] = [None, None]
        self.blocked = [False, True]
        self.waiting = False
        self.version = 0
        self._hand: list[bytearray | None] = [bytearray(), bytearray()]
        self._hello: Hello | None = None  # of the client, not answered yet if `_asked`
        self._asked = False
        self._changing = [False, False]  # 1.2: a ChangeCipherSpec waits
        self._answer: Hello | None = None
        self._suite: Suite | None = None
        self._found: dict[str, bytes] = {}
        self._pair: list[Keys] | None = None  # 1.2: of the latest handshake
        self._question = b""  # the client's hello
        self._exchange: Exchange | None = None  # 1.2: the key exchange, of RSA
        self._done = [False, False]  # 1.3: Finished was read
        self._early: Keys | None = None
        self._passed = [0, 0]  # records that may fail
        self._guesses: Iterator[bytes] | None = None  # 1.2: master secrets that may be that of the session

    # ---- what the engine calls

    def take(self, side: int, kind: int, octets: bytes) -> None:
        """A record that is not application data, decrypted. Raises GivenUp."""
        if self.keys[side] is not None:
            self._guesses = None  # the master secret is right
        if (
            self._reason
            and kind != HANDSHAKE
            and self.version != TLS_1_3
            and (side == SERVER or self._answer is not None)
        ):
            raise GivenUp(self._reason)  # what follows is encrypted
        if kind == HANDSHAKE:
            hand = self._hand[side]
            if hand is not None:
                hand += octets
                if len(hand) > MESSAGE_MOST:
                    self._hand[side] = None
                else:
                    self._messages(side)
        elif kind == CHANGE_CIPHER_SPEC and self.version != TLS_1_3:
            self._change(side)
        elif kind == ALERT and self._hello is None:
            raise GivenUp(Reason.HANDSHAKE)

    def held(self, side: int) -> int:
        """Bytes that are kept of this direction: a message that is not whole, and the client's hello."""
        kept = len(self._hand[side] or b"")
        if side == CLIENT and self._hello is not None:
            kept += len(self._question) + sum(map(len, self._hello.extensions.values()))
        return kept

    def close(self) -> None:
        """It was given up: nothing more is read."""
        self._hello, self._question, self._exchange = None, b"", None
        self._hand = [None, None]
        self._guesses = None

    def resume(self, side: int) -> None:
        """Read what has waited in this direction, if it may go on."""
        if self._changing[side] and not self._asked:
            self._change(side)
        self._messages(side)

    def poll(self) -> bool:
        """Have secrets arrived for a connection that waits for them?"""
        self.waiting = False
        for side in (SERVER, CLIENT):
            self.resume(side)
        return not self.waiting

    def unencrypted_data(self, side: int) -> None:
        """Application data without keys: early data before a second ClientHello is skipped."""
        if side == CLIENT and self._hello is not None and EARLY_DATA in self._hello.extensions:
            return
        raise GivenUp(Reason.HANDSHAKE)

    def failed(self, side: int) -> bool:
        """A record does not open, and none did before with these keys. True: it is skipped. False: its keys have changed."""
        if side == CLIENT and self._early is not None and self.keys[CLIENT] is self._early:
            self._early = None
            self._begin_13(CLIENT)
            return False
        if self._guesses is not None:
            before = self._pair
            if not self._guess():
                raise GivenUp(Reason.NO_SECRET)
            for i, keys in enumerate(self._pair_12()):
                if before is not None and self.keys[i] is before[i]:
                    self.keys[i] = keys
            return False
        if self._passed[side]:
            self._passed[side] -= 1
            return True
        raise GivenUp(Reason.WRONG_SECRET)

    def lost(self, side: int) -> None:
        """Bytes of this direction are missing. Raises GivenUp if it was in a hello."""
        if self._reason:
            raise GivenUp(self._reason)
        if self._hello is None or self._answer is None or self._asked or self.waiting or self.blocked[side]:
            raise GivenUp(Reason.HANDSHAKE)
        if self.keys[side] is None:
            if self.version == TLS_1_2:
                self._hand[side] = None  # until ChangeCipherSpec
                if self._exchange is not None and side == SERVER:
                    self._exchange.lost()
                    self.blocked[CLIENT] = False
        else:
            self._hand[side] = bytearray()

    def candidates(self, side: int) -> list[Keys]:
        """Keys that records after a gap may have: the present ones and the next ones."""
        keys, suite = self.keys[side], self._suite
        found = [] if keys is None else [keys]
        if suite is None:
            return found
        if self.version != TLS_1_3:
            return found or ([self._pair_12()[side]] if self._hello and self._answer else [])
        if keys is not None and self._done[side]:
            found.append(following_keys(suite, keys))
        else:
            secret = self._found.get(TRAFFIC[side])
            if secret:
                found.append(keys_13(suite, secret))
        return found

    def adopt(self, side: int, keys: Keys) -> None:
        """Records after a gap have these keys."""
        if keys is not self.keys[side] and self.version == TLS_1_3:
            self._done[side] = True
            self._passed[side] = 0
        self.keys[side] = keys
        self._hand[side] = bytearray()

    # ---- messages

    def _messages(self, side: int) -> None:
        while not self.waiting:
            hand = self._hand[side]
            if hand is None or len(hand) < 4:
                return
            size = 4 + int.from_bytes(hand[1:4], "big")
            if size > MESSAGE_MOST:
                if self._hello is None or self._answer is None:
                    raise GivenUp(Reason.HANDSHAKE)
                self._hand[side] = None
                return
            if len(hand) < size or not self._message(side, hand[0], bytes(hand[4:size])):
                return
            if self._hand[side] is hand:
                del hand[:size]

    def _message(self, side: int, kind: int, body: bytes) -> bool:
        """False: it waits, for the other direction or a secret."""
        if side == CLIENT and kind == CLIENT_HELLO:
            self._hello = client_hello(body)
            if self.facts is not None:
                self.facts.client(self._hello.extensions)
            self._asked, self._question, self._exchange = True, message_of(kind, body), None
            self.blocked[SERVER] = False
            self.blocked[CLIENT] = self.keys[CLIENT] is None
            return True
        if self._hello is None:
            if side == SERVER and kind == SERVER_HELLO:
                self.blocked[SERVER] = True
                return False
            raise GivenUp(Reason.HANDSHAKE)
        if side == SERVER and kind == SERVER_HELLO:
            return self._take_answer(body)
        if self._answer is None and kind != 0:
            raise GivenUp(Reason.HANDSHAKE)
        if side == SERVER and kind == CERTIFICATE and self.facts is not None:
            self.facts.certificate(body)
        if self._reason:
            if side == SERVER and kind in (CERTIFICATE, SERVER_HELLO_DONE):
                raise GivenUp(self._reason)
            return True
        if self.version == TLS_1_3:
            return self._message_13(side, kind, body)
        if self._exchange is not None and kind != HELLO_REQUEST and not self._follow(self._exchange, side, kind, body):
            self.blocked[side] = True
            return False
        if side == SERVER and kind == NEW_TICKET and len(body) > 6:
            master = self._master()
            if master is not None:
                self.secrets.sessions.add(body[6:], master)
        return True

    def _take_answer(self, body: bytes) -> bool:
        if not self._asked:
            self.blocked[SERVER] = True  # its question comes later
            return False
        hello = self._hello
        assert hello is not None
        answer = server_hello(body)
        if answer.random == RETRY:
            self._answer, self._asked = answer, False
            self.version = TLS_1_3
            self.blocked[CLIENT] = False
            return True
        if self.facts is not None:
            self.facts.server(answer.version, answer.suite, answer.extensions)
        suite = (SUITES_13 if answer.version == TLS_1_3 else SUITES_12).get(answer.suite)
        if self._reason:
            return self._give_up(answer, self._reason)
        if answer.version not in (TLS_1_2, TLS_1_3):
            return self._give_up(answer, Reason.VERSION)
        if suite is None or answer.compression:
            return self._give_up(answer, Reason.CIPHER)
        found = self.secrets.find(hello.random)
        again = self._answer is not None and self._answer.random == RETRY
        known = all(found.get(TRAFFIC[side]) or found.get(HANDSHAKES[side]) for side in (CLIENT, SERVER))
        if answer.version == TLS_1_3 and not known:
            return self._lacks_secret()
        self.version, self._suite, self._answer, self._found = answer.version, suite, answer, found
        self._asked, self._pair = False, None
        if answer.version == TLS_1_2:
            self.blocked[CLIENT] = False
            if answer.session and (master := self._master()) is not None:
                self.secrets.sessions.add(answer.session, master)
            if "CLIENT_RANDOM" not in self._found and suite_name(answer.suite).startswith("TLS_RSA_WITH_"):
                hellos = self._question + message_of(SERVER_HELLO, body)
                self._exchange = Exchange(suite.hash, hellos, EXTENDED_MASTER in answer.extensions)
            self._question = b""
            return True
        self._begin_13(SERVER)
        offered = EARLY_DATA in hello.extensions or again
        if not offered:
            self._begin_13(CLIENT)
        elif again or HANDSHAKES[SERVER] not in found:  # rejected, or nobody knows
            if EARLY in found and not again:
                self.keys[CLIENT] = self._early = keys_13(suite, found[EARLY])
                self.blocked[CLIENT] = False
            else:
                self._begin_13(CLIENT)
            self._passed[CLIENT] = PASSED_MOST
        return True

    def _give_up(self, answer: Hello, reason: int) -> bool:
        """Nothing will be decrypted. A certificate that follows, and that nobody has encrypted, is still read."""
        if self.facts is None or answer.version >= TLS_1_3:
            raise GivenUp(reason)
        self._reason, self.version, self._answer, self._asked = reason, answer.version, answer, False
        self.blocked[CLIENT] = False
        return True

    def _lacks_secret(self) -> bool:
        if self.secrets.complete:
            raise GivenUp(Reason.NO_SECRET)
        self.waiting = True
        return False

    # ---- 1.3

    def _begin_13(self, side: int) -> None:
        """The keys of its handshake; those of its traffic, if only they are known: then its handshake is skipped."""
        assert self._suite is not None
        self.blocked[side] = False
        secret = self._found.get(HANDSHAKES[side])
        if secret:
            self.keys[side] = keys_13(self._suite, secret)
        else:
            self._done[side] = True
            self._passed[side] = PASSED_MOST
            self.keys[side] = keys_13(self._suite, self._found[TRAFFIC[side]])

    def _message_13(self, side: int, kind: int, body: bytes) -> bool:
        suite, keys = self._suite, self.keys[side]
        if suite is None:
            return True
        if kind == ENCRYPTED_EXTENSIONS and side == SERVER and self.facts is not None:
            self.facts.chosen(_Fields(body).extensions())
        if kind == ENCRYPTED_EXTENSIONS and side == SERVER and self.blocked[CLIENT]:
            if EARLY_DATA not in _Fields(body).extensions():
                self._begin_13(CLIENT)
                self._passed[CLIENT] = PASSED_MOST
            elif EARLY in self._found:
                self.keys[CLIENT] = keys_13(suite, self._found[EARLY])
                self.blocked[CLIENT] = False
            else:
                self._begin_13(CLIENT)  # early data cannot be read; what follows it can
                self._passed[CLIENT] = PASSED_MOST
        elif kind == END_OF_EARLY_DATA and side == CLIENT:
            self._early = None
            self._begin_13(CLIENT)
        elif kind == FINISHED and not self._done[side]:
            secret = self._found.get(TRAFFIC[side]) or self.secrets.find(self._client_random()).get(TRAFFIC[side])
            if not secret:
                return self._lacks_secret()
            self._done[side] = True
            self._passed[side] = 0
            self.keys[side] = keys_13(suite, secret)
        elif kind == KEY_UPDATE and keys is not None and self._done[side]:
            self.keys[side] = following_keys(suite, keys)
        return True

    def _client_random(self) -> bytes:
        assert self._hello is not None
        return self._hello.random

    # ---- 1.2

    def _change(self, side: int) -> None:
        """ChangeCipherSpec."""
        if self._hello is None or (self._answer is None and side == SERVER):
            raise GivenUp(Reason.HANDSHAKE)
        awaits_key = side == SERVER and self._exchange is not None and self._exchange.answered
        if self._asked or self._answer is None or awaits_key:
            self._changing[side] = self.blocked[side] = True
            return
        if self._master() is None and not self._guess():
            self._changing[side] = True
            self._lacks_secret()
            return
        self._changing[side] = False
        self.keys[side] = self._pair_12()[side]
        self._hand[side] = bytearray()

    def _follow(self, exchange: Exchange, side: int, kind: int, body: bytes) -> bool:
        """A message of a handshake with RSA. False: it waits for the server."""
        if side == SERVER:
            if exchange.server(kind, message_of(kind, body)):
                self.blocked[CLIENT] = False
            return True
        if not exchange.client(kind, message_of(kind, body)):
            return False
        hello, answer, suite = self._hello, self._answer, self._suite
        assert hello is not None and answer is not None and suite is not None
        if exchange.encrypted is None:
            return True
        self._exchange = None
        self.blocked[SERVER] = False
        premaster = self.secrets.premaster(exchange.encrypted, hello.version)
        seed = exchange.label_and_seed(hello.random + answer.random)
        if premaster is not None and seed is not None:
            master = self._found["CLIENT_RANDOM"] = prf(suite.hash, premaster, *seed, len(premaster))
            if answer.session:
                self.secrets.sessions.add(answer.session, master)
        return True

    def _master(self) -> bytes | None:
        """The master secret, of the key log or of the session that is resumed."""
        hello, answer, sessions = self._hello, self._answer, self.secrets.sessions
        assert hello is not None and answer is not None
        found = self._found.get("CLIENT_RANDOM") or self.secrets.find(hello.random).get("CLIENT_RANDOM")
        if found is None:
            found = sessions.find(hello.extensions.get(TICKET, b""))
        if found is None and hello.session == answer.session:
            found = sessions.find(hello.session)
        if found is not None:
            self._found["CLIENT_RANDOM"] = found
        return found

    def _guess(self) -> bool:
        """Take the next master secret of the key log for a session that is resumed, if the connection that began it is not
        known: it may be read later or by another thread. The first record tells whether it is right. False: none is left."""
        hello, answer = self._hello, self._answer
        assert hello is not None and answer is not None
        if self._guesses is None:
            resumed = hello.extensions.get(TICKET) or (hello.session and hello.session == answer.session)
            if not resumed or not self.secrets.complete:
                return False
            self._guesses = self.secrets.masters()
        master = next(self._guesses, None)
        if master is None:
            return False
        self._found["CLIENT_RANDOM"], self._pair = master, None
        return True

    def _pair_12(self) -> list[Keys]:
        if self._pair is None:
            hello, answer, suite, master = self._hello, self._answer, self._suite, self._master()
            if master is None or suite is None:
                raise GivenUp(Reason.NO_SECRET)
            assert hello is not None and answer is not None
            etm = ENCRYPT_THEN_MAC in answer.extensions
            self._pair = keys_12(suite, master, hello.random, answer.random, etm)
        return self._pair


#: Labels of the key log, by direction.
TRAFFIC = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
HANDSHAKES = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
EARLY = "CLIENT_EARLY_TRAFFIC_SECRET"
