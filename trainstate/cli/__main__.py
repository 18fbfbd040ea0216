"""`python -m trainstate.cli`, for a checkout that is not installed."""

from trainstate.cli import main

main(prog_name="trainstate")
