# Conversions of many messages: a column of octets in, a Batch of columns out. Also the form of an AMQP 0.9.1 message as
# one string of octets: its content header and its body, as frames.
from wirefmt.spec.columns import CONVERTED_FIELDS


cdef enum ConvertRowSource:         # of one row: a ConvertProtocol, or
    CONVERT_ROW_MQTT3 = 3           # a PUBLISH of MQTT 3.1 or 3.1.1, read as one of 5.0 without properties,
    CONVERT_ROW_NONE = 255          # or not a message


cdef enum ConvertedColumn:          # in the order of CONVERTED_FIELDS
    CV_OCTETS
    CV_LOSSES
    CV_RULE
    CV_ERROR


cdef tuple CONVERT_WHAT_TEXT = (" taken: ", " dropped: ", " narrowed: ", " moved: ")


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1 as frames

cdef int convert_split_content(const uint8_t* p, size_t n, Span* properties, Span* body, Octets* joined,
                               Fault* f) noexcept nogil:
    """Parse an optional method frame, a content header and all of its body: spans of the frames, or of `joined` if there is
    more than one body frame. A Status."""
    cdef Amqp091Options o
    cdef Amqp091FrameView m
    cdef Amqp091Channel channel
    cdef size_t at = 0, size = 0
    cdef int bodies = 0, status
    memset(&o, 0, sizeof(o))
    memset(&channel, 0, sizeof(channel))
    channel.stage = AMQP091_AWAITS_HEADER
    channel.class_id = AMQP091_CLASS_BASIC
    o.common.side = -1
    o.common.max_frame_size = 0xFFFFFFFFU    # the connection's limit is unknown
    properties.at = NULL
    body.at = <const uint8_t*>b""
    body.size = 0
    while at < n or properties.at == NULL or channel.stage == AMQP091_AWAITS_BODY:
        status = amqp091_frame_size(p + at, n - at, 0xFFFFFFFFU, False, &size, f)
        if status == NEED_DATA or (status == OK and size > n - at):
            return amqp091_fault(f, AMQP091_CHECK_FRAME_TRUNCATED, AMQP091_FIELD_FRAME, <int64_t>at, <int64_t>size,
                                 <int64_t>(n - at), 0)
        if status == OK:
            status = amqp091_parse(p + at, size, &o, &m, f)
        if status != OK:
            return status
        if at == 0 and m.type == AMQP091_FRAME_METHOD and amqp091_methods[m.method].content:
            at += size
            continue
        if m.type != AMQP091_FRAME_HEADER and m.type != AMQP091_FRAME_BODY:
            return amqp091_fault(f, AMQP091_CHECK_METHOD_UNEXPECTED, AMQP091_FIELD_TYPE, <int64_t>at, 0, 0, 0)
        if amqp091_assemble(&channel, &m, 0x7FFFFFFF, f) == AMQP091_UNEXPECTED:
            return f.status
        at += size
        if m.type == AMQP091_FRAME_HEADER:
            properties.at = m.frame + 19    # after class, weight and body size
            properties.size = m.size - 20
            continue
        bodies += 1
        if bodies == 1:
            body[0] = m.payload
            continue
        if bodies == 2:
            joined.size = 0
            add_octets(joined, body.at, body.size)
        add_octets(joined, m.payload.at, m.payload.size)
        body.at = joined.at
        body.size = <uint32_t>joined.size
    return OK


def split_content(data, /):
    """Property flags and properties, and body, of an AMQP 0.9.1 content in frames. Raises DecodeError."""
    cdef bytes a = <bytes>data if PyBytes_CheckExact(data) else bytes(data)
    cdef Octets joined
    cdef Span properties, body
    cdef Fault f
    memset(&joined, 0, sizeof(joined))
    try:
        if convert_split_content(begin_of(a), <size_t>PyBytes_GET_SIZE(a), &properties, &body, &joined, &f) != OK:
            raise make_fault(&AMQP091_TABLES, &f, 0)
        if joined.failed:
            raise MemoryError
        return octets_of(properties.at, properties.size), octets_of(body.at, body.size)
    finally:
        free_octets(&joined)


def join_content(bytes properties not None, bytes body not None, *, uint16_t channel=1):
    """An AMQP 0.9.1 content as frames: its header, and its body in frames of at most 131072 bytes."""
    cdef Octets o
    memset(&o, 0, sizeof(o))
    amqp091_add_content(&o, channel, begin_of(properties), <size_t>PyBytes_GET_SIZE(properties), begin_of(body),
                        <uint64_t>PyBytes_GET_SIZE(body), AMQP091_FRAME_MAX_DEFAULT)
    try:
        return taken_octets(&o)
    finally:
        free_octets(&o)


# ------------------------------------------------------------------------------------------------ rows

