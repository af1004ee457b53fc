# Captures -> the message table.
#
#     octets of files -> PcapFile -> PacketParser -> Reassembler -> FrameStreams (carriers, frames) -> rows
#                                                                     Recognition
from wirefmt._core import some_rows
from wirefmt.spec.options import options_of
from wirefmt.spec.table import COLUMNS as TABLE_COLUMNS

cdef enum:
    PAYLOAD_AHEAD = 1024        # octets of a segment's payload that are prefetched
    AHEAD = 4096                # octets of the file that are prefetched before they are read
    NAMES_MAX = 1 << 24         # capture files
    BATCH_MAX = 1 << 28         # octets: a column of a batch has 32-bit offsets, which also allow one message more


cdef class CaptureDecoder:
    """Decodes bytes of capture files to batches of the message table.

    Call `begin_file`, then `feed` with chunks of any size, then `end_file`; at the end `finish`. feed, end_file and
    finish stop when a batch is full: feed returns how many bytes it used, the others return whether they are done. Then call
    `take`, and call again. A call during another one, for example in another thread, raises RuntimeError; `stats` may
    always be read.

    Parameters: an `Options`, or its fields as keywords; `threads` is 1, since the caller's thread decodes. transport: also count
    the traffic of each TCP connection, for `take_transport`. secrets: a `wirefmt.capture.keylog.Secrets` that several decoders
    share; else that of the options `keylog` and `keys`.
    Raises ValueError if an option has an invalid value or `columns` names an unknown column; ModuleNotFoundError if a
    filter is given and pyarrow is not installed.
    """

    cdef PcapFile file
    cdef PacketParser packets
    cdef Reassembler tcp                                # that of `streams`, as its memory, table and counts
    cdef FrameStreams streams
    cdef Recognition recognition
    cdef Memory* memory
    cdef MessageTable table
    cdef CaptureCounts* seen
    cdef int32_t file_index
    cdef bint across_files, busy, file_over
    cdef uint64_t slice_index, slice_count
    cdef object condition                                 # which rows of a batch the filter keeps; None: there is no filter
    cdef object shown                                   # of the columns of batches; None: all
    cdef Segment[GROUP] group                           # segments that were parsed and not yet taken
    cdef Mark[GROUP] group_marks
    cdef uint64_t[GROUP] group_hashes                   # segment_table_hash
    cdef int group_count
    cdef SegmentList held                               # what comes after a full batch: the rest of a group, faults of a file
    cdef size_t held_at                                 # items of it that were taken
    cdef int64_t held_octets                            # memory of the others; not in `buffered`, as that of `tcp.waiting`
    cdef Share share                                    # being taken; None: all were taken
    cdef dict told                                      # stats before the share: other threads may ask for them
    cdef size_t taken                                   # items of it
    cdef int64_t fragment_octets                        # of `packets`, as counted in `buffered`
    cdef uint8_t* carry                                 # octets of an incomplete record
    cdef size_t carry_at, carry_size, carry_capacity

    def __cinit__(self, *args, **keywords):
        self.streams = FrameStreams.__new__(FrameStreams)
        self.recognition = Recognition.__new__(Recognition)
        self.tcp = self.streams.tcp
        self.memory = self.streams.memory
        self.seen = &self.streams.seen
        join_sink(&self.tcp.sink, self.streams)
        join_recogniser(self.recognition, self.streams)

    def __init__(self, options=None, /, *, bint transport=False, secrets=None, **keywords):
        options = options_of(options, keywords)
        if options.threads != 1:
            raise ValueError("a CaptureDecoder decodes in one thread; capture.read(..., threads=N) uses several")
        self.streams.strict = options.strictness == "strict"
        self.across_files = options.flows == "across-files"
        self.slice_index, self.slice_count = options.slice
        self.table = MessageTable(TABLE_COLUMNS, options.columns_read(), payload=options.payload, payload_max=options.payload_max,
                                  expose_credentials=options.expose_credentials, raw=options.raw, detail=options.detail,
                                  vlan=options.vlan)
        self.table.batch_rows = options.batch_rows
        self.table.batch_bytes = min(options.batch_bytes, BATCH_MAX)
        self.streams.table = self.table
        if secrets is None:
            from wirefmt.capture.keylog import Secrets
            secrets = Secrets(options.keylog, options.keys)
        self.streams.secrets = secrets
        self.streams.decrypts = DECRYPTS_PERHAPS
        self.file = PcapFile.__new__(PcapFile)
        self.file.secrets = secrets
        self.packets = PacketParser(tunnels=options.tunnels)
        self.set_protocols(options)
        self.set_limits(options.all_limits())
        if transport:
            self.streams.transport = ColumnSet(TRANSPORT_COLUMNS)
            self.tcp.counts_traffic = True
        if options.filter is not None:
            from wirefmt.spec.filter import Keep
            self.shown = options.columns
            self.condition = Keep(options.filter, self.table.take())    # an empty batch has the types

    cdef set_protocols(self, options):
        cdef int i
        names = [row.name for row in PROTOCOL_ROWS]
        for i in range(PROTOCOLS):
            if options.protocols is None or names[i] in options.protocols:
                self.recognition.wanted |= <uint32_t>1 << i
            for port in PROTOCOL_ROWS[i].ports:
                self.recognition.port_rows[<uint16_t>port] |= <uint32_t>1 << i
        for port, name in options.forced_ports().items():
            self.recognition.port_forced[<uint16_t>port] = <uint8_t>(names.index(name) + 1)

    cdef set_limits(self, values):
        self.tcp.max_flows = values["max_flows"]
        self.tcp.max_out_of_order = values["max_out_of_order"]
        self.streams.max_message = self.table.options.max_message = values["max_message"]
        self.memory.max_buffered = values["max_buffered"]
        self.streams.max_inflated = values["max_inflated"]
        self.tcp.idle_ns = values["idle_seconds"] * SECOND

    def __dealloc__(self):
        free_list(&self.held)
        free(self.carry)

    # ---- feeding ----------------------------------------------------------------------------------------------------

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
        self.streams.add_name(index, text)
        self.file_index = index
        self.streams.decrypts = DECRYPTS_PERHAPS
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

    def feed_share(self, Share share not None):
        """Take what a `Dispatcher` of this file has dispatched, instead of its bytes. Returns False if a batch is full: take()
        it and call again with the same share."""
        cdef bint done
        begin_call(&self.busy)
        try:
            if share is not self.share:
                if self.told is None:
                    self.told = self.gather()
                self.share = share
                self.taken = 0
            with nogil:
                done = self.resume() and self.take_items(&share.segments)
            self.file_over = True                       # its end is dispatched, too
            if done:
                self.share = None
            self.told = self.gather()
        finally:
            self.busy = False
        self.check_memory()
        return done

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

    def forget(self):
        """What follows is of another capture: incomplete IP datagrams are dropped."""
        begin_call(&self.busy)
        self.packets.forget()
        self.count_fragments()
        self.busy = False

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
                        self.take_segment(&r, file_index, not payload_lies_in(s, octets.at, n))
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
    def secrets(self):
        """The secrets of TLS connections."""
        return self.streams.secrets

    @property
    def counts_traffic(self):
        """True if the decoder was made with `transport`."""
        return self.streams.transport is not None

    @property
    def not_a_capture(self):
        """True if the present file is not a capture, or not in a supported format."""
        return self.file.is_unread()

    @property
    def last_ns(self):
        """Time in ns of the last packet of the present file."""
        return self.file.last_ns

    @property
    def fault(self):
        """The last error of the present file; None: no error."""
        return self.file.last_fault()

    def take(self, final=False):
        """Return the batch if it is full; with `final`, the rows so far. None: no rows, or none that the filter keeps."""
        begin_call(&self.busy)
        try:
            if self.table.rows == 0 or not (final or self.is_full()):
                return None
            self.seen.batches += 1
            batch = self.table.take()
            if self.condition is None:
                return batch
            rows = self.condition(batch)
            return some_rows(batch, rows, TABLE_COLUMNS, self.shown) if rows else None
        finally:
            self.busy = False

    def take_transport(self):
        """The rows of TCP connections that have ended since the last call (columns: `TRANSPORT`). None: there are none.

        Raises ValueError if the decoder was made without `transport`.
        """
        if self.streams.transport is None:
            raise ValueError("the decoder counts no traffic: CaptureDecoder(..., transport=True) does")
        begin_call(&self.busy)
        try:
            rows, self.streams.transport_rows = self.streams.transport_rows, 0
            return self.streams.transport.finish(rows) if rows else None
        finally:
            self.busy = False

    @property
    def stats(self):
        """Counters by name. While a share is taken in another thread: those before it."""
        return dict(self.told) if self.busy and self.share is not None else self.gather()

    cdef dict gather(self):
        cdef CaptureCounts c = self.seen[0]
        cdef int port
        stats = {
            "bytes": c.bytes, "files": c.files, "packets": c.packets, "packets_of_other_slices": c.other_slices,
            "rows": self.table.all_rows, "batches": c.batches, "malformed": self.table.status_rows[<int>ROW_MALFORMED],
            "gap_rows": self.table.status_rows[<int>ROW_GAP], "partial": self.table.status_rows[<int>ROW_PARTIAL],
            "websocket_flows": c.websockets, "carrier_bytes": c.carrier_octets,
            "messages_limited": c.messages_limited, "capture_faults": c.capture_faults,
        }
        stats.update(self.tcp.stats())
        stats["buffered"] += self.tcp.waiting.octets + self.held_octets
        stats["packet_kinds"] = self.packets.stats()
        stats["not_decoded"] = {
            name: undecoded_of(c.undecoded_packets[i], c.undecoded_octets[i], c.undecoded_flows[i])
            for i, name in enumerate(UNDECODED_NAMES)
        } | self.packets.undecoded()
        stats["tls"] = {name: self.streams.tls_flows[<int>i] for i, name in enumerate(TLS_NAMES)}
        stats["not_recognised_ports"] = ports = {}
        if self.streams.unknown_ports != NULL:
            for port in range(65536):
                if self.streams.unknown_ports[port]:
                    ports[port] = self.streams.unknown_ports[port]
        return stats

    @property
    def rows(self):
        """Rows in the present batch."""
        return self.table.rows

    cdef inline bint is_full(self) noexcept nogil:
        return self.table.is_full()

    cdef check_memory(self):
        if self.memory.no_memory or self.table.shared.no_memory:
            raise MemoryError

    cdef bint end_flows(self) noexcept nogil:
        """True: none is left."""
        if not self.resume():
            return False
        while not self.tcp.end_some(1, WHY_CAPTURE_END):
            if self.is_full():
                return False
        return self.tcp.waiting.first == NULL

    cdef size_t feed_octets(self, const uint8_t* p, size_t n) noexcept nogil:
        """Records are read in the caller's octets, except one that crosses chunks, which is assembled in `carry`."""
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
            if rest <= at:                              # the rest is in the caller's octets, too
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
        if n > self.carry_capacity - self.carry_size:
            grown = <uint8_t*>realloc(self.carry, self.carry_size + n)
            if grown == NULL:
                self.memory.no_memory += 1
                return False
            self.carry = grown
            self.carry_capacity = self.carry_size + n
        if n:                                           # otherwise there may be no carry to copy to
            memcpy(self.carry + self.carry_size, p, n)
        self.carry_size += n
        return True

    cdef void walk(self, const uint8_t* p, size_t n, bint last, size_t* used) noexcept nogil:
        """Read the records of p[:n] until they end or a batch is full. `used`: octets that are no longer needed."""
        cdef size_t at = 0
        cdef size_t step
        cdef int answer, reason
        cdef bint plain = self.file.is_plain()
        cdef PacketRecord r
        cdef Segment* s
        while self.group_count or not self.is_full():       # rows are put when a group is taken
            step = self.file.plain_record(p + at, n - at, &r) if plain else 0
            if step:
                answer = READ_RECORD
            else:
                answer = self.file.next_record(p + at, n - at, last, &step, &r)
                plain = self.file.is_plain()
            at += step
            if n - at > AHEAD:
                prefetch_read(p + at + AHEAD, min(step, n - at - AHEAD))
            if answer == READ_RECORD:
                self.seen.packets += 1
                s = self.next_place()
                if self.packets.parse_plain(&r, s):
                    self.take_segment(&r, self.file_index, False)
                    continue
                reason = self.packets.parse(&r, s)
                if reason == PACKET_TCP:
                    self.take_segment(&r, self.file_index, not payload_lies_in(s, p, n))
                elif reason == PACKET_FRAGMENT_HELD:
                    self.take_group()
                    self.count_fragments()
            elif answer == READ_FAULT:
                self.take_group()
                self.report_fault(capture_fault_text(self.file.fault.reason), self.file.fault.offset,
                                  self.file.fault.frame_no)
            elif answer == READ_NEED:
                break
            else:                                       # the rest of the file is unreadable
                at = n
                break
        self.take_group()
        used[0] = at

    cdef void count_fragments(self) noexcept nogil:
        self.memory.buffered += self.packets.datagram_octets - self.fragment_octets
        self.fragment_octets = self.packets.datagram_octets

    cdef inline Segment* next_place(self) noexcept nogil:
        """The place for the next segment."""
        return &self.group[self.group_count]

    cdef inline void take_segment(self, const PacketRecord* r, int32_t capture, bint volatile) noexcept nogil:
        """Add the segment in the next place to the group. `volatile`: parsing the next packet may overwrite its payload."""
        cdef const Segment* s = self.next_place()
        cdef Mark* mark = &self.group_marks[self.group_count]
        if self.slice_count > 1 and segment_flow_hash(s) % self.slice_count != self.slice_index:
            self.seen.other_slices += 1
            return
        mark.ts_ns = r.ts_ns
        mark.frame_no = r.frame_no
        mark.vlans = self.packets.vlans
        mark.capture = capture
        mark.push = s.flags & TCP_PSH != 0
        self.group_hashes[self.group_count] = segment_table_hash(s)
        self.tcp.prefetch_slot(self.group_hashes[self.group_count])
        self.group_count += 1
        if self.group_count == GROUP or volatile:
            self.take_group()

    cdef void take_group(self) noexcept nogil:
        """Take the segments of the group, and hold those that come after a full batch."""
        cdef int count = self.group_count
        cdef int i
        self.group_count = 0
        if count > 1:
            self.tcp.prefetch_flows(self.group_hashes, count)
        for i in range(count):
            if self.is_full():
                self.hold(&self.group[i], &self.group_marks[i], self.group[i].payload, self.group[i].captured)
            else:
                self.tcp.segment(&self.group[i], self.group_hashes[i], &self.group_marks[i])

    cdef bint take_items(self, const SegmentList* segments) noexcept nogil:
        """Take the items of a share, from `taken` on. False: a batch is full."""
        cdef const Dispatched* item
        cdef int count, i
        while self.taken < segments.count and not self.is_full():
            item = segments.items + self.taken
            count = <int>min(segments.count - self.taken, <size_t>GROUP)
            if item.segment.ip_version == 0:
                self.report_fault(<const char*>item.segment.payload, item.mark.ts_ns, item.mark.frame_no)
                self.taken += 1
                continue
            for i in range(count):
                if item[i].segment.ip_version == 0:
                    count = i
                    break
                self.group_hashes[i] = segment_table_hash(&item[i].segment)
                self.tcp.prefetch_slot(self.group_hashes[i])
                prefetch_read(item[i].segment.payload, min(item[i].segment.captured, <uint32_t>PAYLOAD_AHEAD))
            if count > 1:
                self.tcp.prefetch_flows(self.group_hashes, count)
            for i in range(count):
                if self.is_full():
                    return False
                self.tcp.segment(&item[i].segment, self.group_hashes[i], &item[i].mark)
                self.taken += 1
        return self.taken == segments.count

    # ---- what waits until a full batch has been taken ---------------------------------------------------------------

    cdef void hold(self, const Segment* s, const Mark* mark, const void* payload, size_t n) noexcept nogil:
        """Take a segment later, with a copy of its payload."""
        cdef Dispatched* item = list_place(&self.held)
        cdef const uint8_t* copy = list_copy(&self.held, <const uint8_t*>payload, n) if item != NULL else NULL
        if copy == NULL:
            self.held.count -= item != NULL
            self.memory.no_memory += 1
            return
        item.segment = s[0]
        item.segment.payload = copy
        item.mark = mark[0]
        self.held_octets += <int64_t>(sizeof(Dispatched) + n)

    cdef bint resume(self) noexcept nogil:
        """Do what waits, in order. True: all is done; False: the batch is full."""
        cdef const Dispatched* item
        while self.tcp.resume():
            if self.held_at == self.held.count:
                if self.held.count:
                    free_list(&self.held)
                    memset(&self.held, 0, sizeof(SegmentList))
                    self.held_at = 0
                    self.held_octets = 0
                return True
            if self.is_full():
                return False
            item = self.held.items + self.held_at
            self.held_at += 1
            if item.segment.ip_version == 0:
                self.streams.put_file_fault(<const char*>item.segment.payload, item.mark.ts_ns, &item.mark)
            else:
                self.tcp.segment(&item.segment, segment_table_hash(&item.segment), &item.mark)
        return False

    cdef void report_fault(self, const char* text, int64_t offset, int64_t frame_no) noexcept nogil:
        """Put a row for a fault of the current capture file: byte_offset is the position in the file."""
        cdef Segment fault
        cdef Mark mark
        self.seen.capture_faults += 1
        if self.slice_index != 0:
            return
        memset(&mark, 0, sizeof(mark))
        mark.capture = self.file_index
        mark.frame_no = frame_no
        if self.tcp.waiting.first == NULL and self.held.count == 0:
            self.streams.put_file_fault(text, offset, &mark)
            return
        memset(&fault, 0, sizeof(fault))
        mark.ts_ns = offset
        self.hold(&fault, &mark, text, strlen(text) + 1)
