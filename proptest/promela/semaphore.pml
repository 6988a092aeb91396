/*
 * The protocol of semaphore.Weighted, for exhaustive checking with spin: every
 * interleaving of a few goroutines, atomic operation by atomic operation.
 *
 * The inlines are named after the Go functions they follow; README.md has the
 * table. A configuration is a set of -D flags; run lists those that are checked:
 *
 *   UNFAIR      Config.Unfair
 *   WORKERS=n   n goroutines that Acquire and Release
 *   TRYERS=n    n goroutines that TryAcquire, or AcquireWithin without a wait,
 *               and Release
 *   ROUNDS=n    how often each of these does it
 *   LIGHTEST=n  weights are from n to 2, instead of from 1
 *   CANCEL      the contexts of worker 0 and of Drain end, at any moment
 *   TIMED       worker 0 has a maximum wait, which passes at any moment
 *   ASYNC       worker 1 makes asynchronous requests
 *   AGING       at some moment, who waits by then is young no more
 *   RESIZES=n   one goroutine calls SetLimit n times
 *   CLOSE       one goroutine calls Close
 *   DRAIN       one goroutine calls Drain
 *   CHUNK=1     mu is let go of after each waiter decided, instead of never
 *
 * BROKEN_... builds a fault in. All other choices, the first limit and the
 * weights among them, are spin's, which tries each.
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef TRYERS
#define TRYERS 0
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef LIGHTEST
#define LIGHTEST 1
#endif
#ifndef RESIZES
#define RESIZES 0
#endif
#ifndef CHUNK
#define CHUNK 0
#endif

#define N (WORKERS + TRYERS)

/* ---- The semaphore. ---- */

#define shut (-1)
#define slow (-2)

mtype = { none, waiting, granted, canceled, expired, evicted, closed_, refused };

short state;            /* the word */
short limit;            /* atomic: written under mu, read by Release without */
bool mu;
short avail;            /* under mu, as is everything below */
bool closed;
byte queue[N], queued;  /* waiters by number, first in, first out */
byte walk;              /* place in the queue of SetLimit's eviction walk */
bool draining;          /* s.idle is there, */
bool idle;              /* and closed */

/* Of a request; a goroutine makes one at a time. */
short weight[N];
mtype outcome[N];
byte token[N];          /* in its channel */
bool ctxDone[N];

/* A condition that a configuration rules out is no step of its own. */
#ifdef CANCEL
#define ended(w) ctxDone[w]
#else
#define ended(w) false
#endif
#ifdef DRAIN
#define drained (draining && inUse == 0)
#else
#define drained false
#endif
#ifdef ASYNC
#define async(w) (w == 1)
#else
#define async(w) false
#endif

#define tooHeavy(n) (limit > 0 && (n) > limit)
#define inUse       (limit - avail)
#define HEAD        queue[0]

#ifdef UNFAIR
bool woken[N];
byte since[N];          /* the time it was queued */
byte time;              /* 0, and with AGING some time 1, which is past patience */
#define handOff 2
#define young(w, now) (since[w] >= now)
#define TOKENS 2        /* its wake and its outcome */
#else
#define handOff 0
#define young(w, now) false
#define time 0
#define TOKENS 1
#endif

/* ---- Ghosts: what only the callers know. ---- */

short held[N];          /* permits each goroutine was granted and has not released */
byte busy;              /* goroutines that let go of mu and will take it again */
short room;             /* see ROOM */
byte asked[N];          /* one more than the weight a TryAcquire under way asks for */
bool justified[N];      /* at some instant since then it had to be refused */
bool published[N];      /* the outcome shows in the word */

#if N == 1
#define HELD held[0]
#elif N == 2
#define HELD (held[0] + held[1])
#elif N == 3
#define HELD (held[0] + held[1] + held[2])
#else
#define HELD (held[0] + held[1] + held[2] + held[3])
#endif

/* ROOM is the heaviest weight that a TryAcquire must be given at this instant;
   -1 if none. A locked operation takes effect when it publishes: up to then
   others may see the semaphore as it was before. */
