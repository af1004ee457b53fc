"""Wire formats of message brokers, read and written at native speed."""

__version__ = "0.1.0"
