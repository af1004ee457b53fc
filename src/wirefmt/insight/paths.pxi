# Paths: which publish a delivery is a copy of, and which message it was republished from.
#
# Publishes and deliveries are taken when they are sent, not when they are answered, and are kept until the end, or until
# `max_paths` of them are kept: then the older half is matched. They are matched in the order of time and frame, so neither the
# size of batches nor the number of threads changes a row. A publish has its rows when it is older than `window_ns`, or when it
# is the oldest of too many; until then its deliveries are kept with it.
from wirefmt.spec.insight import MATCHES as MATCH_NAMES, PATHS as PATH_COLUMNS

cdef struct Bucket              # below
cdef struct Receipt
cdef struct Transport
cdef struct Progress

cdef enum:
    SLACK_NS = 2000000          # a delivery may be captured so much before its publish: several interfaces, several threads
    STEPS = 64                  # publishes of one key that are looked at for a delivery
    COPY_STEPS = 16             # deliveries of one publish that are looked at for the next hop
    WAITING_MAX = 64            # deliveries without a publish that wait SLACK_NS for one
    STREAMS_MAX = 1 << 16       # pairs of a publisher and a consumer whose order is known
    RECEIVER_OCTETS = 1 << 13
    RECEIVER_BITS = 1 << 16
    NAME_OCTETS = 512           # of a destination that are compared
    FRESH = 1 << 30             # was not republished: more than any hop
    TRACE_OCTETS = 32           # trace-id of a traceparent, in hex (W3C Trace Context, 3.2.2.3)
    FULL_BUCKET = 16            # a bucket of so many publishes knows where each consumer is
    FEW_COPIES = 4              # more of one publish are counted for each consumer

cdef enum:                      # in the order of MATCHES
    M_TRANSPORT = 0
    M_ID
    M_PLACE
    M_PAYLOAD
    M_COUNT

cdef enum:                      # what publishes are found by
    I_ID = 0                    # message id
    I_PLACE                     # payload and name of the destination
    I_PAYLOAD
    I_CORRELATION               # correlation id
    I_TRACE                     # trace-id of the traceparent
    I_COUNT


cdef struct Rule:               # how a delivery finds its publish
    int matched_by, index
    bint related                # only publishes to this destination, or on a stream that has led to this consumer before
    bint oldest                 # of several: the first that this consumer has not got; otherwise the latest

cdef enum:
    RULES = 5
cdef Rule[RULES] MATCHING = [
    Rule(M_ID, I_ID, True, True),
    Rule(M_ID, I_ID, False, False),
    Rule(M_PLACE, I_PLACE, True, True),
    Rule(M_PAYLOAD, I_PAYLOAD, True, True),
    Rule(M_PAYLOAD, I_PAYLOAD, False, False),
]


cdef struct HopRule:            # how a publish finds the message that its publisher had received
    int of                      # what of this publish is looked up: I_CORRELATION, I_TRACE, I_PAYLOAD
    int index
    bint told                   # the application says that the two belong together; otherwise only the payload does

cdef enum:
    HOP_RULES = 4
cdef HopRule[HOP_RULES] HOPS = [
    HopRule(I_TRACE, I_TRACE, True),
    HopRule(I_CORRELATION, I_CORRELATION, True),
    HopRule(I_CORRELATION, I_ID, True),                 # a reply whose correlation id is the request's message id
    HopRule(I_PAYLOAD, I_PAYLOAD, False),
]

cdef enum:                      # texts of a side that many sides share
    G_CAPTURE = 0
    G_CLIENT_ID
    G_CLIENT_IP
    G_DESTINATION
    G_ROUTING_KEY
    G_QUEUE
    G_GROUP
    G_COUNT

cdef int[G_COUNT] SIDE_FROM
SIDE_FROM = [Z_CAPTURE, Z_CLIENT_ID, Z_CLIENT_IP, Z_DESTINATION, Z_ROUTING_KEY, Z_QUEUE, Z_GROUP]
cdef dict _G = {column.name: i for i, column in enumerate(PATH_COLUMNS)}
cdef int[2][G_COUNT] G_TEXT
cdef int[2] G_FLOW_ID, G_CLIENT_PORT, G_PROTOCOL, G_FRAME, G_TS, G_TS_NS, G_MESSAGE_ID, G_PAYLOAD_SIZE, G_PAYLOAD_HASH
for _i, _side in enumerate(("publish_", "deliver_")):
    G_FLOW_ID[<int>_i] = _G[_side + "flow_id"]
    G_CLIENT_PORT[<int>_i] = _G[_side + "client_port"]
    G_PROTOCOL[<int>_i] = _G[_side + "protocol"]
    G_FRAME[<int>_i] = _G[_side + "frame"]
    G_TS[<int>_i] = _G[_side + "ts"]
    G_TS_NS[<int>_i] = _G[_side + "ts_ns"]
    G_MESSAGE_ID[<int>_i] = _G[_side + "message_id"]
    G_PAYLOAD_SIZE[<int>_i] = _G[_side + "payload_size"]
    G_PAYLOAD_HASH[<int>_i] = _G[_side + "payload_hash"]
    for _k, _name in enumerate(("capture", "client_id", "client_ip", "destination", "routing_key", "queue", "consumer_group")):
        G_TEXT[<int>_i][<int>_k] = _G[_side + _name]
cdef int GC_LATENCY = _G["latency_ns"], GC_COPIES = _G["copies"], GC_ATTEMPT = _G["attempt"]
cdef int GC_REDELIVERED = _G["redelivered"], GC_MATCHED_BY = _G["matched_by"], GC_CANDIDATES = _G["candidates"]
cdef int GC_CONVERTED = _G["converted"], GC_TRACE_ID = _G["trace_id"], GC_HOP = _G["hop"], GC_CAPTURE = _G["capture"]

