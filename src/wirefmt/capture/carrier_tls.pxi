# TLS as a carrier: records in, application data out. tls.py has handshakes, secrets and keys; here are records, their order and
# gaps. RFC 8446, 5; RFC 5246, 6.
#
# A direction whose next keys depend on the other one waits (`waiting`): segments come in the order of the capture. After a gap
# that hides where a record begins, records are searched for: one is found if it opens, with one of the next sequence numbers.

cdef enum:
    RECORD_HEAD = 5
    RECORD_MAX = 16384 + 2048           # octets of a record's content: RFC 5246, 6.2.3
    FRAGMENT_MAX = 16384                # of what is in it
    RECORD_LEAST = 22                   # octets of a record with content, header and tag included
    TLS_OCTETS = 8192                   # memory of a connection's keys and messages, for each direction,
    LOOK_OCTETS = 2048                  # of one that is not decrypted: only its handshake is read,
    GIVEN_UP_OCTETS = 512               # and of one that was given up
    WAITING_MOST = 1 << 18              # octets of a direction that wait
    SEQUENCES_MOST = 4096               # sequence numbers that are tried after a gap,
    SEQUENCES_BROKEN = 64               # and after a record that does not open
    TRIAL_OCTETS = 512                  # what a trial costs, besides the octets of the record,
    TRIAL_CREDIT = 64                   # per octet that arrives,
    TRIAL_FIRST = 1 << 23               # and at the beginning of a search

cdef enum:                              # content types
    TLS_CHANGE = 20
    TLS_ALERT = 21
    TLS_HANDSHAKE = 22
    TLS_DATA = 23

cdef enum RecordForm:                   # tls.Keys.form
    FORM_13 = 0
    FORM_SEQUENCE
    FORM_EXPLICIT
    FORM_BLOCK

cdef enum TlsReason:                    # tls.Reason: why a connection is not decrypted
    TLS_DECRYPTED = 0                   # it is
    TLS_NO_SECRETS
    TLS_NO_SECRET
    TLS_NO_HANDSHAKE
    TLS_NO_CIPHER
    TLS_NO_VERSION
    TLS_WRONG_SECRET
    TLS_NO_LIBRARY
    TLS_LIMIT
    TLS_NO_DATA
    TLS_REASONS

cdef tuple TLS_NAMES = (
    "decrypted", "no_secrets", "no_secret", "handshake_not_captured", "cipher_not_supported", "version_not_supported",
    "wrong_secret", "no_library", "limit", "no_data",
)


cdef const char* TLS_TEXT = b"TLS from here on: not decoded"        # words: ok


cdef struct Tls:                        # one direction. Objects are owned
    SideLayer layer
    PyObject* connection                # tls.Connection, of both directions
    PyObject* keys                      # tls.Keys; NULL: records are not encrypted
    PyObject* open_record               # its function
    uint8_t iv[12]
    uint8_t form                        # a RecordForm
    uint8_t tag                         # octets at the end of a record that authenticate it
    int64_t counted                     # octets of the connection, in this direction, that `buffered` includes
    bint looks                          # nothing can be decrypted: what is not encrypted is read, and counted as not decoded
    int64_t packets                     # of the flow before TLS
    bint shown                          # a record with application data was decrypted
    bint searching                      # a record is searched for in `kept`
    uint64_t sequence                   # of the next record
    int64_t fresh                       # records opened with these keys
    uint8_t* record                     # the beginning of a record
    size_t size, capacity
    size_t skip                         # octets of a record of which some are missing
    PyObject* plain                     # decrypted octets, of which [used:end] were not taken
    size_t used, end
    PyObject* kept                      # list of (octets, mark): what waits, or what is searched. NULL: nothing
    size_t kept_size
    size_t tried                        # octets of `kept` at which no record begins
    uint64_t sequence_last              # that is tried
    int64_t credit


cdef Carrier TLS
TLS.name = pad_text(b"tls")
TLS.size = sizeof(Tls)
TLS.octets = tls_octets
TLS.gap = tls_gap
TLS.ends = give_up_late
TLS.clear = tls_clear

begin_carrier[<int>CARRIER_TLS] = begin_tls


