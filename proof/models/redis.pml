/*
 * A queue in Redis as package redis keeps it: one key, which each script changes in one step. A short queue is packed:
 * every script reads and writes the whole of it. A long one is changed in place, so a script believes what its head
 * says: before when nothing runs out, what is left of the capacity, which slot is the first that waits, when the key
 * expires. README.md says what the model leaves out.
 *
 * Client 2 is an older one, which does not know the long form; with NEW, all know it. Client 0 may enter twice.
 *
 * Where the steps are in store/redis/lua/queue:
 *
 *   expire           the server itself, by the PX of SET and by PEXPIRE
 *   sweep            long.lua, "if due <= now"
 *   settle, extend   long.lua, the functions of these names
 *   prolong          long.lua, prolong: long_enter.lua for a claim that is there, and long_renew.lua
 *   join             long_enter.lua, from "local texts" on
 *   depart           long_leave.lua
 *   read, holding    rule.lua, up to "local function holding"
 *   commit           rule.lua, commit and spread
 *   whole            enter.lua, renew.lua and leave.lua; enter_lone.lua, leave_lone.lua and renew_many.lua do the same for a claim that
 *                    is alone, the last one on many names at once. The older client's scripts are these, and never spread
 *                    (store/redis/testdata/93f5926).
 *
 * What must never be false:
 *
 *   exclusive  those that believe that they hold do not need more than the capacity
 *   rising     the ticket of a claim is larger than those of all claims before
 *   kept       a claim whose lease has not ended is there, and its client is not refused
 *   lasting    the key lives as long as its claims, their lock-delays, and until the clock has passed the last ticket
 *   delayed    a claim that held and did not leave keeps others out until its lock-delay has passed
 *   served     a claim holds exactly if it and those ahead of it that count do not need more than the capacity
 *   early      nothing in a long queue runs out before its head says that something may
 *   clean      the key does not outlive the longest claim that there can be by more than it may
 *
 * good: answers that are lost, requests that are late, leases that run out, clients that stop for ever
 * good NEW: all clients know the long form
 * good NEW PERMITS: two permits, and client 1 takes both
 * mistake OLD_READS breaks rising: an older client takes a long queue for one that is not there
 * mistake DRAGS_OLD breaks kept: a queue becomes long although an older client's claim is in it
 * mistake NEW NO_DUE breaks early: a claim that enters does not bring forward when something can run out
 * mistake LATE_DUE breaks early: what can run out first is taken from those that wait only
 * mistake NO_DELAY breaks delayed: a claim that has held runs out without its lock-delay
 * mistake NO_EXTEND breaks lasting: a claim that is told does not make the key live for its lock-delay
 * mistake SHORT_LIFE breaks lasting: the key lives as long as the claim that changed it last
 * mistake NO_SAVE breaks lasting: a renewal lets the key live longer, and the head does not say so
 * mistake ADDS_UP breaks clean: a renewal adds to the life of the key
 * mistake NO_LAST breaks rising: the head keeps the last ticket from when the queue became long
 * mistake NO_FREE breaks served: a holder that leaves does not give back its weight
 * mistake NEW FREES_ALL breaks served: a claim that leaves gives back its weight, although it waits
 * mistake NO_SETTLE breaks served: those that have run out are emptied, and nobody is told
 * mistake NEW ALL_TOLD breaks served: once those that have run out are emptied, the head takes all others for holders
 * mistake NEW PERMITS ONE_TOLD breaks served: of those that hold because one left, the first is told
 * mistake NEW PERMITS SKIPS breaks served: a claim that needs more than is left is passed over
 * mistake NEW PERMITS OVERTAKES breaks served: a claim that enters and needs no more than is left holds, although others wait
 * mistake BELIEVES_ON breaks exclusive: a client that leaves believes that it holds until it hears the answer
 */

#define TTL  2
#ifdef NEW
#define LAST 3 /* steps of time in all */
#else
#define LAST 4
#endif
#define MANY 3 /* slots; once they are used up, the queue is written anew, as where the index is half full */
#define LONG 2 /* a queue of so many claims becomes long, */
#define LEAST 1 /* and stays so as long as it has so many */
#ifdef NEW
#define OLD  MANY
#else
#define OLD  2
#endif