#define ROOM (state >= 0 -> state : room)

/* pan, built with -DPRINTF, prints the name before the assertion fails. */
#define CHECK(name, cond) if :: (cond) :: else -> printf(name); assert(false) fi

hidden byte i, k;       /* scratch, within one step */

inline noteRefusals() {
#if TRYERS
    i = WORKERS;
    do
    :: i < N ->
        if :: asked[i] > 0 && ROOM < asked[i] - 1 -> justified[i] = true :: else fi;
        i++
    :: else -> break
    od;
    i = 0
#else
    skip
#endif
}

/* hold: me has got n permits without waiting. */
inline hold(n) {
    held[me] = held[me] + n;
    got = granted;
    CHECK("over-grant: ", HELD <= limit)
}

/* letGo: me has returned n permits. */
inline letGo(n) {
    held[me] = held[me] - n
}

/* ---- state.go ---- */

inline lock() {
    atomic { !mu -> mu = true };
    if
    :: state >= 0 ->
#ifdef BROKEN_LOCK_STORE
        avail = state;
        d_step { room = state; state = slow }
#else
        d_step { avail = state; room = state; state = slow }
#endif
    :: else
    fi
}

#ifdef UNFAIR
#define passable (queued > 0)
#else
#define passable false
#endif

inline publish() {
    d_step {
        if
#ifdef BROKEN_PUBLISH_DRAIN
        :: !closed && passable -> state = slow
#else
        :: !closed && (draining || passable) -> state = slow
#endif
        :: else ->
            if
#ifdef BROKEN_PUBLISH_QUEUE
            :: closed || avail < 0 -> state = shut
#else
            :: closed || avail < 0 || queued > 0 -> state = shut
#endif
            :: else -> state = avail
            fi
        fi;
        room = ((closed || avail < 0 || queued > 0 && !passable) -> -1 : avail);
        noteRefusals();
        if :: state >= 0 -> avail = 0; room = 0 :: else fi;
        i = 0;
        do
        :: i < N -> if :: out & (1 << i) -> published[i] = true :: else fi; i++
        :: else -> break
        od;
        i = 0
    }
}

inline publishLocked() {
    if
    :: drained -> d_step { CHECK("drain: ", HELD == 0); draining = false; idle = true }
    :: else
    fi;
    publish()
}

inline unlock() {
#ifdef BROKEN_UNLOCK_FIRST
    mu = false;
    publishLocked()
#else
    publishLocked();
    mu = false
#endif
}

/* ---- wait.go and unfair.go. The batch is out, a set of waiters decided, and
   wake, one more than the waiter woken. ---- */

#define LOCALS  byte out, wake; bool more
#define FULL    (CHUNK > 0 && out != 0)

/* decide: a waiter leaves the queue, from anywhere, with its one outcome. */
inline decide(w, o) {
    CHECK("single outcome: ", outcome[w] == waiting);
    outcome[w] = o;
    weight[w] = 0;
    i = 0;
    do :: queue[i] != w -> i++ :: else -> break od;
    if :: i < walk -> walk-- :: else fi;
    queued--;
    do :: i < queued -> queue[i] = queue[i+1]; i++ :: else -> break od;
    queue[queued] = 0
}

inline grant(w) {
#ifndef BROKEN_WAKE_WITHOUT_PERMIT
    avail = avail - weight[w];
#endif
    held[w] = held[w] + weight[w];
    CHECK("over-grant: ", HELD <= limit);
    decide(w, granted)
}

inline send(w) {
    d_step {
        CHECK("single outcome: ", token[w] < TOKENS);
        token[w] = token[w] + 1
    }
}

/* tell sends the tokens one by one, in any order. */
inline tell() {
    do
    :: out & 1 -> out = out & ~1; send(0)
    :: out & 2 -> out = out & ~2; send(1)
#if N > 2
    :: out & 4 -> out = out & ~4; send(2)
#endif
#if N > 3
    :: out & 8 -> out = out & ~8; send(3)
#endif
    :: out == 0 -> break
    od;
#ifdef UNFAIR
    if
    :: wake > 0 -> send(wake - 1); wake = 0
    :: else
    fi
#endif
}

