# Values within headers, annotations and properties: converted between the types of two protocols by the rows of types; as text;
# and AMQP 1.0 values encoded again. Lists and maps nest as deeply as the protocol's decoder allows.


cdef enum:
    CONVERT_FEW_PAIRS = 16          # up to this many keys are compared with each other, more are sorted


# ------------------------------------------------------------------------------------------------ values of the readers

cdef void convert_of_amqp10(const Amqp10ValueView* v, ConvertValue* out) noexcept nogil:
    out.amqp10 = v[0]
    out.type = v.type
    out.octets.at = v.body
    out.octets.size = v.size
    out.number = 0
    if v.type == AMQP10_DESCRIBED:              # with its descriptor; the element of an array has none: its content
        out.octets.at = v.constructor if v.body == NULL else v.body
        out.octets.size = <uint32_t>(v.end - out.octets.at)
        return
    if v.type == AMQP10_TIMESTAMP or AMQP10_BYTE <= v.type <= AMQP10_LONG:
        out.number = <uint64_t>amqp10_signed(v)
    elif AMQP10_BOOLEAN <= v.type <= AMQP10_DOUBLE or v.type == AMQP10_CHAR:
        out.number = amqp10_unsigned(v)


cdef inline Span convert_key_octets(const Amqp10ValueView* key) noexcept nogil:
    """The key of a map, of any type."""
    cdef Span s
    s.at = key.body
    s.size = key.size
    return s


cdef void convert_of_entry(const Amqp091Entry* e, ConvertValue* out) noexcept nogil:
    out.amqp091 = e[0]
    out.type = convert_type_of_letter(e.letter)
    out.octets.at = e.at
    out.octets.size = e.size
    out.number = 0
    if e.letter == c"b":
        out.number = <uint64_t><int64_t><int8_t>e.at[0]
    elif e.letter == c"s":
        out.number = <uint64_t><int64_t><int16_t>load_u16(e.at)
    elif e.letter == c"I":
        out.number = <uint64_t><int64_t><int32_t>load_u32(e.at)
    elif out.type == C91T_DECIMAL:
        out.number = load_u32(e.at + 1)
    elif amqp091_letter_size[e.letter] == 1:
        out.number = e.at[0]
    elif amqp091_letter_size[e.letter] == 2:
        out.number = load_u16(e.at)
    elif amqp091_letter_size[e.letter] == 4:
        out.number = load_u32(e.at)
    elif amqp091_letter_size[e.letter] == 8:
        out.number = load_u64(e.at)


cdef inline uint8_t convert_type_of_letter(uint8_t letter) noexcept nogil:
    cdef uint8_t i
    if letter == c"L":
        return C91T_LONG
    for i in range(1, C91T_BINARY + 1):
        if CONVERT_LETTERS[i] == letter:
            return i
    return C91T_VOID


cdef int convert_item_row(Converter* x, const ConvertValue* v, const ConvertRow** row) noexcept nogil:
    """The row of types for a value. Returns REASON_NONE, or the reason why it has no row or the row `x.culprit` drops it."""
    cdef uint16_t i = x.pair.item[v.type]
    while i:
        row[0] = &x.rows[i]
        if (row[0].key == NULL or convert_key_fits(row[0], v)) and (row[0].when == WHEN_ANY or convert_when(x, row[0], v)):
            if row[0].how != HOW_DROPPED:
                return REASON_NONE
            x.culprit = row[0]
            return REASON_ROW
        i = row[0].next
    return REASON_NO_ROW


cdef int convert_item(Converter* x, Octets* o, ConvertValue* v, int depth) noexcept nogil:
    """Write a value in the target's types. REASON_NONE; otherwise it cannot be converted, and the caller removes the part
    already written and notes the reason."""
    cdef const ConvertRow* row = NULL
    cdef int reason
    if x.source == CONVERT_MQTT5:
        if x.target == CONVERT_AMQP10:
            if x.valid and not convert_is_text(&v.octets):
                return REASON_INVALID
            convert_add_variable(x, o, AMQP10_CODE_STR8, v.octets.at, v.octets.size)
        else:
            amqp091_add_value(o, c"S", v.octets.at, v.octets.size)
        return REASON_NONE
    reason = convert_item_row(x, v, &row)
    if reason != REASON_NONE:
        return reason
    if x.explain and depth == 0:
        convert_note(x, row, 0, v, CONVERT_TAKEN, REASON_ROW)
    if x.target == CONVERT_AMQP10:
        return convert_item_10(x, o, row, v, depth)
    return convert_item_091(x, o, row, v, depth)


