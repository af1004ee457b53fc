"""A broker in memory, bounded everywhere, that speaks all six protocols: for tests, and as an example of how wirefmt is embedded.

>>> from wirefmt import broker
>>> with broker.running() as b:
...     run_service(b.url("amqp"))
...     assert b.queue("orders").wait(1)[0].body == b"21.5"

`Broker` embeds the brokers of the protocols, one module each: `wirefmt.broker.mqtt`, `amqp091`, `amqp10`, `nsq`, `rocketmq`,
`phpmq`. Each of them is also the handler of its protocol's `serve`. docs/broker.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.loading import on_first_use

if TYPE_CHECKING:
    from wirefmt.broker.embedded import Broker, Options
    from wirefmt.broker.thread import AsyncRunning, Running, running, running_async
    from wirefmt.broker.views import Client, Message, NotSeen

#: Modules that are loaded when one of their names is first used.
_MODULES = {
    "wirefmt.broker.embedded": ("Broker", "Options"),
    "wirefmt.broker.thread": ("AsyncRunning", "Running", "running", "running_async"),
    "wirefmt.broker.views": ("Client", "Message", "NotSeen"),
}


__getattr__, __dir__ = on_first_use(__name__, _MODULES)

__all__ = ["AsyncRunning", "Broker", "Client", "Message", "NotSeen", "Options", "Running", "running", "running_async"]
