# The search for a frame boundary, after a gap and if the capture began inside a stream. It examines a window of octets and
# their packets, and asks protocols what a frame is. It knows no flow and puts no row: streams.pxi has the window.
#
# A boundary is accepted if a chain of valid frames leads from it to the end of a packet that ended a write: two frames, or one
# that begins with a packet; or if at least CHAIN of them cover CHAIN_SPAN octets. A chain inside a payload breaks where the
# payload ends.

cdef enum:
    CHAIN = 3                   # consecutive valid frames that make a boundary certain,
    CHAIN_SPAN = 1 << 16        # if they cover more octets than a message can imitate
    FULL_SEGMENT = 536          # octets: RFC 9293 3.7.1, the segment size that every host accepts; a smaller segment ends a write
    SEARCH_WINDOW = 1 << 18     # octets that are searched for a boundary
    SEARCH_ORIGINS = 8192       # packets that they may come from
    SEARCH_CREDIT = 64          # octets examined per octet that arrives, at most: the search is linear
    CHAIN_STEPS = 16            # frames of a chain that are always examined
    SEARCH_STEP = 1 << 16       # octets skipped before the window is moved
    UNPACK_COST = 1024          # of the credit: what it costs to begin decompressing a message


cdef struct Origin:             # the packet of octets of a search window
    size_t at                   # index of its first octet
    bint ends_write             # it ends a write, so messages may end where it ends
    Mark mark


cdef struct Candidate:          # progress of the search for frames of one of several protocols
    size_t at, reach, wait
    int frames


cdef struct Search:             # a new one is all zero
    size_t at                   # window[:at] holds no boundary
    size_t reach                # `frames` valid frames are at window[at:reach]
    int frames
    size_t wait                 # search again when the window has this many octets
    size_t largest              # octets of the largest packet of this direction in a search
    int64_t credit
    Candidate* candidates       # by row of `protocols`, while the protocol is not known; else NULL
    Origin* origins
    int origin_count, origin_capacity


cdef struct Sought:             # what is searched for: frames of a protocol, in one direction of a connection
    const Protocol* protocol
    void* state                 # NULL: the connection is unknown
    int direction
    # not NULL: the window has octets of a carrier, and this asks for one of its units that has only whole, valid frames in it. A
    # Verdict, as Protocol.probe. `counts`: it has frames
    int (*carried)(const Sought* sought, const uint8_t* p, size_t n, size_t* size, bint* counts) noexcept nogil
    uint8_t* scratch            # of `carried`: SEARCH_WINDOW octets
    bint deflate                # of `carried`: messages may be compressed, and decompressing them costs so much of
    int64_t* credit             # Search.credit


cdef inline int64_t candidates_octets() noexcept nogil:
    """Memory of the candidates of a search."""
    return PROTOCOLS * <int64_t>sizeof(Candidate) + BLOCK_OCTETS


cdef inline int64_t origins_octets(const Search* s) noexcept nogil:
    """Memory of its origins."""
    return s.origin_capacity * <int64_t>sizeof(Origin)


cdef inline void restart_search(Search* s) noexcept nogil:
    """Begin again at the first octet of the window. The candidates remain."""
    s.at = s.reach = s.wait = 0
    s.frames = 0


cdef bint add_origin(Search* s, size_t at, size_t n, const Mark* mark) noexcept nogil:
    """window[at : at + n] came with this packet. False: out of memory."""
    cdef Origin* grown
    cdef Origin* origin
    if s.origin_count == s.origin_capacity:
        grown = <Origin*>realloc(s.origins, (2 * s.origin_capacity + 16) * sizeof(Origin))
        if grown == NULL:
            return False
        s.origins = grown
        s.origin_capacity = 2 * s.origin_capacity + 16
    origin = &s.origins[s.origin_count]
    origin.at = at
    origin.mark = mark[0]
    origin.ends_write = mark.push or n < FULL_SEGMENT or n < s.largest
    s.largest = max(s.largest, n)
    s.origin_count += 1
    return True


cdef inline bint extend_search(Search* s, size_t n, size_t size) noexcept nogil:
    """`n` more octets are in the window, `size` in all. True: search for a boundary now."""
    s.credit = min(s.credit + <int64_t>n * SEARCH_CREDIT, <int64_t>SEARCH_WINDOW * SEARCH_CREDIT)
    return size >= s.wait or size - s.at >= SEARCH_WINDOW or s.origin_count >= SEARCH_ORIGINS


cdef inline size_t searched_octets(const Search* s, size_t size) noexcept nogil:
    """After a search without result: how many octets may be removed from the window."""
    return s.at if s.at >= SEARCH_STEP or s.at == size or s.origin_count >= SEARCH_ORIGINS else 0


cdef void shift_search(Search* s, size_t n) noexcept nogil:
    """`n` octets were removed from the front of the window."""
    cdef int i
    cdef int first = 0
    while first + 1 < s.origin_count and s.origins[first + 1].at <= n:
        first += 1
    for i in range(first, s.origin_count):
        s.origins[i - first] = s.origins[i]
        s.origins[i - first].at -= min(n, s.origins[i].at)
    s.origin_count -= first
    s.at -= min(n, s.at)
    s.wait -= min(n, s.wait)
    s.reach -= min(n, s.reach)
    if s.candidates != NULL:
        for i in range(PROTOCOLS):
            s.candidates[i].at -= min(n, s.candidates[i].at)
            s.candidates[i].wait -= min(n, s.candidates[i].wait)
            s.candidates[i].reach -= min(n, s.candidates[i].reach)


