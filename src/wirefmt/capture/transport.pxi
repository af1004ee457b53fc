# What the reassembly knows of a TCP connection -> a row of the transport table, when the flow ends.
from wirefmt.spec.insight import TRANSPORT as TRANSPORT_COLUMNS

cdef enum TransportColumn:      # in the order of TRANSPORT
    X_FLOW_ID = 0
    X_CAPTURE
    X_CLIENT_IP
    X_CLIENT_PORT
    X_SERVER_IP
    X_SERVER_PORT
    X_PROTOCOL
    X_CARRIER
    X_SYN
    X_HANDSHAKE
    X_FIRST
    X_CLOSED
    X_CLOSED_BY
    X_HOW
    X_TRAFFIC                   # of the client, then of the server: X_EACH columns
    X_EACH = 7
    X_LAST = X_TRAFFIC + 2 * X_EACH
    X_DATA = X_LAST + 2
    X_TRUNCATED = X_DATA + 2
    X_BACKWARDS
    X_TLS                       # TLS_COLUMNS
    X_TLS_TIMES = X_TLS + 5     # of them: numbers
    X_TLS_REASON = X_TLS_TIMES + 2
    X_COLUMNS = X_TLS_REASON + 1

cdef enum:
    FACTS_OCTETS = 4096         # memory of a tls_facts.Facts

if len(TRANSPORT_COLUMNS) != X_COLUMNS:
    raise SystemError("TransportColumn and TRANSPORT differ")


cdef Text[6] HOW_TEXT           # see how_text
cdef Text[4] CARRIER_TEXT       # see carrier_text
for _i, _name in enumerate((b"open", b"idle", b"evicted", b"reused", b"fin", b"rst")):
    HOW_TEXT[<int>_i] = pad_text(_name)
for _i, _name in enumerate((b"plain", b"deflate", b"snappy", b"tls")):
    CARRIER_TEXT[<int>_i] = pad_text(_name)


cdef inline const Text* how_text(const Traffic* t) noexcept nogil:
    if t.closer >= 0:
        return &HOW_TEXT[5 if t.closed_by_reset else 4]
    return &HOW_TEXT[1 if t.why == WHY_IDLE else 2 if t.why == WHY_LIMIT else 3 if t.why == WHY_REPLACED else 0]


cdef inline const Text* carrier_text(const FlowState* fs) noexcept nogil:
    cdef int end
    if fs == NULL:
        return &CARRIER_TEXT[0]
    for end in range(2):
        if fs.sides[end].lowest != NULL and fs.sides[end].lowest.carrier.name.at != NULL:
            return &fs.sides[end].lowest.carrier.name
    if fs.undecoded == UNDECODED_TLS or fs.negotiated == CARRIER_TLS:
        return &CARRIER_TEXT[3]
    return &CARRIER_TEXT[1 if fs.negotiated == CARRIER_DEFLATE else 2 if fs.negotiated == CARRIER_SNAPPY else 0]


cdef inline void put_time(Col* c, int64_t row, int64_t ns) noexcept nogil:
    if ns != UNKNOWN_TIME:
        put_i64(c, row, ns)


cdef void put_tls(Col* c, int64_t row, const FlowState* fs) noexcept with gil:
    """What a handshake said, and why the connection was not decrypted."""
    cdef bytes octets
    cdef int i
    try:
        from wirefmt.capture.tls import cells_of
        cells = cells_of(None if fs.tls == NULL else <object>fs.tls, fs.tls_reason)
        for i, value in enumerate(cells):
            if value is None:
                pass
            elif X_TLS_TIMES <= X_TLS + i < X_TLS_REASON:
                put_i64(c + X_TLS + i, row, value)
            else:
                octets = value.encode("utf-8", "replace")
                put_octets(c + X_TLS + i, row, <const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets))
    except MemoryError:
        pass


cdef void drop_facts(Streams s, FlowState* fs) noexcept with gil:
    Py_XDECREF(fs.tls)
    fs.tls = NULL
    s.memory.buffered -= FACTS_OCTETS


cdef void put_transport(Col* c, int64_t row, const Flow* f, const FlowState* fs, const Text* capture) noexcept nogil:
    """A flow with traffic that has ended. The client of a flow whose beginning was not captured, and whose ports say nothing, is
    the end with the higher port."""
    cdef const Traffic* t = f.traffic
    cdef const EndTraffic* e
    cdef int client = f.client if f.client >= 0 else f.port[1] > f.port[0]
    cdef char address[ADDRESS_SIZE]
    cdef int i, end, size
    put_i64(c + X_FLOW_ID, row, f.flow_id)
    put_text(c + X_CAPTURE, row, capture)
    for i in range(2):
        end = client ^ i
        size = write_address(f.ip_version, f.address[end], address)
        put_octets(c + X_CLIENT_IP + 2 * i, row, <const uint8_t*>address, size)
        put_i32(c + X_CLIENT_PORT + 2 * i, row, f.port[end])
        e = &t.ends[end]
        put_i64(c + X_TRAFFIC + X_EACH * i, row, e.packets)
        put_i64(c + X_TRAFFIC + X_EACH * i + 1, row, e.octets)
        put_i64(c + X_TRAFFIC + X_EACH * i + 2, row, e.retransmitted)
        put_i64(c + X_TRAFFIC + X_EACH * i + 3, row, e.missing)
        put_i64(c + X_TRAFFIC + X_EACH * i + 4, row, e.zero_windows)
        put_i64(c + X_TRAFFIC + X_EACH * i + 5, row, e.silence_ns)
        if e.mss:
            put_i64(c + X_TRAFFIC + X_EACH * i + 6, row, e.mss)
        put_i64(c + X_LAST + i, row, e.last_ns)
        put_i64(c + X_DATA + i, row, e.data_ns)
    if fs != NULL and fs.protocol != NULL:
        put_text(c + X_PROTOCOL, row, &fs.protocol.name)
    put_text(c + X_CARRIER, row, carrier_text(fs))
    put_time(c + X_SYN, row, t.syn_ns)
    put_time(c + X_HANDSHAKE, row, t.handshake_ns)
    put_i64(c + X_FIRST, row, t.first_ns)
    put_i64(c + X_TRUNCATED, row, t.truncated)
    put_i64(c + X_BACKWARDS, row, t.backwards_ns)
    put_time(c + X_CLOSED, row, t.closed_ns)
    if t.closer >= 0:
        put_i8(c + X_CLOSED_BY, row, t.closer != client)
    put_text(c + X_HOW, row, how_text(t))
    if fs != NULL and (fs.tls != NULL or fs.tls_reason):
        put_tls(c, row, fs)
