"""The command line. Every verb but `abort` reads a journal's files directly: no Ray, no server.

    _main       the table of verbs, loaded when they are called, and the one place errors end
    _options    what several verbs take
    _where      journals, attempts and positions as people name them
    _signals    being asked to stop
    _plain      the state of a run as plain JSON
    _text       durations, times, sizes and names for people
    _render     tables, colours and progress bars
    _summary    the list of runs; _story: one run; _event_line: one event
    _follow     all journals of a root, as they grow
    _child      a script that runs in our place; _live: its runs as they go
    _shown      the ways of showing them; _region: the lowest rows of a terminal

Every other module is the verb of its name (`import_`, because `import` is a word of Python).
"""

from trainstate.cli._main import main

__all__ = ["main"]
