/*
 * Redlock as package quorum does it: each lock is one key on each of three servers, and a claim holds with the keys of
 * two. README.md says what the model leaves out.
 *
 * What must never be false:
 *
 *   exclusive  two clients never both believe that they hold
 *   rising     the token of a grant is larger than those of all grants before
 *   clean      once a client is out and its messages have arrived, no server keeps a key of it
 *   bearing    with the keys of all servers but one, an attempt within its time has succeeded
 *
 * good TWICE: two clients, one of which tries twice; messages late and lost, keys that run out
 * good FORGETS: a server restarts without its data and lets the ttl pass before it votes; tokens do not count
 * good RENEWS: a holder extends its lease
 * mistake NO_WRITEBACK breaks rising: the largest ticket is the token, although one server alone may have it
 * mistake REACHABLE breaks exclusive: the majority is one of the servers that answered
 * mistake LATE_START breaks exclusive: the lease counts from when the answers were there
 * mistake NO_DRIFT breaks exclusive: the lease is the whole ttl, although a server's clock may run faster
 * mistake NO_SECOND_LOOK breaks exclusive: the deadline is not looked at again once the token was written back
 * mistake TWICE NO_COMPARE breaks exclusive: leaving deletes the key, whosever it is
 * mistake LEAVE_GRANTED breaks clean: leaving goes to the servers that said yes, not to those that did not answer
 * mistake SAME_TWICE breaks bearing: the first server is the third as well
 * mistake FORGETS VOTES_AT_ONCE breaks exclusive: the server that restarted without its data votes at once
 * mistake FORGETS TRUSTS_TOKENS breaks rising: tokens count although a server forgot its counter
 * mistake RENEWS ONE_RENEWAL breaks exclusive: one server's answer extends the lease
 * mistake RENEWS LATE_START breaks exclusive: the extended lease counts from when the answers were there
 * mistake RENEWS BRIDGES breaks rising: extending sets a key that is gone, however late
 */

#define MAJORITY 2
#define ALL      7 /* the three servers as configured, as bits */

/*
 * Time is what is left of something, in ticks. The clocks of servers run as fast as they may: what is set for a ttl is
 * gone after KEEP, on which a client counts.
 */
#define KEEP 2
#ifdef NO_DRIFT
#define LEASE (KEEP + 1)
#else
#define LEASE KEEP
#endif

mtype:phase = { out, entering, raising, holding, renewing };

/* Servers. */
byte owner[3];   /* whose the key is: client + 1, or 0 */
byte left[3];    /* ticks until the key is gone */
byte counter[3]; /* the largest ticket or token that the server has heard of */
byte silent[3];  /* ticks until it votes */

/* Clients. A set of servers is a number of three bits. */
mtype:phase phase[2] = out;
byte asked[2];  /* servers that the requests of this phase are on their way to */
byte yes[2];    /* servers that said yes */
byte token[2];  /* the largest ticket that was answered */
byte agreed[2]; /* servers that are known to have it */
byte trust[2];  /* ticks until the deadline */
byte fresh[2];  /* the same for a renewal that is on its way */
#ifdef REACHABLE
byte heard[2];  /* servers that answered */
#endif

byte last; /* the token of the last grant */

/* What must never be false. */
bool exclusive, rising, clean, bearing;

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

#define BELIEVES(c) ((phase[c] == holding || phase[c] == renewing) && trust[c] > 0)
#define OWNS(c)     (owner[0] == c + 1 || owner[1] == c + 1 || owner[2] == c + 1)
#define BIT(n)      (1 << (n))
#define SIZE(set)   (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))
#define MAX(a, b)   ((a) > (b) -> (a) : (b))
#define FEWER(n)    ((n) > 0 -> (n) - 1 : 0)

/* Tokens do not count where a server forgets, nor where a mistake is to be seen to break more than their order. */
#if !defined(FORGETS) && !defined(REACHABLE) && !defined(NO_SECOND_LOOK) || defined(TRUSTS_TOKENS)
#define ORDERED
#endif