cdef void begin_tls(FrameStreams s, Flow* f, int end, const Mark* mark) noexcept nogil:
    """TLS that a protocol has negotiated."""
    cdef FlowState* fs = <FlowState*>f.state
    if not may_decrypt(s):
        s.put_fault(f, end, ROW_GAP, TLS_TEXT, mark)
        if s.tcp.counts_traffic and not (fs.sides[0].searching or fs.sides[1].searching):
            open_tls(s, f, end, True, mark)
        else:
            pass_tls(s, f)
    elif fs.sides[0].searching or fs.sides[1].searching or fs.sides[0].skip or fs.sides[1].skip:
        give_up_tls(s, f, end, TLS_NO_HANDSHAKE, mark)
    else:
        open_tls(s, f, end, False, mark)


cdef void pass_tls(FrameStreams s, Flow* f) noexcept nogil:
    """There is no secret."""
    (<FlowState*>f.state).tls_reason = TLS_NO_SECRETS
    s.dismiss(f, UNDECODED_TLS)
    s.tls_flows[<int>TLS_NO_SECRETS] += 1


cdef bint may_decrypt(FrameStreams s) noexcept nogil:
    """Is there any secret?"""
    return s.decrypts == DECRYPTS or (s.decrypts == DECRYPTS_PERHAPS and ask_secrets(s))


cdef bint ask_secrets(FrameStreams s) noexcept with gil:
    try:
        if s.secrets.any():
            s.decrypts = DECRYPTS
        elif s.secrets.complete:
            s.decrypts = DECRYPTS_NOTHING
    except Exception:
        s.decrypts = DECRYPTS_NOTHING
    return s.decrypts == DECRYPTS


cdef void open_tls(FrameStreams s, Flow* f, int end, bint looks, const Mark* mark) noexcept with gil:
    """Both directions are records of TLS after the octets so far. The flow may be dismissed. `looks`: there is no secret, only
    what the handshake says is read."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef int i
    cdef Tls* t
    try:
        from wirefmt.capture.tls import Connection
        from wirefmt.capture.tls_facts import Facts
        facts = Facts() if s.tcp.counts_traffic else None
        connection = Connection(s.secrets, facts, TLS_NO_SECRETS if looks else TLS_DECRYPTED)
    except ImportError:
        give_up_tls(s, f, end, TLS_NO_LIBRARY, mark)
        return
    if facts is not None and fs.tls == NULL:
        Py_INCREF(facts)
        fs.tls = <PyObject*>facts
        s.memory.buffered += FACTS_OCTETS
    for i in range(2):
        t = <Tls*>s.add_layer(f, i, &TLS)
        if t == NULL:
            return
        Py_INCREF(connection)
        t.connection = <PyObject*>connection
        t.looks = looks
        t.packets = f.packets
        count_connection(s, t, LOOK_OCTETS if looks else TLS_OCTETS)


cdef inline void count_connection(FrameStreams s, Tls* t, int64_t octets) noexcept nogil:
    s.memory.buffered += octets - t.counted
    t.counted = octets


cdef Tls* tls_of(FlowState* fs, int end) noexcept nogil:
    """The TLS of a direction; NULL: it is not in TLS."""
    cdef SideLayer* own = fs.sides[end].lowest
    while own != NULL and own.carrier != &TLS:
        own = own.above
    return <Tls*>own


cdef void give_up_tls(FrameStreams s, Flow* f, int end, int reason, const Mark* mark) noexcept nogil:
    """The connection is not decrypted. Octets that wait are counted as those that follow."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef Tls* t
    cdef int64_t n = 0
    cdef int i
    if f.ignored:
        return
    t = tls_of(fs, 0)
    if t != NULL and t.looks:
        reason = TLS_NO_SECRETS
    elif fs.protocol != NULL:
        s.put_fault(f, end, ROW_GAP, TLS_TEXT, mark)
    for i in range(2):
        t = tls_of(fs, i)
        if t != NULL:
            n += <int64_t>(t.size + t.kept_size)
            drop_octets(s, t)
            count_connection(s, t, GIVEN_UP_OCTETS)
    t = tls_of(fs, 0)
    if t != NULL:
        close_connection(t)
        if t.looks and fs.protocol != NULL:             # as if it had been dismissed when TLS began
            s.seen.undecoded_packets[<int>UNDECODED_TLS] += f.packets - t.packets
    fs.tls_reason = <uint8_t>reason
    s.dismiss(f, UNDECODED_TLS)
    s.tls_flows[reason] += 1
    s.on_ignored(f, 0, n)


