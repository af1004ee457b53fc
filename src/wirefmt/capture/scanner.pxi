# Captures -> the packets table, which one task reads and another reassembles. And where records begin in the middle of a
# file.
from wirefmt.spec.packets import COLUMNS as PACKET_TABLE_COLUMNS


cdef class PacketScanner(ColumnSet):
    """Builds the packets table of captures; used like CaptureDecoder.

    tunnels: as in wirefmt.capture.read. columns: names to keep, in order. ports: only segments from or to one of them
    (none: all). secrets: a `wirefmt.capture.keylog.Secrets` that takes secrets blocks. `take` returns a batch once it has
    batch_rows rows or batch_bytes bytes of segments, or a chunk more. A call during another one raises RuntimeError.
    """
    cdef PacketParser packets
    cdef RecordFeed records
    cdef int64_t rows, batch_rows, batch_bytes
    cdef int64_t frames, faults
    cdef int32_t file_index
    cdef bint some_ports, tunnels, busy
    cdef uint8_t[8192] ports                                # one bit per port

    def __init__(self, *, bint tunnels=False, columns=None, ports=(), batch_rows=16384, batch_bytes=16 << 20, secrets=None):
        if batch_rows < 1 or batch_bytes < 1:
            raise ValueError("batch_rows and batch_bytes must be at least 1")
        self.set_columns(PACKET_TABLE_COLUMNS, columns)
        self.tunnels = tunnels
        self.packets = PacketParser(tunnels=tunnels, fragments=False)
        self.records = RecordFeed.__new__(RecordFeed)
        self.records.file.secrets = secrets
        self.batch_rows = batch_rows
        self.batch_bytes = batch_bytes
        memset(self.ports, 0, sizeof(self.ports))
        for port in ports:
            if not 0 <= port <= 65535:
                raise ValueError(f"no TCP port {port}")
            self.some_ports = True
            set_bit(self.ports, port)

    def begin_file(self, str name, int32_t index=0, *, prefix=b"", int64_t offset=0, int64_t first_frame=1):
        """Begin a file, or a range of a file. Of a range: `prefix` is the header of the file, `offset` the position of the
        bytes fed, `first_frame` the number of their first record."""
        cdef Input head = take_input(prefix)
        cdef PacketRecord r
        cdef size_t used = 0
        begin_call(&self.busy)
        try:
            self.file_index = index
            self.records.begin(0, 1)
            if head.size:
                if self.records.file.next_record(head.at, <size_t>head.size, False, &used, &r) != READ_NEED:
                    raise ValueError("prefix is not the beginning of a capture file")
                self.records.file.jump(offset, first_frame)
        finally:
            self.busy = False

    def feed(self, chunk):
        """Take the next bytes of the file and use all of them; a buffer as in CaptureDecoder.feed."""
        cdef Input octets = take_input(chunk)
        if octets.size:
            self.run(octets.at, <size_t>octets.size, False)

    def end_file(self):
        """End the file."""
        cdef uint8_t nothing = 0
        self.run(&nothing, 0, True)

    cdef int run(self, const uint8_t* p, size_t n, bint last) except -1:
        cdef int answer
        begin_call(&self.busy)
        try:
            with nogil:
                self.records.give(p, n, last)
                answer = self.scan()
        finally:
            self.busy = False
        if answer < 0 or self.shared.no_memory:
            raise MemoryError("no memory for the packets of a capture")
        return 0

    cdef int scan(self) noexcept nogil:
        cdef PacketRecord r
        cdef Segment s
        cdef int answer, reason
        while True:
            answer = self.records.next(&r)
            if answer == READ_RECORD:
                self.frames += 1
                reason = self.packets.parse(&r, &s)
                if reason == PACKET_TCP:
                    if not self.some_ports or self.is_wanted(s.src_port) or self.is_wanted(s.dst_port):
                        self.put(PACKET_TCP, &r, &s)
                elif reason == PACKET_FRAGMENT:
                    self.put(PACKET_FRAGMENT, &r, &s)
            elif answer == READ_FAULT:
                self.faults += 1
                r.ts_ns = self.records.file.fault.offset
                r.frame_no = self.records.file.fault.frame_no
                s.size = <uint32_t>self.records.file.fault.reason
                self.put(PACKET_FILE_FAULT, &r, &s)
            else:
                return answer

    cdef inline bint is_wanted(self, uint16_t port) noexcept nogil:
        return self.ports[port >> 3] >> (port & 7) & 1

    cdef void put(self, int kind, const PacketRecord* r, const Segment* s) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.rows
        cdef uint8_t[SEGMENT_HEAD_CAPACITY] head
        cdef int64_t head_size = segment_head(kind, r, s, self.packets.vlans, self.file_index, head)
        cdef char[ADDRESS_SIZE] text
        self.rows += 1
        put_i32(c + P_FILE_INDEX, row, self.file_index)
        put_i64(c + P_FRAME_NO, row, r.frame_no)
        if kind == PACKET_FILE_FAULT:
            put_i64(c + P_FLOW_HASH, row, 0)
            put_i64(c + P_PAIR_HASH, row, 0)
            put_octets(c + P_SEGMENT, row, head, head_size)
            return
        put_i64(c + P_TS_NS, row, r.ts_ns)
        if c[<int>P_SRC_IP].on:
            put_octets(c + P_SRC_IP, row, <const uint8_t*>text, write_address(s.ip_version, s.src, text))
        if c[<int>P_DST_IP].on:
            put_octets(c + P_DST_IP, row, <const uint8_t*>text, write_address(s.ip_version, s.dst, text))
        put_i64(c + P_PAIR_HASH, row, <int64_t>segment_pair_hash(s))
        put_bool(c + P_FRAGMENT, row, kind == PACKET_FRAGMENT)
        if kind == PACKET_TCP:
            put_i64(c + P_FLOW_HASH, row, <int64_t>segment_flow_hash(s))
            put_i32(c + P_SRC_PORT, row, s.src_port)
            put_i32(c + P_DST_PORT, row, s.dst_port)
            put_i16(c + P_TCP_FLAGS, row, s.flags)
            put_i64(c + P_SEQ, row, s.seq)
            put_i32(c + P_PAYLOAD_SIZE, row, <int32_t>s.size)
        else:
            put_i64(c + P_FLOW_HASH, row, <int64_t>segment_pair_hash(s))
        put_octets2(c + P_SEGMENT, row, head, head_size, s.payload, s.captured)

    def take(self, bint final=False):
        """Return the batch if it is full; with `final`, the rows so far. None: no rows."""
        cdef int64_t rows
        begin_call(&self.busy)
        try:
            rows = self.rows
            if rows == 0 or not (final or rows >= self.batch_rows or self.shared.octets >= self.batch_bytes):
                return None
            self.rows = 0
            return self.finish(rows)
        finally:
            self.busy = False

    @property
    def stats(self):
        """Counters by name: frames, capture_faults, and packets by their outcome."""
        return {"frames": self.frames, "capture_faults": self.faults} | self.packets.stats()


