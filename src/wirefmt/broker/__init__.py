"""A small broker in memory, bounded everywhere: for tests, and as an example of how wirefmt is embedded.

`wirefmt.broker.mqtt` serves MQTT, `wirefmt.broker.amqp10` AMQP 1.0; `wirefmt.broker.topics` routes by topic.
"""