#define TRIES(c) ((c) == 0 -> 2 : 1) /* how often a client asks to enter */
#define WAIT(c)  ((c) == 1 -> 1 : 2) /* leases of those that wait */
#define DELAY(c) ((c) == 1 -> 1 : 0) /* lock-delays */
#ifdef PERMITS
#define CAPACITY  2
#define WEIGHT(c) ((c) == 1 -> 2 : 1)
#else
#define CAPACITY  1
#define WEIGHT(c) 1
#endif
#define LIFE (TTL + 1) /* of the longest claim, with its lock-delay */
#define MORE(life) ((life) / 3) /* how much longer the key lives, so that it is seldom told to */
#define NEVER 255
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

mtype:form = { none, packed, spread };
mtype:verb = { idle, enter, stay, leave };

typedef claim {
	bool there, told;
	byte who, ends
};

byte time = 1;

/* The key. */
mtype:form form = none;
byte expires; /* when */
claim q[MANY];
byte n;       /* slots in use */
byte last;    /* the last ticket */
/* What the head of a long queue has beside these. */
byte due;     /* before when nothing runs out */
byte first;   /* the first slot that is not empty */
byte waiter;  /* the first slot that waits */
byte live;    /* claims that are there */
byte free;    /* what is left of the capacity */
byte till;    /* when the key expires, at the earliest */

/* Clients. */
mtype:verb asks[3] = idle;
byte sent[3];   /* when */
bool knows[3];    /* that it knows of a claim of its own */
byte ends[3];   /* until when its claim is in the store, as it was told */
byte until[3];  /* until when it believes that it holds */
byte tries[3];  /* to enter; one that stopped has none left */

byte keeps[3];  /* until when a client that held keeps others out */
byte highest;   /* of all tickets */

bool exclusive, rising, kept, lasting, delayed, served, early, clean;

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

#define GONE(i) (q[i].ends + (q[i].told -> DELAY(q[i].who) : 0))

byte c; /* the client whose turn it is; and what a step works with */
byte i, k, found, held, sum, upto;
bool known, holds, heard, changed, inplace;

inline clear(s) {
	q[s].there = false; q[s].told = false; q[s].who = 0; q[s].ends = 0
}

inline unhead() {
	due = 0; first = 0; waiter = 0; live = 0; free = 0; till = 0
}

inline forget() {
	form = none; expires = 0; n = 0; last = 0;
	unhead();
	i = 0;
	do
	:: i < MANY -> clear(i); i++
	:: else -> break
	od
}

inline expire() {
	if
	:: form != none && expires < time -> forget()
	:: else
	fi
}

/* What clients make of it. */

inline entered() {
	must(rising, last > highest);
	highest = last
}

inline answered() {
	if
	:: heard ->
		knows[c] = true;
		ends[c] = MAX(ends[c], sent[c] + (holds -> TTL : WAIT(c)));
		until[c] = (holds -> MAX(until[c], sent[c] + TTL) : until[c]);
		k = (until[0] > time -> WEIGHT(0) : 0) + (until[1] > time -> WEIGHT(1) : 0) + (until[2] > time -> WEIGHT(2) : 0);
		must(exclusive, k <= CAPACITY)
	:: else
	fi
}

inline refused() {
	must(kept, ends[c] <= time);
	knows[c] = false; ends[c] = 0; until[c] = 0
}

/* extend lets the key live as long as the claim in a slot, at least. */
inline extend(s) {
	upto = MAX(GONE(s), last);
	if
#ifdef SHORT_LIFE
	:: true ->
#else
	:: upto > till ->
#endif
		till = upto + MORE(upto - time);
		expires = till
	:: else
	fi
}

/* settle tells those that hold because somebody left. */
inline settle() {
	do
	:: first < n && !q[first].there -> first++
	:: else -> break
	od;
	waiter = MAX(waiter, first);
	do
	:: waiter < n && q[waiter].there && WEIGHT(q[waiter].who) <= free ->
		free = free - WEIGHT(q[waiter].who);
		q[waiter].told = true;
#ifndef NO_EXTEND
		extend(waiter);
#endif
		waiter++
#ifdef ONE_TOLD
		; break
#endif
	:: waiter < n && !q[waiter].there -> waiter++
#ifdef SKIPS
	:: waiter < n && q[waiter].there && WEIGHT(q[waiter].who) > free -> waiter++
#endif
	:: else -> break
	od
}

