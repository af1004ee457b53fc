# Captures to the message table: the only room where streams meet protocols.
#
#     octets of files -> PcapFile -> PacketParser -> Reassembler -> here: protocol, frames, rows
#
# A stream is read where it lies in the packet as long as frames do not cross packets; the rest of a frame is kept
# until it is whole. After a gap, and where the capture began inside a stream, frames are read again only from a place
# where a chain of valid ones begins (`look`): what is skipped is a `gap` row, never messages.
#
# A batch that is full is handed over at once, also in the midst of a packet: see deferred.pxi. So every event, and every
# loop that puts rows, stops when the batch is full and is continued by `resume`. Rows do not depend on where that is.
from importlib import import_module

from wirefmt.spec.options import options_of
from wirefmt.protocols import PROTOCOLS as PROTOCOL_ROWS
from wirefmt.spec.table import COLUMNS as TABLE_COLUMNS

cdef enum:
    PROTOCOLS_MAX = 32          # sets of protocols are bits of a uint32_t
    CHAIN = 3                   # valid frames one after another that make a boundary certain,
    CHAIN_SPAN = 1 << 16        # if they are more octets than a message could imitate
    FULL_SEGMENT = 536          # octets: RFC 9293 3.7.1, the segment size every host takes; a smaller one ends a write
    SEARCH_WINDOW = 1 << 18     # octets a boundary is searched in
    SEARCH_ORIGINS = 8192       # packets they may come from
    SEARCH_CREDIT = 64          # octets that may be looked at for each that arrives: the search stays linear
    CHAIN_STEPS = 16            # frames of a chain that are examined in any case
    SEARCH_STEP = 1 << 16       # octets skipped before the window is moved up
    # octets kept of one direction until the other one identifies the protocol: RFC 6928's initial window, 10 segments
    FIRST_KEPT = 1 << 14
    TLS_RECORD_MAX = 16384 + 2048       # octets of a record's content: RFC 5246, 6.2.3
    # octets of a connection that began before the capture, on a port of no protocol, that WebSocket frames are looked for in
    LATE_SEARCH = 1 << 20
    PREFETCHED = 128            # octets of a protocol's state, of a pending frame
    PENDING_KEPT = 2048         # octets of room a direction keeps for its next partial frame
    NAMES_MAX = 1 << 24         # capture files
    BATCH_MAX = 1 << 28         # octets: a column of a batch has 32-bit offsets. So many fit, and one message more

cdef enum SideStage:
    STAGE_START = 0             # which protocol?
    STAGE_FRAMES                # the protocol's frames
    STAGE_HTTP                  # the handshake of a WebSocket
    STAGE_SOCKET                # frames of a WebSocket around the protocol's
    STAGE_PACKED                # a compressed stream around the protocol's frames


cdef struct Origin:             # which packet the octets of a search window came from
    size_t at                   # index of its first octet
    bint ends_write             # messages end where it ends, if they end anywhere
    Mark mark


# The rows of the protocols, in the order of the registry: where octets could be of several, the earlier one is asked first.
cdef Protocol[PROTOCOLS_MAX] protocols
cdef int PROTOCOLS = 0


cdef int load_protocols() except -1:
    """Ask each protocol's module for its row: all that captures know of a protocol."""
    global PROTOCOLS
    for row in PROTOCOL_ROWS:
        if PROTOCOLS == PROTOCOLS_MAX:
            raise SystemError("PROTOCOLS_MAX is too small")
        protocols[PROTOCOLS] = protocol_row(import_module(row.codec).PROTOCOL)[0]
        PROTOCOLS += 1
    return 0


load_protocols()


cdef struct Trial:              # a search, where a window may be of several protocols
    size_t at, reach, wait
    int frames


cdef enum Undecoded:            # why octets of a connection are in no row
    UNDECODED_UNKNOWN = 0       # of no protocol that is known
    UNDECODED_TLS
    UNDECODED_COMPRESSED        # in compressed WebSocket messages
    UNDECODED_REASONS

cdef tuple UNDECODED_NAMES = ("not_recognised", "tls", "compressed")


cdef struct Side:               # one direction of a flow
    # what each packet needs, in a cache line or two
    uint8_t stage
    uint8_t foreign             # STAGE_START: it does not begin as a client does
    uint8_t searching           # for a frame boundary
    uint8_t reading             # the search window is read, from pending[at] on; the batch was full before its end
    uint8_t broken              # STAGE_PACKED: it cannot be unpacked any more
    int8_t why                  # the hole before the search (a Why); -1: the capture began inside the stream
    int64_t offset              # in the stream, of the next octet that is not used up: pending[0] if there is one
    int64_t skip                # octets to pass over: the rest of a frame that was given up
    uint8_t* pending            # beginning of a frame, or the search window
    size_t size, room
    size_t need                 # octets of the pending frame; 0: not known yet
    Mark first                  # packet of pending[0]
    # searches, and what carries the stream
    int64_t missing, skipped    # octets of the hole that is being crossed
    size_t at                   # search: pending[:at] holds no boundary
    size_t reach                # search: `frames` valid frames are at pending[at:reach]
    int frames
    size_t wait                 # search: look again when the window has this many octets
    size_t largest              # octets of the largest packet of this direction in a search
    int64_t credit
    Trial* trials               # by row of `protocols`, while the flow's is not known; else NULL
    Origin* origins
    int origin_count, origin_room
    WebSocket* socket
    PyObject* unpacker          # an Unpacker, owned


cdef struct FlowState:
    const Protocol* protocol    # NULL: not known yet
    void* state                 # the protocol's
    int64_t held                # octets in it that are counted in `buffered`
    uint32_t rows               # those it may be by its port, a bit a row, while both directions are searched; else 0
    uint8_t carrier             # a Carrier: what the streams lie in
    uint8_t undecoded           # an Undecoded, once the flow is ignored
    uint8_t address_size[2]
    char address[2][ADDRESS_ROOM]
    Side sides[2]               # by end, as in Flow


cdef struct CaptureCounts:
    int64_t bytes, files, packets, other_slices
    int64_t batches
    int64_t websockets, messages_limited, capture_faults
    int64_t carrier_octets      # WebSocket handshakes, frame headers and control frames; compressed streams
    int64_t[UNDECODED_REASONS] undecoded_flows
    int64_t[UNDECODED_REASONS] undecoded_packets
    int64_t[UNDECODED_REASONS] undecoded_octets


