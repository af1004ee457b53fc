# The table of flows: a flow is two (address, port) ends and a VNI. It finds the flow of a segment, keeps flows in the order
# of their last packets, and counts their memory. The rules of TCP are in reassembly.pxi.
from wirefmt._core.octets cimport BLOCK_OCTETS

cdef enum:
    FRONTS = 8                  # ranges before the beginning of a stream
    FLOWS_SPARE = 1024          # freed flows that are kept for reuse

cdef int64_t SECOND = 1000000000

cdef enum Why:                  # why a gap was given up, or a stream ended
    WHY_LOST = 0                # acknowledged by the receiver, never captured
    WHY_TRUNCATED               # truncated by the snapshot length
    WHY_TIMEOUT                 # not filled in time
    WHY_LIMIT                   # max_out_of_order, max_buffered or max_flows
    WHY_FIN                     # this side sent FIN
    WHY_RESET
    WHY_REPLACED                # another connection between the same ends
    WHY_IDLE
    WHY_CAPTURE_END

cdef struct Mark:               # the packet that brought an octet
    int64_t ts_ns
    int64_t frame_no
    uint64_t vlans              # add_vlan
    int32_t capture             # number of the capture file
    bint push                   # PSH: the end of a write


cdef struct Piece:              # octets that arrived early
    int64_t at                  # stream offset of the first
    uint32_t size               # octets of the stream: kept and truncated ones
    uint32_t kept
    uint8_t* octets
    Mark mark


cdef struct Fronts:             # ranges before offset 0 that were passed on
    int count
    int64_t[FRONTS] begin
    int64_t[FRONTS] end


cdef struct Stream:             # what one end of a flow sends; offsets count from the first octet after the SYN
    # members that each segment needs, in a cache line
    uint8_t started             # `next_seq` is known
    uint8_t syn                 # known by a SYN: offset 0 is the first octet of the stream
    uint8_t anchored            # known by a SYN or by the other side's acknowledgement of one
    uint8_t undecided           # its beginning is not known: nothing was passed on, offsets count from its first packet
    uint8_t ended
    uint8_t has_ack
    uint32_t next_seq
    uint32_t ack                # the last one this end sent
    int count                   # of `pieces`
    int64_t next                # offset of the next octet to pass on
    int64_t fin                 # offset of the FIN; -1: none seen
    int64_t acked               # by the other end, highest offset
    Piece* pieces               # disjoint, in order: pieces[first] ... pieces[first + count - 1]
    int first, room
    uint32_t isn
    # gaps
    int64_t gap_ns             # time of the first piece after the present gap
    int64_t acked_at            # flow.packets when octets after the gap were acknowledged, 0: not; while undecided: at the start
    int64_t acked_ns, acked_to
    Fronts* fronts              # NULL: none
    int64_t stored              # octets in pieces


cdef struct Flow:
    uint8_t ip_version
    int8_t client               # the client's end; -1: not known
    uint8_t closed              # FIN from both ends, or RST
    uint8_t reset
    uint8_t ignored             # no octets of it are passed on
    uint16_t port[2]
    uint32_t vni
    uint8_t address[2][16]
    int64_t packets
    int64_t last_ns
    Flow* older                 # lists by last packet: open flows, closed flows
    Flow* newer
    void* state                 # the consumer's
    Mark last
    uint64_t hash               # segment_table_hash
    int64_t flow_id             # positive; from the ends and the first packet's time
    Stream streams[2]


cdef struct Slot:
    uint64_t hash
    Flow* flow                  # NULL: empty


cdef struct FlowList:
    Flow* oldest
    Flow* newest


cdef struct ReassemblyCounts:
    int64_t flows, segments, octets
    int64_t without_flow        # segments that neither belong to a flow nor begin one
    int64_t retransmitted       # segments without new octets
    int64_t overlapping         # segments trimmed at the front
    int64_t out_of_order        # segments stored
    int64_t gaps, gap_octets
    int64_t late_starts         # streams that began before the capture
    int64_t early               # segments from before the beginning of such a stream
    int64_t replaced            # connections ended by another one between the same ends
    int64_t idle                # flows ended by idle_ns
    int64_t flows_evicted       # max_flows, max_buffered
    int64_t equal_hashes        # flows with the flow hash of the flow before, but other ends
    int64_t probes              # slots of other flows that were skipped in the table
    int64_t limited             # gaps given up for max_out_of_order, MAX_PIECES or max_buffered
    int64_t most_buffered       # after any packet, before flows are ended for it
    int64_t no_memory
    # captured payload octets that were not passed on
    int64_t retransmitted_octets        # that had been captured before
    int64_t outside_octets      # after a FIN, in a RST, of keep-alives, in segments without a flow


cdef inline int64_t flow_octets() noexcept nogil:
    """Memory of a flow, with its share of a table that has just grown."""
    return <int64_t>(sizeof(Flow) + BLOCK_OCTETS + 4 * sizeof(Slot))


