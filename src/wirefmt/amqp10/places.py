"""Where the links of a client are: the sessions of one connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.amqp10.endpoint import Endpoint
from wirefmt.amqp10.ends import End, Place
from wirefmt.amqp10.events import SessionEnded
from wirefmt.amqp10.sessions import Session
from wirefmt.amqp10.states import SessionState, State
from wirefmt.errors import LocalProtocolError, Refused

#: Sessions in which new links are alone at first, once the server has ended a session; those that follow share them.
SPREAD: Final = 32


class Places:
    """The sessions of one connection.

    Links share a session as long as the server refuses a link as 2.6.3 says. RabbitMQ 4.0 ends the session instead, and all
    links in it, and does not say which one is at fault. The links of a session that was ended are attached again in two new
    ones: in one those that had been attached, in the other those that had not; if there is only one of these kinds, half of
    them in each. So the link at fault is alone after a few steps, the others are where they can stay, and nothing is guessed.
    From then on each new link has a session for itself. If there are no channels left, new links share a session, one at a
    time: the one that is being attached when the session ends is at fault then.

    Args:
        connection: the connection.
        fail: called with a link that cannot be attached, and why: Refused if it can be tried again.
    """

    def __init__(self, connection: Endpoint[Any], fail: Callable[[End, Exception], None]) -> None:
        self._connection = connection
        self._fail = fail
        self._places: list[Place] = []
        self._sharing: deque[End] = deque()  # links that wait until they can share a session
        self._most: int | None = None  # links of a session, as the peer has said
        self._channel = 0
        self._spread = False

    def put(self, end: End) -> None:
        """Attach a link, now or once it is possible."""
        place, end.group = end.group, None
        if place is None or (place.session is not None and place not in self._places):
            place = self._find()
        if place is None or not (place.session is not None or self._begin(place)):
            self._sharing.append(end)
            self.go_on()
            return
        place.ends[end] = None
        end.place = place
        if len(place.ends) == 1 or self._most is not None:
            self._attach(place, end)
        else:
            place.waiting.append(end)

    def leave(self, end: End) -> None:
        """A link is gone, or is not wanted any more."""
        place, end.place = end.place, None
        if place is not None:
            place.ends.pop(end, None)
            place.attached.discard(end)
            if end in place.waiting:
                place.waiting.remove(end)
        elif end in self._sharing:
            self._sharing.remove(end)
        self.go_on()

    def attached(self, end: End) -> None:
        """The peer has attached a link."""
        if end.place is not None:
            end.place.attached.add(end)
        self.go_on()

    def begun(self, session: Session) -> None:
        """The peer has answered begin: attach the links that have waited for it."""
        self._most = session.handle_max + 1
        place = next((place for place in self._places if place.session is session), None)
        if place is not None:
            waiting, place.waiting = place.waiting, []
            for number, end in enumerate(waiting, len(place.ends) - len(waiting)):
                if number < self._most:
                    self._attach(place, end)
                else:
                    del place.ends[end]
                    self.put(end)

    def ended(self, event: SessionEnded) -> tuple[list[End], End | None]:
        """A session is over. Returns its links, which `put` attaches again, and the one that is at fault; None: it is not
        known."""
        place = next((place for place in self._places if place.session is event.session), None)
        if place is None:
            return [], None
        self._places.remove(place)
        self._spread |= event.error is not None
        ends = list(place.ends)
        known = [end for end in ends if end in place.attached]
        fresh = [end for end in ends if end not in place.attached]
        for end in ends:
            end.place = None
        fault: End | None = None
        groups: tuple[list[End], ...]
        if len(ends) == 1 or (len(fresh) == 1 and fresh[0].shares):
            fault = (fresh or ends)[0]
            groups = (known if fresh else [],)
        else:
            half = len(ends) // 2
            groups = (known, fresh) if known and fresh else (ends[:half], ends[half:])
        for end in ends:
            end.shares = False
        for group in groups:
            new = Place()
            for end in group:
                end.group = new
        return ends, fault

    def _attach(self, place: Place, end: End) -> None:
        assert place.session is not None
        try:
            end.attach(place.session)
        except (LocalProtocolError, TypeError, ValueError) as error:
            if self._connection.state is State.OPENED and self._lives(place):
                self.leave(end)
                self._fail(end, error)
            # else the session is over, and the event that says so comes now

    def _find(self) -> Place | None:
        """The session of a new link. None: it shares one, when it can."""
        if self._sharing:
            return None  # others were there before it
        if self._spread:
            free = next((place for place in self._places if not place.ends and self._lives(place)), None)
            return free or (Place() if len(self._places) < SPREAD else None)
        return next((place for place in self._places if self._has_capacity(place)), None) or Place()

    def _has_capacity(self, place: Place) -> bool:
        assert place.session is not None
        most = place.session.handle_max + 1 if self._most is None else self._most
        return len(place.ends) < most and self._lives(place)

    @staticmethod
    def _lives(place: Place) -> bool:
        return place.session is not None and place.session.state in (SessionState.BEGIN_SENT, SessionState.MAPPED)

    def _begin(self, place: Place) -> bool:
        try:
            # a number that was in use long ago: RabbitMQ 4 loses a begin on the channel of a session that has just ended
            place.session = self._connection.begin(channel=self._channel)
        except LocalProtocolError:  # there is no channel
            return False
        self._channel = place.session.channel + 1
        self._places.append(place)
        return True

    def go_on(self) -> None:
        """Attach links that wait until they can share a session: one at a time in each."""
        while self._sharing and self._connection.state is State.OPENED:
            place = Place()
            alone = len(self._places) < SPREAD and self._begin(place)
            if not alone:
                if not all(self._lives(place) for place in self._places):
                    return  # the event that says so comes now
                free = [place for place in self._places if self._has_capacity(place)]
                idle = [place for place in free if len(place.attached) == len(place.ends)]
                if free and not idle:
                    return
                if not free:
                    waiting, self._sharing = self._sharing, deque()
                    why = "all links of all sessions are in use (2.7.1, 2.7.2)"
                    for end in waiting:  # one that was attached before is asked for again later
                        known = Refused(why, ErrorCondition.RESOURCE_LIMIT_EXCEEDED)
                        self._fail(end, known if end.known else LocalProtocolError(why))
                    return
                place = min(idle, key=lambda place: len(place.ends))
            end = self._sharing.popleft()
            end.shares = not alone
            end.place = place
            place.ends[end] = None
            self._attach(place, end)
