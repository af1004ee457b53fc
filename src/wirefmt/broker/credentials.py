"""Comparing passwords: in one place for all protocols, in a time that says nothing about users and passwords."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from wirefmt.connection.sasl import ScramCredentials, saslprep

#: What salts, and passwords of unknown users, are made of. It is never told.
_SECRET: Final = secrets.token_bytes(32)


def is_password(users: Mapping[str, str], user: str, given: str | bytes | None) -> bool:
    """Is it the password of this user? The answer for an unknown user takes as long. None is never the password."""
    password = users.get(user)
    same = hmac.compare_digest(_digest(password or ""), _digest(given or ""))
    return same and password is not None and given is not None


def user_of(users: Mapping[str, str], given: bytes) -> str | None:
    """The first user with this password, or None. All passwords are compared."""
    digest = _digest(given)
    same = [user for user, password in users.items() if hmac.compare_digest(_digest(password), digest)]
    return same[0] if same else None


def scram_credentials(users: Mapping[str, str], user: str) -> ScramCredentials:
    """The credentials of a user for SCRAM. An unknown user gets some, too, which no password fits. Each name always has the same
    salt as long as the process runs."""
    password = users.get(user)
    unknown = ScramCredentials.unknown(user, _SECRET)
    try:
        octets = unknown.stored_key if password is None else saslprep(password).encode()
    except ValueError:  # a character is prohibited, so no client can prove that it has this password (RFC 5802, 2.2)
        octets = unknown.stored_key
    return ScramCredentials.of(octets, unknown.salt)  # this takes its time for all of them


def _digest(text: str | bytes) -> bytes:
    """A digest of a password, by which it is compared: all are of one length."""
    return hmac.digest(_SECRET, _octets(text), "sha256")


def _octets(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
