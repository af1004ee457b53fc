# The directions of flows: their state, and rows about them.
#
# A full batch is returned at once, even in the middle of a packet. Every event, and every loop that puts rows, stops when the
# batch is full. The reassembly then calls the event again, with the octets that are left. What it had begun is in the state of
# the flow and its directions, and is finished first (`finish_event`). Rows do not depend on where a batch ends.

cdef class FrameStreams(Streams)


cdef enum SideStage:            # who takes the octets of a direction, after its carriers
    STAGE_START = 0             # the recogniser: the protocol is not known
    STAGE_HTTP                  # the recogniser: a request or response of HTTP, perhaps the handshake of a WebSocket
    STAGE_TUNNEL                # the recogniser: the answer to a request for a tunnel
    STAGE_FRAMES                # the protocol's frames


cdef enum Undecoded:            # why a connection is not decoded
    UNDECODED_UNKNOWN = 0       # no known protocol
    UNDECODED_TLS
    UNDECODED_COMPRESSED        # in WebSocket messages of an extension that was not agreed on
    UNDECODED_REASONS

cdef tuple UNDECODED_NAMES = ("not_recognised", "tls", "compressed")


cdef enum:
    UNKNOWN = -1                # a number of octets


cdef struct Opening:            # what the recogniser knows of a direction
    int layer                   # its octets came to the layer with this number
    uint8_t foreign             # its first octets are not a client's
    uint8_t upgraded            # frames of a WebSocket begin here, of a protocol that was not named
    uint32_t likely[2]          # rows whose frames all packets of late_frames had, by direction of the frames
    uint32_t likely_frames, likely_octets


cdef struct Carrier:            # an encoding of streams in other streams; this row is all that others know of it
    Text name                   # in the transport table; at NULL: that of FlowState.negotiated
    size_t size                 # octets of its state in one direction, which begins with a SideLayer
    # pass on what the next octets carry. Returns how many were used: all, unless the batch is full or the flow is ignored. If it
    # keeps decoded octets that were not taken, it sets `unfinished` of the flow, and `resume` is called
    size_t (*octets)(FrameStreams s, Flow* f, int end, SideLayer* own, const uint8_t* p, size_t n,
                     const Mark* mark) noexcept nogil
    # `n` octets are missing, UNKNOWN: some; `why`: a Why. False: the batch was full; call again
    bint (*gap)(FrameStreams s, Flow* f, int end, SideLayer* own, int64_t n, int why, const Mark* mark) noexcept nogil
    # finish what was begun before the batch was full. NULL: it begins nothing
    void (*resume)(FrameStreams s, Flow* f, int end, SideLayer* own, const Mark* mark) noexcept nogil
    # once its boundary is `lost`: how to search for it (see Sought), and what to do when it was found at pending[search.at]
    int (*sought)(const Sought* sought, const uint8_t* p, size_t n, size_t* size, bint* counts) noexcept nogil
    void (*found)(FrameStreams s, Flow* f, int end, SideLayer* own) noexcept nogil
    void (*clear)(FrameStreams s, SideLayer* own) noexcept nogil     # free what the state holds; NULL: nothing
    # the flow ends: dismiss it if this carrier could not be read. NULL: it can always. Called for one of the directions
    void (*ends)(FrameStreams s, Flow* f, SideLayer* own) noexcept nogil


cdef struct SideLayer:          # a carrier in one direction
    const Carrier* carrier
    SideLayer* above            # takes what it carries; NULL: who `stage` says
    int number                  # 0: takes what TCP carries
    bint lost                   # its boundary is searched for: the search window has its octets


cdef struct Side:               # one direction of a flow
    # members that each packet needs, in one or two cache lines
    uint8_t stage               # a SideStage
    uint8_t searching           # for a boundary
    uint8_t reading             # the search window is being read, from pending[at]; the batch was full before its end
    int8_t why                  # reason of the gap before the search (a Why); -1: the capture began inside the stream
    int64_t offset              # in the stream, of the next unused octet: pending[0] if there is one
    int64_t skip                # octets to skip: the rest of a frame that was given up
    uint8_t* pending            # beginning of a frame, or the search window
    size_t size, capacity
    size_t need                 # octets of the pending frame; 0: not known yet
    SideLayer* lowest           # the carrier that takes what TCP carries; NULL: none
    Mark first                  # packet of pending[0]
    # searches
    int64_t missing, skipped    # octets of the present gap: lost, and skipped
    # what was begun before the batch was full, besides `reading`: see finish_event
    uint8_t decided             # the protocol was found, and the search window is to be read
    uint8_t final               # of `reading` and `decided`: no octets follow the window
    uint8_t settling            # settle_frame is to be called
    uint8_t over                # the pending frame is given up
    int64_t lost                # octets that could not be kept: their gap is to be crossed
    Search search
    Opening opening             # of the recogniser


