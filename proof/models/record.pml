/*
 * How a claim on a majority of three servers gets another record, as package quorum does it: each server has the record with
 * its version. README.md says what the model leaves out.
 *
 * What must never be false:
 *
 *   fresh   who hears a majority sees no record from before the last that was answered
 *   lasting nor one that a process before this one asked for, however late it arrives
 *
 * good: a holder changes its record twice; requests come late, twice or never, and a server loses the claim and gets it back
 * good TAKEN_UP: the holder has taken the claim up from a process that is dead, whose last change is on its way
 * mistake FIRST_HEARD breaks fresh: an observer takes what it hears first, not what is later
 * mistake ONE_ANSWER breaks fresh: a change is answered when one server has it
 * mistake LOWERS breaks fresh: a server takes whatever record comes
 * mistake ANY_RECORD breaks fresh: a renewal counts on a server whatever record the claim has there
 * mistake TAKEN_UP NO_CLOCK breaks lasting: a version is the next after those that were heard, not ahead of all clocks
 */

#define MAJORITY 2

/*
 * A record is a number that says which of two is the later one: twice its version, and one more if it is the dead process's,
 * as the text decides between two of one version. The first record of a claim is 0.
 */
#define DEAD  3
#define LAST  6

/* Servers. */
bool has[3] = true; /* the claim stands there */
byte record[3];

/* The holder. A set of servers is a number of three bits, one of records a number of seven. */
byte target;      /* the record that the claim is to have */
byte sent = 1;    /* records that were sent, by which requests may be on their way */
byte yes;         /* servers that have renewed the claim in this round, with the record */
byte trusted = 7; /* servers by whose answers the lease is trusted: the claim does not run out there */
byte answered;    /* the last record that was answered */

/* What must never be false. */
bool fresh, lasting;

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

#define BIT(n)    (1 << (n))
#define SIZE(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* What the mistakes change. */
#ifdef ONE_ANSWER
#define NEEDED 1
#else
#define NEEDED MAJORITY
#endif
#ifdef LOWERS
#define REPLACES(s, r) true
#else
#define REPLACES(s, r) (record[s] < (r))
#endif
#ifdef ANY_RECORD
#define COUNTS(s) (target == answered || record[s] == target) /* a change itself is answered by those that have it */
#else
#define COUNTS(s) (record[s] == target)
#endif
#ifdef FIRST_HEARD
#define SEEN(a, b) record[a]
#else
#define SEEN(a, b) MAX(record[a], record[b])
#endif
#ifdef NO_CLOCK
#define NEXT (2 * (target / 2 + 1))
#else
#define NEXT (target < DEAD -> 4 : LAST)
#endif

/* An observer hears two servers, which both show the claim. */
inline look(a, b) {
	seen = SEEN(a, b);
	must(fresh, seen / 2 >= answered / 2);
	must(lasting, answered == 0 || seen != DEAD || answered == DEAD);
	seen = 0
}

proctype holder() {
	byte changes = 2;
	byte s;

#ifdef TAKEN_UP
	/* It hears a majority, and goes on with the later record. */
	atomic {
		if
		:: target = MAX(record[0], record[1])
		:: target = MAX(record[0], record[2])
		:: target = MAX(record[1], record[2])
		fi
	}
#endif
end:	do
	:: atomic { changes > 0 && target == answered -> changes--; target = NEXT; sent = sent | BIT(target); yes = 0 }
	:: atomic { yes != 0 -> yes = 0 } /* another round begins */
	:: atomic { SIZE(yes) >= NEEDED -> answered = target; trusted = yes; yes = 0 }
	:: atomic { /* a server renews the claim, with its record, and is heard */
		if
		:: s = 0
		:: s = 1
		:: s = 2
		fi;
		if
		:: has[s] && !(yes & BIT(s)) ->
			if
#ifdef ANY_RECORD
			:: target == answered -> skip
#endif
			:: record[s] < target -> record[s] = target
			:: else
			fi;
			if
			:: COUNTS(s) -> yes = yes | BIT(s)
			:: else
			fi
		:: else
		fi;
		s = 0 }
	od
}

/* A request that was sent at some time arrives, once more or after all; or a server that lacks the claim is entered again. */
#define CHANGES(s, r) ((sent & BIT(r)) && (!has[s] || record[s] != (r) && REPLACES(s, r)))

proctype net() {
end:	do
	:: atomic { CHANGES(0, 0) -> has[0] = true; record[0] = 0 }
	:: atomic { CHANGES(1, 0) -> has[1] = true; record[1] = 0 }
	:: atomic { CHANGES(2, 0) -> has[2] = true; record[2] = 0 }
	:: atomic { CHANGES(0, 2) -> has[0] = true; record[0] = 2 }
	:: atomic { CHANGES(1, 2) -> has[1] = true; record[1] = 2 }
	:: atomic { CHANGES(2, 2) -> has[2] = true; record[2] = 2 }
	:: atomic { CHANGES(0, DEAD) -> has[0] = true; record[0] = DEAD }
	:: atomic { CHANGES(1, DEAD) -> has[1] = true; record[1] = DEAD }
	:: atomic { CHANGES(2, DEAD) -> has[2] = true; record[2] = DEAD }
	:: atomic { CHANGES(0, 4) -> has[0] = true; record[0] = 4 }
	:: atomic { CHANGES(1, 4) -> has[1] = true; record[1] = 4 }
	:: atomic { CHANGES(2, 4) -> has[2] = true; record[2] = 4 }
	:: atomic { CHANGES(0, LAST) -> has[0] = true; record[0] = LAST }
	:: atomic { CHANGES(1, LAST) -> has[1] = true; record[1] = LAST }
	:: atomic { CHANGES(2, LAST) -> has[2] = true; record[2] = LAST }
	/* The claim runs out on a server by which no lease is trusted. */
	:: atomic { has[0] && !((trusted | yes) & 1) -> has[0] = false; record[0] = 0 }
	:: atomic { has[1] && !((trusted | yes) & 2) -> has[1] = false; record[1] = 0 }
	:: atomic { has[2] && !((trusted | yes) & 4) -> has[2] = false; record[2] = 0 }
	od
}

proctype observer() {
	byte seen;

end:	do
	:: atomic { has[0] && has[1] -> look(0, 1) }
	:: atomic { has[0] && has[2] -> look(0, 2) }
	:: atomic { has[1] && has[2] -> look(1, 2) }
	:: atomic { has[1] && has[0] -> look(1, 0) }
	:: atomic { has[2] && has[0] -> look(2, 0) }
	:: atomic { has[2] && has[1] -> look(2, 1) }
	od
}

init {
	atomic {
#ifdef TAKEN_UP
		sent = sent | BIT(DEAD);
#endif
		run holder();
		run net();
		run observer()
	}
}
