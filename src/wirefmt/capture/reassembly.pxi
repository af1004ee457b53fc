# TCP stream reassembly: segments in; the octets of each direction in order, gaps and ends out.
# RFC 9293 (TCP), RFC 7413 (data in a SYN), RFC 1122 4.2.3.6 (keep-alives).
# It knows no protocol and no column: it passes on what it finds to a FlowSink, which its owner sets.
#
# Every rule depends on the packets of one flow only, so flows can be distributed to tasks in any way. The exceptions are the
# two global limits, max_flows and max_buffered; their effects are counted.
#
# - A flow is two (address, port) ends and a VNI. It begins with a SYN or with payload; other packets begin none.
# - Of copies of an octet the first counts: retransmissions, overlaps, keep-alives and the second copy of a packet captured
#   at two points are dropped. A packet that the snapshot length truncated leaves a gap of known size at once.
# - A stream whose SYN was not captured begins with the first octet that an acknowledgement of the other side names. Until
#   there is one, octets are stored and ordered, for REORDER_PACKETS packets of the flow or REORDER_NS. Octets from before
#   that beginning that arrive later are passed on separately (on_front).
# - Octets in order are passed on in place, in the packet. Only octets that arrive early are stored.
# - A gap is given up REORDER_PACKETS packets of the flow or REORDER_NS after the other side has acknowledged octets after
#   it (captures may show an acknowledgement before its data), after HOLE_NS without an acknowledgement, when
#   max_out_of_order or MAX_PIECES is exceeded, or when the flow ends.
# - Another connection between the same ends begins with a SYN with another initial sequence number (or the same, a second
#   after the end), with a packet whose sequence and acknowledgement numbers are both more than WINDOW away, LINGER_NS
#   after both sides sent FIN or one sent RST, and after idle_ns without a packet.
#
# Memory: `memory.buffered` counts the memory of flows, here and in the sink: a Flow, its stored pieces with their
# descriptions, and what the sink adds. If it exceeds max_buffered, a flow that has to store octets first gives up its
# gap (`store`); if it is still exceeded after the packet, the flows that were idle longest end (`relieve`).

cdef enum:
    GROUP = 16                  # segments whose flows are brought into the cache together
    WINDOW = 1 << 26            # octets: TCP windows in use are not larger
    MAX_PIECES = 1024           # stored pieces per direction
    REORDER_PACKETS = 32
    SWEEP = 4                   # idle flows examined per packet
    PIECES_KEPT = 8             # space for pieces that a direction keeps while none is stored

cdef int64_t REORDER_NS = SECOND
cdef int64_t HOLE_NS = 30 * SECOND
cdef int64_t LINGER_NS = 240 * SECOND       # RFC 9293 3.4.2: twice the maximum segment lifetime
cdef int64_t SWEEP_NS = 60 * SECOND         # packets may be this much out of order in time before a sweep changes rows


cdef inline int32_t seq_diff(uint32_t a, uint32_t b) noexcept nogil:
    """a - b on the circle of sequence numbers, RFC 9293 3.4."""
    return <int32_t>(a - b)


cdef inline bint beyond_window(int32_t difference) noexcept nogil:
    return difference > WINDOW or difference < -WINDOW


cdef inline bint has_all_before(const Stream* receiver, uint32_t seq) noexcept nogil:
    """Has this end acknowledged every octet of the other end before `seq`?"""
    cdef int32_t d = seq_diff(receiver.ack, seq)
    return receiver.has_ack and 0 <= d <= WINDOW


cdef bint add_front(Fronts* fronts, int64_t at, int64_t n) noexcept nogil:
    """Make space for one more piece. False: out of memory."""
    cdef int i
    for i in range(fronts.count):
        if fronts.begin[i] == at + n:
            fronts.begin[i] = at
            return True
        if fronts.end[i] == at:
            fronts.end[i] = at + n
            return True
    if fronts.count == FRONTS:
        return False
    fronts.begin[fronts.count] = at
    fronts.end[fronts.count] = at + n
    fronts.count += 1
    return True


cdef inline bint later(const Mark* a, const Mark* b) noexcept nogil:
    return a.capture > b.capture or (a.capture == b.capture and a.frame_no > b.frame_no)


cdef struct ReassemblyCounts:
    int64_t segments, octets
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
    int64_t limited             # gaps given up for max_out_of_order, MAX_PIECES or max_buffered
    int64_t most_buffered       # after any packet, before flows are ended for it
    # captured payload octets that were not passed on
    int64_t retransmitted_octets        # that had been captured before
    int64_t outside_octets      # after a FIN, in a RST, of keep-alives, in segments without a flow


cdef enum:
    ALL_OCTETS = -1             # FlowSink.octets: all were used