inline tellAndRelock() {
    busy++;
    unlock();
    tell();
    lock();
    busy--
}

#define LONE  (out != 0 && (out & (out - 1)) == 0)
#define FRONT (!closed && !FULL && queued > 0)
#define FITS  (!tooHeavy(weight[HEAD]) && weight[HEAD] <= avail)

/* The order of the cases is that of the switch in Go. */
inline grantLocked(now) {
    do
    :: atomic { FRONT && ended(HEAD) -> d_step {
        k = HEAD; decide(k, canceled); out = out | (1 << k) } }
    :: atomic { FRONT && !ended(HEAD) && tooHeavy(weight[HEAD]) -> d_step {
        k = HEAD; decide(k, evicted); out = out | (1 << k) } }
    :: atomic { FRONT && !ended(HEAD) && FITS && (async(HEAD) || !young(HEAD, now)) -> d_step {
        k = HEAD; grant(k); out = out | (1 << k) } }
#ifdef UNFAIR
    :: atomic { FRONT && !ended(HEAD) && FITS && !async(HEAD) && young(HEAD, now) -> d_step {
        if :: !woken[HEAD] -> woken[HEAD] = true; wake = HEAD + 1 :: else fi;
        more = false } };
        break
#endif
    :: else -> more = !closed && FULL; break
    od
}

inline grantAndUnlock(now) {
    do
    :: grantLocked(now);
        if :: more -> tellAndRelock() :: else -> break fi
    od;
    more = false;
#ifdef BROKEN_TELL_FIRST
    tell();
    unlock()
#elif defined(BROKEN_UNLOCK_FIRST) || defined(UNFAIR)
    unlock();
    tell()
#else
    publishLocked();
    if :: LONE -> tell() :: else fi; /* tellParked */
    mu = false;
    tell()
#endif
}

inline lockAndServe(now) {
    lock();
#ifdef UNFAIR
    do
    :: queued > 0 ->
        grantLocked(now);
        if :: more || out != 0 || wake != 0 -> tellAndRelock() :: else -> break fi
    :: else -> break
    od;
    more = false
#endif
}

#ifdef BROKEN_ADMIT_QUEUE
#define mayPass(now) true
#else
#define mayPass(now) (queued == 0 || young(HEAD, now))
#endif

/* admitLocked leaves got none if the request must wait. */
inline admitLocked(n, waits, now) {
    if
    :: closed -> got = closed_
    :: !closed && tooHeavy(n) -> got = evicted
    :: !closed && !tooHeavy(n) && n <= avail && mayPass(now) ->
        avail = avail - n; hold(n);
        CHECK("no barging: ", queued == 0 || young(HEAD, now))
    :: else -> got = (waits -> none : refused)
    fi
}

/* swap is the compare-and-swap that takes n of the free permits seen. */
inline swap(n) {
    d_step {
        if
        :: state == free ->
            state = free - n; hold(n); noteRefusals();
            CHECK("no barging: ", queued == 0)
        :: else
        fi
    }
}

/* AcquireWithin, willing to wait. */
inline acquire(n) {
    do
    :: free = state;
        if
        :: ended(me) -> got = canceled; break
        :: else ->
            if
            :: free >= n ->
                swap(n);
                if :: got == granted -> break :: got == none fi
            :: free < n -> acquireSlow(n); break
            fi
        fi
    od;
    free = 0
}

/* What is done under mu is one step where nobody could look in between. */
inline acquireSlow(n) {
    now = time;
    lockAndServe(now);
    d_step {
        if
        :: ended(me) -> got = canceled
        :: else ->
#ifdef BROKEN_CHECK_THEN_PARK
            if :: closed || free >= n || tooHeavy(n) -> admitLocked(n, true, now) :: else fi;
#else
            admitLocked(n, true, now);
#endif
            if
            :: got == none ->
                queue[queued] = me; queued++; weight[me] = n; outcome[me] = waiting;
#ifdef UNFAIR
                since[me] = now;
#endif
                got = waiting
            :: else
            fi
        fi
    };
    now = 0;
    unlock();
    if
    :: got == waiting -> wait()
    :: else
    fi
}