cdef list _MATCHES = [name.encode() for name in MATCH_NAMES]
cdef const char* MATCH_TEXT[M_COUNT]
for _i in range(M_COUNT):
    MATCH_TEXT[<int>_i] = <const char*>_MATCHES[_i]


cdef struct Name:               # a text that several sides share; its octets follow
    Entry entry
    int64_t users
    uint32_t size


cdef struct Side:               # a message as one client sent or got it; the texts of its own follow
    int64_t ts_ns, frame, flow_id, arrival, sequence, payload_size
    int64_t login_ns            # of its connection; -1: not seen, or it went on with an old session
    uint64_t id, payload, correlation, trace            # hashes; 0: it has none
    uint64_t place              # hash of the destination's name
    uint64_t second_place       # delivery: of the queue's name
    uint64_t consumer           # delivery: who gets each message once
    uint64_t transport          # delivery: what the same message has when it is delivered again
    Name* names[G_COUNT]
    Span message_id, traceparent
    int64_t size                # octets of memory
    int32_t client_port, attempts
    uint8_t protocol
    int8_t direction, redelivered
    bint by_client              # delivery: the consumer is a client, not a queue or group
    # of a delivery that has its publish
    Side* before                # the copies of a publish
    Side* after
    int64_t attempt
    int32_t candidates
    int matched_by
    bint again, republished


cdef struct Publish:
    Side side
    Bucket* buckets[I_COUNT]
    Publish* newer
    int64_t number              # in the order of time
    Side* first
    Side* last
    int64_t copies
    Receipt* receipts
    Transport* transports
    uint8_t[TRACE_OCTETS] trace_id
    int trace_size
    int32_t hop


cdef struct Bucket:             # the publishes of a key, in the order of time
    Entry entry
    Publish** items             # a ring would save nothing: they leave from the front, and few are left when more come
    Publish* one                # `items` of a bucket of one
    int64_t first, count, room  # number of the first item of those that ever were here
    int64_t start               # of the first item in `items`
    Progress* progress


cdef struct Progress:           # of a consumer in a bucket: publishes before this number are not looked at
    Entry entry
    Bucket* bucket
    Progress* following
    uint64_t consumer
    int64_t number


cdef struct Receipt:            # a consumer has got copies of a publish
    Entry entry
    Publish* publish
    Receipt* following
    uint64_t consumer
    int64_t count


cdef struct Transport:          # a message's identity between server and client
    Entry entry
    Publish* publish
    Transport* following


cdef struct Stream:             # publishes of a connection to a destination that reach a consumer
    Entry entry
    Stream* following
    int64_t number              # of the last one that has


cdef struct PathTable:
    bint wanted
    int64_t window_ns, max_sides
    Side** pending              # in the order in which they came
    int64_t pending_count, pending_room, arrivals
    int64_t kept                # publishes and their deliveries that are not pending
    Publish* oldest
    Publish* newest
    int64_t numbers
    int64_t now_ns              # everything before was matched
    Entries names, buckets, progress, receipts, transports, streams
    Stream* all_streams
    Side* waiting[WAITING_MAX]
    int waiting_count
    uint8_t[RECEIVER_OCTETS] receivers    # who has received something: a Bloom filter of one hash
    Col* cols
    int64_t rows, emitted
    int64_t late, evicted, unmatched, no_memory, octets


cdef bint open_paths(PathTable* t, Col* cols, int64_t window_ns, int64_t max_sides) noexcept nogil:
    """False: out of memory."""
    t.wanted = True
    t.window_ns = window_ns
    t.max_sides = max_sides
    t.cols = cols
    t.now_ns = -1
    return (open_entries(&t.names) and open_entries(&t.buckets) and open_entries(&t.progress) and open_entries(&t.receipts)
            and open_entries(&t.transports) and open_entries(&t.streams))


cdef void close_paths(PathTable* t) noexcept nogil:
    cdef int64_t i
    t.cols = NULL
    if not t.wanted:
        return
    for i in range(t.pending_count):
        free_side(t, t.pending[i])
    t.pending_count = 0
    for i in range(t.waiting_count):
        free_side(t, t.waiting[i])
    t.waiting_count = 0
    while t.oldest != NULL:
        retire(t)
    forget_streams(t)
    free(t.pending)
    free(t.names.slots)
    free(t.buckets.slots)
    free(t.progress.slots)
    free(t.receipts.slots)
    free(t.transports.slots)
    free(t.streams.slots)


# ---- texts and names

cdef Name* name_of(PathTable* t, const Span* s) noexcept nogil:
    """NULL: an absent text, or no memory."""
    cdef uint64_t hash
    cdef Name* n
    if s.at == NULL:
        return NULL
    hash = hash_span(s.size, s)
    n = <Name*>first_entry(&t.names, hash)
    while n != NULL:
        if n.entry.hash == hash and n.size == s.size and memcmp(<uint8_t*>n + sizeof(Name), s.at, s.size) == 0:
            n.users += 1
            return n
        n = <Name*>n.entry.chain
    n = <Name*>malloc(sizeof(Name) + s.size)
    if n == NULL:
        t.no_memory += 1
        return NULL
    n.entry.hash = hash
    n.users = 1
    n.size = s.size
    memcpy(<uint8_t*>n + sizeof(Name), s.at, s.size)
    t.octets += <int64_t>(sizeof(Name) + s.size) + BLOCK_OCTETS
    add_entry(&t.names, &n.entry)
    return n


cdef void drop_name(PathTable* t, Name* n) noexcept nogil:
    if n != NULL:
        n.users -= 1
        if n.users == 0:
            remove_entry(&t.names, &n.entry)
            t.octets -= <int64_t>(sizeof(Name) + n.size) + BLOCK_OCTETS
            free(n)


cdef bint skip(Span* s, const char* prefix) noexcept nogil:
    """Take a prefix off."""
    cdef uint32_t n = <uint32_t>strlen(prefix)
    if s.size <= n or memcmp(s.at, prefix, n):
        return False
    s.at += n
    s.size -= n
    return True


