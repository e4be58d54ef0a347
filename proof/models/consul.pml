/*
 * The claims of a client in Consul: one name, two exclusive claims of the client, which have their sessions from one pool, a claim of
 * another client of stile, and a client of Consul's own, which takes only the lock's key. README.md says what the model leaves out.
 * Which code of package consul is which step:
 *
 *   begin, answered  take (session.go), enterNew, join (enter.go), joins (goal.go); leave, owner (leave.go), leaves (goal.go)
 *   judge, buries    stands, atTurn, waits (goal.go), turn, returnLockKey, takeLockKey (ops.go), deleteDead (enter.go)
 *   serve            a transaction in the server: enter is of joins, take is takeLockKey, give is returnLockKey; out, back are of leaves
 *   ending           enterAgain (again.go)
 *   finish           become (claim.go), finish (claims.go), recycle (session.go)
 *
 * Each claim has at most one request under way. One that was given up may arrive at any later time, or never.
 *
 * What must never be false:
 *
 *   exclusive  a claim that is trusted to hold is the first and has the lock's key, and nobody else holds, unless it was broken by hand
 *   kept       no request takes the keys by which somebody holds, except to leave
 *   left       a claim that left has no key, and no request makes it one; a session that serves a claim has nothing of an earlier one
 *   delayed    no claim of the client gets the lock's key in a lock-delay
 *   rising     no claim holds that entered before one that has held
 *   once       a claim that knows its ticket never stands with another
 *   renewed    no renewal confirms a claim that is trusted to hold and is not the first with the lock's key
 *
 * good: answers are lost, requests are late, and sessions end
 * good BREAKS: and a key or a session is deleted by hand
 * good DELAYS: and the lock has a lock-delay
 * mistake PLACE breaks exclusive: a claim holds by its place, whoever has the lock's key
 * mistake SERVES_ON breaks left: the session of a claim that was unsure or lost serves another
 * mistake ANEW breaks once: a claim that was in its queue and is gone enters anew
 * mistake FORGETS breaks once: a claim that is not in its queue enters anew before its session is over
 * mistake UNBOUND breaks left: a claim takes the lock's key whether or not its own is there
 * mistake BARGES breaks kept: a claim that is not the first takes the lock's key from the one that is
 * mistake UNGUARDED breaks kept: the lock's key is given back whether or not the claim before is there
 * mistake BREAKS UNCHECKED breaks kept: a Leave deletes the lock's key whoever has it
 * mistake BREAKS SESSIONS_ONLY breaks renewed: a renewal does not look for the keys
 * mistake DELAYS DELETES breaks delayed: the end of a session deletes the lock's key, and a request slips through
 * mistake DELAYS OLD_PLACE breaks rising: a claim enters anew by the key that it had, at the place of that
 */

mtype:state = { fresh, asking, waiting, holding, unsure, ending, gone, lost }; /* gone is claimLeft, waiting is called too */
mtype:verb = { none, enter, take, give, out, back };

#define OTHER    2 /* the claim of the other client */
#define SESSIONS 2 /* of the client, from 1 on */
#define OTHERS   3 /* the session of the other client */
#define FOREIGN  4 /* that of Consul's own client */
#define LEFTOVER 5 /* the lock's key has no session */
#define FREE     0 /* it is not there */
#define LOOK     3 /* no request, but a look at the queue */

/* The server. A claim's key has a place in the order of create indexes, and a session. Without that it is dead. */
byte place[3];
byte tied[3];
byte lock;         /* the session that has the lock's key */
bool delay;        /* the lock's key is in its lock-delay */
bool over[5];      /* sessions that have ended */
bool passed[3];    /* a later claim has held */

/* The requests of the client: 0 and 1 are those of its claims, 2 is one that was given up. */
mtype:verb verb[3] = none;
byte by[3];        /* session */
byte sees[3];      /* the session that has the lock's key, or the claim before it and 1 */
bool too[3];       /* it is about the lock's key, too */
bool same[3];      /* what it depends on has not changed */
bool passes[3];    /* the server has looked for a lock-delay */
byte whose;        /* claim of the one that was given up */

/* The claims of the client, its sessions, and the others. */
mtype:state state[2] = fresh;
byte session[2];
bool known[2];     /* it knows its ticket */
bool leaving[2];   /* it is to leave, or its lease is not trusted any more */
bool broken[2];    /* something of it was deleted by hand */
byte made;         /* sessions */
bool idle[3];
bool spoiled[3];
bool other_holds, foreign_holds;
bool by_hand;      /* something was deleted */
bool ok;           /* the answer to a request */
hidden byte j, k, s;