cdef inline void empty_search(Search* s) noexcept nogil:
    """The window is empty; there was no boundary in it."""
    s.origin_count = 0
    restart_search(s)
    if s.candidates != NULL:
        memset(s.candidates, 0, PROTOCOLS * sizeof(Candidate))


cdef bint find_boundary(Search* s, const uint8_t* window, size_t size, const Sought* sought, bint final) noexcept nogil:
    """Skip octets of the window until a chain of frames begins. True: one begins at window[s.at]. `final`: nothing follows the
    window."""
    cdef int origin = 0
    cdef int verdict
    cdef bint full
    while s.at < size:
        while origin < s.origin_count and s.origins[origin].at < s.at:
            origin += 1
        verdict = follow_chain(s, window, size, sought, origin < s.origin_count and s.origins[origin].at == s.at, final)
        if verdict == YES:
            return True
        full = size - s.at >= SEARCH_WINDOW or s.origin_count >= SEARCH_ORIGINS or s.credit < 0
        if verdict == MORE and not full:
            return False
        s.at += 1
        s.frames = 0
        s.reach = s.at
    return False


cdef int find_any_boundary(Search* s, const uint8_t* window, size_t size, uint32_t rows, int direction,
                           bint final) noexcept nogil:
    """As find_boundary, for octets of any of these protocols. Returns row + 1 of the protocol whose boundary comes first, the
    first row if there are several; 0: none yet."""
    cdef Candidate* candidate
    cdef Sought sought
    cdef size_t first = size
    cdef size_t at = size
    cdef size_t wait = size + SEARCH_WINDOW
    cdef int found = 0
    cdef int i
    sought.state = NULL
    sought.direction = direction
    sought.carried = NULL
    for i in range(PROTOCOLS):
        if not rows >> i & 1:
            continue
        candidate = &s.candidates[i]
        s.at, s.reach, s.wait, s.frames = candidate.at, candidate.reach, candidate.wait, candidate.frames
        sought.protocol = &protocols[i]
        if find_boundary(s, window, size, &sought, final) and (found == 0 or s.at < first):
            found = i + 1
            first = s.at
        candidate.at, candidate.reach, candidate.wait, candidate.frames = s.at, s.reach, s.wait, s.frames
        at = min(at, candidate.at)
        wait = min(wait, candidate.wait)
    s.at = first if found else at
    s.wait = wait
    return found


cdef int follow_chain(Search* s, const uint8_t* window, size_t size, const Sought* sought, bint packet_start,
                      bint final) noexcept nogil:
    """Do valid frames begin at window[s.at]? A Verdict. `packet_start`: a packet begins there. `final`: nothing follows, and
    CHAIN of them from a packet's first octet must do.

    In a WebSocket without a known frame boundary the same applies to its messages, each of which must contain only
    whole, valid frames: a WebSocket inside a payload ends where the payload ends. Control frames are not evidence.
    """
    cdef bint counts = True
    cdef size_t step = 0
    cdef int enough = 1 if packet_start else 2
    cdef int verdict, steps = 0
    if s.reach < s.at:
        s.reach = s.at
        s.frames = 0
    while True:
        if s.frames >= enough and ends_write(s, s.reach, size):
            return YES
        if s.frames >= CHAIN and s.reach - s.at >= CHAIN_SPAN:
            return YES
        if s.credit < 0 and steps == CHAIN_STEPS:
            return NO                                   # the octets allow no further examination
        steps += 1
        if s.reach == size:
            s.wait = size + 1
            verdict = MORE
        else:
            if sought.carried != NULL:
                verdict = sought.carried(sought, window + s.reach, size - s.reach, &step, &counts)
            else:
                verdict = sought.protocol.probe(sought.state, sought.direction, window + s.reach, size - s.reach, &step)
            s.credit -= 16 + <int64_t>min(step, size - s.reach)
            s.wait = s.reach + step
        if verdict == MORE and step <= SEARCH_WINDOW:
            if final:
                return YES if packet_start and s.frames >= CHAIN else NO
            return MORE
        if verdict != YES:
            return NO
        s.reach += step
        s.frames += counts


cdef int socket_message(const Sought* sought, const uint8_t* p, size_t n, size_t* size, bint* counts) noexcept nogil:
    """`Sought.carried`: does a WebSocket message begin here that contains only valid frames of the protocol, or a control frame?
    A client masks its payload."""
    cdef size_t got = 0
    cdef size_t at = 0
    cdef size_t step = 0
    cdef int verdict = YES
    cdef int part = ws_part(p, n, sought.direction == 0, sought.deflate, sought.scratch, SEARCH_WINDOW, size, &got)
    counts[0] = part == WS_MESSAGE
    if part == WS_NONE or (part == WS_MESSAGE and got == 0):
        return NO
    if p[0] & 0x40 and part != WS_CONTROL:
        return packed_message(sought, got) if part == WS_MESSAGE else MORE
    while at < got and verdict == YES:
        verdict = sought.protocol.probe(sought.state, sought.direction, sought.scratch + at, got - at, &step)
        if verdict == YES:
            at += step
    if part == WS_SHORT:
        return NO if verdict == NO else MORE
    return YES if verdict == YES else NO