cdef inline uint64_t present(uint64_t hash) noexcept nogil:
    """A hash that is not 0, which means that there is nothing."""
    return hash if hash else 1


cdef uint64_t place_of(const Span* address) noexcept nogil:
    """Hash of a destination as all protocols of a server name it: `a/b` of MQTT is `a.b` of AMQP; the addresses of AMQP 1.0 name
    a queue, or an exchange and a routing key (RabbitMQ, address formats 1 and 2), or a topic (Artemis, ActiveMQ)."""
    cdef Span s = address[0]
    cdef uint8_t[NAME_OCTETS] name
    cdef uint32_t i, n = 0
    cdef int high, low
    if s.size == 0:
        return 0
    if skip(&s, b"/exchanges/") or skip(&s, b"/exchange/"):
        for i in range(s.size):
            if s.at[i] == c"/" and i + 1 < s.size:      # the routing key
                s.at += i + 1
                s.size -= i + 1
                break
    elif not (skip(&s, b"/queues/") or skip(&s, b"/queue/") or skip(&s, b"/amq/queue/") or skip(&s, b"/topic/")):
        if not skip(&s, b"topic://"):
            skip(&s, b"queue://")
    i = 0
    while i < s.size and n < NAME_OCTETS:
        name[n] = s.at[i]
        if name[n] == c"/":
            name[n] = c"."
        elif name[n] == c"%" and i + 2 < s.size:        # percent-encoded
            high = hex_digit(s.at[i + 1])
            low = hex_digit(s.at[i + 2])
            if high != NOT_HEX and low != NOT_HEX:
                name[n] = <uint8_t>(high << 4 | low)
                i += 2
        n += 1
        i += 1
    s.at = name
    s.size = n
    return present(hash_span(7, &s))


cdef inline uint64_t hashed(uint64_t seed, const Span* s) noexcept nogil:
    return present(hash_span(seed, s)) if s.size else 0


cdef inline uint64_t name_hash(uint64_t seed, const Name* n) noexcept nogil:
    return present(avalanche(n.entry.hash ^ seed)) if n != NULL and n.size else 0


# ---- sides

cdef bint is_service(const Span* address) noexcept nogil:
    """Is this a node of the server that answers requests? What is sent there is not for a consumer."""
    return is_text(address, b"/management") or is_text(address, b"$management") or is_text(address, b"$cbs")


cdef void add_side(PathTable* t, const Op* o) noexcept nogil:
    """A publish or delivery that was sent."""
    cdef bint publishes = o.kind == O_PUBLISH
    cdef int64_t own = sizeof(Publish) if publishes else sizeof(Side)
    cdef int64_t size
    cdef Span text
    cdef const Span* id = &o.texts[Z_MESSAGE_ID]
    cdef const Span* trace = &o.texts[Z_TRACEPARENT]
    cdef Side* s
    cdef Side** grown
    cdef int i
    if o.frame < 0 or not (publishes or o.kind == O_DELIVER) or (publishes and is_service(&o.texts[Z_DESTINATION])):
        return
    if o.request == K_MPUB:
        return                                          # nsq_bodies adds its messages
    if t.pending_count == t.pending_room:
        t.pending_room = max(<int64_t>1024, 2 * t.pending_room)
        grown = <Side**>realloc(t.pending, <size_t>t.pending_room * sizeof(Side*))
        if grown == NULL:
            t.pending_room = t.pending_count
            t.no_memory += 1
            return
        t.pending = grown
    size = own + id.size + trace.size
    s = <Side*>malloc(<size_t>size)
    if s == NULL:
        t.no_memory += 1
        return
    memset(s, 0, <size_t>own)
    s.size = size + BLOCK_OCTETS
    t.octets += s.size
    s.message_id = id[0]
    s.traceparent = trace[0]
    if id.at != NULL:
        s.message_id.at = <uint8_t*>s + own
        memcpy(<uint8_t*>s + own, id.at, id.size)
    if trace.at != NULL:
        s.traceparent.at = <uint8_t*>s + own + id.size
        memcpy(<uint8_t*>s + own + id.size, trace.at, trace.size)
    s.arrival = t.arrivals
    t.arrivals += 1
    s.ts_ns = o.started_ns
    s.frame = o.frame
    s.flow_id = o.conn.flow_id
    s.login_ns = -1 if o.conn.session_present == 1 else o.conn.numbers[N_LOGIN]
    s.sequence = o.sequence
    s.payload_size = o.payload_size
    s.client_port = o.client_port
    s.attempts = o.attempts
    s.protocol = <uint8_t>o.conn.protocol
    s.direction = not publishes
    s.redelivered = o.redelivered
    for i in range(G_COUNT):
        s.names[i] = name_of(t, &o.texts[SIDE_FROM[i]])
    s.id = hashed(1, id)
    s.correlation = hashed(1, &o.texts[Z_CORRELATION_ID])       # as `id`: a correlation id may be a message id
    if trace.size >= 3 + TRACE_OCTETS:
        text.at = trace.at + 3
        text.size = TRACE_OCTETS
        s.trace = hashed(2, &text)
    if o.has_hash and o.payload_size > 0:
        s.payload = present(o.hash)
    s.place = place_of(&o.texts[Z_ROUTING_KEY])
    if s.place == 0:
        s.place = place_of(&o.texts[Z_DESTINATION])
    if not publishes:
        s.second_place = place_of(&o.texts[Z_QUEUE])
        set_consumer(s)
        set_transport(s)
    t.pending[t.pending_count] = s
    t.pending_count += 1
    if t.pending_count + t.kept >= t.max_sides:
        make_room(t)


