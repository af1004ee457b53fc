# x-opt-deaths of AMQP 1.0 -> x-death of AMQP 0.9.1.

cdef enum:
    DEATH_QUEUE = 0
    DEATH_REASON = 1
    DEATH_COUNT = 2
    DEATH_FIRST_TIME = 3
    DEATH_EXCHANGE = 4
    DEATH_ROUTING_KEYS = 5
    DEATH_TTL = 6
    DEATH_FIELDS = 7


cdef int convert_put_deaths(Converter* x, const ConvertRow* row, const ConvertValue* v) noexcept nogil:
    """RabbitMQ's history of dead-lettering, an array of maps, as AMQP 0.9.1's header for it."""
    cdef Octets* o = &x.lists[0]
    cdef Amqp10Items items = amqp10_items(&v.amqp10)
    cdef Amqp10ValueView death
    cdef Amqp10ValueView fields[DEATH_FIELDS]
    cdef size_t before = o.size, opened, table
    if v.amqp10.type != AMQP10_ARRAY or (v.amqp10.count and amqp10_constructors[v.amqp10.inner[0]].type != AMQP10_MAP):
        return DONE_NEXT
    while amqp10_next(&items, &death):
        if not convert_death_fields(&death, fields):
            return DONE_NEXT
    amqp091_add_name(o, <const uint8_t*>b"x-death", 7)
    add_u8(o, c"A")
    opened = amqp091_open(o)
    items = amqp10_items(&v.amqp10)
    while amqp10_next(&items, &death):
        convert_death_fields(&death, fields)
        add_u8(o, c"F")
        table = amqp091_open(o)
        convert_add_death(x, o, fields)
        amqp091_close(o, table)
        convert_note_death(x, &death, fields)
    amqp091_close(o, opened)
    convert_keep(x, 0, before, row, x.field, v)
    return DONE_YES


cdef bint convert_death_fields(const Amqp10ValueView* death, Amqp10ValueView* out) noexcept nogil:
    """False: it does not have the structure of a death."""
    cdef const char** names = [b"queue", b"reason", b"count", b"first-time", b"exchange", b"routing-keys", b"ttl"]
    cdef uint8_t* types = [AMQP10_STRING, AMQP10_SYMBOL, AMQP10_ULONG, AMQP10_TIMESTAMP, AMQP10_STRING, AMQP10_ARRAY,
                           AMQP10_UINT]
    cdef Amqp10Items items = amqp10_items(death)
    cdef Amqp10Items keys
    cdef Amqp10ValueView key, value
    cdef int i
    for i in range(DEATH_FIELDS):
        out[i].type = 0
    while amqp10_next(&items, &key):
        amqp10_next(&items, &value)
        for i in range(DEATH_FIELDS):
            if key.size == strlen(names[i]) and memcmp(key.body, names[i], key.size) == 0 and value.type == types[i]:
                out[i] = value
    for i in range(DEATH_TTL):
        if out[i].type == 0:
            return False
    keys = amqp10_items(&out[DEATH_ROUTING_KEYS])
    return keys.left == 0 or amqp10_constructors[out[DEATH_ROUTING_KEYS].inner[0]].type == AMQP10_STRING


cdef void convert_note_death(Converter* x, const Amqp10ValueView* death, const Amqp10ValueView* fields) noexcept nogil:
    """The parts that x-death lacks: entries with other keys or types, the last time, fractions of a second."""
    cdef Amqp10Items items = amqp10_items(death)
    cdef Amqp10ValueView key, value
    cdef ConvertValue v
    cdef bint used
    cdef int i
    while amqp10_next(&items, &key):
        amqp10_next(&items, &value)
        used = False
        for i in range(DEATH_FIELDS):
            used = used or (fields[i].type != 0 and fields[i].constructor == value.constructor)
        v.key = convert_key_octets(&key)
        convert_of_amqp10(&value, &v)
        if not used:
            convert_note(x, NULL, 0, &v, CONVERT_DROPPED, REASON_NO_ROW)
        elif value.type == AMQP10_TIMESTAMP and <int64_t>v.number % 1000:
            convert_note(x, NULL, 0, &v, CONVERT_NARROWED, REASON_ROUNDS)


cdef void convert_add_death(Converter* x, Octets* o, Amqp10ValueView* fields) noexcept nogil:
    cdef Amqp10Items keys = amqp10_items(&fields[DEATH_ROUTING_KEYS])
    cdef Amqp10ValueView key
    cdef Span text
    cdef size_t array
    if fields[DEATH_TTL].type:
        text = convert_decimal(x, amqp10_unsigned(&fields[DEATH_TTL]))
        convert_add_named(o, b"original-expiration", &text)
    amqp091_add_name(o, <const uint8_t*>b"count", 5)
    amqp091_add_i64(o, c"l", <int64_t>amqp10_unsigned(&fields[DEATH_COUNT]))
    text = amqp10_octets(&fields[DEATH_REASON])
    convert_add_named(o, b"reason", &text)
    text = amqp10_octets(&fields[DEATH_QUEUE])
    convert_add_named(o, b"queue", &text)
    amqp091_add_name(o, <const uint8_t*>b"time", 4)
    amqp091_add_i64(o, c"T", amqp10_signed(&fields[DEATH_FIRST_TIME]) / 1000)
    text = amqp10_octets(&fields[DEATH_EXCHANGE])
    convert_add_named(o, b"exchange", &text)
    amqp091_add_name(o, <const uint8_t*>b"routing-keys", 12)
    add_u8(o, c"A")
    array = amqp091_open(o)
    while amqp10_next(&keys, &key):
        amqp091_add_value(o, c"S", key.body, key.size)
    amqp091_close(o, array)


cdef void convert_add_named(Octets* o, const char* name, const Span* text) noexcept nogil:
    amqp091_add_name(o, <const uint8_t*>name, <uint8_t>strlen(name))
    amqp091_add_value(o, c"S", text.at, text.size)
