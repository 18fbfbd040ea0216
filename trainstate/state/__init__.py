"""The state service: one actor per Ray cluster that owns the journal, and what talks to it.

    home        where the journals of a machine are, whose each one is, and whether that owner is gone
    actor       TrainStateActor: the journal, the store, the reaper, in one process on the head node
    names       what our actors and placement groups are called in Ray
    version     which versions may talk to each other
    client      finding or making that actor, and greeting it
    manager     TrainStateManager: the writer of one run, wherever its controller is
    removal     making the workers and placement groups of an attempt go away
    ending      ending a run that has nobody left to end it
    reaper      noticing that a controller is gone for good, and ending its run
    reconcile   ending the open runs of a journal whose cluster is gone

Importing the package loads no Ray: `home`, `ending` and `reconcile` serve the command line too.
"""
