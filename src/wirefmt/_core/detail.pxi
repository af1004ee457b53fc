# The column `detail`: a message in one line of text. This room writes lines and fields. The room `detail` of a protocol reads
# the fields, and detail.py of its package lists the fields of each kind of message, in order.
#
# A row of that list has words with spaces between them. A word is a field: `queue` is written as `queue=orders`,
# `key=routing_key` as `key=...`, and `=reply_text` without a label. A field with `?` is omitted if it is zero or empty. A flag is
# written as its label, and only if it is set; with `!` it is written as true or false. Absent fields are omitted.
#
# No field contains a credential: a row cannot name user names, passwords, SASL data, authentication data or other secrets.
#
# A line has at most LINE_MAX octets and ends with an ellipsis if it was truncated. It is UTF-8 without control characters,
# whatever the message contains. A value is written unchanged if that is unambiguous, otherwise in quotes:
# `\n`, `\"`, `\u202e`, and `\xff` for an octet that is not UTF-8. The work for a line is bounded for values of any size.
from libc.stdio cimport snprintf
from libc.string cimport strlen


cdef DetailField[DETAIL_FIELDS] DETAIL_FIELD
cdef int detail_field_count = 0
cdef dict detail_labels = {}        # label -> row of DETAIL_FIELD


cdef int detail_form(str words, dict fields, DetailForm* form) except -1:
    """The form that a row of a detail.py describes. fields: name -> number; KeyError for any other name."""
    global detail_field_count
    cdef DetailField* f
    form.first = detail_field_count
    for word in words.split():
        if detail_field_count >= DETAIL_FIELDS:
            raise IndexError("DETAIL_FIELDS is too small")
        f = &DETAIL_FIELD[detail_field_count]
        f.some = word.endswith("?")
        f.both = word.endswith("!")
        label, equals, name = word.rstrip("?!").partition("=")
        f.what = <int16_t>fields[name if equals else label]
        if label in detail_labels:
            f.label = DETAIL_FIELD[<int>detail_labels[label]].label
        else:
            f.label = pad_text(f"{label}=".encode() if label else b"")
            detail_labels[label] = detail_field_count
        detail_field_count += 1
    form.count = detail_field_count - form.first
    return 0


# ------------------------------------------------------------------------------------------------ the line

cdef void line_field(DetailLine* l, const DetailField* f) noexcept nogil:
    """Write the separator and the label of a field."""
    line_space(l)
    line_ascii(l, f.label.at, f.label.size)


cdef void line_number(DetailLine* l, const DetailField* f, bint negative, uint64_t v) noexcept nogil:
    """A field with a number; -v if `negative` is set."""
    if v == 0 and f.some:
        return
    line_field(l, f)
    line_digits(l, negative, v)


cdef void line_digits(DetailLine* l, bint negative, uint64_t v) noexcept nogil:
    cdef uint8_t[DIGITS_CAPACITY] text
    line_ascii(l, text, write_digits(negative, v, text))


cdef void line_flag(DetailLine* l, const DetailField* f, bint set_) noexcept nogil:
    """A flag: its label, or `label=true` and `label=false` if the row has `!`."""
    if not set_ and not f.both:
        return
    line_space(l)
    if f.both:
        line_ascii(l, f.label.at, f.label.size)
        line_words(l, b"true" if set_ else b"false")
    else:
        line_ascii(l, f.label.at, f.label.size - 1)


cdef void line_name(DetailLine* l, const DetailField* f, const Text* name) noexcept nogil:
    """A field with one of a fixed set of words."""
    line_field(l, f)
    line_ascii(l, name.at, name.size)


# ------------------------------------------------------------------------------------------------ values

cdef void line_value(DetailLine* l, const DetailField* f, const Span* s, int most) noexcept nogil:
    if s.at == NULL or (s.size == 0 and f.some):
        return
    line_field(l, f)
    line_string(l, s, most)


cdef void line_string(DetailLine* l, const Span* s, int most) noexcept nogil:
    """A string, quoted if necessary; at most `most` octets of it, then an ellipsis."""
    cdef uint8_t[12] piece
    cdef uint32_t i = 0, n
    cdef int size, begin
    cdef bint quoted = line_is_quoted(s, most)
    if not quoted and s.size <= <uint32_t>most and is_ascii(s.at, s.size):
        line_ascii(l, s.at, s.size)
        return
    if quoted:
        line_piece(l, b'"', 1)
    begin = l.size
    while i < s.size and not l.cut:
        size = line_character(s.at + i, s.size - i, piece, &n)
        if l.size - begin + size > most:
            line_piece(l, b"\xe2\x80\xa6", 3)
            break
        line_piece(l, piece, size)
        i += n
    if quoted:
        line_piece(l, b'"', 1)


