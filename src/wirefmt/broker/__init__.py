"""A small broker in memory, bounded everywhere: for tests, and as an example of how wirefmt is embedded.

`wirefmt.broker.mqtt` serves MQTT; `wirefmt.broker.topics` routes by topic.
"""
