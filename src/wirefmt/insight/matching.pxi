# Open operations: what a message opens waits for what settles it.
from wirefmt._core cimport HASH_KEY

cdef void message_came(Conn* c, Gate* g, int64_t now, int64_t late_ns, int number, const Span* destination,
                       int text=Y_WAITED_FOR) noexcept nogil:
    """A message. It waited if it comes just after the gate has opened. number: N_WINDOW_FULL, N_NO_CREDIT ... text: of its
    destination.

    late_ns: for so long after the gate has closed deliveries may be on their way."""
    if g.closed_ns:
        if now - g.closed_ns >= late_ns:
            g.closed_ns = 0                             # it was not closed
    elif g.opened_ns:
        if now - g.opened_ns <= AT_ONCE_NS and g.opened_ns - g.began_ns > c.numbers[number]:
            c.numbers[number] = g.opened_ns - g.began_ns
            c.numbers[number + 1] = g.began_ns
            keep_span(&c.texts[text], destination)
        g.opened_ns = 0


cdef void end_connection(Conn* c, const Row* r, int direction, bint failed, const Span* kind, const Span* text,
                         int64_t code, bint has_code) noexcept nogil:
    """The protocol says that the connection ends. The first that says it counts."""
    if c.ended_by >= 0:
        return
    c.ended_by = <int8_t>direction
    c.failed = failed
    c.code = code
    c.has_code = has_code
    c.numbers[N_ENDED] = number_of(r, T_TS_NS, -1)
    c.numbers[N_ENDED_FRAME] = number_of(r, T_FRAME_NO, -1)
    keep_span(&c.texts[Y_END_KIND], kind)
    keep_span(&c.texts[Y_END_TEXT], text)


