----------------------------- MODULE Submission -----------------------------
\* The attempts of one task, from the intent in Postgres to the process on a host.
\* The README names the code of each action.
EXTENDS Integers, FiniteSets

CONSTANTS
    Attempts,         \* How many attempts, at most.
    TwoPhases,        \* A task begins after a daemon has recorded its runner.
    StateCompared,    \* A runner is recorded only for an attempt that is being submitted.
    SpoolsToldApart,  \* Only daemons that see what was submitted take over a claim.
    ContactWatched    \* A runner that no daemon records ends before its attempt is lost.

VARIABLES
    state,            \* By attempt, as Postgres has it.
    owner,            \* By attempt, the daemon that submits it.
    place,            \* By attempt, the host on which it is submitted.
    doomed,           \* By attempt, whether a user wants it killed.
    doing,            \* By daemon, the attempt in its hands and the next step. A frozen daemon goes on with it later.
    runner,           \* By host and attempt, the runner that has claimed the spool.
    confirmed,        \* By host and attempt, whether the spool says so.
    begun             \* By attempt, how often its task has begun.

vars == <<state, owner, place, doomed, doing, runner, confirmed, begun>>

Daemons == {"a", "b", "c"}
Hosts == {"one", "two"}
HostOf == [a |-> "one", b |-> "one", c |-> "two"]
Numbers == 1 .. Attempts
NoOwner == "none"
NoPlace == "none"
Idle == [attempt |-> 0, step |-> "idle"]

Init ==
    /\ state = [a \in Numbers |-> IF a = 1 THEN "intent" ELSE "none"]
    /\ owner = [a \in Numbers |-> NoOwner]
    /\ place = [a \in Numbers |-> NoPlace]
    /\ doomed = [a \in Numbers |-> FALSE]
    /\ doing = [d \in Daemons |-> Idle]
    /\ runner = [h \in Hosts |-> [a \in Numbers |-> "none"]]
    /\ confirmed = [h \in Hosts |-> [a \in Numbers |-> FALSE]]
    /\ begun = [a \in Numbers |-> 0]

\* An attempt ends in the transaction that makes the next one, if there is one: a retry, or a clear.
Ended(a) == [state EXCEPT ![a] = "ended", ![IF a < Attempts THEN a + 1 ELSE a] = IF a < Attempts THEN "intent" ELSE "ended"]

Hold(d, a, step) == doing' = [doing EXCEPT ![d] = [attempt |-> a, step |-> step]]
Rest(d) == doing' = [doing EXCEPT ![d] = Idle]
At(d, step) == doing[d].step = step

ClaimIntent(d, a) ==
    /\ At(d, "idle")
    /\ state[a] = "intent"
    /\ ~doomed[a]
    /\ state' = [state EXCEPT ![a] = "submitting"]
    /\ owner' = [owner EXCEPT ![a] = d]
    /\ place' = [place EXCEPT ![a] = HostOf[d]]
    /\ Hold(d, a, "launch")
    /\ UNCHANGED <<doomed, runner, confirmed, begun>>

\* The lease of the owner may expire at any time: it may be frozen.
TakeOver(d, a) ==
    /\ At(d, "idle")
    /\ state[a] = "submitting"
    /\ owner[a] # d
    /\ SpoolsToldApart => place[a] = HostOf[d]
    /\ owner' = [owner EXCEPT ![a] = d]
    /\ place' = [place EXCEPT ![a] = HostOf[d]]
    /\ Hold(d, a, "launch")
    /\ UNCHANGED <<state, doomed, runner, confirmed, begun>>

\* One runner claims a spool, ever.
Launch(d) ==
    LET a == doing[d].attempt h == HostOf[d] IN
    /\ At(d, "launch")
    /\ runner' = IF runner[h][a] = "none" THEN [runner EXCEPT ![h][a] = "waiting"] ELSE runner
    /\ Hold(d, a, "record")
    /\ UNCHANGED <<state, owner, place, doomed, confirmed, begun>>

\* The host can start nothing, so any host may claim the attempt.
GiveBack(d) ==
    LET a == doing[d].attempt IN
    /\ At(d, "launch")
    /\ state[a] = "submitting"
    /\ owner[a] = d
    /\ state' = [state EXCEPT ![a] = "intent"]
    /\ owner' = [owner EXCEPT ![a] = NoOwner]
    /\ place' = [place EXCEPT ![a] = NoPlace]
    /\ Rest(d)
    /\ UNCHANGED <<doomed, runner, confirmed, begun>>

\* Also for an attempt that another daemon of the host has taken over: its runner is the same.
Record(d) ==
    LET a == doing[d].attempt IN
    /\ At(d, "record")
    /\ state' = IF ~StateCompared \/ state[a] = "submitting" THEN [state EXCEPT ![a] = "accepted"] ELSE state
    /\ Hold(d, a, "look")
    /\ UNCHANGED <<owner, place, doomed, runner, confirmed, begun>>

