# Rows of columns as text: an object of JSON or a line of CSV for each. The columns are a caller's Arrow arrays (source.pxi).
#
# What is written before a value, and by which function, is decided once for each column, in a LineCol. Columns in which no row
# has a value are skipped by the link to the next one that has. JSON is RFC 8259, in the form of Python's json module without
# spaces; CSV is RFC 4180, in the form of pyarrow.csv: every text is in quotes, a null is an empty cell.

cdef struct LineCol             # how values of a column are written
ctypedef int (*PutLine)(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil     # a value that is present. -1: refused


cdef struct LineCol:
    PutLine put                 # NULL: the fields of a struct are columns of their own (CSV)
    PutLine inner               # of a nested value, which CSV has as JSON
    const SourceCol* source
    const uint8_t* key          # JSON: ,"name":
    size_t key_size
    int cell                    # CSV: cells before this one
    int first, next             # indices: the first child that has values, the next sibling; the number of them: none
    int children_count
    LineCol* children
    # times
    int digits                  # of a fraction of a second
    int64_t scale               # units in a second
    int64_t second              # the one that `stamp` has; size 0: none
    int stamp_size
    uint8_t[40] stamp           # date and time before the fraction
    uint8_t between             # date and time
    bint quoted


cdef enum:
    TEXT_PART = 4096            # octets of a text for which space is made at once
    NUMBER_SIZE = 32
    TIME_CAPACITY = 64
    WORD = 8


cdef const uint8_t* BASE64 = <const uint8_t*>b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


# ------------------------------------------------------------------------------------------------ texts

cdef inline uint64_t word_has(uint64_t w, uint64_t c) noexcept nogil:
    """Is one of eight octets equal to `c`? Then bit 7 of an octet of the result is set."""
    cdef uint64_t x = w ^ c * <uint64_t>0x0101010101010101
    return (x - <uint64_t>0x0101010101010101) & ~x


cdef inline uint64_t escaped_octets(uint64_t w, bint json) noexcept nogil:
    """Not zero: some of eight octets are not written as they are."""
    cdef uint64_t marks = word_has(w, c'"')
    if json:
        marks |= word_has(w, c"\\") | ((w - <uint64_t>0x2020202020202020) & ~w)
    return marks & <uint64_t>0x8080808080808080


cdef inline uint8_t* write_escaped(const uint8_t* p, size_t n, bint json, uint8_t* to, uint64_t* seen) noexcept nogil:
    """Write text as part of a string of JSON or a cell of CSV to `to`: up to six or two octets for each. Returns the end. `seen`:
    bits that any octet has."""
    cdef const uint8_t* end = p + n
    cdef const uint8_t* stop
    cdef uint64_t w
    cdef uint8_t c, letter
    while p < end:
        stop = end
        if end - p >= WORD:
            w = word_at(p)
            seen[0] |= w
            if not escaped_octets(w, json):
                memcpy(to, &w, WORD)
                p += WORD
                to += WORD
                continue
            stop = p + WORD
        while p < stop:
            c = p[0]
            p += 1
            seen[0] |= c
            if c == c'"' or (json and (c == c"\\" or c < 0x20)):
                letter = c if c >= 0x20 else <uint8_t>json_letter(c)
                to[0] = c"\\" if json else c'"'
                if letter:
                    to[1] = letter
                    to += 2
                    continue
                memcpy(to, b"\\u00", 4)
                write_hex(&c, 1, to + 4)
                to += 6
            else:
                to[0] = c
                to += 1
    return to


cdef inline int put_quoted(BatchEncoder w, const SourceCol* s, const uint8_t* p, size_t n, bint json) noexcept nogil:
    """A text in quotes. s: its column if it may not be UTF-8, which is refused; NULL: it has been checked."""
    cdef uint64_t seen = 0
    cdef const uint8_t* at = p
    cdef size_t left = n, part, bad = 0
    cdef uint8_t* to = w.need(min(n, <size_t>TEXT_PART) * (6 if json else 2) + 2)
    if to == NULL:
        return -1
    to[0] = c'"'
    to += 1
    while True:
        part = min(left, <size_t>TEXT_PART)
        to = write_escaped(at, part, json, to, &seen)
        w.size = <size_t>(to - w.at)
        at += part
        left -= part
        if left == 0:
            break
        to = w.need(min(left, <size_t>TEXT_PART) * (6 if json else 2) + 1)
        if to == NULL:
            return -1
    to[0] = c'"'
    w.size += 1
    if s != NULL and seen & <uint64_t>0x8080808080808080 and not is_utf8(p, n, &bad):
        return refuse_text(&w.problem, s, "text that is not UTF-8")
    return 0


cdef inline int put_base64(BatchEncoder w, const char* before, const uint8_t* p, size_t n, const char* after) noexcept nogil:
    """Octets in base64 (RFC 4648, 4), between two texts."""
    cdef size_t head = strlen(before), tail = strlen(after), i, rest = n % 3
    cdef uint8_t* to = w.need(head + (n + 2) // 3 * 4 + tail)
    cdef uint32_t v
    if to == NULL:
        return -1
    memcpy(to, before, head)
    to += head
    for i in range(0, n - rest, 3):
        v = <uint32_t>p[i] << 16 | <uint32_t>p[i + 1] << 8 | p[i + 2]
        to[0] = BASE64[v >> 18]
        to[1] = BASE64[v >> 12 & 63]
        to[2] = BASE64[v >> 6 & 63]
        to[3] = BASE64[v & 63]
        to += 4
    if rest:
        v = <uint32_t>p[n - rest] << 16 | (<uint32_t>p[n - 1] << 8 if rest == 2 else 0)
        to[0] = BASE64[v >> 18]
        to[1] = BASE64[v >> 12 & 63]
        to[2] = BASE64[v >> 6 & 63] if rest == 2 else c"="
        to[3] = c"="
        to += 4
    memcpy(to, after, tail)
    w.size = <size_t>(to - w.at) + tail
    return 0


cdef inline int put_plain(BatchEncoder w, const char* text, size_t n) noexcept nogil:
    cdef uint8_t* to = w.need(n)
    if to == NULL:
        return -1
    memcpy(to, text, n)
    w.size += n
    return 0


# ------------------------------------------------------------------------------------------------ values

cdef int put_truth(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    return put_plain(w, "true", 4) if source_bit(c.source, row) else put_plain(w, "false", 5)


cdef int put_integer(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    cdef int64_t v = source_integer(c.source, row)
    cdef bint negative = v < 0 and c.source.is_signed
    cdef uint8_t* to = w.need(NUMBER_SIZE)
    if to == NULL:
        return -1
    w.size += <size_t>write_digits(negative, <uint64_t>0 - <uint64_t>v if negative else <uint64_t>v, to)
    return 0


cdef int put_time(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    """2026-02-03T12:00:01.204000Z, in quotes; CSV: 2026-02-03 12:00:01.204000Z. Times of one second share their text."""
    cdef int64_t v = source_integer(c.source, row)
    cdef int64_t second = v // c.scale, rest = v % c.scale
    cdef uint8_t* to = w.need(TIME_CAPACITY)
    cdef int i
    if to == NULL:
        return -1
    if rest < 0:
        rest += c.scale
        second -= 1
    if second != c.second or c.stamp_size == 0:
        write_second(c, second)
    memcpy(to, c.stamp, sizeof(c.stamp))
    to += c.stamp_size
    if c.digits:
        to[0] = c"."
        for i in range(c.digits, 0, -1):
            to[i] = <uint8_t>(c"0" + rest % 10)
            rest //= 10
        to += c.digits + 1
    to[0] = c"Z"
    to[1] = c'"'
    w.size = <size_t>(to - w.at) + (2 if c.quoted else 1)
    return 0


cdef void write_second(LineCol* c, int64_t second) noexcept nogil:
    """The stamp of a second since 1970, in the proleptic Gregorian calendar. Years have 16 bits, as in Arrow's text."""
    cdef int64_t day = second // 86400, clock = second % 86400, era, of_era, year, of_year, month
    cdef uint8_t* to = c.stamp
    cdef uint8_t[DIGITS_CAPACITY] digits
    cdef int n
    if clock < 0:
        clock += 86400
        day -= 1
    day += 719468                               # since 0000-03-01; an era has 400 years
    era = (day if day >= 0 else day - 146096) // 146097
    of_era = day - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153            # from March on
    year = <int16_t>(year + era * 400 + (month >= 10))
    c.second = second
    if c.quoted:
        to[0] = c'"'
        to += 1
    if year < 0:
        to[0] = c"-"
        to += 1
    n = write_digits(False, <uint64_t>(-year if year < 0 else year), digits)
    memset(to, c"0", 4)
    memcpy(to + max(4 - n, 0), digits, <size_t>n)
    to = write_two(to + max(n, 4), c"-", month + 3 if month < 10 else month - 9)
    to = write_two(to, c"-", of_year - (153 * month + 2) // 5 + 1)
    to = write_two(to, c.between, clock // 3600)
    to = write_two(to, c":", clock // 60 % 60)
    to = write_two(to, c":", clock % 60)
    c.stamp_size = <int>(to - c.stamp)


cdef inline uint8_t* write_two(uint8_t* to, uint8_t before, int64_t v) noexcept nogil:
    """Two digits after a character; returns the end."""
    to[0] = before
    to[1] = <uint8_t>(c"0" + v // 10)
    to[2] = <uint8_t>(c"0" + v % 10)
    return to + 3


cdef int put_json_string(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    cdef const uint8_t* p = NULL
    cdef int64_t n = 0
    if source_octets(&w.problem, c.source, row, &p, &n):
        return -1
    return put_quoted(w, c.source, p, <size_t>n, True)


cdef int put_csv_string(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    cdef const uint8_t* p = NULL
    cdef int64_t n = 0
    if source_octets(&w.problem, c.source, row, &p, &n):
        return -1
    return put_quoted(w, c.source, p, <size_t>n, False)


cdef int put_json_octets(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    """UTF-8 as a string, other octets as {"base64":"..."}."""
    cdef const uint8_t* p = NULL
    cdef int64_t n = 0
    cdef size_t bad = 0
    if source_octets(&w.problem, c.source, row, &p, &n):
        return -1
    if is_utf8(p, <size_t>n, &bad):
        return put_quoted(w, NULL, p, <size_t>n, True)
    return put_base64(w, '{"base64":"', p, <size_t>n, '"}')


cdef int put_csv_octets(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    """UTF-8 as it is, other octets after "base64:". So is text that begins like this."""
    cdef const uint8_t* p = NULL
    cdef int64_t n = 0
    cdef size_t bad = 0
    if source_octets(&w.problem, c.source, row, &p, &n):
        return -1
    if is_utf8(p, <size_t>n, &bad) and not (n >= 7 and same_octets(p, <const uint8_t*>b"base64:", 7)):
        return put_quoted(w, NULL, p, <size_t>n, False)
    return put_base64(w, '"base64:', p, <size_t>n, '"')


# ------------------------------------------------------------------------------------------------ nested values

cdef inline int put_element(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    return c.put(w, c, row) if source_has(c.source, row) else put_plain(w, "null", 4)


cdef int put_array(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    """A list of elements, or a map as a list of entries."""
    cdef int64_t i = 0, end = 0
    if source_range(&w.problem, c.source, row, &i, &end) or put_plain(w, "[", 1):
        return -1
    while i < end:
        if put_element(w, c.children, i):
            return -1
        i += 1
        if i < end and put_plain(w, ",", 1):
            return -1
    return put_plain(w, "]", 1)


cdef int put_entry(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    """An entry of a map: a list of key and value."""
    if put_plain(w, "[", 1) or put_element(w, c.children, row) or put_plain(w, ",", 1):
        return -1
    return -1 if put_element(w, c.children + 1, row) else put_plain(w, "]", 1)


cdef int put_object(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    """A struct, or a row: without fields that are null."""
    cdef size_t start = w.size
    cdef LineCol* field
    cdef uint8_t* to
    cdef int i = c.first
    while i < c.children_count:
        field = c.children + i
        i = field.next
        if source_has(field.source, row):
            to = w.need(field.key_size)
            if to == NULL:
                return -1
            copy_octets(to, field.key, field.key_size)
            w.size += field.key_size
            if field.put(w, field, row):
                return -1
    if w.size == start:
        return put_plain(w, "{}", 2)
    w.at[start] = c"{"                          # in place of the first comma
    return put_plain(w, "}", 1)


cdef int put_csv_nested(BatchEncoder w, LineCol* c, int64_t row) noexcept nogil:
    """A nested value: its JSON as a text."""
    cdef size_t start = w.size, i, quotes = 2
    cdef uint8_t* to
    if c.inner(w, c, row):
        return -1
    for i in range(start, w.size):
        quotes += w.at[i] == c'"'
    if w.need(quotes) == NULL:
        return -1
    i = w.size
    w.size += quotes
    to = w.at + w.size - 1
    to[0] = c'"'
    while i > start:                            # what is not moved yet lies before `to`
        i -= 1
        to -= 1
        to[0] = w.at[i]
        if to[0] == c'"':
            to -= 1
            to[0] = c'"'
    w.at[start] = c'"'
    return 0


cdef inline int put_commas(BatchEncoder w, int upto, int* done) noexcept nogil:
    """Commas for the cells before a value, or before the end of the row."""
    cdef size_t n = <size_t>max(upto - done[0], 0)
    cdef uint8_t* to = w.need(n)
    if to == NULL:
        return -1
    memset(to, c",", n)
    w.size += n
    done[0] = upto
    return 0


cdef inline int put_cells(BatchEncoder w, LineCol* of, int64_t row, int* done) noexcept nogil:
    """The cells of a row or struct. `done`: commas of the row so far; those of nulls are written before the next value."""
    cdef LineCol* c
    cdef int i = of.first
    while i < of.children_count:
        c = of.children + i
        i = c.next
        if not source_has(c.source, row):
            continue
        if c.put == NULL:
            if put_fields(w, c, row, done):
                return -1
        elif put_commas(w, c.cell, done) or c.put(w, c, row):
            return -1
    return 0


cdef int put_fields(BatchEncoder w, LineCol* of, int64_t row, int* done) noexcept nogil:
    return put_cells(w, of, row, done)


# ------------------------------------------------------------------------------------------------ rows

cdef void free_lines(LineCol* c) noexcept nogil:
    cdef int i
    for i in range(c.children_count):
        free_lines(c.children + i)
    free(c.children)


cdef void link_lines(LineCol* c) noexcept nogil:
    """Link the columns that have values."""
    cdef int i, next = c.children_count
    for i in range(c.children_count - 1, -1, -1):
        c.children[i].next = next
        if c.children[i].source.on:
            next = i
        link_lines(c.children + i)
    c.first = next


cdef class LineEncoder(BatchEncoder):
    """Rows to text. It takes the columns of the first array."""

    cdef LineCol row
    cdef bint json, described
    cdef int cells

    def __dealloc__(self):
        free_lines(&self.row)

    cdef int add_children(self, LineCol* c, list fields, SourceCol* sources, int depth) except -1:
        """The columns of the row (depth 0) or of a nested one."""
        cdef int i
        c.children = <LineCol*>calloc(max(len(fields), 1), sizeof(LineCol))
        if c.children == NULL:
            raise MemoryError
        for i in range(<int>len(fields)):
            c.children_count = i + 1
            self.describe(c.children + i, fields[i], sources + i, depth)
        return 0

    cdef int describe(self, LineCol* c, Field field, SourceCol* source, int depth) except -1:
        """depth: of the cell in CSV. 0: a column; 1: a field of a struct, which is a cell of its own; 2: part of a cell."""
        cdef bint json = self.json or depth > 1
        cdef bint flat = not json and depth == 0 and field.kind == KIND_STRUCT
        cdef Octets key
        cdef bytes text
        memset(&key, 0, sizeof(key))
        c.source = source
        if json:
            add_u8(&key, c",")
            add_json_string(&key, <const uint8_t*>PyBytes_AS_STRING(field.name_octets), <size_t>len(field.name_octets), True)
            add_u8(&key, c":")
            try:
                if key.failed:
                    raise MemoryError
                text = PyBytes_FromStringAndSize(<const char*>key.at, <Py_ssize_t>key.size)
            finally:
                free_octets(&key)
            self.paths.append(text)
            c.key = <const uint8_t*>PyBytes_AS_STRING(text)
            c.key_size = <size_t>len(text)
        c.cell = self.cells
        if not json and not flat:
            self.cells += 1
        if field.kind == KIND_BOOL:
            c.put = put_truth
        elif field.format.startswith(b"ts"):
            c.put = put_time
            c.digits, c.scale = TIME_UNITS[field.format[:3]]
            c.quoted = json
            c.between = c"T" if json else c" "
        elif field.kind == KIND_FIXED:
            c.put = put_integer
        elif field.kind == KIND_OCTETS and field.type == "binary":
            c.put = put_json_octets if json else put_csv_octets
        elif field.kind == KIND_OCTETS:
            c.put = put_json_string if json else put_csv_string
        elif field.kind == KIND_LIST:
            c.put = put_array
        else:
            c.put = put_object
        if field.kind != KIND_LIST and field.kind != KIND_STRUCT:
            return 0
        self.add_children(c, field.children, source.children, 1 if flat else 2)
        if field.format == b"+m":
            c.children.put = put_entry
        if flat:
            c.put = NULL
        elif not json:
            c.inner = c.put
            c.put = put_csv_nested
        return 0

    cdef void begin(self) noexcept nogil:
        if not self.described:
            with gil:
                try:
                    self.add_children(&self.row, self.fields, self.cols, 0)
                    self.described = True
                except MemoryError:
                    refuse(&self.problem, REFUSED_MEMORY, NULL)
        link_lines(&self.row)

    cdef int put_rows(self, int64_t rows) noexcept nogil:
        cdef int64_t row
        cdef int done
        for row in range(rows):
            self.problem.row = row
            if self.json:
                if put_object(self, &self.row, row):
                    return -1
            else:
                done = 0
                if put_cells(self, &self.row, row, &done) or put_commas(self, self.cells - 1, &done):
                    return -1
            if put_plain(self, "\n", 1):
                return -1
        return 0 if self.described else -1


def json_lines(data):
    """Rows of columns as JSON lines (UTF-8): one object for each row, without keys whose value is null.

    data: a Batch, a pyarrow Table, RecordBatch or reader, a polars DataFrame: anything with `__arrow_c_array__` or
    `__arrow_c_stream__`. Columns may be booleans, integers, strings, binaries, times in UTC, lists, maps and structs. A binary
    is a string if it is UTF-8, otherwise {"base64": "..."}; a time is ISO 8601; a map is a list of [key, value].

    Raises TypeError for data that is not Arrow columns; ValueError for a column of another type, or two of one name;
    EncodeError, which names column and row, for text that is not UTF-8.
    """
    cdef LineEncoder encoder = LineEncoder.__new__(LineEncoder)
    encoder.json = True
    return encoder.encode(data)


def csv_lines(data, *, header=True):
    """Rows of columns as CSV (UTF-8), after a line with their names if `header` is true.

    data and errors: those of json_lines. Texts are in double quotes, a null is an empty cell. A struct has a cell for each field
    (`name.field`); lists and maps, and structs within structs, are JSON as in json_lines. A binary is text if it is UTF-8,
    otherwise `base64:` and base64; so is text that begins with `base64:`. Times are 2026-02-03 12:00:01.204000Z.
    """
    cdef LineEncoder encoder = LineEncoder.__new__(LineEncoder)
    cdef bytes rows = encoder.encode(data)
    cdef Field field
    if not header or encoder.fields is None:
        return rows
    names = []
    for field in encoder.fields:
        names += [f"{field.name}.{(<Field>f).name}" for f in field.children] if field.kind == KIND_STRUCT else [field.name]
    return (",".join(['"' + name.replace('"', '""') + '"' for name in names]) + "\n").encode() + rows
