# Rows of the message table, one after another, to the room of their protocol.

cdef Field MESSAGE_TYPE = ColumnSet(MESSAGE_COLUMNS).row_type()
cdef Field TRANSPORT_TYPE = ColumnSet(TRANSPORT_COLUMNS).row_type()


cdef void read_fault(Conn* c, const Row* r, int direction) noexcept nogil:
    """A message that is not valid. The first is remembered."""
    cdef Span s = text_of(r, T_ERROR)
    c.numbers[N_MALFORMED] += 1
    if c.numbers[N_FAULT] < 0:
        c.numbers[N_FAULT] = number_of(r, T_TS_NS, 0)
        c.numbers[N_FAULT_DIRECTION] = direction
        c.numbers[N_FAULT_FRAME] = number_of(r, T_FRAME_NO, -1)
        keep_span(&c.texts[Y_FAULT], &s)


cdef void keep_end(Span* kept, const Span* host, const Span* port) noexcept nogil:
    """Keep host:port; the host may be an address of IPv6."""
    cdef uint8_t[320] text
    cdef Span s
    cdef bint six = host.size and memchr(host.at, c":", host.size) != NULL
    if host.at == NULL or port.at == NULL or host.size + port.size + 3 > sizeof(text):
        return
    s.at = text
    s.size = <uint32_t>snprintf(<char*>text, sizeof(text), b"[%.*s]:%.*s" if six else b"%.*s:%.*s", <int>host.size,
                                <const char*>host.at, <int>port.size, <const char*>port.at)
    keep_span(kept, &s)


cdef void read_proxied(Conn* c, const Row* r, const Span* kind) noexcept nogil:
    """The row of a PROXY header, or of a request for a tunnel."""
    cdef const Col* headers = r.cols + T_HEADERS
    cdef Span host, port
    if not (is_text(kind, b"PROXY") or is_text(kind, b"SOCKS5") or is_text(kind, b"HTTP CONNECT")):
        return
    host = entry_of(headers, r.at, b"client_ip")
    port = entry_of(headers, r.at, b"client_port")
    keep_end(&c.texts[Y_PROXIED_CLIENT], &host, &port)
    host = entry_of(headers, r.at, b"server_name")
    if host.at == NULL:
        host = entry_of(headers, r.at, b"server_ip")
    port = entry_of(headers, r.at, b"server_port")
    keep_end(&c.texts[Y_PROXIED_SERVER], &host, &port)


cdef void read_messages(OpenOperations e, const Col* cols, int64_t rows) noexcept nogil:
    cdef Row r
    cdef Op o
    cdef Conn* c
    cdef Span s
    cdef int64_t flow_id
    cdef int direction, kind, protocol
    r.cols = cols
    for r.at in range(rows):
        if not is_set(cols + T_FLOW_ID, r.at):
            continue                                    # a fault of a file
        flow_id = number_of(&r, T_FLOW_ID, 0)
        c = e.current
        if c == NULL or c.flow_id != flow_id:
            c = e.conn_of(flow_id, True)
            if c == NULL:
                continue
            e.current = c
        direction = <int>number_of(&r, T_DIRECTION, 0) & 1
        s = text_of(&r, T_STATUS)
        if s.size != 2 or s.at[0] != c"o":              # ok: no other status has two letters
            c.unobserved = True
            if is_text(&s, b"malformed"):
                read_fault(c, &r, direction)
            continue
        s = text_of(&r, T_PROTOCOL)
        protocol = c.protocol
        if protocol == P_NONE or s.size != PROTOCOL_SPAN[protocol].size or not same_octets(
                s.at, PROTOCOL_SPAN[protocol].at, s.size):
            protocol = protocol_number(&s)
        if protocol != P_NONE and c.protocol != protocol:
            c.protocol = protocol
            s = text_of(&r, T_SRC_IP if direction else T_DST_IP)
            c.server = hash_span(<uint64_t>number_of(&r, T_SRC_PORT if direction else T_DST_PORT, 0), &s)
        c.numbers[N_CLIENT_MESSAGE + direction] = number_of(&r, T_TS_NS, -1)
        s = text_of(&r, T_VERSION)
        if not is_kept(&c.texts[Y_VERSION], &s):
            keep_span(&c.texts[Y_VERSION], &s)
        s = text_of(&r, T_CLIENT_ID)
        if not is_kept(&c.texts[Y_CLIENT_ID], &s):
            keep_span(&c.texts[Y_CLIENT_ID], &s)
        s = text_of(&r, T_KIND)
        kind = kind_number(protocol, &s)
        if kind == K_NONE:
            read_proxied(c, &r, &s)
        if protocol == P_NSQ:
            kind = nsq_kind(&r, kind)
        if protocol != P_ROCKETMQ or field_number(&r, RM_MESSAGE_INDEX, 0) == 0:
            c.numbers[N_CLIENT_MESSAGES + direction] += 1
        if protocol and not c.unobserved:
            observe(e, c, &r, kind, direction)
        if protocol == P_MQTT:
            mqtt_message(e, c, &r, kind, direction, &o)
        elif protocol == P_AMQP091:
            amqp091_message(e, c, &r, kind, direction, &o)
        elif protocol == P_AMQP10:
            amqp10_message(e, c, &r, kind, direction, &o)
        elif protocol == P_ROCKETMQ:
            rocketmq_message(e, c, &r, direction, &o)
        elif protocol == P_NSQ:
            nsq_message(e, c, &r, kind, direction, &o)
        elif protocol == P_PHPMQ:
            phpmq_message(e, c, &r, kind, direction, &o)


