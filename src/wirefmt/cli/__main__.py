"""`python -m wirefmt.cli` is `wirefmt`."""

from wirefmt.cli import main

main()
