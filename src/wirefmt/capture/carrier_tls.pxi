# TLS that protocols negotiate inside a stream: not decoded, its octets are counted.

begin_carrier[<int>CARRIER_TLS] = begin_tls


cdef void begin_tls(FrameStreams s, Flow* f, int end, const Mark* mark) noexcept nogil:
    s.put_fault(f, end, ROW_GAP, b"TLS from here on: not decoded", mark)       # words: ok
    s.dismiss(f, UNDECODED_TLS)
