# WebSocket as a carrier: payload of data frames out. The handshake is in upgrade.pxi.
#
# Messages of permessage-deflate (RFC 7692) may refer to earlier ones of their direction, back to the beginning or, by agreement,
# to none. Reading them needs neither the agreement nor the size of the window: after a gap each is decompressed as the first one,
# and zlib refuses one that refers to what is before it. Such a message is a gap; the next one is tried again.

cdef struct Socket:
    SideLayer layer
    WebSocket frame
    bint broken                 # the header is invalid; the frame boundary is to be given up
    # compressed messages
    bint packed                 # this message is one
    bint ends                   # the unpacker has all of it
    bint waits                  # `unpack` is to be called again
    bint losing                 # it is to be given up, `why`
    bint given_up               # the rest of it is skipped
    bint torn                   # earlier messages were not read
    int why
    int64_t fed                 # octets of it so far
    int64_t taken, given        # octets in and out of earlier unpackers
    PyObject* unpacker          # an Unpacker, owned; NULL: no message so far, or none that the next one may refer to


cdef Carrier WEBSOCKET
WEBSOCKET.name = pad_text(b"websocket")
WEBSOCKET.size = sizeof(Socket)
WEBSOCKET.octets = socket_octets
WEBSOCKET.gap = socket_gap
WEBSOCKET.resume = socket_resume
WEBSOCKET.sought = socket_message
WEBSOCKET.found = socket_found
WEBSOCKET.clear = socket_clear


cdef bint begin_socket(FrameStreams s, Flow* f, int end, bint lost) noexcept nogil:
    """This direction is frames of a WebSocket now. `lost`: where one begins is not known. False: the flow is dismissed."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    cdef SideLayer* own = s.add_layer(f, end, &WEBSOCKET)
    if own == NULL:
        return False
    side.stage = STAGE_FRAMES
    (<Socket*>own).torn = lost or not f.streams[end].anchored or side.missing or side.skipped
    if lost:
        own.lost = True
        if not side.searching:
            s.begin_search(side, WHY_NO_FRAME)
    return True


cdef bint in_socket(const Side* side) noexcept nogil:
    """Is a WebSocket the last carrier of this direction?"""
    cdef const SideLayer* own = side.lowest
    while own != NULL and own.above != NULL:
        own = own.above
    return own != NULL and own.carrier == &WEBSOCKET


cdef size_t socket_octets(FrameStreams s, Flow* f, int end, SideLayer* own, const uint8_t* p, size_t n,
                          const Mark* mark) noexcept nogil:
    """Pass on the payload of data frames, skip other frames."""
    cdef Socket* socket = <Socket*>own
    cdef WebSocket* w = &socket.frame
    cdef const uint8_t* payload
    cdef size_t at = 0
    cdef size_t k
    while at < n and not f.ignored and not s.is_full():
        if own.lost:
            s.search(f, end, p + at, n - at, mark)
            return n
        if w.left == 0:
            k = ws_header(w, p + at, n - at)
            at += k
            if w.need:
                s.seen.carrier_octets += <int64_t>k
                continue
            if not ws_usual(w):
                s.seen.carrier_octets -= <int64_t>(w.have - k)
                s.put_fault(f, end, ROW_MALFORMED, b"WebSocket: not the header of a frame", mark)
                lose_header(s, f, end, own, mark)
                continue
            s.seen.carrier_octets += <int64_t>k
            if w.data and w.head[0] & 0x0F:             # a message begins
                socket.packed = w.compressed
                socket.given_up = False
                socket.fed = 0
                if w.compressed and (<FlowState*>f.state).deflate == WS_PLAIN:
                    s.put_fault(f, end, ROW_MALFORMED, b"compressed WebSocket message (RSV1) without an agreement", mark)
                    s.dismiss(f, UNDECODED_COMPRESSED)
                    break
            if w.left == 0:
                if w.data and socket.packed and ws_ends(w):
                    take_packed(s, f, end, own, NULL, 0, True, mark)
                continue
        k = min(n - at, <size_t>65536)
        if k > w.left:
            k = <size_t>w.left
        if not w.data:
            s.seen.carrier_octets += <int64_t>k
        elif socket.packed:
            payload = p + at
            if w.masked:
                unmask(w, payload, k, s.scratch)
                payload = s.scratch
            take_packed(s, f, end, own, payload, k, k == w.left and ws_ends(w), mark)
        elif w.masked:
            unmask(w, p + at, k, s.scratch)
            k = s.carry(f, end, own.above, s.scratch, k, mark)
        else:
            k = s.carry(f, end, own.above, p + at, k, mark)
        w.left -= k
        w.at += k
        at += k
    if f.ignored:
        s.on_ignored(f, 0, <int64_t>(n - at))
        return n
    return at


cdef void take_packed(FrameStreams s, Flow* f, int end, SideLayer* own, const uint8_t* p, size_t n, bint ends,
                      const Mark* mark) noexcept nogil:
    """Octets of a compressed message. `ends`: it ends with them."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Socket* socket = <Socket*>own
    cdef char[REASON_MOST + 1] reason
    cdef int done
    if socket.given_up:
        fs.sides[end].skipped += <int64_t>n
        return
    socket.fed += <int64_t>n
    if socket.unpacker == NULL and not open_message(s, socket):
        s.seen.carrier_octets += <int64_t>n
        s.put_fault(f, end, ROW_MALFORMED, b"compressed: limit", mark)
        give_up_message(s, f, end, own, WHY_LIMIT, mark)
        return
    socket.ends = socket.ends or ends
    done = unpack(s, f, end, own, socket.unpacker, p, n, ends, mark, reason)
    socket.waits = done == UNPACK_WAITS
    if done == UNPACK_FAILED:
        if socket.torn and strstr(reason, b"too far back") != NULL:
            give_up_message(s, f, end, own, WHY_CONTEXT, mark)
        else:
            s.put_fault(f, end, ROW_MALFORMED, reason, mark)
            give_up_message(s, f, end, own, WHY_NO_FRAME, mark)
    elif done == UNPACKED and socket.ends:
        socket.ends = False
        if fs.deflate & (WS_CLIENT_FRESH if end == f.client else WS_SERVER_FRESH):
            close_message(s, socket)


