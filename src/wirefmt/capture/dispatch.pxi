# Packets of a chunk -> segments for each of several threads. The thread that has read a chunk dispatches its segments, while its
# packets are in that processor's cache: no packet is parsed by two threads, and each thread knows where its next payloads are.

cdef struct Dispatched:
    Segment segment                 # ip_version 0: a fault of the file; its text is at `payload`, its offset mark.ts_ns
    Mark mark

cdef struct SegmentList:
    Dispatched* items
    size_t count, capacity
    void* copies                    # of octets that do not lie in the chunk: blocks, each of which begins with the next one


cdef Dispatched* list_place(SegmentList* segments) noexcept nogil:
    """The place of the next item, which is then counted; NULL: out of memory."""
    cdef size_t capacity
    cdef Dispatched* grown
    if segments.count == segments.capacity:
        capacity = 2 * segments.capacity + 512
        grown = <Dispatched*>realloc(segments.items, capacity * sizeof(Dispatched))
        if grown == NULL:
            return NULL
        segments.items = grown
        segments.capacity = capacity
    segments.count += 1
    return segments.items + segments.count - 1


cdef const uint8_t* list_copy(SegmentList* segments, const uint8_t* p, size_t n) noexcept nogil:
    """A copy of octets, which lives as long as the list; NULL: out of memory."""
    cdef void** block = <void**>malloc(sizeof(void*) + n)
    if block == NULL:
        return NULL
    block[0] = segments.copies
    segments.copies = block
    memcpy(block + 1, p, n)
    return <const uint8_t*>(block + 1)


cdef void free_list(SegmentList* segments) noexcept nogil:
    cdef void** block = <void**>segments.copies
    cdef void** following
    while block != NULL:
        following = <void**>block[0]
        free(block)
        block = following
    free(segments.items)


cdef class Share:
    """What a chunk has for one thread, in order: segments and, for the first thread, faults of the file. Python sees how many."""
    cdef SegmentList segments
    cdef Input octets               # the chunk

    def __dealloc__(self):
        free_list(&self.segments)

    def __len__(self):
        return self.segments.count


