# The reassembly alone, for tests: segments in, events out as tuples.

@cython.no_gc_clear
cdef class StreamTrace:
    """Segments in, events out: the reassembly alone, for tests.

    `events` is a list of ("octets", end, bytes, frame_no), ("front", end, offset, bytes), ("gap", end, size, why) and
    ("end", end, why, flow_id); `end` is "client" or "server", or the port number of the end where that is not known.

    at_once: octets, or other events, that the sink takes before it is full. It is emptied after each segment, as often as needed.
    """

    cdef readonly list events
    cdef Reassembler tcp
    cdef int64_t at_once, taken
    cdef bint busy

    def __cinit__(self, *args, **keywords):
        self.tcp = Reassembler.__new__(Reassembler)
        self.tcp.sink.to = <void*>self
        self.tcp.sink.begins = trace_begins
        self.tcp.sink.octets = trace_octets
        self.tcp.sink.gap = trace_gap
        self.tcp.sink.front = trace_front
        self.tcp.sink.ignored = trace_ignored
        self.tcp.sink.end = trace_end
        self.tcp.sink.close = trace_close
        self.tcp.sink.is_full = trace_is_full
        self.tcp.sink.prefetch = trace_prefetch

    def __dealloc__(self):
        if self.tcp is not None:
            self.tcp.drop_flows()

    def __init__(self, *, max_flows=1 << 18, max_buffered=256 << 20, max_out_of_order=4 << 20, idle_seconds=3 * 3600,
                 at_once=1 << 62):
        self.events = []
        self.at_once = at_once
        self.tcp.max_flows = max_flows
        self.tcp.memory.max_buffered = max_buffered
        self.tcp.max_out_of_order = max_out_of_order
        self.tcp.idle_ns = idle_seconds * SECOND

    def segment_in(self, source, destination, int flags, seq, ack=0, bytes payload=b"", *, size=None,
                   int64_t ts_ns=0, int64_t frame_no=0, int32_t capture=0, uint32_t vni=0):
        """`source`, `destination`: (address number, port). `size`: octets on the wire."""
        cdef Segment s
        cdef Mark mark
        memset(&s, 0, sizeof(Segment))
        s.ip_version = 4
        s.flags = <uint8_t>flags
        store_u32(s.src, source[0])
        store_u32(s.dst, destination[0])
        s.src_port = source[1]
        s.dst_port = destination[1]
        s.seq = seq & 0xFFFFFFFF
        s.ack = ack & 0xFFFFFFFF
        s.vni = vni
        s.payload = <const uint8_t*>PyBytes_AS_STRING(payload)
        s.captured = <uint32_t>len(payload)
        s.size = s.captured if size is None else size
        mark.ts_ns = ts_ns
        mark.frame_no = frame_no
        mark.vlans = 0
        mark.capture = capture
        mark.push = flags & TCP_PSH != 0
        begin_call(&self.busy)
        try:
            with nogil:
                self.tcp.segment(&s, segment_table_hash(&s), &mark)
                self.drain()
        finally:
            self.busy = False

    def finish(self):
        """End all flows."""
        begin_call(&self.busy)
        try:
            with nogil:
                while not self.tcp.end_some(1024, WHY_CAPTURE_END):
                    pass
                self.drain()
        finally:
            self.busy = False

    @property
    def stats(self):
        return self.tcp.stats()

    cdef void drain(self) noexcept nogil:
        """Empty the sink until nothing waits."""
        self.taken = 0
        while not self.tcp.resume():
            self.taken = 0

    cdef bint add(self, tuple event):
        """False: the sink is full."""
        if self.taken >= self.at_once:
            return False
        self.taken += 1
        self.events.append(event)
        return True

    cdef object end_name(self, Flow* f, int end):
        if f.client < 0:
            return f.port[end]
        return "client" if end == f.client else "server"

cdef int trace_begins(void* to, const Flow* f) noexcept nogil:
    return -1


cdef int64_t trace_octets(void* to, Flow* f, int end, int layer, const uint8_t* p, size_t n, const Mark* mark) noexcept with gil:
    trace = <StreamTrace>to
    cdef int64_t used = min(<int64_t>n, trace.at_once - trace.taken)
    if used > 0:
        trace.taken += used
        trace.events.append(("octets", trace.end_name(f, end), (<const char*>p)[:used], mark.frame_no))
    return ALL_OCTETS if used == <int64_t>n else used


cdef bint trace_gap(void* to, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept with gil:
    trace = <StreamTrace>to
    return trace.add(("gap", trace.end_name(f, end), n, WHY_NAMES[why]))


cdef bint trace_front(void* to, Flow* f, int end, int64_t at, const uint8_t* p, size_t n, const Mark* mark) noexcept with gil:
    trace = <StreamTrace>to
    return trace.add(("front", trace.end_name(f, end), at, (<const char*>p)[:n]))


cdef void trace_ignored(void* to, Flow* f, int packets, int64_t n) noexcept nogil:
    pass


cdef bint trace_end(void* to, Flow* f, int end, int why) noexcept with gil:
    trace = <StreamTrace>to
    return trace.add(("end", trace.end_name(f, end), WHY_NAMES[why], f.flow_id))


cdef void trace_close(void* to, Flow* f) noexcept nogil:
    pass


cdef bint trace_is_full(void* to) noexcept nogil:
    return (<StreamTrace>to).taken >= (<StreamTrace>to).at_once


cdef void trace_prefetch(void* to, Flow* const* flows, int count) noexcept nogil:
    pass


cdef tuple WHY_NAMES = (
    "lost", "truncated", "timeout", "limit", "fin", "reset", "replaced", "idle", "capture end",
)