bool exclusive, kept, left, delayed, rising, once, renewed;

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

#define BEFORE(k, l) (tied[k] != 0 && place[k] < place[l])
#define FIRST(k)     (tied[k] != 0 && !BEFORE(0, k) && !BEFORE(1, k) && !BEFORE(2, k))
#define PRIOR(c)     (BEFORE(2, c) && !(BEFORE(1 - c, c) && place[1 - c] > place[2]) -> 2 : 1 - c)
#define TAKEABLE     (lock == FREE || lock == LEFTOVER || lock == tied[0] || lock == tied[1] || lock == tied[2])
#define STANDS       (tied[c] != 0 && tied[c] == session[c])
#define INTACT       (STANDS && (state[c] != holding || lock == session[c]))
#define TRUSTS(c)    (state[c] == holding && !leaving[c])
#define HOLDS(c)     (TRUSTS(c) && !broken[c])
#define RIGHT(c)     (FIRST(c) && tied[c] == session[c] && lock == session[c])
#define HELD         (HOLDS(0) && lock == session[0] || HOLDS(1) && lock == session[1] || \
	lock == OTHERS && other_holds || lock == FOREIGN && foreign_holds)
#define TAKES(k)     (too[k] && (verb[k] == enter || verb[k] == take))
#define DELAYED(k)   (TAKES(k) && !passes[k])
#define FRESH        (state[c] == fresh && (c == 0 || state[0] == gone || state[0] == lost || leaving[0]))
#define CALM         ((state[c] == waiting || state[c] == holding || state[c] == unsure) && verb[c] == none && !leaving[c])
#define MAY_END(s)   (made >= s && !over[s] && !(TRUSTS(0) && session[0] == s) && !(TRUSTS(1) && session[1] == s))
#ifdef SERVES_ON
#define SPOILS false
#else
#define SPOILS true
#endif
#if defined(DELAYS) && !defined(DELETES)
#define RELEASES true
#else
#define RELEASES false
#endif

/* Something has changed on which requests depend. */
#define SINCE(k, v, seen) same[k] = same[k] && !(verb[k] == v && sees[k] == seen)
#define CHANGED(v, seen)  SINCE(0, v, seen); SINCE(1, v, seen); SINCE(2, v, seen)

inline locks(s) {
	CHANGED(take, LEFTOVER);
	lock = s
}

inline makes(k, s) {
	CHANGED(give, k + 1);
	place[k] = (place[k] == 0 -> 1 + (place[0] != 0) + (place[1] != 0) + (place[2] != 0) : place[k]);
	tied[k] = s
}

#define LESS(l, k) place[l] = place[l] - (place[l] > place[k])
inline unmakes(k) {
	CHANGED(give, k + 1);
	LESS(0, k); LESS(1, k); LESS(2, k);
	place[k] = 0; tied[k] = 0; passed[k] = false
}

inline buries() {
	for (j : 0 .. 2) {
		if
		:: place[j] != 0 && tied[j] == 0 -> unmakes(j)
		:: place[j] != 0 && tied[j] == 0 /* that has failed */
		:: else
		fi
	}
}

inline notes() {
	must(exclusive, (!HOLDS(0) || RIGHT(0)) && (!HOLDS(1) || RIGHT(1)) && HOLDS(0) + HOLDS(1) + other_holds + foreign_holds <= 1)
}

inline granted(k) {
	must(rising, !passed[k]);
	for (j : 0 .. 2) {
		passed[j] = passed[j] || place[j] != 0 && place[j] < place[k]
	}
	notes()
}

inline ends() {
	over[s] = s <= SESSIONS;
	for (j : 0 .. 2) {
		if
		:: tied[j] == s && RELEASES -> CHANGED(give, j + 1); tied[j] = 0
		:: tied[j] == s && !RELEASES -> unmakes(j)
		:: else
		fi
	}
#ifdef DELAYS
	delay = delay || lock == s;
#endif
	lock = (lock == s -> (RELEASES -> LEFTOVER : FREE) : lock);
	notes()
}

/* The requests. */
inline clear(k) {
	verb[k] = none; by[k] = 0; sees[k] = 0; too[k] = false; same[k] = false; passes[k] = false
}

inline send(v, seen, with) {
	verb[c] = v; by[c] = session[c]; sees[c] = seen; too[c] = with; same[c] = true; passes[c] = false
}