/* What the mistakes change. */
#ifdef REACHABLE
#define NEEDED(c) (SIZE(heard[c]) / 2 + 1)
#else
#define NEEDED(c) MAJORITY
#endif
#ifdef NO_SECOND_LOOK
#define SECOND_LOOK(c) true
#else
#define SECOND_LOOK(c) (trust[c] > 0)
#endif
#ifdef ONE_RENEWAL
#define RENEWALS 1
#else
#define RENEWALS MAJORITY
#endif
#ifdef BRIDGES
#define CONTINUES(c) true
#else
#define CONTINUES(c) (trust[c] > 0)
#endif
#ifdef SAME_TWICE
#define SERVER(n)        ((n) == 2 -> 0 : (n))
#define ALL_BUT_ONE(set) (((set) | 5) == ALL || ((set) | 2) == ALL)
#else
#define SERVER(n)        (n)
#define ALL_BUT_ONE(set) (((set) | 1) == ALL || ((set) | 2) == ALL || ((set) | 4) == ALL)
#endif

/* An attempt begins. */
inline start(c) {
	phase[c] = entering;
	trust[c] = LEASE; /* from before the first request */
	asked[c] = ALL;
#ifdef REACHABLE
	heard[c] = 0
#endif
}

/* A majority said yes in time. */
inline decide(c) {
#ifdef LATE_START
	trust[c] = LEASE;
#endif
	if
#ifdef NO_WRITEBACK
	:: true -> hold(c)
#endif
	:: SIZE(agreed[c]) >= NEEDED(c) -> hold(c) /* as many have the token already */
	:: else -> phase[c] = raising; asked[c] = yes[c] & ~agreed[c]
	fi
}

/* The client believes from here on that it holds. */
inline hold(c) {
	must(exclusive, !BELIEVES(1 - c));
#ifdef ORDERED
	must(rising, token[c] > last);
	last = token[c];
#endif
	phase[c] = holding;
	asked[c] = 0;
	yes[c] = 0;
	agreed[c] = 0
}

/* A holder extends its lease. */
inline prolong(c) {
	phase[c] = renewing;
	fresh[c] = LEASE; /* from before the first request */
	asked[c] = ALL
}

/* A majority has extended it. */
inline prolonged(c) {
	must(rising, token[c] == last);
#ifdef LATE_START
	fresh[c] = LEASE;
#endif
	phase[c] = holding;
	trust[c] = fresh[c];
	fresh[c] = 0;
	asked[c] = 0;
	yes[c] = 0
}

/* The client gives up, or releases. What it sends arrives after what it sent before. */
inline quit(c) {
	must(bearing, phase[c] != entering || trust[c] == 0 || !ALL_BUT_ONE(yes[c]) || SIZE(yes[c]) >= NEEDED(c));
	for (n : 0 .. 2) {
		if
#ifdef LEAVE_GRANTED
		:: !(yes[c] & BIT(n)) -> skip
#endif
#ifdef NO_COMPARE
		:: true -> owner[n] = 0; left[n] = 0
#endif
		:: owner[n] == c + 1 -> owner[n] = 0; left[n] = 0
		:: else
		fi
	}
	must(clean, !OWNS(c));
	phase[c] = out;
	asked[c] = 0;
	yes[c] = 0;
	agreed[c] = 0;
	trust[c] = 0;
	fresh[c] = 0;
	token[c] = 0
}

