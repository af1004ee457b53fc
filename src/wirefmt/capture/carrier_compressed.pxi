# Compressed streams as carriers, which protocols negotiate: what is in them out. unpack.pxi decompresses them. `unpack` is
# also for the compressed messages of WebSockets.

cdef enum:
    REASON_MOST = 120           # octets of the reason why a stream cannot be decompressed


cdef enum Unpacked:             # what has become of octets, see `unpack`
    UNPACKED = 0                # what they contain was passed on
    UNPACK_WAITS                # the batch is full: call again, without octets
    UNPACK_FAILED


cdef struct Packed:
    SideLayer layer
    bint broken                 # decompression has failed, or the beginning is not known: octets are skipped
    PyObject* unpacker          # an Unpacker, owned; NULL while broken


cdef Carrier COMPRESSED
COMPRESSED.size = sizeof(Packed)
COMPRESSED.octets = packed_octets
COMPRESSED.gap = packed_gap
COMPRESSED.resume = packed_resume
COMPRESSED.clear = packed_clear

begin_carrier[<int>CARRIER_DEFLATE] = begin_packed
begin_carrier[<int>CARRIER_SNAPPY] = begin_packed


cdef void begin_packed(FrameStreams s, Flow* f, int end, const Mark* mark) noexcept nogil:
    cdef int i
    for i in range(2):
        if not f.ignored:
            open_unpacker(s, f, i, mark)


cdef void open_unpacker(FrameStreams s, Flow* f, int end, const Mark* mark) noexcept with gil:
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side = &fs.sides[end]
    cdef Packed* packed = <Packed*>s.add_layer(f, end, &COMPRESSED)
    cdef Unpacker u
    if packed == NULL:
        return
    side.stage = STAGE_FRAMES
    if side.searching or side.skip:                     # its beginning is not known
        if not side.searching:
            s.begin_search(side, WHY_NO_FRAME)
        packed.broken = True
        return
    if s.memory.buffered + UNPACKER_OCTETS > s.memory.max_buffered:
        s.seen.messages_limited += 1
        break_off(s, f, end, &packed.layer, b"compressed: limit", mark)
        return
    try:
        u = Unpacker(fs.negotiated)
    except ImportError:
        break_off(s, f, end, &packed.layer, b"compressed with snappy: to read it install cramjam (wirefmt[snappy])", mark)
        return
    except BaseException:
        s.memory.no_memory += 1
        packed.broken = True
        return
    Py_INCREF(u)
    packed.unpacker = <PyObject*>u
    s.memory.buffered += u.count()


cdef void packed_clear(FrameStreams s, SideLayer* own) noexcept nogil:
    drop_unpacker(s, &(<Packed*>own).unpacker)


cdef inline void drop_unpacker(FrameStreams s, PyObject** unpacker) noexcept nogil:
    if unpacker[0] != NULL:
        free_unpacker(s, unpacker)


cdef void free_unpacker(FrameStreams s, PyObject** unpacker) noexcept with gil:
    s.memory.buffered -= (<Unpacker>unpacker[0]).counted
    Py_XDECREF(unpacker[0])
    unpacker[0] = NULL


cdef size_t packed_octets(FrameStreams s, Flow* f, int end, SideLayer* own, const uint8_t* p, size_t n,
                          const Mark* mark) noexcept nogil:
    """Decompress octets and pass on the result. All are used, because the unpacker keeps them."""
    cdef Packed* packed = <Packed*>own
    cdef char[REASON_MOST + 1] reason
    if packed.broken:
        (<FlowState*>f.state).sides[end].skipped += <int64_t>n
    elif unpack(s, f, end, own, packed.unpacker, p, n, False, mark, reason) == UNPACK_FAILED:
        break_off(s, f, end, own, reason, mark)
    return n


cdef int unpack(FrameStreams s, Flow* f, int end, const SideLayer* own, PyObject* unpacker, const uint8_t* p, size_t n, bint ends,
                const Mark* mark, char* reason) noexcept with gil:
    """Decompress octets and pass on the result to the layer above. An Unpacked; UNPACK_FAILED: `reason` says why, at most
    REASON_MOST octets. `ends`: a message ends with them."""
    cdef Unpacker u = <Unpacker>unpacker
    cdef int done = UNPACKED
    try:
        s.seen.carrier_octets += <int64_t>n
        if n or ends:
            u.feed(p, n, ends)
        while not f.ignored and u.next():
            if u.given > s.max_inflated and u.given // UNPACKED_RATIO > u.taken:
                s.seen.messages_limited += 1
                raise ValueError("limit of the decompressed size")
            if s.is_full():
                (<FlowState*>f.state).unfinished = True
                done = UNPACK_WAITS
                break
            u.used += s.carry(f, end, own.above, <const uint8_t*>PyBytes_AS_STRING(u.piece) + u.used,
                              <size_t>PyBytes_GET_SIZE(u.piece) - u.used, mark)
        s.memory.buffered += u.count()
        return done
    except MemoryError:
        s.memory.no_memory += 1
        text = b"compressed: no memory"
    except Exception as error:
        text = f"compressed: {error}".encode("ascii", "replace")[:REASON_MOST]
    memcpy(reason, PyBytes_AS_STRING(text), <size_t>len(text) + 1)
    return UNPACK_FAILED


cdef void packed_resume(FrameStreams s, Flow* f, int end, SideLayer* own, const Mark* mark) noexcept nogil:
    if not (<Packed*>own).broken:
        packed_octets(s, f, end, own, NULL, 0, mark)


cdef void break_off(FrameStreams s, Flow* f, int end, SideLayer* own, const char* text, const Mark* mark) noexcept nogil:
    """Put a row with the reason why a direction is not decompressed any more, and skip the octets that follow."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    if side.size:
        s.put_rest(f, end, text, mark)                  # a protocol with carriers puts one row
    else:
        s.put_fault(f, end, ROW_MALFORMED, text, mark)
    s.begin_search(side, WHY_NO_FRAME)
    (<Packed*>own).broken = True
    packed_clear(s, own)


cdef bint packed_gap(FrameStreams s, Flow* f, int end, SideLayer* own, int64_t n, int why, const Mark* mark) noexcept nogil:
    """Nothing after it can be decompressed."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    if not (<Packed*>own).broken:
        if side.size:
            s.put_rest(f, end, why_text(why), mark)
        s.flush(f, end, why_text(why))
        s.begin_search(side, why)
        (<Packed*>own).broken = True
        packed_clear(s, own)
    side.missing += max(n, <int64_t>0)
    return True
