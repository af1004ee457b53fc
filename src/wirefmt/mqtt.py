"""MQTT 3.1, 3.1.1 and 5.0."""

from wirefmt._core import TopicIndex, parse_shared, validate_topic_filter, validate_topic_name
from wirefmt._core import topic_matches as matches

__all__ = ["TopicIndex", "matches", "parse_shared", "validate_topic_filter", "validate_topic_name"]
