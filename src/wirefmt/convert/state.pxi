# The state of a running conversion; notes; and the conditions of rows.
from libc.string cimport memchr, strchr, strlen


cdef enum ConvertWhat:              # the kinds of notes
    CONVERT_TAKEN = 0               # not a loss: noted only if every row is to be reported
    CONVERT_DROPPED = 1
    CONVERT_NARROWED = 2            # a part of it was lost
    CONVERT_MOVED = 3               # it has another kind of place, for instance a header


cdef enum ConvertReason:
    REASON_NONE = 0                 # nothing was lost
    REASON_ROW = 1
    REASON_NO_ROW = 2
    REASON_TOO_LONG = 3
    REASON_INVALID = 4
    REASON_PERCENT = 5
    REASON_WRAPS = 6
    REASON_ROUNDS = 7
    REASON_DUPLICATE = 8
    REASON_NO_TEXT = 9
    REASON_KEY = 10
    REASON_DEPTH = 11
    REASON_REPLACED = 12
    REASON_VALUE = 13
    REASON_UUID = 14
    REASON_TOPIC = 15
    REASON_WITHHELD = 16
    REASON_COUNT = 17


CONVERT_REASONS = (
    "", "the rule says so", "no rule matches", "too long for the target", "not valid in the target's protocol",
    "invalid percent-encoding", "too large for the target: the low bits remain", "rounded toward zero",
    "a second value of one key", "has no text form", "not a valid key in the target", "nested too deep for the target",
    "replaced by another value", "the target has no such value: replaced by another",
    "only the 16 bytes of the uuid remain", "one separator of topics and routing keys becomes the other's",
    "a broker does not pass it on",
)


cdef enum:                          # buffers: the origin of the octets of a note
    BUFFER_NONE = 0                 # there are no octets
    BUFFER_OCTETS = 1               # the message; of AMQP 0.9.1 its properties
    BUFFER_BODY = 2                 # the body of AMQP 0.9.1
    BUFFER_DERIVED = 3              # a copy of octets from elsewhere, in `derived`
    BUFFER_COUNT = 4


cdef struct ConvertPlace:           # the octets of a note. Not a pointer: notes outlive the memory of a Converter
    uint8_t buffer                  # BUFFER_...
    uint32_t offset, size


cdef struct ConvertNote:
    uint16_t number                 # row; 0: none
    uint8_t field                   # of the source
    uint8_t type
    uint8_t what                    # a ConvertWhat
    uint8_t reason                  # a ConvertReason
    ConvertPlace key, octets


cdef struct ConvertOrigin:          # the source value of a part of the target
    uint16_t number                 # row; 0: none
    uint8_t field, type             # of the source; type CONVERT_ABSENT: no value, or the broker's
    uint32_t note                   # the note that reports its outcome, from 1 on; 0: none
    Span key, octets


cdef struct ConvertSlot:            # a field of the target
    uint8_t type                    # a type of the target; 0: not set
    uint8_t known                   # x.origins has the source value
    uint64_t number
    Span octets


cdef struct ConvertEntry:           # a header, annotation or property of the target
    size_t begin                    # its beginning in its list; it ends where the next one begins
    ConvertOrigin origin


cdef struct ConvertValue:           # a value of the source
    uint8_t type
    uint64_t number                 # whole numbers, as 64 bits of two's complement; bits of floats
    Span octets                     # strings, binaries, uuids; for other types, the encoded value
    Span key                        # absent: no header, annotation or property
    Amqp10ValueView amqp10
    Amqp091Entry amqp091


cdef struct ConvertChunk:
    ConvertChunk* next


cdef enum:
    CONVERT_SCRATCH = 1024          # octets of derived values without an allocation
    CONVERT_FEW_ENTRIES = 12        # entries of a list without an allocation


cdef enum ConvertStatus:            # besides OK: why a message is not converted
    CONVERT_REFUSED = 100           # `refused` and `number` name the rule
    CONVERT_UNDECODABLE = 101       # `fault` has the reason


