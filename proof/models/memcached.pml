/*
 * Locks in memcached as package memcached keeps them: all claims of a name are one value, which a client swaps for
 * another if nobody has changed it since it was read. Leases end by the server's clock, which shows whole seconds, and
 * of which a client knows what it showed at its last read. README.md says what the model leaves out.
 *
 * What must never be false:
 *
 *   exclusive  two clients never both believe that they hold
 *   rising     the ticket of a grant is larger than those of all grants before
 *   untouched  no client takes a claim of another out whose lease has not ended
 *
 * good: answers late and lost, requests that arrive after their client gave up, clocks of clients that stand still
 * good FULL: the server refuses to store now and then
 * good RESTARTS: the server forgets all; exclusion and tickets do not count, but what others have is left alone
 * mistake NO_VERSION breaks rising: a value is stored, whatever is there by now
 * mistake OWN_CLOCK breaks untouched: a client lets leases end by its own clock, which may run fast
 * mistake UNREAD breaks exclusive: the lease counts as asked for, without a look at the server's clock after
 * mistake NO_ROUNDING breaks exclusive: a second of the server's clock counts as a whole one when it is read
 * mistake LATE_START breaks exclusive: the lease counts from when the answer was there
 * mistake FULL DELETES breaks rising: what cannot be stored deletes what was there, as the command ms does
 * mistake SAME_ID breaks exclusive: a client uses the id of a claim that it had leave for its next one
 * mistake RESTARTS OLD_VERSION breaks untouched: a version of the process before counts for the one after
 * mistake RESTARTS TRUSTS breaks rising: locks and tickets count although the server forgets
 */

#define TTL  1  /* seconds */
#define HALF 2  /* steps of time in a second of the server's clock */
#ifdef RESTARTS
#define LAST 2  /* steps of time in all */
#else
#define LAST 4
#endif
#define MANY 3  /* claims that a queue has room for */
#define TRIES 2 /* looks and requests of a client, beside its leaving */

#if !defined(RESTARTS) || defined(TRUSTS)
#define KEEPS
#endif

mtype:way = { home, sending, answering };

typedef value {
	byte version; /* 0: there is none */
	byte last;    /* the latest ticket */
	byte now;     /* what the server's clock showed when it was read */
	byte id[MANY]; /* claims in order, odd ones of client 0, even ones of client 1; 0 after the last */
	byte ticket[MANY];
	byte ends[MANY]
};

byte time;      /* in steps; the server's clock shows time / HALF */
value store;    /* the server's */
byte version;   /* the last that the server gave */
byte process = 1; /* how often the server was started */

value seen[2];  /* what a client saw last */
byte knows[2];  /* and of which process */
value want[2];  /* what it asks to be stored */
mtype:way way[2] = home;
byte sent[2];   /* when it was sent */
value late[2];  /* a request that it gave up, and that is on the way still */
byte leads[2];  /* to this process; 0 if there is none */

byte id[2];     /* its claim; none is used twice */
byte mine[2];   /* the ticket of its claim; 0 before it has one */
byte until[2];  /* it believes that it holds until then */
byte granted;   /* the ticket of the last grant */
byte holder;    /* and its claim */

bool exclusive, rising, untouched;

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

#define SECOND      (time / HALF)
#define MAX(a, b)   ((a) > (b) -> (a) : (b))
#ifdef SAME_ID
#define NEXT(n)     (n)
#else
#define NEXT(n)     ((n) + 2)
#endif
#define BELIEVES(c) (until[c] > time)

inline copy(to, from) {
	to.version = from.version;
	to.last = from.last;
	to.now = from.now;
	for (i : 0 .. MANY - 1) {
		to.id[i] = from.id[i];
		to.ticket[i] = from.ticket[i];
		to.ends[i] = from.ends[i]
	}
}

inline clear(v) {
	v.version = 0;
	v.last = 0;
	for (i : 0 .. MANY - 1) {
		v.id[i] = 0;
		v.ticket[i] = 0;
		v.ends[i] = 0
	}
}

/* Claims whose lease has ended by a second are taken out of a queue, and that of one client, if there is one. */
inline purge(v, second, number) {
	j = 0;
	for (i : 0 .. MANY - 1) {
		if
		:: v.id[i] != 0 && v.ends[i] > second && v.id[i] != number ->
			v.id[j] = v.id[i];
			v.ticket[j] = v.ticket[i];
			v.ends[j] = v.ends[i];
			j++
		:: else
		fi
	}
	for (i : j .. MANY - 1) {
		v.id[i] = 0;
		v.ticket[i] = 0;
		v.ends[i] = 0
	}
	i = 0;
	j = 0
}

/* Where a claim stands; MANY if it does not. */
inline find(queue, number) {
	j = 0;
	do
	:: j < MANY && queue.id[j] != number -> j++
	:: else -> break
	od
}

/* The server is asked to store a value in place of a version. */
inline swap(c, v) {
	if
#ifdef FULL
	:: true -> /* it has no memory for that */
#ifdef DELETES
		clear(store)
#endif
#endif
#ifdef NO_VERSION
	:: true ->
#else
	:: v.version == store.version ->
#endif
		for (k : 0 .. MANY - 1) {
			if
			:: store.id[k] != 0 && store.id[k] % 2 == c && store.ends[k] > SECOND ->
				find(v, store.id[k]);
				must(untouched, j < MANY)
			:: else
			fi
		}
		copy(store, v);
		version++;
		store.version = version
	:: else
	fi;
	j = 0;
	k = 0
}

