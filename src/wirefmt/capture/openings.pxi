# What a direction may begin with, besides frames: each is a row of `openings`, a function that is asked about the first octets.
# The recogniser asks them in this order. A row may take octets, add carriers to both directions, or name the protocol.

cdef enum:
    OPENS_PROXY = 0
    OPENS_HTTP
    OPENS_TLS
    OPENS_SOCKET
    OPENINGS
    WAITS = 4                   # besides a Verdict: it is this, and more octets are needed
    REFUSED                     # it is this, and is not read; the flow may be dismissed
    # octets kept of one direction until the other one identifies the protocol: RFC 6928's initial window, 10 segments
    FIRST_KEPT = 1 << 14
    TLS_RECORD_MAX = 16384 + 2048       # octets of a record's content: RFC 5246, 6.2.3


cdef class Recognition

# Do the octets begin so? NO, MORE: ask the next row. YES: the first `head` octets were taken (it is 0 before), and those that
# follow are to be read again. WAITS, REFUSED
cdef int (*openings[OPENINGS])(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark,
                               size_t* head) noexcept nogil

openings[<int>OPENS_PROXY] = proxy_opens
openings[<int>OPENS_TLS] = tls_opens


cdef int proxy_opens(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark, size_t* head) noexcept nogil:
    """A PROXY header: what follows it is the client's."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef Memory* memory = r.streams.memory
    cdef Proxied* header
    cdef int verdict
    if side.stage != STAGE_START or side.offset or side.missing or side.skipped or (f.client >= 0 and end != f.client):
        return NO
    verdict = proxy_header(p, n, head)
    if verdict != YES:
        return WAITS if verdict == MORE else NO
    header = <Proxied*>malloc(sizeof(Proxied) + head[0])
    if header == NULL:
        memory.no_memory += 1
        return NO
    memory.buffered += <int64_t>(sizeof(Proxied) + head[0] + BLOCK_OCTETS)
    header.first = side.search.origins[0].mark if side.size else mark[0]
    header.last = mark[0]
    header.size = head[0]
    header.octets = <uint8_t*>header + sizeof(Proxied)
    memcpy(header.octets, p, head[0])
    fs.proxied = header
    f.client = <int8_t>end
    side.offset = <int64_t>head[0]
    return YES


cdef int looks_like_tls(const uint8_t* p, size_t n, bint late) noexcept nogil:
    """A handshake record: type 22, version 3.0 to 3.4 (RFC 8446, 5.1). `late`: the capture may have begun after the
    handshake, with a record of another type; then its length and the beginning of the next one must be valid, too."""
    cdef size_t size
    if (n > 1 and p[1] != 3) or (n > 2 and p[2] > 4):
        return NO
    if p[0] == 22:
        return YES if n > 2 else MORE
    if not late or not 20 <= p[0] <= 23:
        return NO
    if n < 5:
        return MORE
    size = load_u16(p + 3)
    if size == 0 or size > TLS_RECORD_MAX or (p[0] == 21 and size < 2):
        return NO
    if n > size + 5 and not (20 <= p[size + 5] <= 23 and (n < size + 7 or p[size + 6] == 3)):
        return NO
    return YES


cdef int tls_opens(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark, size_t* head) noexcept nogil:
    """TLS from the start, or where the capture begins. A port in decode_as says what is in it, if it can be decrypted."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef bint forced = r.is_forced(f)
    cdef int verdict = NO if forced and not r.streams.decrypts else looks_like_tls(p, n, not forced and r.begins_inside(f, end))
    if verdict != YES:
        return verdict
    if tls_of(fs, end) != NULL or not may_decrypt(r.streams):
        if forced:
            return NO
        pass_tls(r.streams, f)
        return REFUSED
    if p[0] == TLS_HANDSHAKE and n <= RECORD_HEAD:
        return WAITS
    if p[0] != TLS_HANDSHAKE or not 1 <= p[RECORD_HEAD] <= 2 or fs.sides[end].missing or fs.sides[end].skipped:
        give_up_tls(r.streams, f, end, TLS_NO_HANDSHAKE, mark)
        return REFUSED
    f.client = <int8_t>(end if p[RECORD_HEAD] == 1 else 1 - end)        # ClientHello, ServerHello
    open_tls(r.streams, f, end, mark)
    return REFUSED if f.ignored else YES