cdef void close_connection(Tls* t) noexcept with gil:
    (<object>t.connection).close()


cdef void give_up_late(FrameStreams s, Flow* f, SideLayer* own) noexcept nogil:
    """The flow ends, and nothing was decrypted because something was missing."""
    cdef FlowState* fs = <FlowState*>f.state
    if not f.ignored and not tls_of(fs, 0).shown and not tls_of(fs, 1).shown:
        give_up_tls(s, f, 0, reason_late(<Tls*>own), &f.last)


cdef int reason_late(Tls* t) noexcept with gil:
    connection = <object>t.connection
    if connection.waiting:
        return TLS_NO_SECRET
    return TLS_NO_HANDSHAKE if connection.keys[0] is None else TLS_NO_DATA


cdef void drop_octets(FrameStreams s, Tls* t) noexcept nogil:
    """Free what is kept of the stream."""
    if t.capacity:
        s.memory.buffered -= <int64_t>t.capacity + BLOCK_OCTETS
        free(t.record)
        t.record = NULL
    t.size = t.capacity = t.skip = 0
    if t.kept != NULL or t.plain != NULL:
        drop_objects(s, t)


cdef void drop_objects(FrameStreams s, Tls* t) noexcept with gil:
    s.memory.buffered -= <int64_t>t.kept_size
    if t.plain != NULL:
        s.memory.buffered -= <int64_t>PyBytes_GET_SIZE(<object>t.plain)
    Py_XDECREF(t.kept)
    Py_XDECREF(t.plain)
    t.kept = t.plain = NULL
    t.kept_size = t.tried = t.used = t.end = 0


cdef void tls_clear(FrameStreams s, SideLayer* own) noexcept nogil:
    s.seen.carrier_octets += <int64_t>((<Tls*>own).size + (<Tls*>own).kept_size)
    drop_octets(s, <Tls*>own)
    count_connection(s, <Tls*>own, 0)
    drop_connection(<Tls*>own)


cdef void drop_connection(Tls* t) noexcept with gil:
    Py_XDECREF(t.connection)
    Py_XDECREF(t.keys)
    Py_XDECREF(t.open_record)
    t.connection = t.keys = t.open_record = NULL


# ---- records


cdef inline bint is_record(const uint8_t* p) noexcept nogil:
    """Is this the header of a record: content type, version, length?"""
    return 20 <= p[0] <= 24 and p[1] == 3 and p[2] <= 4 and load_u16(p + 3) <= RECORD_MAX


cdef inline size_t record_size(const uint8_t* p) noexcept nogil:
    """Octets of a record with this header."""
    return <size_t>RECORD_HEAD + load_u16(p + 3)


cdef size_t tls_octets(FrameStreams s, Flow* f, int end, SideLayer* own, const uint8_t* p, size_t n,
                       const Mark* mark) noexcept nogil:
    """Open whole records; keep the beginning of one."""
    cdef Tls* t = <Tls*>own
    cdef size_t used
    if t.plain == NULL and t.kept == NULL and not t.skip and t.size >= RECORD_HEAD \
            and t.size + n < record_size(t.record):
        if keep_record(s, t, p, n):
            return n
        give_up_tls(s, f, end, TLS_LIMIT, mark)
        s.on_ignored(f, 0, <int64_t>n)
        return n
    used = open_records(s, f, end, t, p, n, mark)
    if f.ignored:
        s.on_ignored(f, 0, <int64_t>(n - used))
        return n
    return used


cdef bint keep_record(FrameStreams s, Tls* t, const uint8_t* p, size_t n) noexcept nogil:
    """Append to the beginning of a record. False: a limit forbids it."""
    cdef size_t capacity = t.capacity
    cdef uint8_t* grown
    if t.size + n > capacity:
        capacity = max(t.size + n, min(2 * capacity, <size_t>(RECORD_HEAD + RECORD_MAX)))
        if s.memory.buffered + <int64_t>(capacity - t.capacity) > s.memory.max_buffered:
            return False
        grown = <uint8_t*>realloc(t.record, capacity)
        if grown == NULL:
            s.memory.no_memory += 1
            return False
        s.memory.buffered += <int64_t>(capacity - t.capacity) + (BLOCK_OCTETS if t.capacity == 0 else 0)
        t.record = grown
        t.capacity = capacity
    memcpy(t.record + t.size, p, n)
    t.size += n
    return True


