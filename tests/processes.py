"""Processes that tests start."""

import signal


def heed_signals():
    """Let a process find its signals as from a terminal, even where those of the tests are ignored (`nohup`)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
