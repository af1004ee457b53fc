# Columns to encode: a caller's Arrow arrays, read in place and written as frames without the GIL. The counterpart of arrow.pxi.
#
# Everything that the interface allows to check is checked: types, lengths, buffers, and each offset when its value is read. The
# interface does not pass the size of a buffer, so the last offset is trusted, as in every consumer of Arrow.
cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject** octets, Py_ssize_t size) except -1
    PyObject* new_block "PyBytes_FromStringAndSize"(const char* octets, Py_ssize_t size) except NULL


cdef extern from *:
    """
    /* Shorten bytes that no other code has seen, and keep their memory. After a realloc to a smaller block, malloc would map
       new pages for the next output: encode_batch of MQTT takes 1.5 times as long then. */
    static inline void wirefmt_cut_bytes(PyObject *octets, Py_ssize_t size) {
        Py_SET_SIZE((PyVarObject *)octets, size);
        PyBytes_AS_STRING(octets)[size] = 0;
    }
    """
    void cut_bytes "wirefmt_cut_bytes"(PyObject* octets, Py_ssize_t size) noexcept


cdef extern from *:
    """
    #define SOURCE_ROWS_MAX ((int64_t)1 << 56)
    """
    const int64_t SOURCE_ROWS_MAX       # rows of an array: sums and products of sizes stay far below 2^63


cdef enum:
    SOURCE_OUTPUT = 4096                # initial capacity of the output, in octets
    SOURCE_SMALL = 1 << 20              # the output doubles up to this size


cdef dict SOURCE_INTEGERS = {b"c": (1, True), b"C": (1, False), b"s": (2, True), b"S": (2, False), b"i": (4, True),
                             b"I": (4, False), b"l": (8, True), b"L": (8, False)}
# the unit of times -> digits of a fraction of a second, units in a second
cdef dict TIME_UNITS = {b"tss": (0, 1), b"tsm": (3, 1000), b"tsu": (6, 1000000), b"tsn": (9, 1000000000)}
# Arrow format -> the type of a column that takes it, for encoders that take any columns. A column of nulls is of any type.
cdef dict SOURCE_TYPES = {b"n": "boolean", b"b": "boolean", **dict.fromkeys(SOURCE_INTEGERS, "int64"),
                          **dict.fromkeys((b"u", b"U", b"vu"), "string"), **dict.fromkeys((b"z", b"Z", b"vz"), "binary")}


cdef void free_source(SourceCol* s) noexcept nogil:
    cdef int i
    for i in range(s.children_count):
        free_source(&s.children[i])
    free(s.children)
    memset(s, 0, sizeof(SourceCol))


cdef void source_off(SourceCol* s) noexcept nogil:
    """No row has a value."""
    cdef int i
    s.on = False
    for i in range(s.children_count):
        source_off(&s.children[i])


cdef int64_t source_octets_held(const SourceCol* s, int64_t rows) noexcept nogil:
    """Estimate the octets that strings and binaries of the rows take on the wire, with their lengths."""
    cdef int64_t total = 0, first = 0
    cdef int i
    if not s.on:
        return 0
    if s.kind == KIND_OCTETS:
        if s.form == SOURCE_WIDE:
            memcpy(&first, s.offsets + 8 * s.begin, 8)
        elif s.form == SOURCE_NARROW:
            first = source_i32(s.offsets + 4 * s.begin)
        if s.form == SOURCE_VIEW:
            return 16 * rows
        return 3 * rows + (s.top - first if s.form != SOURCE_FIXED_SIZE and 0 <= first <= s.top else rows * s.width)
    for i in range(s.children_count):
        total += source_octets_held(&s.children[i], s.top if s.kind == KIND_LIST else rows)
    return total