cdef class ConvertRun:
    """The common state and memory of the conversions of a column."""
    cdef ConvertRules rules
    cdef ColumnSet out
    cdef bytes exchange
    cdef int target, topics
    cdef bint percent_encoding
    cdef Octets source, result, framed, text

    def __cinit__(self, *args, **kwargs):
        memset(&self.source, 0, sizeof(Octets))
        memset(&self.result, 0, sizeof(Octets))
        memset(&self.framed, 0, sizeof(Octets))
        memset(&self.text, 0, sizeof(Octets))

    def __dealloc__(self):
        free_octets(&self.source)
        free_octets(&self.result)
        free_octets(&self.framed)
        free_octets(&self.text)

    cdef int put(self, Converter* x, int64_t row, int kind, const uint8_t* p, size_t n, Span key) except -1:
        """Convert the message p[:n]; `key` is its routing key."""
        cdef int source = CONVERT_MQTT5 if kind == CONVERT_ROW_MQTT3 else kind
        cdef Span message, body
        cdef int status
        self.source.size = self.result.size = self.framed.size = 0
        if kind == CONVERT_ROW_MQTT3:
            if not convert_packet_of_3(p, n, &self.source):
                return self.put_error(row, "mqtt5:undecodable", "no PUBLISH of MQTT 3.1.1, or too large for one of 5.0")
            p = self.source.at
            n = self.source.size
        if source == self.target:
            put_octets(self.out.cols + CV_OCTETS, row, p, <int64_t>n)
            return 0
        message.at = body.at = p
        message.size = <uint32_t>n
        body.size = 0
        status = OK
        if source == CONVERT_AMQP091 and convert_split_content(p, n, &message, &body, &self.source, &x.fault) != OK:
            status = CONVERT_UNDECODABLE
        if status == OK:
            status = convert_read(x, message, body)
        if status == OK and self.target == CONVERT_MQTT5:
            key = convert_topic(x, key, True)
            if key.size == 0:                   # a capture may lack it: no dialect makes a topic of nothing
                status = convert_refuse(x, REFUSED_NO_TOPIC)
        if status == OK:
            status = convert_write(x, &self.result, &key, False, 1)
        if status != OK:
            rule, reason, _ = convert_refusal(self.rules, x, status)
            return self.put_error(row, rule, reason)
        if self.target == CONVERT_AMQP091:
            amqp091_add_content(&self.framed, 1, self.result.at, self.result.size, x.payload.at, x.payload.size,
                                AMQP091_FRAME_MAX_DEFAULT)
            put_octets(self.out.cols + CV_OCTETS, row, self.framed.at, <int64_t>self.framed.size)
        else:
            put_octets(self.out.cols + CV_OCTETS, row, self.result.at, <int64_t>self.result.size)
        if x.notes.size:
            self.put_losses(x, row)
        return 0

    cdef int put_error(self, int64_t row, str rule, str text) except -1:
        cdef bytes a = rule.encode()
        cdef bytes b = text.encode()
        put_octets(self.out.cols + CV_RULE, row, begin_of(a), PyBytes_GET_SIZE(a))
        put_octets(self.out.cols + CV_ERROR, row, begin_of(b), PyBytes_GET_SIZE(b))
        return 0

    cdef int put_losses(self, const Converter* x, int64_t row) except -1:
        """The text of a Loss, as in wirefmt.convert."""
        cdef const ConvertNote* note
        cdef Col* losses = self.out.cols + CV_LOSSES
        cdef int64_t at = open_list(losses, row)
        cdef Span buffers[BUFFER_COUNT]
        cdef Span key
        cdef size_t i
        if at < 0:
            return 0
        memcpy(buffers, x.given, sizeof(buffers))
        buffers[BUFFER_DERIVED].at = x.derived.at
        for i in range(x.notes.size // sizeof(ConvertNote)):
            note = <const ConvertNote*>x.notes.at + i
            self.text.size = 0
            self.add_text(CONVERT_FIELD_NAMES[x.source][note.field] or "value")
            key = convert_octets_of(&note.key, buffers)
            if key.at != NULL:
                add_u8(&self.text, c"[")
                if convert_is_text(&key):
                    add_octets(&self.text, key.at, key.size)
                else:
                    self.add_text(octets_of(key.at, key.size).decode("utf-8", "backslashreplace"))
                add_u8(&self.text, c"]")
            self.add_text(CONVERT_WHAT_TEXT[note.what])
            self.add_text(CONVERT_REASONS[note.reason])
            if note.number:
                self.add_text(" (")
                self.add_text(self.rules.ids[note.number])
                add_u8(&self.text, c")")
            put_octets(losses.children, at, self.text.at, <int64_t>self.text.size)
            at += 1
        close_list(losses, at)
        return 0

    cdef int add_text(self, str text) except -1:
        cdef Py_ssize_t size = 0
        cdef const char* at = PyUnicode_AsUTF8AndSize(text, &size)
        add_octets(&self.text, <const uint8_t*>at, <size_t>size)
        return 0

    cdef bint failed(self) noexcept:
        return self.source.failed or self.result.failed or self.framed.failed or self.text.failed


cdef bint convert_packet_of_3(const uint8_t* p, size_t n, Octets* o) noexcept nogil:
    """A PUBLISH of 3.1 or 3.1.1 as one of 5.0: an empty property area, one octet more. False: not a PUBLISH, or too large."""
    cdef uint32_t remaining = 0
    cdef uint8_t used[4]
    cdef size_t at, head
    cdef int size = read_varint(p + 1, n - 1, &remaining) if n > 1 else 0
    if size <= 0 or p[0] >> 4 != MQTT_PUBLISH or n - 1 - <size_t>size != remaining or remaining < 2 or remaining >= VARINT_MAX:
        return False
    at = 1 + <size_t>size
    head = <size_t>2 + load_u16(p + at) + (2 if p[0] & 6 else 0)       # topic and packet identifier
    if head > remaining:
        return False
    add_u8(o, p[0])
    add_octets(o, used, <size_t>store_varint(used, remaining + 1))
    add_octets(o, p + at, head)
    add_u8(o, 0)
    add_octets(o, p + at + head, remaining - head)
    return True


cdef class ConvertColumn:
    """A column of byte strings: int32 offsets, one more than rows, and the data."""
    cdef Input offsets, data
    cdef Py_ssize_t rows

    def __init__(self, offsets, data):
        self.offsets = take_input(offsets)
        self.data = take_input(data)
        self.rows = self.offsets.size // 4 - 1

    cdef inline int32_t offset(self, Py_ssize_t row) noexcept:
        cdef int32_t at
        memcpy(&at, self.offsets.at + 4 * row, 4)       # a view may begin anywhere
        return at

    cdef inline Span row(self, Py_ssize_t row) noexcept:
        cdef Span of
        of.at = self.data.at + self.offset(row)
        of.size = <uint32_t>(self.offset(row + 1) - self.offset(row))
        return of

    cdef int check(self, Py_ssize_t rows) except -1:
        """Raise ValueError unless there are `rows` rows, each within the data."""
        cdef Py_ssize_t row
        if self.rows != rows or self.offsets.size % 4:
            raise ValueError("columns of different lengths")
        for row in range(rows):
            if self.offset(row) < 0 or self.offset(row + 1) < self.offset(row) or self.offset(row + 1) > self.data.size:
                raise ValueError(f"row {row} is outside its column")
        return 0


def convert_rows(ConvertRules rules not None, int target, kinds, offsets, data, key_offsets, keys, *,
                 bytes exchange=b"amq.topic", topics=CONVERT_TRANSLATED, bint percent_encoding=True):
    """Convert a column of messages to a Batch of the columns CONVERTED_FIELDS.

    Row i is data[offsets[i]:offsets[i + 1]], a message of the protocol kinds[i] (number in CONVERT_PROTOCOL_NAMES; 3: a PUBLISH
    of MQTT 3.1 or 3.1.1; 255: none, and the row is null). Its routing key is keys[key_offsets[i]:key_offsets[i + 1]]. AMQP
    0.9.1 is in frames. `error` says why a message was refused.

    kinds (uint8), offsets (int32), data, key_offsets (int32), keys: any contiguous buffers; bytes and views of bytes are read in
    place, any other buffer is copied once. Raises ValueError if columns do not match.
    """
    cdef ConvertRun run = ConvertRun.__new__(ConvertRun)
    cdef Converter x
    cdef Span key
    cdef Input kind = take_input(kinds)
    cdef ConvertColumn messages = ConvertColumn(offsets, data)
    cdef ConvertColumn routing_keys = ConvertColumn(key_offsets, keys)
    cdef Span message
    cdef Py_ssize_t row, count = kind.size
    cdef uint8_t translation = <uint8_t>convert_topics_of(topics)
    if not 0 <= target < CONVERT_PROTOCOLS:
        raise ValueError("no such protocol")
    messages.check(count)
    routing_keys.check(count)
    run.rules = rules
    run.out = ColumnSet(CONVERTED_FIELDS)
    run.target = target
    for row in range(count):
        if kind.at[row] > CONVERT_ROW_MQTT3:
            continue
        message = messages.row(row)
        key = routing_keys.row(row)
        convert_begin(&x, rules, CONVERT_MQTT5 if kind.at[row] == CONVERT_ROW_MQTT3 else kind.at[row], target)
        convert_choose(&x, translation, percent_encoding, exchange)
        try:
            run.put(&x, row, kind.at[row], message.at, message.size, key)
            if convert_no_memory(&x) or run.failed():
                raise MemoryError
        finally:
            convert_end(&x)
    return run.out.finish(count)