# ------------------------------------------------------------------------------------------------ AMQP 1.0 -> AMQP 0.9.1

cdef int convert_item_091(Converter* x, Octets* o, const ConvertRow* row, ConvertValue* v, int depth) noexcept nogil:
    cdef uint8_t letter = <uint8_t>CONVERT_LETTERS[row.type]
    cdef int64_t n = <int64_t>v.number
    if row.how == HOW_BY_TYPE:
        return convert_items_091(x, o, letter, &v.amqp10, depth)
    if amqp091_letter_size[letter] == AMQP091_VARIABLE:
        amqp091_add_value(o, letter, v.octets.at, v.octets.size)
    elif amqp091_letter_size[letter] == 0:
        add_u8(o, letter)
    else:
        if row.how == HOW_MS_TO_S:
            if n <= -1000:
                x.narrowed = REASON_WRAPS       # AMQP 0.9.1 has no earlier time
            elif n % 1000:
                x.narrowed = REASON_ROUNDS
            n /= 1000
        elif v.type == AMQP10_ULONG and n < 0:
            x.narrowed = REASON_WRAPS
        amqp091_add_i64(o, letter, n)
    return REASON_NONE


cdef int convert_items_091(Converter* x, Octets* o, uint8_t letter, const Amqp10ValueView* v, int depth) noexcept nogil:
    """A list or array as an array, a map as a table; elements that cannot be converted are omitted."""
    cdef Amqp10Items items = amqp10_items(v)
    cdef ConvertValue item
    cdef Amqp10ValueView key, value
    cdef size_t opened, before
    cdef uint8_t* repeated = NULL
    cdef uint32_t names = 0
    cdef int reason
    if v.type == AMQP10_ARRAY and amqp10_constructors[amqp10_primitive(v.inner)[0]].zero:
        return REASON_NO_ROW                # there may be billions of elements without octets
    if depth > AMQP091_NESTING_MAX:
        return REASON_DEPTH
    if v.type == AMQP10_MAP and x.valid:
        repeated = convert_repeated_names(x, v)
    add_u8(o, letter)
    opened = amqp091_open(o)
    convert_plain(&item)
    while amqp10_next(&items, &value):
        before = o.size
        reason = REASON_NONE
        if v.type == AMQP10_MAP:
            key = value
            amqp10_next(&items, &value)
            item.key = convert_key_octets(&key)
            if not convert_is_name(&key):
                reason = REASON_KEY
            elif repeated != NULL and repeated[names]:
                reason = REASON_DUPLICATE
            else:
                amqp091_add_name(o, key.body, <uint8_t>key.size)
            names += reason != REASON_KEY
        convert_of_amqp10(&value, &item)
        if reason == REASON_NONE:
            reason = convert_item(x, o, &item, depth + 1)
        if reason != REASON_NONE:
            convert_leave_out(x, o, before, &item, reason)
    amqp091_close(o, opened)
    return REASON_NONE


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1 -> AMQP 1.0

cdef int convert_item_10(Converter* x, Octets* o, const ConvertRow* row, ConvertValue* v, int depth) noexcept nogil:
    cdef uint64_t n = v.number
    cdef int type = row.type
    cdef size_t bad = 0
    if row.how == HOW_BY_TYPE:
        return convert_items_10(x, o, &v.amqp091, depth)
    if row.how == HOW_S_TO_MS:
        n = convert_ms(x, n)
    if type == AMQP10_STRING or type == AMQP10_BINARY or type == AMQP10_SYMBOL:
        if x.valid and v.type == C91T_SHORTSTR and not is_utf8(v.octets.at, v.octets.size, &bad):
            return REASON_INVALID
        convert_add_variable(x, o, amqp10_narrow_code(type), v.octets.at, v.octets.size)
    elif type == AMQP10_NULL:
        amqp10_add_null(o)
    else:
        convert_add_number(o, type, n)
    return REASON_NONE