cdef int source_view(Problem* x, const SourceCol* s, int64_t row, const uint8_t** at, int64_t* size) noexcept nogil:
    """A value of a column of views: at most 12 octets are in the view, longer values in a buffer that it names."""
    cdef int32_t view[4]        # size; 12 octets, or 4, number and offset
    cdef int64_t capacity = 0
    memcpy(view, s.data + 16 * (s.begin + row), 16)
    if view[0] < 0:
        return refuse(x, REFUSED_OFFSETS, s)
    size[0] = view[0]
    if view[0] <= 12:
        at[0] = s.data + 16 * (s.begin + row) + 4
        return 0
    if 0 <= view[2] < s.piece_count and s.pieces[view[2]] != NULL:
        memcpy(&capacity, <const uint8_t*>s.pieces[s.piece_count] + 8 * view[2], 8)
        if view[3] >= 0 and size[0] <= capacity - view[3]:
            at[0] = <const uint8_t*>s.pieces[view[2]] + view[3]
            return 0
    return refuse(x, REFUSED_OFFSETS, s)


cdef bint any_valid(const uint8_t* bits, int64_t begin, int64_t rows) noexcept nogil:
    """Is one of the bits set?"""
    cdef int64_t i = begin, end = begin + rows
    while i < end and i & 7:
        if bits[i >> 3] >> (i & 7) & 1:
            return True
        i += 1
    while end - i >= 8:
        if bits[i >> 3]:
            return True
        i += 8
    while i < end:
        if bits[i >> 3] >> (i & 7) & 1:
            return True
        i += 1
    return False


cdef int refuse(Problem* x, int why, const SourceCol* column) noexcept nogil:
    """Why a row cannot be written; -1, always."""
    x.why = why
    x.column = column
    return -1


cdef int refuse_text(Problem* x, const SourceCol* column, const char* text) noexcept nogil:
    x.text = text
    return refuse(x, REFUSED_TEXT, column)


cdef int refuse_range(Problem* x, const SourceCol* column, int64_t have, int64_t low, int64_t high) noexcept nogil:
    x.have = have
    x.low = low
    x.high = high
    return refuse(x, REFUSED_RANGE, column)


cdef int refuse_size(Problem* x, const SourceCol* column, int64_t have, int64_t high) noexcept nogil:
    x.have = have
    x.high = high
    return refuse(x, REFUSED_SIZE, column)


