# MQTT: octets -> columns, one row per packet: decode_batch.

# Columns that every PUBLISH has a value for: filled by runs. Fields of the struct mqtt follow.
cdef enum:
    MQTT_RUN_FIELDS = 3
    MQTT_RUN = 12

cdef int[MQTT_RUN - MQTT_RUN_FIELDS] MQTT_RUN_COLUMNS
MQTT_RUN_COLUMNS = [B_BYTE_OFFSET, B_WIRE_SIZE, B_PACKET_TYPE, B_QOS, B_DUP, B_RETAIN, B_DESTINATION, B_PAYLOAD, B_MQTT]
cdef int[MQTT_RUN_FIELDS] MQTT_RUN_FIELD
MQTT_RUN_FIELD = [M_FLAGS, M_DUP, M_RETAIN]


cdef inline void run_octets(Col* c, int64_t row, const Span* s) noexcept nogil:
    """A string or binary in a row of a run, for which there is space."""
    copy_octets(c.data + c.used, s.at, s.size)
    c.used += s.size
    c.shared.octets += s.size
    c.offsets[row + 1] = <int32_t>c.used


cdef inline bint has_octets(Col* c, int64_t n) noexcept nogil:
    """Is there space for another `n` octets?"""
    return n <= c.size - c.used or grow_octets(c, n)


cdef class BatchColumns(FrameBatch):
    """The columns of decode_batch while they are built."""

    cdef bint payload
    cdef MqttOptions options

    cdef void put(self, int64_t offset, const MqttPacketView* p) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        cdef Col* m
        cdef MqttSink sink
        self.put_place(offset, p.size)
        put_i8(c + B_PACKET_TYPE, row, <int8_t>p.type)
        if p.has_packet_identifier:
            put_i32(c + B_SEQUENCE, row, p.packet_identifier)
        if p.type == MQTT_PUBLISH:
            put_i8(c + B_QOS, row, p.flags >> 1 & 3)
            put_bool(c + B_DUP, row, p.flags & 8)
            put_bool(c + B_RETAIN, row, p.flags & 1)
            put_span(c + B_DESTINATION, row, &p.topic)
            if self.payload:
                put_octets(c + B_PAYLOAD, row, p.payload.at, p.payload.size)
        elif has_dup(p.type, p.version):
            put_bool(c + B_DUP, row, p.flags & 8)
        if p.has_reason_code:
            put_i16(c + B_CODE, row, p.reason_code)
        if p.type == MQTT_CONNECT:
            put_span(c + B_CLIENT_ID, row, &p.client_identifier)
        put_struct(c + B_MQTT, row)
        m = c[<int>B_MQTT].children
        mqtt_put_bits(m, row, p.type, p.version, p.flags)
        sink = self.sink()
        put_mqtt(c + B_MQTT, row, p, &sink)

    cdef MqttSink sink(self) noexcept nogil:
        """Where properties are put."""
        cdef MqttSink sink
        sink.fields = self.cols[<int>B_MQTT].children
        sink.headers = self.cols + B_HEADERS
        sink.content_type = self.cols + B_CONTENT_TYPE
        sink.reply_to = sink.correlation_id = sink.ttl_ms = NULL
        return sink

    cdef int64_t put_fast(self, const uint8_t* data, int64_t at, int64_t size) noexcept nogil:
        """Put PUBLISH packets. Columns that all of them have are filled by runs, and their validity at the end of a run."""
        cdef Col* c = self.cols
        cdef Col* topic = c + B_DESTINATION
        cdef Col* payload = c + B_PAYLOAD
        cdef Col* fields = c[<int>B_MQTT].children
        cdef Col* run[MQTT_RUN]
        cdef MqttFastView m
        cdef MqttSink sink
        cdef int64_t row = self.row, capacity = OFFSET_MAX
        cdef int i, columns = 0
        cdef size_t n = 0
        cdef Fault f
        if data[at] >> 4 != MQTT_PUBLISH or mqtt_frame_size(data + at, <size_t>(size - at), 0, &n, &f) != OK or \
                <int64_t>n >= size - at or data[at + <int64_t>n] >> 4 != MQTT_PUBLISH:
            return at                           # a run of one would cost more than put_frame
        n = mqtt_read_fast(data + at, <size_t>(size - at), &self.options, &m)
        if n == 0:
            return at
        for i in range(MQTT_RUN - MQTT_RUN_FIELDS):
            if c[MQTT_RUN_COLUMNS[i]].on and (self.payload or MQTT_RUN_COLUMNS[i] != B_PAYLOAD):
                run[columns] = c + MQTT_RUN_COLUMNS[i]
                columns += 1
        if c[<int>B_MQTT].on:
            for i in range(MQTT_RUN_FIELDS):
                run[columns] = fields + MQTT_RUN_FIELD[i]
                columns += 1
        for i in range(columns):
            capacity = min(capacity, begin_run(run[i], row))
        if capacity == 0:
            return at
        sink = self.sink()
        capacity += row
        while n and row < capacity:
            if (topic.on and not has_octets(topic, m.topic.size)) or \
                    (self.payload and payload.on and not has_octets(payload, m.payload.size)):
                break
            if c[<int>B_BYTE_OFFSET].on:
                (<int64_t*>c[<int>B_BYTE_OFFSET].data)[row] = at
            if c[<int>B_WIRE_SIZE].on:
                (<int32_t*>c[<int>B_WIRE_SIZE].data)[row] = <int32_t>n
            if c[<int>B_PACKET_TYPE].on:
                (<int8_t*>c[<int>B_PACKET_TYPE].data)[row] = MQTT_PUBLISH
            if c[<int>B_QOS].on:
                (<int8_t*>c[<int>B_QOS].data)[row] = m.flags >> 1 & 3
            if m.flags & 8 and c[<int>B_DUP].on:
                set_bit(c[<int>B_DUP].data, row)
            if m.flags & 1 and c[<int>B_RETAIN].on:
                set_bit(c[<int>B_RETAIN].data, row)
            if c[<int>B_MQTT].on:
                (<int16_t*>fields[<int>M_FLAGS].data)[row] = m.flags
                if m.flags & 8:
                    set_bit(fields[<int>M_DUP].data, row)
                if m.flags & 1:
                    set_bit(fields[<int>M_RETAIN].data, row)
            if m.flags & 6:
                put_i32(c + B_SEQUENCE, row, m.packet_identifier)
            if topic.on:
                run_octets(topic, row, &m.topic)
            if self.payload and payload.on:
                run_octets(payload, row, &m.payload)
            if m.property_count:
                put_fast_properties(&sink, row, &m)
            row += 1
            at += <int64_t>n
            if at == size:
                break
            n = mqtt_read_fast(data + at, <size_t>(size - at), &self.options, &m)
        for i in range(columns):
            end_run(run[i], row)
        self.row = row
        return at

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
        return mqtt_frame_size(p, n, self.options.common.max_frame_size, size, f)

    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil:
        cdef MqttPacketView packet
        cdef int status = mqtt_parse(p, n, &self.options, &packet, f)
        if status != OK:
            return status
        if packet.type == MQTT_CONNECT:
            self.options.version = packet.version
        self.put(at, &packet)
        self.row += 1
        return OK


