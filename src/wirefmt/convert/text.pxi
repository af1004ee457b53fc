# Scalars as text, as RabbitMQ writes them.
from libc.stdio cimport snprintf
from wirefmt._core.floats cimport SCIENTIFIC_CAPACITY, write_scientific

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
    at = convert_reserve(x, 36)
    if at == NULL:
        return False
    out.at = at
    if type == AMQP10_UUID:
        write_uuid(v.octets.at, at)
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
    """The digits of a 128-bit number, at most 39. Returns their number."""
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
        at = convert_reserve(x, out.size + 1)
        if at == NULL:
            return False
        at[0] = c"-"
        memcpy(at + 1, out.at, out.size)
        out.at = at
        out.size += 1
    return True


cdef bint convert_float(Converter* x, const ConvertValue* v, bint wide, Span* out) noexcept nogil:
    """1.50000000000000000000e+00; nan, inf, -inf."""
    cdef uint8_t text[20 + SCIENTIFIC_CAPACITY]
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
    at = convert_reserve(x, <size_t>whole + 1 + scale)
    if at == NULL:
        return False
    for i in range(whole + scale):
        at[i if i < whole else i + 1] = (digits.at[i - (whole + scale - digits.size)]
                                         if i >= whole + scale - digits.size else c"0")
    at[whole] = c"."
    out.at = at
    out.size = whole + 1 + scale
    return True
