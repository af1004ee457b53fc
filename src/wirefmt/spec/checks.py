"""A rule that bytes can violate, in a protocol whose rules are the same in all versions."""

from typing import NamedTuple


class Check(NamedTuple):
    name: str
    text: str  # what is wrong
    spec: str  # statement or section of the specification
    reply: int | str | None = None  # the error with which a receiver answers, in the protocol's terms; None: no answer
    lax: bool = False  # LAX adds a note and continues
    status: str = "MALFORMED"  # MALFORMED, TRUNCATED, LIMIT, UNSUPPORTED

    def specs(self, versions: tuple[str, ...]) -> dict[str, str]:
        """Version -> statement or section."""
        return dict.fromkeys(versions, self.spec)