cdef inline void convert_add_variable(const Converter* x, Octets* o, uint8_t code, const uint8_t* p,
                                      size_t n) noexcept nogil:
    """A binary, string or symbol of AMQP 1.0, by the constructor of its short form."""
    if n != 255 or x.short_strings == 255 or code == AMQP10_CODE_SYM8:
        amqp10_add_variable(o, code, p, n)
        return
    add_u8(o, code + AMQP10_WIDE)
    add_u32(o, 255)
    add_octets(o, p, 255)


cdef void convert_add_number(Octets* o, int type, uint64_t n) noexcept nogil:
    """A number, boolean or timestamp of AMQP 1.0, in its smallest encoding; RabbitMQ writes booleans of other protocols with
    two octets."""
    if type == AMQP10_BOOLEAN:
        add_u8(o, AMQP10_CODE_BOOLEAN)
        add_u8(o, n != 0)
    elif type == AMQP10_UINT and n > 0xFFFFFFFFU:
        amqp10_add_fixed(o, AMQP10_CODE_UINT, n & 0xFFFFFFFFU)     # as RabbitMQ writes a number that is too large
    elif type == AMQP10_UINT:
        amqp10_add_uint(o, <uint32_t>n)
    elif type == AMQP10_ULONG:
        amqp10_add_ulong(o, n)
    elif type == AMQP10_INT:
        amqp10_add_int(o, <int32_t>n)
    elif type == AMQP10_LONG:
        amqp10_add_long(o, <int64_t>n)
    else:
        amqp10_add_fixed(o, convert_code(type), n)


cdef inline uint8_t convert_code(int type) noexcept nogil:
    """The constructor of a type with only one constructor, of fixed width."""
    if type == AMQP10_UBYTE:
        return AMQP10_CODE_UBYTE
    if type == AMQP10_USHORT:
        return AMQP10_CODE_USHORT
    if type == AMQP10_BYTE:
        return AMQP10_CODE_BYTE
    if type == AMQP10_SHORT:
        return AMQP10_CODE_SHORT
    if type == AMQP10_FLOAT:
        return AMQP10_CODE_FLOAT
    return AMQP10_CODE_DOUBLE if type == AMQP10_DOUBLE else AMQP10_CODE_TIMESTAMP


cdef int convert_items_10(Converter* x, Octets* o, const Amqp091Entry* entry, int depth) noexcept nogil:
    """An array as a list, a table as a map."""
    cdef bint named = entry.letter == c"F"
    cdef Cursor c = cursor_over(entry.at, entry.size)
    cdef ConvertValue item
    cdef Amqp091Entry e
    cdef size_t opened, before
    cdef size_t count = 0
    cdef uint8_t* repeated = NULL
    cdef uint32_t i = 0
    cdef int reason
    if depth > AMQP10_NESTING_MAX - 2:          # the section's map is a level of its own
        return REASON_DEPTH
    if named and x.valid:
        repeated = convert_repeated(x, c)
    opened = amqp10_open(o)
    while amqp091_next_entry(&c, named, &e):
        before = o.size
        convert_of_entry(&e, &item)
        item.key = e.name
        i += 1
        reason = REASON_NONE
        if repeated != NULL and repeated[i - 1]:
            reason = REASON_DUPLICATE
        elif named:
            reason = convert_add_table_key(x, o, &e.name, depth)
        if reason == REASON_NONE:
            reason = convert_item(x, o, &item, depth + 1)
        if reason != REASON_NONE:
            convert_leave_out(x, o, before, &item, reason)
        else:
            count += 2 if named else 1
    amqp10_close(o, opened, AMQP10_CODE_MAP8 if named else AMQP10_CODE_LIST8, count)
    return REASON_NONE


