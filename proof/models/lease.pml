/*
 * A lease and its renewal over the wire: one name on one server that keeps its claims as driver.Queue does, and two clients.
 * README.md says what the model leaves out. Which code is which step:
 *
 *   arrive  Queue.Enter, Renew, Look and Leave (driver/queue.go); wake is Queue.Wake, tick Queue.Expire
 *   answer  Engine.Answer: entered, awaited (internal/engine/ask.go), renewed (renew.go), left (leave.go)
 *   trusts  Engine.confirm, granted, and Keeper.trusted, TrustedFor (internal/claims/keeper.go)
 *   leave   Engine.released, abandonLost (hold.go), leave (leave.go): it does not wait for a renewal that is out
 *   lapse   Engine.look, lose (hold.go)
 *   unheard an answer of protocol.Unknown
 *
 * What must never be false:
 *
 *   exclusive  two clients never both trust that they hold
 *   noway      a ticket that ran out or left never stands again, and a lease that ended is never trusted again
 *   rising     the ticket of a grant is larger than those of all grants before
 *   delayed    a lost lease keeps others out for its lock-delay; one that was released keeps nobody out
 *   clean      of a client that is out and whose messages have arrived nothing stands for longer than a lease and a delay
 *
 * good: requests and answers late, lost and doubled, clients that stand still, clocks as far apart as they may be
 * good STEADY: the same with clocks of one rate
 * good DELAYS: the same with lock-delays
 * mistake LATE_START breaks exclusive: the lease counts from when the answer was there
 * mistake NO_DRIFT breaks exclusive: the whole ttl is trusted, although the server's clock may run faster
 * mistake UNCONFIRMED breaks exclusive: a renewal without an answer extends the lease
 * mistake HAND_OVER breaks exclusive: who is told of its turn trusts from then on, not from its last Enter on
 * mistake SAME_ID breaks exclusive: an id of unknown outcome is used for the next claim
 * mistake TOO_LATE breaks noway: an answer that comes after the deadline is read
 * mistake REVIVES breaks noway: a renewal of a claim that is gone makes it anew
 * mistake FORGETS breaks rising: an empty queue forgets its last ticket, and no stamp is larger
 * mistake DELAYS NO_DELAY breaks delayed: a claim that held is gone when its lease ends
 * mistake DELAYS DELAY_ON_LEAVE breaks delayed: a claim that left keeps others out as one that ran out
 * mistake RENEWS_AFTER_LEAVE breaks clean: a claim is renewed whose Leave was not answered
 */

/*
 * Time is what is left of something, in ticks that pass for all alike. The server's clock runs as fast as it may and those of
 * clients as slowly: a lease lasts KEEP ticks, and is trusted for TRUST.
 */
#define TRUST 2
#ifdef STEADY
#define KEEP  3
#else
#define KEEP  2
#endif
#ifdef DELAYS
#define DELAY 1
#else
#define DELAY 0
#endif
#define CLAIMS 3 /* 0 and 1 are ids of client 0, 2 is one of client 1 */
#define LAST   3 /* tickets in all: no Enter arrives after that */

mtype:stage = { out, asking, queued, held, over, leaving };
mtype:verb = { nothing, enter, await, renew, leave };
mtype:reply = { none, holds, waits, gone, done };

/* The server. */
byte ticket[CLAIMS]; /* 0: it does not stand */
byte left[CLAIMS];   /* ticks until the lease ends; 0: its lock-delay has begun */
byte delay[CLAIMS];  /* ticks of that */
bool told[CLAIMS];   /* Notified */
byte last;           /* ticket */

/* Clients. */
mtype:stage stage[2] = out;
byte id[2];
byte claims[2];                  /* ids that are left to a client */
byte mine[2];                    /* the ticket of its claim, once it is known */
byte trust[2];                   /* ticks until the deadline: of a lease, or of the place while it is queued */
mtype:verb verb[2] = nothing;    /* the request that is out */
mtype:reply answer[2] = none;   /* what is on its way back */
byte ticket_of[2];               /* the ticket in it */
byte fresh[2];                   /* ticks that could be trusted, counted from before it was sent */
mtype:verb late = nothing;       /* a request of client 0 that nobody waits for, and that may arrive yet */
byte whose;                      /* its id */
byte shows;                      /* and the ticket in it */

/* What has happened. */
byte granted;       /* the ticket of the last grant */
bool ended[CLAIMS]; /* the lease ran out, or was released */
byte owed[2];       /* ticks for which a lost lease must keep others out */
byte rest[2];       /* ticks for which a claim stands since the client was out and its messages had arrived */

/* What must never be false. */
bool exclusive, noway, rising, delayed, clean;

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