inline serve() {
	ok = k != LOOK && (!over[by[k]] && (verb[k] == enter && (tied[c] == 0 || tied[c] == by[k]) ||
#ifdef UNBOUND
		verb[k] == take ||
#endif
		verb[k] == take && tied[c] == by[k]) && (!too[k] || lock == sees[k] && (lock != LEFTOVER || same[k])) ||
		verb[k] == give && lock == by[k] && same[k] || (verb[k] == out && tied[c] == by[k] || verb[k] == back) && (!too[k] ||
#ifdef UNCHECKED
		true ||
#endif
		lock == by[k]));
#ifdef UNGUARDED
	ok = ok || k != LOOK && verb[k] == give && lock == by[k];
#endif
	if
	:: ok && verb[k] == enter ->
		must(once, !known[c]);
		if
#ifndef OLD_PLACE
		:: place[c] != 0 -> unmakes(c)
#endif
		:: else
		fi;
		makes(c, by[k])
	:: ok && verb[k] == out -> must(kept, !HOLDS(c)); unmakes(c)
	:: else
	fi;
	if
	:: ok && TAKES(k) -> must(kept, lock == by[k] || !HELD); must(delayed, !delay); locks(by[k])
	:: ok && too[k] && !TAKES(k) -> must(kept, !HELD); lock = FREE
	:: else
	fi;
	must(left, !ok || state[c] != gone || verb[k] == give || verb[k] == out || verb[k] == back);
	notes()
}

/* What the client does with an answer. */
inline finish(end) {
	must(left, end != gone || !STANDS && lock != session[c]);
	spoiled[session[c]] = spoiled[session[c]] || SPOILS && end != gone;
	idle[session[c]] = !spoiled[session[c]];
	state[c] = end; session[c] = 0; leaving[c] = false; broken[c] = false
}

inline begin(s) {
	session[c] = s; idle[s] = false;
	must(left, tied[0] != s && tied[1] != s && lock != s && by[0] != s && by[1] != s && by[2] != s);
	state[c] = asking;
	send(enter, FREE, true)
}

inline judge() {
	clear(c);
	buries();
	if
	:: !STANDS -> finish(lost)
#ifdef PLACE
	:: STANDS && FIRST(c) -> state[c] = holding; known[c] = true; granted(c)
#endif
	:: STANDS && FIRST(c) && lock == session[c] -> state[c] = holding; known[c] = true; granted(c)
#ifdef BARGES
	:: STANDS && lock != session[c] && TAKEABLE -> send(take, lock, true)
#endif
	:: STANDS && FIRST(c) && lock != session[c] && TAKEABLE -> send(take, lock, true)
	:: STANDS && !FIRST(c) && lock == session[c] -> send(give, PRIOR(c) + 1, true)
	:: else -> state[c] = waiting; known[c] = true
	fi
}

inline answered() {
	if
	:: k == 2 -> clear(2); whose = 0
	:: k == LOOK || k == c && (verb[c] == enter && ok || verb[c] == take) -> judge()
	:: k == c && verb[c] == enter && !ok && !over[session[c]] && too[c] -> send(enter, FREE, false)
	:: k == c && verb[c] == give -> clear(c); state[c] = waiting; known[c] = true
	:: k == c && verb[c] == out && ok && !too[c] && lock == session[c] -> send(back, FREE, true)
	:: k == c && verb[c] == out && !ok && STANDS -> send(out, FREE, lock == session[c])
	:: else ->
		j = (verb[c] == enter -> fresh : (verb[c] == back || ok -> gone : lost));
		clear(c);
		finish(j)
	fi;
	ok = false
}

