# MQTT: columns in the shape of decode_batch -> packets, one per row: encode_batch.
#
# A PUBLISH is written in its final place. The body of any other packet is built first, since its length precedes it.
# mqtt_parse reads the result back, so that it decides what is a valid packet. A PUBLISH without properties is not read back
# if it is valid by construction.

cdef struct MqttGiven:              # a property with a column
    int identifier, type
    const SourceCol* column


cdef class RowEncoder(BatchEncoder):
    """The packets of encode_batch while they are written."""

    cdef MqttOptions options
    cdef MqttGiven[MQTT_PROPERTY_TOP] given     # columns with values, in the order of their identifiers
    cdef int given_count
    cdef Octets area                            # the properties of one packet

    def __dealloc__(self):
        free_octets(&self.area)

    cdef void begin(self) noexcept nogil:
        cdef SourceCol* mqtt = self.cols + B_MQTT
        cdef const SourceCol* column
        cdef int i
        self.given_count = 0
        for i in range(MQTT_PROPERTY_TOP):
            if mqtt_properties[i].type == 0:
                continue
            column = (self.cols + B_HEADERS if i == MQTT_PROPERTY_USER_PROPERTY else
                      self.cols + B_CONTENT_TYPE if i == MQTT_PROPERTY_CONTENT_TYPE else
                      mqtt.children + MQTT_PROPERTY_FIELD[i])
            if column.on:
                self.given[self.given_count].identifier = i
                self.given[self.given_count].type = mqtt_properties[i].type
                self.given[self.given_count].column = column
                self.given_count += 1

    cdef int put_rows(self, int64_t rows) noexcept nogil:
        cdef const SourceCol* error = self.cols + B_ERROR
        cdef int64_t row, type = 0
        for row in range(rows):
            self.problem.row = row
            if source_has(error, row):
                return refuse_text(&self.problem, error, "the row is not a packet but a decoding error")
            if source_needed_number(&self.problem, self.cols + B_PACKET_TYPE, row, 1, 15, &type):
                return -1
            if type == MQTT_PUBLISH:
                if self.put_publish(row):
                    return -1
            elif self.put_packet(row, <int>type):
                return -1
        return 0

    cdef int validate(self, uint8_t* p, size_t n) noexcept nogil:
        """Adopt a packet that was written at the end of the output."""
        cdef MqttPacketView packet
        if mqtt_parse(p, n, &self.options, &packet, &self.problem.fault) != OK:
            return refuse(&self.problem, REFUSED_FAULT, NULL)
        if packet.type == MQTT_CONNECT:
            self.options.version = packet.version
        self.size += n
        return 0

    cdef int put_publish(self, int64_t row) noexcept nogil:
        """3.3"""
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef int64_t qos = 0, identifier = 0, payload_size = 0
        cdef const uint8_t* payload = NULL
        cdef Span topic
        cdef uint8_t first = MQTT_PUBLISH << 4
        cdef uint8_t* start
        cdef uint8_t* p
        cdef size_t area = 0, remaining
        if self.options.version == 0:
            return refuse_text(x, NULL, "the version is not known: no CONNECT precedes, and the option `version` is None")
        if source_number(x, c + B_QOS, row, 0, 3, &qos) or \
                source_needed_span(x, c + B_DESTINATION, row, 0xFFFF, &topic):
            return -1
        if source_flag(c + B_DUP, row):
            first |= 8
        if source_flag(c + B_RETAIN, row):
            first |= 1
        if qos and source_needed_number(x, c + B_SEQUENCE, row, 0, 0xFFFF, &identifier):
            return -1
        if not qos and source_has(c + B_SEQUENCE, row):
            return refuse_text(x, c + B_SEQUENCE, "a PUBLISH of QoS 0 has none [MQTT-2.2.1-2]")
        if not source_has(c + B_PAYLOAD, row):
            return refuse(x, REFUSED_NULL, c + B_PAYLOAD)
        if source_octets(x, c + B_PAYLOAD, row, &payload, &payload_size):
            return -1
        self.area.size = 0
        if self.given_count and self.put_properties(row, MQTT_PUBLISH):
            return -1
        remaining = 2 + topic.size + (2 if qos else 0) + <size_t>payload_size
        if self.options.version == 5:
            area = self.area.size + <size_t>varint_size(<uint32_t>self.area.size)
            remaining += area
        if payload_size > VARINT_MAX or remaining > VARINT_MAX:
            return refuse_size(x, c + B_PAYLOAD, payload_size, VARINT_MAX - <int64_t>(remaining - <size_t>payload_size))
        start = self.need(5 + remaining)
        if start == NULL:
            return -1
        p = start
        p[0] = first | <uint8_t>(qos << 1)
        p += 1 + store_varint(p + 1, <uint32_t>remaining)
        store_u16(p, <uint16_t>topic.size)
        copy_octets(p + 2, topic.at, topic.size)
        topic.at = p + 2
        p += 2 + topic.size
        if qos:
            store_u16(p, <uint16_t>identifier)
            p += 2
        if area:
            p += store_varint(p, <uint32_t>self.area.size)
            if self.area.size:
                memcpy(p, self.area.at, self.area.size)
                p += self.area.size
        copy_octets(p, payload, <size_t>payload_size)
        p += payload_size
        if self.area.size == 0 and mqtt_is_plain_publish(start[0], topic.at, topic.size, <uint16_t>identifier):
            self.size += <size_t>(p - start)
            return 0
        return self.validate(start, <size_t>(p - start))

    cdef int put_packet(self, int64_t row, int type) noexcept nogil:
        """Any packet except PUBLISH."""
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef const SourceCol* mqtt = self.cols + B_MQTT
        cdef bint fields = source_has(mqtt, row)
        cdef int64_t flags = mqtt_packets[type].flags
        cdef int64_t level = 0
        cdef int status = 0
        cdef uint8_t* p
        o.size = 0
        self.area.size = 0
        if type == MQTT_CONNECT:
            level = self.options.version
            if fields and source_number(x, mqtt.children + M_PROTOCOL_LEVEL, row, 0, 255, &level):
                return -1
            if level == 0:
                return refuse(x, REFUSED_NULL, mqtt.children + M_PROTOCOL_LEVEL)
            if not 3 <= level & 0x7F <= 5:
                return refuse_range(x, mqtt.children + M_PROTOCOL_LEVEL, level, 3, 5)
            if not self.options.only_version:
                self.options.version = <uint8_t>(level & 0x7F)
        if self.options.version == 0:
            return refuse_text(x, NULL, "the version is not known: no CONNECT precedes, and the option `version` is None")
        if self.options.version == 3 and (type == MQTT_PUBREL or type == MQTT_SUBSCRIBE or type == MQTT_UNSUBSCRIBE) and \
                source_flag(self.cols + B_DUP, row):
            flags |= 8
        if fields and source_number(x, mqtt.children + M_FLAGS, row, 0, 15, &flags):
            return -1
        if self.given_count and self.put_properties(row, type):
            return -1
        if type == MQTT_CONNECT:
            status = self.put_connect(row, <uint8_t>level, fields)
        elif type == MQTT_CONNACK:
            add_u8(o, 1 if fields and source_flag(mqtt.children + M_SESSION_PRESENT, row) else 0)
            status = self.put_code(row, True)
            if self.options.version == 5:
                self.put_area()
        elif MQTT_PUBACK <= type <= MQTT_PUBCOMP:
            status = self.put_identifier(row) or self.put_reason(row)
        elif type == MQTT_SUBSCRIBE or type == MQTT_UNSUBSCRIBE:
            status = self.put_identifier(row)
            if self.options.version == 5:
                self.put_area()
            status = status or self.put_filters(row, type == MQTT_SUBSCRIBE, fields)
        elif type == MQTT_SUBACK or type == MQTT_UNSUBACK:
            status = self.put_identifier(row)
            if self.options.version == 5:
                self.put_area()
            if type == MQTT_SUBACK or self.options.version == 5:
                status = status or self.put_codes(row, fields)
        elif type == MQTT_DISCONNECT or type == MQTT_AUTH:
            status = self.put_reason(row)
        if status:
            return -1
        if o.failed or self.area.failed:
            return refuse(x, REFUSED_MEMORY, NULL)
        if o.size > VARINT_MAX:
            return refuse_size(x, NULL, <int64_t>o.size, VARINT_MAX)
        p = self.need(5 + o.size)
        if p == NULL:
            return -1
        p[0] = <uint8_t>(type << 4 | flags)
        level = 1 + store_varint(p + 1, <uint32_t>o.size)
        if o.size:
            memcpy(p + level, o.at, o.size)
        return self.validate(p, <size_t>level + o.size)

    # ---- parts of a body

    cdef void put_area(self) noexcept nogil:
        """Property Length and properties (5.0, 2.2.2)."""
        cdef uint8_t[4] length
        add_octets(&self.scratch, length, <size_t>store_varint(length, <uint32_t>self.area.size))
        add_octets(&self.scratch, self.area.at, self.area.size)

    cdef int put_span(self, const SourceCol* column, int64_t row, bint needed) noexcept nogil:
        """A string or binary with its length; nothing if it is null and not required."""
        cdef Span s
        if source_span(&self.problem, column, row, 0xFFFF, &s):
            return -1
        if s.at == NULL:
            return refuse(&self.problem, REFUSED_NULL, column) if needed else 0
        add_u16(&self.scratch, <uint16_t>s.size)
        add_octets(&self.scratch, s.at, s.size)
        return 0

    cdef int put_identifier(self, int64_t row) noexcept nogil:
        cdef int64_t v = 0
        if source_needed_number(&self.problem, self.cols + B_SEQUENCE, row, 0, 0xFFFF, &v):
            return -1
        add_u16(&self.scratch, <uint16_t>v)
        return 0

    cdef int put_code(self, int64_t row, bint needed) noexcept nogil:
        cdef const SourceCol* column = self.cols + B_CODE
        cdef int64_t v = 0
        if source_number(&self.problem, column, row, 0, 255, &v):
            return -1
        if needed and not source_has(column, row):
            return refuse(&self.problem, REFUSED_NULL, column)
        add_u8(&self.scratch, <uint8_t>v)
        return 0

    cdef int put_reason(self, int64_t row) noexcept nogil:
        """Reason Code and properties in the shortest form (5.0, 3.4.2.1, 3.14.2.1)."""
        if self.options.version < 5:
            return 0
        if self.put_code(row, False):
            return -1
        if self.area.size:
            self.put_area()
        elif not self.scratch.failed and self.scratch.at[self.scratch.size - 1] == 0:
            self.scratch.size -= 1
        return 0

    cdef int put_filters(self, int64_t row, bint options, bint fields) noexcept nogil:
        """Topic filters; for SUBSCRIBE each with its options."""
        cdef Problem* x = &self.problem
        cdef const SourceCol* m = self.cols[<int>B_MQTT].children
        cdef const SourceCol* filters = m + M_TOPIC_FILTERS
        cdef const SourceCol* octets = m + M_SUBSCRIPTION_OPTIONS
        cdef int64_t at = 0, end = 0, option_at = 0, option_end = 0, v = 0
        if not fields or not source_has(filters, row):
            return refuse(x, REFUSED_NULL, filters)
        if source_range(x, filters, row, &at, &end):
            return -1
        if options:
            if not source_has(octets, row):
                return refuse(x, REFUSED_NULL, octets)
            if source_range(x, octets, row, &option_at, &option_end):
                return -1
            if option_end - option_at != end - at:
                return refuse_text(x, octets, "there are not as many elements as in topic_filters")
        while at < end:
            if self.put_span(filters.children, at, True):
                return -1
            if options:
                if source_needed_number(x, octets.children, option_at, 0, 255, &v):
                    return -1
                add_u8(&self.scratch, <uint8_t>v)
                option_at += 1
            at += 1
            if self.scratch.size > VARINT_MAX:
                return 0                            # the caller refuses it
        return 0

    cdef int put_codes(self, int64_t row, bint fields) noexcept nogil:
        cdef const SourceCol* codes = self.cols[<int>B_MQTT].children + M_REASON_CODES
        cdef int64_t at = 0, end = 0, v = 0
        if not fields or not source_has(codes, row):
            return refuse(&self.problem, REFUSED_NULL, codes)
        if source_range(&self.problem, codes, row, &at, &end):
            return -1
        while at < end and self.scratch.size <= VARINT_MAX:
            if source_needed_number(&self.problem, codes.children, at, 0, 255, &v):
                return -1
            add_u8(&self.scratch, <uint8_t>v)
            at += 1
        return 0

    cdef int put_connect(self, int64_t row, uint8_t level, bint fields) noexcept nogil:
        """3.1"""
        cdef Problem* x = &self.problem
        cdef const SourceCol* m = self.cols[<int>B_MQTT].children
        cdef Octets* o = &self.scratch
        cdef Span name
        cdef int64_t flags = 0, qos = 0, keep_alive = 0
        name.at = NULL
        if fields and source_span(x, m + M_PROTOCOL_NAME, row, 0xFFFF, &name):
            return -1
        if name.at == NULL:
            name.at = <const uint8_t*>(b"MQIsdp" if level & 0x7F == 3 else b"MQTT")
            name.size = 6 if level & 0x7F == 3 else 4
        if fields:
            if source_number(x, m + M_WILL_QOS, row, 0, 3, &qos) or \
                    source_number(x, m + M_KEEP_ALIVE, row, 0, 0xFFFF, &keep_alive):
                return -1
            flags = (source_has(m + M_USER_NAME, row) << 7 | source_has(m + M_PASSWORD, row) << 6 |
                     source_flag(m + M_WILL_RETAIN, row) << 5 | qos << 3 | source_has(m + M_WILL_TOPIC, row) << 2 |
                     source_flag(m + M_CLEAN_START, row) << 1)
            if source_number(x, m + M_CONNECT_FLAGS, row, 0, 255, &flags):
                return -1
        add_u16(o, <uint16_t>name.size)
        add_octets(o, name.at, name.size)
        add_u8(o, level)
        add_u8(o, <uint8_t>flags)
        add_u16(o, <uint16_t>keep_alive)
        if self.options.version == 5:
            self.put_area()
        if self.put_span(self.cols + B_CLIENT_ID, row, True):
            return -1
        if flags & 0x04:
            if self.options.version == 5 and self.put_will_properties(row):
                return -1
            if self.put_span(m + M_WILL_TOPIC, row, True) or self.put_span(m + M_WILL_PAYLOAD, row, True):
                return -1
        if flags & 0x80:
            if level == 3 and not source_has(m + M_USER_NAME, row) and not source_has(m + M_PASSWORD, row):
                return 0                            # 3.1, 3.1: the packet may end before it
            if self.put_span(m + M_USER_NAME, row, True):
                return -1
        if flags & 0x40:
            if not source_has(m + M_PASSWORD, row):
                return refuse_text(x, m + M_PASSWORD, "null, but connect_flags announce a password: decode_batch hides it "
                                                      "unless expose_credentials is set")
            return self.put_span(m + M_PASSWORD, row, True)
        return 0

    # ---- properties

    cdef int put_properties(self, int64_t row, int type) noexcept nogil:
        """Write the row's properties to `area`."""
        cdef Octets* o = &self.area
        cdef const SourceCol* column
        cdef bint fields = source_has(self.cols + B_MQTT, row)
        cdef int64_t v = 0
        cdef Span s
        cdef int i, kind
        for i in range(self.given_count):
            column = self.given[i].column
            kind = self.given[i].type
            if not source_has(column, row) or not (fields or column == self.cols + B_HEADERS or
                                                   column == self.cols + B_CONTENT_TYPE):
                continue
            if type == MQTT_CONNECT and self.given[i].identifier == MQTT_PROPERTY_WILL_DELAY_INTERVAL:
                continue                            # it belongs to the will
            if self.options.version < 5:
                return refuse_text(&self.problem, column, "properties are of MQTT 5.0")
            if kind == MQTT_PAIR or kind == MQTT_VARINT:
                if self.put_repeated(column, row, self.given[i].identifier, kind):
                    return -1
                continue
            add_u8(o, <uint8_t>self.given[i].identifier)
            if kind == MQTT_STRING or kind == MQTT_BINARY:
                if source_span(&self.problem, column, row, 0xFFFF, &s):
                    return -1
                add_u16(o, <uint16_t>s.size)
                add_octets(o, s.at, s.size)
            elif kind == MQTT_BYTE:
                if source_number(&self.problem, column, row, 0, 0xFF, &v):
                    return -1
                add_u8(o, <uint8_t>v)
            elif kind == MQTT_TWO:
                if source_number(&self.problem, column, row, 0, 0xFFFF, &v):
                    return -1
                add_u16(o, <uint16_t>v)
            else:
                if source_number(&self.problem, column, row, 0, 0xFFFFFFFF, &v):
                    return -1
                add_u32(o, <uint32_t>v)
        if o.failed:
            return refuse(&self.problem, REFUSED_MEMORY, NULL)
        return 0 if o.size <= VARINT_MAX else refuse_size(&self.problem, NULL, <int64_t>o.size, VARINT_MAX)

    cdef int put_repeated(self, const SourceCol* column, int64_t row, int identifier, int kind) noexcept nogil:
        """User Properties, Subscription Identifiers."""
        cdef Octets* o = &self.area
        cdef const SourceCol* element = column.children
        cdef int64_t at = 0, end = 0, v = 0
        cdef Span name, value
        cdef uint8_t[4] scratch
        if source_range(&self.problem, column, row, &at, &end):
            return -1
        while at < end and o.size <= VARINT_MAX:
            add_u8(o, <uint8_t>identifier)
            if kind == MQTT_PAIR:
                if source_needed_span(&self.problem, element.children, at, 0xFFFF, &name) or \
                        source_needed_span(&self.problem, element.children + 1, at, 0xFFFF, &value):
                    return -1
                add_u16(o, <uint16_t>name.size)
                add_octets(o, name.at, name.size)
                add_u16(o, <uint16_t>value.size)
                add_octets(o, value.at, value.size)
            else:
                if source_needed_number(&self.problem, element, at, 0, VARINT_MAX, &v):
                    return -1
                add_octets(o, scratch, <size_t>store_varint(scratch, <uint32_t>v))
            at += 1
        return 0

    cdef int put_will_properties(self, int64_t row) noexcept nogil:
        """Will properties are text by name. If the name is in the specification and the text is a value of its type, it is that
        property, the first time; otherwise it is a User Property."""
        cdef Problem* x = &self.problem
        cdef const SourceCol* m = self.cols[<int>B_MQTT].children
        cdef const SourceCol* map = m + M_WILL_PROPERTIES
        cdef const SourceCol* delay = m + M_WILL_DELAY_INTERVAL
        cdef Octets* o = &self.area
        cdef int64_t at = 0, end = 0, v = 0
        cdef uint64_t seen = 0
        cdef Span name, value
        cdef int i, found
        o.size = 0
        if not source_has(delay, row):
            seen |= <uint64_t>1 << <int>MQTT_PROPERTY_WILL_DELAY_INTERVAL       # a User Property of that name
        if source_has(map, row):
            if source_range(x, map, row, &at, &end):
                return -1
            while at < end and o.size <= VARINT_MAX:
                if source_needed_span(x, map.children.children, at, 0xFFFF, &name) or \
                        source_needed_span(x, map.children.children + 1, at, 0xFFFF, &value):
                    return -1
                found = 0
                for i in range(MQTT_PROPERTY_TOP):
                    if mqtt_properties[i].type and mqtt_properties[i].packets & 1 and not seen >> i & 1 and \
                            i != MQTT_PROPERTY_USER_PROPERTY and \
                            <int64_t>name.size == MQTT_PROPERTY_TEXT[i].size and \
                            memcmp(name.at, MQTT_PROPERTY_TEXT[i].at, name.size) == 0:
                        found = i
                if found and self.put_will_property(found, &value):
                    seen |= <uint64_t>1 << found
                else:
                    add_u8(o, MQTT_PROPERTY_USER_PROPERTY)
                    add_u16(o, <uint16_t>name.size)
                    add_octets(o, name.at, name.size)
                    add_u16(o, <uint16_t>value.size)
                    add_octets(o, value.at, value.size)
                at += 1
        if not seen >> <int>MQTT_PROPERTY_WILL_DELAY_INTERVAL & 1:
            if source_number(x, delay, row, 0, 0xFFFFFFFF, &v):
                return -1
            add_u8(o, MQTT_PROPERTY_WILL_DELAY_INTERVAL)
            add_u32(o, <uint32_t>v)
        if o.size > VARINT_MAX:
            return refuse_size(x, map, <int64_t>o.size, VARINT_MAX)
        self.put_area()
        return 0

    cdef bint put_will_property(self, int identifier, const Span* text) noexcept nogil:
        """A property from its text; False: the text is not a value of its type."""
        cdef Octets* o = &self.area
        cdef int type = mqtt_properties[identifier].type
        cdef uint8_t[HEX_OCTETS] scratch
        cdef uint64_t v = 0
        cdef Span octets
        if type == MQTT_STRING or type == MQTT_BINARY:
            octets = text[0] if type == MQTT_STRING else octets_shown(text, scratch)
            add_u8(o, <uint8_t>identifier)
            add_u16(o, <uint16_t>octets.size)
            add_octets(o, octets.at, octets.size)
            return True
        if not decimal_of(text, &v) or v > <uint64_t>(0xFF if type == MQTT_BYTE else 0xFFFF if type == MQTT_TWO else 0xFFFFFFFF):
            return False
        add_u8(o, <uint8_t>identifier)
        if type == MQTT_BYTE:
            add_u8(o, <uint8_t>v)
        elif type == MQTT_TWO:
            add_u16(o, <uint16_t>v)
        else:
            add_u32(o, <uint32_t>v)
        return True