cdef inline int64_t piece_octets(const Piece* piece) noexcept nogil:
    """Memory of a stored piece, without its place in the array."""
    return <int64_t>piece.kept + BLOCK_OCTETS if piece.kept else 0


cdef inline int sender_of(const Flow* f, const Segment* s) noexcept nogil:
    """The end of `f` that sent `s`; -1: another flow."""
    if f.vni != s.vni or f.ip_version != s.ip_version:
        return -1
    if (f.port[0] == s.src_port and f.port[1] == s.dst_port
            and memcmp(f.address[0], s.src, 16) == 0 and memcmp(f.address[1], s.dst, 16) == 0):
        return 0
    if (f.port[1] == s.src_port and f.port[0] == s.dst_port
            and memcmp(f.address[1], s.src, 16) == 0 and memcmp(f.address[0], s.dst, 16) == 0):
        return 1
    return -1


cdef class FlowTable:
    """Flows by their ends. A subclass decides when they end."""

    cdef Slot* slots
    cdef size_t slot_mask, flow_count
    cdef Flow* current                  # of the last segment: the next one is often of the same flow
    cdef Flow* spare                    # freed flows, linked by `newer`
    cdef int spare_count
    cdef FlowList lists[2]              # open, closed
    cdef int64_t now_ns                 # latest packet time seen
    cdef ReassemblyCounts counts
    cdef uint64_t opened_hash           # segment_flow_hash of the flow that began last, and its ends
    cdef uint8_t opened_ends[36]
    cdef int64_t buffered               # octets of memory of flows, here and in the consumer
    cdef size_t max_flows
    cdef int64_t max_buffered, max_out_of_order, idle_ns

    def __cinit__(self, *args, **kwargs):
        self.slot_mask = 1023
        self.slots = <Slot*>calloc(self.slot_mask + 1, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError
        self.max_flows = 1 << 18
        self.max_buffered = 256 << 20
        self.max_out_of_order = 4 << 20
        self.idle_ns = 3 * 3600 * SECOND
        self.now_ns = -0x7FFFFFFFFFFFFFFF

    def __dealloc__(self):
        self.drop_flows()
        free(self.slots)
        cdef Flow* f = self.spare
        cdef Flow* following
        while f != NULL:
            following = f.newer
            free(f)
            f = following

    # ---- overridden by subclasses

    cdef int on_flow(self, Flow* f) noexcept nogil:
        """The client's end of a flow that begins without a SYN, or -1."""
        return -1

    cdef bint on_close(self, Flow* f) noexcept nogil:
        """The flow was removed from the table: free f.state. Puts no row. False: `f` is still needed; `recycle` it later."""
        return True

    cdef void end_flow(self, Flow* f, int why) noexcept nogil:
        """Pass on the stored octets of both directions, and remove the flow."""

    # ---- the table ----------------------------------------------------------------------------------------------

    cdef inline Flow* lookup(self, const Segment* s, uint64_t hash, int* end) noexcept nogil:
        cdef size_t i = hash & self.slot_mask
        while self.slots[i].flow != NULL:
            if self.slots[i].hash == hash:
                end[0] = sender_of(self.slots[i].flow, s)
                if end[0] >= 0:
                    return self.slots[i].flow
            self.counts.probes += 1
            i = (i + 1) & self.slot_mask
        return NULL

    cdef Flow* open_flow(self, const Segment* s, uint64_t hash, const Mark* mark) noexcept nogil:
        cdef Flow* f
        if self.flow_count >= self.max_flows:
            self.counts.flows_evicted += 1
            self.end_flow(self.lists[1].oldest if self.lists[1].oldest != NULL else self.lists[0].oldest, WHY_LIMIT)
        if 2 * self.flow_count > self.slot_mask and not self.grow():
            self.counts.no_memory += 1
            return NULL
        f = self.spare
        if f != NULL:
            self.spare = f.newer
            self.spare_count -= 1
        else:
            f = <Flow*>malloc(sizeof(Flow))
            if f == NULL:
                self.counts.no_memory += 1
                return NULL
        memset(f, 0, sizeof(Flow))
        self.buffered += flow_octets()
        f.hash = hash
        f.flow_id = <int64_t>(avalanche(self.flow_hash(s) ^ avalanche(<uint64_t>mark.ts_ns)) >> 1)
        f.ip_version = s.ip_version
        f.vni = s.vni
        memcpy(f.address[0], s.src, 16)
        memcpy(f.address[1], s.dst, 16)
        f.port[0] = s.src_port
        f.port[1] = s.dst_port
        f.last_ns = mark.ts_ns
        f.streams[0].fin = f.streams[1].fin = -1
        f.client = <int8_t>(-1 if s.flags & TCP_SYN else self.on_flow(f))
        self.put_slot(hash, f)
        self.flow_count += 1
        self.counts.flows += 1
        self.link(f)
        return f

    cdef uint64_t flow_hash(self, const Segment* s) noexcept nogil:
        """The flow hash of a new flow. Flows with different ends do not have the same one by chance: somebody has chosen
        their addresses. All of them are in one slice and one partition of a shuffle, so they are counted."""
        cdef uint64_t hash = segment_flow_hash(s)
        cdef uint8_t ends[36]
        cdef int first = 0 if memcmp(s.src, s.dst, 16) < 0 or (s.src_port < s.dst_port and memcmp(s.src, s.dst, 16) == 0) else 1
        memcpy(ends + 18 * first, s.src, 16)
        store_u16(ends + 18 * first + 16, s.src_port)
        memcpy(ends + 18 * (1 - first), s.dst, 16)
        store_u16(ends + 18 * (1 - first) + 16, s.dst_port)
        if hash == self.opened_hash and memcmp(ends, self.opened_ends, 36) != 0:
            self.counts.equal_hashes += 1
        self.opened_hash = hash
        memcpy(self.opened_ends, ends, 36)
        return hash

    cdef inline void put_slot(self, uint64_t hash, Flow* f) noexcept nogil:
        cdef size_t i = hash & self.slot_mask
        while self.slots[i].flow != NULL:
            i = (i + 1) & self.slot_mask
        self.slots[i].hash = hash
        self.slots[i].flow = f

    cdef bint grow(self) noexcept nogil:
        cdef Slot* old = self.slots
        cdef size_t size = self.slot_mask + 1
        cdef size_t i
        cdef Slot* slots = <Slot*>calloc(2 * size, sizeof(Slot))
        if slots == NULL:
            return False
        self.slots = slots
        self.slot_mask = 2 * size - 1
        for i in range(size):
            if old[i].flow != NULL:
                self.put_slot(old[i].hash, old[i].flow)
        free(old)
        return True

    cdef void remove(self, Flow* f) noexcept nogil:
        cdef size_t i = f.hash & self.slot_mask
        cdef size_t hole, home
        while self.slots[i].flow != f:
            i = (i + 1) & self.slot_mask
        hole = i
        while True:                                     # linear probing: move later entries back
            i = (i + 1) & self.slot_mask
            if self.slots[i].flow == NULL:
                break
            home = self.slots[i].hash & self.slot_mask
            if ((i - home) & self.slot_mask) >= ((i - hole) & self.slot_mask):
                self.slots[hole] = self.slots[i]
                hole = i
        self.slots[hole].flow = NULL
        self.flow_count -= 1
        self.unlink(f)
        self.free_pieces(&f.streams[0])
        self.free_pieces(&f.streams[1])
        self.free_fronts(&f.streams[0])
        self.free_fronts(&f.streams[1])
        if self.current == f:
            self.current = NULL
        if self.on_close(f):
            self.recycle(f)

    cdef inline void recycle(self, Flow* f) noexcept nogil:
        """Keep an unused flow for reuse, or free it."""
        self.buffered -= flow_octets()
        if self.spare_count < FLOWS_SPARE:
            f.newer = self.spare
            self.spare = f
            self.spare_count += 1
        else:
            free(f)

    cdef inline void link(self, Flow* f) noexcept nogil:
        cdef FlowList* to = &self.lists[1 if f.closed else 0]
        f.newer = NULL
        f.older = to.newest
        if to.newest != NULL:
            to.newest.newer = f
        else:
            to.oldest = f
        to.newest = f

    cdef inline void unlink(self, Flow* f) noexcept nogil:
        cdef FlowList* of = &self.lists[1 if f.closed else 0]
        if f.older != NULL:
            f.older.newer = f.newer
        else:
            of.oldest = f.newer
        if f.newer != NULL:
            f.newer.older = f.older
        else:
            of.newest = f.older

    cdef inline void touch(self, Flow* f) noexcept nogil:
        if f.newer != NULL:
            self.unlink(f)
            self.link(f)

    cdef void close(self, Flow* f) noexcept nogil:
        if not f.closed:
            self.unlink(f)
            f.closed = True
            self.link(f)

    cdef void free_pieces(self, Stream* st) noexcept nogil:
        cdef int i
        for i in range(st.first, st.first + st.count):
            self.buffered -= piece_octets(&st.pieces[i])
            free(st.pieces[i].octets)
        self.buffered -= <int64_t>(st.room * sizeof(Piece))
        free(st.pieces)
        st.pieces = NULL
        st.first = st.count = st.room = 0
        st.stored = 0

    cdef void free_fronts(self, Stream* st) noexcept nogil:
        if st.fronts != NULL:
            self.buffered -= sizeof(Fronts) + BLOCK_OCTETS
            free(st.fronts)
            st.fronts = NULL

    cdef void drop_flows(self) noexcept nogil:
        """Remove all flows; only on_close is called."""
        cdef int i
        for i in range(2):
            while self.lists[i].oldest != NULL:
                self.remove(self.lists[i].oldest)