cdef struct FlowState:
    const Protocol* protocol    # NULL: not known yet
    void* state                 # the protocol's
    int64_t counted             # octets of it that `buffered` of the decoder includes
    uint32_t rows               # candidates by port, one bit per row, while both directions are searched; otherwise 0
    Proxied* proxied            # PROXY headers and requests for tunnels whose rows wait for the protocol; NULL: none
    uint8_t tunnel              # the Tunnel that the client has requested last
    uint8_t tunnels             # how many
    uint8_t negotiated          # the number of the carrier that the protocol has negotiated (Protocol.carrier)
    uint8_t http                # a direction begins with HTTP: the handshake of a WebSocket may follow
    uint8_t deflate             # of WebSockets: a WsDeflate
    uint8_t undecoded           # an Undecoded, if the flow is ignored
    uint8_t tls_reason          # a TlsReason, if it is TLS that was given up
    uint8_t unfinished          # the batch was full in the middle of an event: finish_event
    uint8_t limiting            # messages that have begun are being flushed for a limit
    uint8_t address_size[2]
    char address[2][ADDRESS_SIZE]
    Side sides[2]               # by end, as in Flow
    int64_t limit_rows          # `limiting`: the number of rows before
    Flow* front                 # octets from before the beginning of a direction, read as a flow of their own; NULL: none
    PyObject* tls               # tls_facts.Facts, owned; NULL: it is not TLS, or nobody asks


cdef struct CaptureCounts:
    int64_t bytes, files, packets, other_slices
    int64_t batches
    int64_t websockets, messages_limited, capture_faults
    int64_t carrier_octets      # WebSocket handshakes, frame headers and control frames; compressed streams
    int64_t[UNDECODED_REASONS] undecoded_flows
    int64_t[UNDECODED_REASONS] undecoded_packets
    int64_t[UNDECODED_REASONS] undecoded_octets


cdef enum:
    WHY_NO_FRAME = 100          # besides Why: the octets are not a frame
    WHY_FRONT                   # end of the octets from before the beginning of the stream
    WHY_CONTEXT                 # a compressed message refers to what was not read


cdef inline const char* why_text(int why) noexcept nogil:
    if why < 0:
        return b"capture began inside the stream"
    if why == WHY_LOST:
        return b"not captured"
    if why == WHY_TRUNCATED:
        return b"truncated by the snapshot length"
    if why == WHY_TIMEOUT:
        return b"never seen"
    if why == WHY_LIMIT:
        return b"limit"
    if why == WHY_NO_FRAME:
        return b"no message boundary"
    if why == WHY_FRONT:
        return b"captured after what follows it"
    if why == WHY_CONTEXT:
        return b"compressed, and refers to messages that were not read"
    return b"stream ended"