/* receive takes one token. */
#define receive() atomic { token[me] > 0 -> token[me] = token[me] - 1 }

/* collect: me, who has all its tokens, learns its outcome. */
inline collect() {
    d_step {
        got = outcome[me];
        CHECK("told before decided: ", got != waiting);
        CHECK("told before published: ", published[me]);
        published[me] = false; outcome[me] = 0;
        i = 0
    }
}

#ifdef UNFAIR

/* owed counts the tokens that are sent, or about to be; the one received, if
   it was a wake, is made up for by woken. */
inline wait() {
    do
    :: if
        :: atomic { token[me] > 0 -> token[me] = token[me] - 1; told = true }
#ifdef CANCEL
        :: ctxDone[me]
#endif
        fi;
        lock();
        d_step {
            owed = 0;
            if :: woken[me] -> owed++ :: else fi;
            if :: told -> owed-- :: else fi;
            told = false
        };
        if
        :: outcome[me] != waiting ->
            unlock();
            if :: owed + 1 > 0 -> atomic { token[me] > owed -> token[me] = token[me] - owed - 1 } :: else fi;
            collect();
            break
        :: outcome[me] == waiting && ended(me) ->
            d_step { decide(me, canceled); got = canceled; outcome[me] = 0 };
#ifdef BROKEN_WAKE_NOT_PASSED
            unlock();
#else
            grantAndUnlock(handOff);
#endif
#ifndef BROKEN_TOKEN_LEFT
            if :: owed > 0 -> receive() :: else fi;
#endif
            break
        :: outcome[me] == waiting && !ended(me) ->
            /* takeTurnAndUnlock */
#ifndef BROKEN_WOKEN_FOR_GOOD
            woken[me] = false;
#endif
            if
            :: weight[me] > avail -> unlock()
            :: else ->
                d_step { CHECK("no barging: ", HEAD == me); grant(me); got = granted; outcome[me] = 0 };
#ifdef BROKEN_WAKE_NOT_PASSED
                unlock();
#else
                now = time;
                grantAndUnlock(now);
                now = 0;
#endif
                break
            fi
        fi
    od;
    owed = 0;
    d_step { woken[me] = false; since[me] = 0 }
}

#else

inline wait() {
    if
    :: receive(); collect()
#ifdef CANCEL
    :: ctxDone[me] ->
        lock();
        if
        :: outcome[me] == waiting ->
            d_step { decide(me, canceled); got = canceled; outcome[me] = 0 };
#ifdef BROKEN_WITHDRAW
            unlock()
#else
            grantAndUnlock(handOff)
#endif
        :: else ->
            unlock();
#ifdef BROKEN_TOKEN_LEFT
            d_step { got = outcome[me]; outcome[me] = 0; published[me] = false }
#else
            receive(); collect()
#endif
        fi
#endif
    fi
}

#endif

/* TryAcquire; without strict, AcquireWithin not willing to wait. */
inline tryAcquire(n) {
    do
    :: atomic {
        free = state;
        if :: asked[me] == 0 -> asked[me] = n + 1; noteRefusals() :: else fi
       };
        if
        :: free >= n ->
            swap(n);
            if :: got == granted -> break :: got == none fi
#ifdef BROKEN_TRY_SLOW
        :: free < n && strict -> got = refused; break
#else
        :: free < n && strict && free != slow -> got = refused; break
        :: free < n && strict && free == slow -> tryAcquireSlow(n); break
#endif
        :: free < n && !strict && free == 0 && n == 1 -> got = refused; break
        :: free < n && !strict && !(free == 0 && n == 1) -> tryAcquireSlow(n); break
        fi
    od;
    free = 0;
    d_step {
        CHECK("refused without reason: ", got != refused || justified[me]);
        asked[me] = 0; justified[me] = false
    }
}

