# Open operations: what a message opens waits for what settles it.
from wirefmt.spec.insight import KINDS, OUTCOMES

cdef enum OperationKind:        # in the order of KINDS
    O_LOGIN = 0
    O_PUBLISH
    O_DELIVER
    O_SUBSCRIBE
    O_UNSUBSCRIBE
    O_CONSUME
    O_CANCEL
    O_GET
    O_OPEN
    O_CLOSE
    O_DECLARE
    O_BIND
    O_UNBIND
    O_DELETE
    O_PURGE
    O_REQUEST
    O_TRANSACTION
    O_HEARTBEAT
    O_BLOCKED
    O_FLOW
    O_COUNT

cdef enum Outcome:              # in the order of OUTCOMES
    E_NONE = 0
    E_ACKNOWLEDGED
    E_REJECTED
    E_REQUEUED
    E_RELEASED
    E_MODIFIED
    E_RETURNED
    E_REFUSED
    E_TIMED_OUT
    E_CANCELLED
    E_SUPERSEDED
    E_LOST
    E_UNANSWERED
    E_COUNT

if len(KINDS) != O_COUNT or len(OUTCOMES) != E_COUNT:
    raise SystemError("an enum and its names differ")

cdef list _BYTES = [name.encode() for name in (*KINDS, *OUTCOMES)]      # keeps the texts alive
cdef Span[O_COUNT] KIND_TEXT
cdef Span[E_COUNT] OUTCOME_TEXT


cdef int fill_names() except -1:
    cdef int i
    cdef bytes text
    for i, text in enumerate(_BYTES):
        if i < O_COUNT:
            KIND_TEXT[i].at = <const uint8_t*><const char*>text
            KIND_TEXT[i].size = <uint32_t>len(text)
        else:
            OUTCOME_TEXT[i - O_COUNT].at = <const uint8_t*><const char*>text
            OUTCOME_TEXT[i - O_COUNT].size = <uint32_t>len(text)
    return 0


fill_names()

cdef dict _O = {column.name: i for i, column in enumerate(OPERATIONS)}

cdef enum:                       # texts of an operation
    Z_CAPTURE = 0
    Z_CLIENT_ID
    Z_CLIENT_IP
    Z_LINK
    Z_DESTINATION
    Z_ROUTING_KEY
    Z_QUEUE
    Z_GROUP
    Z_OPERATION
    Z_MESSAGE_KIND
    Z_MESSAGE_ID
    Z_CORRELATION_ID
    Z_REPLY_TO
    Z_TRACEPARENT
    Z_TEXT                      # of the answer; not kept
    Z_COUNT

cdef int[Z_COUNT] OP_TEXT
OP_TEXT = [_O[name] for name in (
    "capture", "client_id", "client_ip", "link", "destination", "routing_key", "queue", "consumer_group", "operation",
    "message_kind", "message_id", "correlation_id", "reply_to", "traceparent", "text")]
cdef int OC_FLOW_ID = _O["flow_id"], OC_PROTOCOL = _O["protocol"], OC_CLIENT_PORT = _O["client_port"]
cdef int OC_DIRECTION = _O["direction"], OC_CHANNEL = _O["channel"], OC_SEQUENCE = _O["sequence"], OC_KIND = _O["kind"]
cdef int OC_PAYLOAD_SIZE = _O["payload_size"], OC_PAYLOAD_HASH = _O["payload_hash"], OC_REDELIVERED = _O["redelivered"]
cdef int OC_ATTEMPTS = _O["attempts"], OC_TRANSMISSIONS = _O["transmissions"], OC_STARTED = _O["started"]
cdef int OC_STARTED_NS = _O["started_ns"], OC_COMPLETED = _O["completed"], OC_DURATION = _O["duration_ns"]
cdef int OC_RECEIVED = _O["received"], OC_RELEASED = _O["released"], OC_REQUEST_FRAME = _O["request_frame"]
cdef int OC_RESPONSE_FRAME = _O["response_frame"], OC_OUTCOME = _O["outcome"], OC_CODE = _O["code"]

