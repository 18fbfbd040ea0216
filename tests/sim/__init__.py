"""A simulated cluster in which the real core and the real loop of a controller run.

One seed is one world: its clock, its order of things, its faults. The same seed gives the same trace in
every process, so a failure is a number: `python -m tests.sim SEED`.

world.py        time, chance, and coroutines that wait for either
store.py        the state actor: the store's rules in memory, and how its caller asks again
worker.py       a worker process and its train function
cluster.py      placement groups and workers, by name
controller.py   what the controller actor is around `Loop`: its effects, in this world
reaper.py       who ends the run of a driver that died
run.py          a whole run: who dies when, and what must hold at the end
invariants.py   what must hold at every step
"""
