"""What gen_tables.py makes, a module for each source in wirefmt/spec, and the C text helpers they share."""
