# Events of the reassembly -> carriers, frames and the recogniser: what FrameStreams does as a FlowSink.

cdef enum:
    PREFETCHED = 128            # octets of a protocol's state, of a pending frame


cdef int64_t on_octets(FrameStreams s, Flow* f, int end, int layer, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
    cdef FlowState* fs = <FlowState*>f.state
    cdef SideLayer* above
    cdef size_t used
    cdef bint done
    if s.is_full():
        return 0
    if fs == NULL:
        fs = s.open_state(f)
        if fs == NULL:
            return ALL_OCTETS
    elif fs.unfinished:
        done = s.finish_event(f, end, mark)
        if f.ignored:
            s.on_ignored(f, 0, <int64_t>n)
            return ALL_OCTETS
        if not done:
            return 0
    if n == 0:
        return ALL_OCTETS
    above = fs.sides[end].lowest
    while layer and above != NULL:
        above = above.above
        layer -= 1
    used = s.carry(f, end, above, p, n, mark)
    return <int64_t>used if (used != n or fs.unfinished) and not f.ignored else ALL_OCTETS


cdef bint on_gap(FrameStreams s, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
    cdef FlowState* fs = <FlowState*>f.state
    if s.is_full():
        return False
    if fs == NULL:
        fs = s.open_state(f)
        if fs == NULL:
            return True
    elif fs.unfinished and not s.finish_event(f, end, mark):
        return f.ignored
    return f.ignored or s.carry_gap(f, end, fs.sides[end].lowest, n, why, mark)


cdef bint on_front(FrameStreams s, Flow* f, int end, int64_t at, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
    """Octets from before the beginning of this direction: they are read separately."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side
    cdef Side whole
    cdef Flow* front
    if fs == NULL:                                      # there was no memory
        return True
    if s.is_full():
        return False
    if fs.front != NULL:
        return end_front(s, fs, end)
    side = &fs.sides[end]
    if fs.protocol == NULL and side.stage == STAGE_START:
        side.skipped += <int64_t>n
        return True
    if fs.protocol == NULL or side.stage != STAGE_FRAMES or side.lowest != NULL:
        whole = side[0]
        memset(side, 0, sizeof(Side))
        side.offset = at
        s.begin_search(side, -1)
        s.put_gap(f, end, <int64_t>n, mark)
        side[0] = whole
        return True
    front = open_front(s, f, mark)
    if front == NULL:
        s.memory.no_memory += 1
        return True
    fs.front = front
    side = &(<FlowState*>front.state).sides[end]
    side.stage = STAGE_FRAMES
    side.offset = at
    s.begin_search(side, -1)
    s.search(front, end, p, n, mark)
    return end_front(s, fs, end)


cdef bint end_front(FrameStreams s, FlowState* fs, int end) noexcept nogil:
    if not on_end(s, fs.front, end, WHY_FRONT):
        return False
    drop_front(s, fs)
    return True


cdef void drop_front(FrameStreams s, FlowState* fs) noexcept nogil:
    s.memory.buffered -= flow_octets()
    on_close(s, fs.front)
    free(fs.front)
    fs.front = NULL


cdef Flow* open_front(FrameStreams s, const Flow* f, const Mark* mark) noexcept nogil:
    """A new flow outside the table, with the same ends and protocol; NULL: out of memory."""
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
    front.traffic = NULL
    front.state = state
    state[0] = fs[0]
    state.proxied = NULL
    state.tls = NULL
    state.unfinished = state.limiting = False
    memset(state.sides, 0, sizeof(state.sides))
    state.state = kept
    state.counted = 0
    s.memory.buffered += flow_octets() + <int64_t>sizeof(FlowState) + BLOCK_OCTETS
    s.count_buffered(state)
    return front


cdef bint on_end(FrameStreams s, Flow* f, int end, int why) noexcept nogil:
    cdef FlowState* fs = <FlowState*>f.state
    cdef const char* text = why_text(WHY_FRONT if why == WHY_FRONT else WHY_CAPTURE_END)
    cdef Side* side
    if s.is_full():
        return False
    if fs == NULL:
        return True
    if fs.unfinished and not s.finish_event(f, end, &f.last):
        return f.ignored
    if (fs.protocol == NULL and not fs.rows and not s.recogniser.ends(s.recogniser.to, f, end)) or f.ignored:
        return True
    if s.is_full():                                     # octets that `ends` has read may wait
        return False
    side = &fs.sides[end]
    if side.stage != STAGE_FRAMES:
        return True
    if side.searching and side.size:
        s.look(f, end, True)
    if f.ignored:
        return True
    if s.is_full():
        return False
    if side.searching:
        s.put_gap(f, end, <int64_t>side.size, &f.last)
        s.free_pending(side)
        side.searching = False
    return (side.size == 0 or s.put_rest(f, end, text, &f.last)) and s.flush(f, end, text)


cdef void end_flow(FrameStreams s, Flow* f) noexcept nogil:
    cdef MessageContext m
    if f.state != NULL:
        end_layers(s, f)
    if f.traffic != NULL and s.tcp.counts_traffic:
        s.name_of(f.last.capture, &m)
        put_transport(s.transport.cols, s.transport_rows, f, <const FlowState*>f.state, &m.capture)
        s.transport_rows += 1
    on_close(s, f)


cdef void end_layers(FrameStreams s, Flow* f) noexcept nogil:
    """The carriers of a flow that ends."""
    cdef SideLayer* layer = (<FlowState*>f.state).sides[0].lowest
    while layer != NULL:
        if layer.carrier.ends != NULL:
            layer.carrier.ends(s, f, layer)
        layer = layer.above


cdef void on_close(FrameStreams s, Flow* f) noexcept nogil:
    cdef FlowState* fs = <FlowState*>f.state
    cdef Side* side
    cdef int end
    if fs == NULL:
        return
    if fs.front != NULL:
        drop_front(s, fs)
    if fs.protocol == NULL and not f.ignored:
        s.seen.undecoded_flows[<int>UNDECODED_UNKNOWN] += 1
        s.seen.undecoded_packets[<int>UNDECODED_UNKNOWN] += f.packets
        s.count_port(f)
    s.seen.undecoded_octets[<int>UNDECODED_UNKNOWN] += s.drop_proxied(fs)
    for end in range(2):
        side = &fs.sides[end]
        if f.ignored:
            pass
        elif fs.protocol == NULL and not fs.rows:
            s.seen.undecoded_octets[<int>UNDECODED_UNKNOWN] += <int64_t>side.size + side.skipped
        elif side.stage in (STAGE_HTTP, STAGE_TUNNEL):  # what the other side has said was read
            s.seen.carrier_octets += <int64_t>side.size
        s.free_pending(side)
        s.free_origins(side)
        s.free_candidates(side)
        while side.lowest != NULL:
            s.drop_layer(side)
    if fs.protocol != NULL:
        s.memory.buffered -= fs.counted
        close_state(fs.protocol, fs.state)
    if fs.tls != NULL:
        drop_facts(s, fs)
    s.memory.buffered -= sizeof(FlowState) + BLOCK_OCTETS
    free(fs)
    f.state = NULL


cdef void on_prefetch(Flow* const* flows, int count) noexcept nogil:
    cdef FlowState* fs
    cdef const Side* side
    cdef int i
    for i in range(count):
        fs = <FlowState*>flows[i].state
        prefetch(fs, <size_t>(<uint8_t*>&fs.sides[0].missing - <uint8_t*>fs))
        prefetch(&fs.sides[1], <size_t>(<uint8_t*>&fs.sides[1].missing - <uint8_t*>&fs.sides[1]))
    for i in range(count):
        fs = <FlowState*>flows[i].state
        prefetch(fs.state, PREFETCHED)
        side = &fs.sides[flows[i].client == 1]
        if side.size:
            prefetch(side.pending, PREFETCHED)


# ---- as a FlowSink


cdef int sink_begins(void* to, const Flow* f) noexcept nogil:
    return (<FrameStreams>to).recogniser.begins((<FrameStreams>to).recogniser.to, f)


cdef int64_t sink_octets(void* to, Flow* f, int end, int layer, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
    return on_octets(<FrameStreams>to, f, end, layer, p, n, mark)


cdef bint sink_gap(void* to, Flow* f, int end, int64_t n, int why, const Mark* mark) noexcept nogil:
    return on_gap(<FrameStreams>to, f, end, n, why, mark)


cdef bint sink_front(void* to, Flow* f, int end, int64_t at, const uint8_t* p, size_t n, const Mark* mark) noexcept nogil:
    return on_front(<FrameStreams>to, f, end, at, p, n, mark)


cdef void sink_ignored(void* to, Flow* f, int packets, int64_t n) noexcept nogil:
    (<FrameStreams>to).on_ignored(f, packets, n)


cdef bint sink_end(void* to, Flow* f, int end, int why) noexcept nogil:
    return on_end(<FrameStreams>to, f, end, why)


cdef void sink_close(void* to, Flow* f) noexcept nogil:
    end_flow(<FrameStreams>to, f)


cdef bint sink_is_full(void* to) noexcept nogil:
    return (<FrameStreams>to).is_full()


cdef void sink_prefetch(void* to, Flow* const* flows, int count) noexcept nogil:
    on_prefetch(flows, count)


cdef void join_sink(FlowSink* sink, FrameStreams s):
    """`s` takes what the reassembly passes on."""
    sink.to = <void*>s
    sink.begins = sink_begins
    sink.octets = sink_octets
    sink.gap = sink_gap
    sink.front = sink_front
    sink.ignored = sink_ignored
    sink.end = sink_end
    sink.close = sink_close
    sink.is_full = sink_is_full
    sink.prefetch = sink_prefetch
