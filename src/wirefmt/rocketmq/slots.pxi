# The fields of extFields that have a column of their own in captures.

cdef enum RocketmqSlot:                 # the meaning of fields in any header
    ROCKETMQ_TOPIC, ROCKETMQ_GROUP, ROCKETMQ_PRODUCER_GROUP, ROCKETMQ_QUEUE_ID, ROCKETMQ_QUEUE_OFFSET
    ROCKETMQ_PHYSICAL_OFFSET, ROCKETMQ_PROPERTIES, ROCKETMQ_SYS_FLAG, ROCKETMQ_MESSAGE_FLAG, ROCKETMQ_BORN_TIMESTAMP
    ROCKETMQ_STORE_TIMESTAMP, ROCKETMQ_RECONSUME_TIMES, ROCKETMQ_BROKER_NAME, ROCKETMQ_MESSAGE_ID
    ROCKETMQ_TRANSACTION_ID, ROCKETMQ_CLIENT_ID, ROCKETMQ_SUBSCRIPTION, ROCKETMQ_NEXT_BEGIN_OFFSET, ROCKETMQ_MIN_OFFSET
    ROCKETMQ_MAX_OFFSET
    ROCKETMQ_SLOTS


cdef enum:
    ROCKETMQ_SLOT_NAMES = 32
    ROCKETMQ_SLOT_LEAST = 4                                 # octets of a name
    ROCKETMQ_SLOT_FACTOR = <uint32_t>0x9E3779CB             # gives each name a number of its own


cdef Text[ROCKETMQ_SLOT_NAMES] ROCKETMQ_SLOT_NAME
cdef uint8_t[ROCKETMQ_SLOT_NAMES] ROCKETMQ_SLOT_OF
cdef uint8_t[64] ROCKETMQ_SLOT_ROW                          # rocketmq_slot_number -> row of the two above
cdef int8_t[26] ROCKETMQ_LETTER_SLOT                        # of the names of SEND_MESSAGE_V2; -1: none

cdef tuple ROCKETMQ_SLOT_ROWS = (
    ("topic", ROCKETMQ_TOPIC),
    ("consumerGroup", ROCKETMQ_GROUP),
    ("group", ROCKETMQ_GROUP),
    ("producerGroup", ROCKETMQ_PRODUCER_GROUP),
    ("queueId", ROCKETMQ_QUEUE_ID),
    ("queueOffset", ROCKETMQ_QUEUE_OFFSET),
    ("commitOffset", ROCKETMQ_QUEUE_OFFSET),        # PULL_MESSAGE differs: its queueOffset comes first
    ("offset", ROCKETMQ_QUEUE_OFFSET),
    ("commitLogOffset", ROCKETMQ_PHYSICAL_OFFSET),
    ("properties", ROCKETMQ_PROPERTIES),
    ("sysFlag", ROCKETMQ_SYS_FLAG),
    ("flag", ROCKETMQ_MESSAGE_FLAG),
    ("bornTimestamp", ROCKETMQ_BORN_TIMESTAMP),
    ("storeTimestamp", ROCKETMQ_STORE_TIMESTAMP),
    ("reconsumeTimes", ROCKETMQ_RECONSUME_TIMES),
    ("bname", ROCKETMQ_BROKER_NAME),
    ("brokerName", ROCKETMQ_BROKER_NAME),
    ("msgId", ROCKETMQ_MESSAGE_ID),
    ("transactionId", ROCKETMQ_TRANSACTION_ID),
    ("clientID", ROCKETMQ_CLIENT_ID),
    ("clientId", ROCKETMQ_CLIENT_ID),
    ("subscription", ROCKETMQ_SUBSCRIPTION),
    ("nextBeginOffset", ROCKETMQ_NEXT_BEGIN_OFFSET),
    ("minOffset", ROCKETMQ_MIN_OFFSET),
    ("maxOffset", ROCKETMQ_MAX_OFFSET),
)


cdef inline uint32_t rocketmq_slot_number(const uint8_t* p, uint32_t n) noexcept nogil:
    return ((load_u32(p) ^ (load_u32(p + n - 4) + n)) * ROCKETMQ_SLOT_FACTOR) >> 26


