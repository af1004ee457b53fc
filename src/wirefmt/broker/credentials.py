"""Comparing passwords: in one place for all protocols, in a time that does not depend on how much of them agrees."""

from __future__ import annotations

import hmac
from collections.abc import Mapping


def is_password(users: Mapping[str, str], user: str, given: str | bytes | None) -> bool:
    """Is it the password of this user? The answer for an unknown user takes as long. None is never the password."""
    password = users.get(user)
    same = hmac.compare_digest(_octets(password or ""), _octets(given or ""))
    return same and password is not None and given is not None


def user_of(users: Mapping[str, str], given: bytes) -> str | None:
    """The first user with this password, or None. All passwords are compared."""
    same = [user for user, password in users.items() if hmac.compare_digest(_octets(password), given)]
    return same[0] if same else None


def _octets(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