/* A client changes what it saw and asks for that to be stored: its claim enters, or its lease begins anew. */
inline ask(c) {
	copy(want[c], seen[c]);
#ifdef OWN_CLOCK
	purge(want[c], seen[c].now + 1, 0);
#else
	purge(want[c], seen[c].now, 0);
#endif
	find(want[c], id[c]);
	if
	:: j == MANY && mine[c] == 0 && want[c].id[MANY - 1] == 0 ->
		find(want[c], 0); /* the first place that is free */
		want[c].last++;
		want[c].id[j] = id[c];
		want[c].ticket[j] = want[c].last
	:: else
	fi;
	if
	:: j < MANY ->
		if /* what it is by the client's clock: nothing since it looked, or a second more than it is */
		:: k = seen[c].now
		:: k = SECOND + 1
		fi;
		want[c].ends[j] = MAX(want[c].ends[j], k + TTL + 1);
		sent[c] = time;
		send(c)
	:: else -> gone(c)
	fi;
	j = 0;
	k = 0
}

inline send(c) {
	way[c] = sending;
	if
	:: seen[c].version == 0 -> knows[c] = process /* there is no version that only one process knows */
	:: else
	fi
}

/* A client does not believe any more that it holds, and asks for its claim to be taken out. */
inline quit(c) {
	until[c] = 0;
	mine[c] = 0;
	copy(want[c], seen[c]);
	purge(want[c], seen[c].now, id[c]);
	id[c] = NEXT(id[c]);
	send(c)
}

/* A claim that had a ticket is gone. One that has none may be on its way still, and is asked for again. */
inline gone(c) {
	until[c] = 0;
	if
	:: mine[c] != 0 -> mine[c] = 0; id[c] = NEXT(id[c])
	:: else
	fi
}

/* A request comes to the server, if that is the process which it was sent to. */
inline arrive(c, v, to) {
	if
#ifdef OLD_VERSION
	:: true -> swap(c, v)
#else
	:: to == process -> swap(c, v)
	:: else
#endif
	fi
}

/* The server reads what is there, and what its clock shows. */
inline look(c) {
	copy(seen[c], store);
	seen[c].now = SECOND;
	knows[c] = process
}

/* What was read after a request was done has come back. */
inline answer(c) {
	way[c] = home;
	copy(want[c], seen[c]);
	find(want[c], id[c]);
	if
#ifndef UNREAD
	:: j < MANY && want[c].ends[j] <= seen[c].now -> gone(c)
#endif
	:: j == MANY -> gone(c)
	:: else ->
		mine[c] = want[c].ticket[j];
		if
		:: j == 0 -> hold(c, want[c].ends[0] - seen[c].now)
		:: else
		fi
	fi;
	forget(c);
	j = 0
}

/* The claim is the first, and the server has it for so many seconds more, the one that it showed included. */
inline hold(c, seconds) {
#ifdef UNREAD
	k = sent[c] + HALF * TTL;
#else
#ifdef NO_ROUNDING
	k = sent[c] + HALF * seconds;
#else
#ifdef LATE_START
	k = time + HALF * (seconds - 1);
#else
	k = sent[c] + HALF * (seconds - 1);
#endif
#endif
#endif
	if
	:: k > time ->
#ifdef KEEPS
		must(exclusive, !BELIEVES(1 - c));
		must(rising, mine[c] > granted || mine[c] == granted && holder == id[c]);
		granted = mine[c];
		holder = id[c];
#endif
		until[c] = MAX(until[c], k)
	:: else
	fi;
	k = 0
}

/* A client that got no answer gives up waiting, and knows nothing. Its request may arrive yet. */
inline give_up(c) {
	if
	:: way[c] == sending && leads[c] == 0 -> copy(late[c], want[c]); leads[c] = knows[c]
	:: else
	fi;
	way[c] = home;
	k = seen[c].now;
	clear(seen[c]);
	seen[c].now = k;
	forget(c);
	k = 0
}

inline forget(c) {
	clear(want[c]);
	want[c].now = 0;
	sent[c] = 0
}

proctype client(byte c) {
	byte i, j, k;
	byte tries = TRIES;
end:	do
	:: atomic { way[c] == home && tries > 0 -> tries--; look(c) }
	:: atomic { way[c] == home && tries > 0 -> tries--; ask(c) }
	:: atomic { way[c] == home && mine[c] != 0 -> quit(c) }
	:: atomic { way[c] == sending -> arrive(c, want[c], knows[c]); look(c); way[c] = answering }
	:: atomic { way[c] == answering -> answer(c) }
	:: atomic { c == 1 && way[c] != home -> give_up(c) }
	:: atomic { c == 1 && leads[c] != 0 -> arrive(c, late[c], leads[c]); leads[c] = 0; clear(late[c]); late[c].now = 0 }
	od
}

proctype world() {
	byte i;
end:	do
	:: atomic { time < LAST -> time++ }
#ifdef RESTARTS
	:: atomic { process == 1 -> process = 2; version = 0; clear(store); i = 0 }
#endif
	od
}

init {
	atomic {
		id[0] = 1;
		id[1] = 2;
		run client(0);
		run client(1);
		run world()
	}
}
