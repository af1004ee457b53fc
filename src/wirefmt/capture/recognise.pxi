# The protocol of a flow: by the first octets of its client, by ports, by the handshake of a WebSocket, or by the frames of one
# of several protocols.

cdef enum:
    # octets of a connection that are searched for WebSocket frames or their handshake: it began before the capture, on an
    # unregistered port, or with other uses of HTTP
    LATE_SEARCH = 1 << 20
    LATE_KEPT = 1 << 12                 # octets of its last packets that are kept meanwhile, of each direction
    # so much of it must be whole, valid frames, packet by packet, on an unregistered port
    LATE_FRAMES = 3
    LATE_OCTETS = 12


@cython.final
cdef class Recognition:
    """Finds the protocols of flows: the Recogniser of `streams`."""

    cdef FrameStreams streams
    cdef uint32_t wanted                                # protocols, one bit per row
    cdef uint32_t port_rows[65536]                      # protocols with this port, one bit per row
    cdef uint8_t port_forced[65536]                     # row + 1, from decode_as; 0: none

    cdef inline bint port_is_known(self, uint16_t port) noexcept nogil:
        return self.port_forced[port] or self.port_rows[port]

    cdef uint32_t by_port(self, Flow* f) noexcept nogil:
        """The protocols, one bit per row, of the ports of both ends; a port in decode_as decides alone."""
        cdef int forced = self.port_forced[f.port[1]] if self.port_forced[f.port[1]] else self.port_forced[f.port[0]]
        if forced:
            return <uint32_t>1 << (forced - 1)
        return self.port_rows[f.port[1]] if self.port_rows[f.port[1]] else self.port_rows[f.port[0]]

    cdef inline bint is_forced(self, const Flow* f) noexcept nogil:
        return self.port_forced[f.port[0]] or self.port_forced[f.port[1]]

    cdef inline bint began_late(self, const Flow* f, int end) noexcept nogil:
        """Are the first octets of this direction unknown?"""
        cdef const Side* side = &(<FlowState*>f.state).sides[end]
        return not f.streams[end].anchored or side.missing or side.skipped

    cdef inline bint begins_inside(self, const Flow* f, int end) noexcept nogil:
        """May the next octets of this direction begin inside a stream?"""
        return (<FlowState*>f.state).sides[end].opening.upgraded or self.began_late(f, end)

    cdef inline int client_of(self, Flow* f) noexcept nogil:
        """The client's end; if it is unknown, the end with an unregistered port."""
        if f.client >= 0:
            return f.client
        return 0 if self.port_is_known(f.port[1]) or not self.port_is_known(f.port[0]) else 1

    cdef inline void read(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Pass octets of a direction on again, now that more is known."""
        self.streams.pass_again(f, end, (<FlowState*>f.state).sides[end].opening.layer, p, n, mark)

    cdef inline void read_again(self, Flow* f, int end, size_t head) noexcept nogil:
        """As `read`, for the octets that were kept, without the first `head`."""
        self.streams.replay(f, end, (<FlowState*>f.state).sides[end].opening.layer, head)

    cdef void take(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """The first octets of a direction. They are kept until they or the other direction identify the protocol."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef const uint8_t* first = p
        cdef size_t size = n
        cdef size_t head = 0
        cdef bint kept
        cdef int found, row
        side.opening.layer = self.streams.top(side)
        if side.opening.foreign:
            if (fs.http or self.began_late(f, end)) and looks_like_http(p, n) == YES:
                self.streams.pass_over(side, side.size)
                side.opening.foreign = False
            else:
                if not (side.opening.upgraded or self.began_late(f, end)):
                    self.keep_first(f, end, p, n, mark)
                elif not find_socket(self, f, end, p, n, mark):
                    row = self.late_frames(f, end, p, n)
                    if row == 0:
                        self.keep_first(f, end, p, n, mark)
                    else:
                        self.read_late(f, end, row, p, n, mark)
                return
        kept = side.size != 0
        if kept:
            if not self.streams.keep_origin(side, side.size, n, mark) or not self.streams.append(side, p, n):
                self.streams.dismiss(f, UNDECODED_UNKNOWN)
                self.streams.on_ignored(f, 0, <int64_t>n)
                return
            first = side.pending
            size = side.size
        found = self.opens(f, end, first, size, mark, &head)
        if f.ignored:
            if not kept:
                self.streams.on_ignored(f, 0, <int64_t>n)
        elif found == YES:                              # the octets are owned here: detach them, then read them
            if kept:
                self.read_again(f, end, head)
            elif n > head:
                self.read(f, end, p + head, n - head, mark)
            self.read_again(f, 1 - end, 0)
        else:
            if found == NO:
                self.set_foreign(f, end)
            if f.ignored:
                if not kept:
                    self.streams.on_ignored(f, 0, <int64_t>n)
            elif not kept:
                self.keep_first(f, end, p, n, mark)

    cdef void keep_first(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Octets that do not identify the protocol yet: the other direction, or more of them, may. They are kept up to a limit
        and skipped after it."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        if side.opening.foreign and not f.streams[end].anchored and not fs.http:
            if side.size + n > LATE_KEPT:
                self.streams.pass_over(side, side.size)
            if n > LATE_KEPT or self.streams.memory.buffered > self.streams.memory.max_buffered // 4 \
                    or not self.streams.keep_origin(side, side.size, n, mark) or not self.streams.append(side, p, n):
                self.streams.pass_over(side, side.size)
                side.skipped += <int64_t>n
            if fs.sides[0].skipped + fs.sides[1].skipped > LATE_SEARCH:
                self.streams.dismiss(f, UNDECODED_UNKNOWN)
            return
        if side.skipped == 0 and side.missing == 0 and not (side.opening.foreign and fs.sides[1 - end].opening.foreign) \
                and side.size + n <= <size_t>(FIRST_KEPT if side.opening.foreign else SEARCH_WINDOW) \
                and (not side.opening.foreign or self.streams.memory.buffered < self.streams.memory.max_buffered // 4) \
                and self.streams.keep_origin(side, side.size, n, mark) and self.streams.append(side, p, n):
            return
        if self.answers(f, end):
            self.read(f, end, p, n, mark)
            return
        self.streams.pass_over(side, side.size)
        side.skipped += <int64_t>n
        if not side.opening.foreign:
            self.set_foreign(f, end)
        if fs.sides[0].skipped + fs.sides[1].skipped > LATE_SEARCH and (fs.http or self.began_late(f, f.client == 1)):
            self.streams.dismiss(f, UNDECODED_UNKNOWN)

    cdef void set_foreign(self, Flow* f, int end) noexcept nogil:
        """This direction does not begin as a client of a known protocol. If it is the client's, or neither does, the connection
        is not decoded; one whose beginning was not captured, or is HTTP, may still be a WebSocket."""
        cdef FlowState* fs = <FlowState*>f.state
        fs.sides[end].opening.foreign = True
        if not (fs.http or self.began_late(f, end)):
            if end == f.client or (fs.sides[1 - end].opening.foreign and not self.began_late(f, 1 - end)):
                self.streams.dismiss(f, UNDECODED_UNKNOWN)
        elif fs.sides[1 - end].opening.foreign and (fs.http or f.streams[1 - end].anchored):
            self.streams.pass_over(&fs.sides[1 - end], fs.sides[1 - end].size)

    cdef int late_frames(self, Flow* f, int end, const uint8_t* p, size_t n) noexcept nogil:
        """A packet of a connection on an unregistered port that began before the capture. Row + 1 of the protocol, once several
        packets in a row have been whole, valid frames of it; 0: not yet. Its frames say which end is the client; if those of both
        may, it is the one with the higher port."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Opening* opening = &fs.sides[end].opening
        cdef uint32_t frames, most = 0
        cdef size_t at, step
        cdef int i, direction, verdict
        cdef bint sent
        if self.by_port(f) or fs.http:
            return 0
        if opening.likely_frames == 0:
            opening.likely[0] = opening.likely[1] = ALL_ROWS
        for direction in range(2):
            if f.client >= 0 and direction != (0 if end == f.client else 1):
                opening.likely[direction] = 0
            for i in range(PROTOCOLS):
                at = step = 0
                frames = 0
                verdict = YES if opening.likely[direction] >> i & 1 else NO
                while verdict == YES and at < n:
                    verdict = protocols[i].probe(NULL, direction, p + at, n - at, &step)
                    at += step
                    frames += 1
                if verdict == YES:
                    most = max(most, frames)
                else:
                    opening.likely[direction] &= ~(<uint32_t>1 << i)
        sent = (opening.likely[0] | opening.likely[1]) != 0
        opening.likely_frames = opening.likely_frames + most if sent else 0
        opening.likely_octets = opening.likely_octets + <uint32_t>min(n, <size_t>LATE_OCTETS) if sent else 0
        if opening.likely_frames < LATE_FRAMES or opening.likely_octets < LATE_OCTETS:
            return 0
        i = first_row(opening.likely[0] | opening.likely[1])
        if f.client < 0:
            sent = opening.likely[0] >> (i - 1) & 1
            if sent and opening.likely[1] >> (i - 1) & 1:
                sent = f.port[end] > f.port[1 - end]
            f.client = <int8_t>(end if sent else 1 - end)
        return i

    cdef void read_late(self, Flow* f, int end, int row, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Its protocol is known: read what was kept, this packet, and what was kept of the other direction."""
        self.set_protocol(f, row)
        self.read_again(f, end, 0)
        self.read(f, end, p, n, mark)
        self.read_again(f, 1 - end, 0)

    cdef int opens(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark, size_t* head) noexcept nogil:
        """What begins with these octets? A Verdict; YES: those after the first `head` are to be read again."""
        cdef bint more = False
        cdef int i, verdict
        for i in range(OPENINGS):
            verdict = openings[i](self, f, end, p, n, mark, head)
            if verdict == YES:
                return YES
            if verdict == REFUSED:
                return NO
            if verdict == WAITS:
                return MORE
            more = more or verdict == MORE
        return self.guess(f, end, p, n, more)

    cdef int guess(self, Flow* f, int end, const uint8_t* p, size_t n, bint more) noexcept nogil:
        """A Verdict; YES: the flow has its protocol and both directions read frames. `more`: the octets may be something else."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef uint32_t rows = self.by_port(f)
        cdef bint forced = self.is_forced(f)
        cdef const Side* side = &fs.sides[end]
        cdef bint late = self.begins_inside(f, end)
        cdef int i = 0, verdict
        if side.opening.upgraded:
            return MORE if more else NO
        verdict = NO if forced else sniff_rows(ALL_ROWS, p, n, &i)
        if verdict == YES or verdict == SERVERS:
            if f.client < 0 or not (rows or protocols[i].both_open):
                f.client = <int8_t>(end if verdict == YES else 1 - end)
            self.set_protocol(f, i + 1)
            if fs.sides[end].missing == 0 and fs.sides[end].skipped == 0:
                fs.sides[end].searching = False     # it begins here, even without a SYN
            return YES
        if is_one(rows) and not more and (late or forced):
            self.set_protocol(f, first_row(rows))
            return YES
        if more or verdict == MORE:
            return MORE
        if not late:                                    # a stream from its start begins as its protocol does
            return NO
        if not rows:
            i = self.late_frames(f, end, p, n)
            if i:
                self.set_protocol(f, i)
            return YES if i else NO
        self.await_protocol(f, rows)
        return NO if f.ignored else YES

    cdef bint answers(self, Flow* f, int end) noexcept nogil:
        """No octets of the client are known. Those of the server are read if they are frames of a protocol of its port, from the
        first one on. True: they were read."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef const Side* other = &fs.sides[1 - end]
        cdef uint32_t rows = self.by_port(f)
        cdef size_t at, step
        cdef int i, verdict
        if not side.opening.foreign or end == f.client or side.missing or side.skipped or other.size or other.skipped \
                or other.opening.foreign:
            return False
        for i in range(PROTOCOLS):
            at = step = 0
            verdict = YES if rows >> i & 1 else NO
            while verdict == YES and at < side.size:
                verdict = protocols[i].probe(NULL, 1, side.pending + at, side.size - at, &step)
                at += step if verdict == YES else 0
            if at and verdict != NO:
                self.set_protocol(f, i + 1)
                self.read_again(f, end, 0)
                return True
        return False

    cdef bint gap(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        """`n` octets of a direction are missing before its protocol is known. False: the batch is full; call again."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        if side.stage == STAGE_HTTP and fs.protocol != NULL:
            lose_handshake(self, f, end, n, why)
            return True
        if side.stage == STAGE_TUNNEL and fs.protocol != NULL:
            self.streams.pass_over(side, side.size)
            side.missing += n
            side.why = <int8_t>why
            side.stage = STAGE_START
            self.begin_frames(f)
            return True
        side.stage = STAGE_START
        if end != f.client and self.answers(f, end):
            return f.ignored or (not self.streams.is_full() and self.streams.carry_gap(f, end, NULL, n, why, mark))
        self.streams.pass_over(side, side.size)         # too few octets to be read
        side.missing += n
        side.why = <int8_t>why
        if not self.by_port(f):
            self.set_foreign(f, end)
        return True

    cdef void set_protocol(self, Flow* f, int row) noexcept nogil:
        """Both directions now read frames of protocols[row - 1]; one without its beginning, after a search. Flows of protocols
        outside of `wanted` end here: it has no effect on what is recognised."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef const Proxied* header
        cdef MessageContext m
        cdef int end
        if not self.wanted >> (row - 1) & 1:
            self.streams.dismiss(f, UNDECODED_UNKNOWN)
            return
        fs.protocol = &protocols[row - 1]
        fs.state = open_state(fs.protocol)
        if fs.state == NULL:
            self.streams.memory.no_memory += 1
            fs.protocol = NULL
            self.streams.dismiss(f, UNDECODED_UNKNOWN)
            return
        self.streams.count_buffered(fs)
        fs.rows = 0
        for end in range(2):
            fs.sides[end].opening.foreign = False
            self.streams.free_candidates(&fs.sides[end])
        self.begin_frames(f)
        header = fs.proxied
        while header != NULL:
            self.streams.context(f, f.client, &header.first, &header.last, header.at, <int64_t>header.size, &m)
            if header.tunnel:
                put_asked(self.streams.table, &m, &fs.protocol.name, header.tunnel, <const Asked*>header.more)
            else:
                put_header(self.streams.table, &m, &fs.protocol.name, header)
            header = header.next
        self.streams.drop_proxied(fs)

    cdef void begin_frames(self, Flow* f) noexcept nogil:
        """Leave the first stage. The pending octets are searched, or begin the first frame."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side
        cdef int64_t missing, skipped
        cdef int end
        f.client = <int8_t>self.client_of(f)
        for end in range(2):
            side = &fs.sides[end]
            if side.stage != STAGE_START:
                continue
            side.stage = STAGE_FRAMES
            missing = side.missing                      # a gap before the protocol was known
            skipped = side.skipped
            if missing or skipped or fs.protocol == NULL or not f.streams[end].anchored:
                self.begin_search_again(side, side.why if missing else -1 if not f.streams[end].anchored else
                                        WHY_LIMIT if skipped else WHY_NO_FRAME)
                side.missing = missing
                side.skipped = skipped

    cdef void begin_search_again(self, Side* side, int why) noexcept nogil:
        """Begin a search in which the pending octets are replayed."""
        cdef int origins = side.search.origin_count
        self.streams.begin_search(side, why)
        side.search.origin_count = origins

    # ---- one of several protocols -----------------------------------------------------------------------------------

    cdef void await_protocol(self, Flow* f, uint32_t rows) noexcept nogil:
        """Both directions are searched for a boundary of any of these protocols: see decide."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef int end
        fs.rows = rows
        for end in range(2):
            fs.sides[end].search.candidates = <Candidate*>calloc(PROTOCOLS, sizeof(Candidate))
            if fs.sides[end].search.candidates == NULL:
                self.streams.memory.no_memory += 1
                self.streams.dismiss(f, UNDECODED_UNKNOWN)
                return
            self.streams.memory.buffered += candidates_octets()
        self.begin_frames(f)


# ---- as a Recogniser


cdef int recognition_begins(void* to, const Flow* f) noexcept nogil:
    """The end with a registered port is the server."""
    if (<Recognition>to).port_is_known(f.port[1]):
        return 0
    return 1 if (<Recognition>to).port_is_known(f.port[0]) else -1


cdef void recognition_octets(void* to, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
    (<Recognition>to).take(f, end, p, n, mark)


cdef bint recognition_gap(void* to, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
    return (<Recognition>to).gap(f, end, n, why, mark)


cdef bint recognition_ends(void* to, Flow* f, int end) noexcept nogil:
    return (<Recognition>to).answers(f, end)


cdef bint recognition_late(void* to, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
    return find_socket(<Recognition>to, f, end, p, n, mark)


cdef void recognition_found(void* to, Flow* f, int row) noexcept nogil:
    (<Recognition>to).set_protocol(f, row)


cdef void join_recogniser(Recognition r, FrameStreams s):
    """`r` finds the protocols of the flows of `s`."""
    r.streams = s
    s.recogniser.to = <void*>r
    s.recogniser.begins = recognition_begins
    s.recogniser.octets = recognition_octets
    s.recogniser.gap = recognition_gap
    s.recogniser.ends = recognition_ends
    s.recogniser.late = recognition_late
    s.recogniser.found = recognition_found
