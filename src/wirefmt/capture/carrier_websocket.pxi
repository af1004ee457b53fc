# WebSocket as a carrier: payload of data frames out. The handshake is in upgrade.pxi.

cdef struct Socket:
    SideLayer layer
    WebSocket frame
    bint broken                 # the header is invalid; the frame boundary is to be given up


cdef Carrier WEBSOCKET
WEBSOCKET.name = pad_text(b"websocket")
WEBSOCKET.size = sizeof(Socket)
WEBSOCKET.octets = socket_octets
WEBSOCKET.gap = socket_gap
WEBSOCKET.resume = socket_resume
WEBSOCKET.sought = socket_message
WEBSOCKET.found = socket_found


cdef bint begin_socket(FrameStreams s, Flow* f, int end, bint lost) noexcept nogil:
    """This direction is frames of a WebSocket now. `lost`: where one begins is not known. False: the flow is dismissed."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    cdef SideLayer* own = s.add_layer(f, end, &WEBSOCKET)
    if own == NULL:
        return False
    side.stage = STAGE_FRAMES
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
    cdef const Side* side = &(<FlowState*>f.state).sides[end]
    cdef WebSocket* w = &(<Socket*>own).frame
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
            if w.left == 0:
                continue
            if w.compressed and w.data:
                s.put_fault(f, end, ROW_MALFORMED, b"compressed WebSocket message (RSV1): not decoded", mark)
                s.dismiss(f, UNDECODED_COMPRESSED)
                break
        k = min(n - at, <size_t>65536)
        if k > w.left:
            k = <size_t>w.left
        if not w.data:
            s.seen.carrier_octets += <int64_t>k
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


cdef bint socket_gap(FrameStreams s, Flow* f, int end, SideLayer* own, int64_t n, int why, const Mark* mark) noexcept nogil:
    """Inside the payload of a frame, the gap is one of what is carried."""
    cdef const Side* side = &(<FlowState*>f.state).sides[end]
    cdef WebSocket* w = &(<Socket*>own).frame
    if own.lost and side.size:
        s.look(f, end, True)
        if f.ignored:
            return True
        if s.is_full():
            return False
    if own.lost or w.need or n < 0 or <uint64_t>n > w.left:
        return lose_socket(s, f, end, own, n, why, mark)
    if not s.carry_gap(f, end, own.above, n, why, mark):
        return False
    w.left -= <uint64_t>n
    w.at += <uint64_t>n
    return True


cdef bint lose_socket(FrameStreams s, Flow* f, int end, SideLayer* own, int64_t n, int why, const Mark* mark) noexcept nogil:
    """`n` octets are missing, possibly with frame headers, or a header is invalid. How many octets of the stream above are
    missing is not known. The next frame is searched for: see follow_chain. False: the batch is full; call again."""
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
    side.missing += max(n, <int64_t>0)
    side.search.credit = 0
    own.lost = True
    if why == WHY_NO_FRAME:                             # octets that are not a header are skipped
        side.skipped += (<Socket*>own).frame.have
    return True


cdef void lose_header(FrameStreams s, Flow* f, int end, SideLayer* own, const Mark* mark) noexcept nogil:
    """The header of a frame is invalid."""
    cdef Socket* socket = <Socket*>own
    socket.broken = not lose_socket(s, f, end, own, 0, WHY_NO_FRAME, mark)
    if socket.broken:
        (<FlowState*>f.state).unfinished = True


cdef void socket_resume(FrameStreams s, Flow* f, int end, SideLayer* own, const Mark* mark) noexcept nogil:
    if (<Socket*>own).broken:
        lose_header(s, f, end, own, mark)


cdef void socket_found(FrameStreams s, Flow* f, int end, SideLayer* own) noexcept nogil:
    """Frames begin at pending[at]: earlier octets are part of the gap, the rest is read."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    s.pass_over(side, side.search.at)
    memset(&(<Socket*>own).frame, 0, sizeof(WebSocket))
    own.lost = False
    s.replay(f, end, own.number, 0)