cdef class Dispatcher:
    """Dispatches the segments of captures to `options.threads` decoders: all segments of a flow to the same one.

    Call `begin_file`, then `dispatch` with chunks of any size, then `end_file`. A call during another one raises RuntimeError;
    `stats` may always be read.
    """
    cdef RecordFeed records
    cdef PacketParser packets
    cdef uint64_t count, slice_index, slice_count
    cdef int64_t octets, frames, other_slices
    cdef int32_t file_index
    cdef bint across_files, busy
    cdef dict told                  # stats before the present call
    cdef SegmentList* lists         # one for each thread

    def __init__(self, options, secrets=None):
        self.count = options.threads
        self.slice_index, self.slice_count = options.slice
        self.across_files = options.flows == "across-files"
        self.records = RecordFeed.__new__(RecordFeed)
        self.records.file.secrets = secrets
        self.packets = PacketParser(tunnels=options.tunnels)
        self.lists = <SegmentList*>calloc(self.count, sizeof(SegmentList))
        if self.lists == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef uint64_t i
        if self.lists != NULL:
            for i in range(self.count):
                free_list(self.lists + i)
        free(self.lists)

    def begin_file(self, int32_t index=0):
        """Begin a file. index: its number among the files."""
        begin_call(&self.busy)
        self.records.begin(0, 1)
        self.file_index = index
        if not self.across_files:
            self.packets.forget()
        self.busy = False

    def dispatch(self, chunk):
        """The Share of each thread from the next bytes of the file; a buffer as in CaptureDecoder.feed."""
        cdef Input octets = take_input(chunk)
        return self.shares(octets, None, False)

    def end_file(self, str fault=None):
        """The Share of each thread from what the end of the file decides. fault: an error outside its bytes that has ended it."""
        cdef Input nothing = take_input(b"")
        return self.shares(nothing, fault, True)

    cdef tuple shares(self, Input octets, str fault, bint last):
        cdef bytes said = b"" if fault is None else fault.encode("utf-8", "replace")
        cdef const char* text = PyBytes_AS_STRING(said)
        cdef bint done
        cdef uint64_t i
        cdef Share share
        cdef list found = []
        begin_call(&self.busy)
        try:
            self.told = self.gather()
            with nogil:
                done = text[0] == 0 or self.put_fault(text, self.records.file.offset, self.records.file.frames)
                if done and (last or octets.size):
                    done = self.scan(octets.at, <size_t>octets.size, last)
            self.octets += octets.size
            for i in range(self.count):
                share = Share.__new__(Share)
                share.octets = octets
                share.segments = self.lists[i]
                memset(self.lists + i, 0, sizeof(SegmentList))
                found.append(share)
        finally:
            self.busy = False
        if not done:
            raise MemoryError("no memory for the segments of a chunk")
        return tuple(found)

    cdef bint scan(self, const uint8_t* p, size_t n, bint last) noexcept nogil:
        cdef PacketRecord r
        cdef Segment s
        cdef int answer
        self.records.give(p, n, last)
        while True:
            answer = self.records.next(&r)
            if answer == READ_RECORD:
                self.frames += 1
                if self.packets.parse_plain(&r, &s) or self.packets.parse(&r, &s) == PACKET_TCP:
                    if not self.put_segment(&r, &s, p, n):
                        return False
            elif answer == READ_FAULT:
                if not self.put_fault(capture_fault_text(self.records.file.fault.reason), self.records.file.fault.offset,
                                      self.records.file.fault.frame_no):
                    return False
            else:
                return answer != -1

    cdef inline bint put_segment(self, const PacketRecord* r, const Segment* s, const uint8_t* p, size_t n) noexcept nogil:
        cdef SegmentList* segments
        cdef Dispatched* item
        if self.slice_count > 1 and segment_flow_hash(s) % self.slice_count != self.slice_index:
            self.other_slices += 1
            return True
        segments = self.lists + segment_share(s, self.count)
        item = list_place(segments)
        if item == NULL:
            return False
        item.segment = s[0]
        item.mark.ts_ns = r.ts_ns
        item.mark.frame_no = r.frame_no
        item.mark.vlans = self.packets.vlans
        item.mark.capture = self.file_index
        item.mark.push = s.flags & TCP_PSH != 0
        if not payload_lies_in(s, p, n):
            item.segment.payload = list_copy(segments, s.payload, s.captured)
        return item.segment.payload != NULL

    cdef bint put_fault(self, const char* text, int64_t offset, int64_t frame_no) noexcept nogil:
        cdef Dispatched* item = list_place(self.lists)
        if item == NULL:
            return False
        memset(item, 0, sizeof(Dispatched))
        item.segment.payload = list_copy(self.lists, <const uint8_t*>text, strlen(text) + 1)
        item.mark.ts_ns = offset
        item.mark.frame_no = frame_no
        return item.segment.payload != NULL

    def forget(self):
        """As CaptureDecoder.forget."""
        begin_call(&self.busy)
        self.packets.forget()
        self.busy = False

    @property
    def last_ns(self):
        """As CaptureDecoder.last_ns."""
        return self.records.file.last_ns

    @property
    def not_a_capture(self):
        """As CaptureDecoder.not_a_capture."""
        return self.records.file.is_unread()

    @property
    def fault(self):
        """As CaptureDecoder.fault."""
        return self.records.file.last_fault()

    @property
    def stats(self):
        """Those of CaptureDecoder.stats that are of packets. During a call in another thread: those before it."""
        return dict(self.told) if self.busy and self.told is not None else self.gather()

    cdef dict gather(self):
        return {
            "bytes": self.octets, "packets": self.frames, "packets_of_other_slices": self.other_slices,
            "buffered": self.packets.datagram_octets, "packet_kinds": self.packets.stats(),
            "not_decoded": self.packets.undecoded(),
        }
