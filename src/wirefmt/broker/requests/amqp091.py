"""What the methods of AMQP 0.9.1 need, as in RabbitMQ's access control. The rules are called with the method, and with a function
that returns the name of a queue: the channel's last declared one for "".

It differs from RabbitMQ in passive declarations, which need none there: here they need some right to what they ask about. A queue
that dead-letters, and an exchange with an alternate one, are checked when they are declared, for the user who declares them, also
if they exist already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from wirefmt import amqp091
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.broker.limits import Refusal
from wirefmt.broker.permissions import Free, Need, Nobody, Requests, Rule

#: The name of the default exchange in patterns, as in RabbitMQ.
DEFAULT_EXCHANGE: Final = "amq.default"

#: The prefix of the names that the server makes up.
GENERATED: Final = "amq.gen"

#: What RabbitMQ's clients consume from for direct replies. It is not a queue; each channel has its own. With a dot and a token it
#: is the routing key of the replies for one channel.
REPLY_TO: Final = "amq.rabbitmq.reply-to"


def is_reply_name(name: str) -> bool:
    """Is this the name of direct replies, or the routing key of those for one channel?"""
    return name == REPLY_TO or name.startswith(f"{REPLY_TO}.")


Named = Callable[[Any], str]


def text(value: str | bytes) -> str:
    """A short string as text. Raises Refusal if it is not UTF-8 (4.2.5.3): names and keys are texts in all protocols here."""
    if isinstance(value, bytes):
        raise Refusal(ReplyCode.SYNTAX_ERROR, f"a name or routing key is not UTF-8: {value!r}")
    return value


def entity(name: str | bytes) -> str:
    """The name of a queue or an exchange, where it is declared, deleted or bound: CR and LF are removed (RabbitMQ)."""
    return text(name).replace("\r", "").replace("\n", "")


def exchange_name(name: str | bytes) -> str:
    """The name of an exchange in patterns."""
    return text(name) or DEFAULT_EXCHANGE


def _exchange(right: str, field: str = "exchange") -> Rule:
    def rule(method: Any, named: Named) -> Iterable[Need]:
        return (Need(right, exchange_name(entity(getattr(method, field)))),)

    return rule


def _queue(right: str) -> Rule:
    def rule(method: Any, named: Named) -> Iterable[Need]:
        return (Need(right, named(method.queue)),)

    return rule


def _entity(right: str) -> Rule:
    def rule(method: Any, named: Named) -> Iterable[Need]:
        return (Need(right, entity(named(method.queue))),)

    return rule


def _all(*rules: Rule) -> Rule:
    def rule(method: Any, named: Named) -> Iterator[Need]:
        for each in rules:
            yield from each(method, named)

    return rule


def _some(name: str, *more: Need) -> Need:
    """Any right to a queue or an exchange."""
    return Need("amqp.read", name, (Need("amqp.write", name), Need("amqp.configure", name), *more))


def _declare_exchange(method: amqp091.ExchangeDeclare, named: Named) -> Iterator[Need]:
    name = exchange_name(entity(method.exchange))
    if method.passive:
        yield _some(name)
        return
    yield Need("amqp.configure", name)
    if "alternate-exchange" in method.arguments:
        yield Need("amqp.read", name)
        yield Need("amqp.write", exchange_name(method.arguments["alternate-exchange"]))


def _declare_queue(method: amqp091.QueueDeclare, named: Named) -> Iterator[Need]:
    if is_reply_name(entity(method.queue)):
        return  # it only asks whether a consumer of replies is there
    if method.passive:  # who may publish to all queues may ask, too
        yield _some(entity(named(method.queue)), Need("amqp.write", DEFAULT_EXCHANGE))
        return
    name = entity(method.queue) or GENERATED
    yield Need("amqp.configure", name)
    if "x-dead-letter-exchange" in method.arguments:
        yield Need("amqp.read", name)
        yield Need("amqp.write", exchange_name(method.arguments["x-dead-letter-exchange"]))


def _consume(method: amqp091.BasicConsume, named: Named) -> Iterable[Need]:
    return () if method.queue == REPLY_TO else (Need("amqp.read", named(method.queue)),)


def _publish(message: amqp091.BasicMessage, named: Named) -> Iterable[Need]:
    return (Need("amqp.write", exchange_name(message.method.exchange)),)


_OF_SERVERS: Final = Nobody("only servers send it")
_OWN: Final = Free("it is about this client's own connection or channel")
_OF_A_MESSAGE: Final = Free("it is for messages that this channel was allowed to consume")
_TRANSACTION: Final = Free("what is in a transaction has been checked when it arrived")

#: By the class of the method; messages by theirs.
REQUESTS: Final[Requests] = {
    amqp091.ConnectionStart: _OF_SERVERS,
    amqp091.ConnectionStartOk: Free("it says who the user is"),
    amqp091.ConnectionSecure: _OF_SERVERS,
    amqp091.ConnectionSecureOk: Free("it says who the user is"),
    amqp091.ConnectionTune: _OF_SERVERS,
    amqp091.ConnectionTuneOk: _OWN,
    amqp091.ConnectionOpen: Free("all users may use all virtual hosts; what is in them has permissions"),
    amqp091.ConnectionOpenOk: _OF_SERVERS,
    amqp091.ConnectionClose: _OWN,
    amqp091.ConnectionCloseOk: _OWN,
    amqp091.ConnectionBlocked: _OF_SERVERS,
    amqp091.ConnectionUnblocked: _OF_SERVERS,
    amqp091.ConnectionUpdateSecret: Free("the user stays the same"),
    amqp091.ConnectionUpdateSecretOk: _OF_SERVERS,
    amqp091.ChannelOpen: _OWN,
    amqp091.ChannelOpenOk: _OF_SERVERS,
    amqp091.ChannelFlow: _OWN,
    amqp091.ChannelFlowOk: _OWN,
    amqp091.ChannelClose: _OWN,
    amqp091.ChannelCloseOk: _OWN,
    amqp091.AccessRequest: Free("it was for rights of 0.8, and gives none"),
    amqp091.AccessRequestOk: _OF_SERVERS,
    amqp091.ExchangeDeclare: _declare_exchange,
    amqp091.ExchangeDeclareOk: _OF_SERVERS,
    amqp091.ExchangeDelete: _exchange("amqp.configure"),
    amqp091.ExchangeDeleteOk: _OF_SERVERS,
    amqp091.ExchangeBind: _all(_exchange("amqp.write", "destination"), _exchange("amqp.read", "source")),
    amqp091.ExchangeBindOk: _OF_SERVERS,
    amqp091.ExchangeUnbind: _all(_exchange("amqp.write", "destination"), _exchange("amqp.read", "source")),
    amqp091.ExchangeUnbindOk: _OF_SERVERS,
    amqp091.QueueDeclare: _declare_queue,
    amqp091.QueueDeclareOk: _OF_SERVERS,
    amqp091.QueueBind: _all(_entity("amqp.write"), _exchange("amqp.read")),
    amqp091.QueueBindOk: _OF_SERVERS,
    amqp091.QueueUnbind: _all(_entity("amqp.write"), _exchange("amqp.read")),
    amqp091.QueueUnbindOk: _OF_SERVERS,
    amqp091.QueuePurge: _queue("amqp.read"),
    amqp091.QueuePurgeOk: _OF_SERVERS,
    amqp091.QueueDelete: _entity("amqp.configure"),
    amqp091.QueueDeleteOk: _OF_SERVERS,
    amqp091.BasicQos: _OWN,
    amqp091.BasicQosOk: _OF_SERVERS,
    amqp091.BasicConsume: _consume,
    amqp091.BasicConsumeOk: _OF_SERVERS,
    amqp091.BasicCancel: _OWN,
    amqp091.BasicCancelOk: _OWN,
    amqp091.BasicPublish: Free("the message that it begins is checked when it is complete"),
    amqp091.BasicMessage: _publish,
    amqp091.BasicReturn: _OF_SERVERS,
    amqp091.BasicDeliver: _OF_SERVERS,
    amqp091.BasicGet: _queue("amqp.read"),
    amqp091.BasicGetOk: _OF_SERVERS,
    amqp091.BasicGetEmpty: _OF_SERVERS,
    amqp091.BasicAck: _OF_A_MESSAGE,
    amqp091.BasicReject: _OF_A_MESSAGE,
    amqp091.BasicNack: _OF_A_MESSAGE,
    amqp091.BasicRecoverAsync: _OF_A_MESSAGE,
    amqp091.BasicRecover: _OF_A_MESSAGE,
    amqp091.BasicRecoverOk: _OF_SERVERS,
    amqp091.ConfirmSelect: _OWN,
    amqp091.ConfirmSelectOk: _OF_SERVERS,
    amqp091.TxSelect: _TRANSACTION,
    amqp091.TxSelectOk: _OF_SERVERS,
    amqp091.TxCommit: _TRANSACTION,
    amqp091.TxCommitOk: _OF_SERVERS,
    amqp091.TxRollback: _TRANSACTION,
    amqp091.TxRollbackOk: _OF_SERVERS,
}
