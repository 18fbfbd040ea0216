"""A simulated cluster in which the real core and the real loop of a controller run.

One seed is one world: its clock, its order of things, its faults. The same seed gives the same trace in
every process, so a failure is a number: `python -m tests.sim SEED`. Many of them: scripts/bench/sim.

world.py        time, chance, and coroutines that wait for either
settings.py     what a user asks for: sizes, replica groups, budgets
store.py        the state actor: the store's rules in memory, and how its caller asks again
nodes.py        nodes and placement groups, by Ray's rules
misfortunes.py  what befalls the nodes
scripts.py      what train functions do
worker.py       a worker process and its train function
cluster.py      worker processes, by name, on bundles
controller.py   what the controller actor is around `Loop`
effects.py      its effects, in this world
reaper.py       who ends the run of a driver that died
run.py          a whole run: who dies when, and what must hold at the end
invariants.py, invariants_groups.py, invariants_size.py
                what must hold at every step
planted_groups.py, test_planted.py
                bugs, and that they are found
"""
