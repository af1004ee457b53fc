# Encodings of a stream of frames: WebSocket, compression, and TLS that begins inside a stream.

cdef enum:
    REASON_MOST = 120           # octets of the reason why a stream cannot be decompressed


cdef class CarriedStreams(FrameStreams):
    """Decodes streams inside other streams."""

    cdef int64_t max_inflated

    # ---- WebSocket --------------------------------------------------------------------------------------------------

    cdef size_t unwrap(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Pass on the payload of data frames of a WebSocket, skip other frames. Returns the octets used."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef WebSocket* w = side.socket
        cdef size_t at = 0
        cdef size_t k
        while at < n and not f.ignored and not self.is_full():
            if w.lost:
                self.search(f, end, p + at, n - at, mark)
                return n
            if w.left == 0:
                k = ws_header(w, p + at, n - at)
                at += k
                if w.need:
                    self.seen.carrier_octets += <int64_t>k
                    continue
                if not ws_usual(w):
                    self.seen.carrier_octets -= <int64_t>(w.have - k)
                    self.put_malformed(f, end, b"WebSocket: not the header of a frame", mark)
                    self.lose_header(f, end, mark)
                    continue
                self.seen.carrier_octets += <int64_t>k
                if w.left == 0:
                    continue
                if w.compressed and w.data:
                    self.put_malformed(f, end, b"compressed WebSocket message (RSV1): not decoded", mark)
                    self.dismiss(f, UNDECODED_COMPRESSED)
                    break
            k = min(n - at, <size_t>65536)
            if k > w.left:
                k = <size_t>w.left
            if not w.data:
                self.seen.carrier_octets += <int64_t>k
            elif w.masked:
                unmask(w, p + at, k, self.scratch)
                k = self.consume(f, end, self.scratch, k, mark)
            else:
                k = self.consume(f, end, p + at, k, mark)
            w.left -= k
            w.at += k
            at += k
        if f.ignored:
            self.on_ignored(f, 0, <int64_t>(n - at))
            return n
        return at

    cdef void drop_socket(self, Side* side) noexcept nogil:
        if side.socket != NULL:
            self.memory.buffered -= sizeof(WebSocket) + BLOCK_OCTETS
            free(side.socket)
            side.socket = NULL

    cdef bint lose_socket(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        """`n` octets are missing, possibly with frame headers, or a header is invalid. How many octets of the protocol's stream
        are missing is not known. The next frame is searched for: see chain. False: the batch is full; call again."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        if not self.is_full() and side.searching and side.size:
            self.look(f, end, True)
        if f.ignored:
            return True
        if self.is_full():
            return False
        if side.searching:
            self.pass_over(side, side.size)
        else:
            if (side.size and not self.put_rest(f, end, why_text(why), mark)) or not self.flush(f, end, why_text(why)):
                return False
            self.begin_search(side, why)
        side.missing += n
        side.search.credit = 0
        side.socket.lost = True
        if why == WHY_NO_FRAME:                         # octets that are not a header are skipped
            side.skipped += side.socket.have
        return True

    cdef void lose_header(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """The header of a frame is invalid."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef WebSocket* w = fs.sides[end].socket
        w.broken = not self.lose_socket(f, end, 0, WHY_NO_FRAME, mark)
        if w.broken:
            fs.unfinished = True

    cdef void resume_socket(self, Flow* f, int end) noexcept nogil:
        """WebSocket frames begin at pending[at]: earlier octets are part of the gap, the rest is read."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        self.pass_over(side, side.search.at)
        memset(side.socket, 0, sizeof(WebSocket))
        self.replay(f, end)

    # ---- compressed streams, and those that end in TLS --------------------------------------------------------------

    cdef bint changes_carrier(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """Change the stream encoding if the frames so far have negotiated it; it applies from the next octet."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef int carrier = fs.protocol.carrier(fs.state)
        cdef int i
        if carrier == fs.carrier:
            return False
        fs.carrier = <uint8_t>carrier
        if carrier == CARRIER_TLS:
            self.put_gap_row(f, end, b"TLS from here on: not decoded", mark)       # words: ok
            self.dismiss(f, UNDECODED_TLS)
            return True
        for i in range(2):
            self.open_unpacker(f, i, mark)
        return True

    cdef void carry_on(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Read the octets after the frame that changed the stream encoding, and those that the other end has already sent."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* other = &fs.sides[1 - end]
        cdef Side old = other[0]
        if f.ignored:
            self.on_ignored(f, 0, <int64_t>n)
            return
        if n:
            self.tcp.pass_octets(f, end, p, n, mark)
        if old.size and not other.searching and not f.ignored:
            other.pending = NULL
            other.size = other.capacity = other.need = 0
            self.tcp.pass_octets(f, 1 - end, old.pending, old.size, &old.first)
            self.free_pending(&old)

    cdef void open_unpacker(self, Flow* f, int end, const Mark* mark) noexcept with gil:
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef Unpacker u
        side.stage = STAGE_PACKED
        if side.searching or side.skip:                 # its beginning is not known
            if not side.searching:
                self.begin_search(side, WHY_NO_FRAME)
            side.broken = True
            return
        if self.memory.buffered + UNPACKER_OCTETS > self.memory.max_buffered:
            self.seen.messages_limited += 1
            self.break_off(f, end, b"compressed: limit", mark)
            return
        try:
            u = Unpacker(fs.carrier)
        except ImportError:
            self.break_off(f, end, b"compressed with snappy: to read it install cramjam (wirefmt[snappy])", mark)
            return
        except BaseException:
            self.memory.no_memory += 1
            side.broken = True
            return
        Py_INCREF(u)
        side.unpacker = <PyObject*>u
        self.memory.buffered += u.count()

    cdef void drop_unpacker(self, Side* side) noexcept with gil:
        self.memory.buffered -= (<Unpacker>side.unpacker).counted
        Py_XDECREF(side.unpacker)
        side.unpacker = NULL

    cdef size_t unpack(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept with gil:
        """Decompress octets and pass on the result. Returns the octets used: all, because the unpacker keeps them. No octets:
        continue with those that it keeps."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef Unpacker u
        if side.broken:
            side.skipped += <int64_t>n
            return n
        self.seen.carrier_octets += <int64_t>n
        u = <Unpacker>side.unpacker
        try:
            if n:
                u.feed(p, n)
            while not f.ignored and u.next():
                if u.given > self.max_inflated and u.given // UNPACKED_RATIO > u.taken:
                    self.seen.messages_limited += 1
                    raise ValueError("limit of the decompressed size")
                if self.is_full():
                    fs.unfinished = True
                    break
                u.used += self.consume(f, end, <const uint8_t*>PyBytes_AS_STRING(u.piece) + u.used,
                                       <size_t>PyBytes_GET_SIZE(u.piece) - u.used, mark)
            self.memory.buffered += u.count()
        except MemoryError:
            self.memory.no_memory += 1
        except Exception as error:
            text = f"compressed: {error}".encode("ascii", "replace")[:REASON_MOST]
            self.break_off(f, end, PyBytes_AS_STRING(text), mark)
        return n

    cdef void break_off(self, Flow* f, int end, const char* text, const Mark* mark) noexcept nogil:
        """Put a row with the reason why a direction is not decompressed any more, and skip the octets that follow."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        if side.size:
            self.put_rest(f, end, text, mark)           # a protocol with carriers puts one row
        else:
            self.put_malformed(f, end, text, mark)
        self.begin_search(side, WHY_NO_FRAME)
        side.broken = True
        if side.unpacker != NULL:
            self.drop_unpacker(side)

    cdef void lose_packed(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        """A gap in a compressed stream: nothing after it can be decompressed."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        if not side.broken:
            if side.size:
                self.put_rest(f, end, why_text(why), mark)
            self.flush(f, end, why_text(why))
            self.begin_search(side, why)
            side.broken = True
            if side.unpacker != NULL:
                self.drop_unpacker(side)
        side.missing += n