@cython.final
cdef class Insight(OpenOperations):
    """Makes operations and connections of the message table.

    Feed it every row of the message table, in the order of each connection, with all columns and payloads: `messages`. After the
    last row of a connection its row of the transport table: `transport`. At the end `finish`.

    max_operations, max_octets: how many may be open at a time, and the memory of all that is kept. If there are more, the
        oldest of the connection that has the most end as `unanswered`. A call during another one, for example in another thread,
        raises RuntimeError.
    operations: make their rows. findings: make the rows of those that a rule of findings may count, and the facts of connections
        that findings need; large_message: payloads of so many octets are one. max_seen: acknowledged deliveries with a message id
        that are remembered, up to twice as many.
    paths: make them. path_seconds: the longest time between a publish and its delivery. max_paths: publishes and deliveries that
        are kept at a time.
    """

    def __init__(self, *, int64_t max_operations=1 << 20, int64_t max_octets=256 << 20, bint operations=True, bint paths=False,
                 int64_t path_seconds=3600, int64_t max_paths=1 << 19, bint findings=False, int64_t large_message=1 << 20,
                 int64_t max_seen=1 << 16):
        if max_operations < 1:
            raise ValueError(f"max_operations must be at least 1, not {max_operations}")
        self.max_operations = max_operations
        self.max_octets = max_octets
        self.operations = ColumnSet(OPERATION_COLUMNS)
        self.operations_wanted = operations
        self.findings_wanted = findings
        self.large = large_message
        self.seen_max = max(<int64_t>1, max_seen)
        self.connections = ColumnSet(CONNECTION_FACTS)
        if paths:
            self.path_columns = ColumnSet(PATH_COLUMNS)
            if not open_paths(&self.paths, self.path_columns.cols, 1000000000 * min(path_seconds, <int64_t>1 << 32), max_paths):
                raise MemoryError
            self.paths.places_wanted = findings

    def messages(self, Batch batch not None):
        """Read the rows of a batch of the message table. Raises ValueError if it has not all columns of the table."""
        if not MESSAGE_TYPE.same_children(batch.field):
            raise ValueError("operations are made of the message table with all its columns")
        begin_call(&self.busy)
        try:
            with nogil:
                read_messages(self, batch.memory.cols, batch.num_rows)
        finally:
            self.busy = False

    def transport(self, Batch batch not None, bint all_connections=False):
        """Read rows of the transport table: these connections have ended.

        all_connections: also those that were not decoded have a row. Raises ValueError if it has not the columns of TRANSPORT.
        """
        cdef Row x
        cdef Conn* c
        if not TRANSPORT_TYPE.same_children(batch.field):
            raise ValueError("these are not rows of the transport table")
        x.cols = batch.memory.cols
        begin_call(&self.busy)
        for x.at in range(batch.num_rows):
            c = self.conn_of(number_of(&x, X_FLOW_ID, 0), False)
            if c != NULL:
                self.end(c, &x)
            elif all_connections or is_set(x.cols + X_PROTOCOL, x.at):
                put_facts(self.connections.cols, self.connection_rows, NULL, &x)
                self.connection_rows += 1
        self.busy = False

    def finish(self):
        """End all connections: no row of them follows."""
        begin_call(&self.busy)
        while self.first_conn != NULL:
            self.end(self.first_conn, NULL)
        self.put_resumed()
        self.busy = False

    cdef object taken(self, ColumnSet columns, int64_t* count):
        """The rows of a table so far. None: no row."""
        cdef int64_t rows
        begin_call(&self.busy)
        try:
            rows = count[0]
            count[0] = 0
            return columns.finish(rows) if rows else None
        finally:
            self.busy = False

    def take_noted(self):
        """Of the rows that take_operations will return: (the numbers of those that a rule of findings may count; of these the
        places of deliveries that the same consumer had acknowledged before), each as int64. Empty without `findings`."""
        begin_call(&self.busy)
        try:
            return noted_rows(&self.noted), noted_rows(&self.again)
        finally:
            self.busy = False

    def take_operations(self):
        """The operations that have an outcome since the last call: a Batch with the columns OPERATIONS. None: no row."""
        return self.taken(self.operations, &self.operation_rows)

    def take_connections(self):
        """The connections that have ended since the last call: a Batch with the columns CONNECTION_FACTS. None: no row."""
        return self.taken(self.connections, &self.connection_rows)

    def finish_paths(self, int64_t rows):
        """Match all that is kept. True when all paths are made. Otherwise at least `rows` of them are: take them, call again."""
        begin_call(&self.busy)
        try:
            return not self.paths.wanted or finish_paths(&self.paths, rows)
        finally:
            self.busy = False

    def take_paths(self):
        """The paths that are known since the last call: a Batch with the columns PATHS. None: no row."""
        return self.taken(self.path_columns, &self.paths.rows)

    def take_places(self):
        """Of each path that take_paths will return a number, as int64: equal ones for publishes of one protocol with the same
        destination and routing key. Empty without `findings`."""
        begin_call(&self.busy)
        try:
            return noted_rows(&self.paths.places)
        finally:
            self.busy = False

    @property
    def stats(self):
        """Counters by name.

        paths_evicted: publishes that left before `path_seconds` were over, because of `max_paths`. paths_late: messages that
        came when later ones had been matched; only then the order of arrival counts. deliveries_without_publish: those that have
        no row in paths. spare: octets that are kept to be used again, at most 2 MiB beside those that are buffered.
        """
        return {
            "open_operations": self.open_count, "operations_evicted": self.evicted, "open_connections": self.conns.count,
            "names": self.known.count + self.spaces.count,
            "buffered": self.octets + self.paths.octets, "no_memory": self.no_memory + self.paths.no_memory,
            "spare": self.pool.octets + self.paths.pool.octets,
            "paths_evicted": self.paths.evicted, "paths_late": self.paths.late,
            "deliveries_without_publish": self.paths.unmatched,
        }