inline tryAcquireSlow(n) {
    now = time;
    lockAndServe(now);
    d_step { admitLocked(n, false, now) };
    now = 0;
    unlock()
}

/* Release and releaseSlow. */
inline release(n) {
    do
    :: free = state;
        if
#ifdef BROKEN_RELEASE_ADDS
        :: true ->
#else
        :: free < 0 -> break
        :: free >= 0 && n > limit - free ->
#ifdef BROKEN_PANIC_EARLY
            printf("released more than held: "); assert(false)
#else
            break
#endif
        :: free >= 0 && n <= limit - free ->
#endif
            d_step {
                if
                :: state == free -> state = free + n; letGo(n); freed = true
                :: else
                fi
            };
            if :: freed -> break :: else fi
        fi
    od;
    free = 0;
    if
    :: freed -> freed = false
    :: else ->
        now = time;
        lock();
        d_step {
            CHECK("released more than held: ", n <= inUse);
            avail = avail + n; letGo(n)
        };
        grantAndUnlock(now);
        now = 0
    fi
}

/* ---- The goroutines. ---- */

/* A canceled caller that was granted gives back at once, a holder later: to
   the semaphore, both are a Release at some time after the grant. */
inline giveBack(n) {
    if
#ifdef BROKEN_KEEP_CANCELED
    :: got == granted && ctxDone[me]
    :: got == granted && !ctxDone[me] && n > 0 -> release(n)
#else
    :: got == granted && n > 0 -> release(n)
#endif
    :: else
    fi;
    got = none;
    d_step { CHECK("conservation: ", held[me] == 0) }
}

proctype worker(byte me; short n) {
    LOCALS; short free; mtype got = none; bool freed; byte round, now;
#ifdef UNFAIR
    bool told; short owed;
#endif
    do
    :: round < ROUNDS ->
        round++;
#if ROUNDS > 1
        ctxDone[me] = false; /* a context of its own for each request */
#endif
        acquire(n);
        giveBack(n)
    :: else -> break
    od
}

proctype tryer(byte me; short n) {
    LOCALS; short free; mtype got = none; bool strict, freed; byte round, now;
    do
    :: round < ROUNDS ->
        round++;
        if :: strict = true :: strict = false fi;
        tryAcquire(n);
        giveBack(n)
    :: else -> break
    od
}

proctype cancel(byte who) {
    ctxDone[who] = true
}

/* expire, on the timer's goroutine: it fires once, no earlier than the request
   waits, perhaps when that is long decided. */
proctype timer(byte who) {
    LOCALS;
end:
    outcome[who] == waiting;
    lock();
    if
#ifdef BROKEN_EXPIRE_BLIND
    :: true -> d_step { decide(who, expired); out = 1 << who }
#else
    :: outcome[who] == waiting -> d_step { decide(who, expired); out = 1 << who }
    :: else
#endif
    fi;
#ifdef BROKEN_EXPIRE_LEAVES
    unlock();
    tell()
#else
    grantAndUnlock(handOff)
#endif
}

#define tooHeavyAt(p) (queued > p && tooHeavy(weight[queue[p]]))
#if N > 3
#define someTooHeavy (tooHeavyAt(0) || tooHeavyAt(1) || tooHeavyAt(2) || tooHeavyAt(3))
#elif N > 2
#define someTooHeavy (tooHeavyAt(0) || tooHeavyAt(1) || tooHeavyAt(2))
#else
#define someTooHeavy (tooHeavyAt(0) || tooHeavyAt(1))
#endif

/* evictLocked; the queue moves walk when a waiter before it leaves. The last
   chunk is told by grantAndUnlock. */
inline evictLocked() {
    walk = 0;
    do
    :: atomic { walk < queued && !FULL && tooHeavy(weight[queue[walk]]) -> d_step {
        k = queue[walk]; decide(k, evicted); out = out | (1 << k) } }
    :: atomic { walk < queued && !FULL && !tooHeavy(weight[queue[walk]]) -> walk++ }
    :: walk < queued && FULL -> tellAndRelock()
    :: walk >= queued ->
        walk = 0;
#ifdef BROKEN_EVICTION_APART
        tellAndRelock();
#endif
        break
    od
}