inline sweep() {
	if
	:: due <= time ->
		due = NEVER; live = 0; free = CAPACITY; waiter = n;
		i = first;
		do
		:: i < n && q[i].there && GONE(i) <= time -> clear(i); i++
#ifdef NO_DELAY
		:: i < n && q[i].there && GONE(i) > time && q[i].ends <= time -> clear(i); i++
		:: i < n && q[i].there && q[i].ends > time ->
#else
		:: i < n && q[i].there && GONE(i) > time ->
#endif
#ifdef LATE_DUE
			due = (q[i].told -> due : MIN(due, GONE(i)));
#else
			due = MIN(due, GONE(i));
#endif
			live++;
			if
			:: q[i].told -> free = free - WEIGHT(q[i].who)
			:: else ->
#ifndef ALL_TOLD
				waiter = MIN(waiter, i)
#endif
			fi;
			i++
		:: i < n && !q[i].there -> i++
		:: else -> break
		od;
#ifndef NO_SETTLE
		settle()
#endif
	:: else
	fi
}

/* find finds the client's claim, and whether one has run out. */
inline find() {
	found = MANY; changed = false; i = 0;
	do
	:: i < n ->
		known = q[i].there && GONE(i) <= time;
		changed = changed || known;
		found = (q[i].there && q[i].who == c && !known -> i : found);
		i++
	:: else -> break
	od
}

inline prolong() {
	holds = found < waiter;
	q[found].ends = MAX(q[found].ends, time + (holds -> TTL : WAIT(c)));
#ifdef ADDS_UP
	till = till + 1; expires = till;
#endif
#ifdef NO_SAVE
	k = till;
#endif
	extend(found);
#ifdef NO_SAVE
	till = k
#endif
}

inline join() {
#ifdef OVERTAKES
	holds = WEIGHT(c) <= free;
#else
	holds = waiter == n && WEIGHT(c) <= free;
#endif
#ifdef NO_LAST
	k = last;
#endif
	last = MAX(last + 1, time);
	entered();
	found = n;
	q[n].there = true; q[n].told = holds; q[n].who = c; q[n].ends = time + (holds -> TTL : WAIT(c));
	extend(n);
#ifndef NO_DUE
	due = MIN(due, GONE(n));
#endif
	n++; live++;
	if
	:: holds -> waiter = n; free = free - WEIGHT(c)
	:: else
	fi
#ifdef NO_LAST
	;
	last = k
#endif
}

inline depart() {
	live--;
#ifdef FREES_ALL
	free = free + WEIGHT(c);
#else
#ifndef NO_FREE
	free = free + (found < waiter -> WEIGHT(c) : 0);
#endif
#endif
	clear(found);
	settle()
}

/* read reads the whole queue, without what has run out. */
inline read() {
	i = 0; k = 0;
	do
	:: i < n && q[i].there && GONE(i) > time ->
		if
		:: k < i ->
			q[k].there = true; q[k].told = q[i].told; q[k].who = q[i].who; q[k].ends = q[i].ends;
			clear(i)
		:: else
		fi;
		k++; i++
	:: i < n && !(q[i].there && GONE(i) > time) -> clear(i); i++
	:: else -> break
	od;
	n = k
}

/* holding counts those that hold. */
inline holding() {
	held = 0; sum = 0;
	do
	:: held < n && sum + WEIGHT(q[held].who) <= CAPACITY -> sum = sum + WEIGHT(q[held].who); held++
	:: else -> break
	od
}

inline commit() {
	known = n >= (form == spread -> LEAST : LONG) && c != OLD;
	holding();
	unhead();
	due = NEVER; expires = last;
	i = 0;
	do
	:: i < n ->
		q[i].told = q[i].told || i < held;
#ifndef DRAGS_OLD
		known = known && q[i].who != OLD;
#endif
		due = MIN(due, GONE(i)); expires = MAX(expires, GONE(i));
		i++
	:: else -> break
	od;
	if
	:: known -> form = spread; waiter = held; live = n; free = CAPACITY - sum; till = expires
	:: !known && expires < time -> forget()
	:: else -> form = packed; unhead()
	fi
}