def with_values(Batch batch not None, columns, values, names=None):
    """A Batch with these columns, or those of them in `names`, in that order: the columns of `values` (name: a str, int or None
    for each row; only strings and int64), the others of `batch`."""
    cdef ColumnSet made = ColumnSet(columns, names)
    cdef Col* to
    cdef const Col* of
    cdef bytes octets
    cdef int64_t i
    for k in made.chosen:
        name = columns[k].name
        to = &made.cols[<int>k]
        if name not in values:
            of = &batch.memory.cols[batch.index(name)]
            for i in range(batch.num_rows):
                copy_value(to, i, of, i)
            continue
        for i, value in enumerate(values[name]):
            if isinstance(value, str):
                octets = value.encode("utf-8", "replace")
                put_octets(to, i, <const uint8_t*><const char*>octets, len(octets))
            elif value is not None:
                put_i64(to, i, value)
    return made.finish(batch.num_rows)


def codes_of(Batch batch not None, name, names):
    """A column of texts as numbers, int8: the place in `names`, at most 64; -1 for others and null. A bytearray."""
    cdef list known = [text.encode() for text in names]
    cdef bytearray made = bytearray(batch.num_rows)
    cdef int8_t* to = <int8_t*><char*>made
    cdef const Col* c = &batch.memory.cols[batch.index(name)]
    cdef Span[64] texts
    cdef Span s
    cdef int64_t i
    cdef int count = len(known), k, last = 0
    if not 0 < count <= 64:
        raise ValueError(f"names must be 1 to 64 texts, not {count}")
    for k in range(count):
        texts[k].at = <const uint8_t*><const char*>(<bytes>known[k])
        texts[k].size = <uint32_t>len(<bytes>known[k])
    with nogil:
        for i in range(batch.num_rows):
            s = octets_at(c, i)
            k = last                                    # rows repeat
            if s.at == NULL or s.size != texts[k].size or memcmp(s.at, texts[k].at, s.size) != 0:
                k = 0
                while k < count and (s.at == NULL or s.size != texts[k].size or memcmp(s.at, texts[k].at, s.size) != 0):
                    k += 1
            if k < count:
                last = k
            to[i] = <int8_t>(k if k < count else -1)
    return made


def batch_of(columns, rows):
    """A Batch with these columns (string, boolean, int8 to int64, timestamp, list<int64>). rows: a list of dicts, column: value;
    what a dict does not have is null. A timestamp is an int, microseconds."""
    cdef ColumnSet made = ColumnSet(columns)
    cdef Col* to
    cdef bytes octets
    cdef int64_t i, at
    for k, column in enumerate(columns):
        to = &made.cols[<int>k]
        for i, row in enumerate(rows):
            value = row.get(column.name)
            if value is None:
                continue
            if column.type == "string":
                octets = value.encode("utf-8", "replace")
                put_octets(to, i, <const uint8_t*><const char*>octets, len(octets))
            elif column.type == "list<int64>":
                at = open_list(to, i)
                for number in value:
                    put_i64(to.children, at, number)
                    at += 1
                close_list(to, at)
            elif column.type == "boolean":
                put_bool(to, i, value)
            elif column.type == "int8":
                put_i8(to, i, value)
            elif column.type == "int32":
                put_i32(to, i, value)
            else:
                put_i64(to, i, value)
    return made.finish(len(rows))


def payload_hash(payload):
    """The column `payload_hash` of a payload: any contiguous buffer."""
    cdef Input octets = take_input(payload)
    cdef Span s
    s.at = octets.at
    s.size = <uint32_t>octets.size
    return <int64_t>hash_span(0, &s)