def decode_batch(data, *, version=None, side=None, strictness="lax", columns=None, bint payload=True,
                 bint expose_credentials=False, limits=None):
    """Decode a buffer of MQTT packets, one after another, to columns at once.

    data: any contiguous buffer; bytes and views of bytes are read in place, any other buffer is copied once. version: 3,
    4 or 5; None: taken from a CONNECT in `data` (packets before it are errors). side: "client" or "server", the
    sender, for rules of the specification that depend on it. columns: names to keep, in order
    (wirefmt.mqtt.columns.BATCH has all). payload=False omits payloads. Secrets (docs/secrets.md) are hidden
    unless expose_credentials.

    Raises ValueError for an invalid option, BufferError for data that is not contiguous, OverflowError if a
    column would exceed 2 GiB.

    Returns a Batch of one row per packet. A malformed packet is a row with `error`, which gives field, offset in
    `data` and reason; decoding continues with the next packet. If the length of a packet is invalid, the rest of
    `data` is one such row. The bytes of an incomplete last packet have no row: `batch.rest` counts them.
    """
    cdef Input octets = take_input(data)
    cdef BatchColumns columns_set = BatchColumns(MQTT_BATCH_COLUMNS, columns)
    take_options(&columns_set.options, version, side, strictness, limits)
    columns_set.payload = payload
    columns_set.expose(expose_credentials)
    return columns_set.decode(&MQTT_TABLES, octets, B_PAYLOAD if payload else -1)