cdef size_t open_records(FrameStreams s, Flow* f, int end, Tls* t, const uint8_t* p, size_t n,
                         const Mark* mark) noexcept with gil:
    """Returns the octets used, as the function of a carrier; the rest of them is not counted if the flow is ignored."""
    cdef FlowState* fs = <FlowState*>f.state
    cdef const uint8_t* record
    cdef size_t at = 0, begun = 0, k, size
    connection = <object>t.connection
    cdef int side = 0 if end == f.client else 1
    try:
        if t.plain != NULL:
            if not take_plain(s, f, end, t, mark):
                return 0
            at = 1
        while at < n and not f.ignored and not s.is_full() and not fs.unfinished:
            begun = at
            if t.searching:
                keep_piece(s, t, p + at, n - at, mark)
                at = n
                search_record(s, f, end, t, side, mark)
                break
            if connection.waiting or connection.blocked[side]:
                if t.size:                              # a record is whole or not: it waits as it came
                    keep_piece(s, t, t.record, t.size, mark)
                    t.size = 0
                keep_piece(s, t, p + at, n - at, mark)
                at = n
                if t.kept_size > WAITING_MOST:
                    raise giving_up(TLS_NO_SECRET if connection.waiting else TLS_NO_HANDSHAKE)
                if connection.waiting and connection.poll():
                    load_keys(fs, connection, f)
                    read_waiting(s, f, 1 if f.client == 0 else 0, connection)
                    read_waiting(s, f, 0 if f.client == 0 else 1, connection)
                break
            if t.skip:
                k = min(t.skip, n - at)
                t.skip -= k
                at += k
                s.seen.carrier_octets += <int64_t>k
                continue
            record = p + at
            if t.size == 0 and n - at >= RECORD_HEAD and record_size(record) <= n - at:
                size = record_size(record)
                at += size
            else:
                k = min(n - at, RECORD_HEAD - t.size) if t.size < RECORD_HEAD else 0
                if not keep_record(s, t, record, k):
                    raise giving_up(TLS_LIMIT)
                at += k
                if t.size < RECORD_HEAD:
                    break
                size = record_size(t.record)
                if is_record(t.record):
                    k = min(n - at, size - t.size)
                    if not keep_record(s, t, p + at, k):
                        raise giving_up(TLS_LIMIT)
                    at += k
                    if t.size < size:
                        break
                else:
                    size = RECORD_HEAD
                record = t.record
            if not is_record(record) or not read_record(s, f, end, t, side, connection, record, size, mark):
                if t.fresh == 0 and not t.shown:
                    raise giving_up(TLS_NO_HANDSHAKE)
                if record != t.record and not keep_record(s, t, record, size):
                    raise giving_up(TLS_LIMIT)
                if not break_record(s, f, end, t, mark):
                    t.size -= 1                         # its last octet comes again: what the gap has made wait is first
                    at -= 1
                    break
            elif record == t.record:
                t.size = 0
                if t.capacity > FRAGMENT_MAX or at == n:        # memory of many connections would not stay in the cache
                    free_record(s, t)
            if t.plain != NULL:
                at -= 1
                break
    except MemoryError:
        s.memory.no_memory += 1
    except Exception as error:
        reason = reason_of(error)
        if at > begun and t.size == 0:
            at = begun
        give_up_tls(s, f, end, reason, mark)
    return at


cdef void free_record(FrameStreams s, Tls* t) noexcept nogil:
    s.memory.buffered -= <int64_t>t.capacity + BLOCK_OCTETS
    free(t.record)
    t.record = NULL
    t.capacity = 0


cdef object giving_up(int reason):
    from wirefmt.capture.tls import GivenUp
    return GivenUp(reason)