cdef enum ConvertRefused:           # refusals without a row
    REFUSED_BY_ROW = 0
    REFUSED_BODY_MISSING = 1
    REFUSED_SECTION_ORDER = 2
    REFUSED_SECTION_UNKNOWN = 3
    REFUSED_SECTION_COUNT = 4
    REFUSED_ANNOTATION_KEY = 5
    REFUSED_CC = 6
    REFUSED_TOO_LARGE = 7
    REFUSED_NO_RULES = 8
    REFUSED_ARRAY = 9
    REFUSED_TOPIC = 10
    REFUSED_NO_TOPIC = 11


CONVERT_REFUSALS = (
    ("", ""),
    ("amqp10:body-missing", "the message has no body"),
    ("amqp10:section-order", "sections are out of order, or bodies of different kinds are mixed"),
    ("amqp10:section-unknown", "a section that the specification does not know"),
    ("amqp10:section-count", "more than 10000 sections"),
    ("amqp10:annotation-key", "the key of an annotation is not a symbol that begins with x-"),
    ("amqp10:x-cc", "x-cc is not a list of strings"),
    ("too-large", "the result would be larger than its protocol allows"),
    ("pair", "no rules for this pair of protocols"),
    ("amqp10:array-constructor", "an array whose elements are in a short encoding"),
    ("mqtt5:topic", "the routing key is not a valid topic: it would contain wildcards, or it is not text"),
    ("mqtt5:no-topic", "no routing key to become the topic"),
)


cdef enum ConvertTopics:            # between MQTT topics and routing keys
    TOPICS_TRANSLATED = 0           # / becomes . and + becomes *
    TOPICS_SPARKPLUG = 1            # ... and the version of Sparkplug's namespace is kept (mqtt.sparkplug)
    TOPICS_UNCHANGED = 2


CONVERT_TOPICS = ("translated", "sparkplug", "unchanged")

# defaults of arguments
cdef str CONVERT_EXCHANGE = "amq.topic"
cdef str CONVERT_TRANSLATED = CONVERT_TOPICS[0]


cdef struct Converter:
    const ConvertRow* rows
    const ConvertPair* pair
    const ConvertPair* publishing   # rows that refuse a message for every consumer
    uint8_t source, target          # a ConvertProtocol
    uint8_t valid                   # drop values that the target's specification does not allow
    uint8_t explain                 # note every row that was used, not only losses
    uint8_t stored                  # AMQP 1.0: as a queue keeps it, without the header
    uint8_t entry                   # AMQP 1.0: an entry of a stream, whose sections may be in any order
    uint8_t anew                    # AMQP 1.0 in its own protocol: properties are written again too
    uint8_t annotation_keys         # refuse keys of annotations that do not begin with x-
    uint8_t sections_checked        # refuse messages without a body, or with sections out of order
    uint8_t all_fields              # write nulls after the last field of a header or properties
    uint8_t short_arrays            # refuse arrays whose elements are in a short encoding
    uint8_t short_strings           # octets of the longest string or binary whose size is written in one octet
    uint8_t topics                  # a ConvertTopics
    uint8_t plain_addresses         # without percent-encoding
    Span mqtt_exchange
    Span given[BUFFER_COUNT]        # the source, by BUFFER_...
    # ---- what readers have found, for conditions
    uint8_t has_header, jms_topic, formatted, amqp_encoded, sorted, headers
    Span body                       # all body sections, with the footer
    Span rest                       # body sections only
    # ---- the current value
    uint8_t field                   # of the source
    uint8_t narrowed                # a ConvertReason: a part of it is lost
    uint8_t reason                  # why it cannot go to the place that its row names
    ConvertOrigin* latest           # its converted form so far
    const ConvertRow* culprit       # the row of types that drops it; NULL: the row of its field
    # ---- the target
    ConvertSlot slots[CONVERT_FIELDS_MAX]
    Octets lists[2]                 # headers, annotations or user properties; application properties
    uint32_t counts[2]
    uint32_t broker                 # the broker's annotations in lists[0]; the message's own with the same key are dropped
    uint8_t body_field              # of the target
    Span payload
    Span sections[9]                # AMQP 1.0: values of whole sections that replace the present ones
    Span sections_body              # AMQP 1.0: body sections and footer that replace the present ones
    # ---- outcome
    Octets notes                    # ConvertNote, one after another
    Octets derived                  # octets of notes that are not in the source
    Octets entries[2]               # ConvertEntry of each entry of `lists`; not for MQTT, whose entries are never replaced
    Fault fault
    uint8_t refused
    uint16_t number
    ConvertChunk* chunks
    bint failed                     # no memory
    uint8_t* free_at
    size_t free_size
    uint8_t scratch[CONVERT_SCRATCH]
    uint8_t first[512]
    uint8_t second[512]
    ConvertEntry first_entries[CONVERT_FEW_ENTRIES]
    ConvertEntry second_entries[CONVERT_FEW_ENTRIES]
    ConvertOrigin origins[CONVERT_FIELDS_MAX]   # of slots, if `known`
    ConvertOrigin section_origins[9]            # of `sections`, if there are any