cdef class CaptureDecoder(Reassembler):
    """Decodes bytes of capture files to batches of the message table.

    Call `begin_file`, then `feed` with chunks of any size, then `end_file`; at the end `finish`. feed, end_file and
    finish stop when a batch is full: feed returns how many bytes it used, the others return whether they are done. Then call
    `take`, and call again. A call during another one, for example in another thread, raises RuntimeError; `stats` may
    always be read.

    Parameters: an `Options`, or its fields as keywords.
    Raises ValueError if an option has an invalid value or `columns` names an unknown column.
    """

    cdef MessageTable table
    cdef PcapFile file
    cdef PacketParser packets
    cdef CaptureCounts seen
    cdef bint strict, across_files, busy, file_over
    cdef uint64_t slice_index, slice_count
    cdef Segment[GROUP] group                           # segments that were read and not yet taken
    cdef Mark[GROUP] group_marks
    cdef int group_count
    cdef DeferredList deferred
    cdef int64_t deferred_octets                        # not counted in `buffered`: they are gone before the next packet
    cdef int64_t fragment_octets                        # of `packets`, as counted in `buffered`
    cdef bint waiting                                   # something is deferred: what comes now must wait, too
    cdef size_t max_message
    cdef int64_t max_inflated
    cdef uint32_t wanted                                # protocols, a bit a row
    cdef uint32_t port_rows[65536]                      # protocols that registered it, a bit a row
    cdef uint8_t port_forced[65536]                     # row + 1, from decode_as; 0: none
    cdef uint8_t* carry                                 # octets of a record that is not whole yet
    cdef size_t carry_at, carry_size, carry_room
    cdef uint8_t* scratch                               # unmasked WebSocket payload: SEARCH_WINDOW octets
    cdef list name_objects
    cdef Text* names
    cdef int32_t name_count, name_room, file_index

    def __cinit__(self, *args, **kwargs):
        self.deferred.place = &self.deferred.first
        self.scratch = <uint8_t*>malloc(SEARCH_WINDOW)
        if self.scratch == NULL:
            raise MemoryError

    def __init__(self, options=None, /, **keywords):
        options = options_of(options, keywords)
        self.strict = options.strictness == "strict"
        self.across_files = options.flows == "across-files"
        self.slice_index, self.slice_count = options.slice
        self.name_objects = []
        self.table = MessageTable(TABLE_COLUMNS, options.columns, payload=options.payload, payload_max=options.payload_max,
                                  expose_credentials=options.expose_credentials, raw=options.raw, detail=options.detail)
        self.table.batch_rows = options.batch_rows
        self.table.batch_bytes = min(options.batch_bytes, BATCH_MAX)
        self.file = PcapFile.__new__(PcapFile)
        self.packets = PacketParser(tunnels=options.tunnels)
        self.set_protocols(options)
        self.set_limits(options.all_limits())

    cdef set_protocols(self, options):
        cdef int i
        names = [row.name for row in PROTOCOL_ROWS]
        for i in range(PROTOCOLS):
            if options.protocols is None or names[i] in options.protocols:
                self.wanted |= <uint32_t>1 << i
                for port in PROTOCOL_ROWS[i].ports:
                    self.port_rows[<uint16_t>port] |= <uint32_t>1 << i
        for port, name in options.forced_ports().items():
            self.port_forced[<uint16_t>port] = <uint8_t>(names.index(name) + 1)

    cdef set_limits(self, values):
        self.max_flows = values["max_flows"]
        self.max_out_of_order = values["max_out_of_order"]
        self.max_message = self.table.options.max_message = values["max_message"]
        self.max_buffered = values["max_buffered"]
        self.max_inflated = values["max_inflated"]
        self.idle_ns = values["idle_seconds"] * SECOND

    def __dealloc__(self):
        self.drop_deferred()
        self.drop_flows()
        free(self.carry)
        free(self.scratch)
        free(self.names)

    # ---- feeding --------------------------------------------------------------------------------------------------

    def begin_file(self, str name, int32_t index=0):
        """Begin a file. name: its path or URL; index: its number among the files."""
        cdef bytes text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()
        if not 0 <= index < NAMES_MAX:
            raise ValueError(f"file number {index} is out of range")
        begin_call(&self.busy)
        try:
            self.name_file(index, text)
        finally:
            self.busy = False

    cdef int name_file(self, int32_t index, bytes text) except -1:
        cdef Text* grown
        if index >= self.name_room:
            grown = <Text*>realloc(self.names, (2 * index + 16) * sizeof(Text))
            if grown == NULL:
                raise MemoryError
            self.names = grown
            memset(grown + self.name_room, 0, (2 * index + 16 - self.name_room) * sizeof(Text))
            self.name_room = 2 * index + 16
        self.names[index].size = len(text)
        text += b"\0" * TEXT_PAD
        self.name_objects.append(text)                  # keeps it alive
        self.names[index].at = <const uint8_t*>PyBytes_AS_STRING(text)
        self.file_index = index
        self.file.begin(0, 1)
        self.file_over = False
        self.carry_at = self.carry_size = 0
        self.seen.files += 1
        if not self.across_files:
            self.packets.forget()
            self.count_fragments()
        return 0

    def feed(self, chunk):
        """Take the next bytes of the file: any contiguous buffer. Bytes and views of bytes are read in place, others are copied.
        Returns how many bytes were used: fewer than given if a batch is full."""
        cdef Input octets = take_input(chunk)
        cdef size_t used
        if octets.size == 0:
            return 0
        begin_call(&self.busy)
        try:
            with nogil:
                used = self.feed_octets(octets.at, <size_t>octets.size)
            self.seen.bytes += used
        finally:
            self.busy = False
        self.check_memory()
        return used

    def end_file(self):
        """End the file. Returns False if a batch is full: take() it and call again."""
        cdef size_t used
        cdef bint done
        begin_call(&self.busy)
        try:
            with nogil:
                if self.resume() and not self.file_over:
                    self.walk(self.carry + self.carry_at, self.carry_size - self.carry_at, True, &used)
                    self.carry_at += used
                done = not self.is_full()
                if done:
                    self.file_over = True
                    done = self.across_files or self.end_flows()
        finally:
            self.busy = False
        self.check_memory()
        return done

    def finish(self):
        """End every open flow; more segments may still follow. Returns False if a batch is full: take() it and call again."""
        cdef bint done
        begin_call(&self.busy)
        try:
            with nogil:
                done = self.end_flows()
        finally:
            self.busy = False
        self.check_memory()
        return done

    def feed_segments(self, rows):
        """Rows of the packets table's `segment` column, one after another, in a buffer as in feed(). Returns how many bytes
        were used.

        Raises ValueError for bytes that are not such a row.
        """
        cdef Input octets = take_input(rows)
        cdef size_t n = <size_t>octets.size
        cdef size_t at = 0
        cdef size_t used
        cdef PacketRecord r
        cdef Segment* s
        cdef int32_t file_index = 0
        cdef int reason = 0
        if n == 0:
            return 0
        begin_call(&self.busy)
        try:
            with nogil:
                self.resume()
                while at < n and not self.is_full():
                    s = self.next_place()
                    reason = segment_unpack(self.packets, octets.at + at, n - at, &used, &r, s, &file_index)
                    if reason < 0:
                        break
                    at += used
                    if reason == PACKET_TCP:
                        self.seen.packets += 1
                        self.take_segment(&r, file_index, s.payload < octets.at or s.payload > octets.at + n)
                    elif reason == PACKET_FRAGMENT_HELD:
                        self.take_group()
                        self.count_fragments()
                    elif reason == PACKET_FILE_FAULT:
                        self.take_group()
                        self.file_index = file_index
                        self.report_fault(capture_fault_text(<int>s.size), r.ts_ns, r.frame_no)
                self.take_group()
        finally:
            self.busy = False
        if reason < 0:
            raise ValueError(f"not a row of the packets table at offset {at}")
        self.check_memory()
        return at

    def report(self, str text):
        """Add an error row of this file for an error outside its bytes: a truncated compressed file, a read error."""
        cdef bytes octets = text.encode("utf-8", "replace")
        begin_call(&self.busy)
        try:
            self.report_fault(PyBytes_AS_STRING(octets), self.file.offset, self.file.frames)
        finally:
            self.busy = False

    @property
    def not_a_capture(self):
        """True if the present file is not a capture, or not in a supported format."""
        cdef int reason = self.file.fault.reason
        return reason in (CAPTURE_NOT_A_CAPTURE, CAPTURE_EMPTY, CAPTURE_CUT_HEADER) or reason >= CAPTURE_FORMAT

    @property
    def fault(self):
        """The last error of the present file; None: no error."""
        if not self.file.fault.reason:
            return None
        return (<bytes>capture_fault_text(self.file.fault.reason)).decode("ascii")

    def take(self, final=False):
        """Return the batch if it is full; with `final`, the rows so far. None: no rows."""
        begin_call(&self.busy)
        try:
            if self.table.rows == 0 or not (final or self.is_full()):
                return None
            self.seen.batches += 1
            return self.table.take()
        finally:
            self.busy = False

    @property
    def stats(self):
        """Counters by name."""
        cdef CaptureCounts c = self.seen
        stats = {
            "bytes": c.bytes, "files": c.files, "packets": c.packets, "packets_of_other_slices": c.other_slices,
            "rows": self.table.all_rows, "batches": c.batches, "malformed": self.table.status_rows[<int>ROW_MALFORMED],
            "gap_rows": self.table.status_rows[<int>ROW_GAP], "partial": self.table.status_rows[<int>ROW_PARTIAL],
            "websocket_flows": c.websockets, "carrier_octets": c.carrier_octets,
            "messages_limited": c.messages_limited, "capture_faults": c.capture_faults,
        }
        stats.update(self.reassembly_stats())
        stats["buffered"] += self.deferred_octets
        stats["packet_kinds"] = self.packets.stats()
        stats["not_decoded"] = not_decoded = {
            name: {"connections": c.undecoded_flows[i], "packets": c.undecoded_packets[i], "octets": c.undecoded_octets[i]}
            for i, name in enumerate(UNDECODED_NAMES)
        }
        for name, packets, octets in self.packets.undecoded():
            not_decoded[name] = {"connections": 0, "packets": packets, "octets": octets}
        return stats

    @property
    def rows(self):
        """Rows in the present batch."""
        return self.table.rows

    cdef check_memory(self):
        if self.counts.no_memory or self.table.tally.no_memory:
            raise MemoryError

    cdef inline bint is_full(self) noexcept nogil:
        return self.table.is_full()

    cdef bint end_flows(self) noexcept nogil:
        """True: none is left."""
        if not self.resume():
            return False
        while not self.end_some(1, WHY_CAPTURE_END):
            if self.is_full():
                return False
        return not self.waiting

    cdef size_t feed_octets(self, const uint8_t* p, size_t n) noexcept nogil:
        """Records lie in the caller's octets, except one that crosses chunks: it is put together in `carry`."""
        cdef size_t at = 0
        cdef size_t used = 0
        cdef size_t more, rest
        if not self.resume():
            return 0
        while True:
            rest = self.carry_size - self.carry_at
            if rest == 0:
                break
            self.walk(self.carry + self.carry_at, rest, False, &used)
            self.carry_at += used
            if self.is_full():
                return at
            rest -= used
            if rest <= at:                              # what is left lies in the caller's octets, too
                at -= rest
                self.carry_at = self.carry_size = 0
                break
            if at == n:
                return at
            more = min(n - at, max(rest, <size_t>4096))
            if not self.keep(p + at, more):
                return n
            at += more
        self.walk(p + at, n - at, False, &used)
        at += used
        if self.is_full():
            return at
        self.keep(p + at, n - at)
        return n

    cdef bint keep(self, const uint8_t* p, size_t n) noexcept nogil:
        cdef uint8_t* grown
        if self.carry_at:
            memmove(self.carry, self.carry + self.carry_at, self.carry_size - self.carry_at)
            self.carry_size -= self.carry_at
            self.carry_at = 0
        if n > self.carry_room - self.carry_size:
            grown = <uint8_t*>realloc(self.carry, self.carry_size + n)
            if grown == NULL:
                self.counts.no_memory += 1
                return False
            self.carry = grown
            self.carry_room = self.carry_size + n
        if n:                                           # else there may be no carry to copy to
            memcpy(self.carry + self.carry_size, p, n)
        self.carry_size += n
        return True

    cdef void walk(self, const uint8_t* p, size_t n, bint last, size_t* used) noexcept nogil:
        """Records of p[:n] until they end or a batch is full. `used`: octets that are done with."""
        cdef size_t at = 0
        cdef size_t step
        cdef int answer, reason
        cdef PacketRecord r
        cdef Segment* s
        while not self.is_full():
            step = 0
            answer = self.file.next_record(p + at, n - at, last, &step, &r)
            at += step
            if answer == READ_RECORD:
                self.seen.packets += 1
                s = self.next_place()
                reason = self.packets.parse(&r, s)
                if reason == PACKET_TCP:
                    self.take_segment(&r, self.file_index, s.payload < p or s.payload > p + n)
                elif reason == PACKET_FRAGMENT_HELD:
                    self.take_group()
                    self.count_fragments()
            elif answer == READ_FAULT:
                self.take_group()
                self.report_fault(capture_fault_text(self.file.fault.reason), self.file.fault.offset,
                                  self.file.fault.frame_no)
            elif answer == READ_NEED:
                break
            else:                                       # nothing can be read from what follows
                at = n
                break
        self.take_group()
        used[0] = at

    cdef void count_fragments(self) noexcept nogil:
        self.buffered += self.packets.datagram_octets - self.fragment_octets
        self.fragment_octets = self.packets.datagram_octets

    cdef inline Segment* next_place(self) noexcept nogil:
        """Where the next segment is to be read to."""
        return &self.group[self.group_count]

    cdef inline void take_segment(self, const PacketRecord* r, int32_t capture, bint volatile) noexcept nogil:
        """The segment in the next place. `volatile`: the next packet that is parsed may overwrite its payload."""
        cdef const Segment* s = self.next_place()
        cdef Mark* mark = &self.group_marks[self.group_count]
        if self.slice_count > 1 and segment_flow_hash(s) % self.slice_count != self.slice_index:
            self.seen.other_slices += 1
            return
        mark.ts_ns = r.ts_ns
        mark.frame_no = r.frame_no
        mark.capture = capture
        mark.push = s.flags & TCP_PSH != 0
        self.group_count += 1
        if self.group_count == GROUP or volatile:
            self.take_group()

    cdef void take_group(self) noexcept nogil:
        """Take the segments of the group, and defer those that come after a full batch."""
        cdef uint64_t hashes[GROUP]
        cdef int count = self.group_count
        cdef int i
        self.group_count = 0
        for i in range(count):
            hashes[i] = segment_table_hash(&self.group[i])
        if count > 1:
            self.prefetch_flows(hashes, count)
        for i in range(count):
            if self.must_wait():
                self.defer_segment(&self.group[i], &self.group_marks[i])
            else:
                self.segment(&self.group[i], hashes[i], &self.group_marks[i])

    # ---- what waits until a full batch has been taken -------------------------------------------------------------

    cdef inline bint must_wait(self) noexcept nogil:
        """No event may begin now."""
        return self.waiting or self.is_full()

    cdef Deferred* defer(self, int kind, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Continue later, after what the present event has deferred before. NULL without memory."""
        cdef Deferred* d = self.defer_room(kind, f, end, n, mark)
        if d != NULL and n:
            memcpy(d.octets, p, n)
        return d

    cdef Deferred* defer_room(self, int kind, Flow* f, int end, size_t n, const Mark* mark) noexcept nogil:
        """As defer, where the octets are to be filled in."""
        cdef Deferred* d = new_deferred(kind, f, end, n, mark)
        self.waiting = True
        if d == NULL:
            self.counts.no_memory += 1
            return NULL
        insert_deferred(&self.deferred, d)
        self.deferred_octets += <int64_t>(sizeof(Deferred) + n)
        return d

    cdef void defer_segment(self, const Segment* s, const Mark* mark) noexcept nogil:
        cdef Deferred* d = self.defer_room(DEFERRED_SEGMENT, NULL, 0, sizeof(Segment) + s.captured, mark)
        if d != NULL:
            memcpy(d.octets, s, sizeof(Segment))
            if s.captured:
                memcpy(d.octets + sizeof(Segment), s.payload, s.captured)

    cdef void run_segment(self, const Deferred* d) noexcept nogil:
        cdef Segment s
        memcpy(&s, d.octets, sizeof(Segment))
        s.payload = d.octets + sizeof(Segment)
        self.segment(&s, segment_table_hash(&s), &d.mark)

    cdef void defer_hole(self, int kind, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        cdef Deferred* d = self.defer(kind, f, end, NULL, 0, mark)
        if d != NULL:
            d.n = n
            d.why = why

    cdef void defer_look(self, int kind, Flow* f, int end, bint final) noexcept nogil:
        cdef Deferred* d = self.defer(kind, f, end, NULL, 0, NULL)
        if d != NULL:
            d.flag = final

    cdef bint resume(self) noexcept nogil:
        """Do what waits, in order. True: nothing waits any more; False: the batch is full."""
        cdef Deferred* d
        if not self.waiting:
            return True
        while not self.is_full():
            self.waiting = False
            d = next_deferred(&self.deferred)
            if d == NULL:
                return True
            self.deferred_octets -= <int64_t>(sizeof(Deferred) + d.size)
            self.run(d)
            free(d)
            self.waiting = self.deferred.first != NULL
        last_place(&self.deferred)
        return not self.waiting

    cdef void run(self, const Deferred* d) noexcept nogil:
        cdef Flow* f = d.flow
        if d.kind == DEFERRED_SEGMENT:
            self.run_segment(d)
        elif d.kind == DEFERRED_CLOSE:
            self.close_state(f)
            self.recycle(f)
        elif d.kind == DEFERRED_REPORT:
            self.put_file_fault(<const char*>d.octets, d.n, &d.mark)
        elif f.ignored:
            if d.kind == DEFERRED_OCTETS or d.kind == DEFERRED_FRONT:
                self.on_ignored(f, 0, <int64_t>d.size)
        elif d.kind == DEFERRED_OCTETS:
            self.on_octets(f, d.end, d.octets, d.size, &d.mark)
        elif d.kind == DEFERRED_GAP:
            self.on_gap(f, d.end, d.n, d.why, &d.mark)
        elif d.kind == DEFERRED_FRONT:
            self.on_front(f, d.end, d.n, d.octets, d.size, &d.mark)
        elif d.kind == DEFERRED_CROSS:
            self.cross(f, d.end, d.n, d.why, &d.mark)
        elif d.kind == DEFERRED_LOSE:
            self.lose_socket(f, d.end, d.n, d.why, &d.mark)
        elif d.kind == DEFERRED_END:
            self.on_end(f, d.end, d.why)
        elif d.kind == DEFERRED_PENDING:
            self.settle_frame(f, d.end, &d.mark)
        elif d.kind == DEFERRED_GIVE_UP:
            self.give_up_frame(f, d.end, &d.mark)
        elif d.kind == DEFERRED_LOOK:
            self.look_again(f, d.end, d.flag)
        elif d.kind == DEFERRED_DECIDED:
            self.read_decided(f, d.end, d.flag)
        elif d.kind == DEFERRED_FLUSH:
            self.flush_for_limit(f, d.n)

    cdef void drop_deferred(self) noexcept nogil:
        """Forget what waits."""
        cdef Deferred* d = next_deferred(&self.deferred)
        while d != NULL:
            if d.kind == DEFERRED_CLOSE:
                self.close_state(d.flow)
                self.recycle(d.flow)
            free(d)
            d = next_deferred(&self.deferred)
        self.waiting = False

    # ---- events of the reassembly ---------------------------------------------------------------------------------

    cdef int on_flow(self, Flow* f) noexcept nogil:
        """Whose port is registered is the server."""
        if self.port_is_known(f.port[1]):
            return 0
        return 1 if self.port_is_known(f.port[0]) else -1

    cdef inline bint port_is_known(self, uint16_t port) noexcept nogil:
        return self.port_forced[port] or self.port_rows[port]

    cdef void on_octets(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        cdef size_t used = 0
        if not self.must_wait():
            used = self.read(f, end, p, n, mark)
            if used == n or f.ignored:
                return
        self.defer(DEFERRED_OCTETS, f, end, p + used, n - used, mark)

    cdef inline size_t read(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """The next octets of a direction, in whatever they are carried. Octets used: all, unless the batch is full or the
        flow is ignored."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side
        if fs == NULL:
            fs = self.open_state(f)
            if fs == NULL:
                return n
        side = &fs.sides[end]
        if side.stage == STAGE_FRAMES:
            return self.consume(f, end, p, n, mark)
        if side.stage == STAGE_SOCKET:
            return self.unwrap(f, end, p, n, mark)
        if side.stage == STAGE_PACKED:
            return self.unpack(f, end, p, n, mark)
        self.recognise(f, end, p, n, mark)
        return n

    cdef void on_gap(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side
        cdef uint32_t rows
        if self.must_wait():
            self.defer_hole(DEFERRED_GAP, f, end, n, why, mark)
            return
        if fs == NULL:
            fs = self.open_state(f)
            if fs == NULL:
                return
        side = &fs.sides[end]
        if side.stage == STAGE_START or side.stage == STAGE_HTTP:
            rows = self.by_port(f)
            if side.stage == STAGE_HTTP:
                self.dismiss(f, UNDECODED_UNKNOWN)      # what would say the protocol is missing
                return
            self.pass_over(side, side.size)             # too few octets to be read
            side.missing += n
            side.why = <int8_t>why
            if not rows:
                self.set_foreign(f, end)
            elif is_one(rows):
                self.set_protocol(f, first_row(rows))
                if not f.ignored:
                    self.replay(f, 1 - end)
            return
        if side.stage == STAGE_PACKED:
            self.lose_packed(f, end, n, why, mark)
            return
        if side.stage == STAGE_SOCKET:
            if side.socket.lost and side.size:
                self.look(f, end, True)
                if f.ignored:
                    return
                if self.waiting:
                    self.defer_hole(DEFERRED_GAP, f, end, n, why, mark)
                    return
            if side.socket.lost or side.socket.need or <uint64_t>n > side.socket.left:
                self.lose_socket(f, end, n, why, mark)
                return
            side.socket.left -= <uint64_t>n
            side.socket.at += <uint64_t>n
        self.cross(f, end, n, why, mark)

    cdef void on_front(self, Flow* f, int end, int64_t at, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Octets from before those that this direction began with: they are read as a stretch of their own."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Deferred* d
        cdef Side* side
        cdef Side whole
        cdef Flow* front
        if fs == NULL:                                  # there was no memory for it
            return
        if self.must_wait():
            d = self.defer(DEFERRED_FRONT, f, end, p, n, mark)
            if d != NULL:
                d.n = at
            return
        side = &fs.sides[end]
        if fs.protocol == NULL and side.stage == STAGE_START:
            side.skipped += <int64_t>n
            return
        if fs.protocol == NULL or side.stage != STAGE_FRAMES:
            whole = side[0]
            memset(side, 0, sizeof(Side))
            side.offset = at
            self.begin_search(side, -1)
            self.put_gap(f, end, <int64_t>n, mark)
            side[0] = whole
            return
        front = self.open_front(f, mark)
        if front == NULL:
            self.counts.no_memory += 1
            return
        side = &(<FlowState*>front.state).sides[end]
        side.stage = STAGE_FRAMES
        side.offset = at
        self.begin_search(side, -1)
        self.search(front, end, p, n, mark)
        self.on_end(front, end, WHY_FRONT)
        if self.on_close(front):
            self.recycle(front)

    cdef Flow* open_front(self, const Flow* f, const Mark* mark) noexcept nogil:
        """A flow that is in no table, of the same ends and protocol, in which nothing was read; NULL without memory."""
        cdef const FlowState* fs = <const FlowState*>f.state
        cdef Flow* front = <Flow*>malloc(sizeof(Flow))
        cdef FlowState* state = <FlowState*>malloc(sizeof(FlowState))
        cdef void* kept = open_state(fs.protocol)
        if front == NULL or state == NULL or kept == NULL:
            close_state(fs.protocol, kept)
            free(state)
            free(front)
            return NULL
        front[0] = f[0]
        memset(front.streams, 0, sizeof(front.streams))
        front.last = mark[0]
        front.older = front.newer = NULL
        front.state = state
        state[0] = fs[0]
        memset(state.sides, 0, sizeof(state.sides))
        state.state = kept
        state.held = 0
        self.buffered += flow_octets() + <int64_t>sizeof(FlowState) + BLOCK_OCTETS
        self.count_held(state)
        return front

    cdef void on_ignored(self, Flow* f, int packets, int64_t n) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        self.seen.undecoded_packets[fs.undecoded] += packets
        self.seen.undecoded_octets[fs.undecoded] += n

    cdef void on_end(self, Flow* f, int end, int why) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        cdef const char* text = why_text(WHY_FRONT if why == WHY_FRONT else WHY_CAPTURE_END)
        cdef Side* side
        if self.must_wait():
            self.defer_hole(DEFERRED_END, f, end, 0, why, NULL)
            return
        if fs == NULL or (fs.protocol == NULL and not fs.rows):
            return
        side = &fs.sides[end]
        if side.stage != STAGE_FRAMES and side.stage != STAGE_SOCKET and side.stage != STAGE_PACKED:
            return
        if side.searching and side.size:
            self.look(f, end, True)
        if f.ignored:
            return
        if not self.waiting and side.searching:
            self.put_gap(f, end, <int64_t>side.size, &f.last)
            self.drop_pending(side)
            side.searching = False
        if self.waiting or (side.size and not self.put_rest(f, end, text, &f.last)) or not self.flush(f, end, text):
            self.defer_hole(DEFERRED_END, f, end, 0, why, NULL)

    cdef bint on_close(self, Flow* f) noexcept nogil:
        if self.waiting:
            self.defer(DEFERRED_CLOSE, f, 0, NULL, 0, NULL)
            return False
        self.close_state(f)
        return True

    cdef void close_state(self, Flow* f) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        cdef int end
        if fs == NULL:
            return
        if fs.protocol == NULL and not f.ignored:
            self.seen.undecoded_flows[<int>UNDECODED_UNKNOWN] += 1
            self.seen.undecoded_packets[<int>UNDECODED_UNKNOWN] += f.packets
        for end in range(2):
            if f.ignored:
                pass
            elif fs.protocol == NULL and not fs.rows:
                self.seen.undecoded_octets[<int>UNDECODED_UNKNOWN] += <int64_t>fs.sides[end].size + fs.sides[end].skipped
            elif fs.sides[end].stage == STAGE_HTTP:     # the other side's handshake was read
                self.seen.carrier_octets += <int64_t>fs.sides[end].size
            self.free_pending(&fs.sides[end])
            self.free_origins(&fs.sides[end])
            self.free_trials(&fs.sides[end])
            if fs.sides[end].socket != NULL:
                self.buffered -= sizeof(WebSocket) + BLOCK_OCTETS
                free(fs.sides[end].socket)
            if fs.sides[end].unpacker != NULL:
                self.drop_unpacker(&fs.sides[end])
        if fs.protocol != NULL:
            self.buffered -= fs.held
            close_state(fs.protocol, fs.state)
        self.buffered -= sizeof(FlowState) + BLOCK_OCTETS
        free(fs)
        f.state = NULL

    cdef bint is_busy(self) noexcept nogil:
        return self.must_wait()

    cdef void prefetch_state(self, const Flow* f, int step) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        if fs == NULL:
            return
        if step == 0:
            prefetch(fs, <size_t>(<uint8_t*>&fs.sides[0].missing - <uint8_t*>fs))
            prefetch(&fs.sides[1], <size_t>(<uint8_t*>&fs.sides[1].missing - <uint8_t*>&fs.sides[1]))
        elif step == 1:
            prefetch(fs.state, PREFETCHED)
        else:
            prefetch(fs.sides[f.client == 1].pending, PREFETCHED)

    # ---- which protocol? --------------------------------------------------------------------------------------------

    cdef FlowState* open_state(self, Flow* f) noexcept nogil:
        cdef FlowState* fs = <FlowState*>calloc(1, sizeof(FlowState))
        cdef int end
        if fs == NULL:
            self.counts.no_memory += 1
            return NULL
        self.buffered += sizeof(FlowState) + BLOCK_OCTETS
        for end in range(2):
            fs.address_size[end] = <uint8_t>write_address(f.ip_version, f.address[end], fs.address[end])
        f.state = fs
        return fs

    cdef uint32_t by_port(self, Flow* f) noexcept nogil:
        """Protocols, a bit a row, whose port one end has; what decode_as says stands alone."""
        cdef int forced = self.port_forced[f.port[1]] if self.port_forced[f.port[1]] else self.port_forced[f.port[0]]
        if forced:
            return <uint32_t>1 << (forced - 1)
        return self.port_rows[f.port[1]] if self.port_rows[f.port[1]] else self.port_rows[f.port[0]]

    cdef void recognise(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """The first octets of a direction. They are kept until they can be told apart, or the other direction tells."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef const uint8_t* first = p
        cdef size_t size = n
        cdef size_t head = 0
        cdef bint kept = side.size != 0 and not side.foreign
        cdef int found
        if side.foreign:
            if f.streams[end].anchored or not self.find_socket(f, end, p, n, mark):
                self.keep_first(f, end, p, n, mark)
            return
        if kept:
            if not self.add_origin(side, side.size, n, mark) or not self.append(side, p, n):
                self.dismiss(f, UNDECODED_UNKNOWN)
                self.on_ignored(f, 0, <int64_t>n)
                return
            first = side.pending
            size = side.size
        if side.stage == STAGE_HTTP or looks_like_http(first, size) == YES:
            found = self.handshake(f, end, first, size, &head)
        else:
            found = self.guess(f, end, first, size)
        if f.ignored:
            if not kept:
                self.on_ignored(f, 0, <int64_t>n)
        elif found == YES:                              # the octets are ours: take them out, then read them
            self.seen.carrier_octets += <int64_t>head
            if kept:
                self.replay_behind(f, end, head)
            elif n > head:
                self.on_octets(f, end, p + head, n - head, mark)
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

    cdef void keep_first(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Octets of a direction that does not tell the protocol: the other one, or more of them, may. They are kept within
        bounds, and skipped beyond."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        if side.skipped == 0 and side.missing == 0 and not (side.foreign and fs.sides[1 - end].foreign) \
                and side.size + n <= <size_t>(FIRST_KEPT if side.foreign else SEARCH_WINDOW) \
                and (not side.foreign or self.buffered < self.max_buffered // 4) \
                and self.add_origin(side, side.size, n, mark) and self.append(side, p, n):
            return
        self.pass_over(side, side.size)
        side.skipped += <int64_t>n
        if not side.foreign:
            self.set_foreign(f, end)
        if fs.sides[0].skipped + fs.sides[1].skipped > LATE_SEARCH and not f.streams[end].anchored:
            self.dismiss(f, UNDECODED_UNKNOWN)

    cdef void set_foreign(self, Flow* f, int end) noexcept nogil:
        """This direction does not begin as a client of ours does. If it is the client's, or neither does, the connection is
        none of ours; one that began before the capture may still be a WebSocket."""
        cdef FlowState* fs = <FlowState*>f.state
        fs.sides[end].foreign = True
        if f.streams[0].anchored or f.streams[1].anchored:
            if end == f.client or fs.sides[1 - end].foreign:
                self.dismiss(f, UNDECODED_UNKNOWN)
        elif fs.sides[1 - end].foreign:
            self.pass_over(&fs.sides[1 - end], fs.sides[1 - end].size)

    cdef void replay(self, Flow* f, int end) noexcept nogil:
        """Read what a direction has kept, now that more is known."""
        self.replay_behind(f, end, 0)

    cdef void replay_behind(self, Flow* f, int end, size_t head) noexcept nogil:
        """As replay; but its first `head` octets are read."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef uint8_t* pending = side.pending
        cdef Origin* origins = side.origins
        cdef size_t size = side.size
        cdef int count = side.origin_count
        cdef size_t at, stop
        cdef int i
        if size == 0:
            return
        self.buffered -= <int64_t>(side.room + BLOCK_OCTETS + side.origin_room * sizeof(Origin))
        side.pending = NULL                             # freed below
        side.size = side.room = side.need = 0
        side.origins = NULL
        side.origin_count = side.origin_room = 0
        side.at = side.reach = side.wait = 0
        side.frames = 0
        for i in range(count):
            at = max(origins[i].at, head)
            stop = origins[i + 1].at if i + 1 < count else size
            if at < stop:
                if f.ignored:
                    self.on_ignored(f, 0, <int64_t>(stop - at))
                else:
                    self.on_octets(f, end, pending + at, stop - at, &origins[i].mark)
        free(pending)
        free(origins)

    cdef int guess(self, Flow* f, int end, const uint8_t* p, size_t n) noexcept nogil:
        """A Verdict; YES: the flow has its protocol and both directions read frames."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef uint32_t rows = self.by_port(f)
        cdef int i, verdict
        cdef bint more = False
        if not (self.port_forced[f.port[0]] or self.port_forced[f.port[1]]):
            verdict = looks_like_tls(p, n, not f.streams[end].anchored)
            if verdict == YES:
                self.dismiss(f, UNDECODED_TLS)
                return NO
            if verdict == MORE or looks_like_http(p, n) == MORE:
                more = True
        if not f.streams[end].anchored:
            verdict = self.socket_opens(f, end, p, n, &i)
            if verdict == YES:
                self.open_socket(f, end, i, p[1] & 0x80 != 0)
                return NO if f.ignored else YES
            if verdict == MORE:
                more = True
        if is_one(rows):
            if more:
                return MORE
            self.set_protocol(f, first_row(rows))
            return YES
        for i in range(PROTOCOLS):
            if not (rows if rows else self.wanted) >> i & 1:
                continue
            verdict = protocols[i].sniff(p, n)
            if verdict == YES or verdict == SERVERS:
                if f.client < 0 or not (rows or protocols[i].both_open):
                    f.client = <int8_t>(end if verdict == YES else 1 - end)
                self.set_protocol(f, i + 1)
                if fs.sides[end].missing == 0 and fs.sides[end].skipped == 0:
                    fs.sides[end].searching = False     # it begins here, also where no SYN was seen
                return YES
            if verdict == MORE:
                more = True
        if not rows or more:
            return MORE if more else NO
        self.await_protocol(f, rows)
        return NO if f.ignored else YES

    cdef void await_protocol(self, Flow* f, uint32_t rows) noexcept nogil:
        """Both directions are searched for a boundary of any of these protocols: see decide."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef int end
        fs.rows = rows
        for end in range(2):
            fs.sides[end].trials = <Trial*>calloc(PROTOCOLS, sizeof(Trial))
            if fs.sides[end].trials == NULL:
                self.counts.no_memory += 1
                self.dismiss(f, UNDECODED_UNKNOWN)
                return
            self.buffered += PROTOCOLS * sizeof(Trial) + BLOCK_OCTETS
        self.begin_frames(f)

    cdef void free_trials(self, Side* side) noexcept nogil:
        if side.trials != NULL:
            self.buffered -= PROTOCOLS * sizeof(Trial) + BLOCK_OCTETS
            free(side.trials)
            side.trials = NULL

    cdef bint decide(self, Flow* f, int end, bint final) noexcept nogil:
        """The protocol of a boundary in this direction, the first if there are several. True: it is known now, and what
        both directions have kept is read."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef Trial* trial
        cdef size_t first = side.size
        cdef size_t at = side.size
        cdef size_t wait = side.size + SEARCH_WINDOW
        cdef int found = 0
        cdef int i
        for i in range(PROTOCOLS):
            if not fs.rows >> i & 1:
                continue
            trial = &side.trials[i]
            side.at, side.reach, side.wait, side.frames = trial.at, trial.reach, trial.wait, trial.frames
            fs.protocol = &protocols[i]
            if self.find(f, end, final) and (found == 0 or side.at < first):
                found = i + 1
                first = side.at
            trial.at, trial.reach, trial.wait, trial.frames = side.at, side.reach, side.wait, side.frames
            at = min(at, trial.at)
            wait = min(wait, trial.wait)
        fs.protocol = NULL
        if found == 0:
            side.at = at
            side.wait = wait
            return False
        self.set_protocol(f, found)
        if not f.ignored:
            self.read_decided(f, 1 - end, False)
            if self.waiting:
                self.defer_look(DEFERRED_DECIDED, f, end, final)
            else:
                self.read_decided(f, end, final)
        return True

    cdef void read_decided(self, Flow* f, int end, bint final) noexcept nogil:
        """Read a direction's window, now that the protocol is known: from its first octet, if the stream begins there."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        side.at = side.reach = side.wait = 0
        side.frames = 0
        if f.streams[end].anchored and side.offset == 0 and side.missing == 0 and side.skipped == 0:
            if side.size == 0:
                side.searching = False
            elif not self.read_window(f, end):
                self.defer_look(DEFERRED_LOOK, f, end, final)
                return
        if side.searching and side.size:
            self.look(f, end, final)

    cdef inline int client_of(self, Flow* f) noexcept nogil:
        """The end that is the client; where nothing tells, the one whose port is not known."""
        if f.client >= 0:
            return f.client
        return 0 if self.port_is_known(f.port[1]) or not self.port_is_known(f.port[0]) else 1

    cdef void set_protocol(self, Flow* f, int row) noexcept nogil:
        """Both directions read frames of protocols[row - 1]; one that was not captured from its start, after a search."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef int end
        fs.protocol = &protocols[row - 1]
        fs.state = open_state(fs.protocol)
        if fs.state == NULL:
            self.counts.no_memory += 1
            fs.protocol = NULL
            self.dismiss(f, UNDECODED_UNKNOWN)
            return
        self.count_held(fs)
        fs.rows = 0
        for end in range(2):
            fs.sides[end].foreign = False
            self.free_trials(&fs.sides[end])
        self.begin_frames(f)

    cdef void begin_frames(self, Flow* f) noexcept nogil:
        """Leave the first stage. Octets that were kept are those of a search, or the beginning of the first frame."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side
        cdef int64_t missing, skipped
        cdef int end, origins
        f.client = <int8_t>self.client_of(f)
        for end in range(2):
            side = &fs.sides[end]
            if side.stage != STAGE_START:
                continue
            side.stage = STAGE_FRAMES
            missing = side.missing                      # a hole before the protocol was known
            skipped = side.skipped
            if missing or skipped or fs.protocol == NULL or not f.streams[end].anchored:
                origins = side.origin_count
                self.begin_search(side, side.why if missing else -1 if not f.streams[end].anchored else
                                  WHY_LIMIT if skipped else WHY_NO_FRAME)
                side.origin_count = origins             # of the octets that are kept: see replay
                side.missing = missing
                side.skipped = skipped

    cdef void dismiss(self, Flow* f, int reason) noexcept nogil:
        """Not ours, or nothing more can be read: from here on the connection is counted, an Undecoded says why."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef int end
        if f.ignored:
            return
        fs.undecoded = <uint8_t>reason
        self.seen.undecoded_flows[reason] += 1
        if fs.protocol == NULL:
            self.seen.undecoded_packets[reason] += f.packets
        for end in range(2):
            self.seen.undecoded_octets[reason] += <int64_t>fs.sides[end].size + fs.sides[end].skipped
            fs.sides[end].skipped = 0
            self.free_pending(&fs.sides[end])
        self.ignore(f)

    # ---- WebSocket ----------------------------------------------------------------------------------------------------

    cdef int handshake(self, Flow* f, int end, const uint8_t* p, size_t n, size_t* head) noexcept nogil:
        """GET ... Upgrade, or 101 Switching Protocols, with a subprotocol that is ours (RFC 6455, 4.1, 4.2.2). `head`: its
        octets."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
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
            if row == 0:
                return self.refuse(f, end)
            if request:
                f.client = <int8_t>end
            elif f.client < 0:
                f.client = <int8_t>(1 - end)
            self.seen.websockets += 1
            fs.sides[1 - end].stage = STAGE_HTTP
            self.set_protocol(f, row)
            if f.ignored:
                return NO
        side.socket = <WebSocket*>calloc(1, sizeof(WebSocket))
        if side.socket == NULL:
            self.counts.no_memory += 1
            return NO
        self.buffered += sizeof(WebSocket) + BLOCK_OCTETS
        side.stage = STAGE_SOCKET
        return YES

    cdef int refuse(self, Flow* f, int end) noexcept nogil:
        """HTTP that is no handshake of ours. A response alone does not decide: the request may name the subprotocol."""
        cdef FlowState* fs = <FlowState*>f.state
        if fs.protocol != NULL:
            self.dismiss(f, UNDECODED_UNKNOWN)
        return NO

    cdef int socket_frame(self, const Protocol* protocol, void* state, const uint8_t* p, size_t n, bint masked,
                          size_t* size, bint* counts) noexcept nogil:
        """Does a WebSocket message begin here that holds nothing but valid frames of the protocol, or a control frame?
        A Verdict, as Protocol.plausible. `counts`: it is a message."""
        cdef int direction = 0 if masked else 1
        cdef size_t got = 0
        cdef size_t at = 0
        cdef size_t step = 0
        cdef int verdict = YES
        cdef int part = ws_part(p, n, masked, self.scratch, SEARCH_WINDOW, size, &got)
        counts[0] = part == WS_MESSAGE
        if part == WS_NONE or (part == WS_MESSAGE and got == 0):
            return NO
        while at < got and verdict == YES:
            verdict = protocol.plausible(state, direction, self.scratch + at, got - at, &step)
            if verdict == YES:
                at += step
        if part == WS_SHORT:
            return NO if verdict == NO else MORE
        return YES if verdict == YES else NO

    cdef int socket_opens(self, Flow* f, int end, const uint8_t* p, size_t n, int* row) noexcept nogil:
        """Of a stream that began before the capture: are these octets, from a packet's first, whole WebSocket messages that
        hold whole, valid frames? A Verdict; YES: of protocols[row - 1]."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef uint32_t rows = self.by_port(f)
        cdef bint masked = n > 1 and p[1] & 0x80 != 0
        cdef bint counts = False
        cdef bint more = False
        cdef int i, verdict, messages
        cdef size_t at, size = 0
        if f.client >= 0 and n > 1 and masked != (end == f.client):
            return NO
        for i in range(PROTOCOLS):
            if not (rows if rows else self.wanted) >> i & 1 or protocols[i].subprotocol.size == 0:
                continue
            if fs.protocol != NULL and fs.protocol != &protocols[i]:
                continue
            at = 0
            messages = 0
            verdict = YES
            while at < n and verdict == YES:
                verdict = self.socket_frame(&protocols[i], NULL, p + at, n - at, masked, &size, &counts)
                if verdict == YES:
                    at += size
                    messages += counts
            if verdict == YES and messages:
                row[0] = i + 1
                return YES
            more = more or verdict == YES or (verdict == MORE and size <= FIRST_KEPT)
        return MORE if more else NO

    cdef void open_socket(self, Flow* f, int end, int row, bint masked) noexcept nogil:
        """The connection is a WebSocket whose handshake was not captured, and a message begins here in this direction. Whose
        frames are masked is the client (5.1)."""
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
            side.socket = <WebSocket*>calloc(1, sizeof(WebSocket))
            if side.socket == NULL:
                self.counts.no_memory += 1
                self.dismiss(f, UNDECODED_UNKNOWN)
                return
            self.buffered += sizeof(WebSocket) + BLOCK_OCTETS
            side.stage = STAGE_SOCKET
            side.socket.lost = i != end

    cdef bint find_socket(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """A packet of a connection that began before the capture, and in which nothing was read yet: if WebSocket messages
        begin with it, it is read. True: it was."""
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
        self.on_octets(f, end, p, n, mark)
        if not f.ignored:
            self.replay(f, 1 - end)
        return True

    cdef int by_subprotocol(self, const Span* value) noexcept nogil:
        """The protocol named in Sec-WebSocket-Protocol: `mqtt`, and `mqttv3.1` as older clients say; 0: none."""
        cdef int i
        if value.at != NULL:
            for i in range(PROTOCOLS):
                if self.wanted >> i & 1 and protocols[i].subprotocol.size and find_text(
                        value.at, value.size, <const char*>protocols[i].subprotocol.at,
                        <size_t>protocols[i].subprotocol.size) != NULL:
                    return i + 1
        return 0

    cdef size_t unwrap(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Frames of a WebSocket: hand on the payload of data frames, pass over the others. Octets used."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef WebSocket* w = side.socket
        cdef size_t at = 0
        cdef size_t k
        while at < n and not f.ignored and not self.must_wait():
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
                    self.lose_socket(f, end, 0, WHY_NO_FRAME, mark)
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

    cdef void lose_socket(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        """`n` octets are missing, frame headers among them, or no header is where one should be: how many octets of the
        protocol's stream are missing is not known. The next frame is searched: see chain."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        if not self.must_wait() and side.searching and side.size:
            self.look(f, end, True)
        if f.ignored:
            return
        if self.must_wait():
            self.defer_hole(DEFERRED_LOSE, f, end, n, why, mark)
            return
        if side.searching:
            self.pass_over(side, side.size)
        else:
            if (side.size and not self.put_rest(f, end, why_text(why), mark)) or not self.flush(f, end, why_text(why)):
                self.defer_hole(DEFERRED_LOSE, f, end, n, why, mark)
                return
            self.begin_search(side, why)
        side.missing += n
        side.credit = 0
        side.socket.lost = True
        if why == WHY_NO_FRAME:                         # what is no header is skipped
            side.skipped += side.socket.have

    cdef void resume_socket(self, Flow* f, int end) noexcept nogil:
        """WebSocket frames begin at pending[at]: what is before it is part of the hole, the rest is read."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        self.pass_over(side, side.at)
        memset(side.socket, 0, sizeof(WebSocket))
        self.replay(f, end)

    # ---- compressed streams, and those that end in TLS ----------------------------------------------------------------

    cdef bint changes_carrier(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """Have the frames so far agreed on something else to carry the streams? Then it is so from here on."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef int carrier = fs.protocol.carrier(fs.state)
        cdef int i
        if carrier == fs.carrier:
            return False
        fs.carrier = <uint8_t>carrier
        if carrier == CARRIER_TLS:
            self.put_gap_row(f, end, b"TLS from here on: not decoded", mark)
            self.dismiss(f, UNDECODED_TLS)
            return True
        for i in range(2):
            self.open_unpacker(f, i, mark)
        return True

    cdef void carry_on(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """What came with the frame that changed the carrier; and what the other end has sent already."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* other = &fs.sides[1 - end]
        cdef Side old = other[0]
        if f.ignored:
            self.on_ignored(f, 0, <int64_t>n)
            return
        if n:
            self.on_octets(f, end, p, n, mark)
        if old.size and not other.searching and not f.ignored:
            other.pending = NULL
            other.size = other.room = other.need = 0
            self.on_octets(f, 1 - end, old.pending, old.size, &old.first)
            self.free_pending(&old)

    cdef void open_unpacker(self, Flow* f, int end, const Mark* mark) noexcept with gil:
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef Unpacker u
        side.stage = STAGE_PACKED
        if side.searching or side.skip:                 # where it begins is not known
            if not side.searching:
                self.begin_search(side, WHY_NO_FRAME)
            side.broken = True
            return
        if self.buffered + UNPACKER_OCTETS > self.max_buffered:
            self.seen.messages_limited += 1
            self.break_off(f, end, b"compressed: limit", mark)
            return
        try:
            u = Unpacker(fs.carrier)
        except ImportError:
            self.break_off(f, end, b"compressed with snappy: to read it install cramjam (wirefmt[snappy])", mark)
            return
        except BaseException:
            self.counts.no_memory += 1
            side.broken = True
            return
        Py_INCREF(u)
        side.unpacker = <PyObject*>u
        self.buffered += u.count()

    cdef void drop_unpacker(self, Side* side) noexcept with gil:
        self.buffered -= (<Unpacker>side.unpacker).counted
        Py_XDECREF(side.unpacker)
        side.unpacker = NULL

    cdef size_t unpack(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept with gil:
        """Octets of a compressed stream: hand on what is in them. Octets used: all, the unpacker keeps them. No octets:
        what it keeps."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
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
                if self.must_wait():
                    self.defer(DEFERRED_OCTETS, f, end, NULL, 0, mark)
                    break
                u.used += self.consume(f, end, <const uint8_t*>PyBytes_AS_STRING(u.piece) + u.used,
                                       <size_t>PyBytes_GET_SIZE(u.piece) - u.used, mark)
            self.buffered += u.count()
        except MemoryError:
            self.counts.no_memory += 1
        except Exception as error:
            text = f"compressed: {error}".encode("utf-8", "replace")
            self.break_off(f, end, PyBytes_AS_STRING(text), mark)
        return n

    cdef void break_off(self, Flow* f, int end, const char* text, const Mark* mark) noexcept nogil:
        """A direction that cannot be unpacked: a row says why, and what follows is skipped."""
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
        """A hole in a compressed stream: nothing after it can be unpacked."""
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

    # ---- frames -------------------------------------------------------------------------------------------------------

    cdef size_t consume(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """The next octets of the protocol's stream. Octets used: all, unless the batch is full or the flow is ignored."""
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
            if self.waiting:
                return at
            if protocol.carrier != NULL and self.changes_carrier(f, end, mark):
                self.carry_on(f, end, p + at, n - at, mark)
                return n
            if side.searching:
                if at < n:
                    self.search(f, end, p + at, n - at, mark)
                return n
        while at < n and not self.is_full():
            status = protocol.frame_size(fs.state, direction, p + at, n - at, 0, &size, &fault)
            if status == OK and size <= n - at:
                self.context(f, end, mark, mark, side.offset, <int64_t>size, &m)
                if not self.put(f, &m, p + at, size):
                    return at
                side.offset += <int64_t>size
                at += size
                if protocol.carrier != NULL and self.changes_carrier(f, end, mark):
                    self.carry_on(f, end, p + at, n - at, mark)
                    return n
            elif status == OK or status == NEED_DATA:
                side.first = mark[0]
                side.need = size if status == OK else 0
                if side.need > self.max_message:
                    k = min(n - at, <size_t>65536)      # enough for what a limit leaves of a message
                    if not self.append(side, p + at, k) and not self.flush(f, end, b"limit"):
                        return at
                    if side.size or self.append(side, p + at, k):
                        self.give_up_frame(f, end, mark)
                        if self.waiting:
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
        """Octets for the frame that is pending, or for the rest of one that was given up. Octets used."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef size_t at = 0
        cdef size_t more = 1
        cdef size_t k
        while True:
            if side.skip:
                k = n - at if side.skip > <int64_t>(n - at) else <size_t>side.skip
                side.skip -= <int64_t>k
                side.offset += <int64_t>k
                return at + k                           # a frame is given up only while nothing is pending
            if side.size == 0 or at == n:
                return at
            k = min(n - at, side.need - side.size if side.need else more)
            if not self.append(side, p + at, k):
                if side.need:
                    self.give_up_frame(f, end, mark)
                    if self.waiting:
                        return at
                    continue
                self.lost_octets(f, end, p + at, n - at, mark)
                return n
            at += k
            more = self.settle_frame(f, end, mark)
            if more == 0 and (self.waiting or not side.skip):
                return at

    cdef size_t settle_frame(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """Put the pending octets if they are a whole frame; give them up if they cannot become one. How many octets more
        are wanted; 0: nothing is pending any more, or the batch is full."""
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
                    self.add_origin(side, 0, side.size, &side.first)
                else:
                    self.defer(DEFERRED_PENDING, f, end, NULL, 0, mark)
                return 0
            side.need = size
        if side.need > self.max_message:
            self.give_up_frame(f, end, mark)
            return 0
        if side.size < side.need:
            return side.need - side.size
        self.context(f, end, &side.first, mark, side.offset, <int64_t>side.size, &m)
        if not self.put(f, &m, side.pending, side.size):
            self.defer(DEFERRED_PENDING, f, end, NULL, 0, mark)
            return 0
        side.offset += <int64_t>side.size
        self.drop_pending(side)
        return 0

    cdef inline bint put(self, Flow* f, const MessageContext* m, const uint8_t* p, size_t size) noexcept nogil:
        """Rows for a whole frame. What the protocol keeps of messages that go on must not pass the limit. False: the batch
        is full before the last row; call again with the same frame."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef bint done = fs.protocol.put(self.table, m, fs.state, self.strict, p, size)
        self.count_held(fs)
        if self.buffered > self.max_buffered and done:
            self.flush_for_limit(f, self.table.all_rows)
        return done

    cdef void flush_for_limit(self, Flow* f, int64_t rows) noexcept nogil:
        """What the protocol keeps of messages that have begun becomes `partial` rows. `rows`: all there were before."""
        if not (self.flush(f, 0, b"limit") and self.flush(f, 1, b"limit")):
            self.defer_hole(DEFERRED_FLUSH, f, 0, rows, WHY_LIMIT, NULL)
        elif self.table.all_rows != rows:
            self.seen.messages_limited += 1

    cdef inline void count_held(self, FlowState* fs) noexcept nogil:
        cdef int64_t held = (<const ProtocolState*>fs.state).held
        if held != fs.held:
            self.buffered += held - fs.held
            fs.held = held

    cdef bint append(self, Side* side, const uint8_t* p, size_t n) noexcept nogil:
        """Keep octets; False: a limit stands against it."""
        cdef size_t room
        cdef uint8_t* grown
        if n > side.room - side.size:
            room = max(side.size + n, min(side.need, max(2 * side.room, <size_t>512)))
            room = max(room, side.room + side.room // 2)
            if self.buffered + <int64_t>(room - side.room) > self.max_buffered:
                return False
            grown = <uint8_t*>realloc(side.pending, room)
            if grown == NULL:
                self.counts.no_memory += 1
                return False
            self.buffered += <int64_t>(room - side.room) + (BLOCK_OCTETS if side.room == 0 else 0)
            side.pending = grown
            side.room = room
        memcpy(side.pending + side.size, p, n)
        side.size += n
        return True

    cdef inline void drop_pending(self, Side* side) noexcept nogil:
        """There are no pending octets; a little room is kept for the next."""
        side.size = 0
        side.need = 0
        if side.room > PENDING_KEPT:
            self.free_pending(side)

    cdef void free_pending(self, Side* side) noexcept nogil:
        if side.room:
            self.buffered -= <int64_t>side.room + BLOCK_OCTETS
        free(side.pending)
        side.pending = NULL
        side.size = side.room = side.need = 0

    cdef void give_up_frame(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """The pending frame is beyond a limit: say what is known of it and pass over the rest."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef int64_t rest = <int64_t>(side.need - side.size)
        if not self.put_rest(f, end, b"limit", mark):
            self.defer(DEFERRED_GIVE_UP, f, end, NULL, 0, mark)
            return
        self.seen.messages_limited += 1
        side.skip = rest

    cdef void pass_frame(self, Flow* f, int end, const Mark* mark) noexcept nogil:
        """As give_up_frame, where not even the beginning of the frame can be kept: all of it is a gap."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        self.seen.messages_limited += 1
        side.why = WHY_LIMIT
        side.skip = side.missing = <int64_t>side.need
        self.put_gap(f, end, 0, mark)
        side.offset -= side.skip
        side.need = 0

    cdef void lost_octets(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """There is no room for them."""
        self.seen.messages_limited += 1
        self.cross(f, end, <int64_t>n, WHY_LIMIT, mark)

    # ---- holes, and frames again after them ------------------------------------------------------------------------

    cdef void cross(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        """`n` octets of the protocol's stream are missing."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef int64_t rest, k
        if side.searching and side.size:
            self.look(f, end, True)
            if self.waiting:
                self.defer_hole(DEFERRED_CROSS, f, end, n, why, mark)
                return
        if side.searching:
            self.pass_over(side, side.size)
            if side.why < 0:
                side.why = <int8_t>why
            side.missing += n
            side.credit = 0
            return
        side.why = <int8_t>why
        if side.size:
            rest = <int64_t>(side.need - side.size) if side.need else 0
            if not self.put_rest(f, end, why_text(why), mark):
                self.defer_hole(DEFERRED_CROSS, f, end, n, why, mark)
                return
            side.skip = rest
        if not self.flush(f, end, why_text(why)):
            self.defer_hole(DEFERRED_CROSS, f, end, n, why, mark)
            return
        if side.skip:                                   # a hole inside a frame whose size is known
            k = min(n, side.skip)
            side.missing = k
            self.put_gap(f, end, 0, mark)
            side.skip -= k
            n -= k
            if n == 0:
                return
        self.begin_search(side, why)
        side.missing = n

    cdef void begin_search(self, Side* side, int why) noexcept nogil:
        side.searching = True
        side.why = <int8_t>why
        side.missing = side.skipped = 0
        side.at = side.wait = side.reach = 0
        side.frames = 0
        side.credit = 0
        side.need = 0
        side.skip = 0
        side.origin_count = 0

    cdef bint lose_boundary(self, Flow* f, int end, const Fault* fault, const Mark* mark) noexcept nogil:
        """What follows is no frame: a row says why, then the next boundary is searched. False: the batch is full before."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef char text[256]
        cdef int size = fault_text(fs.protocol.tables, fault, 0, text, sizeof(text))
        text[size] = 0
        if not self.flush(f, end, why_text(WHY_NO_FRAME)):
            return False
        self.put_malformed(f, end, text, mark)
        self.begin_search(side, WHY_NO_FRAME)
        side.at = 1                                     # not here
        return True

    cdef bint add_origin(self, Side* side, size_t at, size_t n, const Mark* mark) noexcept nogil:
        """pending[at : at + n] came with this packet."""
        cdef Origin* grown
        if side.origin_count == side.origin_room:
            grown = <Origin*>realloc(side.origins, (2 * side.origin_room + 16) * sizeof(Origin))
            if grown == NULL:
                self.counts.no_memory += 1
                return False
            self.buffered += <int64_t>((side.origin_room + 16) * sizeof(Origin))
            side.origins = grown
            side.origin_room = 2 * side.origin_room + 16
        side.origins[side.origin_count].at = at
        side.origins[side.origin_count].mark = mark[0]
        side.origins[side.origin_count].ends_write = mark.push or n < FULL_SEGMENT or n < side.largest
        side.largest = max(side.largest, n)
        side.origin_count += 1
        return True

    cdef void free_origins(self, Side* side) noexcept nogil:
        self.buffered -= <int64_t>(side.origin_room * sizeof(Origin))
        free(side.origins)
        side.origins = NULL
        side.origin_count = side.origin_room = 0

    cdef void search(self, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """More octets to find a boundary in."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef Side* other = &fs.sides[1 - end]
        if side.why < 0 and side.stage == STAGE_FRAMES and side.offset == 0 and other.offset == 0 and other.searching \
                and self.find_socket(f, end, p, n, mark):
            return
        if not self.add_origin(side, side.size, n, mark) or not self.append(side, p, n):
            self.pass_over(side, side.size)
            self.lost_octets(f, end, p, n, mark)
            return
        side.credit = min(side.credit + <int64_t>n * SEARCH_CREDIT, <int64_t>SEARCH_WINDOW * SEARCH_CREDIT)
        if side.size >= side.wait or side.size - side.at >= SEARCH_WINDOW or side.origin_count >= SEARCH_ORIGINS:
            self.look(f, end, False)

    cdef void look(self, Flow* f, int end, bint final) noexcept nogil:
        """Look for a boundary in the window, and read from there. `final`: no more octets will follow these."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        if fs.protocol == NULL:
            if self.decide(f, end, final):
                return
        else:
            while side.reading or self.find(f, end, final):
                if not side.reading and side.stage == STAGE_SOCKET and side.socket.lost:
                    self.resume_socket(f, end)
                    if not final or f.ignored:
                        pass
                    elif self.waiting:
                        self.defer_look(DEFERRED_LOOK, f, end, True)
                    elif side.searching and side.size:
                        self.look(f, end, True)
                    return
                if not self.read_window(f, end):
                    self.defer_look(DEFERRED_LOOK, f, end, final)
                    return
                if not side.searching:
                    return
        if side.at >= SEARCH_STEP or side.at == side.size or side.origin_count >= SEARCH_ORIGINS:
            self.pass_over(side, side.at)

    cdef void look_again(self, Flow* f, int end, bint final) noexcept nogil:
        """Continue a look, unless what was read since has found the boundary."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        if side.reading or (side.searching and side.size):
            self.look(f, end, final)

    cdef bint find(self, Flow* f, int end, bint final) noexcept nogil:
        """Pass over the window octet by octet until a chain of frames begins. True: it does, at pending[at]."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef int origin = 0
        cdef int verdict
        cdef bint full
        while side.at < side.size:
            while origin < side.origin_count and side.origins[origin].at < side.at:
                origin += 1
            verdict = self.chain(f, end, origin < side.origin_count and side.origins[origin].at == side.at, final)
            if verdict == YES:
                return True
            full = side.size - side.at >= SEARCH_WINDOW or side.origin_count >= SEARCH_ORIGINS or side.credit < 0
            if verdict == MORE and not full:
                return False
            side.at += 1
            side.frames = 0
            side.reach = side.at
        return False

    cdef int chain(self, Flow* f, int end, bint packet_start, bint final) noexcept nogil:
        """Do valid frames begin at pending[at]? They do if they end exactly where a packet ended a write: two of them,
        or one that also begins with a packet's octets; or if CHAIN of them go on for CHAIN_SPAN octets. A payload that holds
        such frames itself breaks the chain where it ends. `final`: nothing follows, and CHAIN from a packet's first
        octet must do.

        In a WebSocket whose frame boundary is lost the same holds for its messages, each of which must hold nothing but
        whole, valid frames: a WebSocket inside a payload ends where the payload ends. Control frames are no evidence.
        """
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef bint socket = side.stage == STAGE_SOCKET and side.socket.lost
        cdef bint counts = True
        cdef size_t size = 0
        cdef int enough = 1 if packet_start else 2
        cdef int verdict, steps = 0
        cdef int direction = 0 if end == f.client else 1
        if side.reach < side.at:
            side.reach = side.at
            side.frames = 0
        while True:
            if side.frames >= enough and self.ends_write(side, side.reach):
                return YES
            if side.frames >= CHAIN and side.reach - side.at >= CHAIN_SPAN:
                return YES
            if side.credit < 0 and steps == CHAIN_STEPS:
                return NO                               # as much was looked at as the octets there are allow
            steps += 1
            if side.reach == side.size:
                side.wait = side.size + 1
                verdict = MORE
            else:
                if socket:
                    verdict = self.socket_frame(fs.protocol, fs.state, side.pending + side.reach, side.size - side.reach,
                                                direction == 0, &size, &counts)
                else:
                    verdict = fs.protocol.plausible(fs.state, direction, side.pending + side.reach,
                                                    side.size - side.reach, &size)
                side.credit -= 16 + <int64_t>min(size, side.size - side.reach)
                side.wait = side.reach + size
            if verdict == MORE and size <= SEARCH_WINDOW:
                if final:
                    return YES if packet_start and side.frames >= CHAIN else NO
                return MORE
            if verdict != YES:
                return NO
            side.reach += size
            side.frames += counts

    cdef bint ends_write(self, Side* side, size_t at) noexcept nogil:
        """Does a packet that ended a write end at pending[at - 1]?"""
        cdef int low = 0
        cdef int high = side.origin_count
        cdef int middle
        while low < high:                               # the first origin at or after `at`
            middle = (low + high) // 2
            if side.origins[middle].at < at:
                low = middle + 1
            else:
                high = middle
        if low < side.origin_count and side.origins[low].at != at:
            return False
        return low > 0 and (low < side.origin_count or at == side.size) and side.origins[low - 1].ends_write

    cdef bint read_window(self, Flow* f, int end) noexcept nogil:
        """Frames begin at pending[at]: a gap row, then read them. The last one may be cut, and so is pending again. False:
        the batch is full; call again."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef const Protocol* protocol = fs.protocol
        cdef int direction = 0 if end == f.client else 1
        cdef MessageContext m
        cdef size_t at = side.at
        cdef size_t size = 0
        cdef int first = 0
        cdef int last = 0
        cdef int status = NEED_DATA
        cdef Fault fault
        if not side.reading:
            while first + 1 < side.origin_count and side.origins[first + 1].at <= at:
                first += 1
            self.put_gap(f, end, <int64_t>at, &side.origins[first].mark)
            side.searching = False
            side.reading = True
            while (protocol.frame_size(fs.state, direction, side.pending + at, side.size - at, 0, &size, &fault) == OK
                   and size <= side.size - at):
                if protocol.learn != NULL:
                    protocol.learn(fs.state, direction, side.pending + at, size)
                at += size
            at = side.at
        last = first
        while at < side.size:
            side.at = at
            if self.is_full():
                return False
            while first + 1 < side.origin_count and side.origins[first + 1].at <= at:
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
            while last + 1 < side.origin_count and side.origins[last + 1].at < at + size:
                last += 1
            self.context(f, end, &side.origins[first].mark, &side.origins[last].mark, side.offset, <int64_t>size, &m)
            if not self.put(f, &m, side.pending + at, size):
                return False
            side.offset += <int64_t>size
            at += size
        side.reading = False
        if at < side.size:
            side.first = side.origins[first].mark
        memmove(side.pending, side.pending + at, side.size - at)
        side.size -= at
        side.need = size if status == OK and side.size else 0
        if side.size == 0:
            self.drop_pending(side)
        self.free_origins(side)
        return True

    cdef void lose_boundary_in_window(self, Flow* f, int end, int origin, const Fault* fault) noexcept nogil:
        """As lose_boundary, but the window stays the window. Nothing is left to flush."""
        cdef Side* side = &(<FlowState*>f.state).sides[end]
        cdef int count = side.origin_count
        cdef int64_t credit = side.credit
        cdef Mark mark = side.origins[0].mark
        self.lose_boundary(f, end, fault, &mark)
        side.origin_count = count
        side.credit = credit

    cdef void shift(self, Side* side, size_t n) noexcept nogil:
        """Take n octets off the front of the search window."""
        cdef int i
        cdef int first = 0
        if n == 0:
            return
        memmove(side.pending, side.pending + n, side.size - n)
        side.size -= n
        while first + 1 < side.origin_count and side.origins[first + 1].at <= n:
            first += 1
        for i in range(first, side.origin_count):
            side.origins[i - first] = side.origins[i]
            side.origins[i - first].at = side.origins[i].at - n if side.origins[i].at > n else 0
        side.origin_count -= first
        side.at = side.at - n if side.at > n else 0
        side.wait = side.wait - n if side.wait > n else 0
        side.reach = side.reach - n if side.reach > n else 0
        if side.trials != NULL:
            for i in range(PROTOCOLS):
                side.trials[i].at -= min(n, side.trials[i].at)
                side.trials[i].wait -= min(n, side.trials[i].wait)
                side.trials[i].reach -= min(n, side.trials[i].reach)

    cdef void pass_over(self, Side* side, size_t n) noexcept nogil:
        """pending[:n] holds no boundary: it is part of the hole."""
        side.skipped += <int64_t>n
        self.shift(side, n)
        if side.size == 0:
            side.origin_count = 0
            side.at = side.wait = side.reach = 0
            side.frames = 0
            if side.trials != NULL:
                memset(side.trials, 0, PROTOCOLS * sizeof(Trial))
            self.drop_pending(side)

    # ---- rows -----------------------------------------------------------------------------------------------------------

    cdef inline void context(self, Flow* f, int end, const Mark* first, const Mark* last, int64_t offset, int64_t size,
                             MessageContext* m) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        m.ts_ns = last.ts_ns
        m.ts_first_ns = first.ts_ns
        m.frame_no = last.frame_no
        m.byte_offset = offset
        m.flow_id = f.flow_id
        m.direction = 0 if end == f.client else 1
        m.src_ip.at = <const uint8_t*>fs.address[end]
        m.src_ip.size = fs.address_size[end]
        m.dst_ip.at = <const uint8_t*>fs.address[1 - end]
        m.dst_ip.size = fs.address_size[1 - end]
        m.src_port = f.port[end]
        m.dst_port = f.port[1 - end]
        self.name_of(last.capture, m)
        m.wire_size = size

    cdef inline void name_of(self, int32_t index, MessageContext* m) noexcept nogil:
        if 0 <= index < self.name_room and self.names[index].at != NULL:
            m.capture = self.names[index]
        else:
            m.capture = NO_TEXT

    cdef bint put_rest(self, Flow* f, int end, const char* why, const Mark* mark) noexcept nogil:
        """Rows for the pending octets, the beginning of a frame; they are gone then. False: the batch is full before the
        last row; call again with the same arguments."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef Side* side = &fs.sides[end]
        cdef MessageContext m
        cdef char text[128]
        cdef int64_t row
        cdef bint done
        cdef int size
        if side.need:
            size = snprintf(text, sizeof(text), "%s: %zu of %zu bytes read", why, side.size, side.need)
        else:
            size = snprintf(text, sizeof(text), "%s: %zu bytes of a message of unknown size read", why, side.size)
        self.context(f, end, &side.first, mark, side.offset, <int64_t>(side.need if side.need else side.size), &m)
        if fs.protocol.put_part != NULL:
            done = fs.protocol.put_part(self.table, &m, fs.state, side.pending, side.size, text, <size_t>size)
        else:
            done = True
            row = self.table.begin_row(&m)
            put_text(self.table.cols + T_PROTOCOL, row, &fs.protocol.name)
            self.table.put_status(row, ROW_PARTIAL, text, size)
        self.count_held(fs)
        if done:
            side.offset += <int64_t>side.size
            self.drop_pending(side)
        return done

    cdef bint flush(self, Flow* f, int end, const char* why) noexcept nogil:
        """What this direction has begun and cannot go on. False: the batch is full before the last row; call again."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef bint done = True
        if fs.protocol == NULL:
            return True
        if fs.protocol.flush != NULL:
            done = fs.protocol.flush(self.table, fs.state, 0 if end == f.client else 1, why, strlen(why))
        self.count_held(fs)
        return done

    cdef void put_gap(self, Flow* f, int end, int64_t skipped, const Mark* mark) noexcept nogil:
        """A row for the hole that was crossed, if it has any octet."""
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

    cdef void put_gap_row(self, Flow* f, int end, const char* text, const Mark* mark) noexcept nogil:
        """A row for what is there and cannot be read."""
        cdef FlowState* fs = <FlowState*>f.state
        cdef MessageContext m
        cdef int64_t row
        self.context(f, end, mark, mark, fs.sides[end].offset, 0, &m)
        row = self.table.begin_row(&m)
        put_text(self.table.cols + T_PROTOCOL, row, &fs.protocol.name)
        self.table.put_status(row, ROW_GAP, text, <int>strlen(text))

    cdef void put_malformed(self, Flow* f, int end, const char* text, const Mark* mark) noexcept nogil:
        cdef FlowState* fs = <FlowState*>f.state
        cdef MessageContext m
        cdef int64_t row
        self.context(f, end, mark, mark, fs.sides[end].offset, 0, &m)
        row = self.table.begin_row(&m)
        put_text(self.table.cols + T_PROTOCOL, row, &fs.protocol.name)
        self.table.put_status(row, ROW_MALFORMED, text, <int>strlen(text))

    cdef void report_fault(self, const char* text, int64_t offset, int64_t frame_no) noexcept nogil:
        """One row for what cannot be read of the present capture file: byte_offset is the place in the file."""
        cdef Deferred* d
        cdef Mark mark
        self.seen.capture_faults += 1
        if self.slice_index != 0:
            return
        memset(&mark, 0, sizeof(mark))
        mark.capture = self.file_index
        mark.frame_no = frame_no
        if not self.waiting:
            self.put_file_fault(text, offset, &mark)
            return
        d = self.defer(DEFERRED_REPORT, NULL, 0, <const uint8_t*>text, strlen(text) + 1, &mark)
        if d != NULL:
            d.n = offset

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


cdef enum:
    WHY_NO_FRAME = 100          # beyond Why: the octets there are no frame
    WHY_FRONT                   # the end of octets from before the beginning of the stream


cdef inline const char* why_text(int why) noexcept nogil:
    if why < 0:
        return b"capture began inside the stream"
    if why == WHY_LOST:
        return b"not captured"
    if why == WHY_CUT:
        return b"truncated by the snapshot length"
    if why == WHY_TIMEOUT:
        return b"never seen"
    if why == WHY_LIMIT:
        return b"limit"
    if why == WHY_NO_FRAME:
        return b"no message boundary"
    if why == WHY_FRONT:
        return b"captured after what follows it"
    return b"stream ended"


cdef inline bint is_one(uint32_t rows) noexcept nogil:
    return rows != 0 and rows & (rows - 1) == 0


cdef inline int first_row(uint32_t rows) noexcept nogil:
    """Row + 1 of the first protocol; 0: none."""
    cdef int i
    for i in range(PROTOCOLS):
        if rows >> i & 1:
            return i + 1
    return 0


cdef int looks_like_tls(const uint8_t* p, size_t n, bint late) noexcept nogil:
    """A handshake record: type 22, version 3.0 to 3.4 (RFC 8446, 5.1). `late`: the capture may have begun after the
    handshake, with a record of another type; then its length, and where the next one begins, must fit, too."""
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


cdef int looks_like_http(const uint8_t* p, size_t n) noexcept nogil:
    """The first octets of a WebSocket handshake's request or response."""
    if memcmp(p, b"GET ", min(n, <size_t>4)) == 0:
        return YES if n >= 4 else MORE
    if memcmp(p, b"HTTP/1.1 ", min(n, <size_t>9)) == 0:
        return YES if n >= 9 else MORE
    return NO
