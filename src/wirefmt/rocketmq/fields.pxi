# The entries of extFields, one by one.

cdef inline void rocketmq_copy_text(RocketmqText* to, const RocketmqText* t) noexcept nogil:
    """Member by member: a copy of 16 octets would wait for the single members to be written."""
    to.at = t.at
    to.size = t.size
    to.form = t.form


cdef inline void rocketmq_set_text(RocketmqText* to, const uint8_t* at, const uint8_t* end, uint8_t form) noexcept nogil:
    to.at = at
    to.size = <uint32_t>(end - at)
    to.form = form


cdef inline void rocketmq_no_fields(RocketmqFields* fields) noexcept nogil:
    fields.count = fields.parts = 0
    fields.plain = False
    fields.shape = NULL
    fields.keys = fields.held_keys
    fields.values[ROCKETMQ_FIELDS_KEPT].form = ROCKETMQ_NULL


cdef inline void rocketmq_keep_field(RocketmqFields* fields, const RocketmqText* key, const RocketmqText* value) noexcept nogil:
    if fields.count < ROCKETMQ_FIELDS_KEPT:
        rocketmq_copy_text(&fields.held_keys[fields.count], key)
        rocketmq_copy_text(&fields.values[fields.count], value)
    fields.count += 1


cdef inline int rocketmq_json_field(RocketmqJson* j, RocketmqText* key, RocketmqText* value) noexcept nogil:
    cdef int status
    if rocketmq_plain_member(j, key):
        return rocketmq_json_string(j, value) if j.at[0] == c'"' else rocketmq_json_value(j, value)
    status = rocketmq_json_name(j, False, key)
    return rocketmq_json_value(j, value) if status == OK else status


cdef inline void rocketmq_json_step(RocketmqJson* j) noexcept nogil:
    """Skip the text between members, which has been checked."""
    rocketmq_json_gap(j)
    while j.at < j.end and (j.at[0] == c"," or j.at[0] == c";"):
        j.at += 1
        rocketmq_json_gap(j)


cdef const uint8_t* rocketmq_next_field(const RocketmqFrameView* m, const uint8_t* at, RocketmqText* key,
                                        RocketmqText* value) noexcept nogil:
    """The entry of extFields at `at` (begin with m.ext.at), which rocketmq_parse has checked. Returns the position of the next
    one, NULL after the last."""
    cdef const uint8_t* end = m.ext.at + m.ext.size
    cdef RocketmqJson j
    cdef Fault f
    if at == NULL:
        return NULL
    if m.serialize_type == ROCKETMQ_BINARY:
        if at >= end:
            return NULL
        key.size = load_u16(at)
        key.at = at + 2
        key.form = ROCKETMQ_OCTETS if key.size else ROCKETMQ_NULL
        at += 2 + key.size
        value.size = load_u32(at)
        value.at = at + 4
        value.form = ROCKETMQ_OCTETS if value.size else ROCKETMQ_NULL
        return at + 4 + value.size
    j.field = ROCKETMQ_FIELD_HEADER
    j.base = m.frame
    j.at = at
    j.end = end + 1                     # the closing brace
    j.elements = j.max_elements = 0
    j.f = &f
    rocketmq_json_step(&j)
    if j.at >= end:
        return NULL
    rocketmq_json_field(&j, key, value)
    return j.at


cdef inline bint rocketmq_are_kept(const RocketmqFrameView* m, const RocketmqFields* fields) noexcept nogil:
    """Are all entries of extFields in `fields`?"""
    return m.ext.at != NULL and fields != NULL and fields.count <= ROCKETMQ_FIELDS_KEPT


cdef struct RocketmqWalk:       # walks the entries of extFields
    const RocketmqText* key     # the entry
    const RocketmqText* value
    const RocketmqFrameView* m
    const RocketmqFields* fields
    int i                       # of the next entry
    int count                   # entries in `fields`; -1: they must be parsed again
    const uint8_t* at
    RocketmqText held_key, held_value       # of an entry that was parsed again


cdef bint rocketmq_parse_step(RocketmqWalk* w) noexcept nogil:
    w.at = rocketmq_next_field(w.m, w.at, &w.held_key, &w.held_value)
    return w.at != NULL


cdef inline bint rocketmq_step(RocketmqWalk* w) noexcept nogil:
    """Go to the next entry. False: no more."""
    if w.count < 0:
        return rocketmq_parse_step(w)
    if w.i == w.count:
        return False
    w.key = &w.fields.keys[w.i]
    w.value = &w.fields.values[w.i]
    w.i += 1
    return True


cdef inline void rocketmq_walk(RocketmqWalk* w, const RocketmqFrameView* m, const RocketmqFields* fields) noexcept nogil:
    w.m = m
    w.fields = fields
    w.i = 0
    w.count = fields.count if rocketmq_are_kept(m, fields) else -1
    w.at = m.ext.at
    w.key = &w.held_key
    w.value = &w.held_value


cdef inline bint rocketmq_is(const RocketmqText* text, const char* word, uint32_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, word, size) == 0