cdef class BatchEncoder:
    """Rows of Arrow columns to frames in one bytes object. A protocol derives from it and writes rows."""

    def __init__(self, columns):
        if self.cols != NULL:
            raise RuntimeError("the columns are already initialised")
        take_fields(self, fields_of(columns))

    def __dealloc__(self):
        cdef int i
        if self.cols != NULL:
            for i in range(self.n):
                free_source(&self.cols[i])
        free(self.cols)
        free_octets(&self.scratch)
        if self.block != NULL:
            Py_DECREF(<object>self.block)

    cdef int prepare(self, SourceCol* s, Field field, str above) except -1:
        """The tree of a column's sources, which are not bound to arrays."""
        cdef int i
        cdef bytes path = (f"{above}.{field.name}" if above else field.name).encode()
        self.paths.append(path)
        s.path = PyBytes_AS_STRING(path)
        s.kind = field.kind
        s.binary = field.type == "binary"
        if field.children:
            s.children = <SourceCol*>calloc(<size_t>len(field.children), sizeof(SourceCol))
            if s.children == NULL:
                raise MemoryError
            for i in range(<int>len(field.children)):
                s.children_count = i + 1
                self.prepare(&s.children[i], field.children[i], path.decode())
        return 0

    # ---- input

    cdef bytes encode(self, data):
        """All rows of `data`: anything with __arrow_c_array__ or __arrow_c_stream__."""
        cdef ArrowSchema* schema
        cdef ArrowArray* array
        cdef ArrowArrayStream* stream
        if hasattr(data, "__arrow_c_array__"):
            capsules = data.__arrow_c_array__()
            schema = <ArrowSchema*>PyCapsule_GetPointer(capsules[0], "arrow_schema")
            array = <ArrowArray*>PyCapsule_GetPointer(capsules[1], "arrow_array")
            take_array(self, schema, array)
        elif hasattr(data, "__arrow_c_stream__"):
            capsule = data.__arrow_c_stream__()
            stream = <ArrowArrayStream*>PyCapsule_GetPointer(capsule, "arrow_array_stream")
            if stream.release == NULL:
                raise ValueError("the stream of Arrow arrays has been released")
            take_stream(self, stream)
        else:
            raise TypeError(f"columns must have __arrow_c_array__ or __arrow_c_stream__, not {type(data).__name__}")
        return self.result()

    # ---- output

    cdef uint8_t* grow(self, size_t n) noexcept nogil:
        """need() if there is no space."""
        # grow by an eighth if the system moves pages instead of copying them, so that little space remains unused
        cdef size_t more = self.capacity if self.capacity < SOURCE_SMALL else self.capacity // 8
        cdef size_t capacity = max(self.size + n, self.capacity + more, <size_t>SOURCE_OUTPUT)
        with gil:
            try:
                if capacity > <size_t>PY_SSIZE_T_MAX // 2:
                    raise MemoryError
                if self.block == NULL:
                    self.block = new_block(NULL, <Py_ssize_t>capacity)
                else:
                    _PyBytes_Resize(&self.block, <Py_ssize_t>capacity)
                self.at = <uint8_t*>PyBytes_AS_STRING(<object>self.block)
                self.capacity = capacity
            except MemoryError:
                if self.block == NULL:
                    self.at = NULL
                    self.size = self.capacity = 0
                refuse(&self.problem, REFUSED_MEMORY, NULL)
                return NULL
        return self.at + self.size

    cdef bytes result(self):
        cdef PyObject* block = self.block
        if block == NULL:
            return b""
        self.block = NULL
        self.at = NULL
        if self.size and self.capacity - self.size <= self.size // 4 + SOURCE_OUTPUT:
            cut_bytes(block, <Py_ssize_t>self.size)
        else:
            _PyBytes_Resize(&block, <Py_ssize_t>self.size)
        made = <bytes>block
        Py_DECREF(made)
        return made

    cdef void begin(self) noexcept nogil:
        """The columns are bound to an array: prepare what does not depend on the row."""
        pass

    cdef int put_rows(self, int64_t rows) noexcept nogil:
        """Write the rows. -1: `problem` has the reason and the row."""
        return refuse_text(&self.problem, NULL, "no protocol")

    # ---- problems

    cdef int raise_problem(self) except -1:
        cdef Problem* x = &self.problem
        if x.why == REFUSED_MEMORY:
            raise MemoryError
        text = f"row {self.first_row + x.row}: "
        if x.column != NULL:
            text = f"column {(<bytes>x.column.path).decode()!r}, {text}"
        if x.why == REFUSED_NULL:
            text += "null, where a value is needed"
        elif x.why == REFUSED_RANGE:
            text += f"{x.have}, not {x.low} to {x.high}"
        elif x.why == REFUSED_SIZE:
            text += f"{x.have} bytes or elements, at most {x.high} fit"
        elif x.why == REFUSED_OFFSETS:
            text += "offsets out of range"
        elif x.why == REFUSED_FAULT:
            error = make_fault(self.tables, &x.fault, 0)
            text += f"{error.path}: {error.reason}" if error.path else error.reason
            if error.spec:
                text += f" [{error.spec}]"
        else:
            text += x.text.decode()
        raise EncodeError(text)


cdef int take_fields(BatchEncoder encoder, list fields) except -1:
    """The columns that an encoder takes."""
    cdef int i
    encoder.fields = fields
    encoder.paths = []
    encoder.cols = <SourceCol*>calloc(<size_t>max(len(fields), 1), sizeof(SourceCol))
    if encoder.cols == NULL:
        raise MemoryError
    for i in range(<int>len(fields)):
        encoder.n = i + 1
        encoder.prepare(&encoder.cols[i], fields[i], "")
    return 0