cdef int convert_add_table_key(Converter* x, Octets* o, const Span* name, int depth) noexcept nogil:
    """The key of an entry of a map. REASON_NONE; otherwise it cannot be a key."""
    cdef const ConvertRow* row = NULL
    cdef ConvertValue key
    cdef size_t bad = 0
    cdef int reason
    key.type = CONVERT_KEY_TYPE
    key.key = key.octets = name[0]
    reason = convert_item_row(x, &key, &row)
    if reason != REASON_NONE:
        return reason
    if x.valid and (not is_ascii(name.at, name.size) if row.type == AMQP10_SYMBOL else
                    not is_utf8(name.at, name.size, &bad)):
        x.culprit = row
        return REASON_KEY
    if x.explain and depth == 0:
        convert_note(x, row, 0, &key, CONVERT_TAKEN, REASON_ROW)
    convert_add_variable(x, o, amqp10_narrow_code(row.type), name.at, name.size)
    return REASON_NONE


# ------------------------------------------------------------------------------------------------ keys that are already present

cdef void convert_mark_again(Converter* x, Span* keys, uint8_t* again, uint32_t count) noexcept nogil:
    """Compare few keys with each other, sort many: no choice of keys takes longer than others."""
    cdef Span** ordered
    cdef uint32_t i, k
    if count <= CONVERT_FEW_PAIRS:
        for i in range(1, count):
            for k in range(i):
                if convert_equal(&keys[i], &keys[k]):
                    again[i] = 1
                    break
        return
    ordered = <Span**>convert_reserve(x, count * sizeof(Span*))
    if ordered == NULL:
        return
    for i in range(count):
        ordered[i] = &keys[i]
    qsort(ordered, count, sizeof(Span*), convert_order_of_keys)
    for i in range(1, count):
        if convert_equal(ordered[i], ordered[i - 1]):
            again[ordered[i] - keys] = 1


cdef int convert_order_of_keys(const void* a, const void* b) noexcept nogil:
    """By the octets of the keys, then by position."""
    cdef const Span* left_ = (<const Span**>a)[0]
    cdef const Span* right = (<const Span**>b)[0]
    cdef int found = memcmp(left_.at, right.at, min(left_.size, right.size))
    if found:
        return found
    if left_.size != right.size:
        return -1 if left_.size < right.size else 1
    return -1 if left_ < right else left_ > right


cdef inline bint convert_is_name(const Amqp10ValueView* key) noexcept nogil:
    """Can the key of a map be the name of a field of a table?"""
    return AMQP10_UUID <= key.type <= AMQP10_SYMBOL and key.size < 256


cdef uint8_t* convert_repeated_names(Converter* x, const Amqp10ValueView* map_) noexcept nogil:
    """Of the keys that can be names, which are the same name as one before: a string and a symbol are two keys of a map (1.6.23)
    and one name of a table. NULL: there is at most one key."""
    cdef Amqp10Items items = amqp10_items(map_)
    cdef Amqp10ValueView key, value
    cdef Span* names
    cdef uint8_t* marks
    cdef uint32_t count = 0
    if map_.count < 4:
        return NULL
    names = <Span*>convert_reserve(x, map_.count // 2 * sizeof(Span))
    marks = convert_reserve(x, map_.count // 2)
    if names == NULL or marks == NULL:
        return NULL
    while amqp10_next(&items, &key):
        amqp10_next(&items, &value)
        if convert_is_name(&key):
            names[count].at = key.body
            names[count].size = key.size
            count += 1
    memset(marks, 0, count)
    convert_mark_again(x, names, marks, count)
    return marks


cdef uint8_t* convert_repeated(Converter* x, Cursor c) noexcept nogil:
    """Which entries of a table have a name that occurred before; NULL: none."""
    cdef Cursor again = c
    cdef Amqp091Entry e
    cdef Span* names
    cdef uint8_t* marks
    cdef uint32_t count = 0, i = 0
    while amqp091_next_entry(&c, True, &e):
        count += 1
    if count < 2:
        return NULL
    names = <Span*>convert_reserve(x, count * sizeof(Span))
    marks = convert_reserve(x, count)
    if names == NULL or marks == NULL:
        return NULL
    memset(marks, 0, count)
    while amqp091_next_entry(&again, True, &e):
        names[i] = e.name
        i += 1
    convert_mark_again(x, names, marks, count)
    return marks
