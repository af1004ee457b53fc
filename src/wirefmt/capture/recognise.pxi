# The protocol of a flow: by the first octets of its client, by ports, by the handshake of a WebSocket, or by the frames of one
# of several protocols.

cdef enum:
    # octets kept of one direction until the other one identifies the protocol: RFC 6928's initial window, 10 segments
    FIRST_KEPT = 1 << 14
    TLS_RECORD_MAX = 16384 + 2048       # octets of a record's content: RFC 5246, 6.2.3
    # octets of a connection that are searched for WebSocket frames or their handshake: it began before the capture, on an
    # unregistered port, or with other uses of HTTP
    LATE_SEARCH = 1 << 20
    LATE_KEPT = 1 << 12                 # octets of its last packets that are kept meanwhile, of each direction
    # so much of it must be whole, valid frames, packet by packet, on an unregistered port
    LATE_FRAMES = 3
    LATE_OCTETS = 12


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


cdef class KnownStreams(CarriedStreams):
    """Recognises the protocols of flows."""

    cdef uint32_t wanted                                # protocols, one bit per row
    cdef uint32_t port_rows[65536]                      # protocols with this port, one bit per row
    cdef uint8_t port_forced[65536]                     # row + 1, from decode_as; 0: none

    cdef FlowState* open_state(self, Flow* f) noexcept nogil:
        cdef FlowState* fs = <FlowState*>calloc(1, sizeof(FlowState))
        cdef int end
        if fs == NULL:
            self.memory.no_memory += 1
            return NULL
        self.memory.buffered += sizeof(FlowState) + BLOCK_OCTETS
        for end in range(2):
            fs.address_size[end] = <uint8_t>write_address(f.ip_version, f.address[end], fs.address[end])
        f.state = fs
        return fs

    cdef inline bint port_is_known(self, uint16_t port) noexcept nogil:
        return self.port_forced[port] or self.port_rows[port]

    cdef uint32_t by_port(self, Flow* f) noexcept nogil:
        """The protocols, one bit per row, of the ports of both ends; a port in decode_as decides alone."""
        cdef int forced = self.port_forced[f.port[1]] if self.port_forced[f.port[1]] else self.port_forced[f.port[0]]
        if forced:
            return <uint32_t>1 << (forced - 1)
        return self.port_rows[f.port[1]] if self.port_rows[f.port[1]] else self.port_rows[f.port[0]]

    cdef int by_subprotocol(self, const Span* value) noexcept nogil:
        """The protocol named in Sec-WebSocket-Protocol: `mqtt`, or `mqttv3.1` of older clients; 0: none."""
        cdef int i
        if value.at != NULL:
            for i in range(PROTOCOLS):
                if protocols[i].subprotocol.size and find_text(
                        value.at, value.size, <const char*>protocols[i].subprotocol.at,
                        <size_t>protocols[i].subprotocol.size) != NULL:
                    return i + 1
        return 0

    cdef inline bint began_late(self, const Flow* f, int end) noexcept nogil:
        """Are the first octets of this direction unknown?"""
        cdef const Side* side = &(<FlowState*>f.state).sides[end]
        return not f.streams[end].anchored or side.missing or side.skipped

    cdef inline int client_of(self, Flow* f) noexcept nogil:
        """The client's end; if it is unknown, the end with an unregistered port."""
        if f.client >= 0:
            return f.client
        return 0 if self.port_is_known(f.port[1]) or not self.port_is_known(f.port[0]) else 1

    cdef void recognise(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """The first octets of a direction. They are kept until they or the other direction identify the protocol."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef const uint8_t* first = p
        cdef size_t size = n
        cdef size_t head = 0
        cdef bint kept
        cdef int found, row
        if side.foreign:
            if (fs.http or self.began_late(f, end)) and looks_like_http(p, n) == YES:
                self.pass_over(side, side.size)
                side.foreign = False
            else:
                if not (side.upgraded or self.began_late(f, end)):
                    self.keep_first(f, end, p, n, mark)
                elif not self.find_socket(f, end, p, n, mark):
                    row = self.late_frames(f, end, p, n)
                    if row == 0:
                        self.keep_first(f, end, p, n, mark)
                    else:
                        self.read_late(f, end, row, p, n, mark)
                return
        kept = side.size != 0
        if kept:
            if not self.keep_origin(side, side.size, n, mark) or not self.append(side, p, n):
                self.dismiss(f, UNDECODED_UNKNOWN)
                self.on_ignored(f, 0, <int64_t>n)
                return
            first = side.pending
            size = side.size
        found = self.take_proxied(f, end, first, size, mark, &head)
        if found != NO:
            pass
        elif side.stage == STAGE_HTTP and fs.protocol != NULL and looks_like_http(first, size) == NO:
            self.begin_search_again(side, WHY_NO_FRAME if f.streams[end].anchored else -1)
            found = YES if self.make_socket(f, end, True) else NO       # the handshake was not captured
        elif side.stage == STAGE_HTTP or looks_like_http(first, size) == YES:
            found = self.handshake(f, end, first, size, &head)
            self.seen.carrier_octets += <int64_t>head if found == YES else 0
        else:
            found = self.guess(f, end, first, size)
        if f.ignored:
            if not kept:
                self.on_ignored(f, 0, <int64_t>n)
        elif found == YES:                              # the octets are owned here: detach them, then read them
            if kept:
                self.replay_rest(f, end, head)
            elif n > head:
                self.tcp.pass_octets(f, end, p + head, n - head, mark)
            if not f.ignored:
                self.replay(f, 1 - end)
        else:
            if found == NO:
                self.set_foreign(f, end)
            if f.ignored:
                if not kept:
                    self.on_ignored(f, 0, <int64_t>n)
            elif not kept:
                self.keep_first(f, end, p, n, mark)

    cdef int take_proxied(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark, size_t* head) noexcept nogil:
        """Does the client's stream begin with a PROXY header? A Verdict; YES: it has `head` octets, and what follows is the
        client's."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef Proxied* header
        cdef int verdict
        if side.stage != STAGE_START or side.offset or side.missing or side.skipped or (f.client >= 0 and end != f.client):
            return NO
        verdict = proxy_header(p, n, head)
        if verdict != YES:
            return verdict
        header = <Proxied*>malloc(sizeof(Proxied) + head[0])
        if header == NULL:
            self.memory.no_memory += 1
            return NO
        self.memory.buffered += <int64_t>(sizeof(Proxied) + head[0] + BLOCK_OCTETS)
        header.first = side.search.origins[0].mark if side.size else mark[0]
        header.last = mark[0]
        header.size = head[0]
        header.octets = <uint8_t*>header + sizeof(Proxied)
        memcpy(header.octets, p, head[0])
        fs.proxied = header
        f.client = <int8_t>end
        side.offset = <int64_t>head[0]
        return YES

    cdef void keep_first(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Octets that do not identify the protocol yet: the other direction, or more of them, may. They are kept up to a limit
        and skipped after it."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        if side.foreign and not f.streams[end].anchored and not fs.http:
            if side.size + n > LATE_KEPT:
                self.pass_over(side, side.size)
            if n > LATE_KEPT or self.memory.buffered > self.memory.max_buffered // 4 \
                    or not self.keep_origin(side, side.size, n, mark) or not self.append(side, p, n):
                self.pass_over(side, side.size)
                side.skipped += <int64_t>n
            if fs.sides[0].skipped + fs.sides[1].skipped > LATE_SEARCH:
                self.dismiss(f, UNDECODED_UNKNOWN)
            return
        if side.skipped == 0 and side.missing == 0 and not (side.foreign and fs.sides[1 - end].foreign) \
                and side.size + n <= <size_t>(FIRST_KEPT if side.foreign else SEARCH_WINDOW) \
                and (not side.foreign or self.memory.buffered < self.memory.max_buffered // 4) \
                and self.keep_origin(side, side.size, n, mark) and self.append(side, p, n):
            return
        if self.answers(f, end):
            if f.ignored:
                self.on_ignored(f, 0, <int64_t>n)
            else:
                self.tcp.pass_octets(f, end, p, n, mark)
            return
        self.pass_over(side, side.size)
        side.skipped += <int64_t>n
        if not side.foreign:
            self.set_foreign(f, end)
        if fs.sides[0].skipped + fs.sides[1].skipped > LATE_SEARCH and (fs.http or self.began_late(f, f.client == 1)):
            self.dismiss(f, UNDECODED_UNKNOWN)

    cdef void set_foreign(self, Flow* f, int end) noexcept nogil:
        """This direction does not begin as a client of a known protocol. If it is the client's, or neither does, the connection
        is not decoded; one whose beginning was not captured, or is HTTP, may still be a WebSocket."""
        cdef FlowState* fs = <FlowState*>f.state
        fs.sides[end].foreign = True
        if not (fs.http or self.began_late(f, end)):
            if end == f.client or (fs.sides[1 - end].foreign and not self.began_late(f, 1 - end)):
                self.dismiss(f, UNDECODED_UNKNOWN)
        elif fs.sides[1 - end].foreign and (fs.http or f.streams[1 - end].anchored):
            self.pass_over(&fs.sides[1 - end], fs.sides[1 - end].size)

    cdef int late_frames(self, Flow* f, int end, const uint8_t* p, size_t n) noexcept nogil:
        """A packet of a connection on an unregistered port that began before the capture. Row + 1 of the protocol, once several
        packets in a row have been whole, valid frames of it; 0: not yet. Its frames say which end is the client; if those of both
        may, it is the one with the higher port."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef uint32_t frames, most = 0
        cdef size_t at, step
        cdef int i, direction, verdict
        cdef bint sent
        if self.by_port(f) or fs.http:
            return 0
        if side.likely_frames == 0:
            side.likely[0] = side.likely[1] = ALL_ROWS
        for direction in range(2):
            if f.client >= 0 and direction != (0 if end == f.client else 1):
                side.likely[direction] = 0
            for i in range(PROTOCOLS):
                at = step = 0
                frames = 0
                verdict = YES if side.likely[direction] >> i & 1 else NO
                while verdict == YES and at < n:
                    verdict = protocols[i].probe(NULL, direction, p + at, n - at, &step)
                    at += step
                    frames += 1
                if verdict == YES:
                    most = max(most, frames)
                else:
                    side.likely[direction] &= ~(<uint32_t>1 << i)
        sent = (side.likely[0] | side.likely[1]) != 0
        side.likely_frames = side.likely_frames + most if sent else 0
        side.likely_octets = side.likely_octets + <uint32_t>min(n, <size_t>LATE_OCTETS) if sent else 0
        if side.likely_frames < LATE_FRAMES or side.likely_octets < LATE_OCTETS:
            return 0
        i = first_row(side.likely[0] | side.likely[1])
        if f.client < 0:
            sent = side.likely[0] >> (i - 1) & 1
            if sent and side.likely[1] >> (i - 1) & 1:
                sent = f.port[end] > f.port[1 - end]
            f.client = <int8_t>(end if sent else 1 - end)
        return i

    cdef void read_late(self, Flow* f, int end, int row, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Its protocol is known: read what was kept, this packet, and what was kept of the other direction."""
        self.set_protocol(f, row)
        if not f.ignored:
            self.replay(f, end)
        if f.ignored:
            self.on_ignored(f, 0, <int64_t>n)
        else:
            self.tcp.pass_octets(f, end, p, n, mark)
        if not f.ignored:
            self.replay(f, 1 - end)

    cdef int guess(self, Flow* f, int end, const uint8_t* p, size_t n) noexcept nogil:
        """A Verdict; YES: the flow has its protocol and both directions read frames."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef uint32_t rows = self.by_port(f)
        cdef bint forced = self.port_forced[f.port[0]] or self.port_forced[f.port[1]]
        cdef const Side* side = &fs.sides[end]
        cdef bint late = side.upgraded or self.began_late(f, end)
        cdef bint more = False
        cdef int i = 0, verdict
        if not forced:
            verdict = looks_like_tls(p, n, late)
            if verdict == YES:
                self.dismiss(f, UNDECODED_TLS)
                return NO
            if verdict == MORE or looks_like_http(p, n) == MORE:
                more = True
        if late:
            verdict = self.socket_opens(f, end, p, n, &i)
            if verdict == YES:
                self.open_socket(f, end, i, p[1] & 0x80 != 0)
                return NO if f.ignored else YES
            if verdict == MORE:
                more = True
        if side.upgraded:
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
        if not side.foreign or end == f.client or side.missing or side.skipped or other.size or other.skipped or other.foreign:
            return False
        for i in range(PROTOCOLS):
            at = step = 0
            verdict = YES if rows >> i & 1 else NO
            while verdict == YES and at < side.size:
                verdict = protocols[i].probe(NULL, 1, side.pending + at, side.size - at, &step)
                at += step if verdict == YES else 0
            if at and verdict != NO:
                self.set_protocol(f, i + 1)
                if not f.ignored:
                    self.replay(f, end)
                return True
        return False

    cdef void set_protocol(self, Flow* f, int row) noexcept nogil:
        """Both directions now read frames of protocols[row - 1]; one without its beginning, after a search. Flows of protocols
        outside of `wanted` end here: it has no effect on what is recognised."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef MessageContext m
        cdef int end
        if not self.wanted >> (row - 1) & 1:
            self.dismiss(f, UNDECODED_UNKNOWN)
            return
        fs.protocol = &protocols[row - 1]
        fs.state = open_state(fs.protocol)
        if fs.state == NULL:
            self.memory.no_memory += 1
            fs.protocol = NULL
            self.dismiss(f, UNDECODED_UNKNOWN)
            return
        self.count_buffered(fs)
        fs.rows = 0
        for end in range(2):
            fs.sides[end].foreign = False
            self.free_candidates(&fs.sides[end])
        self.begin_frames(f)
        if fs.proxied != NULL:
            self.context(f, f.client, &fs.proxied.first, &fs.proxied.last, 0, <int64_t>fs.proxied.size, &m)
            put_proxied(self.table, &m, &fs.protocol.name, fs.proxied)
            self.drop_proxied(fs)

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
        self.begin_search(side, why)
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
                self.memory.no_memory += 1
                self.dismiss(f, UNDECODED_UNKNOWN)
                return
            self.memory.buffered += candidates_octets()
        self.begin_frames(f)

    cdef bint decide(self, Flow* f, int end, bint final) noexcept nogil:
        """Find a boundary in this direction, and so its protocol, the first if there are several. True: it is now known, and the
        pending octets of both directions were read."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef int found = find_any_boundary(&side.search, side.pending, side.size, fs.rows, 0 if end == f.client else 1, final)
        if found == 0:
            return False
        self.set_protocol(f, found)
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

    # ---- WebSocket --------------------------------------------------------------------------------------------------

    cdef int handshake(self, Flow* f, int end, const uint8_t* p, size_t n, size_t* head) noexcept nogil:
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
            return MORE if n < HTTP_HEAD_MAX else self.refuse(f, end)
        upgrade = http_field(p, size, b"\r\nupgrade:", 10)
        if upgrade.at == NULL or find_text(upgrade.at, upgrade.size, b"websocket", 9) == NULL:
            return self.refuse(f, end)
        if not request and (size < 12 or memcmp(p + 9, b"101", 3) != 0):
            return self.refuse(f, end)
        if fs.protocol == NULL:
            subprotocol = http_field(p, size, b"\r\nsec-websocket-protocol:", 25)
            row = self.by_subprotocol(&subprotocol)
            if row == 0:
                row = first_row(self.by_port(f))
            if (row == 0 and subprotocol.at != NULL) or (
                    not request and other.foreign and not other.upgraded and not self.began_late(f, 1 - end)):
                return self.refuse(f, end)
            if request:
                f.client = <int8_t>end
            elif f.client < 0:
                f.client = <int8_t>(1 - end)
            fs.http = True
            side.missing = 0
            self.seen.carrier_octets += side.skipped    # earlier requests and responses
            side.skipped = 0
            if row == 0:
                side.stage = STAGE_START
                side.upgraded = True
                return YES
            self.seen.websockets += 1
            side.stage = STAGE_SOCKET
            self.set_protocol_behind_http(f, 1 - end, row)
            if f.ignored:
                return NO
        return YES if self.make_socket(f, end, False) else NO

    cdef void set_protocol_behind_http(self, Flow* f, int other, int row) noexcept nogil:
        """The handshake of one direction was read. Does that of the other one follow, was it read, or was it not captured?"""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[other]
        cdef bint lost = side.missing != 0 or (not f.streams[other].anchored and (side.size != 0 or side.skipped != 0)
                                               and not looks_like_http(side.pending, side.size))
        if fs.http and not side.missing and not lost:   # what was skipped is HTTP
            self.seen.carrier_octets += side.skipped
            side.skipped = 0
        if side.upgraded:
            side.stage = STAGE_SOCKET
            self.set_protocol(f, row)
            if not f.ignored:
                self.make_socket(f, other, False)
        elif lost:
            self.set_protocol(f, row)                   # the search begins, with the gap so far
            if not f.ignored:
                self.make_socket(f, other, True)
        else:
            side.stage = STAGE_HTTP
            self.set_protocol(f, row)

    cdef bint make_socket(self, Flow* f, int end, bint lost) noexcept nogil:
        """This direction is frames of a WebSocket now. `lost`: where one begins is not known."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        side.socket = <WebSocket*>calloc(1, sizeof(WebSocket))
        if side.socket == NULL:
            self.memory.no_memory += 1
            self.dismiss(f, UNDECODED_UNKNOWN)
            return False
        self.memory.buffered += sizeof(WebSocket) + BLOCK_OCTETS
        side.stage = STAGE_SOCKET
        side.socket.lost = lost
        if lost and not side.searching:
            self.begin_search(side, WHY_NO_FRAME)
        return True

    cdef void lose_handshake(self, Flow* f, int end, int64_t n, int why) noexcept nogil:
        """The protocol is known, but `n` octets of this direction's handshake are missing: frames are searched for."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef size_t size = side.size
        self.pass_over(side, size)
        self.begin_search(side, why)
        side.missing = n
        side.skipped = <int64_t>size
        self.make_socket(f, end, True)

    cdef int refuse(self, Flow* f, int end) noexcept nogil:
        """HTTP that is not the handshake of a known protocol. Another request and response may be."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef int i
        if fs.protocol != NULL:
            if fs.sides[1 - end].stage != STAGE_SOCKET or fs.sides[1 - end].offset or fs.sides[1 - end].size:
                self.dismiss(f, UNDECODED_UNKNOWN)
                return NO
            self.seen.websockets -= 1                   # the server does not upgrade the connection
            self.memory.buffered -= fs.counted
            close_state(fs.protocol, fs.state)
            fs.protocol = NULL
            fs.state = NULL
            fs.counted = 0
            for i in range(2):
                self.drop_socket(&fs.sides[i])
                fs.sides[i].foreign = True
                fs.sides[i].stage = STAGE_START
        fs.http = True
        fs.sides[end].stage = STAGE_START
        return NO

    cdef int socket_opens(self, Flow* f, int end, const uint8_t* p, size_t n, int* row) noexcept nogil:
        """In a stream that began before the capture, are the octets of this packet whole WebSocket messages of whole, valid
        frames? A Verdict; YES: of protocols[row - 1]."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef uint32_t rows = self.by_port(f)
        cdef bint masked = n > 1 and p[1] & 0x80 != 0
        cdef bint counts = False
        cdef bint more = False
        cdef int i, verdict, messages
        cdef Sought sought
        cdef size_t at, size = 0
        if f.client >= 0 and n > 1 and masked != (end == f.client):
            return NO
        sought.state = NULL
        sought.scratch = self.scratch
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
                verdict = socket_message(&sought, p + at, n - at, masked, &size, &counts)
                if verdict == YES:
                    at += size
                    messages += counts
            if verdict == YES and messages:
                row[0] = i + 1
                return YES
            more = more or verdict == YES or (verdict == MORE and size <= FIRST_KEPT)
        return MORE if more else NO

    cdef void open_socket(self, Flow* f, int end, int row, bint masked) noexcept nogil:
        """The connection is a WebSocket whose handshake was not captured, and a message begins here in this direction. The end
        with masked frames is the client (5.1)."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side
        cdef int i
        self.seen.websockets += 1
        f.client = <int8_t>(end if masked else 1 - end)
        if fs.protocol == NULL:
            self.set_protocol(f, row)
            if f.ignored:
                return
        for i in range(2):
            side = &fs.sides[i]
            if not self.make_socket(f, i, i != end and not side.upgraded):
                return

    cdef bint find_socket(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """A packet of a connection that began before the capture and of which nothing was read yet. It is read if WebSocket
        messages begin with it. True: it was read."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef int row = 0
        if n < 2 or not ws_may_begin(p[0]) or self.socket_opens(f, end, p, n, &row) != YES:
            return False
        self.pass_over(side, side.size)
        self.open_socket(f, end, row, p[1] & 0x80 != 0)
        if f.ignored:
            self.on_ignored(f, 0, <int64_t>n)
            return True
        self.tcp.pass_octets(f, end, p, n, mark)
        if not f.ignored:
            self.replay(f, 1 - end)
        return True