cdef Field field_of(const ArrowSchema* schema, int depth):
    """The Field of a column of a type that `bind` takes."""
    cdef Field field, entries
    cdef bytes format
    if schema == NULL or schema.release == NULL:
        raise ValueError("the Arrow schema has been released")
    if depth > COLUMN_NESTING_MAX:
        raise ValueError(f"a column type may nest at most {COLUMN_NESTING_MAX} levels")
    format = <bytes>schema.format if schema.format != NULL else b""
    name = (<bytes>schema.name).decode("utf-8", "replace") if schema.name != NULL else ""
    if format in SOURCE_TYPES:
        return Field(name, SOURCE_TYPES[format])
    if format[:2] == b"w:":
        return Field(name, "binary")
    if format[:3] in TIME_UNITS and format[3:] == b":UTC":
        field = Field(name, "timestamp")
        field.format = format
        return field
    children = [field_of(schema.children[i], depth + 1) for i in range(schema.n_children)] if schema.children != NULL else []
    if format == b"+s":
        field = Field(name, "struct<>")
        field.children = children
    elif format in (b"+l", b"+L") and len(children) == 1:
        field = Field(name, "list<int64>")
        field.children = children
    elif format == b"+m" and len(children) == 1 and len((<Field>children[0]).children) == 2:
        field = Field(name, "map<string,string>")
        entries = field.children[0]
        entries.children = (<Field>children[0]).children
    else:
        raise ValueError(f"column {name!r} is of Arrow format {format.decode('utf-8', 'replace')!r}, which is not supported")
    return field


cdef int take_schema(BatchEncoder encoder, const ArrowSchema* schema) except -1:
    """An encoder that has no columns of its own takes those of the caller."""
    if encoder.fields is None and schema.format != NULL and <bytes>schema.format == b"+s":
        take_fields(encoder, field_of(schema, 0).children)
    return 0


cdef int check_array(str what, const ArrowArray* array, int64_t buffers, int64_t children) except -1:
    """Check the numbers that arrays of every type have."""
    cdef int64_t i
    if array.length < 0 or array.offset < 0 or array.length > SOURCE_ROWS_MAX or array.offset > SOURCE_ROWS_MAX:
        raise ValueError(f"{what}: {array.length} rows from {array.offset} on")
    if array.n_buffers != buffers or array.n_children != children or children < 0 or array.buffers == NULL:
        raise ValueError(f"{what}: {array.n_buffers} buffers and {array.n_children} children, not {buffers} and {children}")
    if children and array.children == NULL:
        raise ValueError(f"{what}: children are missing")
    for i in range(children):
        if array.children[i] == NULL or array.children[i].release == NULL:
            raise ValueError(f"{what}: a child has been released")
    return 0


cdef int take_stream(BatchEncoder encoder, ArrowArrayStream* stream) except -1:
    cdef ArrowSchema schema
    cdef ArrowArray array
    cdef int status
    memset(&schema, 0, sizeof(schema))
    memset(&array, 0, sizeof(array))
    with nogil:
        status = stream.get_schema(stream, &schema)
    check_stream(stream, status)
    try:
        take_schema(encoder, &schema)
        while True:
            with nogil:
                status = stream.get_next(stream, &array)
            check_stream(stream, status)
            if array.release == NULL:
                return 0
            take_array(encoder, &schema, &array)
            array.release(&array)
            memset(&array, 0, sizeof(array))
    finally:
        if array.release != NULL:
            array.release(&array)
        if schema.release != NULL:
            schema.release(&schema)


cdef int check_stream(ArrowArrayStream* stream, int status) except -1:
    cdef const char* text
    if status:
        text = stream.get_last_error(stream)
        raise ValueError(f"the stream of Arrow arrays failed ({status})" +
                         (f": {(<bytes>text).decode('utf-8', 'replace')}" if text != NULL else ""))
    return 0


