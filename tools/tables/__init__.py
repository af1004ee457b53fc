"""The generators of gen_tables.py, one module per source in wirefmt/spec, and the C text helpers they share."""
