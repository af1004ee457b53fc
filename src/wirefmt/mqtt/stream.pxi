# MQTT packets of octets and octets of packets: decode, encode, and the Decoder of a stream.


cdef void plain_options(MqttOptions* o, int version, int side, bint strict) noexcept nogil:
    memset(o, 0, sizeof(MqttOptions))
    o.version = <uint8_t>version
    o.common.side = <int8_t>side
    o.common.strict = strict


cdef int take_options(MqttOptions* o, object version, object side, object strictness, object limits) except -1:
    """Options of decode() and Decoder as C."""
    if version is not None and version not in (3, 4, 5):
        raise ValueError(f"version must be 3 (MQTT 3.1), 4 (3.1.1), 5 (5.0) or None, not {version!r}")
    plain_options(o, 0 if version is None else version, -1, 0)
    take_common_options(&o.common, side, strictness, limits)
    o.only_version = o.common.strict and version is not None
    return 0


cdef inline Publish fast_publish(bytes block, const uint8_t* p, size_t n, const MqttOptions* o):
    """The PUBLISH p[:n] in `block`, read by the fast path. None: mqtt_parse must decide."""
    cdef MqttFastView u
    cdef Publish message
    if p[0] >> 4 != MQTT_PUBLISH or mqtt_read_fast(p, n, o, &u) != n:
        return None
    message = Publish.__new__(Publish)
    message.block = block
    message.frame = p
    message.size = <uint32_t>n
    message.version_ = o.version
    message.first_octet = p[0]
    message.side = o.common.side
    message.topic = u.topic
    message.payload_span = u.payload
    if u.flags & 6:
        message.packet_identifier_ = u.packet_identifier
    if u.property_count:
        message.properties_span = u.area
        message.property_count = u.property_count
    message.keep_members(None, None)
    return message


def decode(data, *, version=None, side=None, strictness=STRICT_MODE, limits=None):
    """Decode exactly one packet, which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once.
    version: 3, 4 or 5 (MQTT 3.1, 3.1.1, 5.0). None: a CONNECT has its own version, other packets cannot be decoded.
        A CONNECT of another version is Unsupported in STRICT; in LAX its own version is used.
    side: the sender, "client" or "server"; None: unknown, and rules on the sender are not checked.
    strictness: "strict" or "lax" (wirefmt.strictness). limits: wirefmt.framing.Limits.

    Returns the packet. Raises DecodeError; Truncated if bytes are missing.
    """
    cdef MqttOptions o
    cdef MqttPacketView m
    cdef Fault f
    cdef bytes block = take_block(data)
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(block)
    cdef size_t n = <size_t>PyBytes_GET_SIZE(block)
    take_options(&o, version, side, strictness, limits)
    if n and (publish := fast_publish(block, p, n, &o)) is not None:
        return publish
    if mqtt_parse(p, n, &o, &m, &f) != OK:
        raise_fault(&MQTT_TABLES, &f, 0)
    return make_message(block, &m, o.common.side)


def frame_size(data, *, limits=None):
    """Size in bytes of the packet that `data` begins with, or NEED_DATA; it needs as few bytes as possible (5.0, 2.1.4).

    Raises DecodeError if no packet can begin this way, and LimitExceeded if it is too large.
    """
    cdef uint8_t head[INPUT_HEAD]
    cdef size_t n = input_head(data, head)
    cdef Fault f
    cdef size_t size = 0
    cdef int status
    cdef uint32_t limit = DEFAULT_FRAME_SIZE if limits is None else limits.frame_size
    status = mqtt_frame_size(head, n, limit, &size, &f)
    return size_found(&MQTT_TABLES, status, size, &f)


def encode(Packet message not None, /):
    """The bytes of a packet, as `message.encode()`."""
    return message.encode()


def restore(bytes octets not None, int version, int side, bint noted):
    """Unpickle a packet."""
    cdef MqttOptions o
    if not 3 <= version <= 5 or not -1 <= side <= 1:
        raise ValueError(f"no packet has version {version} and side {side}")
    plain_options(&o, version, side, not noted)
    return read_message(&MQTT_OPS, octets, &o.common)


@cython.final
cdef class Decoder(FrameDecoder):
    """Decodes the bytes of one direction of a connection to packets.

    version: 3, 4, 5, or None to take it from CONNECT, which must then come first. side, strictness, limits: as in
    decode(). `version` is the version of the connection, None while it is unknown.
    """
    cdef MqttOptions options

    def __init__(self, *, version=None, side=None, strictness=STRICT_MODE, limits=None):
        self.tables = &MQTT_TABLES
        take_options(&self.options, version, side, strictness, limits)

    @property
    def version(self):
        return self.options.version if self.options.version else None

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        cdef int status = mqtt_frame_size(p, n, self.options.common.max_frame_size, size, f)
        if status > NEED_DATA:
            f.kind = p[0] >> 4
            f.version = self.options.version
        return status

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef MqttPacketView m
        cdef Publish publish = fast_publish(block, p, n, &self.options)
        if publish is not None:
            return publish
        if mqtt_parse(p, n, &self.options, &m, f) != OK:
            return None
        if m.type == MQTT_CONNECT:
            self.options.version = m.version
        return make_message(block, &m, self.options.common.side)