cdef void set_consumer(Side* s) noexcept nogil:
    """Who gets each message once: a group, a queue, or a client."""
    s.consumer = name_hash(3, s.names[G_GROUP])
    if s.consumer == 0 and s.protocol != P_MQTT and s.protocol != P_ROCKETMQ:
        s.consumer = avalanche(s.second_place ^ 4) if s.second_place else 0
    s.by_client = s.consumer == 0
    if s.by_client:
        s.consumer = name_hash(5, s.names[G_CLIENT_ID])
        if s.consumer == 0:
            s.consumer = present(avalanche(<uint64_t>s.flow_id ^ 6))


cdef void set_transport(Side* s) noexcept nogil:
    if s.protocol == P_NSQ or s.protocol == P_PHPMQ:        # the server names each message
        if s.id:
            s.transport = present(avalanche(s.id ^ s.place ^ s.protocol))
    elif s.protocol == P_MQTT and s.sequence != ABSENT:     # a packet identifier of a session
        s.transport = present(avalanche(avalanche(s.consumer ^ <uint64_t>s.sequence) ^ s.payload ^ s.place))


cdef void free_side(PathTable* t, Side* s) noexcept nogil:
    cdef int i
    for i in range(G_COUNT):
        drop_name(t, s.names[i])
    t.octets -= s.size
    free(s)


cdef int earlier(const void* a, const void* b) noexcept nogil:
    """For qsort: time, frame, publishes first; arrivals are compared of one connection only."""
    cdef const Side* x = (<const Side**>a)[0]
    cdef const Side* y = (<const Side**>b)[0]
    if x.ts_ns != y.ts_ns:
        return -1 if x.ts_ns < y.ts_ns else 1
    if x.frame != y.frame:
        return -1 if x.frame < y.frame else 1
    if x.direction != y.direction:
        return -1 if x.direction < y.direction else 1
    if x.flow_id != y.flow_id:
        return -1 if x.flow_id < y.flow_id else 1
    return -1 if x.arrival < y.arrival else 1


cdef void reserve(Entries* t, size_t count) noexcept nogil:
    """Make an empty table so large that it need not grow step by step."""
    cdef Entry** slots
    cdef size_t mask = t.mask
    while mask < count:
        mask = 2 * mask + 1
    slots = <Entry**>calloc(mask + 1, sizeof(Entry*)) if mask > t.mask else NULL
    if slots != NULL:
        free(t.slots)
        t.slots = slots
        t.mask = mask


cdef void match_pending(PathTable* t, int64_t count) noexcept nogil:
    """Match the first of those that wait, in the order of time."""
    cdef int64_t i
    cdef Side* s
    if t.pending_count == 0:
        return
    for i in range(1, t.pending_count):                 # captures are nearly always in this order
        if earlier(&t.pending[i - 1], &t.pending[i]) > 0:
            qsort(t.pending, <size_t>t.pending_count, sizeof(Side*), earlier)
            break
    if t.buckets.count == 0:
        reserve(&t.buckets, <size_t>count)
    for i in range(count):
        s = t.pending[i]
        if s.ts_ns < t.now_ns:
            t.late += 1
        else:
            t.now_ns = s.ts_ns
        while t.oldest != NULL and t.oldest.side.ts_ns + t.window_ns < t.now_ns:
            retire(t)
        if s.direction:
            if not match(t, s):
                wait(t, s)
        else:
            published(t, <Publish*>s)
    t.pending_count -= count
    for i in range(t.pending_count):
        t.pending[i] = t.pending[i + count]