cdef int take_array(BatchEncoder encoder, const ArrowSchema* schema, const ArrowArray* array) except -1:
    """The rows of one array of structs."""
    cdef int64_t estimate = 0, i
    cdef int status = 0
    if schema.release == NULL or array.release == NULL:
        raise ValueError("the Arrow array has been released")
    if schema.format == NULL or <bytes>schema.format != b"+s":
        raise ValueError("columns must be a table, a record batch or an array of structs")
    take_schema(encoder, schema)
    for i in range(encoder.n):
        source_off(&encoder.cols[i])
    check_array("the table", array, 1, schema.n_children)
    bind_children(encoder.cols, encoder.fields, "", schema, array, array.offset, array.length)
    if array.length and array.null_count and array.buffers[0] != NULL:
        for i in range(array.offset, array.offset + array.length):
            if not (<const uint8_t*>array.buffers[0])[i >> 3] >> (i & 7) & 1:
                raise EncodeError(f"row {encoder.first_row + i - array.offset}: null")
    for i in range(encoder.n):
        estimate += source_octets_held(&encoder.cols[i], array.length)
    encoder.problem.why = REFUSED_NOT
    with nogil:
        if encoder.need(<size_t>(estimate + 8 * array.length + 1)) != NULL:
            encoder.begin()
            status = encoder.put_rows(array.length)
        else:
            status = -1
    if status:
        encoder.raise_problem()
    encoder.first_row += array.length
    return 0


cdef int bind_children(SourceCol* out, list fields, str above, const ArrowSchema* schema, const ArrowArray* array,
                       int64_t base, int64_t rows) except -1:
    """Bind the fields of a struct, or the columns of the table, by name. Missing ones have no values."""
    cdef int64_t k
    names = [(<Field>f).name for f in fields]
    seen = set()
    for k in range(schema.n_children):
        if schema.children == NULL or schema.children[k] == NULL or schema.children[k].release == NULL:
            raise ValueError("the Arrow schema has been released")
        name = (<bytes>schema.children[k].name).decode("utf-8", "replace") if schema.children[k].name != NULL else ""
        path = f"{above}.{name}" if above else name
        if name not in names:
            raise ValueError(f"no column {path!r}; there are {', '.join(names)}")
        if name in seen:
            raise ValueError(f"column {path!r} is there twice")
        seen.add(name)
        i = names.index(name)
        bind(&out[<int>i], fields[i], path, schema.children[k], array.children[k], base, rows)
    return 0