active [2] proctype client() {
	byte c = _pid;
end:	do
	:: atomic { FRESH && idle[1] -> begin(1) }
	:: atomic { FRESH && !idle[1] && idle[2] -> begin(2) }
	:: atomic { FRESH && !idle[1] && !idle[2] && made < SESSIONS -> made++; begin(made) }
	:: atomic { DELAYED(c) && !delay -> passes[c] = true }
	:: atomic { DELAYED(c) && delay && verb[c] == enter -> send(enter, FREE, false) }
	:: atomic { DELAYED(c) && delay && verb[c] == take -> clear(c); state[c] = waiting; known[c] = true }
	:: atomic {
		if
		:: verb[c] != none && !DELAYED(c) -> k = c
		:: verb[2] != none && !DELAYED(2) && whose == c -> k = 2
		:: CALM && state[c] != holding && STANDS -> k = LOOK /* Enter again */
		fi;
		serve(); answered() }
	:: atomic { verb[c] != none && verb[2] == none -> /* change: it is given up */
		verb[2] = verb[c]; by[2] = by[c]; sees[2] = sees[c]; too[2] = too[c]; same[2] = same[c]; passes[2] = passes[c]; whose = c;
		clear(c); spoiled[session[c]] = spoiled[session[c]] || SPOILS; state[c] = unsure }
	:: atomic { CALM && state[c] == waiting -> send(take, FREE, true) } /* it is called: it does not look */
#ifdef ANEW
	:: atomic { CALM && state[c] != holding && !STANDS -> state[c] = ending }
#endif
	:: atomic { CALM && state[c] != holding && !STANDS && !known[c] -> state[c] = ending }
#ifdef FORGETS
	:: atomic { state[c] == ending -> finish(fresh) }
#endif
	:: atomic { state[c] == ending && over[session[c]] -> finish(fresh) }
	:: atomic { state[c] == ending -> state[c] = unsure }

#ifdef SESSIONS_ONLY
	:: atomic { CALM && known[c] && !over[session[c]] -> must(renewed, !TRUSTS(c) || RIGHT(c)) }
#endif
	:: atomic { CALM && known[c] && INTACT -> must(renewed, !TRUSTS(c) || RIGHT(c)) }
	:: atomic { CALM && known[c] && !INTACT -> finish(lost) }

	:: atomic { CALM -> leaving[c] = true }
	:: atomic { leaving[c] && verb[c] == none -> send(out, FREE, state[c] == holding) }
	od
}

/* A session of the client ends, or something of it is deleted, by hand. */
inline hurt(s) {
	by_hand = true;
	broken[0] = broken[0] || TRUSTS(0) && session[0] == s;
	broken[1] = broken[1] || TRUSTS(1) && session[1] == s;
	other_holds = other_holds && s != OTHERS;
	foreign_holds = foreign_holds && s != FOREIGN
}

/* The rest of the world. What the other client does with its claim is atomic. */
active proctype rest() {
end:	do
	:: atomic { verb[2] != none -> clear(2); whose = 0 } /* it never arrives */
	:: atomic { DELAYED(2) && !delay -> passes[2] = true }
	:: atomic { delay -> delay = false }
	:: atomic {
		if
		:: MAY_END(1) -> s = 1
		:: MAY_END(2) -> s = 2
		:: tied[OTHER] != 0 -> other_holds = false; unmakes(OTHER); s = OTHERS
		:: lock == FOREIGN -> foreign_holds = false; s = FOREIGN
#ifdef BREAKS
		:: !by_hand && made >= 1 && !over[1] -> s = 1; hurt(1)
		:: !by_hand && made >= 2 && !over[2] -> s = 2; hurt(2)
#endif
		fi;
		ends() }

	:: atomic { tied[OTHER] == 0 -> makes(OTHER, OTHERS) }
	:: atomic { tied[OTHER] != 0 && lock == FREE && !delay -> locks(OTHERS) }
	:: atomic { FIRST(OTHER) && !other_holds && TAKEABLE && (lock == OTHERS || !delay) ->
		buries(); locks(OTHERS); other_holds = true; granted(OTHER) }
	:: atomic { tied[OTHER] != 0 && !FIRST(OTHER) && lock == OTHERS -> lock = FREE }
	:: atomic { tied[OTHER] != 0 -> other_holds = false; unmakes(OTHER); lock = (lock == OTHERS -> FREE : lock) }

	:: atomic { (lock == FREE || lock == LEFTOVER) && !delay -> locks(FOREIGN); foreign_holds = true; notes() }
	:: atomic { lock == FOREIGN -> foreign_holds = false; lock = FREE }
	:: atomic { lock == FOREIGN -> foreign_holds = false; lock = LEFTOVER }
#ifdef BREAKS
	:: atomic { !by_hand && lock != FREE && lock != LEFTOVER -> hurt(lock); lock = FREE }
	:: atomic { !by_hand && tied[0] != 0 -> hurt(tied[0]); unmakes(0) }
	:: atomic { !by_hand && tied[1] != 0 -> hurt(tied[1]); unmakes(1) }
	:: atomic { !by_hand && tied[OTHER] != 0 -> hurt(OTHERS); unmakes(OTHER) }
#endif
	od
}