cdef int reason_of(object error):
    from wirefmt.capture.tls import GivenUp
    if isinstance(error, GivenUp):
        return <int>error.args[0]
    return TLS_NO_LIBRARY if isinstance(error, ImportError) else TLS_NO_HANDSHAKE


cdef bint read_record(FrameStreams s, Flow* f, int end, Tls* t, int side, object connection, const uint8_t* p, size_t size,
                      const Mark* mark) except -1:
    """A whole record. False: it does not open. Raises GivenUp."""
    cdef int kind = p[0]
    cdef size_t n = size - RECORD_HEAD
    cdef const uint8_t* text
    cdef bytes plain
    cdef bint kept = p == t.record
    if t.keys == NULL:
        if kind == TLS_DATA:
            connection.unencrypted_data(side)
        else:
            take_message(s, t, connection, side, kind, PyBytes_FromStringAndSize(<const char*>p + RECORD_HEAD, <Py_ssize_t>n))
            follow_keys(s, f, end, connection)
        count_record(s, f, t, kept, size)
        return True
    if t.form == FORM_13 and kind != TLS_DATA:          # ChangeCipherSpec for old middleboxes; alerts without keys
        s.seen.carrier_octets += <int64_t>size
        return True
    while True:
        try:
            plain = open_content(t, t.sequence, p, p + RECORD_HEAD, n)
            break
        except ImportError:
            raise
        except Exception:
            if t.fresh:
                return False
            if connection.failed(side):
                s.seen.carrier_octets += <int64_t>size
                return True
            follow_keys(s, f, end, connection)
    t.sequence += 1
    t.fresh += 1
    n = <size_t>PyBytes_GET_SIZE(plain)
    text = <const uint8_t*>PyBytes_AS_STRING(plain)
    if t.form == FORM_13:                               # content, its type, padding (RFC 8446, 5.2)
        while n and text[n - 1] == 0:
            n -= 1
        if n == 0:
            return True
        n -= 1
        kind = text[n]
    if kind == TLS_DATA:
        s.seen.carrier_octets += <int64_t>size - <int64_t>n
        if not t.shown:
            if not tls_of(<FlowState*>f.state, 1 - end).shown:
                s.tls_flows[<int>TLS_DECRYPTED] += 1
            t.shown = True
        if n:
            Py_INCREF(plain)
            t.plain = <PyObject*>plain
            t.used = 0
            t.end = n
            s.memory.buffered += PyBytes_GET_SIZE(plain)
            take_plain(s, f, end, t, mark)
        return True
    if kind != TLS_ALERT:
        take_message(s, t, connection, side, kind, plain[:n])
        follow_keys(s, f, end, connection)
    count_record(s, f, t, kept, size)
    return True


cdef take_message(FrameStreams s, Tls* t, object connection, int side, int kind, bytes octets):
    """Octets of a record without application data. Raises GivenUp."""
    connection.take(side, kind, octets)
    count_connection(s, t, (LOOK_OCTETS if t.looks else TLS_OCTETS) + <int64_t>connection.held(side))
    if s.memory.buffered > s.memory.max_buffered:
        raise giving_up(TLS_LIMIT)


cdef inline void count_record(FrameStreams s, const Flow* f, const Tls* t, bint kept, size_t size) noexcept nogil:
    """A record without application data was read. If the flow was given up meanwhile, one that was kept is counted."""
    if kept and f.ignored:
        pass
    elif t.looks:
        s.seen.undecoded_octets[<int>UNDECODED_TLS] += <int64_t>size
    else:
        s.seen.carrier_octets += <int64_t>size


cdef bint take_plain(FrameStreams s, Flow* f, int end, Tls* t, const Mark* mark):
    """Pass on what was decrypted. False: the batch is full before its end. Then the last octet of the record is not used, so that
    the event waits for those that were made wait by what is carried, and comes again."""
    cdef Mark own = mark[0]
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(<object>t.plain)
    cdef size_t k
    own.push = t.end < FRAGMENT_MAX                     # a shorter record ends a write
    with nogil:
        while t.used < t.end and not f.ignored and not s.is_full():
            k = s.carry(f, end, t.layer.above, p + t.used, t.end - t.used, &own)
            t.used += k
    if f.ignored:
        s.on_ignored(f, 0, <int64_t>(t.end - t.used))
        t.used = t.end
    if t.used < t.end:
        return False
    if t.plain != NULL:
        s.memory.buffered -= PyBytes_GET_SIZE(<object>t.plain)
        Py_XDECREF(t.plain)
        t.plain = NULL
    return True


