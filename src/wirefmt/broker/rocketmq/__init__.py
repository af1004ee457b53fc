"""A RocketMQ name server and broker in memory, the handler of `wirefmt.rocketmq.serve`. One port is both.

::

    broker = Broker()
    async with await rocketmq.serve(broker, "127.0.0.1", 9876) as server:
        broker.address = f"127.0.0.1:{server.port}"
        ...
    broker.close()

Its parts are modules, each of which imports only those before it: `options`, `answers`, `clients` (connections, requests to them,
timers), `waits` (requests that wait for messages), `log` (topics and messages), `selecting` (tags and filter expressions),
`locks`, `groups` (members), `offsets`, `transactions`, `sending`, `pulling`, `reviving` and `popping`, `relaying` (replies, and
questions to consumers), `names` (routes), and `broker`, which puts them together. Sections are those of docs/rocketmq.md.
"""

from wirefmt.broker.rocketmq.broker import Broker
from wirefmt.broker.rocketmq.options import DELAYS, MOST_RETRIES, BrokerOptions

__all__ = ["DELAYS", "MOST_RETRIES", "Broker", "BrokerOptions"]
