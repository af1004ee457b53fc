"""What the performatives of AMQP 1.0 need, as in RabbitMQ. The rules of attach and transfer are called with a `Reach`.

A message needs the right to write when it arrives, on a link with an address as on one without. Its user-id has to be the user's
own: the broker sees to that, with or without permissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from wirefmt import amqp10
from wirefmt.broker.permissions import Free, Need, Nobody, Requests
from wirefmt.broker.requests.amqp091 import exchange_name


class Reach(NamedTuple):
    """Where a link or a message leads.

    Attributes:
        exchange, routing_key: of its address; a queue has the exchange "".
        right: "read" for a source, "write" for a target.
        makes: the queue does not exist and is made: one that is named, or one of a dynamic terminus.
    """

    exchange: str
    routing_key: str
    right: str
    makes: bool = False


def _reach(reach: Reach, known: Any) -> Iterator[Need]:
    if reach.makes:
        yield Need("amqp.configure", reach.routing_key)
    yield Need(f"amqp.{reach.right}", reach.routing_key if reach.right == "read" else exchange_name(reach.exchange))


def _transfer(reach: Reach | None, known: Any) -> Iterable[Need]:
    return () if reach is None else _reach(reach, known)  # None: to a coordinator


_OF_SERVERS: Final = Nobody("only servers send it")
_OWN: Final = Free("it is about this client's own connection, session or link")
_LOGIN: Final = Free("it says who the user is")
_TRANSACTION: Final = Free("what is in a transaction has been checked when it arrived")

#: By the class of the performative; the coordinator of transactions, and what is sent to it, by theirs.
REQUESTS: Final[Requests] = {
    amqp10.Open: _OWN,
    amqp10.Begin: _OWN,
    amqp10.Attach: _reach,
    amqp10.Flow: _OWN,
    amqp10.Transfer: _transfer,
    amqp10.Disposition: Free("it is for messages of this client's links"),
    amqp10.Detach: _OWN,
    amqp10.End: _OWN,
    amqp10.Close: _OWN,
    amqp10.SaslMechanisms: _OF_SERVERS,
    amqp10.SaslInit: _LOGIN,
    amqp10.SaslChallenge: _OF_SERVERS,
    amqp10.SaslResponse: _LOGIN,
    amqp10.SaslOutcome: _OF_SERVERS,
    amqp10.Coordinator: _TRANSACTION,
    amqp10.Declare: _TRANSACTION,
    amqp10.Discharge: _TRANSACTION,
}