cdef struct FlowSink:           # who takes what is passed on; `to` is the first argument of each. None changes the flow table
    void* to
    # the sink takes nothing now. It remains full until the caller has emptied it and calls `resume`: then events that a full sink
    # has refused, or not finished, are called again with the same arguments
    bint (*is_full)(void* to) noexcept nogil
    # the client's end of a flow that begins without a SYN, or -1
    int (*begins)(void* to, const Flow* f) noexcept nogil
    # the next `n` octets that `end` sends. They are the caller's and invalid after the return. Returns ALL_OCTETS, or how many
    # were used: call again with the others, even if there are none. `layer`: 0, or as in pass_octets
    int64_t (*octets)(void* to, Flow* f, int end, int layer, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil
    # `n` octets are missing here; `why`: a Why. False: call again
    bint (*gap)(void* to, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil
    # `n` octets at the negative offset `at`: before the first octet that was passed on. False: call again
    bint (*front)(void* to, Flow* f, int end, int64_t at, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil
    # packets of an ignored flow, and their captured payload octets
    void (*ignored)(void* to, Flow* f, int packets, int64_t n) noexcept nogil
    # `end` sends no more (at most once a stream, and only for streams that started). False: call again
    bint (*end)(void* to, Flow* f, int end, int why) noexcept nogil
    # the flow was removed from the table and has no more events: free f.state
    void (*close)(void* to, Flow* f) noexcept nogil
    # segments of these flows come soon: prefetch what f.state (never NULL) points to, and what that points to
    void (*prefetch)(void* to, Flow* const* flows, int count) noexcept nogil


@cython.final
cdef class Reassembler:
    """The rules. Its owner sets `sink` and the limits, and calls `drop_flows` while the sink still exists."""

    cdef FlowSink sink
    cdef FlowTable table
    cdef Memory memory
    cdef ReassemblyCounts counts
    cdef DeliveryList waiting           # events that a full sink did not take
    cdef Flow* current                  # of the last segment: the next one is often of the same flow
    cdef int64_t now_ns                 # latest packet time seen
    cdef size_t max_flows
    cdef int64_t max_out_of_order, idle_ns
    cdef bint counts_traffic            # of each flow

    def __cinit__(self):
        if not open_table(&self.table):
            raise MemoryError
        self.waiting.place = &self.waiting.first
        self.max_flows = 1 << 18
        self.memory.max_buffered = 256 << 20
        self.max_out_of_order = 4 << 20
        self.idle_ns = 3 * 3600 * SECOND
        self.now_ns = -0x7FFFFFFFFFFFFFFF

    def __dealloc__(self):
        free_table(&self.table)

    # ---- one segment ------------------------------------------------------------------------------------------

    cdef inline void prefetch_slot(self, uint64_t hash) noexcept nogil:
        prefetch(self.table.slots + (hash & self.table.slot_mask), sizeof(Slot))

    cdef void prefetch_flows(self, const uint64_t* hashes, int count) noexcept nogil:
        """Prefetch the flows of the next segments, by their table hashes, after prefetch_slot. With many connections the memory
        of most flows is in no cache: all are prefetched together, so the waits overlap."""
        cdef Flow* flows[GROUP]
        cdef Flow* f
        cdef size_t at
        cdef int found = 0, kept = 0
        cdef int i
        for i in range(count):
            at = hashes[i] & self.table.slot_mask
            while self.table.slots[at].flow != NULL and self.table.slots[at].hash != hashes[i]:
                at = (at + 1) & self.table.slot_mask
            f = self.table.slots[at].flow
            if f != NULL and (found == 0 or flows[found - 1] != f):
                prefetch(f, sizeof(Flow))
                flows[found] = f
                found += 1
        for i in range(found):
            self.prefetch_links(flows[i])
            if flows[i].state != NULL:
                flows[kept] = flows[i]
                kept += 1
        self.sink.prefetch(self.sink.to, flows, kept)

    cdef inline void prefetch_links(self, const Flow* f) noexcept nogil:
        """Prefetch what `touch` writes to: the members of the flow's neighbours in its list that link to it."""
        if f.older != NULL:
            prefetch(&f.older.newer, sizeof(Flow*))
        if f.newer != NULL:
            prefetch(&f.newer.older, sizeof(Flow*))

    cdef void segment(self, const Segment* s, uint64_t hash, const Mark* mark) noexcept nogil:
        """`hash`: segment_table_hash of `s`."""
        cdef int end
        cdef bint plain
        cdef int64_t again
        cdef Flow* f = self.current
        self.counts.segments += 1
        if mark.ts_ns > self.now_ns:
            self.now_ns = mark.ts_ns
            self.sweep()
            f = self.current
        end = sender_of(f, s) if f != NULL else -1
        if end < 0:
            f = find_flow(&self.table, s, hash, &end)
        plain = f != NULL and self.is_plain(f, end, s, mark)
        if f != NULL and not plain and self.is_another(f, end, s, mark):
            self.counts.replaced += 1
            self.end_flow(f, WHY_REPLACED)
            f = NULL
        if f == NULL:
            if not (s.flags & TCP_SYN or s.size) or s.flags & TCP_RST:
                self.counts.without_flow += 1
                self.counts.outside_octets += s.captured
                return
            f = self.open_flow(s, hash, mark)
            if f == NULL:
                return
            end = 0
        self.current = f
        f.packets += 1
        f.last = mark[0]
        if mark.ts_ns > f.last_ns:
            f.last_ns = mark.ts_ns
        touch_flow(&self.table, f)
        if f.traffic != NULL:
            add_traffic(f.traffic, end, s, mark.ts_ns)
        if plain:
            self.take_ack(f, end, s)
            if s.size:
                self.hand_on(f, end, s.payload, s.size, s.size, mark)
        else:
            again = self.counts.retransmitted_octets
            self.advance(f, end, s, mark)
            if f.traffic != NULL:
                f.traffic.ends[end].retransmitted += self.counts.retransmitted_octets - again
        if self.memory.buffered > self.counts.most_buffered:
            self.counts.most_buffered = self.memory.buffered
        if self.memory.buffered > self.memory.max_buffered:
            self.relieve(f)

    cdef Flow* open_flow(self, const Segment* s, uint64_t hash, const Mark* mark) noexcept nogil:
        """The flow that this segment begins; NULL: out of memory. Another one ends if there are max_flows."""
        cdef Flow* f
        if self.table.count >= self.max_flows:
            self.counts.flows_evicted += 1
            self.end_flow(oldest_flow(&self.table), WHY_LIMIT)
        f = add_flow(&self.table, s, hash, mark)
        if f == NULL:
            self.memory.no_memory += 1
            return NULL
        self.memory.buffered += flow_octets()
        if self.counts_traffic:
            f.traffic = open_traffic(s, mark.ts_ns)
            if f.traffic != NULL:
                self.memory.buffered += traffic_octets()
        if not s.flags & TCP_SYN:
            f.client = <int8_t>self.sink.begins(self.sink.to, f)
        return f

    cdef void relieve(self, const Flow* present) noexcept nogil:
        """End flows, closed ones first, those idle longest first, until `buffered` is within max_buffered; never the current
        flow. A full sink cannot free a flow: then they end after the next packet."""
        cdef Flow* f
        cdef int i
        for i in range(1, -1, -1):
            while self.memory.buffered > self.memory.max_buffered and not self.sink.is_full(self.sink.to):
                f = self.table.lists[i].oldest
                if f == present:
                    f = f.newer
                if f == NULL:
                    break
                self.counts.flows_evicted += 1
                self.end_flow(f, WHY_LIMIT)

    cdef inline bint is_plain(self, const Flow* f, int end, const Segment* s, const Mark* mark) noexcept nogil:
        """Is this an acknowledgement, or the next octets, in a flow of which nothing is stored, undecided or at its end? Then
        only `take_ack` and `hand_on` have something to do."""
        cdef const Stream* st = &f.streams[end]
        cdef const Stream* other = &f.streams[1 - end]
        if s.flags & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK) != TCP_ACK or f.closed | f.ignored:
            return False
        if not st.started & other.started or st.undecided | other.undecided | st.count | other.count or st.fin >= 0:
            return False
        if f.last_ns > mark.ts_ns or <uint64_t>mark.ts_ns - <uint64_t>f.last_ns > <uint64_t>self.idle_ns:
            return False
        return s.size == 0 or (s.seq == st.next_seq and s.captured == s.size and not st.ended)

    cdef void advance(self, Flow* f, int end, const Segment* s, const Mark* mark) noexcept nogil:
        cdef Stream* st = &f.streams[end]
        cdef Stream* other = &f.streams[1 - end]
        cdef uint32_t seq = s.seq
        cdef bint ignored = f.ignored
        if s.flags & TCP_SYN:
            self.take_syn(f, end, s)
            seq += 1                                    # the SYN itself takes one number
        if s.flags & TCP_ACK and not s.flags & TCP_RST:
            self.take_ack(f, end, s)
        if st.undecided or other.undecided:
            self.decide_starts(f)
        if f.ignored:
            self.sink.ignored(self.sink.to, f, ignored, s.captured)
            if s.flags & TCP_RST:
                close_flow(&self.table, f)
            elif s.flags & TCP_FIN:
                st.ended = True
                if other.ended:
                    close_flow(&self.table, f)
            return
        if s.size and not s.flags & TCP_RST:            # the payload of a RST is not data, RFC 9293 3.5.3
            if not st.started:
                st.started = True
                st.next_seq = seq
                self.counts.late_starts += 1
                if not has_all_before(other, seq):
                    st.undecided = True
                    st.acked_at = f.packets
            self.place(f, end, st.next + seq_diff(seq, st.next_seq), s.payload, s.captured, s.size, mark)
        else:
            self.counts.outside_octets += s.captured
        if s.flags & TCP_FIN and st.started and st.fin < 0:
            st.fin = st.next + seq_diff(seq + s.size, st.next_seq)
        if st.count:
            self.check_hole(f, end)
        if other.count:
            self.check_hole(f, 1 - end)
        if st.fin >= 0:
            self.check_fin(f, end)
        if s.flags & TCP_RST and not f.closed and st.started and not beyond_window(seq_diff(s.seq, st.next_seq)):
            f.reset = True
            close_flow(&self.table, f)

    cdef inline void check_fin(self, Flow* f, int end) noexcept nogil:
        """Is the stream complete up to its FIN?"""
        cdef Stream* st = &f.streams[end]
        if 0 <= st.fin <= st.next and not st.ended and not st.undecided:
            self.end_stream(f, end, WHY_FIN)
            if f.streams[1 - end].ended:
                close_flow(&self.table, f)

    cdef inline bint is_another(self, Flow* f, int end, const Segment* s, const Mark* mark) noexcept nogil:
        """Does this segment begin another connection between the ends of `f`?"""
        cdef Stream* st = &f.streams[end]
        cdef Stream* other = &f.streams[1 - end]
        cdef int64_t silence = elapsed_ns(f.last_ns, mark.ts_ns)
        cdef int32_t d
        if silence > self.idle_ns or (f.closed and silence > LINGER_NS):
            return s.size > 0 or s.flags & TCP_SYN
        if s.flags & TCP_SYN:
            if st.syn:                                  # retransmitted, or a new connection after both FINs
                return st.isn != s.seq or (f.closed and silence > SECOND)
            if st.started:                              # its own late SYN, or that of another connection
                d = seq_diff(st.next_seq - <uint32_t>st.next, s.seq + 1)
                return d < 0 or d > WINDOW
            if other.has_ack and not s.flags & TCP_ACK:
                d = seq_diff(other.ack, s.seq + 1)
                return d < 0 or d > WINDOW
            if s.flags & TCP_ACK and other.syn:
                return beyond_window(seq_diff(s.ack, other.isn + 1))
            return False
        if not s.size or not st.started or s.flags & TCP_RST:
            return False
        if not beyond_window(seq_diff(s.seq, st.next_seq)):
            return False
        return not st.has_ack or not s.flags & TCP_ACK or beyond_window(seq_diff(s.ack, st.ack))

    cdef void take_syn(self, Flow* f, int end, const Segment* s) noexcept nogil:
        cdef Stream* st = &f.streams[end]
        cdef Stream* other = &f.streams[1 - end]
        if st.syn:
            return                                      # retransmitted
        st.syn = True
        st.isn = s.seq
        f.client = <int8_t>(1 - end if s.flags & TCP_ACK else end)
        if not st.started or st.next == 0:              # nothing was passed on: count from here
            self.anchor(f, end, s.seq + 1)
        if s.flags & TCP_ACK and (not other.started or other.undecided):
            self.anchor(f, 1 - end, s.ack)              # its SYN was not captured, but it is acknowledged

    cdef void anchor(self, Flow* f, int end, uint32_t seq) noexcept nogil:
        """The stream certainly begins with `seq`."""
        cdef Stream* st = &f.streams[end]
        if st.started and st.count and seq_diff(st.next_seq + <uint32_t>st.pieces[st.first].at, seq) < 0:
            return                                      # earlier octets were passed on: it does not
        self.count_from(f, end, seq)
        st.started = True
        st.anchored = True
        if st.undecided:
            self.release(f, end)

    cdef void count_from(self, Flow* f, int end, uint32_t seq) noexcept nogil:
        """Nothing was passed on: offset 0 is `seq`."""
        cdef Stream* st = &f.streams[end]
        cdef const Stream* receiver = &f.streams[1 - end]
        cdef int64_t shift = seq_diff(st.next_seq, seq) if st.started else 0
        cdef int i
        for i in range(st.first, st.first + st.count):
            st.pieces[i].at += shift
        if st.fin >= 0:
            st.fin += shift
        st.next_seq = seq
        st.acked = seq_diff(receiver.ack, seq) if has_all_before(receiver, seq) else 0

    cdef void decide_starts(self, Flow* f) noexcept nogil:
        """Find out where undecided streams begin."""
        cdef Stream* st
        cdef int end
        for end in range(2):
            st = &f.streams[end]
            if st.undecided and (
                    not st.count
                    or has_all_before(&f.streams[1 - end], st.next_seq + <uint32_t>st.pieces[st.first].at)
                    or f.packets - st.acked_at >= REORDER_PACKETS
                    or elapsed_ns(st.gap_ns, f.last_ns) >= REORDER_NS):
                self.release(f, end)

    cdef void release(self, Flow* f, int end) noexcept nogil:
        """The stream begins with its first stored octet."""
        cdef Stream* st = &f.streams[end]
        cdef Mark mark
        st.undecided = False
        st.acked_at = 0
        if not st.count:
            return
        if not st.anchored:
            self.count_from(f, end, st.next_seq + <uint32_t>st.pieces[st.first].at)
        mark = st.pieces[st.first].mark
        self.drain(f, end, &mark, True)
        self.check_fin(f, end)

    cdef inline void take_ack(self, Flow* f, int end, const Segment* s) noexcept nogil:
        cdef Stream* st = &f.streams[end]
        cdef Stream* other = &f.streams[1 - end]
        cdef int32_t d
        st.ack = s.ack
        st.has_ack = True
        if not other.started:
            if st.syn and not s.flags & TCP_SYN:        # the SYN-ACK was not captured; this segment answers it
                self.anchor(f, 1 - end, s.ack)
            return
        d = seq_diff(s.ack, other.next_seq)
        if d > 0 and d <= WINDOW and other.next + d > other.acked:
            other.acked = other.next + d

    # ---- placing octets in their stream -------------------------------------------------------------------------

    cdef inline void place(self, Flow* f, int end, int64_t at, const uint8_t* p, uint32_t kept, uint32_t size,
                    const Mark* mark) noexcept nogil:
        """Place `size` octets at offset `at`; the first `kept` of them are at `p`, the rest was truncated."""
        cdef Stream* st = &f.streams[end]
        cdef int64_t overlap, n               # a negative overlap is a gap
        cdef uint32_t k
        if st.ended:
            self.counts.retransmitted += 1
            self.counts.retransmitted_octets += kept
            return
        if st.fin >= 0 and at + size > st.fin:
            if at >= st.fin:
                self.counts.outside_octets += kept
                return
            size = <uint32_t>(st.fin - at)
            if kept > size:
                self.counts.outside_octets += kept - size
                kept = size
        if st.undecided:
            self.store(f, end, at, p, kept, size, mark)
            return
        overlap = st.next - at
        if overlap > 0:
            if at < 0 and not st.anchored:
                n = min(<int64_t>kept, -at)
                self.place_front(f, end, at, p, <size_t>n, mark)
                p += n
                at += n
                kept -= <uint32_t>n
                size -= <uint32_t>n
                overlap -= n
                if size == 0:
                    return
            if overlap >= size:
                self.counts.retransmitted += 1
                self.counts.retransmitted_octets += kept
                return
            self.counts.overlapping += 1
        while True:
            if overlap > 0:                             # of copies the first counts
                n = min(<int64_t>kept, overlap)
                self.counts.retransmitted_octets += n
                if overlap >= size:
                    return
                p += n
                kept -= <uint32_t>n
                size -= <uint32_t>overlap
                at = st.next
            elif overlap < 0:
                self.counts.out_of_order += 1
                self.store(f, end, at, p, kept, size, mark)
                return
            n = size
            if st.count and st.pieces[st.first].at - at < n:
                n = st.pieces[st.first].at - at
            k = min(kept, <uint32_t>n)
            self.hand_on(f, end, p, k, <uint32_t>n, mark)
            p += k
            kept -= k
            size -= <uint32_t>n
            at += n
            if not st.count:
                return
            self.drain(f, end, mark, False)
            if size == 0:
                return
            overlap = st.next - at

    cdef void place_front(self, Flow* f, int end, int64_t at, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Octets from before the beginning that are new. The keep-alive of an idle stream repeats one octet, which is not
        counted as new."""
        cdef Stream* st = &f.streams[end]
        cdef int64_t k
        cdef int i
        self.counts.early += 1
        if n < 2:
            self.counts.outside_octets += <int64_t>n
            return
        if st.fronts == NULL:
            st.fronts = <Fronts*>calloc(1, sizeof(Fronts))
            if st.fronts == NULL:
                self.memory.no_memory += 1
                return
            self.memory.buffered += sizeof(Fronts) + BLOCK_OCTETS
        while n:
            k = <int64_t>n
            for i in range(st.fronts.count):
                if st.fronts.begin[i] <= at < st.fronts.end[i]:
                    k = min(<int64_t>n, st.fronts.end[i] - at)
                    self.counts.retransmitted_octets += k
                    break
                if at < st.fronts.begin[i]:
                    k = min(k, st.fronts.begin[i] - at)
            else:
                if add_front(st.fronts, at, k):
                    self.counts.octets += k
                    if f.ignored:
                        self.sink.ignored(self.sink.to, f, 0, k)
                    else:
                        self.pass_front(f, end, at, p, <size_t>k, mark)
                else:
                    self.counts.outside_octets += k
            at += k
            p += k
            n -= <size_t>k

    cdef inline void hand_on(self, Flow* f, int end, const uint8_t* p, uint32_t kept, uint32_t size,
                             const Mark* mark) noexcept nogil:
        cdef Stream* st = &f.streams[end]
        st.next += kept
        st.next_seq += kept
        self.counts.octets += kept
        if kept and not f.ignored:
            self.pass_octets(f, end, 0, p, kept, mark)
        elif kept:
            self.sink.ignored(self.sink.to, f, 0, kept)
        if size > kept:
            self.give_up(f, end, size - kept, WHY_TRUNCATED, mark)

    cdef void give_up(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        cdef Stream* st = &f.streams[end]
        st.next += n
        st.next_seq += <uint32_t>n
        st.acked_at = 0
        self.counts.gaps += 1
        self.counts.gap_octets += n
        if f.traffic != NULL:
            f.traffic.ends[end].missing += n
        if not f.ignored:
            self.pass_gap(f, end, n, why, mark)

    cdef void drain(self, Flow* f, int end, const Mark* mark, bint after_gap) noexcept nogil:
        """Pass on the pieces that are now in order. After a filled gap they belong to the packet that filled it; after a gap that
        was given up, to their own last packet."""
        cdef Stream* st = &f.streams[end]
        cdef Mark latest = mark[0]
        cdef Piece piece
        while st.count and st.pieces[st.first].at == st.next:
            piece = st.pieces[st.first]
            st.first += 1
            st.count -= 1
            st.stored -= piece.kept
            self.memory.buffered -= piece_octets(&piece)
            if after_gap and later(&piece.mark, &latest):
                latest = piece.mark
            self.hand_on(f, end, piece.octets, piece.kept, piece.size, &latest)
            free(piece.octets)
        st.acked_at = 0
        if st.count:
            st.gap_ns = f.last_ns
        elif st.capacity > PIECES_KEPT:
            self.free_pieces(st)
        else:
            st.first = 0

    cdef void store(self, Flow* f, int end, int64_t at, const uint8_t* p, uint32_t kept, uint32_t size,
                    const Mark* mark) noexcept nogil:
        """Store the octets that no stored piece covers."""
        cdef Stream* st = &f.streams[end]
        cdef int low = st.first
        cdef int high = st.first + st.count
        cdef int middle
        cdef int64_t n
        cdef uint32_t k
        if not st.count:
            st.gap_ns = f.last_ns
        while low < high:                               # the first piece that ends after `at`
            middle = (low + high) // 2
            if st.pieces[middle].at + st.pieces[middle].size > at:
                high = middle
            else:
                low = middle + 1
        while size:
            if low < st.first + st.count and st.pieces[low].at <= at:
                n = min(<int64_t>size, st.pieces[low].at + st.pieces[low].size - at)
                self.counts.retransmitted_octets += min(<int64_t>kept, n)
            else:
                n = size
                if low < st.first + st.count:
                    n = min(n, st.pieces[low].at - at)
                if not self.insert(st, &low, at, p, min(kept, <uint32_t>n), <uint32_t>n, mark):
                    self.memory.no_memory += 1
                    return
            k = min(kept, <uint32_t>n)
            p += k
            kept -= k
            size -= <uint32_t>n
            at += n
            low += 1
        while st.count and (st.stored > self.max_out_of_order or st.count > MAX_PIECES
                            or self.memory.buffered > self.memory.max_buffered):
            self.counts.limited += 1
            self.skip_hole(f, end, WHY_LIMIT)

    cdef bint insert(self, Stream* st, int* index, int64_t at, const uint8_t* p, uint32_t kept, uint32_t size,
                     const Mark* mark) noexcept nogil:
        cdef Piece* piece
        cdef Piece* grown
        cdef uint8_t* octets = NULL
        if st.first + st.count == st.capacity:
            if st.first:
                memmove(st.pieces, st.pieces + st.first, st.count * sizeof(Piece))
                index[0] -= st.first
                st.first = 0
            else:
                grown = <Piece*>realloc(st.pieces, (2 * st.capacity + PIECES_KEPT) * sizeof(Piece))
                if grown == NULL:
                    return False
                self.memory.buffered += <int64_t>((st.capacity + PIECES_KEPT) * sizeof(Piece))
                st.pieces = grown
                st.capacity = 2 * st.capacity + PIECES_KEPT
        if kept:
            octets = <uint8_t*>malloc(kept)
            if octets == NULL:
                return False
            memcpy(octets, p, kept)
        piece = st.pieces + index[0]
        memmove(piece + 1, piece, (st.first + st.count - index[0]) * sizeof(Piece))
        piece.at = at
        piece.size = size
        piece.kept = kept
        piece.octets = octets
        piece.mark = mark[0]
        st.count += 1
        st.stored += kept
        self.memory.buffered += piece_octets(piece)
        return True

    cdef void skip_hole(self, Flow* f, int end, int why) noexcept nogil:
        """Give up the gap before the first stored piece and pass on what follows it."""
        cdef Stream* st = &f.streams[end]
        cdef Mark mark = st.pieces[st.first].mark
        if st.undecided:
            self.release(f, end)
            return
        self.give_up(f, end, st.pieces[st.first].at - st.next, why, &mark)
        self.drain(f, end, &mark, True)

    cdef void check_hole(self, Flow* f, int end) noexcept nogil:
        cdef Stream* st = &f.streams[end]
        if st.undecided:
            return
        if st.acked >= st.pieces[st.first].at:
            if not st.acked_at:
                st.acked_at = f.packets
                st.acked_ns = f.last_ns
            elif f.packets - st.acked_at >= REORDER_PACKETS or elapsed_ns(st.acked_ns, f.last_ns) >= REORDER_NS:
                st.acked_to = st.acked
                while st.count and st.pieces[st.first].at <= st.acked_to:
                    self.skip_hole(f, end, WHY_LOST)
        elif elapsed_ns(st.gap_ns, f.last_ns) >= HOLE_NS:
            self.skip_hole(f, end, WHY_TIMEOUT)

    # ---- events -------------------------------------------------------------------------------------------------
    # A sink may call pass_octets in an event, to be told octets again, with a number of its own as `layer`: see `resume` for
    # their order.

    cdef inline void pass_octets(self, Flow* f, int end, int layer, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        cdef Delivery* d
        cdef int64_t used = self.sink.octets(self.sink.to, f, end, layer, p, n, mark)
        if used != ALL_OCTETS:
            d = self.wait(DELIVER_OCTETS, f, end, p + used, n - <size_t>used, mark)
            if d != NULL:
                d.layer = layer

    cdef void pass_gap(self, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
        cdef Delivery* d
        if not self.sink.gap(self.sink.to, f, end, n, why, mark):
            d = self.wait(DELIVER_GAP, f, end, NULL, 0, mark)
            if d != NULL:
                d.n = n
                d.why = why

    cdef void pass_front(self, Flow* f, int end, int64_t at, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        cdef Delivery* d
        if not self.sink.front(self.sink.to, f, end, at, p, n, mark):
            d = self.wait(DELIVER_FRONT, f, end, p, n, mark)
            if d != NULL:
                d.n = at

    cdef void pass_end(self, Flow* f, int end, int why) noexcept nogil:
        cdef Delivery* d
        if not self.sink.end(self.sink.to, f, end, why):
            d = self.wait(DELIVER_END, f, end, NULL, 0, NULL)
            if d != NULL:
                d.why = why

    cdef Delivery* wait(self, int kind, Flow* f, int end, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
        """Pass an event on later; NULL: out of memory."""
        cdef Delivery* d = add_delivery(&self.waiting, kind, f, end, p, n, mark)
        if d == NULL:
            self.memory.no_memory += 1
        return d

    cdef bint resume(self) noexcept nogil:
        """Pass on what waits, in order: an event that is not finished comes after those that it has made wait, and before all
        others. False: the sink is full again."""
        cdef Delivery* d
        while self.waiting.first != NULL and not self.sink.is_full(self.sink.to):
            d = next_delivery(&self.waiting)
            if self.deliver(d):
                free_delivery(&self.waiting, d)
            else:
                insert_delivery(&self.waiting, d)
        last_place(&self.waiting)
        return self.waiting.first == NULL

    cdef bint deliver(self, Delivery* d) noexcept nogil:
        cdef void* to = self.sink.to
        cdef Flow* f = d.flow
        cdef int64_t used
        if d.kind == DELIVER_CLOSE:
            self.close(f)
        elif f.ignored:                                 # meanwhile
            if d.size:
                self.sink.ignored(to, f, 0, <int64_t>(d.size - d.at))
        elif d.kind == DELIVER_OCTETS:
            used = self.sink.octets(to, f, d.end, d.layer, d.octets + d.at, d.size - d.at, &d.mark)
            if used != ALL_OCTETS:
                d.at += <size_t>used
                return False
        elif d.kind == DELIVER_GAP:
            return self.sink.gap(to, f, d.end, d.n, d.why, &d.mark)
        elif d.kind == DELIVER_FRONT:
            return self.sink.front(to, f, d.end, d.n, d.octets, d.size, &d.mark)
        else:
            return self.sink.end(to, f, d.end, d.why)
        return True

    # ---- ends ---------------------------------------------------------------------------------------------------

    cdef void end_stream(self, Flow* f, int end, int why) noexcept nogil:
        """Pass on everything stored, then report the end."""
        cdef Stream* st = &f.streams[end]
        cdef int64_t missing
        if st.ended or not st.started:
            return
        if not f.ignored:
            while st.count:
                self.skip_hole(f, end, WHY_LOST if st.acked >= st.pieces[st.first].at else why)
            if st.ended:                                # it began and ended with the stored octets
                return
            # if one octet more is acknowledged than was seen, it is the number of a FIN that was not captured
            missing = st.fin - st.next if st.fin >= 0 else st.acked - st.next - 1
            if missing > 0:
                self.give_up(f, end, missing + (st.fin < 0), WHY_LOST, &f.last)
        self.free_pieces(st)
        st.ended = True
        if not f.ignored:
            self.pass_end(f, end, why)

    cdef void ignore(self, Flow* f) noexcept nogil:
        """Called by the sink, in an event: pass on no more octets of this flow."""
        cdef int end
        f.ignored = True
        for end in range(2):
            self.sink.ignored(self.sink.to, f, 0, f.streams[end].stored)
            self.free_pieces(&f.streams[end])

    cdef void end_flow(self, Flow* f, int why) noexcept nogil:
        """End the streams and remove the flow from the table."""
        if f.traffic != NULL:
            f.traffic.why = why
        if f.reset:
            why = WHY_RESET
        cdef int first = f.client if f.client >= 0 else 0
        cdef int end
        for end in range(2):
            if f.streams[end].undecided:
                self.release(f, end)
        self.end_stream(f, first, why)
        self.end_stream(f, 1 - first, why)
        self.remove(f)

    cdef void remove(self, Flow* f) noexcept nogil:
        """Remove a flow from the table, and free it after its last event."""
        cdef int end
        remove_flow(&self.table, f)
        for end in range(2):
            self.free_pieces(&f.streams[end])
            self.free_fronts(&f.streams[end])
        if self.current == f:
            self.current = NULL
        if self.waiting.first == NULL:
            self.close(f)
        else:                                           # events of this flow may wait
            self.wait(DELIVER_CLOSE, f, 0, NULL, 0, NULL)

    cdef void close(self, Flow* f) noexcept nogil:
        """Free a flow that was removed."""
        self.sink.close(self.sink.to, f)
        if f.traffic != NULL:
            self.memory.buffered -= traffic_octets()
            free(f.traffic)
        self.memory.buffered -= flow_octets()
        recycle_flow(&self.table, f)

    cdef void drop_flows(self) noexcept nogil:
        """Remove all flows, and drop what waits; only `close` of the sink is called."""
        cdef Delivery* d = next_delivery(&self.waiting)
        cdef Flow* f = oldest_flow(&self.table)
        while d != NULL:
            if d.kind == DELIVER_CLOSE:
                self.close(d.flow)
            free_delivery(&self.waiting, d)
            d = next_delivery(&self.waiting)
        while f != NULL:
            self.remove(f)
            f = oldest_flow(&self.table)

    cdef void free_pieces(self, Stream* st) noexcept nogil:
        cdef int i
        for i in range(st.first, st.first + st.count):
            self.memory.buffered -= piece_octets(&st.pieces[i])
            free(st.pieces[i].octets)
        self.memory.buffered -= <int64_t>(st.capacity * sizeof(Piece))
        free(st.pieces)
        st.pieces = NULL
        st.first = st.count = st.capacity = 0
        st.stored = 0

    cdef void free_fronts(self, Stream* st) noexcept nogil:
        if st.fronts != NULL:
            self.memory.buffered -= sizeof(Fronts) + BLOCK_OCTETS
            free(st.fronts)
            st.fronts = NULL

    cdef bint end_some(self, int count, int why) noexcept nogil:
        """End up to `count` flows, those idle longest first. True: none is left."""
        cdef int i
        cdef Flow* f
        for i in range(count):
            f = oldest_flow(&self.table)
            if f == NULL:
                return True
            self.end_flow(f, why)
        return self.table.count == 0

    cdef inline bint is_recent(self, const Flow* f, int64_t age) noexcept nogil:
        """Was the last packet of `f` at most `age` ago? NULL: yes. A time in the future counts as long ago."""
        return f == NULL or <uint64_t>self.now_ns - <uint64_t>f.last_ns <= <uint64_t>age

    cdef inline void sweep(self) noexcept nogil:
        """Remove flows whose next packet would begin another flow anyway."""
        cdef const FlowTable* t = &self.table
        if not self.is_recent(t.lists[1].oldest, LINGER_NS) or not self.is_recent(t.lists[0].oldest, self.idle_ns):
            self.end_idle()

    cdef void end_idle(self) noexcept nogil:
        cdef int i
        cdef Flow* f
        for i in range(SWEEP):
            f = self.table.lists[1].oldest
            if f == NULL or elapsed_ns(f.last_ns, self.now_ns) <= LINGER_NS + SWEEP_NS:
                f = self.table.lists[0].oldest
                if f == NULL or elapsed_ns(f.last_ns, self.now_ns) - SWEEP_NS <= self.idle_ns:
                    return
                self.counts.idle += 1
            self.end_flow(f, WHY_IDLE)

    cdef dict stats(self):
        cdef ReassemblyCounts c = self.counts
        return {
            "flows": self.table.flows, "open_flows": self.table.count, "segments": c.segments, "stream_bytes": c.octets,
            "segments_without_flow": c.without_flow, "retransmitted": c.retransmitted, "overlapping": c.overlapping,
            "retransmitted_bytes": c.retransmitted_octets, "outside_bytes": c.outside_octets,
            "out_of_order": c.out_of_order, "gaps": c.gaps, "gap_bytes": c.gap_octets,
            "late_starts": c.late_starts, "early_segments": c.early, "replaced_flows": c.replaced, "idle_flows": c.idle,
            "flows_evicted": c.flows_evicted, "equal_flow_hashes": self.table.equal_hashes,
            "flow_table_probes": self.table.probes, "gaps_limited": c.limited, "buffered": self.memory.buffered,
            "most_buffered": c.most_buffered,
            "no_memory": self.memory.no_memory,
        }
