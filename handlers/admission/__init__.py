"""Which waiting tasks get slots of a pool: pure but for `load`.

How long a task waits. A task is eligible when its run is running, its DAG not paused, its pool has as many slots in all as it
needs, and nothing else limits it but free slots and the parallelism of the installation (`max_active_tasks`,
`max_active_tis_per_dag`, `max_active_tis_per_dagrun`).

* Until it has waited for `TIDEGATE_FAIR_AFTER_S`, every task before it in the queue of the pool may be admitted first. Tasks that
  do not fit are passed over.
* From then on, every fourth task admitted to the pool is the eligible one that has waited longest. So an eligible task waits for
  at most 4 · (older + 1) admissions to its pool, itself included, where `older` is the number of tasks that have waited longer.
  In time: that many times the mean time between freed slots, plus one `TIDEGATE_SWEEP_S`.
* If that task needs more slots than are free, no other task gets slots until enough are free. Only then do free slots stay unused
  although a task fits.
* When the installation is at its parallelism, the next free place goes to the pool that this daemon has served least recently.
* Where the 1,000 tasks of the pool that have waited longest are held back, by a pause or by limits of their own, an eligible task
  further back is found by its run: of tasks of one run and priority, the first in the queue counts as the oldest.

Assumptions: a daemon is up, and tasks end. `tests/storms/limits` checks the bounds at every admission.
"""