cdef void convert_begin(Converter* x, ConvertRules rules, int source, int target) noexcept:
    memset(x, 0, <size_t>(<uint8_t*>x.scratch - <uint8_t*>x))
    x.rows = rules.rows
    x.pair = convert_pair(rules, source, target)
    x.publishing = convert_pair(rules, source, CONVERT_AMQP091 if source == CONVERT_AMQP10 else CONVERT_AMQP10)
    x.source = <uint8_t>source
    x.target = <uint8_t>target
    x.valid = rules.valid
    x.annotation_keys = rules.annotation_keys
    x.short_arrays = rules.short_arrays
    x.sections_checked = rules.sections
    x.all_fields = rules.all_fields
    x.short_strings = rules.short_strings
    x.free_at = x.scratch
    x.free_size = CONVERT_SCRATCH
    x.lists[0] = octets_over(x.first, sizeof(x.first))
    x.lists[1] = octets_over(x.second, sizeof(x.second))
    x.entries[0] = octets_over(<uint8_t*>x.first_entries, sizeof(x.first_entries))
    x.entries[1] = octets_over(<uint8_t*>x.second_entries, sizeof(x.second_entries))


cdef inline Span span_of_bytes(bytes b):
    cdef Span s
    s.at = <const uint8_t*>b"" if b is None else begin_of(b)
    s.size = 0 if b is None else <uint32_t>PyBytes_GET_SIZE(b)
    return s


cdef inline void convert_choose(Converter* x, int topics, bint percent_encoding, bytes exchange) noexcept:
    """What a caller chooses beside the dialect. `exchange`: of MQTT topics in reply-to addresses."""
    x.topics = <uint8_t>topics
    x.plain_addresses = not percent_encoding
    x.mqtt_exchange.at = begin_of(exchange)
    x.mqtt_exchange.size = <uint32_t>PyBytes_GET_SIZE(exchange)


cdef inline void convert_give(Converter* x, int buffer, const uint8_t* p, size_t n) noexcept nogil:
    """Set the source buffers, before any value of the source is noted."""
    x.given[buffer].at = p
    x.given[buffer].size = <uint32_t>n


cdef void convert_end(Converter* x) noexcept nogil:
    cdef int i
    convert_free_chunks(x)
    for i in range(2):
        free_octets(&x.lists[i])
        free_octets(&x.entries[i])
    free_octets(&x.notes)
    free_octets(&x.derived)


cdef void convert_free_chunks(Converter* x) noexcept nogil:
    cdef ConvertChunk* chunk
    while x.chunks != NULL:
        chunk = x.chunks
        x.chunks = chunk.next
        free(chunk)