cdef int bind(SourceCol* s, Field field, str path, const ArrowSchema* schema, const ArrowArray* array,
              int64_t base, int64_t rows) except -1:
    """Bind one column. It must have `rows` elements from `base` on, to which its parent refers."""
    cdef bytes format = <bytes>schema.format if schema.format != NULL else b""
    cdef int64_t last = 0
    cdef int buffers = 2
    if schema.dictionary != NULL:
        raise ValueError(f"column {path!r} is dictionary-encoded: cast it to {field.type}")
    if array == NULL or array.release == NULL:
        raise ValueError("the Arrow array has been released")
    if format == b"n":
        return 0
    if field.kind == KIND_BOOL and format == b"b":
        pass
    elif field.kind == KIND_FIXED and format in SOURCE_INTEGERS:
        s.width, s.is_signed = SOURCE_INTEGERS[format]
    elif field.kind == KIND_FIXED and format == field.format:       # times
        s.width = 8
        s.is_signed = True
    elif field.kind == KIND_OCTETS and (format in (b"u", b"U") or (s.binary and format in (b"z", b"Z"))):
        s.form = SOURCE_WIDE if format in (b"U", b"Z") else SOURCE_NARROW
        buffers = 3
    elif field.kind == KIND_OCTETS and (format == b"vu" or (s.binary and format == b"vz")):
        s.form = SOURCE_VIEW
        buffers = max(3, <int>min(array.n_buffers, <int64_t>0x7FFFFFFF))
    elif field.kind == KIND_OCTETS and s.binary and format.startswith(b"w:") and format[2:].isdigit():
        s.form = SOURCE_FIXED_SIZE
        if len(format) > 11:
            raise ValueError(f"column {path!r}: elements of {format[2:].decode()} bytes")
        s.width = int(format[2:])
    elif field.kind == KIND_LIST and format in ((b"+l", b"+L", b"+m") if field.format == b"+m" else (b"+l", b"+L")):
        s.form = SOURCE_WIDE if format == b"+L" else SOURCE_NARROW
    elif field.kind == KIND_STRUCT and format == b"+s":
        buffers = 1
    else:
        raise ValueError(f"column {path!r} is of Arrow format {format.decode('utf-8', 'replace')!r}, not {field.type}")
    check_array(f"column {path!r}", array, buffers, schema.n_children)
    if array.length < base + rows:
        raise ValueError(f"column {path!r}: {array.length} rows, not {base + rows}")
    s.begin = base + array.offset
    s.validity = NULL
    if rows == 0:
        return 0
    if array.null_count:
        s.validity = <const uint8_t*>array.buffers[0]
    s.data = <const uint8_t*>array.buffers[1 if s.kind == KIND_OCTETS and s.form == SOURCE_VIEW else buffers - 1]
    s.offsets = <const uint8_t*>array.buffers[1] if buffers > 1 else NULL
    if s.validity != NULL and not any_valid(s.validity, s.begin, rows):
        return 0
    if buffers > 1 and s.offsets == NULL and (s.form != SOURCE_FIXED_SIZE or s.width):
        raise ValueError(f"column {path!r}: a buffer is missing")
    s.on = True
    if field.kind == KIND_OCTETS and s.form == SOURCE_FIXED_SIZE:
        if s.width and s.begin + rows > SOURCE_ROWS_MAX // s.width:
            s.on = False
            raise ValueError(f"column {path!r}: {array.length} rows of {s.width} bytes")
        s.top = (s.begin + rows) * s.width
    elif field.kind == KIND_OCTETS and s.form == SOURCE_VIEW:
        s.piece_count = buffers - 3
        s.pieces = array.buffers + 2
        if s.piece_count and array.buffers[buffers - 1] == NULL:
            s.on = False
            raise ValueError(f"column {path!r}: a buffer is missing")
    elif field.kind == KIND_OCTETS or field.kind == KIND_LIST:
        if s.form == SOURCE_WIDE:
            memcpy(&last, s.offsets + 8 * (s.begin + rows), 8)
        else:
            last = source_i32(s.offsets + 4 * (s.begin + rows))
        s.top = last
        if not 0 <= last < SOURCE_ROWS_MAX or (field.kind == KIND_OCTETS and s.data == NULL and last):
            s.on = False
            raise ValueError(f"column {path!r}: offsets out of range")
    if field.kind == KIND_STRUCT:
        return bind_children(s.children, field.children, path, schema, array, s.begin, rows)
    if field.kind == KIND_LIST:
        return bind_elements(s, field, path, schema, array)
    return 0


cdef int bind_elements(SourceCol* s, Field field, str path, const ArrowSchema* schema, const ArrowArray* array) except -1:
    """Bind the elements of lists, or the keys and values of maps, under any names."""
    cdef Field element = field.children[0]
    cdef ArrowSchema* entries
    cdef ArrowArray* values
    cdef int64_t k
    if schema.n_children != 1 or schema.children == NULL or schema.children[0] == NULL:
        raise ValueError(f"column {path!r}: a list has one child")
    entries = schema.children[0]
    values = array.children[0]
    if field.format != b"+m":
        return bind(s.children, element, path, entries, values, 0, s.top)
    if entries.format == NULL or <bytes>entries.format != b"+s" or entries.n_children != 2 or entries.children == NULL:
        raise ValueError(f"column {path!r} is not a {field.type}")
    check_array(f"column {path!r}", values, 1, 2)
    if values.length < s.top:
        raise ValueError(f"column {path!r}: {values.length} entries, not {s.top}")
    s.children.on = True
    s.children.begin = values.offset
    s.children.validity = NULL
    for k in range(2):
        if entries.children[k] == NULL:
            raise ValueError("the Arrow schema has been released")
        bind(&s.children.children[k], element.children[k], path, entries.children[k], values.children[k],
             values.offset, s.top)
    return 0
