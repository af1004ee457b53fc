"""An MQTT broker in memory, the handler of `wirefmt.mqtt.serve`.

::

    broker = Broker()
    async with await mqtt.serve(broker, "127.0.0.1", 1883) as server: ...
    broker.close()

Versions 3.1, 3.1.1 and 5.0. Its parts are modules, each of which imports only those before it: `values` (messages, subscriptions,
sessions), `options`, `memory` (what is kept, and whose it is), `rights`, `retained`, `outgoing` (messages to one client), `walks`
(retained messages for new subscriptions), `figures` ($SYS), `subscriptions`, `publishing`, `sessions` (with wills), and `broker`,
which puts them together. Sections are those of MQTT 5.0.
"""

from wirefmt.broker.mqtt.broker import Broker
from wirefmt.broker.mqtt.options import BrokerOptions, default_authorise
from wirefmt.broker.mqtt.publishing import EXCHANGE
from wirefmt.broker.mqtt.values import Message, Queued, Subscriber, Subscription, size_of
from wirefmt.broker.mqtt.walks import STEPS

__all__ = [
    "EXCHANGE",
    "STEPS",
    "Broker",
    "BrokerOptions",
    "Message",
    "Queued",
    "Subscriber",
    "Subscription",
    "default_authorise",
    "size_of",
]
