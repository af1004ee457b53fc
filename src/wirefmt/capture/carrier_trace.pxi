# Carriers alone, for tests: octets of a direction in, what they carry out.

@cython.no_gc_clear
cdef class CarrierTrace:
    """Octets of one direction go through carriers: carriers alone, for tests.

    carriers: "websocket", "deflate", "snappy", the one that takes what TCP carries first. `events` is a list of ("octets", bytes)
    and ("gap", size).

    one_by_one: the batch is full after each event, and is taken as often as needed.
    """

    cdef readonly list events
    cdef FrameStreams streams
    cdef Flow flow
    cdef Mark mark

    def __init__(self, *carriers, bint one_by_one=False):
        cdef FlowState* fs
        self.events = []
        self.streams = FrameStreams.__new__(FrameStreams)
        self.streams.table = MessageTable(TABLE_COLUMNS)
        self.streams.table.batch_rows = 1 if one_by_one else 1 << 62
        self.streams.max_message = self.streams.max_inflated = 1 << 20
        join_sink(&self.streams.tcp.sink, self.streams)
        self.streams.recogniser.to = <void*>self
        self.streams.recogniser.octets = traced_octets
        self.streams.recogniser.gap = traced_gap
        self.flow.ip_version = 4
        fs = self.streams.open_state(&self.flow)
        if fs == NULL:
            raise MemoryError
        for name in carriers:
            if name == "websocket":
                begin_socket(self.streams, &self.flow, 0, False)
            else:
                fs.negotiated = {"deflate": CARRIER_DEFLATE, "snappy": CARRIER_SNAPPY}[name]
                open_unpacker(self.streams, &self.flow, 0, &self.mark)
        fs.sides[0].stage = STAGE_START                 # what is above all carriers asks the recogniser, this trace

    def __dealloc__(self):
        if self.streams is not None:
            on_close(self.streams, &self.flow)

    def feed(self, bytes octets):
        self.streams.tcp.pass_octets(&self.flow, 0, 0, <const uint8_t*>PyBytes_AS_STRING(octets), <size_t>len(octets), &self.mark)
        self.drain()

    def gap(self, int64_t size):
        self.streams.tcp.pass_gap(&self.flow, 0, size, WHY_LOST, &self.mark)
        self.drain()

    def close(self):
        """End the flow. Returns the bytes of memory that are still counted."""
        on_close(self.streams, &self.flow)
        return self.streams.memory.buffered

    @property
    def carrier_octets(self):
        """Bytes of the carriers' own."""
        return self.streams.seen.carrier_octets

    @property
    def errors(self):
        """Rows about faults."""
        return self.streams.table.status_rows[<int>ROW_MALFORMED] - len(self.events)

    cdef drain(self):
        while not self.streams.tcp.resume():
            self.streams.table.take()

    cdef void add(self, str kind, object what):
        """An event, and its row."""
        self.events.append((kind, what))
        self.streams.put_file_fault(b"", 0, &self.mark)


cdef void traced_octets(void* to, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept with gil:
    (<CarrierTrace>to).add("octets", (<const char*>p)[:n])


cdef bint traced_gap(void* to, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept with gil:
    (<CarrierTrace>to).add("gap", n)
    return True