cdef int packed_message(const Sought* sought, size_t n) noexcept with gil:
    """As socket_message, of a compressed message whose payload is in `scratch`. It must not refer to earlier ones. YES or NO."""
    cdef Unpacker u
    cdef bytes octets
    cdef list pieces = []
    cdef const uint8_t* p
    cdef size_t at = 0
    cdef size_t size = 0
    cdef size_t step = 0
    sought.credit[0] -= UNPACK_COST
    try:
        u = Unpacker(CARRIER_DEFLATE, True)
        u.feed(sought.scratch, n, True)
        while size <= SEARCH_WINDOW and u.next():
            pieces.append(u.piece)
            size += <size_t>len(u.piece)
            u.used = <size_t>len(u.piece)
        octets = b"".join(pieces)
    except BaseException:                               # not a compressed message, or no memory
        return NO
    sought.credit[0] -= <int64_t>size // SEARCH_CREDIT
    if size > SEARCH_WINDOW:
        return NO
    p = <const uint8_t*>PyBytes_AS_STRING(octets)
    while at < size:
        if sought.protocol.probe(sought.state, sought.direction, p + at, size - at, &step) != YES:
            return NO
        at += step
    return YES if at else NO


cdef bint ends_write(const Search* s, size_t at, size_t size) noexcept nogil:
    """Does a packet that ended a write end at window[at - 1]?"""
    cdef int low = 0
    cdef int high = s.origin_count
    cdef int middle
    while low < high:                                   # the first origin at or after `at`
        middle = (low + high) // 2
        if s.origins[middle].at < at:
            low = middle + 1
        else:
            high = middle
    if low < s.origin_count and s.origins[low].at != at:
        return False
    return low > 0 and (low < s.origin_count or at == size) and s.origins[low - 1].ends_write


cdef class BoundarySearch:
    """Packets of one direction in, frame boundaries out: the search alone, for tests.

    protocols: names; of several, the one whose frame begins first is found. direction: 0 client to server. websocket: search
    for messages of a WebSocket that hold frames of the first protocol.
    """

    cdef Search search
    cdef bytes window
    cdef uint32_t rows
    cdef Sought sought
    cdef readonly int64_t skipped       # octets removed from the window

    def __init__(self, *names, int direction=0, bint websocket=False):
        cdef int number = 0
        cdef uint32_t rows = 0
        known = [row.name for row in PROTOCOL_ROWS]
        for name in names:
            number = known.index(name)
            rows |= <uint32_t>1 << number
        self.window = b""
        self.skipped = 0
        self.rows = rows
        self.sought.protocol = &protocols[number]
        self.sought.direction = direction
        if websocket:
            self.sought.carried = socket_message
            self.sought.scratch = <uint8_t*>malloc(SEARCH_WINDOW)
            if self.sought.scratch == NULL:
                raise MemoryError
        if len(names) > 1:
            self.search.candidates = <Candidate*>calloc(PROTOCOLS, sizeof(Candidate))
            if self.search.candidates == NULL:
                raise MemoryError

    def __dealloc__(self):
        self.free_search()

    cdef void free_search(self) noexcept:
        free(self.search.candidates)
        free(self.search.origins)
        free(self.sought.scratch)
        self.search.candidates = NULL
        self.search.origins = NULL
        self.sought.scratch = NULL

    def packet(self, bytes payload, *, bint push=False):
        """Take the payload of the next packet. Returns (offset of the boundary, name of the protocol), or None if none was found
        yet."""
        cdef Mark mark
        memset(&mark, 0, sizeof(Mark))
        mark.push = push
        if not add_origin(&self.search, <size_t>len(self.window), <size_t>len(payload), &mark):
            raise MemoryError
        self.window += payload
        if extend_search(&self.search, <size_t>len(payload), <size_t>len(self.window)):
            return self.look(False)
        return None

    def end(self):
        """As `packet`, but no more octets follow."""
        return self.look(True)

    @property
    def size(self):
        """Bytes in the window."""
        return len(self.window)

    cdef look(self, bint final):
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(self.window)
        cdef size_t n = <size_t>len(self.window)
        cdef int found
        if self.search.candidates != NULL:
            found = find_any_boundary(&self.search, p, n, self.rows, self.sought.direction, final)
        else:
            found = first_row(self.rows) if find_boundary(&self.search, p, n, &self.sought, final) else 0
        if found:
            return self.skipped + <int64_t>self.search.at, PROTOCOL_ROWS[found - 1].name
        n = searched_octets(&self.search, n)
        shift_search(&self.search, n)
        self.window = self.window[n:]
        self.skipped += <int64_t>n
        if not self.window:
            empty_search(&self.search)
        return None