cdef enum:
    ABSENT = -0x7FFFFFFF - 1    # of a number that may be negative


cdef struct Op:                 # an operation
    Entry entry
    Op* before                  # of its space
    Op* after
    Op* older                   # of all that are open
    Op* newer
    Conn* conn
    Space* space                # NULL: it is not open
    uint64_t key
    Span[Z_COUNT] texts         # of an open one: after this struct
    int64_t size                # octets of memory
    uint8_t kind
    uint8_t pending             # the Outcome that it will have when it is final: E_NONE is none
    uint8_t no_ack              # GET: what it gets needs no acknowledgement
    int8_t direction
    int8_t redelivered          # -1: not said
    int16_t request             # the Kind of the message that opened it
    int32_t channel, client_port, code, attempts, transmissions
    int64_t sequence, payload_size, started_ns, received_ns, released_ns, frame, expires_ns, number
    uint64_t payload_hash
    bint has_hash


cdef void begin_op(Op* o, Conn* c, const Row* r, int kind, int request) noexcept nogil:
    """An operation that this message opens, with what all protocols say of it. Its texts lie in the batch."""
    cdef Span s
    memset(o, 0, sizeof(Op))
    o.conn = c
    o.kind = <uint8_t>kind
    o.request = <int16_t>request
    o.direction = <int8_t>number_of(r, T_DIRECTION, 0)
    o.channel = <int32_t>number_of(r, T_CHANNEL, ABSENT)
    o.client_port = <int32_t>number_of(r, T_DST_PORT if o.direction else T_SRC_PORT, ABSENT)
    o.code = ABSENT
    o.sequence = number_of(r, T_SEQUENCE, ABSENT)
    o.redelivered = <int8_t>-1
    if is_set(r.cols + T_REDELIVERED, r.at):
        o.redelivered = true_at(r.cols + T_REDELIVERED, r.at)
    o.attempts = <int32_t>number_of(r, T_ATTEMPTS, ABSENT)
    o.transmissions = 1
    o.payload_size = number_of(r, T_PAYLOAD_SIZE, -1)
    o.started_ns = number_of(r, T_TS_NS, 0)
    o.received_ns = o.released_ns = -1
    o.frame = number_of(r, T_FRAME_NO, -1)
    s = text_of(r, T_PAYLOAD)
    if s.at != NULL and s.size == o.payload_size:
        o.has_hash = True
        o.payload_hash = hash_span(0, &s)
    o.texts[Z_CAPTURE] = text_of(r, T_CAPTURE)
    o.texts[Z_CLIENT_ID] = c.texts[Y_CLIENT_ID]
    o.texts[Z_CLIENT_IP] = text_of(r, T_DST_IP if o.direction else T_SRC_IP)
    o.texts[Z_DESTINATION] = text_of(r, T_DESTINATION)
    o.texts[Z_ROUTING_KEY] = text_of(r, T_ROUTING_KEY)
    o.texts[Z_GROUP] = text_of(r, T_CONSUMER_GROUP)
    o.texts[Z_OPERATION] = text_of(r, T_OPERATION)
    o.texts[Z_MESSAGE_KIND] = text_of(r, T_KIND)
    o.texts[Z_MESSAGE_ID] = text_of(r, T_MESSAGE_ID)
    o.texts[Z_CORRELATION_ID] = text_of(r, T_CORRELATION_ID)
    o.texts[Z_REPLY_TO] = text_of(r, T_REPLY_TO)
    if o.payload_size >= 0:
        o.texts[Z_TRACEPARENT] = entry_of(r.cols + T_HEADERS, r.at, b"traceparent")


