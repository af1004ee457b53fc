"""What a broker keeps, and how much of it one client, and one user, may have: their shares.

The limits of a broker are of all its clients together. Nobody has more than a share of each, so nobody shuts out all others. All
protocols count in the same way: what a client has made or published is its own, as long as it is there.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary


class Holder:
    """What a client has, or all clients of a user.

    Attributes:
        bytes, messages: of what it has published and the broker keeps.
        counts: what else it has, by name of the limit.
        user: what its user has; of a user, None.
    """

    __slots__ = ("__weakref__", "bytes", "counts", "messages", "user")

    def __init__(self, user: Holder | None = None) -> None:
        self.bytes = 0
        self.messages = 0
        self.counts: dict[str, int] = {}
        self.user = user

    def count(self, kind: str, more: int = 1) -> None:
        """It has more, or less, of something."""
        has = self.counts[kind] = self.counts.get(kind, 0) + more
        if not has:  # kinds may have names of clients
            del self.counts[kind]
        if self.user is not None:
            self.user.count(kind, more)


#: Of what no client has: the program's own.
UNOWNED: Final = Holder()


class Shares:
    """What a broker keeps, and the shares of its clients and users in it.

    Attributes:
        bytes, messages: of all that it keeps.

    Args:
        client, user: the part of each limit that one client, and one user, may have; 1: all of it. Of what is counted it is at
            least one.

    Raises ValueError for parts that are not above 0 and at most 1.
    """

    def __init__(self, client: float, user: float) -> None:
        if not (0 < client <= 1 and 0 < user <= 1):
            raise ValueError(f"shares are above 0 and at most 1, not {client} and {user}")
        self.client = client
        self.user = user
        self.bytes = self.messages = 0
        self._users: WeakValueDictionary[str, Holder] = WeakValueDictionary()

    def holder(self, user: str | None) -> Holder:
        """For a client that has connected. `user`: his name; None: clients are not told apart by users."""
        if user is None:
            return Holder()
        mine = self._users.get(user)
        if mine is None:
            mine = self._users[user] = Holder()
        return Holder(mine)

    def keep(self, holder: Holder, size: int, messages: int = 0) -> None:
        """The broker keeps so many bytes and messages more, or less, which are somebody's."""
        user = holder.user
        self.bytes += size
        holder.bytes += size
        if user is not None:
            user.bytes += size
        if messages:
            self.messages += messages
            holder.messages += messages
            if user is not None:
                user.messages += messages

    def fits(self, holder: Holder, limit: int, size: int) -> bool:
        """May the broker keep so many bytes more, or less, which are somebody's? `limit`: of all that it keeps."""
        return self.bytes + size <= limit and (size <= 0 or not self.lacks_bytes(holder, limit, size))

    def fits_messages(self, holder: Holder, limit: int, messages: int) -> bool:
        """The same for messages."""
        user = holder.user
        has = user.messages if user is not None else 0
        return self.messages + messages <= limit and (
            messages <= 0 or not self._lacking(holder, holder.messages + messages, has + messages, limit, 1)
        )

    def lacks(self, holder: Holder, kind: str, limit: int, more: int = 1) -> str | None:
        """Who has no space for more of something: "client" or "user"; None: both have."""
        user = holder.user
        has = user.counts.get(kind, 0) if user is not None else 0
        return self._lacking(holder, holder.counts.get(kind, 0) + more, has + more, limit, 1)

    def left(self, holder: Holder, kind: str, limit: int) -> int:
        """How many more of something a client may have, as far as its share and its user's go; at most `limit`."""
        left = limit
        if holder is UNOWNED:
            return left
        if self.client < 1:
            left = int(max(limit * self.client, 1)) - holder.counts.get(kind, 0)
        if self.user < 1 and holder.user is not None:
            left = min(left, int(max(limit * self.user, 1)) - holder.user.counts.get(kind, 0))
        return max(left, 0)

    def lacks_bytes(self, holder: Holder, limit: int, more: int) -> str | None:
        """The same for bytes."""
        user = holder.user
        return self._lacking(holder, holder.bytes + more, user.bytes + more if user is not None else 0, limit, 0)

    def _lacking(self, holder: Holder, client: int, user: int, limit: int, least: int) -> str | None:
        """Would a client, or its user, have more than its share? A share that is all of a limit is left to the limit."""
        if holder is UNOWNED:
            return None
        if self.client < 1 and client > max(limit * self.client, least):
            return "client"
        return "user" if self.user < 1 and holder.user is not None and user > max(limit * self.user, least) else None