cdef bytes open_content(Tls* t, uint64_t sequence, const uint8_t* head, const uint8_t* p, size_t n):
    """The content of a record. Raises if it is not of these keys and this sequence number."""
    cdef uint8_t nonce[12]
    cdef uint8_t added[13]
    cdef size_t size = RECORD_HEAD
    cdef int i
    if t.form == FORM_13:
        memcpy(added, head, RECORD_HEAD)
    else:                                               # RFC 5246, 6.2.3.3: sequence number, type, version, length
        store_u32(added, <uint32_t>(sequence >> 32))
        store_u32(added + 4, <uint32_t>sequence)
        memcpy(added + 8, head, 3)
        size = 13
    if t.form == FORM_BLOCK:
        return (<object>t.open_record)(PyBytes_FromStringAndSize(<const char*>added, 11),
                                       PyBytes_FromStringAndSize(<const char*>p, <Py_ssize_t>n))
    memcpy(nonce, t.iv, 12)
    if t.form == FORM_EXPLICIT:
        if n < <size_t>8 + t.tag:
            raise ValueError("size")
        memcpy(nonce + 4, p, 8)
        p += 8
        n -= 8
    else:
        for i in range(8):
            nonce[4 + i] ^= <uint8_t>(sequence >> (56 - 8 * i))
    if n < t.tag:
        raise ValueError("size")
    if size == 13:
        store_u16(added + 11, <uint16_t>(n - t.tag))
    return (<object>t.open_record)(PyBytes_FromStringAndSize(<const char*>nonce, 12),
                                   PyMemoryView_FromMemory(<char*>p, <Py_ssize_t>n, PyBUF_READ),
                                   PyBytes_FromStringAndSize(<const char*>added, <Py_ssize_t>size))


# ---- keys of both directions


cdef void set_keys(Tls* t, object keys):
    """The next record is the first one with these keys."""
    cdef bytes iv = keys.iv
    Py_XDECREF(t.keys)
    Py_XDECREF(t.open_record)
    opener = keys.open
    Py_INCREF(keys)
    Py_INCREF(opener)
    t.keys = <PyObject*>keys
    t.open_record = <PyObject*>opener
    t.form = <uint8_t><int>keys.form
    t.tag = <uint8_t><int>keys.tag
    memset(t.iv, 0, 12)
    memcpy(t.iv, PyBytes_AS_STRING(iv), min(<size_t>PyBytes_GET_SIZE(iv), <size_t>12))
    t.sequence = 0
    t.fresh = 0


cdef load_keys(FlowState* fs, object connection, Flow* f):
    """Take over the keys that the connection has now."""
    cdef Tls* t
    cdef int end
    for end in range(2):
        t = tls_of(fs, end)
        keys = connection.keys[0 if end == f.client else 1]
        if keys is not None and <PyObject*>keys != t.keys:
            set_keys(t, keys)


cdef follow_keys(FrameStreams s, Flow* f, int end, object connection):
    """After a message of this direction: keys may be others, and the other direction may go on."""
    cdef FlowState* fs = <FlowState*>f.state
    load_keys(fs, connection, f)
    read_waiting(s, f, 1 - end, connection)


cdef read_waiting(FrameStreams s, Flow* f, int end, object connection):
    """Read what has waited in a direction, if it may go on."""
    cdef Tls* t = tls_of(<FlowState*>f.state, end)
    cdef int side = 0 if end == f.client else 1
    if t == NULL or t.searching or connection.waiting or connection.blocked[side] or f.ignored:
        return
    connection.resume(side)
    load_keys(<FlowState*>f.state, connection, f)
    if t.kept == NULL or connection.waiting or connection.blocked[side]:
        return
    read_kept(s, f, end, t, 0)


