------------------------------- MODULE Ingest -------------------------------
\* The records of one partition, taken in batches under a lease.
\* The README names the code of each action.
EXTENDS Integers

CONSTANTS
    Daemons,
    Records,          \* Records in the partition.
    Claims,           \* How often the lease is claimed, at most.
    OffsetCompared    \* A batch commits only if the offset and the epoch are those with which it was read.

VARIABLES
    epoch,            \* Epoch of the lease.
    next,             \* The offset in Postgres: the first record that is not taken.
    held,             \* By daemon, the epoch that it believes to hold; 0: none.
    batch,            \* By daemon, the records that it read and has not seen committed.
    taken             \* By record, how often a committed batch has it.

vars == <<epoch, next, held, batch, taken>>

Offsets == 0 .. Records - 1
None == [first |-> 0, last |-> -1, epoch |-> 0]

Init ==
    /\ epoch = 0
    /\ next = 0
    /\ held = [d \in Daemons |-> 0]
    /\ batch = [d \in Daemons |-> None]
    /\ taken = [o \in Offsets |-> 0]

\* The former owner may be frozen, and knows of nothing.
Claim(d) ==
    /\ epoch < Claims
    /\ epoch' = epoch + 1
    /\ held' = [held EXCEPT ![d] = epoch + 1]
    /\ batch' = [batch EXCEPT ![d] = None]
    /\ UNCHANGED <<next, taken>>

Read(d) ==
    /\ held[d] > 0
    /\ batch[d] = None
    /\ next < Records
    /\ \E last \in next .. Records - 1 : batch' = [batch EXCEPT ![d] = [first |-> next, last |-> last, epoch |-> held[d]]]
    /\ UNCHANGED <<epoch, next, held, taken>>

MayCommit(b) == ~OffsetCompared \/ (b.first = next /\ b.epoch = epoch)

\* The answer may be lost: then the daemon tries the same batch again.
Commit(d) ==
    LET b == batch[d] IN
    /\ b # None
    /\ MayCommit(b)
    /\ next' = b.last + 1
    /\ taken' = [o \in Offsets |-> IF o \in b.first .. b.last THEN taken[o] + 1 ELSE taken[o]]
    /\ batch' \in {batch, [batch EXCEPT ![d] = None]}
    /\ UNCHANGED <<epoch, held>>

\* It is fenced, or reads again for any other reason.
Drop(d) ==
    /\ batch[d] # None
    /\ batch' = [batch EXCEPT ![d] = None]
    /\ UNCHANGED <<epoch, next, held, taken>>

\* Keeps the state space finite where nothing is compared.
Bound == \A o \in Offsets : taken[o] < 3

Next == \E d \in Daemons : Claim(d) \/ Read(d) \/ Commit(d) \/ Drop(d)

Spec == Init /\ [][Next]_vars

EachRecordIsTakenOnce == \A o \in Offsets : taken[o] = IF o < next THEN 1 ELSE 0
=============================================================================
