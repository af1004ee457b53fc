"""Comparing passwords: in one place for all protocols, in a time that does not depend on how much of them agrees."""

from __future__ import annotations

import hmac
from collections.abc import Mapping


def is_password(users: Mapping[str, str], user: str, given: str | bytes | None) -> bool:
    """Is it the password of this user? The answer for an unknown user takes as long. None is no password."""
    password = users.get(user)
    same = hmac.compare_digest(_octets(password or ""), _octets(given or ""))
    return same and password is not None and given is not None


def is_any_password(users: Mapping[str, str], given: bytes) -> bool:
    """Is it the password of one of the users?"""
    same = [hmac.compare_digest(_octets(password), given) for password in users.values()]
    return any(same)


def _octets(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