cdef uint8_t* convert_reserve(Converter* x, size_t size) noexcept nogil:
    """Memory that lives as long as the Converter, aligned for pointers. NULL: memory ran out, and the conversion fails."""
    cdef ConvertChunk* chunk
    cdef uint8_t* at
    cdef size_t astray = <size_t>x.free_at % sizeof(void*)
    if astray:
        astray = min(sizeof(void*) - astray, x.free_size)
        x.free_at += astray
        x.free_size -= astray
    if size > x.free_size:
        chunk = <ConvertChunk*>malloc(sizeof(ConvertChunk) + max(size, <size_t>CONVERT_SCRATCH))
        if chunk == NULL or size > <size_t>0xFFFFFFFF:
            free(chunk)
            x.failed = True
            return NULL
        chunk.next = x.chunks
        x.chunks = chunk
        x.free_at = <uint8_t*>(chunk + 1)
        x.free_size = max(size, <size_t>CONVERT_SCRATCH)
    at = x.free_at
    x.free_at += size
    x.free_size -= size
    return at


# ------------------------------------------------------------------------------------------------ notes and origins

# Nothing of the source is lost without a note, because the code that drops something notes it:
#
# - a value passed to rows: convert_take notes its outcome;
# - a nested value: convert_leave_out removes the part already written;
# - a field of the target that is set again or cleared: convert_fill, convert_set, convert_clear;
# - an entry of a list that is removed: convert_drop_entry, convert_drop_entries;
# - a whole section that another one replaces: convert_set_section, convert_leave_section.

cdef inline void convert_place(Converter* x, const Span* s, ConvertPlace* place) noexcept nogil:
    """The reference to octets: an offset into the source, or into a copy if they are not in the source."""
    cdef size_t offset = <size_t>s.at - <size_t>x.given[BUFFER_OCTETS].at
    place.size = s.size
    if offset <= x.given[BUFFER_OCTETS].size and s.size <= x.given[BUFFER_OCTETS].size - offset:
        place.buffer = BUFFER_OCTETS
        place.offset = <uint32_t>offset
    elif s.at == NULL:
        place.buffer = BUFFER_NONE
        place.offset = 0
    else:
        convert_place_elsewhere(x, s, place)


cdef void convert_place_elsewhere(Converter* x, const Span* s, ConvertPlace* place) noexcept nogil:
    cdef size_t offset = <size_t>s.at - <size_t>x.given[BUFFER_BODY].at
    if offset <= x.given[BUFFER_BODY].size and s.size <= x.given[BUFFER_BODY].size - offset:
        place.buffer = BUFFER_BODY
        place.offset = <uint32_t>offset
        return
    place.buffer = BUFFER_DERIVED
    place.offset = <uint32_t>x.derived.size
    add_octets(&x.derived, s.at, s.size)
    if x.derived.failed or x.derived.size > 0x7FFFFFFF:
        x.failed = True


cdef inline Span convert_octets_of(const ConvertPlace* place, const Span* buffers) noexcept nogil:
    """The octets of a note; `buffers`: by BUFFER_...."""
    cdef Span s
    s.at = NULL
    if place.buffer != BUFFER_NONE:
        s.at = buffers[place.buffer].at + place.offset
    s.size = place.size
    return s


cdef inline void convert_remember(ConvertOrigin* origin, const ConvertRow* row, int field,
                                  const ConvertValue* v) noexcept nogil:
    origin.number = row.number if row != NULL else 0
    origin.field = <uint8_t>field
    origin.type = v.type
    origin.note = 0
    origin.key = v.key
    origin.octets = v.octets


cdef void convert_note_origin(Converter* x, const ConvertOrigin* origin, int what, int reason) noexcept nogil:
    cdef ConvertNote* note
    if origin.type == CONVERT_ABSENT:
        return
    if origin.note:                             # a value that was first converted, narrowed or moved
        note = <ConvertNote*>x.notes.at + (origin.note - 1)
        note.what = <uint8_t>what
        note.reason = <uint8_t>reason
        return
    note = <ConvertNote*>extend_octets(&x.notes, sizeof(ConvertNote))
    if note == NULL:
        x.failed = True
        return
    note.number = origin.number
    note.field = origin.field
    note.type = origin.type
    note.what = <uint8_t>what
    note.reason = <uint8_t>reason
    convert_place(x, &origin.key, &note.key)
    convert_place(x, &origin.octets, &note.octets)


