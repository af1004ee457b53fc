# MQTT: octets -> columns, one row per packet: decode_batch.

cdef class BatchColumns(ColumnSet):
    """The columns of decode_batch while they are built."""

    cdef bint payload

    cdef void put(self, int64_t row, int64_t offset, const MqttPacketView* p) noexcept nogil:
        cdef Col* c = self.cols
        cdef Col* m
        cdef MqttSink sink
        put_i64(c + B_OFFSET, row, offset)
        put_i32(c + B_SIZE, row, <int32_t>p.size)
        put_i8(c + B_PACKET_TYPE, row, <int8_t>p.type)
        if p.has_packet_identifier:
            put_i32(c + B_PACKET_IDENTIFIER, row, p.packet_identifier)
        if p.type == MQTT_PUBLISH:
            put_i8(c + B_QOS, row, p.flags >> 1 & 3)
            put_bool(c + B_DUP, row, p.flags & 8)
            put_bool(c + B_RETAIN, row, p.flags & 1)
            put_span(c + B_TOPIC_NAME, row, &p.topic)
            if self.payload:
                put_octets(c + B_PAYLOAD, row, p.payload.at, p.payload.size)
            if p.properties.size == 0:
                return
        elif has_dup(p):
            put_bool(c + B_DUP, row, p.flags & 8)
        if p.has_reason_code:
            put_i16(c + B_REASON_CODE, row, p.reason_code)
        if p.type == MQTT_CONNECT:
            put_span(c + B_CLIENT_IDENTIFIER, row, &p.client_identifier)
        put_struct(c + B_MQTT, row)
        m = c[<int>B_MQTT].children
        put_i16(m + M_FLAGS, row, p.flags)
        sink.fields = m
        sink.headers = c + B_USER_PROPERTIES
        sink.content_type = c + B_CONTENT_TYPE
        sink.reply_to = sink.correlation_id = sink.ttl_ms = NULL
        put_mqtt(c + B_MQTT, row, p, &sink)

    cdef int64_t run(self, const uint8_t* data, int64_t size, MqttOptions* o, int64_t* rows) noexcept nogil:
        """Decode all whole packets; octets used."""
        cdef int64_t at = 0, row = 0
        cdef size_t n = 0
        cdef MqttPacketView p
        cdef Fault f
        cdef int status = OK
        if self.payload:
            reserve(self.cols + B_PAYLOAD, 0, min(size, <int64_t>OFFSET_MAX))
        while at < size:
            status = mqtt_frame_size(data + at, <size_t>(size - at), o.max_packet_size, &n, &f)
            if status == NEED_DATA or (status == OK and <int64_t>n > size - at):
                break
            if status != OK:                            # no telling where the next packet begins
                self.put_error(row, at, size - at, &f)
                row += 1
                at = size
                break
            status = mqtt_parse(data + at, n, o, &p, &f)
            if status == OK:
                if p.type == MQTT_CONNECT:
                    o.version = p.version
                self.put(row, at, &p)
            else:
                self.put_error(row, at, <int64_t>n, &f)
            row += 1
            at += <int64_t>n
        rows[0] = row
        return at

    cdef void put_error(self, int64_t row, int64_t at, int64_t size, const Fault* f) noexcept nogil:
        cdef char[256] text
        cdef int n = fault_text(&MQTT_TABLES, f, at, text, sizeof(text))
        put_i64(self.cols + B_OFFSET, row, at)
        put_i32(self.cols + B_SIZE, row, <int32_t>min(size, <int64_t>0x7FFFFFFF))
        put_octets(self.cols + B_ERROR, row, <const uint8_t*>text, n)


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
    cdef MqttOptions o
    cdef BatchColumns columns_set = BatchColumns(MQTT_BATCH_COLUMNS, columns)
    cdef Batch batch
    cdef int64_t used = 0, rows = 0
    take_options(&o, version, side, strictness, limits)
    columns_set.payload = payload
    columns_set.expose(expose_credentials)
    with nogil:
        used = columns_set.run(octets.at, octets.size, &o, &rows)
    batch = columns_set.finish(rows)
    batch.rest = octets.size - used
    return batch