@cython.no_gc_clear
cdef class OpenOperations:
    """What is known of the connections, and the operations that are open."""
    cdef Pool pool                                      # of open operations
    cdef Entries conns, spaces, ops, known
    cdef UnfinishedList unfinished                      # what later connections of the client may go on with
    cdef Resumed* first_resumed                         # operations that wait until all connections are known
    cdef Resumed* last_resumed
    cdef int64_t resumed_count
    cdef Conn* first_conn                               # in the order of their first messages
    cdef Conn* last_conn
    cdef Conn* largest                                  # has the most memory of open operations, or had it not long ago
    cdef Op* oldest                                     # of all connections
    cdef Op* newest
    cdef int64_t open_count, max_operations, evicted
    cdef int64_t octets, max_octets                     # memory of everything that is kept
    cdef int64_t no_memory
    cdef ColumnSet operations, connections
    cdef int64_t operation_rows, connection_rows
    cdef Conn* current                                  # of the last row
    cdef bint busy
    cdef bint operations_wanted
    cdef bint findings_wanted                           # rows of operations that no rule may count are not needed
    cdef int64_t large                                  # a payload of so many octets is a finding
    cdef size_t seen_max
    cdef Seen seen, seen_before                         # deliveries with an id that were acknowledged: the recent ones, others
    cdef Noted noted, again                             # rows that a rule may count; of these, deliveries that were seen
    cdef PathTable paths
    cdef ColumnSet path_columns

    def __cinit__(self, *args, **keywords):
        if not (open_entries(&self.conns) and open_entries(&self.spaces) and open_entries(&self.ops)
                and open_entries(&self.known)):
            raise MemoryError

    def __dealloc__(self):
        self.operations_wanted = self.findings_wanted = False
        while self.first_conn != NULL:
            self.drop(self.first_conn)
        close_paths(&self.paths)
        close_pool(&self.pool)
        free(self.conns.slots)
        free(self.spaces.slots)
        free(self.ops.slots)
        free(self.known.slots)
        while self.first_resumed != NULL:
            self.last_resumed = self.first_resumed.following
            free(self.first_resumed)
            self.first_resumed = self.last_resumed
        free(self.unfinished.at)
        free(self.seen.slots)
        free(self.seen_before.slots)
        free(self.noted.at)
        free(self.again.at)

    # ---- what is known by a key

    cdef Conn* conn_of(self, int64_t flow_id, bint make) noexcept nogil:
        cdef uint64_t hash = avalanche(<uint64_t>flow_id ^ HASH_KEY[0])
        cdef Conn* c = <Conn*>first_entry(&self.conns, hash)
        cdef int i
        while c != NULL:
            if c.flow_id == flow_id:
                return c
            c = <Conn*>c.entry.chain
        if not make:
            return NULL
        c = <Conn*>calloc(1, sizeof(Conn))
        if c == NULL:
            self.no_memory += 1
            return NULL
        self.octets += <int64_t>sizeof(Conn) + BLOCK_OCTETS
        c.entry.hash = hash
        c.flow_id = flow_id
        c.session_present = c.ended_by = <int8_t>-1
        c.largest = [-1, -1]
        c.received_ns = [-1, -1]
        for i in range(N_COUNTERS, N_COUNT):
            c.numbers[i] = -1
        c.numbers[N_UNCONFIRMED] = c.numbers[N_UNSETTLED] = c.numbers[N_MALFORMED] = c.numbers[N_VIOLATIONS] = 0
        c.numbers[N_MISUSES] = 0
        c.before = self.last_conn
        if self.last_conn != NULL:
            self.last_conn.after = c
        else:
            self.first_conn = c
        self.last_conn = c
        add_entry(&self.conns, &c.entry)
        return c

    cdef inline bint may_name(self, const Conn* c) noexcept nogil:
        """May one more Known or Space of this connection be kept?"""
        return c.names < NAMES_MAX and self.octets < self.max_octets

    cdef Space* space_of(self, Conn* c, int what, int direction, int32_t channel, bint make) noexcept nogil:
        """NULL: not found, out of memory, or a limit forbids one more."""
        cdef Space* s = c.recent
        cdef uint64_t hash
        if s != NULL and s.what == what and s.direction == direction and s.channel == channel:
            return s
        hash = avalanche(c.entry.hash ^ <uint64_t>(what << 1 | direction) << 32 ^ <uint32_t>channel)
        s = <Space*>first_entry(&self.spaces, hash)
        while s != NULL:
            if s.conn == c and s.what == what and s.direction == direction and s.channel == channel:
                c.recent = s
                return s
            s = <Space*>s.entry.chain
        if not make or not self.may_name(c):
            return NULL
        s = <Space*>calloc(1, sizeof(Space))
        if s == NULL:
            self.no_memory += 1
            return NULL
        self.octets += <int64_t>sizeof(Space) + BLOCK_OCTETS
        c.names += 1
        s.entry.hash = hash
        s.conn = c
        s.what = <uint8_t>what
        s.direction = <int8_t>direction
        s.channel = channel
        s.following = c.spaces
        c.spaces = c.recent = s
        add_entry(&self.spaces, &s.entry)
        return s

    cdef Known* known_of(self, Conn* c, int what, int direction, int32_t channel, uint64_t key, bint make) noexcept nogil:
        cdef uint64_t hash = avalanche(c.entry.hash ^ <uint64_t>(what << 1 | direction) << 32 ^ <uint32_t>channel
                                       ^ avalanche(key))
        cdef Known* k = <Known*>first_entry(&self.known, hash)
        while k != NULL:
            if k.conn == c and k.what == what and k.direction == direction and k.channel == channel and k.key == key:
                return k
            k = <Known*>k.entry.chain
        if not make or not self.may_name(c):
            return NULL
        k = <Known*>calloc(1, sizeof(Known))
        if k == NULL:
            self.no_memory += 1
            return NULL
        self.octets += <int64_t>sizeof(Known) + BLOCK_OCTETS
        c.names += 1
        k.entry.hash = hash
        k.conn = c
        k.what = <uint8_t>what
        k.direction = <int8_t>direction
        k.channel = channel
        k.key = key
        k.following = c.known
        c.known = k
        add_entry(&self.known, &k.entry)
        return k

    # ---- operations

    cdef void emit(self, const Op* o, int outcome, int64_t completed_ns, int64_t response_frame) noexcept nogil:
        """The row of an operation that has its outcome."""
        cdef Conn* c = o.conn
        if outcome == E_ACKNOWLEDGED:
            if o.kind == O_PUBLISH:
                c.numbers[N_CONFIRMED] += 1
            elif o.kind == O_DELIVER:
                c.numbers[N_ACKNOWLEDGED] += 1
        elif outcome == E_LOST or outcome == E_UNANSWERED or outcome == E_TIMED_OUT:
            if o.kind == O_PUBLISH:
                c.numbers[N_UNCONFIRMED] += 1
            elif o.kind == O_DELIVER:
                c.numbers[N_UNSETTLED] += 1
        if self.paths.wanted and o.space == NULL and outcome != E_CANCELLED:
            add_side(&self.paths, o)
        if self.findings_wanted and (o.kind == O_PUBLISH or o.kind == O_DELIVER):
            self.count_message(o, outcome, completed_ns)
        if not self.operations_wanted and not self.findings_wanted:
            return
        if o.protocol != P_MQTT or not self.wait_for_sessions(o, outcome, completed_ns, response_frame):
            self.put_row(o, outcome, completed_ns, response_frame)

    cdef void count_message(self, const Op* o, int outcome, int64_t completed_ns) noexcept nogil:
        """A publish or delivery, for findings about its connection."""
        cdef Conn* c = o.conn
        cdef int which = o.kind == O_DELIVER
        cdef int64_t taken
        c.largest[which] = max(c.largest[which], o.payload_size)
        if o.received_ns >= 0:
            c.received_ns[which] = max(c.received_ns[which], o.started_ns)
        if outcome == E_ACKNOWLEDGED and o.frame >= 0 and completed_ns > o.started_ns:
            taken = add_answer(&c.answers[which], <uint64_t>(completed_ns - o.started_ns))
            if taken < 0:
                self.no_memory += 1
            else:
                self.octets += taken

    cdef void put_row(self, const Op* o, int outcome, int64_t completed_ns, int64_t response_frame) noexcept nogil:
        """The row of an operation; for findings alone only those that a rule may count."""
        cdef bint again
        if self.findings_wanted:
            again = (outcome == E_ACKNOWLEDGED and o.kind == O_DELIVER and o.texts[Z_MESSAGE_ID].at != NULL
                     and o.protocol != P_ROCKETMQ and self.was_seen(o))
            if again or may_be_counted(o, outcome, self.large):
                if (again and not note(&self.again, self.noted.count)) or not note(&self.noted, self.operation_rows):
                    self.no_memory += 1
            elif not self.operations_wanted:
                return
        put_operation(self.operations.cols, self.operation_rows, o, outcome, completed_ns, response_frame)
        self.operation_rows += 1

    cdef bint was_seen(self, const Op* o) noexcept nogil:
        """Has the same consumer acknowledged a delivery with this message id before? RocketMQ's groups acknowledge offsets, also
        of messages that they give back."""
        cdef uint64_t hash = hash_span(<uint64_t>o.flow_id ^ HASH_KEY[0], &o.texts[Z_MESSAGE_ID])
        hash = avalanche(hash_span(hash ^ (o.hash if o.has_hash else 0), &o.texts[Z_LINK])) | 1
        if is_seen(&self.seen, hash) or is_seen(&self.seen_before, hash):
            return True
        if not add_seen(&self.seen, hash):
            self.no_memory += 1
        elif self.seen.count > self.seen_max:
            forget_seen(&self.seen_before)
            self.seen_before = self.seen
            memset(&self.seen, 0, sizeof(Seen))
        return False

    cdef void emit_alone(self, const Op* o) noexcept nogil:
        """The row of an operation that needs no answer."""
        self.emit(o, E_NONE, -1, -1)

    cdef Op* open_op(self, const Op* of, int what, int32_t channel, uint64_t key) noexcept nogil:
        """Keep an operation until it is settled: a copy. If there are too many, the oldest of the connection that has the most
        end, which may be any that the caller has found. NULL: a limit or no memory; its row says that it was not answered."""
        cdef Space* s = self.space_of(of.conn, what, of.direction, channel, True)
        cdef size_t size = sizeof(Op) + text_octets(of)
        cdef Op* o = <Op*>take_memory(&self.pool, size) if s != NULL else NULL
        cdef Op* last
        cdef Conn* c = of.conn
        if o == NULL:
            self.evicted += 1
            self.emit(of, E_UNANSWERED, -1, -1)
            return NULL
        copy_op(o, of, <uint8_t*>o + sizeof(Op))
        o.size = <int64_t>size + BLOCK_OCTETS
        self.octets += o.size
        o.key = key
        self.put_in(o, s)
        if what == S_DELIVER:
            most(s.conn, N_MOST_UNSETTLED, s.count)
            if s.window:
                message_came(s.conn, &s.gate, o.started_ns, 0, N_WINDOW_FULL, &of.texts[Z_DESTINATION])
                if s.count == s.window:
                    close_gate(&s.gate, o.started_ns)
        o.newer = NULL
        o.older = c.newest
        if c.newest != NULL:
            c.newest.newer = o
        else:
            c.oldest = o
        c.newest = o
        c.octets += o.size
        o.newer_of_all = NULL
        o.older_of_all = self.newest
        if self.newest != NULL:
            self.newest.newer_of_all = o
        else:
            self.oldest = o
        self.newest = o
        if self.largest == NULL or c.octets > self.largest.octets:
            self.largest = c
        self.open_count += 1
        if self.paths.wanted:
            add_side(&self.paths, o)
        while self.open_count > self.max_operations or self.octets > self.max_octets:
            last = self.largest.oldest if self.largest != NULL else NULL
            if last == NULL or last == o:               # many connections have a few
                last = self.oldest
            if last == o:
                break
            self.evicted += 1
            self.complete(last, E_UNANSWERED, NULL)
        return o

    cdef void put_in(self, Op* o, Space* s) noexcept nogil:
        o.space = s
        o.after = NULL
        o.before = s.last
        s.unordered = s.last != NULL and (s.unordered or s.last.key > o.key)
        if s.last != NULL:
            s.last.after = o
        else:
            s.first = o
        s.last = o
        s.count += 1
        o.entry.hash = avalanche(s.entry.hash ^ avalanche(o.key))
        add_entry(&self.ops, &o.entry)

    cdef void take_out(self, Op* o) noexcept nogil:
        cdef Space* s = o.space
        s.count -= 1
        if s.returned == o:
            s.returned = o.after
        remove_entry(&self.ops, &o.entry)
        if o.before != NULL:
            o.before.after = o.after
        else:
            s.first = o.after
        if o.after != NULL:
            o.after.before = o.before
        else:
            s.last = o.before

    cdef void move(self, Op* o, int what) noexcept nogil:
        """To another space of the same direction and channel."""
        cdef Space* s = self.space_of(o.conn, what, o.space.direction, o.space.channel, True)
        if s != NULL:
            self.take_out(o)
            self.put_in(o, s)

    cdef Op* find_op(self, Conn* c, int what, int direction, int32_t channel, uint64_t key) noexcept nogil:
        cdef Space* s = self.space_of(c, what, direction, channel, False)
        cdef uint64_t hash
        cdef Op* o
        if s == NULL or s.first == NULL:
            return NULL
        hash = avalanche(s.entry.hash ^ avalanche(key))
        o = <Op*>first_entry(&self.ops, hash)
        while o != NULL:
            if o.space == s and o.key == key:
                return o
            o = <Op*>o.entry.chain
        return NULL

    cdef void complete(self, Op* o, int outcome, const Row* r) noexcept nogil:
        """Settle an operation by the message in this row; NULL: without an answer."""
        cdef Conn* c = o.conn
        if o.space.window and o.space.count == o.space.window and r != NULL:
            open_gate(&o.space.gate, number_of(r, T_TS_NS, 0))
        self.take_out(o)
        if o.older != NULL:
            o.older.newer = o.newer
        else:
            c.oldest = o.newer
        if o.newer != NULL:
            o.newer.older = o.older
        else:
            c.newest = o.older
        c.octets -= o.size
        if o.older_of_all != NULL:
            o.older_of_all.newer_of_all = o.newer_of_all
        else:
            self.oldest = o.newer_of_all
        if o.newer_of_all != NULL:
            o.newer_of_all.older_of_all = o.older_of_all
        else:
            self.newest = o.older_of_all
        self.open_count -= 1
        self.emit(o, outcome, number_of(r, T_TS_NS, -1) if r != NULL else -1, number_of(r, T_FRAME_NO, -1) if r != NULL else -1)
        self.octets -= o.size
        give_back(&self.pool, o, <size_t>o.size - BLOCK_OCTETS)

    cdef void answer(self, Op* o, int outcome, const Row* r, int64_t code, const Span* text) noexcept nogil:
        """Settle an operation with a code (ABSENT: none) and a text."""
        if code != ABSENT:
            o.code = <int32_t>code
        if text != NULL:
            o.texts[Z_TEXT] = text[0]
        self.complete(o, outcome, r)

    cdef void complete_all(self, Space* s, int outcome, const Row* r) noexcept nogil:
        if s != NULL:
            while s.first != NULL:
                self.complete(s.first, outcome, r)

    # ---- MQTT sessions (sessions.pxi has the structs)

    cdef bint wait_for_sessions(self, const Op* o, int outcome, int64_t completed_ns, int64_t response_frame) noexcept nogil:
        """An operation that a session may have brought from the connection before has its row at the end, when all connections
        are known. Returns True then. What ends without its answer is remembered for later connections of the client."""
        cdef Conn* c = o.conn
        cdef uint64_t hash
        cdef int64_t taken
        cdef bint is_lost = outcome == E_LOST or outcome == E_UNANSWERED
        cdef bint may_wait = c.session_present != 0 and (o.redelivered == 1 or o.frame < 0)
        if (o.kind != O_PUBLISH and o.kind != O_DELIVER) or o.sequence == ABSENT or outcome == E_NONE:
            return False
        if not is_lost and not may_wait:
            return False
        hash = session_hash(c, o.direction, o.sequence)
        if is_lost:
            taken = (add_unfinished(&self.unfinished, hash, c.flow_id, o.started_ns)
                     if self.unfinished.count < self.max_operations else -1)
            if taken < 0:
                self.evicted += 1
            else:
                self.octets += taken
        if not may_wait or self.resumed_count >= self.max_operations or self.octets > self.max_octets:
            return False
        if not add_resumed(&self.last_resumed, o, hash, outcome, completed_ns, response_frame):
            self.no_memory += 1
            return False
        self.octets += self.last_resumed.op.size
        self.resumed_count += 1
        if self.first_resumed == NULL:
            self.first_resumed = self.last_resumed
        return True

    cdef void put_resumed(self) noexcept nogil:
        """The rows of the operations that waited."""
        cdef Resumed* k = self.first_resumed
        cdef Resumed* following
        if self.unfinished.count:
            qsort(self.unfinished.at, <size_t>self.unfinished.count, sizeof(Unfinished), compare_unfinished)
        while k != NULL:
            following = k.following
            k.op.resumed_from = latest_before(&self.unfinished, k)
            self.put_row(&k.op, k.outcome, k.completed_ns, k.response_frame)
            free(k)
            k = following
        self.first_resumed = self.last_resumed = NULL
        self.resumed_count = 0

    # ---- the end of a connection

    cdef void end_ops(self, Conn* c, int outcome) noexcept nogil:
        cdef Space* s = c.spaces
        while s != NULL:
            while s.first != NULL:
                if s.what == S_MANDATORY:
                    self.complete(s.first, E_NONE, NULL)
                elif s.first.expires_ns and s.first.expires_ns < max(c.numbers[N_ENDED], c.numbers[N_SERVER_MESSAGE]):
                    self.complete(s.first, E_TIMED_OUT, NULL)
                else:
                    self.complete(s.first, outcome, NULL)
            s = s.following

    cdef void end(self, Conn* c, const Row* x) noexcept nogil:
        """The connection has ended. x: its row of the transport table, or NULL."""
        cdef Span how
        cdef int outcome = E_UNANSWERED
        if x != NULL:
            how = text_of(x, X_HOW)
            if not is_text(&how, b"open"):
                outcome = E_LOST
        elif c.ended_by >= 0:
            outcome = E_LOST
        self.end_ops(c, outcome)
        put_facts(self.connections.cols, self.connection_rows, c, x)
        self.connection_rows += 1
        self.drop(c)

    cdef void drop(self, Conn* c) noexcept nogil:
        cdef Space* s = c.spaces
        cdef Space* following
        cdef Known* k = c.known
        cdef Known* next_known
        cdef int i
        self.end_ops(c, E_UNANSWERED)
        while s != NULL:
            following = s.following
            remove_entry(&self.spaces, &s.entry)
            self.octets -= <int64_t>sizeof(Space) + BLOCK_OCTETS
            free(s)
            s = following
        while k != NULL:
            next_known = k.following
            remove_entry(&self.known, &k.entry)
            self.octets -= <int64_t>sizeof(Known) + BLOCK_OCTETS
            free(<void*>k.text.at)
            free(<void*>k.text2.at)
            free(k)
            k = next_known
        for i in range(Y_COUNT):
            free(<void*>c.texts[i].at)
        for i in range(2):
            self.octets -= c.answers[i].room * <int64_t>sizeof(Step)
            free(c.answers[i].steps)
        for i in range(G_COUNT):
            drop_name(&self.paths, c.shared[i])
        if c.unread != NULL:
            self.octets -= <int64_t>sizeof(Unread) + BLOCK_OCTETS
            free(c.unread)
        if c.before != NULL:
            c.before.after = c.after
        else:
            self.first_conn = c.after
        if c.after != NULL:
            c.after.before = c.before
        else:
            self.last_conn = c.before
        remove_entry(&self.conns, &c.entry)
        self.octets -= <int64_t>sizeof(Conn) + BLOCK_OCTETS
        if self.current == c:
            self.current = NULL
        if self.largest == c:
            self.largest = NULL
        free(c)