/* A server is asked for the key of the name. */
inline vote(c, n, s) {
	if
	:: silent[s] == 0 && owner[s] == 0 ->
		counter[s]++;
		owner[s] = c + 1;
		left[s] = KEEP;
		said = true
	:: silent[s] == 0 && owner[s] == c + 1 -> said = true
	:: else
	fi;
	if
	:: true -> skip /* the answer is lost */
	:: true ->
#ifdef REACHABLE
		heard[c] = heard[c] | BIT(n);
#endif
		if
		:: said && counter[s] > token[c] -> yes[c] = yes[c] | BIT(n); agreed[c] = BIT(n); token[c] = counter[s]
		:: said && counter[s] == token[c] -> yes[c] = yes[c] | BIT(n); agreed[c] = agreed[c] | BIT(n)
		:: said && counter[s] < token[c] -> yes[c] = yes[c] | BIT(n)
		:: else
		fi
	fi;
	said = false
}

/* A server is told the token. */
inline write_back(c, n, s) {
	counter[s] = MAX(counter[s], token[c]);
	if
	:: true -> agreed[c] = agreed[c] | BIT(n)
	:: true -> skip
	fi
}

/* A server is asked to extend the key. */
inline extend(c, n, s) {
	if
#ifdef BRIDGES
	:: owner[s] == 0 -> owner[s] = c + 1; left[s] = KEEP; said = true
#endif
	:: owner[s] == c + 1 -> left[s] = KEEP; said = true
	:: else
	fi;
	if
	:: said -> yes[c] = yes[c] | BIT(n)
	:: true -> skip
	fi;
	said = false
}

/* A request arrives. One that never does is lost. */
inline arrive(c, n) {
	asked[c] = asked[c] & ~BIT(n);
	if
	:: phase[c] == entering -> vote(c, n, SERVER(n))
	:: phase[c] == raising -> write_back(c, n, SERVER(n))
	:: phase[c] == renewing -> extend(c, n, SERVER(n))
	fi
}

proctype client(byte c; byte rounds) {
	byte n;
	bool said;

end:	do
	:: atomic { phase[c] == out && rounds > 0 -> rounds--; start(c) }
	:: atomic { phase[c] == entering && SIZE(yes[c]) >= NEEDED(c) && trust[c] > 0 -> decide(c) }
	:: atomic { phase[c] == raising && SIZE(agreed[c]) >= NEEDED(c) && SECOND_LOOK(c) -> hold(c) }
#ifdef RENEWS
	:: atomic { phase[c] == holding && trust[c] > 0 -> prolong(c) }
	:: atomic { phase[c] == renewing && SIZE(yes[c]) >= RENEWALS && CONTINUES(c) -> prolonged(c) }
#endif
	:: atomic { phase[c] != out -> quit(c); n = 0 } /* at any time */
	:: atomic { asked[c] & 1 -> arrive(c, 0) }
	:: atomic { asked[c] & 2 -> arrive(c, 1) }
	:: atomic { asked[c] & 4 -> arrive(c, 2) }
	od
}

/* Time passes for all alike, while something has any left. */
proctype clock() {
	byte n;

end:	do
	:: atomic { left[0] + left[1] + left[2] + silent[0] + silent[1] + silent[2] + trust[0] + trust[1] > 0 ->
		for (n : 0 .. 2) {
			owner[n] = (left[n] > 1 -> owner[n] : 0);
			left[n] = FEWER(left[n]);
			silent[n] = FEWER(silent[n])
		}
		for (n : 0 .. 1) {
			trust[n] = FEWER(trust[n]);
			fresh[n] = FEWER(fresh[n])
		}
		n = 0 }
	od
}

#ifdef FORGETS
/* A server restarts without its data, once. Which one is no matter, since they are alike. */
proctype restart() {
	atomic {
		owner[0] = 0;
		left[0] = 0;
		counter[0] = 0;
#ifndef VOTES_AT_ONCE
		silent[0] = KEEP
#endif
	}
}
#endif

init {
	atomic {
		counter[1] = 1; /* an earlier attempt reached one server */
#ifdef TWICE
		run client(0, 2);
#else
		run client(0, 1);
#endif
		run client(1, 1);
		run clock();
#ifdef FORGETS
		run restart();
#endif
	}
}
