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
cdef Text[M_COUNT] MATCH_TEXT
for _i in range(M_COUNT):
    MATCH_TEXT[<int>_i] = pad_text(_MATCHES[_i])


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
    Pool pool
    Entries names, buckets, progress, receipts, transports, streams
    Stream* all_streams
    Side* waiting[WAITING_MAX]
    int waiting_count
    uint8_t[RECEIVER_OCTETS] receivers    # who has received something: a Bloom filter of one hash
    Col* cols
    Noted places                # of each row the destination and routing key of its publish: equal numbers for equal ones
    bint places_wanted
    int64_t rows, emitted
    int64_t late, evicted, unmatched, no_memory, octets
