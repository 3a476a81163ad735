------------------------------- MODULE Outbox -------------------------------
\* One shard of the outbox, the states of one run in it, and the partition of the compacted topic that has them.
\* The README names the code of each action.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Daemons,
    States,           \* How many states the run comes to.
    Claims,           \* How often the lease is claimed, at most.
    Connections,      \* How often a producer connects, at most.
    EpochsFence,      \* The broker refuses a producer whose transactional id has a newer one.
    ConnectsFirst,    \* Rows are read after the producer has connected for this lease.
    OldestFirst,      \* No row is sent before the older ones that wait.
    LeaseChecked      \* Rows are read and deleted only under the lease.

VARIABLES
    decided,          \* States that were decided: 1 .. decided.
    rows,             \* States with a row in the outbox.
    epoch,            \* Epoch of the lease.
    held,             \* By daemon, the epoch that it believes to hold; 0: none.
    newest,           \* Epoch of the newest producer.
    producer,         \* By daemon, the epoch of its producer and of the lease for which it connected.
    batch,            \* By daemon, the states that it read, to be sent or acknowledged.
    sent,             \* By daemon, whether its batch is on the way.
    requests,         \* Requests on the way: they may arrive at any time, or never.
    fence,            \* Newest epoch of a producer that has written to the partition.
    log               \* The states in the partition.

vars == <<decided, rows, epoch, held, newest, producer, batch, sent, requests, fence, log>>

None == [epoch |-> 0, lease |-> 0]

Init ==
    /\ decided = 0
    /\ rows = {}
    /\ epoch = 0
    /\ held = [d \in Daemons |-> 0]
    /\ newest = 0
    /\ producer = [d \in Daemons |-> None]
    /\ batch = [d \in Daemons |-> {}]
    /\ sent = [d \in Daemons |-> FALSE]
    /\ requests = {}
    /\ fence = 0
    /\ log = <<>>

RECURSIVE Ordered(_)
Ordered(S) == IF S = {} THEN <<>> ELSE LET first == CHOOSE s \in S : \A t \in S : s <= t IN <<first>> \o Ordered(S \ {first})

\* The transaction that decides about the run inserts the row.
Decide ==
    /\ decided < States
    /\ decided' = decided + 1
    /\ rows' = rows \cup {decided + 1}
    /\ UNCHANGED <<epoch, held, newest, producer, batch, sent, requests, fence, log>>

\* The former owner may be frozen, and knows of nothing. A daemon that claims begins anew.
Claim(d) ==
    /\ epoch < Claims
    /\ epoch' = epoch + 1
    /\ held' = [held EXCEPT ![d] = epoch + 1]
    /\ producer' = [producer EXCEPT ![d] = None]
    /\ batch' = [batch EXCEPT ![d] = {}]
    /\ sent' = [sent EXCEPT ![d] = FALSE]
    /\ UNCHANGED <<decided, rows, newest, requests, fence, log>>

Connect(d) ==
    /\ held[d] > 0
    /\ producer[d] = None
    /\ newest < Connections
    /\ newest' = newest + 1
    /\ producer' = [producer EXCEPT ![d] = [epoch |-> newest + 1, lease |-> held[d]]]
    /\ UNCHANGED <<decided, rows, epoch, held, batch, sent, requests, fence, log>>

Read(d) ==
    /\ held[d] > 0
    /\ batch[d] = {}
    /\ rows # {}
    /\ ConnectsFirst => producer[d] # None
    /\ LeaseChecked => held[d] = epoch
    /\ \E s \in rows : batch' = [batch EXCEPT ![d] = {t \in rows : IF OldestFirst THEN t <= s ELSE t >= s}]
    /\ UNCHANGED <<decided, rows, epoch, held, newest, producer, sent, requests, fence, log>>

Send(d) ==
    /\ batch[d] # {}
    /\ ~sent[d]
    /\ producer[d] # None
    /\ requests' = requests \cup {[by |-> d, epoch |-> producer[d].epoch, states |-> batch[d]]}
    /\ sent' = [sent EXCEPT ![d] = TRUE]
    /\ UNCHANGED <<decided, rows, epoch, held, newest, producer, batch, fence, log>>

\* Kafka writes a request whole. Idempotence drops the second copy of one: a request arrives once.
Arrive(r) ==
    /\ requests' = requests \ {r}
    /\ IF EpochsFence /\ r.epoch < fence
       THEN UNCHANGED <<fence, log>>
       ELSE /\ log' = log \o Ordered(r.states)
            /\ fence' = IF r.epoch > fence THEN r.epoch ELSE fence
    /\ UNCHANGED <<decided, rows, epoch, held, newest, producer, batch, sent>>

\* The acknowledgement names the producer: only what it has written counts.
Acknowledged(d) ==
    /\ sent[d]
    /\ \A r \in requests : r.by # d \/ r.epoch # producer[d].epoch
    /\ fence = producer[d].epoch \/ ~EpochsFence
    /\ batch[d] \subseteq {log[i] : i \in 1 .. Len(log)}

Delete(d) ==
    /\ Acknowledged(d)
    /\ rows' = IF LeaseChecked /\ held[d] # epoch THEN rows ELSE rows \ batch[d]
    /\ batch' = [batch EXCEPT ![d] = {}]
    /\ sent' = [sent EXCEPT ![d] = FALSE]
    /\ UNCHANGED <<decided, epoch, held, newest, producer, requests, fence, log>>

\* No answer within the time: the producer is given up. Its request may still arrive.
GiveUp(d) ==
    /\ producer[d] # None
    /\ producer' = [producer EXCEPT ![d] = None]
    /\ batch' = [batch EXCEPT ![d] = {}]
    /\ sent' = [sent EXCEPT ![d] = FALSE]
    /\ UNCHANGED <<decided, rows, epoch, held, newest, requests, fence, log>>

Next ==
    \/ Decide
    \/ \E d \in Daemons : Claim(d) \/ Connect(d) \/ Read(d) \/ Send(d) \/ Delete(d) \/ GiveUp(d)
    \/ \E r \in requests : Arrive(r)

Spec == Init /\ [][Next]_vars

\* Compaction keeps the last record of a run. Without rows nothing follows it.
TheLastRecordIsTheNewest == rows = {} /\ decided > 0 => log # <<>> /\ log[Len(log)] = decided

NothingIsLost == \A s \in 1 .. decided : s \in rows \/ \E i \in 1 .. Len(log) : log[i] = s
=============================================================================
