"""What the commands of NSQ need, as nsqd's permissions of AUTH. The rules are called with the command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from wirefmt import nsq
from wirefmt.broker.permissions import Free, Need, Requests

_OF_A_MESSAGE: Final = Free("it is for a message in flight to this client")
_OWN: Final = Free("it is about this client's own connection")


def _sub(command: nsq.Sub, known: Any) -> Iterable[Need]:
    yield Need("nsq.subscribe", command.topic or "")
    yield Need("nsq.channel", command.channel or "")


def _publish(command: nsq.Publish | nsq.DeferredPublish | nsq.MultiPublish, known: Any) -> Iterable[Need]:
    return (Need("nsq.publish", command.topic or ""),)


#: By the class of the command.
REQUESTS: Final[Requests] = {
    nsq.Identify: _OWN,
    nsq.Auth: Free("it says who the client is"),
    nsq.Sub: _sub,
    nsq.Publish: _publish,
    nsq.MultiPublish: _publish,
    nsq.DeferredPublish: _publish,
    nsq.Ready: _OWN,
    nsq.Finish: _OF_A_MESSAGE,
    nsq.Requeue: _OF_A_MESSAGE,
    nsq.Touch: _OF_A_MESSAGE,
    nsq.Close: _OWN,
    nsq.Nop: _OWN,
}