cdef void put_operation(Col* c, int64_t row, const Op* o, int outcome, int64_t completed_ns, int64_t response_frame) noexcept nogil:
    """completed_ns, response_frame: -1 if no answer was seen."""
    cdef const char* protocol = PROTOCOL_TEXT[o.conn.protocol]
    cdef int i
    put_i64(c + OC_FLOW_ID, row, o.conn.flow_id)
    put_octets(c + OC_PROTOCOL, row, <const uint8_t*>protocol, <int64_t>strlen(protocol))
    for i in range(Z_COUNT):
        put_span(c + OP_TEXT[i], row, &o.texts[i])
    put_i8(c + OC_DIRECTION, row, o.direction)
    if o.client_port != ABSENT:
        put_i32(c + OC_CLIENT_PORT, row, o.client_port)
    if o.channel != ABSENT:
        put_i32(c + OC_CHANNEL, row, o.channel)
    if o.sequence != ABSENT:
        put_i64(c + OC_SEQUENCE, row, o.sequence)
    put_span(c + OC_KIND, row, &KIND_TEXT[o.kind])
    if o.payload_size >= 0:
        put_i64(c + OC_PAYLOAD_SIZE, row, o.payload_size)
    if o.has_hash:
        put_i64(c + OC_PAYLOAD_HASH, row, <int64_t>o.payload_hash)
    if o.redelivered >= 0:
        put_bool(c + OC_REDELIVERED, row, o.redelivered)
    if o.attempts != ABSENT:
        put_i32(c + OC_ATTEMPTS, row, o.attempts)
    put_i32(c + OC_TRANSMISSIONS, row, o.transmissions)
    if o.frame >= 0:                                    # the request was captured
        put_i64(c + OC_REQUEST_FRAME, row, o.frame)
        put_us(c + OC_STARTED, row, o.started_ns)
        put_i64(c + OC_STARTED_NS, row, o.started_ns)
    if completed_ns >= 0:
        put_us(c + OC_COMPLETED, row, completed_ns)
        put_i64(c + OC_RESPONSE_FRAME, row, response_frame)
        if o.frame >= 0:
            put_i64(c + OC_DURATION, row, completed_ns - o.started_ns)
    if o.received_ns >= 0:
        put_us(c + OC_RECEIVED, row, o.received_ns)
    if o.released_ns >= 0:
        put_us(c + OC_RELEASED, row, o.released_ns)
    put_span(c + OC_OUTCOME, row, &OUTCOME_TEXT[outcome])
    if o.code != ABSENT:
        put_i32(c + OC_CODE, row, o.code)


cdef list _PROTOCOLS = [name.encode() for name in PROTOCOL_NAMES]
cdef const char* PROTOCOL_TEXT[7]
for _i in range(7):
    PROTOCOL_TEXT[<int>_i] = <const char*>_PROTOCOLS[_i]


