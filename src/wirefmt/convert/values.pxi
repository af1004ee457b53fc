# Values within headers, annotations and properties: converted between the types of two protocols by the rows of types; as text;
# and AMQP 1.0 values encoded again. Lists and maps nest as deeply as the protocol's decoder allows.
from libc.stdio cimport snprintf
from wirefmt._core.floats cimport SCIENTIFIC_ROOM, write_scientific


cdef enum:
    CONVERT_FEW_PAIRS = 16          # up to this many keys are compared with each other, more are sorted


# ------------------------------------------------------------------------------------------------ what readers hand over

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
    """The row of types for a value. REASON_NONE; otherwise there is none, or x.culprit is the row that drops it."""
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
    if x.tell and depth == 0:
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
    if x.tell and depth == 0:
        convert_note(x, row, 0, &key, CONVERT_TAKEN, REASON_ROW)
    convert_add_variable(x, o, amqp10_narrow_code(row.type), name.at, name.size)
    return REASON_NONE


# ------------------------------------------------------------------------------------------------ keys that are there before

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
    ordered = <Span**>convert_room(x, count * sizeof(Span*))
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
    names = <Span*>convert_room(x, map_.count // 2 * sizeof(Span))
    marks = convert_room(x, map_.count // 2)
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
    names = <Span*>convert_room(x, count * sizeof(Span))
    marks = convert_room(x, count)
    if names == NULL or marks == NULL:
        return NULL
    memset(marks, 0, count)
    while amqp091_next_entry(&again, True, &e):
        names[i] = e.name
        i += 1
    convert_mark_again(x, names, marks, count)
    return marks


# ------------------------------------------------------------------------------------------------ text

cdef bint convert_text(Converter* x, const ConvertValue* v, Span* out) noexcept nogil:
    """A scalar as text, as RabbitMQ writes it: numbers as digits, floats with twenty decimals, timestamps in seconds. False:
    it has no text form."""
    cdef int type = v.type
    x.reason = REASON_NO_TEXT
    if x.source == CONVERT_MQTT5:
        out[0] = v.octets
        return True
    if x.source == CONVERT_AMQP10:
        return convert_text_of_10(x, v, type, out)
    if type == C91T_LONGSTR or type == C91T_SHORTSTR or type == C91T_BINARY:
        out[0] = v.octets
        if not convert_is_text(out):
            x.reason = REASON_INVALID
            return False
        return True
    if type == C91T_VOID:
        return convert_words(x, b"", 0, out)
    if type == C91T_BOOL:
        return convert_words(x, b"true" if v.number else b"false", 4 if v.number else 5, out)
    if type == C91T_FLOAT or type == C91T_DOUBLE:
        return convert_float(x, v, type == C91T_DOUBLE, out)
    if type == C91T_DECIMAL:
        return convert_scaled(x, v.octets.at[0], v.number, out)
    if type == C91T_TIMESTAMP:
        out[0] = convert_decimal(x, v.number)
        return True
    if type == C91T_ARRAY or type == C91T_TABLE:
        return False
    return convert_signed(x, <int64_t>v.number, out)


cdef bint convert_text_of_10(Converter* x, const ConvertValue* v, int type, Span* out) noexcept nogil:
    cdef uint8_t* at
    if type == AMQP10_STRING or type == AMQP10_SYMBOL or type == AMQP10_BINARY:
        out[0] = v.octets
        return True
    if type == AMQP10_NULL:
        return convert_words(x, b"", 0, out)
    if type == AMQP10_BOOLEAN:
        return convert_words(x, b"true" if v.number else b"false", 4 if v.number else 5, out)
    if type == AMQP10_FLOAT or type == AMQP10_DOUBLE:
        return convert_float(x, v, type == AMQP10_DOUBLE, out)
    if AMQP10_UBYTE <= type <= AMQP10_ULONG:
        out[0] = convert_decimal(x, v.number)
        return True
    if AMQP10_BYTE <= type <= AMQP10_LONG:
        return convert_signed(x, <int64_t>v.number, out)
    if type == AMQP10_TIMESTAMP:
        if <int64_t>v.number % 1000:
            x.narrowed = REASON_ROUNDS
        return convert_signed(x, <int64_t>v.number / 1000, out)
    if AMQP10_DECIMAL32 <= type <= AMQP10_DECIMAL128:
        return convert_text_of_decimal(x, v.octets, out)
    if type != AMQP10_UUID and type != AMQP10_CHAR:
        return False
    at = convert_room(x, 36)
    if at == NULL:
        return False
    out.at = at
    if type == AMQP10_UUID:
        convert_uuid_text(v.octets.at, at)
        out.size = 36
        return True
    out.size = convert_character(<uint32_t>v.number, at)
    return True


cdef bint convert_text_of_decimal(Converter* x, Span s, Span* out) noexcept nogil:
    """A decimal of AMQP 1.0 (IEEE 754-2008, the coefficient a binary integer), with all its digits: 1.50, 1E+3, -0.0; nan,
    inf, -inf as for floats. A coefficient with more digits than the type allows is zero (IEEE 754, 3.5.2)."""
    cdef uint8_t text[64]
    cdef uint8_t digits[40]
    cdef const uint8_t* p = s.at
    cdef int width = 8 if s.size == 4 else 10 if s.size == 8 else 14        # bits of the exponent
    cdef int bias = 101 if s.size == 4 else 398 if s.size == 8 else 6176
    cdef int most = 7 if s.size == 4 else 16 if s.size == 8 else 34         # digits
    cdef uint64_t high = load_u64(p) if s.size > 4 else 0
    cdef uint64_t low = load_u32(p) if s.size == 4 else load_u64(p + 8) if s.size == 16 else 0
    cdef int total = <int>s.size * 8
    cdef int shift, exponent, count
    cdef bint minus = p[0] >> 7
    if p[0] & 0x7C == 0x7C:
        return convert_words(x, b"nan", 3, out)
    if p[0] & 0x7C == 0x78:
        return convert_words(x, b"-inf" if minus else b"inf", 4 if minus else 3, out)
    if s.size == 8:
        low, high = high, 0
    shift = total - 1 - width
    if p[0] & 0x60 == 0x60:                     # the coefficient begins with 100, which is implicit
        shift -= 2
        exponent = <int>(convert_bits(high, low, shift) & ((1 << width) - 1))
        convert_keep_bits(&high, &low, shift)
        convert_set_bit(&high, &low, shift + 2)
    else:
        exponent = <int>(convert_bits(high, low, shift) & ((1 << width) - 1))
        convert_keep_bits(&high, &low, shift)
    count = convert_digits(high, low, digits)
    if count > most:
        count = 1
        digits[0] = c"0"
    return convert_scientific(x, minus, digits, count, exponent - bias, text, out)


cdef inline uint64_t convert_bits(uint64_t high, uint64_t low, int shift) noexcept nogil:
    """The lower 64 bits of a 128-bit number, shifted right."""
    if shift >= 64:
        return high >> (shift - 64)
    return low >> shift | (high << (64 - shift) if shift else 0)


cdef inline void convert_keep_bits(uint64_t* high, uint64_t* low, int count) noexcept nogil:
    """Clear all bits except the lower `count`."""
    if count >= 64:
        high[0] &= (<uint64_t>1 << (count - 64)) - 1
    else:
        high[0] = 0
        low[0] &= (<uint64_t>1 << count) - 1


cdef inline void convert_set_bit(uint64_t* high, uint64_t* low, int n) noexcept nogil:
    if n >= 64:
        high[0] |= <uint64_t>1 << (n - 64)
    else:
        low[0] |= <uint64_t>1 << n


cdef int convert_digits(uint64_t high, uint64_t low, uint8_t* out) noexcept nogil:
    """The digits of a 128-bit number, at most 39; returns how many."""
    cdef uint8_t backwards[40]
    cdef uint32_t words[4]
    cdef uint64_t rest
    cdef int n = 0, i
    words[0] = <uint32_t>(high >> 32)
    words[1] = <uint32_t>high
    words[2] = <uint32_t>(low >> 32)
    words[3] = <uint32_t>low
    while True:
        rest = 0
        for i in range(4):
            rest = rest << 32 | words[i]
            words[i] = <uint32_t>(rest / 10)
            rest %= 10
        backwards[n] = <uint8_t>(c"0" + rest)
        n += 1
        if not (words[0] | words[1] | words[2] | words[3]):
            break
    for i in range(n):
        out[i] = backwards[n - 1 - i]
    return n


cdef bint convert_scientific(Converter* x, bint minus, const uint8_t* digits, int count, int exponent, uint8_t* text,
                             Span* out) noexcept nogil:
    """Digits and an exponent of ten as text that reads back as the same number: 123, 1.23, 0.00123, 1.23E+7, 1E-9."""
    cdef int n = 0, i
    cdef int point = count + exponent           # digits before the point
    cdef int first = point - 1                  # the exponent of the first digit
    cdef char power[12]
    if minus:
        text[0] = c"-"
        n = 1
    if exponent <= 0 and first >= -6:
        if point <= 0:
            text[n] = c"0"
            n += 1
        for i in range(min(point, 0), count):
            if i == point and exponent < 0:
                text[n] = c"."
                n += 1
            text[n] = digits[i] if i >= 0 else c"0"
            n += 1
    else:
        text[n] = digits[0]
        n += 1
        if count > 1:
            text[n] = c"."
            memcpy(text + n + 1, digits + 1, <size_t>(count - 1))
            n += count
        for i in range(snprintf(power, sizeof(power), "E%+d", first)):
            text[n] = <uint8_t>power[i]
            n += 1
    out.at = convert_copy(x, text, <size_t>n)
    out.size = <uint32_t>n
    return True


cdef uint32_t convert_character(uint32_t c, uint8_t* at) noexcept nogil:
    """Write a character as UTF-8; returns the number of octets."""
    if c < 0x80:
        at[0] = <uint8_t>c
        return 1
    if c < 0x800:
        at[0] = <uint8_t>(0xC0 | c >> 6)
        at[1] = <uint8_t>(0x80 | c & 0x3F)
        return 2
    if c < 0x10000:
        at[0] = <uint8_t>(0xE0 | c >> 12)
        at[1] = <uint8_t>(0x80 | c >> 6 & 0x3F)
        at[2] = <uint8_t>(0x80 | c & 0x3F)
        return 3
    at[0] = <uint8_t>(0xF0 | c >> 18)
    at[1] = <uint8_t>(0x80 | c >> 12 & 0x3F)
    at[2] = <uint8_t>(0x80 | c >> 6 & 0x3F)
    at[3] = <uint8_t>(0x80 | c & 0x3F)
    return 4


cdef bint convert_words(Converter* x, const char* text, uint32_t size, Span* out) noexcept nogil:
    out.at = <const uint8_t*>text
    out.size = size
    return True


cdef bint convert_signed(Converter* x, int64_t n, Span* out) noexcept nogil:
    cdef uint8_t* at
    out[0] = convert_decimal(x, <uint64_t>n if n >= 0 else 0 - <uint64_t>n)
    if n < 0:
        at = convert_room(x, out.size + 1)
        if at == NULL:
            return False
        at[0] = c"-"
        memcpy(at + 1, out.at, out.size)
        out.at = at
        out.size += 1
    return True


cdef bint convert_float(Converter* x, const ConvertValue* v, bint wide, Span* out) noexcept nogil:
    """1.50000000000000000000e+00; nan, inf, -inf."""
    cdef uint8_t text[20 + SCIENTIFIC_ROOM]
    cdef int n = write_scientific(v.number, wide, 20, text)
    out.at = convert_copy(x, text, <size_t>n)
    out.size = <uint32_t>n
    return True


cdef bint convert_scaled(Converter* x, uint8_t scale, uint64_t n, Span* out) noexcept nogil:
    """A decimal of AMQP 0.9.1: the number has `scale` digits after the point."""
    cdef Span digits = convert_decimal(x, n)
    cdef uint32_t whole = digits.size - scale if digits.size > scale else 1
    cdef uint8_t* at
    cdef uint32_t i
    if scale == 0:
        out[0] = digits
        return True
    at = convert_room(x, <size_t>whole + 1 + scale)
    if at == NULL:
        return False
    for i in range(whole + scale):
        at[i if i < whole else i + 1] = (digits.at[i - (whole + scale - digits.size)]
                                         if i >= whole + scale - digits.size else c"0")
    at[whole] = c"."
    out.at = at
    out.size = whole + 1 + scale
    return True


# ------------------------------------------------------------------------------------------------ x-opt-deaths -> x-death

cdef enum:
    DEATH_QUEUE = 0
    DEATH_REASON = 1
    DEATH_COUNT = 2
    DEATH_FIRST_TIME = 3
    DEATH_EXCHANGE = 4
    DEATH_ROUTING_KEYS = 5
    DEATH_TTL = 6
    DEATH_FIELDS = 7


cdef int convert_put_deaths(Converter* x, const ConvertRow* row, const ConvertValue* v) noexcept nogil:
    """RabbitMQ's history of dead-lettering, an array of maps, as AMQP 0.9.1's header for it."""
    cdef Octets* o = &x.lists[0]
    cdef Amqp10Items items = amqp10_items(&v.amqp10)
    cdef Amqp10ValueView death
    cdef Amqp10ValueView fields[DEATH_FIELDS]
    cdef size_t before = o.size, opened, table
    if v.amqp10.type != AMQP10_ARRAY or (v.amqp10.count and amqp10_constructors[v.amqp10.inner[0]].type != AMQP10_MAP):
        return DONE_NEXT
    while amqp10_next(&items, &death):
        if not convert_death_fields(&death, fields):
            return DONE_NEXT
    amqp091_add_name(o, <const uint8_t*>b"x-death", 7)
    add_u8(o, c"A")
    opened = amqp091_open(o)
    items = amqp10_items(&v.amqp10)
    while amqp10_next(&items, &death):
        convert_death_fields(&death, fields)
        add_u8(o, c"F")
        table = amqp091_open(o)
        convert_add_death(x, o, fields)
        amqp091_close(o, table)
        convert_note_death(x, &death, fields)
    amqp091_close(o, opened)
    convert_keep(x, 0, before, row, x.field, v)
    return DONE_YES


cdef bint convert_death_fields(const Amqp10ValueView* death, Amqp10ValueView* out) noexcept nogil:
    """False: it does not have the structure of a death."""
    cdef const char** names = [b"queue", b"reason", b"count", b"first-time", b"exchange", b"routing-keys", b"ttl"]
    cdef uint8_t* types = [AMQP10_STRING, AMQP10_SYMBOL, AMQP10_ULONG, AMQP10_TIMESTAMP, AMQP10_STRING, AMQP10_ARRAY,
                           AMQP10_UINT]
    cdef Amqp10Items items = amqp10_items(death)
    cdef Amqp10Items keys
    cdef Amqp10ValueView key, value
    cdef int i
    for i in range(DEATH_FIELDS):
        out[i].type = 0
    while amqp10_next(&items, &key):
        amqp10_next(&items, &value)
        for i in range(DEATH_FIELDS):
            if key.size == strlen(names[i]) and memcmp(key.body, names[i], key.size) == 0 and value.type == types[i]:
                out[i] = value
    for i in range(DEATH_TTL):
        if out[i].type == 0:
            return False
    keys = amqp10_items(&out[DEATH_ROUTING_KEYS])
    return keys.left == 0 or amqp10_constructors[out[DEATH_ROUTING_KEYS].inner[0]].type == AMQP10_STRING


cdef void convert_note_death(Converter* x, const Amqp10ValueView* death, const Amqp10ValueView* fields) noexcept nogil:
    """The parts that x-death lacks: entries with other keys or types, the last time, fractions of a second."""
    cdef Amqp10Items items = amqp10_items(death)
    cdef Amqp10ValueView key, value
    cdef ConvertValue v
    cdef bint used
    cdef int i
    while amqp10_next(&items, &key):
        amqp10_next(&items, &value)
        used = False
        for i in range(DEATH_FIELDS):
            used = used or (fields[i].type != 0 and fields[i].constructor == value.constructor)
        v.key = convert_key_octets(&key)
        convert_of_amqp10(&value, &v)
        if not used:
            convert_note(x, NULL, 0, &v, CONVERT_DROPPED, REASON_NO_ROW)
        elif value.type == AMQP10_TIMESTAMP and <int64_t>v.number % 1000:
            convert_note(x, NULL, 0, &v, CONVERT_NARROWED, REASON_ROUNDS)


cdef void convert_add_death(Converter* x, Octets* o, Amqp10ValueView* fields) noexcept nogil:
    cdef Amqp10Items keys = amqp10_items(&fields[DEATH_ROUTING_KEYS])
    cdef Amqp10ValueView key
    cdef Span text
    cdef size_t array
    if fields[DEATH_TTL].type:
        text = convert_decimal(x, amqp10_unsigned(&fields[DEATH_TTL]))
        convert_add_named(o, b"original-expiration", &text)
    amqp091_add_name(o, <const uint8_t*>b"count", 5)
    amqp091_add_i64(o, c"l", <int64_t>amqp10_unsigned(&fields[DEATH_COUNT]))
    text = amqp10_octets(&fields[DEATH_REASON])
    convert_add_named(o, b"reason", &text)
    text = amqp10_octets(&fields[DEATH_QUEUE])
    convert_add_named(o, b"queue", &text)
    amqp091_add_name(o, <const uint8_t*>b"time", 4)
    amqp091_add_i64(o, c"T", amqp10_signed(&fields[DEATH_FIRST_TIME]) / 1000)
    text = amqp10_octets(&fields[DEATH_EXCHANGE])
    convert_add_named(o, b"exchange", &text)
    amqp091_add_name(o, <const uint8_t*>b"routing-keys", 12)
    add_u8(o, c"A")
    array = amqp091_open(o)
    while amqp10_next(&keys, &key):
        amqp091_add_value(o, c"S", key.body, key.size)
    amqp091_close(o, array)


cdef void convert_add_named(Octets* o, const char* name, const Span* text) noexcept nogil:
    amqp091_add_name(o, <const uint8_t*>name, <uint8_t>strlen(name))
    amqp091_add_value(o, c"S", text.at, text.size)


# ------------------------------------------------------------------------------------------------ AMQP 1.0 encoded again

cdef void convert_rewrite(const Converter* x, Octets* o, const Amqp10ValueView* v) noexcept nogil:
    """Encode a value as RabbitMQ does after reading it: in the smallest encoding, but elements of arrays have the
    largest constructors."""
    cdef Amqp10Items items
    cdef Amqp10ValueView inner
    cdef size_t mark
    if v.type == AMQP10_BOOLEAN:
        amqp10_add_boolean(o, amqp10_unsigned(v) != 0)
    elif v.type == AMQP10_DESCRIBED:
        amqp10_add_value(o, v)
    elif v.type == AMQP10_ARRAY:
        convert_rewrite_array(x, o, v)
    elif v.type >= AMQP10_LIST:
        mark = amqp10_open(o)
        items = amqp10_items(v)
        while amqp10_next(&items, &inner):
            convert_rewrite(x, o, &inner)
        amqp10_close(o, mark, amqp10_narrow_code(v.type), v.count)
    elif v.type == AMQP10_UINT or v.type == AMQP10_ULONG:
        convert_add_number(o, v.type, amqp10_unsigned(v))
    elif v.type == AMQP10_INT or v.type == AMQP10_LONG:
        convert_add_number(o, v.type, <uint64_t>amqp10_signed(v))
    elif AMQP10_BINARY <= v.type <= AMQP10_SYMBOL:
        convert_add_variable(x, o, amqp10_narrow_code(v.type), v.body, v.size)
    else:
        amqp10_add_value(o, v)


cdef void convert_rewrite_array(const Converter* x, Octets* o, const Amqp10ValueView* v) noexcept nogil:
    cdef Amqp10Items items = amqp10_items(v)
    cdef Amqp10ValueView inner
    cdef size_t mark
    cdef uint8_t code = v.inner[0]
    if code == 0 or amqp10_constructors[code].zero:
        amqp10_add_value(o, v)
        return
    mark = amqp10_open(o)
    if amqp10_narrow_code(amqp10_constructors[code].type):
        code = amqp10_wide_code(amqp10_narrow_code(amqp10_constructors[code].type))
    add_u8(o, code)
    while amqp10_next(&items, &inner):
        convert_rewrite_element(x, o, code, &inner)
    amqp10_close(o, mark, AMQP10_CODE_ARRAY8, v.count)


cdef void convert_rewrite_element(const Converter* x, Octets* o, uint8_t code, const Amqp10ValueView* v) noexcept nogil:
    """The content of an element under a wide constructor: the values in a list or map are encoded again, too."""
    cdef Amqp10Items items
    cdef Amqp10ValueView inner
    cdef size_t at
    if v.type != AMQP10_LIST and v.type != AMQP10_MAP:
        amqp10_add_element(o, code, v)
        return
    extend_octets(o, 4)
    at = o.size
    add_u32(o, v.count)
    items = amqp10_items(v)
    while amqp10_next(&items, &inner):
        convert_rewrite(x, o, &inner)
    if not o.failed:
        store_u32(o.at + at - 4, <uint32_t>(o.size - at))


cdef inline void convert_add_section(Octets* o, int code) noexcept nogil:
    cdef uint8_t* p = extend_octets(o, 3)
    if p != NULL:
        p[0] = 0
        p[1] = AMQP10_CODE_SMALLULONG
        p[2] = <uint8_t>code


cdef void convert_rewrite_section(const Converter* x, Octets* o, int code, const Span* section) noexcept nogil:
    """A section that was given whole. Empty sections except a header, and nulls at the end of a list, are omitted."""
    cdef Amqp10Items items
    cdef Amqp10ValueView v, inner
    cdef size_t mark, end, before
    cdef uint32_t fields = 0, i = 0
    if section.at == NULL:
        return
    amqp10_read(section.at, &v)
    if code >= AMQP10_SECTION_DATA and code <= AMQP10_SECTION_AMQP_VALUE:
        convert_add_section(o, code)
        convert_rewrite(x, o, &v)
        return
    if v.type != AMQP10_LIST:
        if v.count:
            convert_add_section(o, code)
            convert_rewrite(x, o, &v)
        return
    before = o.size
    convert_add_section(o, code)
    mark = amqp10_open(o)
    end = o.size
    items = amqp10_items(&v)
    while amqp10_next(&items, &inner):
        convert_rewrite(x, o, &inner)
        i += 1
        if inner.type != AMQP10_NULL:
            fields = i
            end = o.size
    if fields == 0 and code != AMQP10_SECTION_HEADER:
        o.size = before
        return
    o.size = end
    amqp10_close(o, mark, AMQP10_CODE_LIST8, fields)


cdef void convert_rewrite_sections(const Converter* x, Octets* o, Span body) noexcept nogil:
    """Body sections."""
    cdef const uint8_t* at = body.at
    cdef Amqp10Section section
    cdef Span s
    while amqp10_next_section(&at, body.at + body.size, &section):
        s.at = section.at
        s.size = <uint32_t>(section.end - section.at)
        if AMQP10_SECTION_DATA <= section.code <= AMQP10_SECTION_AMQP_VALUE:
            convert_rewrite_section(x, o, section.code, &s)


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1 encoded again

cdef void convert_rewrite_entry(Octets* o, const Amqp091Entry* e) noexcept nogil:
    """Encode a value as RabbitMQ does after reading it: L becomes l, and any value other than false is 1."""
    cdef Cursor c = cursor_over(e.at, e.size)
    cdef Amqp091Entry inner
    cdef bint named = e.letter == c"F"
    cdef size_t opened
    add_u8(o, c"l" if e.letter == c"L" else e.letter)
    if named or e.letter == c"A":
        opened = amqp091_open(o)
        while amqp091_next_entry(&c, named, &inner):
            if named:
                amqp091_add_name(o, inner.name.at, <uint8_t>inner.name.size)
            convert_rewrite_entry(o, &inner)
        amqp091_close(o, opened)
    elif e.letter == c"t":
        add_u8(o, e.at[0] != 0)
    else:
        if amqp091_letter_size[e.letter] == AMQP091_VARIABLE:
            add_u32(o, e.size)
        add_octets(o, e.at, e.size)


# ------------------------------------------------------------------------------------------------ what RabbitMQ refuses

cdef bint convert_keys_allowed(const Amqp10Section* section) noexcept nogil:
    """Keys of annotations and of a footer are symbols that begin with x-."""
    cdef Amqp10Items items
    cdef Amqp10ValueView v
    if section.code != AMQP10_SECTION_MESSAGE_ANNOTATIONS and section.code != AMQP10_SECTION_DELIVERY_ANNOTATIONS and \
            section.code != AMQP10_SECTION_FOOTER:
        return True
    amqp10_read(section.at, &v)
    items = amqp10_items(&v)
    while amqp10_next(&items, &v):
        if v.type != AMQP10_SYMBOL or v.size < 2 or v.body[0] != c"x" or v.body[1] != c"-":
            return False
        amqp10_next(&items, &v)
    return True


cdef bint convert_arrays_readable(const uint8_t* at) noexcept nogil:
    """False: an array within the value has elements with a constructor that RabbitMQ does not accept there."""
    cdef Amqp10ValueView v
    amqp10_read(at, &v)
    return v.type < AMQP10_LIST or convert_readable(&v)


cdef bint convert_readable(const Amqp10ValueView* v) noexcept nogil:
    cdef Amqp10Items items
    cdef Amqp10ValueView inner
    cdef uint8_t code
    if v.type == AMQP10_DESCRIBED:
        amqp10_described(v, &inner)
        return inner.type < AMQP10_LIST or convert_readable(&inner)
    if v.type == AMQP10_ARRAY:
        code = amqp10_primitive(v.inner)[0]
        if amqp10_constructors[code].zero:
            return True
        if AMQP10_CODE_SMALLUINT <= code <= AMQP10_CODE_SMALLLONG or amqp10_constructors[code].type == AMQP10_DECIMAL32 or \
                amqp10_constructors[code].type == AMQP10_DECIMAL64 or amqp10_constructors[code].type == AMQP10_DECIMAL128 or \
                code == AMQP10_CODE_LIST8 or code == AMQP10_CODE_MAP8 or code == AMQP10_CODE_ARRAY8:
            return False
        if amqp10_constructors[code].type < AMQP10_LIST:
            return True
    items = amqp10_items(v)
    while amqp10_next(&items, &inner):
        if inner.type >= AMQP10_LIST and not convert_readable(&inner):
            return False
    return True
