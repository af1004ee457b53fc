# Topics and routing keys as Python values.

cdef bytes utf8_of(object text):
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = ascii_octets(<PyObject*>text, &size)
    if p != NULL:
        return octets_of(p, <uint32_t>size)
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)


cdef inline bytes convert_exchange_of(object exchange):
    return b"amq.topic" if exchange is CONVERT_EXCHANGE else utf8_of(exchange)


cdef int convert_topics_of(object topics) except -1:
    """The index in CONVERT_TOPICS. ValueError: unknown name."""
    if topics is CONVERT_TRANSLATED:
        return TOPICS_TRANSLATED
    if topics not in CONVERT_TOPICS:
        raise ValueError(f"topics {topics!r} is not one of {', '.join(CONVERT_TOPICS)}")
    return CONVERT_TOPICS.index(topics)


cdef bytes convert_topic_octets(object text, bint topic, int topics):
    """Translate a routing key to a topic if `topic`, otherwise a topic to a routing key."""
    cdef Converter x
    cdef bytes a = utf8_of(text)
    cdef Span s = span_of_bytes(a)
    x.topics = <uint8_t>topics
    x.free_at = x.scratch
    x.free_size = CONVERT_SCRATCH
    x.chunks = NULL
    x.failed = False
    s = convert_topic(&x, s, topic)
    out = octets_of(s.at, s.size)
    convert_free_chunks(&x)
    if x.failed:
        raise MemoryError
    return out


def topic_of(routing_key, topics="translated", /):
    """Routing key to MQTT topic, as str. Bytes that are not UTF-8 become surrogates (PEP 383); both directions keep them."""
    return convert_topic_octets(routing_key, True, convert_topics_of(topics)).decode("utf-8", "surrogateescape")


def routing_key_of(topic, topics="translated", /):
    """MQTT topic to routing key, as `topic_of`."""
    return convert_topic_octets(topic, False, convert_topics_of(topics)).decode("utf-8", "surrogateescape")