cdef bint line_is_quoted(const Span* s, int most) noexcept nogil:
    """Must the string be quoted? It is empty, or the part that is written has a blank or a character to escape."""
    cdef uint8_t[12] piece
    cdef uint32_t i = 0, n, end = min(s.size, <uint32_t>most)
    if s.size == 0:
        return True
    while i < end:
        if s.at[i] == 0x20 or (s.at[i] >= 0x21 and s.at[i] < 0x7F and s.at[i] != 0x22 and s.at[i] != 0x5C):
            if s.at[i] == 0x20:
                return True
            i += 1
            continue
        if line_character(s.at + i, s.size - i, piece, &n) == 0 or piece[0] == 0x5C:
            return True
        i += n
    return False


cdef int line_character(const uint8_t* p, uint32_t size, uint8_t* out, uint32_t* used) noexcept nogil:
    """Write the character at `p` to `out`, at most 12 octets, and return their number. `used`: its octets at `p`."""
    cdef uint32_t c = p[0], n = 1, i
    cdef size_t bad = 0
    used[0] = 1
    if c >= 0x80:
        n = 2 if c < 0xE0 else 3 if c < 0xF0 else 4
        if n > size or not is_utf8(p, n, &bad):
            return snprintf(<char*>out, 12, "\\x%02x", <unsigned int>c)
        c &= 0x7F >> n
        for i in range(1, n):
            c = c << 6 | (p[i] & 0x3F)
        used[0] = n
    if line_is_shown(c):
        memcpy(out, p, n)
        return <int>n
    if c == 0x22 or c == 0x5C or c == 9 or c == 10 or c == 13:
        out[0] = 0x5C
        out[1] = c"t" if c == 9 else c"n" if c == 10 else c"r" if c == 13 else <uint8_t>c
        return 2
    if c < 0x80:
        return snprintf(<char*>out, 12, "\\x%02x", <unsigned int>c)
    if c < 0x10000:
        return snprintf(<char*>out, 12, "\\u%04x", <unsigned int>c)
    return snprintf(<char*>out, 12, "\\U%08x", <unsigned int>c)


cdef inline bint line_is_shown(uint32_t c) noexcept nogil:
    """Is a character written unchanged? Not control characters, invisible ones, those that change the direction or the breaking
    of lines, quotes and backslashes."""
    if c < 0x7F:
        return c >= 0x20 and c != 0x22 and c != 0x5C
    if c < 0x2000:
        return c >= 0xA0 and c != 0xAD and c != 0x61C and c != 0x180E
    if c < 0x2070:
        return not (0x200B <= c <= 0x200F or 0x2028 <= c <= 0x202E or c >= 0x2060)
    return not (c == 0xFEFF or 0xFFF9 <= c <= 0xFFFB or 0xE0000 <= c <= 0xE0FFF)


cdef void line_binary(DetailLine* l, const DetailField* f, const Span* s) noexcept nogil:
    """A field of octets: as text if no character needs an escape, otherwise in hexadecimal."""
    if s.at == NULL or (s.size == 0 and f.some):
        return
    line_field(l, f)
    line_octets(l, s)


cdef void line_octets(DetailLine* l, const Span* s) noexcept nogil:
    cdef char[4] digits
    cdef uint8_t[12] piece
    cdef uint32_t i = 0, n, end = min(s.size, <uint32_t>LINE_VALUE)
    while i < end:
        line_character(s.at + i, s.size - i, piece, &n)
        if piece[0] == 0x5C and s.at[i] != 0x22 and s.at[i] != 0x5C:
            break
        i += n
    if i >= end:
        line_string(l, s, LINE_VALUE)
        return
    line_words(l, b"0x")
    for i in range(min(s.size, <uint32_t>LINE_HEX)):
        snprintf(digits, sizeof(digits), "%02x", <unsigned int>s.at[i])
        line_piece(l, digits, 2)
    if s.size > LINE_HEX:
        line_piece(l, b"\xe2\x80\xa6", 3)
