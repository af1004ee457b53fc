# The handshake of a WebSocket, and WebSockets whose handshake was not captured.

cdef const char* HTTP_BEGINS[6]
HTTP_BEGINS[:] = [b"GET ", b"HTTP/1.1 ", b"POST ", b"HEAD ", b"PUT ", b"OPTIONS "]


cdef int looks_like_http(const uint8_t* p, size_t n) noexcept nogil:
    """The first octets of a request or response of HTTP/1.1, of which that of a WebSocket handshake may be the next one."""
    cdef size_t size
    cdef int i
    for i in range(6):
        size = strlen(HTTP_BEGINS[i])
        if memcmp(p, HTTP_BEGINS[i], min(n, size)) == 0:
            return YES if n >= size else MORE
    return NO


openings[<int>OPENS_HTTP] = http_opens
openings[<int>OPENS_SOCKET] = socket_opens_late


cdef int http_opens(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark, size_t* head) noexcept nogil:
    """A request or response."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef int verdict = looks_like_http(p, n)
    if side.stage == STAGE_HTTP and fs.protocol != NULL and verdict == NO:
        r.begin_search_again(side, WHY_NO_FRAME if f.streams[end].anchored else -1)
        return YES if begin_socket(r.streams, f, end, True) else REFUSED        # the handshake was not captured
    if side.stage != STAGE_HTTP and verdict != YES:
        return NO if r.is_forced(f) else verdict
    verdict = handshake(r, f, end, p, n, head)
    if verdict == YES:
        r.streams.seen.carrier_octets += <int64_t>head[0]
    return verdict


cdef int socket_opens_late(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark,
                           size_t* head) noexcept nogil:
    """Messages of a WebSocket, where a capture begins inside a connection or no protocol was named."""
    cdef int row = 0
    cdef int verdict = socket_opens(r, f, end, p, n, &row) if r.begins_inside(f, end) else NO
    if verdict == YES:
        open_socket(r, f, end, row, p[1] & 0x80 != 0)
        return REFUSED if f.ignored else YES
    return verdict


cdef int by_subprotocol(const Span* value) noexcept nogil:
    """The protocol named in Sec-WebSocket-Protocol: `mqtt`, or `mqttv3.1` of older clients; 0: none."""
    cdef int i
    if value.at != NULL:
        for i in range(PROTOCOLS):
            if protocols[i].subprotocol.size and find_text(
                    value.at, value.size, <const char*>protocols[i].subprotocol.at,
                    <size_t>protocols[i].subprotocol.size) != NULL:
                return i + 1
    return 0


cdef uint8_t by_extensions(const uint8_t* p, size_t n) noexcept nogil:
    """A WsDeflate: what a handshake's Sec-WebSocket-Extensions, of which there may be several, say of permessage-deflate."""
    cdef uint8_t agreed = WS_PLAIN
    cdef Span value = http_field(p, n, b"\r\nsec-websocket-extensions:", 27)
    while value.at != NULL:
        if find_text(value.at, value.size, b"permessage-deflate", 18) != NULL:
            agreed = WS_DEFLATE
            if find_text(value.at, value.size, b"client_no_context_takeover", 26) != NULL:
                agreed |= WS_CLIENT_FRESH
            if find_text(value.at, value.size, b"server_no_context_takeover", 26) != NULL:
                agreed |= WS_SERVER_FRESH
        n -= <size_t>(value.at - p)
        p = value.at
        value = http_field(p, n, b"\r\nsec-websocket-extensions:", 27)
    return agreed


cdef int handshake(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, size_t* head) noexcept nogil:
    """GET ... Upgrade, or 101 Switching Protocols, with a known subprotocol or without one (RFC 6455, 4.1, 4.2.2). `head`:
    its octets."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef Side* other = &fs.sides[1 - end]
    cdef size_t size = http_head_size(p, n)
    cdef Span upgrade, subprotocol
    cdef bint request = p[0] == c"G"
    cdef int row
    side.stage = STAGE_HTTP
    head[0] = size
    if size == 0:
        return WAITS if n < HTTP_HEAD_MAX else refuse(r, f, end)
    upgrade = http_field(p, size, b"\r\nupgrade:", 10)
    if upgrade.at == NULL or find_text(upgrade.at, upgrade.size, b"websocket", 9) == NULL:
        return refuse(r, f, end)
    if not request and (size < 12 or memcmp(p + 9, b"101", 3) != 0):
        return refuse(r, f, end)
    if not request or (fs.deflate == 0 and by_extensions(p, size) == WS_PLAIN):
        fs.deflate = by_extensions(p, size)
    if fs.protocol == NULL:
        subprotocol = http_field(p, size, b"\r\nsec-websocket-protocol:", 25)
        row = by_subprotocol(&subprotocol)
        if row == 0:
            row = first_row(r.by_port(f))
        if (row == 0 and subprotocol.at != NULL) or (
                not request and other.opening.foreign and not other.opening.upgraded and not r.began_late(f, 1 - end)):
            return refuse(r, f, end)
        if request:
            f.client = <int8_t>end
        elif f.client < 0:
            f.client = <int8_t>(1 - end)
        fs.http = True
        side.missing = 0
        r.streams.seen.carrier_octets += side.skipped        # earlier requests and responses
        side.skipped = 0
        if row == 0:
            side.stage = STAGE_START
            side.opening.upgraded = True
            return YES
        r.streams.seen.websockets += 1
        side.stage = STAGE_FRAMES
        set_protocol_behind_http(r, f, 1 - end, row)
        if f.ignored:
            return REFUSED
    return YES if begin_socket(r.streams, f, end, False) else REFUSED


cdef void set_protocol_behind_http(Recognition r, Flow* f, int other, int row) noexcept nogil:
    """The handshake of one direction was read. Does that of the other one follow, was it read, or was it not captured?"""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[other]
    cdef bint lost = side.missing != 0 or (not f.streams[other].anchored and (side.size != 0 or side.skipped != 0)
                                           and not looks_like_http(side.pending, side.size))
    if fs.http and not side.missing and not lost:       # what was skipped is HTTP
        r.streams.seen.carrier_octets += side.skipped
        side.skipped = 0
    if side.opening.upgraded:
        side.stage = STAGE_FRAMES
        r.set_protocol(f, row)
        if not f.ignored:
            begin_socket(r.streams, f, other, False)
    elif lost:
        r.set_protocol(f, row)                          # the search begins, with the gap so far
        if not f.ignored:
            begin_socket(r.streams, f, other, True)
    else:
        side.stage = STAGE_HTTP
        r.set_protocol(f, row)


cdef void lose_handshake(Recognition r, Flow* f, int end, int64_t n, int why) noexcept nogil:
    """The protocol is known, but `n` octets of this direction's handshake are missing: frames are searched for."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    cdef size_t size = side.size
    r.streams.pass_over(side, size)
    r.streams.begin_search(side, why)
    side.missing = n
    side.skipped = <int64_t>size
    begin_socket(r.streams, f, end, True)