cdef read_kept(FrameStreams s, Flow* f, int end, Tls* t, size_t first):
    """Read what is kept, from this octet on, as if it came now: each piece with its packet."""
    cdef list pieces = <list><object>t.kept
    cdef bytes octets, packet
    cdef size_t n
    s.memory.buffered -= <int64_t>t.kept_size
    Py_XDECREF(t.kept)
    t.kept = NULL
    t.kept_size = t.tried = 0
    for octets, packet in pieces:
        n = <size_t>PyBytes_GET_SIZE(octets)
        if first < n:
            s.pass_again(f, end, t.layer.number, <const uint8_t*>PyBytes_AS_STRING(octets) + first, n - first,
                         <const Mark*>PyBytes_AS_STRING(packet))
        first -= min(first, n)


cdef keep_piece(FrameStreams s, Tls* t, const uint8_t* p, size_t n, const Mark* mark):
    """Keep octets and their packet."""
    cdef list pieces
    if t.kept == NULL:
        pieces = []
        Py_INCREF(pieces)
        t.kept = <PyObject*>pieces
    pieces = <list><object>t.kept
    pieces.append((PyBytes_FromStringAndSize(<const char*>p, <Py_ssize_t>n),
                   PyBytes_FromStringAndSize(<const char*>mark, sizeof(Mark))))
    t.kept_size += n
    s.memory.buffered += <int64_t>n


# ---- gaps


