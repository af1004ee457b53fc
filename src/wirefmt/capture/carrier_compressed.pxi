# Compressed streams as carriers, which protocols negotiate: what is in them out. unpack.pxi decompresses them.

cdef enum:
    REASON_MOST = 120           # octets of the reason why a stream cannot be decompressed


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
    if (<Packed*>own).unpacker != NULL:
        drop_unpacker(s, own)


cdef void drop_unpacker(FrameStreams s, SideLayer* own) noexcept with gil:
    cdef Packed* packed = <Packed*>own
    s.memory.buffered -= (<Unpacker>packed.unpacker).counted
    Py_XDECREF(packed.unpacker)
    packed.unpacker = NULL


cdef size_t packed_octets(FrameStreams s, Flow* f, int end, SideLayer* own, const uint8_t* p, size_t n,
                          const Mark* mark) noexcept with gil:
    """Decompress octets and pass on the result. All are used, because the unpacker keeps them."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Packed* packed = <Packed*>own
    cdef Unpacker u
    if packed.broken:
        fs.sides[end].skipped += <int64_t>n
        return n
    s.seen.carrier_octets += <int64_t>n
    u = <Unpacker>packed.unpacker
    try:
        if n:
            u.feed(p, n)
        while not f.ignored and u.next():
            if u.given > s.max_inflated and u.given // UNPACKED_RATIO > u.taken:
                s.seen.messages_limited += 1
                raise ValueError("limit of the decompressed size")
            if s.is_full():
                fs.unfinished = True
                break
            u.used += s.carry(f, end, own.above, <const uint8_t*>PyBytes_AS_STRING(u.piece) + u.used,
                              <size_t>PyBytes_GET_SIZE(u.piece) - u.used, mark)
        s.memory.buffered += u.count()
    except MemoryError:
        s.memory.no_memory += 1
    except Exception as error:
        text = f"compressed: {error}".encode("ascii", "replace")[:REASON_MOST]
        break_off(s, f, end, own, PyBytes_AS_STRING(text), mark)
    return n


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
