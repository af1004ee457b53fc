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

from wirefmt.loading import lazy

if TYPE_CHECKING:
    from wirefmt.broker.embedded import Broker as Broker, Options as Options
    from wirefmt.broker.thread import (
        AsyncRunning as AsyncRunning,
        Running as Running,
        running as running,
        running_async as running_async,
    )
    from wirefmt.broker.views import Client as Client, Message as Message, NotSeen as NotSeen

#: Modules that are loaded when one of their names is first used.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "wirefmt.broker.embedded": "Broker Options",
        "wirefmt.broker.thread": "AsyncRunning Running running running_async",
        "wirefmt.broker.views": "Client Message NotSeen",
    },
)