def encode_batch(data, *, version=None, side=None, strictness="strict"):
    """Encode columns to MQTT packets, one per row, in one bytes object.

    data: columns with the names and types of decode_batch's result (wirefmt.mqtt.columns.BATCH): a Batch, a pyarrow
    Table, RecordBatch or reader, a polars DataFrame: anything with `__arrow_c_array__` or `__arrow_c_stream__`. Integers may
    any width, strings and lists 64-bit offsets. `packet_type` is required, and the values that a packet of the type must
    have; a missing column is a column of nulls. `byte_offset` and `wire_size` are ignored. version: 3, 4 or 5; None: that of the
    preceding CONNECT. side: "client" or "server", the sender, for rules that depend on it. strictness: "lax" writes
    what decode_batch accepts by default; "strict" refuses what the specification forbids.

    Raises TypeError for data that is not Arrow columns; ValueError for an invalid option, an unknown column, or a column
    of another type; EncodeError, which names column and row, for a row that does not make a valid packet, or has an `error`.

    `decode_batch` of the bytes returns the same columns, except `byte_offset` and `wire_size` if the decoded packets were longer
    than necessary, and except what the columns do not contain (docs/columns.md).
    """
    cdef RowEncoder encoder = RowEncoder(MQTT_BATCH_COLUMNS)
    encoder.tables = &MQTT_TABLES
    take_options(&encoder.options, version, side, strictness, None)
    encoder.options.common.max_frame_size = encoder.options.common.max_elements = 0
    return encoder.encode(data)