@cython.no_gc_clear
cdef class Streams:
    """The state of the directions of flows, and the table that rows are put into."""

    cdef Reassembler tcp
    cdef Memory* memory                                 # that of `tcp`
    cdef MessageTable table
    cdef CaptureCounts seen
    cdef size_t max_message
    cdef list name_objects
    cdef Text* names                                    # of the capture files
    cdef int32_t name_capacity
    cdef ColumnSet transport                            # a row for each flow that has ended; None: nobody asked
    cdef int64_t transport_rows
    cdef uint32_t* unknown_ports                        # connections that were not recognised, by port; NULL: none

    def __cinit__(self, *args, **kwargs):
        self.tcp = Reassembler.__new__(Reassembler)
        self.memory = &self.tcp.memory
        self.name_objects = []

    def __dealloc__(self):
        free(self.names)
        free(self.unknown_ports)

    cdef FlowState* open_state(self, Flow* f) noexcept nogil:
        """NULL: out of memory."""
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

    # ---- rows -------------------------------------------------------------------------------------------------------

    cdef inline void context(self, Flow* f, int end, const Mark* first, const Mark* last, int64_t offset, int64_t size,
                             MessageContext* m) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        m.ts_ns = last.ts_ns
        m.ts_first_ns = first.ts_ns
        m.vlans = first.vlans
        m.frame_no = last.frame_no
        m.byte_offset = offset
        m.flow_id = f.flow_id
        m.direction = 0 if end == f.client else 1
        m.src_ip.at = <const uint8_t*>fs.address[end]
        m.src_ip.size = fs.address_size[end]
        m.src_ip.number = m.dst_ip.number = 0
        m.dst_ip.at = <const uint8_t*>fs.address[1 - end]
        m.dst_ip.size = fs.address_size[1 - end]
        m.src_port = f.port[end]
        m.dst_port = f.port[1 - end]
        self.name_of(last.capture, m)
        m.wire_size = size

    cdef inline void name_of(self, int32_t index, MessageContext* m) noexcept nogil:
        if 0 <= index < self.name_capacity and self.names[index].at != NULL:
            m.capture = self.names[index]
        else:
            m.capture = NO_TEXT

    cdef bint put_rest(self, Flow* f, int end, const char* why, const Mark* mark) noexcept nogil:
        """Put rows for the pending octets, the beginning of a frame, and drop them. False: the batch was full before the
        last row; call again with the same arguments."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef MessageContext m
        cdef char text[256]
        cdef int64_t row
        cdef bint done
        cdef int size
        if side.need:
            size = snprintf(text, sizeof(text), "%s: %zu of %zu bytes read", why, side.size, side.need)
        else:
            size = snprintf(text, sizeof(text), "%s: %zu bytes of a message of unknown size read", why, side.size)
        size = printed(size, sizeof(text))
        self.context(f, end, &side.first, mark, side.offset, <int64_t>(side.need if side.need else side.size), &m)
        if fs.protocol.put_part != NULL:
            done = fs.protocol.put_part(self.table, &m, fs.state, side.pending, side.size, text, <size_t>size)
        else:
            done = True
            row = self.table.begin_row(&m)
            put_text(self.table.cols + T_PROTOCOL, row, &fs.protocol.name)
            self.table.put_status(row, ROW_PARTIAL, text, size)
        self.count_buffered(fs)
        if done:
            side.offset += <int64_t>side.size
            self.free_pending(side)
        return done

    cdef bint flush(self, Flow* f, int end, const char* why) noexcept nogil:
        """Put rows for what this direction has begun and cannot complete. False: the batch was full before the last row;
        call again."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef bint done = True
        if fs.protocol == NULL:
            return True
        if fs.protocol.flush != NULL:
            done = fs.protocol.flush(self.table, fs.state, 0 if end == f.client else 1, why, strlen(why))
        self.count_buffered(fs)
        return done

    cdef void put_gap(self, Flow* f, int end, int64_t skipped, const Mark* mark) noexcept nogil:
        """Put a row for the gap, if it has any octet."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef MessageContext m
        cdef char text[128]
        cdef int64_t row
        cdef int size
        side.skipped += skipped
        if side.missing + side.skipped:
            if side.missing and side.skipped:
                size = snprintf(text, sizeof(text), "%s: %lld bytes missing, %lld more skipped", why_text(side.why),
                                <long long>side.missing, <long long>side.skipped)
            elif side.missing:
                size = snprintf(text, sizeof(text), "%s: %lld bytes missing", why_text(side.why),
                                <long long>side.missing)
            else:
                size = snprintf(text, sizeof(text), "%s: %lld bytes skipped", why_text(side.why),
                                <long long>side.skipped)
            self.context(f, end, mark, mark, side.offset, side.missing + side.skipped, &m)
            row = self.table.begin_row(&m)
            if fs.protocol != NULL:
                put_text(self.table.cols + T_PROTOCOL, row, &fs.protocol.name)
            self.table.put_status(row, ROW_GAP, text, size)
        side.offset += side.missing + side.skipped
        side.missing = side.skipped = 0

    cdef void put_fault(self, Flow* f, int end, int status, const char* text, const Mark* mark) noexcept nogil:
        """Put a row of a status without fields, at the next octet."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef MessageContext m
        cdef int64_t row
        self.context(f, end, mark, mark, fs.sides[end].offset, 0, &m)
        row = self.table.begin_row(&m)
        if fs.protocol != NULL:
            put_text(self.table.cols + T_PROTOCOL, row, &fs.protocol.name)
        self.table.put_status(row, status, text, <int>strlen(text))

    cdef void put_file_fault(self, const char* text, int64_t offset, const Mark* mark) noexcept nogil:
        cdef Col* c = self.table.cols
        cdef MessageContext m
        cdef int64_t row
        self.name_of(mark.capture, &m)
        row = self.table.next_row()
        put_text(c + T_CAPTURE, row, &m.capture)
        put_i64(c + T_BYTE_OFFSET, row, offset)
        put_i64(c + T_FRAME_NO, row, mark.frame_no)
        self.table.put_status(row, ROW_MALFORMED, text, <int>strlen(text))

    cdef inline void count_buffered(self, FlowState* fs) noexcept nogil:
        cdef int64_t buffered = (<const ProtocolState*>fs.state).buffered
        if buffered != fs.counted:
            self.memory.buffered += buffered - fs.counted
            fs.counted = buffered

    cdef int add_name(self, int32_t index, bytes text) except -1:
        """The name of a capture file."""
        cdef Text* grown
        if index >= self.name_capacity:
            grown = <Text*>realloc(self.names, (2 * index + 16) * sizeof(Text))
            if grown == NULL:
                raise MemoryError
            self.names = grown
            memset(grown + self.name_capacity, 0, (2 * index + 16 - self.name_capacity) * sizeof(Text))
            self.name_capacity = 2 * index + 16
        self.names[index].size = len(text)
        text += b"\0" * TEXT_PAD
        self.name_objects.append(text)                  # keeps it alive
        self.names[index].at = <const uint8_t*>PyBytes_AS_STRING(text)
        return 0

    # ---- octets that are kept ---------------------------------------------------------------------------------------

    cdef bint append(self, Side* side, const uint8_t* p, size_t n) noexcept nogil:
        """Append to the pending octets. False: a limit forbids it."""
        cdef size_t capacity
        cdef uint8_t* grown
        if n > side.capacity - side.size:
            capacity = max(side.size + n, min(side.need, max(2 * side.capacity, <size_t>512)))
            capacity = max(capacity, side.capacity + side.capacity // 2)
            if self.memory.buffered + <int64_t>(capacity - side.capacity) > self.memory.max_buffered:
                return False
            grown = <uint8_t*>realloc(side.pending, capacity)
            if grown == NULL:
                self.memory.no_memory += 1
                return False
            self.memory.buffered += <int64_t>(capacity - side.capacity) + (BLOCK_OCTETS if side.capacity == 0 else 0)
            side.pending = grown
            side.capacity = capacity
        memcpy(side.pending + side.size, p, n)
        side.size += n
        return True

    cdef void free_pending(self, Side* side) noexcept nogil:
        """Drop the pending octets. No memory is kept for the next: that of many connections would not stay in the cache."""
        if side.capacity:
            self.memory.buffered -= <int64_t>side.capacity + BLOCK_OCTETS
        free(side.pending)
        side.pending = NULL
        side.size = side.capacity = side.need = 0

    cdef bint keep_origin(self, Side* side, size_t at, size_t n, const Mark* mark) noexcept nogil:
        """pending[at : at + n] came with this packet. False: out of memory."""
        cdef int64_t before = origins_octets(&side.search)
        if not add_origin(&side.search, at, n, mark):
            self.memory.no_memory += 1
            return False
        self.memory.buffered += origins_octets(&side.search) - before
        return True

    cdef void free_origins(self, Side* side) noexcept nogil:
        self.memory.buffered -= origins_octets(&side.search)
        free(side.search.origins)
        side.search.origins = NULL
        side.search.origin_count = side.search.origin_capacity = 0

    cdef void free_candidates(self, Side* side) noexcept nogil:
        if side.search.candidates != NULL:
            self.memory.buffered -= candidates_octets()
            free(side.search.candidates)
            side.search.candidates = NULL

    cdef void shift(self, Side* side, size_t n) noexcept nogil:
        """Remove n octets from the front of the search window."""
        if n == 0:
            return
        memmove(side.pending, side.pending + n, side.size - n)
        side.size -= n
        shift_search(&side.search, n)

    cdef void pass_over(self, Side* side, size_t n) noexcept nogil:
        """pending[:n] has no boundary: it is part of the gap."""
        side.skipped += <int64_t>n
        self.shift(side, n)
        if side.size == 0:
            empty_search(&side.search)
            self.free_pending(side)

    cdef void begin_search(self, Side* side, int why) noexcept nogil:
        side.searching = True
        side.why = <int8_t>why
        side.missing = side.skipped = 0
        restart_search(&side.search)
        side.search.credit = 0
        side.search.origin_count = 0
        side.need = 0
        side.skip = 0

    cdef void replay(self, Flow* f, int end, int layer, size_t head) noexcept nogil:
        """Read the pending octets of a direction, which came to this layer, again, now that more is known: without the first
        `head`, which were read. A window that is being read (the batch was full before its end) is read on instead."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef uint8_t* pending = side.pending
        cdef Origin* origins = side.search.origins
        cdef size_t size = side.size
        cdef int count = side.search.origin_count
        cdef size_t at, stop
        cdef int i
        if size == 0 or side.reading:
            return
        self.memory.buffered -= <int64_t>side.capacity + BLOCK_OCTETS + origins_octets(&side.search)
        side.pending = NULL                             # freed below
        side.size = side.capacity = side.need = 0
        side.search.origins = NULL
        side.search.origin_count = side.search.origin_capacity = 0
        restart_search(&side.search)
        for i in range(count):
            at = max(origins[i].at, head)
            stop = origins[i + 1].at if i + 1 < count else size
            if at < stop:
                self.pass_again(f, end, layer, pending + at, stop - at, &origins[i].mark)
        free(pending)
        free(origins)

    cdef inline void pass_again(self, Flow* f, int end, int layer, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Octets for a layer that come after those it has, before all others."""
        if f.ignored:
            self.on_ignored(f, 0, <int64_t>n)
        elif n:
            self.tcp.pass_octets(f, end, layer, p, n, mark)

    cdef void dismiss(self, Flow* f, int reason) noexcept nogil:
        """Stop decoding the connection: later packets are only counted. `why`: an Undecoded."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef int end
        if f.ignored:
            return
        fs.undecoded = <uint8_t>reason
        self.seen.undecoded_flows[reason] += 1
        if fs.protocol == NULL:
            self.seen.undecoded_packets[reason] += f.packets
        if reason == UNDECODED_UNKNOWN:
            self.count_port(f)
        for end in range(2):
            self.seen.undecoded_octets[reason] += <int64_t>fs.sides[end].size + fs.sides[end].skipped
            fs.sides[end].skipped = 0
            self.free_pending(&fs.sides[end])
        self.seen.undecoded_octets[reason] += self.drop_proxied(fs)
        self.tcp.ignore(f)

    cdef void on_ignored(self, Flow* f, int packets, int64_t n) noexcept nogil:
        """Count packets of an ignored flow, and payload octets."""
        cdef FlowState* fs = <FlowState*>f.state
        self.seen.undecoded_packets[fs.undecoded] += packets
        self.seen.undecoded_octets[fs.undecoded] += n

    cdef void count_port(self, const Flow* f) noexcept nogil:
        """A connection of an unknown protocol to this port, the lower one if the server is not known."""
        if self.unknown_ports == NULL:
            self.unknown_ports = <uint32_t*>calloc(65536, sizeof(uint32_t))
        if self.unknown_ports != NULL:
            self.unknown_ports[f.port[1 - f.client] if f.client >= 0 else min(f.port[0], f.port[1])] += 1

    cdef int64_t drop_proxied(self, FlowState* fs) noexcept nogil:
        """Free what waits in `proxied`. Returns its octets in the stream."""
        cdef int64_t size = 0
        cdef Proxied* first = fs.proxied
        while first != NULL:
            fs.proxied = first.next
            size += <int64_t>first.size
            self.memory.buffered -= <int64_t>first.held + BLOCK_OCTETS
            free(first)
            first = fs.proxied
        return size

    cdef inline bint is_full(self) noexcept nogil:
        return self.table.is_full()