#define MAX(a, b)    ((a) > (b) -> (a) : (b))
#define LIVE(k)      (ticket[k] != 0 && left[k] != 0)
#define BEHIND(k, o) (ticket[o] != 0 && ticket[o] < ticket[k])
#define HEAD(k)      (ticket[k] != 0 && !BEHIND(k, 0) && !BEHIND(k, 1) && !BEHIND(k, 2))
#define EMPTY        (ticket[0] == 0 && ticket[1] == 0 && ticket[2] == 0)
#define STANDS(c)    (c == 0 && ticket[0] + ticket[1] != 0 || c == 1 && ticket[2] != 0)
#define TRUSTS(c)    (stage[c] == held && trust[c] != 0)

/* What the mistakes change. */
#ifdef NO_DRIFT
#define TRUSTED (TRUST + 1)
#else
#define TRUSTED TRUST
#endif
#ifdef LATE_START
#define WORTH(c) TRUSTED
#else
#define WORTH(c) fresh[c]
#endif
#ifdef HAND_OVER
#define PLACE(c) TRUSTED
#else
#define PLACE(c) trust[c]
#endif
#ifdef SAME_ID
#define NEXT(c) (c == 0 -> 0 : 2)
#define FREE (ticket[0] == 0) /* the claim before is gone */
#else
#define NEXT(c) (c == 0 -> 1 - claims[c] : 2)
#define FREE true
#endif
#ifdef TOO_LATE
#define TIMELY(c) true
#else
#define TIMELY(c) (stage[c] != held || trust[c] != 0)
#endif

inline drop(k) {
	ticket[k] = 0; left[k] = 0; delay[k] = 0; told[k] = false;
	if
#ifdef FORGETS
	:: EMPTY -> last = 0
#endif
	:: else
	fi
}

/* The first in the queue holds, and counts as told. */
inline wake() {
	for (i : 0 .. CLAIMS - 1) {
		told[i] = told[i] || HEAD(i) && left[i] != 0
	}
	i = 0
}

inline stand(k, number) {
	must(noway, (number) > last);
	ticket[k] = number; last = number; left[k] = KEEP
}

/* A request for a claim arrives, with the ticket that its client knows. */
inline arrive(v, k, number, r) {
	r = gone;
	if
	:: v == leave && LIVE(k) ->
#ifdef DELAY_ON_LEAVE
		left[k] = 0; delay[k] = DELAY;
#else
		drop(k);
#endif
		r = done
	:: (v == enter || v == renew) && LIVE(k) -> left[k] = KEEP
	:: v == enter && ticket[k] == 0 && number == 0 && last < LAST -> stand(k, last + 1)
#ifdef REVIVES
	:: v == renew && ticket[k] == 0 -> stand(k, number)
#endif
	:: else
	fi;
	wake();
	if
	:: v != leave && LIVE(k) -> r = (HEAD(k) -> holds : waits)
	:: else
	fi
}

inline send(c, v) {
	verb[c] = v;
	fresh[c] = (v == enter || v == renew -> TRUSTED : 0)
}

inline over_with(c) {
	verb[c] = nothing; answer[c] = none; ticket_of[c] = 0; fresh[c] = 0
}

/* Nobody waits for the request any more, which is lost or arrives yet. */
inline give_up(c) {
	if
	:: c == 0 && verb[c] != nothing && verb[c] != await && answer[c] == none && late == nothing -> copy()
	:: true
	fi;
	over_with(c)
}

inline copy() {
	late = verb[0]; whose = id[0]; shows = (late == leave -> 0 : mine[0])
}

/* The lease is trusted for so many ticks from now on. */
inline trusts(c, ticks) {
	must(noway, !ended[id[c]]);
	must(exclusive, !TRUSTS(1 - c));
	must(delayed, owed[1 - c] == 0);
	if
	:: stage[c] != held -> must(rising, mine[c] > granted); granted = mine[c]
	:: else
	fi;
	stage[c] = held;
	trust[c] = MAX(trust[c], ticks)
}

inline leaves(c) {
	give_up(c);
	if
	:: stage[c] == held || stage[c] == over -> ended[id[c]] = true
	:: else
	fi;
	owed[c] = 0; /* the work under a lost lease is over */
	stage[c] = leaving;
	trust[c] = 0;
	send(c, leave)
}

inline is_out(c) {
	ended[id[c]] = false;
	stage[c] = out;
	trust[c] = 0;
#ifdef RENEWS_AFTER_LEAVE
	mine[c] = (mine[c] != 0 -> mine[c] : 1)
#else
	mine[c] = 0
#endif
}

