# What a direction may begin with, besides frames: each is a row of `openings`, a function that is asked about the first octets.
# The recogniser asks them in this order. A row may take octets, add carriers to both directions, or name the protocol.

cdef enum:
    OPENS_PROXY = 0
    OPENS_TUNNEL
    OPENS_HTTP
    OPENS_TLS
    OPENS_SOCKET
    OPENINGS
    WAITS = 4                   # besides a Verdict: it is this, and more octets are needed
    REFUSED                     # it is this, and is not read; the flow may be dismissed
    # octets kept of one direction until the other one identifies the protocol: RFC 6928's initial window, 10 segments
    FIRST_KEPT = 1 << 14
    TUNNELS_MOST = 4            # of a connection, one in the other, or requested again
    TLS_RECORD_MAX = 16384 + 2048       # octets of a record's content: RFC 5246, 6.2.3


cdef class Recognition

# Do the octets begin so? NO, MORE: ask the next row. YES: the first `head` octets were taken (it is 0 before), and those that
# follow are to be read again. WAITS, REFUSED
cdef int (*openings[OPENINGS])(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark,
                               size_t* head) noexcept nogil

openings[<int>OPENS_PROXY] = proxy_opens
openings[<int>OPENS_TUNNEL] = tunnel_opens
openings[<int>OPENS_TLS] = tls_opens


cdef int proxy_opens(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark, size_t* head) noexcept nogil:
    """A PROXY header: what follows it is the client's."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef Proxied* header
    cdef int verdict
    if side.stage != STAGE_START or side.offset or side.missing or side.skipped or (f.client >= 0 and end != f.client):
        return NO
    verdict = proxy_header(p, n, head)
    if verdict != YES:
        return WAITS if verdict == MORE else NO
    header = keep_proxied(r, f, end, p, head[0], head[0], mark)
    return YES if header != NULL else NO


cdef Proxied* keep_proxied(Recognition r, Flow* f, int end, const uint8_t* more, size_t held, size_t size,
                           const Mark* mark) noexcept nogil:
    """The next `size` octets of the client were read, and `more` of them is kept until the protocol is known. NULL: no memory."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef Memory* memory = r.streams.memory
    cdef Proxied* header = <Proxied*>malloc(sizeof(Proxied) + held)
    cdef Proxied** place = &fs.proxied
    if header == NULL:
        memory.no_memory += 1
        return NULL
    header.next = NULL
    header.first = side.search.origins[0].mark if side.size else mark[0]
    header.last = mark[0]
    header.at = side.offset
    header.size = size
    header.held = sizeof(Proxied) + held
    header.tunnel = TUNNEL_NONE
    header.more = <uint8_t*>header + sizeof(Proxied)
    memcpy(header.more, more, held)
    memory.buffered += <int64_t>header.held + BLOCK_OCTETS
    while place[0] != NULL:
        place = &place[0].next
    place[0] = header
    f.client = <int8_t>end
    side.offset += <int64_t>size
    return header


cdef int tunnel_opens(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark, size_t* head) noexcept nogil:
    """A client asks a proxy for a tunnel, or is answered: what follows is the stream."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef Side* other = &fs.sides[1 - end]
    cdef Proxied* header
    cdef Asked asked
    cdef int tunnel = TUNNEL_SOCKS
    cdef int verdict
    if side.stage == STAGE_TUNNEL:
        return tunnel_answers(r, f, end, p, n, head)
    if side.stage != STAGE_START or side.missing or side.skipped or fs.protocol != NULL or fs.tunnels == TUNNELS_MOST \
            or (f.client >= 0 and end != f.client):
        return NO
    verdict = socks_request(p, n, head, &asked)
    if verdict == NO:
        tunnel = TUNNEL_HTTP
        verdict = connect_request(p, n, head, &asked)
    if verdict != YES:
        head[0] = 0
        return verdict
    header = keep_proxied(r, f, end, <const uint8_t*>&asked, sizeof(Asked), head[0], mark)
    if header == NULL:
        head[0] = 0
        return NO
    header.tunnel = tunnel
    fs.tunnel = <uint8_t>tunnel
    fs.tunnels += 1
    fs.http = False
    if other.stage != STAGE_FRAMES:
        other.stage = STAGE_TUNNEL
        other.opening.foreign = False
    return YES


cdef int tunnel_answers(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, size_t* head) noexcept nogil:
    """The answer of a proxy."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef bint opened = True
    cdef int verdict = socks_answer(p, n, head) if fs.tunnel == TUNNEL_SOCKS else connect_answer(p, n, head, &opened)
    if verdict == MORE:
        head[0] = 0
        return WAITS
    if verdict == NO:
        head[0] = 0
        side.stage = STAGE_START
        if fs.protocol == NULL:
            return NO
        r.begin_search_again(side, WHY_NO_FRAME)        # the search is in the octets that are read again
        side.stage = STAGE_FRAMES
        return YES
    side.offset += <int64_t>head[0]
    r.streams.seen.carrier_octets += <int64_t>head[0]
    if opened:
        side.stage = STAGE_START
        if fs.protocol != NULL:
            r.begin_frames(f)
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
    cdef bint looks
    cdef int verdict = NO if forced and not r.streams.decrypts else looks_like_tls(p, n, not forced and r.begins_inside(f, end))
    if verdict != YES:
        return verdict
    looks = not may_decrypt(r.streams)
    if tls_of(fs, end) != NULL or (looks and (forced or not r.streams.tcp.counts_traffic)):
        if forced:
            return NO
        pass_tls(r.streams, f)
        return REFUSED
    if p[0] == TLS_HANDSHAKE and n <= RECORD_HEAD:
        return WAITS
    if p[0] != TLS_HANDSHAKE or not 1 <= p[RECORD_HEAD] <= 2 or fs.sides[end].missing or fs.sides[end].skipped:
        if looks:
            pass_tls(r.streams, f)
        else:
            give_up_tls(r.streams, f, end, TLS_NO_HANDSHAKE, mark)
        return REFUSED
    f.client = <int8_t>(end if p[RECORD_HEAD] == 1 else 1 - end)        # ClientHello, ServerHello
    open_tls(r.streams, f, end, looks, mark)
    return REFUSED if f.ignored else YES