Look(d) ==
    LET a == doing[d].attempt IN
    /\ At(d, "look")
    /\ IF state[a] = "accepted" /\ owner[a] = d /\ ~doomed[a] THEN Hold(d, a, "confirm") ELSE Rest(d)
    /\ UNCHANGED <<state, owner, place, doomed, runner, confirmed, begun>>

\* The daemon that recorded the runner may have died before it confirmed it.
Observe(d, a) ==
    /\ At(d, "idle")
    /\ state[a] = "accepted"
    /\ SpoolsToldApart => place[a] = HostOf[d]
    /\ runner[HostOf[d]][a] = "waiting"
    /\ ~doomed[a]
    /\ Hold(d, a, "confirm")
    /\ UNCHANGED <<state, owner, place, doomed, runner, confirmed, begun>>

Confirm(d) ==
    /\ At(d, "confirm")
    /\ confirmed' = [confirmed EXCEPT ![HostOf[d]][doing[d].attempt] = TRUE]
    /\ Rest(d)
    /\ UNCHANGED <<state, owner, place, doomed, runner, begun>>

Die(d) ==
    /\ ~At(d, "idle")
    /\ Rest(d)
    /\ UNCHANGED <<state, owner, place, doomed, runner, confirmed, begun>>

Begin(h, a) ==
    /\ runner[h][a] = "waiting"
    /\ TwoPhases => confirmed[h][a]
    /\ runner' = [runner EXCEPT ![h][a] = "running"]
    /\ begun' = [begun EXCEPT ![a] = @ + 1]
    /\ UNCHANGED <<state, owner, place, doomed, doing, confirmed>>

\* The task ends, is killed, or its runner has lost contact.
Over(h, a) ==
    /\ runner[h][a] \in {"waiting", "running"}
    /\ runner' = [runner EXCEPT ![h][a] = "over"]
    /\ UNCHANGED <<state, owner, place, doomed, doing, confirmed, begun>>

Doom(a) ==
    /\ state[a] \in {"intent", "submitting", "accepted"}
    /\ ~doomed[a]
    /\ doomed' = [doomed EXCEPT ![a] = TRUE]
    /\ UNCHANGED <<state, owner, place, doing, runner, confirmed, begun>>

\* An intent, or a claim of a frozen daemon that its successor does not find in the spool.
EndDoomed(a) ==
    /\ doomed[a]
    /\ state[a] = "intent" \/ (state[a] = "submitting" /\ runner[place[a]][a] \in {"none", "over"})
    /\ state' = Ended(a)
    /\ UNCHANGED <<owner, place, doomed, doing, runner, confirmed, begun>>

EndObserved(a) ==
    /\ state[a] = "accepted"
    /\ place[a] # NoPlace
    /\ runner[place[a]][a] = "over"
    /\ state' = Ended(a)
    /\ UNCHANGED <<owner, place, doomed, doing, runner, confirmed, begun>>

\* Another host cannot see the runner. That it is over by then is a matter of time: it ends after three quarters of the silence.
DeclareLost(a) ==
    /\ state[a] = "accepted"
    /\ ContactWatched /\ place[a] # NoPlace => runner[place[a]][a] = "over"
    /\ state' = Ended(a)
    /\ UNCHANGED <<owner, place, doomed, doing, runner, confirmed, begun>>

\* It was not submitted for too long, and is queued again.
DeclareStuck(a) ==
    /\ state[a] = "submitting"
    /\ state' = Ended(a)
    /\ UNCHANGED <<owner, place, doomed, doing, runner, confirmed, begun>>

Next ==
    \/ \E d \in Daemons : Launch(d) \/ GiveBack(d) \/ Record(d) \/ Look(d) \/ Confirm(d) \/ Die(d)
    \/ \E d \in Daemons, a \in Numbers : ClaimIntent(d, a) \/ TakeOver(d, a) \/ Observe(d, a)
    \/ \E h \in Hosts, a \in Numbers : Begin(h, a) \/ Over(h, a)
    \/ \E a \in Numbers : Doom(a) \/ EndDoomed(a) \/ EndObserved(a) \/ DeclareLost(a) \/ DeclareStuck(a)

Spec == Init /\ [][Next]_vars

Running == {each \in Hosts \X Numbers : runner[each[1]][each[2]] = "running"}

ExecutionsNeverOverlap == Cardinality(Running) <= 1
WhatHasEndedDoesNotRun == \A each \in Running : state[each[2]] # "ended"
EachAttemptBeginsOnce == \A a \in Numbers : begun[a] <= 1
=============================================================================