cdef bint tell_gap(FrameStreams s, Flow* f, int end, Tls* t, int64_t n, int why, const Mark* mark) noexcept nogil:
    """Some octets of what is carried are missing; `n` of the records. False: the batch is full; call again."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    if s.is_full():
        return False
    if t.layer.above != NULL:
        if not s.carry_gap(f, end, t.layer.above, UNKNOWN, why, mark):
            return False
    elif side.stage != STAGE_FRAMES:
        return s.recogniser.gap(s.recogniser.to, f, end, n, why, mark)
    elif side.searching:
        return s.cross(f, end, n, why, mark)
    else:
        if (side.size and not s.put_rest(f, end, why_text(why), mark)) or not s.flush(f, end, why_text(why)):
            return False
        s.begin_search(side, why)
    if side.searching and not f.ignored:
        side.missing += max(n, <int64_t>0)
    return True


cdef bint tls_gap(FrameStreams s, Flow* f, int end, SideLayer* own, int64_t n, int why, const Mark* mark) noexcept nogil:
    """Inside a record, only that one is lost."""
    cdef Tls* t = <Tls*>own
    cdef int64_t left = <int64_t>t.skip
    cdef int64_t others
    cdef bint lost = lose_record(s, f, end, t, mark)
    if f.ignored:
        return True
    if t.skip and 0 <= n <= left:                       # of a record that is lost
        if not tell_gap(s, f, end, t, n, why, mark):
            return False
        t.skip -= <size_t>n
        return True
    if not t.skip and t.size >= RECORD_HEAD and not t.searching:
        left = <int64_t>record_size(t.record) - <int64_t>t.size
        if 0 <= n <= left:
            if not tell_gap(s, f, end, t, n, why, mark):
                return False
            s.seen.carrier_octets += <int64_t>t.size
            t.skip = <size_t>(left - n)
            t.size = 0
            t.sequence += lost
            return True
    if not tell_gap(s, f, end, t, n, why, mark):
        return False
    if not f.ignored:
        others = min(max(n, <int64_t>0) // RECORD_LEAST + 2, <int64_t>SEQUENCES_MOST)
        if t.searching:
            t.sequence_last = min(t.sequence_last + <uint64_t>others, t.sequence + SEQUENCES_MOST)
        else:
            t.sequence_last = t.sequence + <uint64_t>others
        pass_kept(s, f, end, t)
        begin_record_search(s, t)
    return True


cdef bint lose_record(FrameStreams s, Flow* f, int end, Tls* t, const Mark* mark) noexcept with gil:
    """Octets of this direction are missing. True: its records are encrypted. The flow may be dismissed."""
    try:
        if not t.searching:
            (<object>t.connection).lost(0 if end == f.client else 1)
        return t.keys != NULL
    except Exception as error:
        give_up_tls(s, f, end, reason_of(error), mark)
    return False


cdef void begin_record_search(FrameStreams s, Tls* t) noexcept nogil:
    if not t.searching:
        t.credit = TRIAL_FIRST
    t.searching = True
    t.skip = 0


cdef void pass_kept(FrameStreams s, Flow* f, int end, Tls* t) noexcept nogil:
    """No record begins in what is kept."""
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    if side.searching:
        side.skipped += <int64_t>(t.size + t.kept_size)
    else:
        s.seen.carrier_octets += <int64_t>(t.size + t.kept_size)
    drop_octets(s, t)


cdef bint break_record(FrameStreams s, Flow* f, int end, Tls* t, const Mark* mark) except -1:
    """What is kept is not a record, or does not open: others are searched for after its first octet. False: the batch is full;
    call again."""
    if not tell_gap(s, f, end, t, 0, WHY_NO_FRAME, mark):
        return f.ignored
    if not f.ignored:
        keep_piece(s, t, t.record, t.size, mark)
        t.size = 0
        free_record(s, t)
        t.sequence_last = t.sequence + SEQUENCES_BROKEN
        begin_record_search(s, t)
        search_record(s, f, end, t, 0 if end == f.client else 1, mark)
    return True


cdef search_record(FrameStreams s, Flow* f, int end, Tls* t, int side, const Mark* mark):
    """Search what is kept for a record that opens, and read from there."""
    cdef list pieces = <list><object>t.kept
    cdef bytes window = pieces[0][0] if len(pieces) == 1 else b"".join([piece[0] for piece in pieces])
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(window)
    cdef size_t n = <size_t>PyBytes_GET_SIZE(window)
    cdef size_t at = t.tried, size
    cdef uint64_t sequence, last, least
    connection = <object>t.connection
    t.credit += <int64_t>PyBytes_GET_SIZE(<bytes>pieces[len(pieces) - 1][0]) * TRIAL_CREDIT
    candidates = None
    while at + RECORD_HEAD <= n:
        size = record_size(p + at)
        if not is_record(p + at) or size < RECORD_LEAST or t.credit < 0:
            at += 1
            continue
        if size > n - at:
            break
        if candidates is None:
            candidates = connection.candidates(side)
        least = t.sequence
        last = t.sequence_last
        for keys in candidates:
            if <PyObject*>keys != t.keys:
                least = 0
                last = t.sequence_last - t.sequence
            sequence = opens_as(t, keys, least, last, p + at, size)
            if sequence <= last:
                connection.adopt(side, keys)
                if <PyObject*>keys != t.keys:
                    set_keys(t, keys)
                    t.fresh = 1
                t.sequence = sequence
                t.searching = False
                pass_some(s, f, end, at)
                read_kept(s, f, end, t, at)
                return
        at += 1
    t.tried = at
    if at:
        drop_tried(s, f, end, t, at)


cdef void pass_some(FrameStreams s, Flow* f, int end, size_t n) noexcept nogil:
    cdef Side* side = &(<FlowState*>f.state).sides[end]
    if side.searching:
        side.skipped += <int64_t>n
    else:
        s.seen.carrier_octets += <int64_t>n


cdef drop_tried(FrameStreams s, Flow* f, int end, Tls* t, size_t n):
    """Pieces without a record are not kept."""
    cdef list pieces = <list><object>t.kept
    cdef size_t gone = 0, size
    cdef int count = 0
    for octets, _ in pieces:
        size = <size_t>len(octets)
        if gone + size > n:
            break
        gone += size
        count += 1
    del pieces[:count]
    t.kept_size -= gone
    t.tried = n - gone
    s.memory.buffered -= <int64_t>gone
    pass_some(s, f, end, gone)


cdef uint64_t opens_as(Tls* t, object keys, uint64_t first, uint64_t last, const uint8_t* p, size_t size):
    """The sequence number with which a record opens; more than `last`: none."""
    cdef Tls trial
    cdef uint64_t sequence = first
    cdef bint found = False
    memset(&trial, 0, sizeof(Tls))
    set_keys(&trial, keys)
    while sequence <= last and t.credit >= 0:
        t.credit -= <int64_t>size + TRIAL_OCTETS
        try:
            open_content(&trial, sequence, p, p + RECORD_HEAD, size - RECORD_HEAD)
            found = True
            break
        except Exception:
            sequence += 1
    Py_XDECREF(trial.keys)
    Py_XDECREF(trial.open_record)
    return sequence if found else last + 1