cdef int fill_rocketmq_slots() except -1:
    cdef int i
    cdef uint32_t number
    cdef dict slots = dict(ROCKETMQ_SLOT_ROWS)
    cdef set numbers = set()
    unknown = slots.keys() - {field.partition(":")[0] for row in ROCKETMQ_HEADER_ROWS
                              for field in f"{row.fields} {row.inherits}".split()}
    if unknown:
        raise KeyError(f"no header has these fields: {unknown}")
    if len(slots) > ROCKETMQ_SLOT_NAMES:
        raise IndexError("ROCKETMQ_SLOT_NAMES is too small")
    for i, (name, slot) in enumerate(ROCKETMQ_SLOT_ROWS):
        ROCKETMQ_SLOT_NAME[i] = pad_text(name.encode())
        ROCKETMQ_SLOT_OF[i] = slot
        number = rocketmq_slot_number(ROCKETMQ_SLOT_NAME[i].at, <uint32_t>len(name))
        if len(name) < ROCKETMQ_SLOT_LEAST or number in numbers:
            raise ValueError("ROCKETMQ_SLOT_FACTOR does not distinguish the names")
        numbers.add(number)
        ROCKETMQ_SLOT_ROW[number] = <uint8_t>i
    for i in range(26):
        ROCKETMQ_LETTER_SLOT[i] = <int8_t>slots.get(ROCKETMQ_LETTERS.get(chr(97 + i)), -1)
    return 0


fill_rocketmq_slots()


cdef struct RocketmqSlots:              # the fields that have a column
    const uint8_t* at                               # RocketmqSlot -> which of `values`
    const RocketmqText* values                      # of RocketmqFields, or `held`
    uint8_t[ROCKETMQ_SLOTS] found
    RocketmqText[ROCKETMQ_FIELDS_KEPT + 1] held     # values that are not in RocketmqFields; the last one is null


cdef inline const RocketmqText* rocketmq_slot(const RocketmqSlots* slots, RocketmqSlot slot) noexcept nogil:
    """The value of the field; its form is ROCKETMQ_NULL if it is absent."""
    return &slots.values[slots.at[<int>slot]]


cdef inline int rocketmq_slot_of(const RocketmqSlots* slots, bint letters, const RocketmqText* key) noexcept nogil:
    """The slot of a field; -1: none. Of several fields for one slot the last counts. But commitOffset after queueOffset has no
    slot: PULL_MESSAGE has both."""
    cdef const Text* name
    cdef int i
    if letters and key.size == 1 and c"a" <= key.at[0] <= c"z":
        return ROCKETMQ_LETTER_SLOT[key.at[0] - c"a"]
    if key.size < ROCKETMQ_SLOT_LEAST:
        return -1
    i = ROCKETMQ_SLOT_ROW[rocketmq_slot_number(key.at, key.size)]
    name = &ROCKETMQ_SLOT_NAME[i]
    if <uint32_t>name.size != key.size or not same_octets(name.at, key.at, key.size):
        return -1
    i = ROCKETMQ_SLOT_OF[i]
    if (i == ROCKETMQ_QUEUE_OFFSET and slots.values[slots.found[i]].form != ROCKETMQ_NULL
            and rocketmq_is(key, b"commitOffset", 12)):
        return -1
    return i


cdef inline void rocketmq_slots(const RocketmqFrameView* m, const RocketmqFields* fields, bint letters,
                                RocketmqSlots* slots) noexcept nogil:
    if fields != NULL and fields.shape != NULL:
        slots.at = &fields.shape.slots[0]
        slots.values = &fields.values[0]
    else:
        rocketmq_find_slots(m, fields, letters, slots)


cdef void rocketmq_find_slots(const RocketmqFrameView* m, const RocketmqFields* fields, bint letters,
                              RocketmqSlots* slots) noexcept nogil:
    cdef RocketmqWalk walk
    cdef int i, k
    slots.at = slots.found
    memset(slots.found, ROCKETMQ_FIELDS_KEPT, sizeof(slots.found))
    if rocketmq_are_kept(m, fields):
        slots.values = &fields.values[0]
        for k in range(fields.count):
            i = rocketmq_slot_of(slots, letters, &fields.keys[k])
            if i >= 0:
                slots.found[i] = <uint8_t>k
        return
    slots.values = slots.held
    slots.held[ROCKETMQ_FIELDS_KEPT].form = ROCKETMQ_NULL
    rocketmq_walk(&walk, m, fields)
    while rocketmq_step(&walk):
        i = rocketmq_slot_of(slots, letters, walk.key)
        if i >= 0:
            slots.held[i] = walk.value[0]
            slots.found[i] = <uint8_t>i
