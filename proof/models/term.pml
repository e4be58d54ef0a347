/*
 * How a claim in etcd outlives a leader that stood still, by package etcd. Leader 1 stands still at any moment, leader 2 replaces
 * it, and leader 1 goes on and does not know that yet: it ends the leases that have run out by its own clock, and answers
 * keep-alives. README.md says what the model leaves out.
 *
 * Lease 0 was granted under leader 1. The claim's key hangs on it at first. A lease that is granted later is number 1 or 2.
 *
 * Where the steps are in folder etcd:
 *
 *   keep    keepalive.go, keep
 *   look    renew.go, look; lookup.go, locate: a read, which a leader confirms with a majority
 *   confirm term.go, confirm
 *   grant   lease.go, grant
 *   hang    term.go, replaceOnce; apply.go, move
 *
 * What must never be false:
 *
 *   exclusive  the key stands while its client trusts the claim, so nobody else holds
 *   trusted    what a client comes to trust has not run out for the leader by whose word it does
 *
 * good: the leader is replaced at any moment, and goes on; answers are lost
 * mistake ANY_LEADER breaks exclusive: a keep-alive counts whichever leader has answered it
 * mistake LOOKS_BEFORE breaks exclusive: the term is that of an answer to a request that was sent before the keep-alive's answer came
 * mistake TERM_OF_ANSWER breaks exclusive: a lease is taken to be of the term that the answer to its grant tells
 * mistake BELIEVES_ANSWER breaks exclusive: the term is that which the answer to the keep-alive tells, by a member that lags behind
 */

#define LEASES 3

byte leads = 1;       /* the leader that a majority follows */
bool away;            /* leader 1 stands still */
bool until[6];        /* LEADER and LEASE: the lease has not run out by the leader's clock; 3 * (leader - 1) + lease */
bool knows[6];        /* the same: the leader knows the lease */
byte leases = 1;      /* that were granted */
bool there[LEASES];   /* the lease has not been ended */

bool key = true;      /* the claim's key is there */
byte on;              /* the lease that it hangs on */

/* The client. */
bool trust;           /* the claim has time left */
byte word = 1;        /* of this leader */
byte life;            /* the lease that it lives by */
byte seen = 1;        /* the latest term that it was told */
byte term[LEASES];    /* of the leases, as the client has noted */
byte who;             /* the leader that has kept the lease alive, or granted it; 0 if its answer is lost */
bool left;            /* of the time that it gave, by the client's clock, which counts from before the request */

bool exclusive, trusted;

#define at(leader, lease) (3 * ((leader) - 1) + (lease))

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

inline tells() { seen = (seen < leads -> leads : seen) }

/* A leader ends a lease that has run out by its clock. */
inline ends(leader, lease) {
	if
	:: knows[at(leader, lease)] && there[lease] && !until[at(leader, lease)] ->
		there[lease] = false;
		if
		:: key && on == lease -> key = false; must(exclusive, !trust)
		:: else
		fi
	:: else
	fi
}

/* Time passes by the clock of a leader. A client counts from before the request, so what that leader gave is over for it before,
 * and so is what an earlier one gave: a new leader gives every lease its whole time anew. */
inline passes(leader) {
	d_step {
		trust = trust && word > leader;
		left = left && who > leader;
		until[at(leader, 0)] = false;
		until[at(leader, 1)] = false;
		until[at(leader, 2)] = false
	}
}

active proctype world() {
	byte l;
	do
	:: atomic { passes(1) }
	:: atomic { leads == 2 -> passes(2) }
	:: atomic { leads == 1 -> away = true }
	:: atomic { leads == 1 && away ->
		leads = 2;
		knows[at(2, 0)] = there[0]; knows[at(2, 1)] = leases > 1 && there[1]; knows[at(2, 2)] = leases > 2 && there[2];
		until[at(2, 0)] = knows[at(2, 0)]; until[at(2, 1)] = knows[at(2, 1)]; until[at(2, 2)] = knows[at(2, 2)] }
	:: atomic { away -> away = false } /* it goes on, whether or not it was replaced */
	:: atomic { !away -> select(l : 0 .. 2); ends(1, l) }
	:: atomic { leads == 2 -> select(l : 0 .. 2); ends(2, l) }
	od
}

active proctype client() {
	byte told, fresh, noted;
	bool stands;
	d_step {
		there[0] = true; knows[at(1, 0)] = true; until[at(1, 0)] = true;
		term[0] = seen; trust = true
	}
#ifdef TERM_OF_ANSWER
	term[0] = leads;
#endif
	do
	:: /* a renewal */
#ifdef LOOKS_BEFORE
		atomic { stands = key && on == life; told = leads; tells() }
#endif
		/* A leader that was replaced, and does not know it, answers too; each only about a lease that it has. */
		if
		:: atomic { !away && knows[at(1, life)] && there[life] && until[at(1, life)] -> who = 1; left = true; until[at(1, life)] = true }
		:: atomic { leads == 2 && knows[at(2, life)] && there[life] -> who = 2; left = true; until[at(2, life)] = true }
		:: atomic { !there[life] -> break }
		:: who = 0 /* its answer is lost */
		fi;
#ifdef BELIEVES_ANSWER
		atomic { told = seen; stands = key && on == life } /* the member has not applied what the leader has */
#else
#ifndef LOOKS_BEFORE
		if
		:: atomic { leads == 2 || !away -> stands = key && on == life; told = leads; tells() }
		:: who = 0
		fi;
#endif
#endif
		if
		:: who == 0
		:: who != 0 && !stands -> break /* the claim is gone */
#ifdef ANY_LEADER
		:: atomic { who != 0 && stands ->
#else
		:: atomic { who != 0 && stands && told == term[life] ->
#endif
			if
			:: left -> trust = true; word = who; must(trusted, until[at(who, life)]); must(exclusive, key)
			:: else
			fi }
#ifndef ANY_LEADER
		:: who != 0 && stands && told != term[life] && leases < LEASES ->
			/* The key is hung on a lease that is new. */
			noted = seen;
			atomic { leads == 2 || !away ->
				fresh = leases; leases++;
				there[fresh] = true;
				knows[at(leads, fresh)] = true; until[at(leads, fresh)] = true;
				who = leads; left = true }
			term[fresh] = noted;
			if
			:: atomic { (leads == 2 || !away) && key && on == life && there[fresh] ->
				on = fresh; life = fresh; tells();
				if
				:: left -> trust = true; word = who; must(trusted, until[at(who, life)])
				:: else
				fi }
			:: !key -> break
			:: !there[fresh] -> break
			fi
		:: who != 0 && stands && told != term[life] && leases == LEASES -> break
#endif
		fi
	od
}