inline read(c) {
	if
	:: (stage[c] == asking || stage[c] == queued) && verb[c] == enter && (answer[c] == holds || answer[c] == waits) ->
		mine[c] = ticket_of[c];
		if
		:: answer[c] == waits -> stage[c] = queued; trust[c] = WORTH(c)
		:: answer[c] == holds && WORTH(c) != 0 -> trust[c] = 0; trusts(c, WORTH(c))
		:: else -> trust[c] = 0
		fi
	:: stage[c] == queued && verb[c] == await && answer[c] == holds && PLACE(c) != 0 -> trusts(c, PLACE(c))
	:: stage[c] == held && verb[c] == renew && answer[c] == holds -> trusts(c, WORTH(c))
	:: stage[c] == held && answer[c] == gone -> trust[c] = 0; ended[id[c]] = true; stage[c] = over
	:: (stage[c] == asking || stage[c] == queued) && verb[c] == enter && answer[c] == gone -> is_out(c) /* an id is never used twice */
	:: stage[c] == leaving ->
#ifdef DELAYS
		must(delayed, answer[c] != done || mine[c] == 0 || ticket[id[c]] != mine[c]);
#endif
		is_out(c)
	:: else
	fi;
	over_with(c)
}

/* An answer never came. It changes nothing. */
inline unheard(c) {
#ifdef UNCONFIRMED
	if
	:: verb[c] == renew && trust[c] != 0 -> trusts(c, fresh[c])
	:: else
	fi;
#endif
	give_up(c)
}

inline begin(c) {
	claims[c]--;
	id[c] = NEXT(c);
	mine[c] = 0; ended[id[c]] = false; rest[c] = 0; stage[c] = asking;
	send(c, enter)
}

proctype client(byte c) {
	byte i;
	mtype:reply r = none;
end:	do
	:: atomic { stage[c] == out && claims[c] > 0 && FREE -> give_up(c); begin(c) }
	:: atomic { (stage[c] == asking || stage[c] == queued) && verb[c] == nothing -> send(c, enter) }
	:: atomic { stage[c] == queued && verb[c] == nothing -> send(c, await) }
	:: atomic { (stage[c] == asking || stage[c] == queued) && verb[c] == nothing -> leaves(c) }
	:: atomic { stage[c] == held && trust[c] != 0 && verb[c] == nothing -> send(c, renew) }
	:: atomic { stage[c] == held || stage[c] == over -> leaves(c) }
	:: atomic { stage[c] == held && trust[c] == 0 && !TIMELY(c) -> stage[c] = over; give_up(c) } /* lapse */
	:: atomic { stage[c] == leaving && verb[c] == nothing -> send(c, leave) }
	:: atomic { stage[c] == leaving && verb[c] == nothing -> is_out(c) } /* the store has had Patience */
#ifdef RENEWS_AFTER_LEAVE
	:: atomic { stage[c] == out && mine[c] != 0 && verb[c] == nothing -> send(c, renew) }
#endif
	:: atomic { verb[c] != nothing && answer[c] == none ->
		if /* it is doubled, or not */
		:: c == 0 && late == nothing && verb[c] != await -> copy()
		:: true
		fi;
		arrive(verb[c], id[c], mine[c], answer[c]);
		ticket_of[c] = (verb[c] == enter -> ticket[id[c]] : 0) }
	:: atomic { answer[c] != none && TIMELY(c) -> read(c) }
	:: atomic { c == 0 && verb[c] != nothing -> unheard(c) }
	:: atomic { c == 0 && late != nothing -> arrive(late, whose, shows, r); r = none; late = nothing; whose = 0; shows = 0 }
	od
}

inline less(n) {
	n = ((n) != 0 -> (n) - 1 : 0)
}

inline pass(c) {
	if
	:: stage[c] == held && trust[c] == 1 -> ended[id[c]] = true; owed[c] = DELAY
	:: else -> less(owed[c])
	fi;
	less(trust[c]);
	less(fresh[c]);
	rest[c] = (stage[c] == out && (c == 1 || late == nothing) && (STANDS(c)) -> rest[c] + 1 : 0);
	must(clean, rest[c] <= KEEP + DELAY)
}

proctype clock() {
	byte i, k;
end:	do
	:: atomic {
		for (k : 0 .. CLAIMS - 1) {
			if
			:: ticket[k] != 0 && left[k] > 1 -> left[k]--
#if defined(DELAYS) && !defined(NO_DELAY)
			:: ticket[k] != 0 && left[k] == 1 && told[k] -> left[k] = 0; delay[k] = DELAY
#endif
			:: ticket[k] != 0 && left[k] == 0 && delay[k] > 1 -> delay[k]--
			:: else -> drop(k)
			fi
		}
		k = 0;
		wake();
		pass(0);
		pass(1) }
	od
}

init {
	atomic {
		claims[0] = 2; claims[1] = 1;
		run client(0);
		run client(1);
		run clock()
	}
}