def find_record(prefix, window, int64_t base, bint last, int64_t split):
    """Where in a pcap file the first record at or after the offset `split` begins.

    prefix: the first bytes of the file, with its header. window: the bytes at offset `base`, which begins well before
    `split` (the largest size of a record) or at the first record; `last`: the file ends with the window.

    A record in the window is accepted if the records after it form a chain longer than one packet, so that
    bytes of a packet that look like records (a capture of a capture) are not accepted. The chain of the first such record
    is followed to `split`: if it began inside a packet, it has joined the true chain by the end of that packet.

    Returns the offset; if no record begins there, the end of the window if `last`, otherwise -1.
    """
    cdef Input head = take_input(prefix)
    cdef Input octets = take_input(window)
    cdef const uint8_t* p = octets.at
    cdef RecordFeed records = RecordFeed.__new__(RecordFeed)
    cdef PcapFile file = records.file
    cdef PacketRecord r
    cdef size_t used = 0, n = <size_t>octets.size
    cdef uint8_t* alive
    cdef int64_t at
    cdef size_t step
    if head.size == 0 or \
            file.next_record(head.at, <size_t>head.size, False, &used, &r) != READ_NEED or file.rule.blocks or \
            file.rule.header_size == 0:         # part of the file's header is missing
        raise ValueError("prefix is not the beginning of a pcap file")
    if n == 0:
        return base if last else -1
    alive = <uint8_t*>malloc(n)
    if alive == NULL:
        raise MemoryError
    with nogil:
        at = 0 if base == <int64_t>used else chain_start(&file.rule, p, n, last, alive, base)
        free(alive)
        while at >= 0 and base + at < split:
            if n - <size_t>at < file.rule.header_size:
                at = <int64_t>n if last else -1
                break
            step = file.rule.header_size + load_u32_as(p + at + (12 if file.rule.swapped_lengths else 8), file.rule.big)
            if step > n - <size_t>at or step > <size_t>MAX_RECORD + file.rule.header_size:
                at = <int64_t>n if last else -1
                break
            at += <int64_t>step
    return base + at if at >= 0 else (base + <int64_t>n if last else -1)
