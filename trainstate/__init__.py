"""trainstate: the events are the state of distributed training on Ray.

Importing it loads nothing and configures nothing. Start at

    trainstate.store        Store to record events, History and Root to read them
    trainstate.core         what events mean: Run, check, evolve
    trainstate.journal      the bytes on the disk
    trainstate.export       Exporter, what a sink must be able to do, and Pump
    trainstate.testing      given-when-then, faulty disks, the contract of an exporter
"""