cdef bint open_message(FrameStreams s, Socket* socket) noexcept with gil:
    """Begin to decompress. False: a limit forbids it."""
    cdef Unpacker u
    if s.memory.buffered + UNPACKER_OCTETS + DEFLATE_WINDOW > s.memory.max_buffered:
        s.seen.messages_limited += 1
        return False
    try:
        u = Unpacker(CARRIER_DEFLATE, True)
    except BaseException:
        s.memory.no_memory += 1
        return False
    u.taken = socket.taken                              # the ratio is that of the direction
    u.given = socket.given
    Py_INCREF(u)
    socket.unpacker = <PyObject*>u
    s.memory.buffered += u.count()
    return True


cdef void close_message(FrameStreams s, Socket* socket) noexcept nogil:
    """The next message is decompressed without what was before it."""
    if socket.unpacker != NULL:
        keep_counts(socket)
        drop_unpacker(s, &socket.unpacker)


cdef void keep_counts(Socket* socket) noexcept with gil:
    socket.taken = (<Unpacker>socket.unpacker).taken
    socket.given = (<Unpacker>socket.unpacker).given


cdef void give_up_message(FrameStreams s, Flow* f, int end, SideLayer* own, int why, const Mark* mark) noexcept nogil:
    """The rest of the compressed message is not read, nor what refers to it; frames go on. Call again if the batch is full."""
    cdef Socket* socket = <Socket*>own
    socket.losing = not lose_content(s, f, end, own, why, mark)
    socket.why = why
    if socket.losing:
        (<FlowState*>f.state).unfinished = True
    else:
        forget_messages(s, socket)
        socket.given_up = True
        (<FlowState*>f.state).sides[end].skipped += socket.fed
        s.seen.carrier_octets -= socket.fed