cdef void convert_note(Converter* x, const ConvertRow* row, int field, const ConvertValue* v, int what,
                       int reason) noexcept nogil:
    """Note the outcome of a value of the source; `field` 0: a nested value."""
    cdef ConvertOrigin origin
    convert_remember(&origin, row, field, v)
    convert_note_origin(x, &origin, what, reason)


cdef inline void convert_report(Converter* x, const ConvertRow* row, const ConvertValue* v, int what,
                              int reason) noexcept nogil:
    """Note the outcome of the current value, x.field, which was converted; a later value may still replace it."""
    convert_note(x, row, x.field, v, what, reason)
    if x.latest != NULL:
        x.latest.note = <uint32_t>(x.notes.size // sizeof(ConvertNote))


cdef void convert_leave_out(Converter* x, Octets* o, size_t before, const ConvertValue* v, int reason) noexcept nogil:
    """A nested value cannot be converted: remove the part already written."""
    o.size = before
    convert_note(x, x.culprit, 0, v, CONVERT_DROPPED, reason)
    x.culprit = NULL


cdef inline bint convert_equal(const Span* a, const Span* b) noexcept nogil:
    return a.size == b.size and (a.size == 0 or memcmp(a.at, b.at, a.size) == 0)


# ---- fields of the target

cdef void convert_displace(Converter* x, int field, int reason) noexcept nogil:
    """Note that the value of a field of the target is dropped."""
    if x.slots[field].known:
        convert_note_origin(x, &x.origins[field], CONVERT_DROPPED, reason)
        x.slots[field].known = 0


cdef inline void convert_fill(Converter* x, int field, int type, Span s, uint64_t n, const ConvertRow* row,
                              const ConvertValue* v) noexcept nogil:
    """Put the converted value of the source, x.field, into a field of the target."""
    cdef ConvertSlot* slot = &x.slots[field]
    if slot.known:
        convert_displace(x, field, REASON_REPLACED)
    slot.type = <uint8_t>type
    slot.number = n
    slot.octets = s
    slot.known = 1
    x.latest = &x.origins[field]
    convert_remember(x.latest, row, x.field, v)


cdef void convert_set(Converter* x, int field, int type, uint64_t n) noexcept nogil:
    """Put a number from elsewhere into a field of the target."""
    cdef ConvertSlot* slot = &x.slots[field]
    if slot.type != type or slot.number != n:
        convert_displace(x, field, REASON_REPLACED)
    slot.type = <uint8_t>type
    slot.number = n


cdef void convert_set_text(Converter* x, int field, int type, Span s) noexcept nogil:
    """Put octets from elsewhere into a field of the target."""
    cdef ConvertSlot* slot = &x.slots[field]
    if slot.type != type or not convert_equal(&slot.octets, &s):
        convert_displace(x, field, REASON_REPLACED)
    slot.type = <uint8_t>type
    slot.octets = s


cdef void convert_clear(Converter* x, int field) noexcept nogil:
    """Clear a field of the target that a broker does not pass on."""
    convert_displace(x, field, REASON_WITHHELD)
    x.slots[field].type = 0


# ---- entries of lists

cdef inline void convert_keep(Converter* x, int list_, size_t begin, const ConvertRow* row, int field,
                              const ConvertValue* v) noexcept nogil:
    """Record an entry that was written to the end of a list, from `begin` on."""
    cdef ConvertEntry* entry = <ConvertEntry*>extend_octets(&x.entries[list_], sizeof(ConvertEntry))
    if entry == NULL:
        x.failed = True
        return
    entry.begin = begin
    x.latest = &entry.origin
    convert_remember(x.latest, row, field, v)
    x.counts[list_] += 1


cdef inline ConvertEntry* convert_entries(const Converter* x, int list_) noexcept nogil:
    return <ConvertEntry*>x.entries[list_].at


cdef void convert_drop_entry(Converter* x, int list_, uint32_t i, int reason) noexcept nogil:
    """Note that an entry is not written."""
    convert_note_origin(x, &convert_entries(x, list_)[i].origin, CONVERT_DROPPED, reason)


cdef void convert_drop_entries(Converter* x, int list_, uint32_t first, int reason) noexcept nogil:
    """Remove all entries except the first `first` ones from a list."""
    cdef uint32_t i
    if first >= x.counts[list_]:
        return
    for i in range(first, x.counts[list_]):
        convert_drop_entry(x, list_, i, reason)
    x.lists[list_].size = convert_entries(x, list_)[first].begin
    x.entries[list_].size = first * sizeof(ConvertEntry)
    x.counts[list_] = first


cdef inline void convert_plain(ConvertValue* v) noexcept nogil:
    """A value that has no key."""
    v.key.at = NULL
    v.key.size = 0


cdef inline uint64_t convert_ms(Converter* x, uint64_t s) noexcept nogil:
    """Seconds in milliseconds. Timestamps of AMQP 1.0 are signed: a larger number becomes another time."""
    if s > 0x7FFFFFFFFFFFFFFFULL / 1000:
        x.narrowed = REASON_WRAPS
    return s * 1000


cdef enum ConvertDone:
    DONE_YES = 0
    DONE_NO = 1                     # the row is for this value, but cannot convert it: x.reason says why
    DONE_NEXT = 2                   # the row is not for this value after all
    DONE_REFUSED = 3


# ------------------------------------------------------------------------------------------------ conditions

cdef inline bint convert_key_fits(const ConvertRow* row, const ConvertValue* v) noexcept nogil:
    if v.key.at == NULL or v.key.size < row.key_size or (v.key.size > row.key_size and not row.key_prefix):
        return False
    return memcmp(v.key.at, row.key, row.key_size) == 0


cdef bint convert_when(const Converter* x, const ConvertRow* row, const ConvertValue* v) noexcept nogil:
    cdef const Span* s = &v.octets
    cdef int when = row.when
    if when == WHEN_SHORTSTR:
        return s.size < 256 and convert_is_text(s)
    if when == WHEN_SHORT:
        return s.size < 256
    if when == WHEN_OVER_255:
        return s.size > 255
    if when == WHEN_UTF8:
        return convert_is_text(s)
    if when == WHEN_UTF8_4096:
        return s.size <= 4096 and convert_is_text(s)
    if when == WHEN_ASCII:
        return is_ascii(s.at, s.size)
    if when == WHEN_ASCII_SHORT:
        return s.size < 256 and is_ascii(s.at, s.size)
    if when == WHEN_URN_UUID:
        return convert_urn(s, NULL, True)
    if when == WHEN_URN_UUID_LOOSE:
        return convert_urn(s, NULL, False)
    if when == WHEN_NUMERIC or when == WHEN_NOT_EXPIRATION:
        return convert_is_number(s, when == WHEN_NOT_EXPIRATION) == (when == WHEN_NUMERIC)
    if when == WHEN_FINITE:
        return convert_is_finite(x, v)
    if when == WHEN_KEY_SHORTSTR:
        return v.key.size < 256 and convert_is_text(&v.key)
    if when == WHEN_KEY_SHORT:
        return v.key.size < 256
    if when == WHEN_KEY_ASCII:
        return is_ascii(v.key.at, v.key.size)
    if when == WHEN_QUEUE:
        return s.size < 256 and convert_begins(s, b"/queues/", 8)
    if when == WHEN_MQTT_EXCHANGE:
        return convert_key_of_address(x, s, False) != NULL
    if when == WHEN_OLD_MQTT_EXCHANGE:
        return convert_key_of_address(x, s, True) != NULL
    if when == WHEN_JMS_TOPIC:
        return x.jms_topic
    if when == WHEN_UNSET:
        return x.slots[row.target].type == 0
    if when == WHEN_FORMATTED:
        return x.formatted and (not x.valid or convert_is_text(s))
    return x.amqp_encoded           # WHEN_AMQP_ENCODED


cdef inline bint convert_is_text(const Span* s) noexcept nogil:
    cdef size_t bad = 0
    return check_utf8(s.at, s.size, &bad) == UTF8_OK


cdef inline bint convert_begins(const Span* s, const char* with_, size_t size) noexcept nogil:
    return s.size >= size and memcmp(s.at, with_, size) == 0


cdef int convert_is_number(const Span* s, bint limited) noexcept nogil:
    """Digits, with an optional plus; `limited`: at most ten years in milliseconds (RabbitMQ, check_expiration)."""
    cdef uint64_t number = 0
    return convert_number(s, &number) and (not limited or number <= 315360000000ULL)


cdef bint convert_number(const Span* s, uint64_t* number) noexcept nogil:
    """A whole number. False: it needs more than 64 bits."""
    cdef uint32_t i = 1 if s.size and s.at[0] == c"+" else 0
    cdef bint minus = s.size > 0 and s.at[0] == c"-"
    cdef uint64_t n = 0
    if minus:
        i = 1
    if i == s.size:
        return False
    while i < s.size:
        if s.at[i] < c"0" or s.at[i] > c"9" or n > (<uint64_t>-1 - 9) / 10:
            return False
        n = n * 10 + s.at[i] - c"0"
        i += 1
    number[0] = n
    return not minus or n == 0


cdef bint convert_is_finite(const Converter* x, const ConvertValue* v) noexcept nogil:
    """Is a float or double finite (its exponent is not all ones)? Values of other types are."""
    if v.type == (<int>AMQP10_FLOAT if x.source == CONVERT_AMQP10 else <int>C91T_FLOAT):
        return v.number & 0x7F800000 != 0x7F800000
    if v.type == (<int>AMQP10_DOUBLE if x.source == CONVERT_AMQP10 else <int>C91T_DOUBLE):
        return v.number & 0x7FF0000000000000ULL != 0x7FF0000000000000ULL
    return True


cdef const uint8_t* convert_key_of_address(const Converter* x, const Span* s, bint old) noexcept nogil:
    """Position of the routing key in /exchanges/:exchange/:key (`old`: /exchange/...), if the exchange equals MQTT's octet for
    octet; otherwise NULL."""
    cdef uint32_t n = x.mqtt_exchange.size
    cdef uint32_t before = 10 if old else 11
    if not convert_begins(s, b"/exchange/" if old else b"/exchanges/", before) or s.size - before <= n:
        return NULL
    if memcmp(s.at + before, x.mqtt_exchange.at, n) != 0 or s.at[before + n] != c"/":
        return NULL
    return s.at + before + n + 1


# ------------------------------------------------------------------------------------------------ text of numbers and uuids

cdef Span convert_decimal(Converter* x, uint64_t n) noexcept nogil:
    """A non-negative number, in digits."""
    cdef uint8_t digits[DIGITS_CAPACITY]
    cdef Span s
    s.size = <uint32_t>write_digits(False, n, digits)
    s.at = convert_copy(x, digits, s.size)
    return s


cdef uint8_t* convert_copy(Converter* x, const void* p, size_t size) noexcept nogil:
    cdef uint8_t* at = convert_reserve(x, size)
    if at == NULL:
        return x.scratch
    memcpy(at, p, size)
    return at


cdef bint convert_urn(const Span* s, uint8_t* out, bint strict) noexcept nogil:
    """urn:uuid: and 36 octets to 16, if `out` is given. `strict`: 8-4-4-4-12 hexadecimal digits. Otherwise as in RabbitMQ
    (mc_util:urn_string_to_uuid): dashes anywhere between pairs of digits; of more than 16 octets, the first 16."""
    cdef const uint8_t* p = s.at + 9
    cdef int i = 0, n = 0
    if s.size != 45 or memcmp(s.at, b"urn:uuid:", 9) != 0:
        return False
    while i < 36:
        if p[i] == c"-":
            if strict and i != 8 and i != 13 and i != 18 and i != 23:
                return False
            i += 1
            continue
        if strict and (i == 8 or i == 13 or i == 18 or i == 23):
            return False
        if i == 35 or hex2(p + i) > 0xFF:
            return False
        if out != NULL and n < 16:
            out[n] = <uint8_t>hex2(p + i)
        n += 1
        i += 2
    return n >= 16