cdef int refuse(Recognition r, Flow* f, int end) noexcept nogil:
    """HTTP that is not the handshake of a known protocol. Another request and response may be. Always REFUSED."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef int i
    fs.deflate = 0
    if fs.protocol != NULL:
        if not in_socket(&fs.sides[1 - end]) or fs.sides[1 - end].offset or fs.sides[1 - end].size:
            r.streams.dismiss(f, UNDECODED_UNKNOWN)
            return REFUSED
        r.streams.seen.websockets -= 1               # the server does not upgrade the connection
        r.streams.memory.buffered -= fs.counted
        close_state(fs.protocol, fs.state)
        fs.protocol = NULL
        fs.state = NULL
        fs.counted = 0
        for i in range(2):
            if in_socket(&fs.sides[i]):
                r.streams.drop_layer(&fs.sides[i])
            fs.sides[i].opening.foreign = True
            fs.sides[i].stage = STAGE_START
    fs.http = True
    fs.sides[end].stage = STAGE_START
    return REFUSED


cdef int socket_opens(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, int* row) noexcept nogil:
    """In a stream that began before the capture, are the octets of this packet whole WebSocket messages of whole, valid
    frames? A Verdict; YES: of protocols[row - 1]."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef uint32_t rows = r.by_port(f)
    cdef bint masked = n > 1 and p[1] & 0x80 != 0
    cdef bint counts = False
    cdef bint more = False
    cdef int i, verdict, messages
    cdef int64_t credit = 0
    cdef Sought sought
    cdef size_t at, size = 0
    if f.client >= 0 and n > 1 and masked != (end == f.client):
        return NO
    sought.state = NULL
    sought.direction = 0 if masked else 1
    sought.scratch = r.streams.scratch
    sought.deflate = fs.deflate != WS_PLAIN
    sought.credit = &credit
    for i in range(PROTOCOLS):
        if not (rows if rows else ALL_ROWS) >> i & 1 or protocols[i].subprotocol.size == 0:
            continue
        if fs.protocol != NULL and fs.protocol != &protocols[i]:
            continue
        sought.protocol = &protocols[i]
        at = 0
        messages = 0
        verdict = YES
        while at < n and verdict == YES:
            verdict = socket_message(&sought, p + at, n - at, &size, &counts)
            if verdict == YES:
                at += size
                messages += counts
        if verdict == YES and messages:
            row[0] = i + 1
            return YES
        more = more or verdict == YES or (verdict == MORE and size <= FIRST_KEPT)
    return MORE if more else NO


cdef void open_socket(Recognition r, Flow* f, int end, int row, bint masked) noexcept nogil:
    """The connection is a WebSocket whose handshake was not captured, and a message begins here in this direction. The end
    with masked frames is the client (5.1)."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef int i
    r.streams.seen.websockets += 1
    f.client = <int8_t>(end if masked else 1 - end)
    if fs.protocol == NULL:
        r.set_protocol(f, row)
        if f.ignored:
            return
    for i in range(2):
        if not begin_socket(r.streams, f, i, i != end and not fs.sides[i].opening.upgraded):
            return


cdef bint find_socket(Recognition r, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
    """A packet of a connection that began before the capture and of which nothing was read yet. It is read if WebSocket
    messages begin with it. True: it was read."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef int row = 0
    if n < 2 or not ws_may_begin(p[0]) or socket_opens(r, f, end, p, n, &row) != YES:
        return False
    r.streams.pass_over(side, side.size)
    open_socket(r, f, end, row, p[1] & 0x80 != 0)
    r.read(f, end, p, n, mark)
    r.read_again(f, 1 - end, 0)
    return True