@cython.final
@cython.no_gc_clear
cdef class Insight:
    """Makes operations and connections of the message table.

    Feed it every row of the message table, in the order of each connection, with all columns and payloads: `messages`. After the
    last row of a connection its row of the transport table: `transport`. At the end `finish`.

    max_operations: how many may be open at a time. The oldest ends as `unanswered` if there are more.
    paths: make them. path_seconds: the longest time between a publish and its delivery. max_paths: publishes and deliveries that
        are kept at a time.
    """
    cdef Entries conns, spaces, ops, known
    cdef Conn* first_conn                               # in the order of their first messages
    cdef Conn* last_conn
    cdef Op* oldest
    cdef Op* newest
    cdef int64_t open_count, max_operations, evicted
    cdef int64_t octets                                 # memory of everything that is kept
    cdef int64_t no_memory
    cdef ColumnSet operations, connections
    cdef int64_t operation_rows, connection_rows
    cdef Conn* current                                  # of the last row
    cdef bint busy
    cdef bint operations_wanted
    cdef PathTable paths
    cdef ColumnSet path_columns

    def __cinit__(self, *args, **keywords):
        if not (open_entries(&self.conns) and open_entries(&self.spaces) and open_entries(&self.ops)
                and open_entries(&self.known)):
            raise MemoryError

    def __init__(self, *, int64_t max_operations=1 << 20, bint operations=True, bint paths=False, int64_t path_seconds=3600,
                 int64_t max_paths=1 << 19):
        if max_operations < 1:
            raise ValueError(f"max_operations must be at least 1, not {max_operations}")
        self.max_operations = max_operations
        self.operations = ColumnSet(OPERATIONS)
        self.operations_wanted = operations
        self.connections = ColumnSet(CONNECTION_FACTS)
        if paths:
            self.path_columns = ColumnSet(PATHS)
            if not open_paths(&self.paths, self.path_columns.cols, 1000000000 * min(path_seconds, <int64_t>1 << 32), max_paths):
                raise MemoryError

    def __dealloc__(self):
        close_paths(&self.paths)
        self.operations_wanted = False
        while self.first_conn != NULL:
            self.drop(self.first_conn)
        free(self.conns.slots)
        free(self.spaces.slots)
        free(self.ops.slots)
        free(self.known.slots)

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
        for i in range(N_COUNTERS, N_COUNT):
            c.numbers[i] = -1
        c.numbers[N_UNCONFIRMED] = c.numbers[N_UNSETTLED] = c.numbers[N_MALFORMED] = 0
        c.before = self.last_conn
        if self.last_conn != NULL:
            self.last_conn.after = c
        else:
            self.first_conn = c
        self.last_conn = c
        add_entry(&self.conns, &c.entry)
        return c

    cdef Space* space_of(self, Conn* c, int what, int direction, int32_t channel, bint make) noexcept nogil:
        """NULL: there is none, or no memory for one."""
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
        if not make:
            return NULL
        s = <Space*>calloc(1, sizeof(Space))
        if s == NULL:
            self.no_memory += 1
            return NULL
        self.octets += <int64_t>sizeof(Space) + BLOCK_OCTETS
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
        cdef uint64_t hash = avalanche(c.entry.hash ^ <uint64_t>(what << 1 | direction) << 32 ^ <uint32_t>channel ^ avalanche(key))
        cdef Known* k = <Known*>first_entry(&self.known, hash)
        while k != NULL:
            if k.conn == c and k.what == what and k.direction == direction and k.channel == channel and k.key == key:
                return k
            k = <Known*>k.entry.chain
        if not make:
            return NULL
        k = <Known*>calloc(1, sizeof(Known))
        if k == NULL:
            self.no_memory += 1
            return NULL
        self.octets += <int64_t>sizeof(Known) + BLOCK_OCTETS
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
        if self.operations_wanted:
            put_operation(self.operations.cols, self.operation_rows, o, outcome, completed_ns, response_frame)
            self.operation_rows += 1

    cdef void emit_alone(self, const Op* o) noexcept nogil:
        """The row of an operation that needs no answer."""
        self.emit(o, E_NONE, -1, -1)

    cdef Op* open_op(self, const Op* of, int what, int32_t channel, uint64_t key) noexcept nogil:
        """Keep an operation until it is settled: a copy. NULL: no memory; it has no row then."""
        cdef Space* s = self.space_of(of.conn, what, of.direction, channel, True)
        cdef int64_t size = sizeof(Op)
        cdef Op* o
        cdef uint8_t* at
        cdef int i
        if s == NULL:
            return NULL
        for i in range(Z_COUNT):
            size += of.texts[i].size
        o = <Op*>malloc(<size_t>size)
        if o == NULL:
            self.no_memory += 1
            return NULL
        o[0] = of[0]
        at = <uint8_t*>o + sizeof(Op)
        for i in range(Z_COUNT):
            if of.texts[i].at != NULL:
                memcpy(at, of.texts[i].at, of.texts[i].size)
                o.texts[i].at = at
                at += of.texts[i].size
        o.size = size + BLOCK_OCTETS
        self.octets += o.size
        o.key = key
        self.put_in(o, s)
        o.newer = NULL
        o.older = self.newest
        if self.newest != NULL:
            self.newest.newer = o
        else:
            self.oldest = o
        self.newest = o
        self.open_count += 1
        if self.paths.wanted:
            add_side(&self.paths, o)
        if self.open_count > self.max_operations:
            self.evicted += 1
            self.complete(self.oldest, E_UNANSWERED, NULL)
        return o

    cdef void put_in(self, Op* o, Space* s) noexcept nogil:
        o.space = s
        o.after = NULL
        o.before = s.last
        if s.last != NULL:
            s.last.after = o
        else:
            s.first = o
        s.last = o
        o.entry.hash = avalanche(s.entry.hash ^ avalanche(o.key))
        add_entry(&self.ops, &o.entry)

    cdef void take_out(self, Op* o) noexcept nogil:
        cdef Space* s = o.space
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
        self.take_out(o)
        if o.older != NULL:
            o.older.newer = o.newer
        else:
            self.oldest = o.newer
        if o.newer != NULL:
            o.newer.older = o.older
        else:
            self.newest = o.older
        self.open_count -= 1
        self.emit(o, outcome, number_of(r, T_TS_NS, -1) if r != NULL else -1, number_of(r, T_FRAME_NO, -1) if r != NULL else -1)
        self.octets -= o.size
        free(o)

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
        free(c)

    # ---- tables (tables.pxi has the functions)

    def messages(self, Batch batch not None):
        """Read the rows of a batch of the message table. Raises ValueError if it has not all columns of the table."""
        if batch.memory.n != MESSAGE_COLUMN_COUNT:
            raise ValueError("operations are made of the message table with all its columns")
        begin_call(&self.busy)
        try:
            with nogil:
                read_messages(self, batch.memory.cols, batch.num_rows)
        finally:
            self.busy = False

    def transport(self, Batch batch not None, bint all_connections=False):
        """Read rows of the transport table: these connections have ended. all_connections: also those that were not decoded have a
        row. Raises ValueError if it has not the columns of TRANSPORT."""
        cdef Row x
        cdef Conn* c
        if batch.memory.n != len(TRANSPORT):
            raise ValueError("these are not rows of the transport table")
        x.cols = batch.memory.cols
        for x.at in range(batch.num_rows):
            c = self.conn_of(number_of(&x, X_FLOW_ID, 0), False)
            if c != NULL:
                self.end(c, &x)
            elif all_connections or is_set(x.cols + _X_PROTOCOL, x.at):
                put_facts(self.connections.cols, self.connection_rows, NULL, &x)
                self.connection_rows += 1

    def finish(self):
        """End all connections: no row of them follows."""
        while self.first_conn != NULL:
            self.end(self.first_conn, NULL)

    def take_operations(self):
        """The operations that have an outcome since the last call: a Batch with the columns OPERATIONS; None: there are none."""
        rows, self.operation_rows = self.operation_rows, 0
        return self.operations.finish(rows) if rows else None

    def take_connections(self):
        """The connections that have ended since the last call: a Batch with the columns CONNECTION_FACTS; None: there are none."""
        rows, self.connection_rows = self.connection_rows, 0
        return self.connections.finish(rows) if rows else None

    def finish_paths(self, int64_t rows):
        """Match all that is kept. True when all paths are made; otherwise at least `rows` of them are: take them and call again."""
        return not self.paths.wanted or finish_paths(&self.paths, rows)

    def take_paths(self):
        """The paths that are known since the last call: a Batch with the columns PATHS; None: there are none."""
        rows, self.paths.rows = self.paths.rows, 0
        return self.path_columns.finish(rows) if rows else None

    @property
    def stats(self):
        """Counters by name. paths_evicted: publishes that left before `path_seconds` were over, because of `max_paths`.
        paths_late: messages that came when later ones had been matched; only then the order of arrival counts.
        deliveries_without_publish: those that have no row in paths."""
        return {
            "open_operations": self.open_count, "operations_evicted": self.evicted, "open_connections": self.conns.count,
            "buffered": self.octets + self.paths.octets, "no_memory": self.no_memory + self.paths.no_memory,
            "paths_evicted": self.paths.evicted, "paths_late": self.paths.late,
            "deliveries_without_publish": self.paths.unmatched,
        }


cdef int _X_PROTOCOL = _X["protocol"]
