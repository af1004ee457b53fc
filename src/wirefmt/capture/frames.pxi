# Octets of a direction -> frames of its protocol -> rows; gaps, and the search for a frame boundary after them.
#
# Frames that do not cross packets are read in place; the beginning of a frame that does is kept until it is complete.
# After a gap, and if the capture began inside a stream, frames are read only from where a chain of valid ones begins
# (`look`): skipped octets are a `gap` row, never messages.
#
# The octets of a direction first go through its carriers, a list of layers (`carry`): each passes what it has decoded on to the
# one above it. Above all of them are the frames, or the recogniser while the protocol is not known. A carrier is a row of
# functions in a room of its own.

cdef enum:
    NEGOTIATED = 4              # carriers that protocols negotiate
    TLS_COUNTS = 16             # reasons why TLS is not decrypted

cdef enum Decrypts:             # is there any secret?
    DECRYPTS_NOTHING = 0
    DECRYPTS
    DECRYPTS_PERHAPS            # `secrets` is to be asked


cdef struct Recogniser:         # who finds the protocols of flows. `to` is the first argument of each
    void* to
    # the client's end of a flow that begins without a SYN, or -1
    int (*begins)(void* to, const Flow* f) noexcept nogil
    # octets of a direction that is not in STAGE_FRAMES
    void (*octets)(void* to, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil
    # `n` octets of it are missing. False: the batch is full; call again
    bint (*gap)(void* to, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil
    # it ends. True: its octets have told the protocol, and were read
    bint (*ends)(void* to, Flow* f, int end) noexcept nogil
    # octets of a flow that began before the capture and of which no frame was found yet. True: they were read
    bint (*late)(void* to, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil
    # frames of protocols[row - 1], one of `rows` of the flow, were found
    void (*found)(void* to, Flow* f, int row) noexcept nogil


# by the number of a carrier that protocols negotiate: from the next octet on, both directions are in it. `end` has sent the last
# frame. NULL: not known. It puts a few rows
cdef void (*begin_carrier[NEGOTIATED])(FrameStreams s, Flow* f, int end, const Mark* mark) noexcept nogil


@cython.no_gc_clear
cdef class FrameStreams(Streams):
    """The frames of flows whose protocol is known, or one of several, and the carriers around them."""

    cdef Recogniser recogniser
    cdef bint strict
    cdef int64_t max_inflated
    cdef object secrets                                 # keylog.Secrets; None: TLS is not decrypted
    cdef uint8_t decrypts                               # a Decrypts
    cdef int64_t[TLS_COUNTS] tls_flows                  # by reason: see carrier_tls.pxi
    cdef uint8_t* scratch                               # unmasked WebSocket payload: SEARCH_WINDOW octets

    def __cinit__(self, *args, **kwargs):
        self.scratch = <uint8_t*>malloc(SEARCH_WINDOW)
        if self.scratch == NULL:
            raise MemoryError

    def __dealloc__(self):
        self.tcp.counts_traffic = False                 # nobody takes these rows
        self.tcp.drop_flows()
        free(self.scratch)

    # ---- carriers ---------------------------------------------------------------------------------------------------

    cdef inline size_t carry(self, Flow* f, int end, SideLayer* above, const uint8_t* p, size_t n,
                             const Mark* mark) noexcept nogil:
        """Pass octets to a layer; NULL: to what is above all carriers. Returns the octets used: all, unless the batch is full or
        the flow is ignored."""
        if above != NULL:
            return above.carrier.octets(self, f, end, above, p, n, mark)
        if (<FlowState*>f.state).sides[end].stage == STAGE_FRAMES:
            return self.consume(f, end, p, n, mark)
        self.recogniser.octets(self.recogniser.to, f, end, p, n, mark)
        return n

    cdef bint carry_gap(self, Flow* f, int end, SideLayer* above, int64_t n, int why, const Mark* mark) noexcept nogil:
        """As `carry`: `n` octets are missing. False: the batch is full; call again."""
        if above != NULL:
            return above.carrier.gap(self, f, end, above, n, why, mark)
        if (<FlowState*>f.state).sides[end].stage == STAGE_FRAMES:
            return self.cross(f, end, n, why, mark)
        return self.recogniser.gap(self.recogniser.to, f, end, n, why, mark)

    cdef SideLayer* add_layer(self, Flow* f, int end, const Carrier* carrier) noexcept nogil:
        """A carrier above the present ones. NULL: out of memory, and the flow is dismissed."""
        cdef SideLayer* layer = <SideLayer*>calloc(1, carrier.size)
        cdef SideLayer** place = &(<FlowState*>f.state).sides[end].lowest
        if layer == NULL:
            self.memory.no_memory += 1
            self.dismiss(f, UNDECODED_UNKNOWN)
            return NULL
        self.memory.buffered += <int64_t>carrier.size + BLOCK_OCTETS
        layer.carrier = carrier
        while place[0] != NULL:
            place = &place[0].above
            layer.number += 1
        place[0] = layer
        return layer

    cdef void drop_layer(self, Side* side) noexcept nogil:
        """Remove the last carrier, if there is one."""
        cdef SideLayer** place = &side.lowest
        cdef SideLayer* layer
        while place[0] != NULL and place[0].above != NULL:
            place = &place[0].above
        layer = place[0]
        if layer == NULL:
            return
        place[0] = NULL
        if layer.carrier.clear != NULL:
            layer.carrier.clear(self, layer)
        self.memory.buffered -= <int64_t>layer.carrier.size + BLOCK_OCTETS
        free(layer)

    cdef int top(self, const Side* side) noexcept nogil:
        """The number of the layer above all carriers."""
        cdef const SideLayer* layer = side.lowest
        cdef int number = 0
        while layer != NULL:
            layer = layer.above
            number += 1
        return number

    cdef SideLayer* seeker(self, const Side* side) noexcept nogil:
        """The carrier whose boundary is searched for: the first that has lost it. NULL: frames are searched for."""
        cdef SideLayer* layer = side.lowest
        while layer != NULL and not layer.lost:
            layer = layer.above
        return layer

    cdef void resume_layers(self, Flow* f, int end, SideLayer* layer, const Mark* mark) noexcept nogil:
        """Finish what carriers have begun, the last one first."""
        if layer == NULL:
            return
        self.resume_layers(f, end, layer.above, mark)
        if layer.carrier.resume != NULL and not (f.ignored or (<FlowState*>f.state).unfinished):
            layer.carrier.resume(self, f, end, layer, mark)

    cdef bint change_carrier(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Have the frames so far negotiated a carrier? True: it has begun, and these octets after the frame, and those that the
        other end has already sent, were passed to it."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* other = &fs.sides[1 - end]
        cdef Side old
        cdef int carrier = fs.protocol.carrier(fs.state)
        cdef int layer = self.top(&fs.sides[end])
        cdef int others = self.top(other)
        if carrier == fs.negotiated or begin_carrier[carrier] == NULL:
            return False
        fs.negotiated = <uint8_t>carrier
        begin_carrier[carrier](self, f, end, mark)
        old = other[0]
        self.pass_again(f, end, layer, p, n, mark)
        if old.size and not other.searching and not f.ignored:
            other.pending = NULL
            other.size = other.capacity = other.need = 0
            self.pass_again(f, 1 - end, others, old.pending, old.size, &old.first)
            self.free_pending(&old)
        return True

    # ---- frames -----------------------------------------------------------------------------------------------------

    cdef size_t consume(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """The next octets of the protocol's stream. Octets used: all, unless the batch is full or the flow is ignored. If the
        flow is `unfinished` then, call `finish_event` before the next octets."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef const Protocol* protocol = fs.protocol
        cdef int direction = 0 if end == f.client else 1
        cdef MessageContext m
        cdef size_t at = 0
        cdef size_t size, k
        cdef int status
        cdef Fault fault
        if side.searching:
            self.search(f, end, p, n, mark)
            return n
        if side.skip or side.size:
            at = self.complete(f, end, p, n, mark)
            if fs.unfinished:
                return at
            if protocol.carrier != NULL and self.change_carrier(f, end, p + at, n - at, mark):
                return n
            if side.searching:
                if at < n:
                    self.search(f, end, p + at, n - at, mark)
                return n
        self.context(f, end, mark, mark, 0, 0, &m)
        while at < n and not self.is_full():
            m.byte_offset = side.offset
            if protocol.put_fast != NULL and self.memory.buffered + protocol.fast_buffered <= self.memory.max_buffered:
                size = protocol.put_fast(self.table, &m, fs.state, self.strict, p + at, n - at)
                if size:
                    side.offset += <int64_t>size
                    at += size
                    continue
            status = protocol.frame_size(fs.state, direction, p + at, n - at, 0, &size, &fault)
            if status == OK and size <= n - at:
                m.wire_size = <int64_t>size
                if not self.put(f, &m, p + at, size):
                    return at
                side.offset += <int64_t>size
                at += size
                if protocol.carrier != NULL and self.change_carrier(f, end, p + at, n - at, mark):
                    return n
            elif status == OK or status == NEED_DATA:
                side.first = mark[0]
                side.need = size if status == OK else 0
                if side.need > self.max_message:
                    k = min(n - at, <size_t>65536)      # enough for the part of a message that a limit allows
                    if not self.append(side, p + at, k) and not self.flush(f, end, b"limit"):
                        return at
                    if side.size or self.append(side, p + at, k):
                        self.give_up_frame(f, end, mark)
                        if fs.unfinished:
                            return at + k
                    else:
                        k = 0
                        self.pass_frame(f, end, mark)
                    side.skip -= <int64_t>(n - at - k)
                    side.offset += <int64_t>(n - at - k)
                    return n
                if not self.append(side, p + at, n - at):
                    self.lost_octets(f, end, p + at, n - at, mark)
                return n
            else:
                if not self.lose_boundary(f, end, &fault, mark):
                    return at
                self.search(f, end, p + at, n - at, mark)
                return n
        return at

    cdef size_t complete(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Take octets of the pending frame, or of the rest of one that was given up. Returns the octets used."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef size_t at = 0
        cdef size_t more = 1
        cdef size_t k
        while True:
            if side.skip:
                k = n - at if side.skip > <int64_t>(n - at) else <size_t>side.skip
                side.skip -= <int64_t>k
                side.offset += <int64_t>k
                return at + k                           # a frame is given up only if nothing is pending
            if side.size == 0 or at == n:
                return at
            k = min(n - at, side.need - side.size if side.need else more)
            if not self.append(side, p + at, k):
                if side.need:
                    side.over = True
                    self.give_up_frame(f, end, mark)
                    if fs.unfinished:
                        return at
                    continue
                self.lost_octets(f, end, p + at, n - at, mark)
                return n
            at += k
            more = self.settle_frame(f, end, mark)
            if more == 0 and (fs.unfinished or not side.skip):
                return at

    cdef size_t settle_frame(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """Put the pending octets if they are a whole frame; give them up if they cannot become one. Returns how many more
        octets are needed; 0: nothing is pending any more, or the batch is full."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef MessageContext m
        cdef size_t size = 0
        cdef int status
        cdef Fault fault
        if side.need == 0:
            status = fs.protocol.frame_size(fs.state, 0 if end == f.client else 1, side.pending, side.size, 0, &size, &fault)
            if status == NEED_DATA and size <= self.max_message:
                return max(size, side.size + 1) - side.size
            if status != OK and status != NEED_DATA:
                if self.lose_boundary(f, end, &fault, mark):
                    self.keep_origin(side, 0, side.size, &side.first)
                else:
                    side.settling = fs.unfinished = True
                return 0
            side.need = size
        if side.over or side.need > self.max_message:
            self.give_up_frame(f, end, mark)
            return 0
        if side.size < side.need:
            return side.need - side.size
        self.context(f, end, &side.first, mark, side.offset, <int64_t>side.size, &m)
        if not self.put(f, &m, side.pending, side.size):
            side.settling = fs.unfinished = True
            return 0
        side.offset += <int64_t>side.size
        self.free_pending(side)
        return 0

    cdef inline bint put(self, Flow* f, const MessageContext* m, const uint8_t* p, size_t size) noexcept nogil:
        """Put rows for a whole frame. The pending messages that the protocol keeps must not exceed the limit. False: the batch
        was full before the last row; call again with the same frame."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef bint done = fs.protocol.put(self.table, m, fs.state, self.strict, p, size)
        self.count_buffered(fs)
        if self.memory.buffered > self.memory.max_buffered and done:
            fs.limiting = True
            fs.limit_rows = self.table.all_rows
            self.flush_for_limit(f)
        return done

    cdef void flush_for_limit(self, Flow* f) noexcept nogil:
        """Put `partial` rows for the pending messages that the protocol keeps."""
        cdef FlowState* fs = <FlowState*>f.state
        if not (self.flush(f, 0, b"limit") and self.flush(f, 1, b"limit")):
            fs.unfinished = True
            return
        fs.limiting = False
        if self.table.all_rows != fs.limit_rows:
            self.seen.messages_limited += 1

    cdef void give_up_frame(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """The pending frame exceeds a limit: put a row of its beginning and skip the rest."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef int64_t rest = <int64_t>(side.need - side.size)
        if not self.put_rest(f, end, b"limit", mark):
            side.settling = fs.unfinished = True
            return
        side.over = False
        self.seen.messages_limited += 1
        side.skip = rest

    cdef void pass_frame(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """As give_up_frame, but not even the beginning of the frame can be kept: all of it is a gap."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        self.seen.messages_limited += 1
        side.why = WHY_LIMIT
        side.skip = side.missing = <int64_t>side.need
        self.put_gap(f, end, 0, mark)
        side.offset -= side.skip
        side.need = 0

    cdef void lost_octets(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Octets for which there is no memory."""
        self.seen.messages_limited += 1
        (<FlowState*>f.state).sides[end].lost = <int64_t>n
        self.cross_lost(f, end, mark)

    cdef void cross_lost(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        if self.cross(f, end, side.lost, WHY_LIMIT, mark):
            side.lost = 0
        else:
            fs.unfinished = True

    cdef bint finish_event(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """Finish what an earlier call of the present event has begun before the batch was full. False: it is full again."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef Side* other = &fs.sides[1 - end]
        fs.unfinished = False
        if fs.limiting:
            self.flush_for_limit(f)
        if other.reading and not fs.unfinished:
            self.look(f, 1 - end, other.final)
        if side.decided and not fs.unfinished:
            self.read_decided(f, end, side.final)
        if side.reading and not fs.unfinished:
            self.look(f, end, side.final)
        if side.lost and not fs.unfinished:
            self.cross_lost(f, end, mark)
        if side.settling and not fs.unfinished:
            side.settling = False
            self.settle_frame(f, end, mark)
        if side.lowest != NULL and not fs.unfinished:
            self.resume_layers(f, end, side.lowest, mark)
        return not fs.unfinished and not self.is_full()

    # ---- gaps, and frame boundaries after them --------------------------------------------------------------------------

    cdef bint cross(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        """`n` octets of the protocol's stream are missing. False: the batch is full; call again."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef int64_t rest, k
        if side.searching and side.size:
            self.look(f, end, True)
            if self.is_full():
                return False
        if side.searching:
            self.pass_over(side, side.size)
            if side.why < 0:
                side.why = <int8_t>why
            side.missing += n
            side.search.credit = 0
            return True
        side.why = <int8_t>why
        if side.size:
            rest = <int64_t>(side.need - side.size) if side.need else 0
            if not self.put_rest(f, end, why_text(why), mark):
                return False
            side.skip = rest
        if not self.flush(f, end, why_text(why)):
            return False
        if side.skip:                                   # a gap inside a frame of known size
            k = min(n, side.skip)
            side.missing = k
            self.put_gap(f, end, 0, mark)
            side.skip -= k
            n -= k
            if n == 0:
                return True
        self.begin_search(side, why)
        side.missing = n
        return True

    cdef bint lose_boundary(self, Flow* f, int end, const Fault* fault, const Mark* mark) noexcept nogil:
        """The next octets are not a frame: put a row with the reason, then search for a boundary. False: the batch was full."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef char text[256]
        cdef int size = fault_text(fs.protocol.tables, fault, 0, text, sizeof(text))
        text[size] = 0
        if not self.flush(f, end, why_text(WHY_NO_FRAME)):
            return False
        self.put_fault(f, end, ROW_MALFORMED, text, mark)
        self.begin_search(side, WHY_NO_FRAME)
        side.search.at = 1                                     # not at the first octet
        return True

    cdef void lose_boundary_in_window(self, Flow* f, int end, int origin, const Fault* fault) noexcept nogil:
        """As lose_boundary, but the window remains. Nothing is left to flush."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef int count = side.search.origin_count
        cdef int64_t credit = side.search.credit
        cdef Mark mark = side.search.origins[0].mark
        self.lose_boundary(f, end, fault, &mark)
        side.search.origin_count = count
        side.search.credit = credit

    cdef void search(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Search more octets for a boundary."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef Side* other = &fs.sides[1 - end]
        if side.why < 0 and side.lowest == NULL and side.offset == 0 and other.offset == 0 and other.searching \
                and self.recogniser.late(self.recogniser.to, f, end, p, n, mark):
            return
        if not self.keep_origin(side, side.size, n, mark) or not self.append(side, p, n):
            self.pass_over(side, side.size)
            self.lost_octets(f, end, p, n, mark)
            return
        if extend_search(&side.search, n, side.size):
            self.look(f, end, False)

    cdef void look(self, Flow* f, int end, bint final) noexcept nogil:
        """Search the window for a boundary, and read from there. `final`: no more octets follow; if the batch is full after it,
        the event is called again and looks again."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef SideLayer* seeker = self.seeker(side)
        if fs.protocol == NULL:
            if self.decide(f, end, final):
                return
        else:
            while side.reading or self.find(f, end, final):
                if not side.reading and seeker != NULL:
                    seeker.carrier.found(self, f, end, seeker)
                    if final and not f.ignored and not self.is_full() and side.searching and side.size:
                        self.look(f, end, True)
                    return
                if not self.read_window(f, end):
                    side.final = final
                    fs.unfinished = True
                    return
                if not side.searching:
                    return
        self.pass_over(side, searched_octets(&side.search, side.size))

    cdef bint find(self, Flow* f, int end, bint final) noexcept nogil:
        """Is there a boundary in the window? It is at pending[side.search.at]."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef const SideLayer* seeker = self.seeker(side)
        cdef Sought sought
        sought.protocol = fs.protocol
        sought.state = fs.state
        sought.direction = 0 if end == f.client else 1
        sought.carried = seeker.carrier.sought if seeker != NULL else NULL
        sought.scratch = self.scratch
        sought.deflate = fs.deflate != WS_PLAIN
        sought.credit = &side.search.credit
        return find_boundary(&side.search, side.pending, side.size, &sought, final)

    cdef bint read_window(self, Flow* f, int end) noexcept nogil:
        """Frames begin at pending[at]: put a gap row, then read them. The last one may be truncated and is then pending again.
        False: the batch is full; call again."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef const Protocol* protocol = fs.protocol
        cdef int direction = 0 if end == f.client else 1
        cdef MessageContext m
        cdef size_t at = side.search.at
        cdef size_t size = 0
        cdef int first = 0
        cdef int last = 0
        cdef int status = NEED_DATA
        cdef Fault fault
        if not side.reading:
            while first + 1 < side.search.origin_count and side.search.origins[first + 1].at <= at:
                first += 1
            self.put_gap(f, end, <int64_t>at, &side.search.origins[first].mark)
            side.searching = False
            side.reading = True
            while (protocol.frame_size(fs.state, direction, side.pending + at, side.size - at, 0, &size, &fault) == OK
                   and size <= side.size - at):
                if protocol.observe != NULL:
                    protocol.observe(fs.state, direction, side.pending + at, size)
                at += size
            at = side.search.at
        last = first
        while at < side.size:
            side.search.at = at
            if self.is_full():
                return False
            while first + 1 < side.search.origin_count and side.search.origins[first + 1].at <= at:
                first += 1
            status = protocol.frame_size(fs.state, direction, side.pending + at, side.size - at, 0, &size, &fault)
            if status == NEED_DATA or (status == OK and size > side.size - at):
                break
            if status != OK:
                if not self.flush(f, end, why_text(WHY_NO_FRAME)):
                    return False
                side.reading = False
                self.shift(side, at)
                self.lose_boundary_in_window(f, end, first, &fault)
                return True
            while last + 1 < side.search.origin_count and side.search.origins[last + 1].at < at + size:
                last += 1
            self.context(f, end, &side.search.origins[first].mark, &side.search.origins[last].mark, side.offset,
                         <int64_t>size, &m)
            if not self.put(f, &m, side.pending + at, size):
                return False
            side.offset += <int64_t>size
            at += size
        side.reading = False
        if at < side.size:
            side.first = side.search.origins[first].mark
        memmove(side.pending, side.pending + at, side.size - at)
        side.size -= at
        side.need = size if status == OK and side.size else 0
        if side.size == 0:
            self.free_pending(side)
        self.free_origins(side)
        return True

    # ---- one of several protocols -----------------------------------------------------------------------------------

    cdef bint decide(self, Flow* f, int end, bint final) noexcept nogil:
        """Find a boundary in this direction, and so its protocol, the first if there are several. True: it is now known, and the
        pending octets of both directions were read."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef int found = find_any_boundary(&side.search, side.pending, side.size, fs.rows, 0 if end == f.client else 1, final)
        if found == 0:
            return False
        self.recogniser.found(self.recogniser.to, f, found)
        if not f.ignored:
            side.decided = True
            side.final = final
            self.read_decided(f, 1 - end, False)
            if self.is_full():
                fs.unfinished = True
            else:
                self.read_decided(f, end, final)
        return True

    cdef void read_decided(self, Flow* f, int end, bint final) noexcept nogil:
        """Read a direction's window after the protocol was found: from its first octet, if the stream begins there."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        side.decided = False
        restart_search(&side.search)
        if f.streams[end].anchored and side.offset == 0 and side.missing == 0 and side.skipped == 0:
            if side.size == 0:
                side.searching = False
            elif not self.read_window(f, end):
                side.final = final
                fs.unfinished = True
                return
        if side.searching and side.size:
            self.look(f, end, final)