/* whole is a script that reads and writes the whole queue; one that is refused writes only if a claim has run out. */
inline whole() {
	find();
	if
	:: found < MANY && time < q[found].ends ->
		changed = true;
		if
		:: asks[c] == leave -> clear(found)
		:: else
		fi
	:: asks[c] == enter && found == MANY -> changed = true
	:: else -> asks[c] = idle
	fi;
	if
	:: changed ->
		read();
		if
		:: asks[c] == enter && found == MANY ->
			last = MAX(last + 1, time);
			entered();
			found = n;
			q[n].there = true; q[n].told = false; q[n].who = c; q[n].ends = 0;
			n++
		:: else -> find()
		fi;
		holding();
		holds = found < held;
		if
		:: asks[c] == enter || asks[c] == stay ->
			q[found].told = q[found].told || holds;
			q[found].ends = MAX(q[found].ends, time + (holds -> TTL : WAIT(c)))
		:: else
		fi;
		commit()
	:: else
	fi;
	if
	:: asks[c] == enter || asks[c] == stay -> answered()
	:: asks[c] == idle -> refused()
	:: asks[c] == leave
	fi
}

/* check looks at the store after a step. An older client, if refused, lets those that have run out stay. */
inline check() {
	i = 0; k = 0; sum = 0;
	do
	:: i < n && q[i].there ->
		k = k | 1 << q[i].who;
		upto = GONE(i);
		must(early, form != spread || due <= upto);
		must(lasting, expires >= upto);
		keeps[q[i].who] = (q[i].told -> MAX(keeps[q[i].who], GONE(i)) : keeps[q[i].who]);
		if
		:: GONE(i) > time && c != OLD ->
			sum = sum + WEIGHT(q[i].who);
			must(served, q[i].told == (sum <= CAPACITY))
		:: else
		fi;
		i++
	:: i < n && !q[i].there -> i++
	:: else -> break
	od;
	must(kept, (ends[0] <= time || k & 1) && (ends[1] <= time || k & 2) && (ends[2] <= time || k & 4));
	sum = (keeps[0] > time -> WEIGHT(0) : 0) + (keeps[1] > time -> WEIGHT(1) : 0) + (keeps[2] > time -> WEIGHT(2) : 0);
	must(delayed, sum <= CAPACITY);
	must(lasting, form == none || expires >= last);
	upto = time + LIFE + MORE(LIFE);
	must(clean, form == none || expires <= upto)
}

inline serve() {
	expire();
	if
	:: asks[c] == leave -> keeps[c] = 0
	:: else
	fi;
	inplace = false;
	if
	:: form == spread && c == OLD ->
#ifdef OLD_READS
		forget()
#else
		refused();
		inplace = true
#endif
	:: form == spread && c != OLD ->
		sweep();
		find();
		inplace = true;
		if
		:: live >= LEAST && asks[c] != leave && found < MANY && time < q[found].ends -> prolong(); answered()
		:: live >= LEAST && asks[c] == enter && found == MANY && n < MANY -> join(); answered()
		:: live > LEAST && asks[c] == leave && found < MANY && time < q[found].ends -> depart()
		:: else -> inplace = false
		fi
	:: else
	fi;
	if
	:: !inplace -> whole()
	:: else
	fi;
	check();
	asks[c] = idle; sent[c] = 0
}

init {
	do
	:: d_step {
		time < LAST -> time++;
		/* what has passed is forgotten, which makes the states fewer */
		i = 0;
		do
		:: i < 3 ->
			keeps[i] = (keeps[i] > time -> keeps[i] : 0);
			until[i] = (until[i] > time -> until[i] : 0);
			ends[i] = (ends[i] > time -> ends[i] : 0);
			i++
		:: else -> break
		od;
		i = 0
	}
	:: time == LAST -> break
	:: atomic {
		if
		:: c = 0
		:: c = 1
		:: c = 2
		fi;
		if
		:: asks[c] != idle ->
			if
			:: heard = true
			:: heard = false
			fi;
			d_step {
				serve();
				i = 0; k = 0; found = 0; held = 0; sum = 0; upto = 0; known = false; holds = false; heard = false; changed = false; inplace = false
			}
		:: asks[c] == idle ->
			sent[c] = time;
			if
			:: !knows[c] && tries[c] < TRIES(c) -> asks[c] = enter; tries[c]++
			:: knows[c] -> asks[c] = stay
			:: knows[c] ->
				asks[c] = leave; ends[c] = 0;
#ifndef BELIEVES_ON
				until[c] = 0
#endif
			:: tries[c] = TRIES(c); ends[c] = 0; knows[c] = false; sent[c] = 0
			fi
		:: else
		fi;
		c = 0
	}
	od
}