cdef void forget_messages(FrameStreams s, Socket* socket) noexcept nogil:
    """A part of a direction was not read."""
    close_message(s, socket)
    socket.ends = socket.waits = False
    socket.torn = True


cdef void socket_clear(FrameStreams s, SideLayer* own) noexcept nogil:
    drop_unpacker(s, &(<Socket*>own).unpacker)


cdef bint socket_gap(FrameStreams s, Flow* f, int end, SideLayer* own, int64_t n, int why, const Mark* mark) noexcept nogil:
    """Inside the payload of a frame, the gap is one of what is carried."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    cdef Socket* socket = <Socket*>own
    cdef WebSocket* w = &socket.frame
    if own.lost and side.size:
        s.look(f, end, True)
        if f.ignored:
            return True
        if s.is_full():
            return False
    if own.lost or w.need or n < 0 or <uint64_t>n > w.left:
        return lose_socket(s, f, end, own, n, why, mark)
    if w.data and socket.packed:
        if not socket.given_up:
            give_up_message(s, f, end, own, why, mark)
            if socket.losing or f.ignored:
                return f.ignored
        side.missing += n
    elif w.data and not s.carry_gap(f, end, own.above, n, why, mark):
        return False
    w.left -= <uint64_t>n
    w.at += <uint64_t>n
    return True


cdef bint lose_socket(FrameStreams s, Flow* f, int end, SideLayer* own, int64_t n, int why, const Mark* mark) noexcept nogil:
    """`n` octets are missing, possibly with frame headers, or a header is invalid. How many octets of the stream above are
    missing is not known. The next frame is searched for: see follow_chain. False: the batch is full; call again."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    if not lose_content(s, f, end, own, why, mark):
        return False
    if f.ignored:
        return True
    forget_messages(s, <Socket*>own)
    side.missing += max(n, <int64_t>0)
    side.search.credit = 0
    own.lost = True
    if why == WHY_NO_FRAME:                             # octets that are not a header are skipped
        side.skipped += (<Socket*>own).frame.have
    return True


cdef bint lose_content(FrameStreams s, Flow* f, int end, SideLayer* own, int why, const Mark* mark) noexcept nogil:
    """How many octets of the stream above are missing is not known. False: the batch is full; call again."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    if not s.is_full() and side.searching and side.size:
        s.look(f, end, True)
    if f.ignored:
        return True
    if s.is_full() or (own.above != NULL and not s.carry_gap(f, end, own.above, UNKNOWN, why, mark)):
        return False
    if side.searching:
        s.pass_over(side, side.size)
    else:
        if (side.size and not s.put_rest(f, end, why_text(why), mark)) or not s.flush(f, end, why_text(why)):
            return False
        s.begin_search(side, why)
    return True


cdef void lose_header(FrameStreams s, Flow* f, int end, SideLayer* own, const Mark* mark) noexcept nogil:
    """The header of a frame is invalid."""
    cdef Socket* socket = <Socket*>own
    socket.broken = not lose_socket(s, f, end, own, 0, WHY_NO_FRAME, mark)
    if socket.broken:
        (<FlowState*>f.state).unfinished = True


cdef void socket_resume(FrameStreams s, Flow* f, int end, SideLayer* own, const Mark* mark) noexcept nogil:
    cdef Socket* socket = <Socket*>own
    if socket.broken:
        lose_header(s, f, end, own, mark)
    elif socket.losing:
        give_up_message(s, f, end, own, socket.why, mark)
    elif socket.waits:
        take_packed(s, f, end, own, NULL, 0, False, mark)


cdef void socket_found(FrameStreams s, Flow* f, int end, SideLayer* own) noexcept nogil:
    """Frames begin at pending[at]: earlier octets are part of the gap, the rest is read."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    s.pass_over(side, side.search.at)
    memset(&(<Socket*>own).frame, 0, sizeof(WebSocket))
    (<Socket*>own).packed = False
    own.lost = False
    s.replay(f, end, own.number, 0)