/* SetLimit. The last limit is above 0, or waiters would wait for ever. */
proctype resizer() {
    LOCALS; byte round; short l;
    do
    :: round < RESIZES ->
        round++;
        if :: round < RESIZES -> l = 0 :: l = 1 :: l = 2 fi;
        lock();
        if
        :: l == limit -> unlock()
        :: else ->
#ifdef BROKEN_DEBT_FORGIVEN
            avail = (l > inUse -> l - inUse : 0);
#else
            avail = l - inUse;
#endif
            limit = l;
            /* Heaviest is an upper bound, so the walk may be for nothing. */
            if
            :: limit > 0 -> evictLocked()
            :: !someTooHeavy
            fi;
#ifdef BROKEN_GROW
            unlock();
            tell()
#else
            grantAndUnlock(handOff)
#endif
        fi
    :: else -> break
    od
}

proctype closer() {
    LOCALS;
    lock();
    closed = true;
    do
    :: atomic { queued > 0 && !FULL -> d_step { k = HEAD; decide(k, closed_); out = out | (1 << k) } }
    :: queued > 0 && FULL -> tellAndRelock()
    :: queued == 0 -> break
    od;
    unlock();
    tell()
}

proctype drainer() {
    LOCALS;
    lock();
    if
    :: inUse == 0 -> d_step { CHECK("drain: ", HELD == 0) }; unlock()
    :: else ->
        draining = true;
        unlock();
        if
        :: idle
#ifdef CANCEL
        :: true ->
            lock();
            if :: idle :: else -> draining = false fi;
            unlock()
#endif
        fi
    fi
}

#ifdef AGING
proctype clock() {
    time = 1
}
#endif

#ifdef UNFAIR
/* The front may look for itself: it is woken, and has not looked yet. */
#define willLook woken[HEAD]
#else
#define willLook false
#endif

/* Somebody is about to go on with a long piece of work. What takes no more than
   a chunk is one step to others. */
#define betweenChunks (CHUNK > 0 && busy > 0)

/* monitor asks between any two steps of the others. */
active proctype monitor() {
end:
    if
    :: d_step { state >= 0 && state + HELD != limit -> printf("conservation: "); assert(false) }
    :: d_step { !mu && state < 0 && avail + HELD != limit -> printf("conservation: "); assert(false) }
    :: d_step { state >= 0 && (queued > 0 || closed) -> printf("layout: "); assert(false) }
    :: d_step { !mu && state < 0 && !(queued > 0 || closed || draining || avail < 0) -> printf("layout: "); assert(false) }
    :: d_step { !mu && !betweenChunks && queued > 0 && weight[HEAD] <= avail && !willLook -> printf("lost wake-up: "); assert(false) }
    :: d_step { !mu && draining && HELD == 0 -> printf("drain: "); assert(false) }
    fi
}

init {
    byte me; short n;
    atomic {
        if :: limit = 1 :: limit = 2 fi;
        state = limit;
        do
        :: me < N ->
            /* Worker 0 may be special, and 1 with ASYNC; the others are alike, so
               only one order of their weights is worth a look. */
            if
            :: me <= 1 || async(me - 1) || me == WORKERS -> n = LIGHTEST
            :: else
            fi;
            do
            :: n < 2 -> n++
            :: break
            od;
            if
            :: me < WORKERS -> run worker(me, n)
#if TRYERS
            :: else -> run tryer(me, n)
#endif
            fi;
            me++
        :: else -> break
        od;
#ifdef CANCEL
        run cancel(0);
#endif
#ifdef TIMED
        run timer(0);
#endif
#ifdef AGING
        run clock();
#endif
#if RESIZES
        run resizer();
#endif
#ifdef CLOSE
        run closer();
#endif
#ifdef DRAIN
        run drainer();
#endif
        me = 0; n = 0
    }
}