cdef void make_room(PathTable* t) noexcept nogil:
    """There are as many as there may be: match the older half of those that wait, then give up the oldest publishes."""
    match_pending(t, (t.pending_count + 1) // 2)
    while t.oldest != NULL and t.pending_count + t.kept > t.max_sides * 3 // 4:
        t.evicted += 1
        retire(t)


cdef bint finish_paths(PathTable* t, int64_t rows) noexcept nogil:
    """No side follows. True when all rows are made; otherwise at least `rows` of them are."""
    match_pending(t, t.pending_count)
    while t.oldest != NULL:
        if t.rows >= rows:
            return False
        retire(t)
    while t.waiting_count:
        give_up(t)
    forget_streams(t)
    return True


# ---- keys

cdef inline uint64_t key_of(const Side* s, int index, uint64_t place) noexcept nogil:
    """0: this side has none."""
    if index == I_ID:
        return s.id
    if index == I_CORRELATION:
        return s.correlation
    if index == I_TRACE:
        return s.trace
    if index == I_PAYLOAD:
        return s.payload
    # a payload of no octets says nothing; its size of 0 with the destination does
    return present(avalanche((s.payload if s.payload else 9) ^ avalanche(place))) if place and (
        s.payload or s.payload_size == 0) else 0


cdef Bucket* bucket_of(PathTable* t, int index, uint64_t key) noexcept nogil:
    cdef uint64_t hash = avalanche(key + <uint64_t>index)
    cdef Bucket* b
    if key == 0:
        return NULL
    b = <Bucket*>first_entry(&t.buckets, hash)
    while b != NULL and b.entry.hash != hash:
        b = <Bucket*>b.entry.chain
    return b


cdef Bucket* put_in_bucket(PathTable* t, int index, uint64_t key, Publish* p) noexcept nogil:
    cdef Bucket* b = bucket_of(t, index, key)
    cdef Publish** grown
    cdef int64_t room
    if key == 0:
        return NULL
    if b == NULL:
        b = <Bucket*>calloc(1, sizeof(Bucket))
        if b == NULL:
            t.no_memory += 1
            return NULL
        b.entry.hash = avalanche(key + <uint64_t>index)
        b.items = &b.one
        b.room = 1
        t.octets += <int64_t>sizeof(Bucket) + BLOCK_OCTETS
        add_entry(&t.buckets, &b.entry)
    if b.start + b.count == b.room:
        if b.start > b.count:                           # room at the front
            memcpy(b.items, b.items + b.start, <size_t>b.count * sizeof(Publish*))
            b.start = 0
        else:
            room = max(<int64_t>4, 2 * b.room)
            grown = <Publish**>malloc(<size_t>room * sizeof(Publish*))
            if grown == NULL:
                t.no_memory += 1
                return NULL
            memcpy(grown, b.items + b.start, <size_t>b.count * sizeof(Publish*))
            if b.items != &b.one:
                free(b.items)
                t.octets -= b.room * <int64_t>sizeof(Publish*)
            t.octets += room * <int64_t>sizeof(Publish*)
            b.items = grown
            b.room = room
            b.start = 0
    b.items[b.start + b.count] = p
    b.count += 1
    return b


cdef void take_first(PathTable* t, Bucket* b) noexcept nogil:
    """The oldest publish leaves its bucket: it is the first there."""
    cdef Progress* following
    if b == NULL:
        return
    b.first += 1
    b.start += 1
    b.count -= 1
    if b.count == 0:
        while b.progress != NULL:
            following = b.progress.following
            remove_entry(&t.progress, &b.progress.entry)
            free(b.progress)
            t.octets -= <int64_t>sizeof(Progress) + BLOCK_OCTETS
            b.progress = following
        if b.items != &b.one:
            free(b.items)
            t.octets -= b.room * <int64_t>sizeof(Publish*)
        remove_entry(&t.buckets, &b.entry)
        t.octets -= <int64_t>sizeof(Bucket) + BLOCK_OCTETS
        free(b)


cdef Progress* progress_of(PathTable* t, Bucket* b, uint64_t consumer, bint make) noexcept nogil:
    cdef uint64_t hash = avalanche(b.entry.hash ^ consumer)
    cdef Progress* p = <Progress*>first_entry(&t.progress, hash)
    while p != NULL:
        if p.bucket == b and p.consumer == consumer:
            return p
        p = <Progress*>p.entry.chain
    if not make:
        return NULL
    p = <Progress*>malloc(sizeof(Progress))
    if p == NULL:
        t.no_memory += 1
        return NULL
    p.entry.hash = hash
    p.bucket = b
    p.consumer = consumer
    p.number = 0
    p.following = b.progress
    b.progress = p
    t.octets += <int64_t>sizeof(Progress) + BLOCK_OCTETS
    add_entry(&t.progress, &p.entry)
    return p


cdef Receipt* receipt_of(PathTable* t, Publish* p, uint64_t consumer, bint make) noexcept nogil:
    cdef uint64_t hash = avalanche(<uint64_t>p.number ^ consumer)
    cdef Receipt* r = <Receipt*>first_entry(&t.receipts, hash)
    while r != NULL:
        if r.publish == p and r.consumer == consumer:
            return r
        r = <Receipt*>r.entry.chain
    if not make:
        return NULL
    r = <Receipt*>malloc(sizeof(Receipt))
    if r == NULL:
        t.no_memory += 1
        return NULL
    r.entry.hash = hash
    r.publish = p
    r.consumer = consumer
    r.count = 0
    r.following = p.receipts
    p.receipts = r
    t.octets += <int64_t>sizeof(Receipt) + BLOCK_OCTETS
    add_entry(&t.receipts, &r.entry)
    return r


cdef int64_t got_by(PathTable* t, Publish* p, uint64_t consumer) noexcept nogil:
    """How many copies of a publish a consumer has got."""
    cdef const Side* d = p.first
    cdef Receipt* r
    cdef int64_t n = 0
    if p.copies > FEW_COPIES:
        r = receipt_of(t, p, consumer, False)
        return r.count if r != NULL else 0
    while d != NULL:
        n += d.consumer == consumer
        d = d.after
    return n


cdef void count_copy(PathTable* t, Publish* p, const Side* d) noexcept nogil:
    cdef Receipt* r = receipt_of(t, p, d.consumer, True)
    if r != NULL:
        r.count += 1


cdef Stream* stream_of(PathTable* t, const Publish* p, uint64_t consumer, bint make) noexcept nogil:
    cdef uint64_t hash = avalanche(avalanche(<uint64_t>p.side.flow_id ^ consumer) ^ p.side.place)
    cdef Stream* s = <Stream*>first_entry(&t.streams, hash)
    while s != NULL:
        if s.entry.hash == hash:
            return s
        s = <Stream*>s.entry.chain
    if not make:
        return NULL
    if t.streams.count >= STREAMS_MAX:
        forget_streams(t)
    s = <Stream*>malloc(sizeof(Stream))
    if s == NULL:
        t.no_memory += 1
        return NULL
    s.entry.hash = hash
    s.number = -1
    s.following = t.all_streams
    t.all_streams = s
    t.octets += <int64_t>sizeof(Stream) + BLOCK_OCTETS
    add_entry(&t.streams, &s.entry)
    return s


cdef void forget_streams(PathTable* t) noexcept nogil:
    cdef Stream* s
    while t.all_streams != NULL:
        s = t.all_streams
        t.all_streams = s.following
        remove_entry(&t.streams, &s.entry)
        t.octets -= <int64_t>sizeof(Stream) + BLOCK_OCTETS
        free(s)


# ---- a publish

cdef void published(PathTable* t, Publish* p) noexcept nogil:
    cdef Bucket* b
    cdef const Publish* other
    cdef Side* d
    cdef int64_t i
    cdef int k
    if p.side.redelivered == 1 and p.side.protocol == P_MQTT:
        # DUP: the client sends again what it had sent on its connection before
        b = bucket_of(t, I_PLACE, key_of(&p.side, I_PLACE, p.side.place))
        for i in range(min(b.count, <int64_t>STEPS) if b != NULL else 0):
            other = b.items[b.start + b.count - 1 - i]
            if other.side.sequence == p.side.sequence and other.side.names[G_CLIENT_ID] == p.side.names[G_CLIENT_ID]:
                free_side(t, &p.side)
                return
    p.number = t.numbers
    t.numbers += 1
    for k in range(I_COUNT):
        p.buckets[k] = put_in_bucket(t, k, key_of(&p.side, k, p.side.place), p)
    if t.newest != NULL:
        t.newest.newer = p
    else:
        t.oldest = p
    t.newest = p
    t.kept += 1
    set_hop(t, p)
    while t.waiting_count and t.waiting[0].ts_ns + SLACK_NS < p.side.ts_ns:
        give_up(t)
    i = 0
    while i < t.waiting_count:                          # deliveries that came a little before their publish
        d = t.waiting[i]
        if ((d.id and d.id == p.side.id) or d.payload == p.side.payload) and match(t, d):
            t.waiting_count -= 1
            for k in range(<int>i, t.waiting_count):
                t.waiting[k] = t.waiting[k + 1]
        else:
            i += 1


cdef bint is_receiver(const PathTable* t, uint64_t who) noexcept nogil:
    return who != 0 and bit_at(t.receivers, <int64_t>(who % RECEIVER_BITS))


cdef void add_receiver(PathTable* t, uint64_t who) noexcept nogil:
    if who:
        t.receivers[who % RECEIVER_BITS >> 3] |= <uint8_t>(1 << (who & 7))


cdef inline uint64_t flow_of(const Side* s) noexcept nogil:
    return avalanche(<uint64_t>s.flow_id ^ 11)


cdef struct Origin:             # what a publish may be the next hop of
    Publish* publish
    Side* copy                  # that its client had received
    int tier
    int64_t rank


cdef void set_hop(PathTable* t, Publish* p) noexcept nogil:
    """Had the publisher received this message, or the one that it answers?"""
    cdef Origin origin
    cdef Span s
    cdef int k
    cdef bint may = is_receiver(t, flow_of(&p.side)) or is_receiver(t, name_hash(12, p.side.names[G_CLIENT_ID])) or is_receiver(
        t, name_hash(13, p.side.names[G_CLIENT_IP]))
    memset(&origin, 0, sizeof(origin))
    for k in range(HOP_RULES if may else 0):
        find_origin(t, bucket_of(t, HOPS[k].index, key_of(&p.side, HOPS[k].of, 0)), p, HOPS[k].told, &origin)
        if origin.tier:
            origin.copy.republished = True
            p.hop = origin.publish.hop + 1
            p.trace_size = origin.publish.trace_size
            memcpy(p.trace_id, origin.publish.trace_id, TRACE_OCTETS)
            return
    p.hop = 1
    s = p.side.traceparent
    if p.side.trace:
        p.trace_size = TRACE_OCTETS
        memcpy(p.trace_id, s.at + 3, TRACE_OCTETS)
    else:
        p.trace_size = TRACE_OCTETS // 2
        put_hex(p.trace_id, avalanche(avalanche(<uint64_t>p.side.flow_id ^ avalanche(<uint64_t>p.side.ts_ns)) ^ p.side.payload
                                      ^ avalanche(<uint64_t>p.side.frame ^ p.side.id)))


cdef void put_hex(uint8_t* to, uint64_t n) noexcept nogil:
    cdef const char* digits = "0123456789abcdef"
    cdef int i
    for i in range(16):
        to[i] = <uint8_t>digits[n >> (60 - 4 * i) & 15]


cdef void find_origin(PathTable* t, const Bucket* b, const Publish* p, bint told, Origin* origin) noexcept nogil:
    """The message that a publisher had received: of the nearest client; of its messages the one that went farthest, and of those
    the oldest that was not republished, otherwise the latest."""
    cdef Publish* other
    cdef Side* d
    cdef int64_t i, n, rank
    cdef int tier
    cdef bint shared = False
    for i in range(min(b.count, <int64_t>STEPS) if b != NULL else 0):
        other = b.items[b.start + b.count - 1 - i]
        if other == p or (other.hop == 1 and is_same_client(&other.side, &p.side)):
            continue                                    # a client that gets its own messages does not republish them
        if other.side.place == p.side.place:
            shared = True
        d = other.last
        n = 0
        while d != NULL and n < COPY_STEPS:
            tier = hop_tier(&other.side, d, &p.side, told)
            rank = 0 if d.republished else 1 if told else FRESH
            rank += 2 * other.hop if told else other.hop
            if tier > origin.tier or (tier and tier == origin.tier and (
                    rank > origin.rank or (rank == origin.rank and not d.republished))):
                origin.tier = tier
                origin.rank = rank
                origin.copy = d
                origin.publish = other
            d = d.before
            n += 1
    if shared and origin.tier == 1:                     # others send such messages there, too: it is one of several origins
        origin.tier = 0


cdef inline bint is_same_client(const Side* a, const Side* b) noexcept nogil:
    return a.flow_id == b.flow_id or (a.names[G_CLIENT_ID] != NULL and a.names[G_CLIENT_ID].size != 0
                                      and a.names[G_CLIENT_ID] == b.names[G_CLIENT_ID])


cdef int hop_tier(const Side* origin, const Side* d, const Side* p, bint told) noexcept nogil:
    """How near is the client of a delivery to the publisher of `p`? 3 the same connection, 2 the same client, 1 the same address,
    0 another. An address alone counts if the application says that the messages belong together, or if it is not the first
    publisher's, too."""
    if d.ts_ns > p.ts_ns:
        return 0
    if d.flow_id == p.flow_id:
        return 3
    if is_same_client(d, p):
        return 2
    if d.names[G_CLIENT_IP] == p.names[G_CLIENT_IP] and (told or origin.names[G_CLIENT_IP] != p.names[G_CLIENT_IP]):
        return 1
    return 0


# ---- a delivery

cdef struct Choice:
    Publish* publish
    int64_t number              # of its place in the bucket
    int64_t candidates
    bint again                  # this consumer has got it, and the server does not say that it delivers again


cdef bint match(PathTable* t, Side* d) noexcept nogil:
    """Find the publish of a delivery. False: it was not found."""
    cdef Choice choice, other
    cdef Bucket* b
    cdef uint64_t place
    cdef int k, turn
    choice.publish = by_transport(t, d)
    choice.candidates = 1
    if choice.publish != NULL:
        received(t, d, &choice, M_TRANSPORT)
        return True
    for k in range(RULES):
        for turn in range(2 if MATCHING[k].index == I_PLACE else 1):
            place = d.second_place if turn else d.place
            if turn and place == d.place:
                break
            b = bucket_of(t, MATCHING[k].index, key_of(d, MATCHING[k].index, place))
            if b != NULL and choose(t, b, d, &MATCHING[k], &choice):
                if choice.again and MATCHING[k].matched_by == M_PAYLOAD and MATCHING[k].related:
                    # a queue gets each message once: rather the first of a publisher that has not led to it yet
                    if choose(t, b, d, &MATCHING[RULES - 1], &other) and not other.again:
                        choice = other
                received(t, d, &choice, MATCHING[k].matched_by)
                return True
    return False


cdef Publish* by_transport(PathTable* t, const Side* d) noexcept nogil:
    """The latest publish whose delivery had this identity."""
    cdef Transport* e
    cdef Publish* best = NULL
    if d.transport == 0 or (d.protocol == P_MQTT and d.redelivered != 1):
        return NULL
    e = <Transport*>first_entry(&t.transports, d.transport)
    while e != NULL:
        if e.entry.hash == d.transport and (best == NULL or e.publish.number > best.number):
            best = e.publish
        e = <Transport*>e.entry.chain
    return best


cdef bint fits(const Publish* p, const Side* d, int index) noexcept nogil:
    if index == I_ID:
        return p.side.payload == d.payload or p.side.protocol != d.protocol
    if index == I_PAYLOAD and p.side.protocol == d.protocol and not (d.protocol == P_AMQP091 or d.protocol == P_AMQP10):
        return False                                    # these protocols deliver with the destination of the publish
    if p.side.id and d.id:
        return p.side.id == d.id
    if d.id:                                            # servers that name messages
        return d.protocol == P_NSQ or d.protocol == P_ROCKETMQ or d.protocol == P_PHPMQ
    return p.side.id == 0 or p.side.protocol != d.protocol


cdef bint related(PathTable* t, const Publish* p, const Side* d) noexcept nogil:
    return (p.side.place and (p.side.place == d.place or p.side.place == d.second_place)) or (
        stream_of(t, p, d.consumer, False) != NULL)


cdef bint choose(PathTable* t, Bucket* b, const Side* d, const Rule* rule, Choice* choice) noexcept nogil:
    """Choose a publish of a bucket for a delivery. False: none fits.

    A consumer gets each publish once, and those of a connection to a destination in their order. So the first that it has not got
    is right, if none that was published later on that connection has reached it. A client without a session gets nothing that
    was published before its login. If it has got all, or the server says that it delivers again, it is one that it has got."""
    cdef Publish* p
    cdef Stream* stream
    cdef Progress* progress = progress_of(t, b, d.consumer, False) if b.progress != NULL else NULL
    cdef int64_t begin = 0, i, k, copies
    cdef int64_t new_at = -1, passed_at = -1, got_at = -1       # the best of each kind
    cdef int64_t news = 0, passed = 0, got = 0, fewest = 0, steps = 0
    cdef bint says_again = d.redelivered == 1 or d.attempts > 1
    if rule.oldest and progress != NULL and not says_again:
        begin = max(<int64_t>0, progress.number - b.first)
    for k in range(b.count - begin):
        i = begin + k if rule.oldest and not says_again else b.count - 1 - k
        p = b.items[b.start + i]
        steps += 1
        if steps > STEPS:
            break
        if not fits(p, d, rule.index) or (rule.related and not related(t, p, d)):
            continue
        copies = got_by(t, p, d.consumer)
        if copies:
            got += 1
            if says_again:                              # the one with the fewest copies; of those the oldest
                if got_at < 0 or copies <= fewest:
                    got_at = i
                    fewest = copies
            elif got_at < 0 or rule.oldest:
                got_at = i
            continue
        stream = stream_of(t, p, d.consumer, False)
        if (stream != NULL and stream.number > p.number) or (d.by_client and d.login_ns >= 0 and p.side.ts_ns < d.login_ns):
            passed += 1
            if passed_at < 0 or (says_again and rule.oldest):
                passed_at = i
        else:
            news += 1
            if new_at < 0 or (says_again and rule.oldest):
                new_at = i
    if steps > STEPS and new_at >= 0 and rule.oldest:
        news += b.count - begin - STEPS
    if begin and new_at < 0 and passed_at < 0 and got_at < 0:   # it has got all
        for k in range(min(b.count, <int64_t>STEPS)):
            p = b.items[b.start + b.count - 1 - k]
            if fits(p, d, rule.index) and got_by(t, p, d.consumer):
                got += 1
                if got_at < 0:
                    got_at = b.count - 1 - k
    choice.again = False
    if says_again and got_at >= 0:
        i = got_at
        choice.candidates = got
    elif new_at >= 0:
        i = new_at
        choice.candidates = news
    elif passed_at >= 0:
        i = passed_at
        choice.candidates = passed
    elif got_at >= 0:
        i = got_at
        choice.candidates = got
        choice.again = True
    else:
        return False
    choice.publish = b.items[b.start + i]
    if rule.oldest and i == new_at and b.count > FULL_BUCKET:
        progress = progress_of(t, b, d.consumer, True)
        if progress != NULL:
            progress.number = max(progress.number, b.first + i + 1)
    return True


cdef void received(PathTable* t, Side* d, const Choice* choice, int matched_by) noexcept nogil:
    """A delivery has its publish."""
    cdef Publish* p = choice.publish
    cdef Stream* stream = stream_of(t, p, d.consumer, True)
    cdef Transport* e
    cdef Side* other
    cdef int64_t before = got_by(t, p, d.consumer)
    d.matched_by = matched_by
    d.candidates = <int32_t>min(choice.candidates, <int64_t>0x7FFFFFFF)
    d.attempt = d.attempts if d.attempts != ABSENT else before + 1
    d.again = before > 0 or d.redelivered == 1 or d.attempts > 1
    if stream != NULL:
        stream.number = max(stream.number, p.number)
    d.before = p.last
    if p.last != NULL:
        p.last.after = d
    else:
        p.first = d
    p.last = d
    p.copies += 1
    if p.copies > FEW_COPIES:
        other = p.first if p.copies == FEW_COPIES + 1 else d
        while other != NULL:
            count_copy(t, p, other)
            other = other.after
    t.kept += 1
    add_receiver(t, flow_of(d))
    add_receiver(t, name_hash(12, d.names[G_CLIENT_ID]))
    if d.names[G_CLIENT_IP] != p.side.names[G_CLIENT_IP] or d.correlation or d.trace or d.id:
        add_receiver(t, name_hash(13, d.names[G_CLIENT_IP]))
    if d.transport and matched_by != M_TRANSPORT:
        e = <Transport*>malloc(sizeof(Transport))
        if e == NULL:
            t.no_memory += 1
            return
        e.entry.hash = d.transport
        e.publish = p
        e.following = p.transports
        p.transports = e
        t.octets += <int64_t>sizeof(Transport) + BLOCK_OCTETS
        add_entry(&t.transports, &e.entry)


cdef void give_up(PathTable* t) noexcept nogil:
    """The delivery that has waited longest: its publish was not captured, or left too early."""
    cdef int i
    t.unmatched += 1
    free_side(t, t.waiting[0])
    t.waiting_count -= 1
    for i in range(t.waiting_count):
        t.waiting[i] = t.waiting[i + 1]


cdef void wait(PathTable* t, Side* d) noexcept nogil:
    while t.waiting_count and (t.waiting_count == WAITING_MAX or t.waiting[0].ts_ns + SLACK_NS < d.ts_ns):
        give_up(t)
    t.waiting[t.waiting_count] = d
    t.waiting_count += 1


# ---- rows

cdef void put_side_of_path(Col* c, int64_t row, int which, const Side* s) noexcept nogil:
    cdef const char* protocol = PROTOCOL_TEXT[s.protocol]
    cdef int i
    for i in range(G_COUNT):
        if s.names[i] != NULL:
            put_octets(c + G_TEXT[which][i], row, <const uint8_t*>s.names[i] + sizeof(Name), s.names[i].size)
    put_i64(c + G_FLOW_ID[which], row, s.flow_id)
    if s.client_port != ABSENT:
        put_i32(c + G_CLIENT_PORT[which], row, s.client_port)
    put_octets(c + G_PROTOCOL[which], row, <const uint8_t*>protocol, <int64_t>strlen(protocol))
    put_i64(c + G_FRAME[which], row, s.frame)
    put_us(c + G_TS[which], row, s.ts_ns)
    put_i64(c + G_TS_NS[which], row, s.ts_ns)
    put_span(c + G_MESSAGE_ID[which], row, &s.message_id)
    if s.payload_size >= 0:
        put_i64(c + G_PAYLOAD_SIZE[which], row, s.payload_size)
    if s.payload:
        put_i64(c + G_PAYLOAD_HASH[which], row, <int64_t>s.payload)


cdef void put_path(PathTable* t, const Publish* p, const Side* d) noexcept nogil:
    """A row; d: NULL if nobody has received the publish."""
    cdef Col* c = t.cols
    cdef int64_t row = t.rows
    cdef const char* matched_by
    if c == NULL:
        return
    t.rows += 1
    put_side_of_path(c, row, 0, &p.side)
    if p.side.names[G_CAPTURE] != NULL:
        put_octets(c + GC_CAPTURE, row, <const uint8_t*>p.side.names[G_CAPTURE] + sizeof(Name), p.side.names[G_CAPTURE].size)
    put_i64(c + GC_COPIES, row, p.copies)
    put_octets(c + GC_TRACE_ID, row, p.trace_id, p.trace_size)
    put_i32(c + GC_HOP, row, p.hop)
    if d == NULL:
        return
    put_side_of_path(c, row, 1, d)
    put_i64(c + GC_LATENCY, row, d.ts_ns - p.side.ts_ns)
    put_i32(c + GC_ATTEMPT, row, <int32_t>d.attempt)
    put_bool(c + GC_REDELIVERED, row, d.again)
    matched_by = MATCH_TEXT[d.matched_by]
    put_octets(c + GC_MATCHED_BY, row, <const uint8_t*>matched_by, <int64_t>strlen(matched_by))
    put_i32(c + GC_CANDIDATES, row, d.candidates)
    put_bool(c + GC_CONVERTED, row, d.protocol != p.side.protocol)


cdef void retire(PathTable* t) noexcept nogil:
    """The oldest publish and its copies have their rows."""
    cdef Publish* p = t.oldest
    cdef Side* d = p.first
    cdef Side* following
    cdef Receipt* receipt
    cdef Transport* e
    cdef int k
    if d == NULL:
        put_path(t, p, NULL)
    while d != NULL:
        following = d.after
        put_path(t, p, d)
        free_side(t, d)
        t.kept -= 1
        d = following
    while p.receipts != NULL:
        receipt = p.receipts
        p.receipts = receipt.following
        remove_entry(&t.receipts, &receipt.entry)
        t.octets -= <int64_t>sizeof(Receipt) + BLOCK_OCTETS
        free(receipt)
    while p.transports != NULL:
        e = p.transports
        p.transports = e.following
        remove_entry(&t.transports, &e.entry)
        t.octets -= <int64_t>sizeof(Transport) + BLOCK_OCTETS
        free(e)
    for k in range(I_COUNT):
        take_first(t, p.buckets[k])
    t.oldest = p.newer
    if t.oldest == NULL:
        t.newest = NULL
    t.kept -= 1
    free_side(t, &p.side)
