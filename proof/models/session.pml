/*
 * The claim of a client in ZooKeeper, which lives in the client's session: one name, an ensemble whose servers may be behind, and
 * others who come and go. README.md says what the model leaves out. Which code of package zookeeper is which step:
 *
 *   enter, created  fresh, begin, created (apply.go); again, find and clear (lookup.go) are seek and settle
 *   settle, remove  settle, remove (localclaim.go); leave, sweep (renew.go, janitor.go)
 *   judge, listen   order, wait, watchFor, watched (judge.go); follows (localclaim.go)
 *   renew           renewOnce, renewed (renew.go), inspected (janitor.go)
 *   heard           trust.note (internal/wire/trust.go); join is connect (dial.go)
 *
 * The ensemble counts its transactions. A server has done the first `at` of them. It answers reads by itself.
 *
 * What must never be false:
 *
 *   exclusive  a claim that is trusted to hold has its node, and no node of others is before that
 *   left       of a claim that is forgotten there is no node, and none can come
 *   early      no claim learns that it holds whose node had gone before it was the first
 *   renewed    no renewal confirms a claim whose node had gone before the renewal was sent
 *   told       no claim sleeps when its server shows that it is the first
 *
 * good: answers are lost, and servers are behind, or were deposed and do not know it
 * good BREAKS: and nodes are deleted by hand
 * good TIME: and sessions end
 * mistake MISSING_IS_GONE breaks left: what a server does not show is taken for gone
 * mistake SYNC_PROVES breaks left: what it does not show after a sync is, though a deposed leader answers that alone
 * mistake REUSES breaks left: who does not know whether its node was made makes another
 * mistake FORGETS breaks left: a Leave does not wait for the answer to the request for its node
 * mistake TIME OLD_SESSION breaks left: that a session is over is taken for the end of a claim in the next one
 * mistake BREAKS FOLLOWS_UNSEEN breaks early: the only one before it went, so it holds, whether or not its own node is watched
 * mistake BREAKS BELIEVES breaks renewed: a renewal does not look for a node that is not watched
 * mistake WATCHES_LATE breaks told: the node to watch may have gone before the watch was set
 * mistake TIME AT_ONCE breaks exclusive: an answer of one server counts, though no quorum has agreed
 * mistake TIME NO_LAG breaks exclusive: what a server heard counts before it had time to tell the leader
 * mistake TIME FROM_SENT breaks exclusive: that time counts from when the request was sent, not from its answer
 * mistake TIME REFUSALS breaks exclusive: what a server answers by itself counts as agreed
 */

#define NODES 4 /* 0 and 1 are made by the client, 2 and 3 by others */
#define T     4 /* ticks for which the leader keeps a session */
#define LAG   1 /* ticks in which a server tells the leader of whom it heard */

mtype:state = { out, asking, waiting, holding, leaving };
mtype:verb = { none, create, look, prove, watch, renew, delete };

/* The ensemble. A node is there from one transaction to another. */
byte last;         /* transaction */
byte born[NODES];
byte died[NODES];
byte pending;      /* the node that was asked for and may come yet, and 1 */
byte life = T;     /* ticks until the leader may end the session */
bool ended;        /* it has */

/* The client's connection, and the server at the other end. */
bool conn;
bool deposed;      /* the server was cut off from the others, and does not know it */
byte at;
bool touched;      /* it heard from the client, and has not told the leader */
byte due;          /* ticks in which it does */

/* The client. */
mtype:state state = out;
mtype:verb verb = none; /* the requests that are out */
byte sent;              /* ticks since then */
byte need;              /* the last transaction then */
bool ping;              /* a sign of life is out */
byte pinged;            /* ticks since then */
bool first;             /* it was sent before the requests */
byte node;              /* of the claim */
byte nodes;             /* that the client has asked for */
bool known;             /* the claim's node is known to have been made */
bool second;            /* only the one that is watched was before it */
byte guard;             /* the node that is watched */
byte own;               /* the watch on the claim's own node: 0 is none, 1 stands, 2 was told that the node has gone */
byte next;              /* the watch on the guard; 3: it has to be looked for anew */
byte session = 1;
byte lives_in;          /* the claim's session */
byte renews;            /* the session by which a renewal is being made, while the claim may enter anew */
byte trust;             /* ticks for which the session lives for certain */
bool sign;              /* an answer that does not count yet */
byte sign_sent, sign_answered; /* ticks since then */

/* What has happened. */
bool by_hand;      /* the claim's node was deleted by hand */
bool was_first;    /* the claim's node has been the first */
bool dead;         /* it had gone when the renewal was sent */

/* What must never be false. */
bool exclusive, left, early, renewed, told;

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

#define THERE(k, p)     (born[k] != 0 && born[k] <= p && (died[k] == 0 || died[k] > p))
#define BEFORE(j, k, p) (j != k && THERE(j, p) && born[j] < born[k])
#define AHEAD(k, p)     (BEFORE(0, k, p) + BEFORE(1, k, p) + BEFORE(2, k, p) + BEFORE(3, k, p))
#define FIRST(k, p)     (THERE(k, p) && AHEAD(k, p) == 0)
#define LIVES(k)        (born[k] != 0 && died[k] == 0)
#ifdef TIME
#define TRUSTS (state == holding && trust != 0)
#else
#define TRUSTS (state == holding)
#endif

/* What the mistakes change. */
#ifdef SYNC_PROVES
#define PROVES (deposed || !ended && at >= need)
#elif defined(MISSING_IS_GONE)
#define PROVES true
#else
#define PROVES (!deposed && !ended && at >= need)
#endif
#ifdef NO_LAG
#define COUNTS(age) (sign_answered >= age)
#elif defined(FROM_SENT)
#define COUNTS(age) (sign_sent > age + LAG)
#else
#define COUNTS(age) (sign_answered > age + LAG)
#endif
#ifdef FOLLOWS_UNSEEN
#define FOLLOWS (next == 2 && second)
#else
#define FOLLOWS (next == 2 && second && own == 1)
#endif
#ifdef REFUSALS
#define ALONE true
#else
#define ALONE false
#endif
#ifdef OLD_SESSION
#define SAME(s) true
#else
#define SAME(s) (lives_in == s)
#endif

/* A transaction. */
inline makes(k) {
	last++; born[k] = last
}

inline unmakes(k) {
	last++; died[k] = last
}

inline notes() {
	was_first = was_first || state != out && FIRST(node, last);
	must(exclusive, !TRUSTS || by_hand || FIRST(node, last))
}

inline send(v) {
	verb = v; sent = 0; need = last; first = ping
}

inline idle() {
	verb = none; sent = 0; need = 0; dead = false; first = false
}

inline unwatch() {
	own = 0; next = 0; second = false; guard = 0
}

inline forget() {
	must(left, lives_in != session || ended || !LIVES(node) && pending != node + 1);
	idle(); unwatch();
	state = out; known = false; by_hand = false; was_first = false; node = 0; lives_in = 0
}

/* An answer to what was sent so long ago. */
inline heard(age, agreed) {
#ifdef TIME
	if
	:: !touched -> touched = true; due = LAG
	:: else
	fi;
#ifdef AT_ONCE
	trust = (trust > T - age -> trust : T - age);
#else
	if
	:: agreed && sign && COUNTS(age) ->
		trust = (trust > T - sign_sent -> trust : T - sign_sent);
		sign = false; sign_sent = 0; sign_answered = 0
	:: else
	fi;
	if
	:: age < T -> sign = true; sign_sent = age; sign_answered = 0
	:: true
	fi;
#endif
	notes()
#else
	skip
#endif
}

inline holds() {
	must(early, was_first);
	state = holding;
	unwatch_next();
	notes()
}

inline unwatch_next() {
	next = 0; second = false; guard = 0
}

/* The claim's node is there in a list of what a server has done. */
inline judge() {
	if
	:: FIRST(node, at) -> idle(); holds()
	:: else ->
		state = waiting;
		guard = 0;
		for (i : 0 .. NODES - 1) {
			guard = (BEFORE(i, node, at) && (!BEFORE(guard, node, at) || born[i] > born[guard]) -> i : guard)
		}
		i = 0;
		second = AHEAD(node, at) == 1;
		next = 0;
		send(watch)
	fi
}

/* Others, and the leader. */
proctype ensemble() {
end:	do
	:: atomic { pending != 0 && !ended -> makes(pending - 1); pending = 0; notes() }
#ifndef TIME
	:: atomic { born[2] == 0 -> makes(2) }
	:: atomic { born[2] != 0 && born[3] == 0 -> makes(3) }
	:: atomic { LIVES(2) -> unmakes(2); notes() }
	:: atomic { LIVES(3) -> unmakes(3); notes() }
#endif
#ifdef BREAKS
	:: atomic { state != out && LIVES(node) && !by_hand -> by_hand = true; unmakes(node) }
#endif
	:: atomic { conn && !deposed && at < last -> /* the server does the next transaction, and tells who watches */
		at++;
		own = (own == 1 && died[node] == at -> 2 : own);
		next = (next == 1 && died[guard] == at -> 2 : next) }
	:: atomic { conn && !deposed -> deposed = true }
#ifdef TIME
	:: atomic { conn && !deposed && touched && !ended -> life = T; touched = false; due = 0 }
	:: atomic { life == 0 && !ended ->
		ended = true; pending = 0;
		if
		:: LIVES(0) -> unmakes(0)
		:: else
		fi;
		if
		:: LIVES(1) -> unmakes(1)
		:: else
		fi;
		notes() }
#endif
	od
}

/* The client's session is taken up by a server, or is over. */
inline join() {
	at = last;
	do
	:: at > 0 -> at--
	:: break
	od;
	conn = true;
	touched = false; due = 0;
	sign = false; sign_sent = 0; sign_answered = 0;
	if
	:: deposed = true
	:: deposed = false; joined()
	fi
}

inline joined() {
	pending = 0; /* the server that it left can do no more for it */
	if
	:: !ended ->
#ifdef TIME
		life = T;
		sign = true; sign_sent = 0; sign_answered = LAG + 1
#endif
	:: ended ->
		if
		:: state != out -> forget()
		:: else
		fi;
		session++; ended = false;
		life = T; trust = T
	fi
}

/* The connection is lost, and the watches with it. */
inline breaks() {
	conn = false; ping = false; pinged = 0; touched = false; due = 0; deposed = false; at = 0;
	idle();
	own = 0; next = (state == waiting -> 3 : 0)
}

proctype client() {
	byte i;
end:	do
	:: atomic { !conn && session + ended <= 2 -> join() }
	:: atomic { conn -> breaks() }

	:: atomic { state == out && conn && verb == none && nodes < 2 ->
		node = nodes; nodes++; lives_in = session;
		state = asking; send(create); pending = node + 1 }
	:: atomic { conn && verb == create && born[node] != 0 && at >= born[node] && !(ping && first) ->
		heard(sent, true);
		known = true;
		if
		:: state == leaving -> idle()
		:: state == asking && THERE(node, at) -> judge()
		:: else -> forget()
		fi }
#ifdef FORGETS
	:: atomic { state == asking && verb == create -> forget() }
#else
	:: atomic { state == asking && verb == create -> state = leaving }
#endif
	:: atomic { (state == asking && verb == none || (state == waiting || state == holding)) && verb != create -> /* Leave, or the lease runs out */
		state = leaving; idle(); unwatch() }

	/* It is not known whether the node was made: settle. */
#ifdef REUSES
	:: atomic { state != out && !known && verb == none -> forget() }
#endif
	:: atomic { state != out && !known && verb == none && conn -> send(prove) }
	:: atomic { state == waiting && verb == none && conn && next == 2 && FOLLOWS -> holds() }
	:: atomic { state == waiting && verb == none && conn && (next >= 2 || own == 2) && !FOLLOWS -> unwatch_next(); send(look) }
	:: atomic { conn && verb == look && !(ping && first) ->
		heard(sent, ALONE);
		if
		:: THERE(node, at) -> own = 1; judge()
#ifdef MISSING_IS_GONE
		:: else -> forget()
#else
		:: else -> send(prove)
#endif
		fi }
	:: atomic { conn && verb == prove && PROVES && !(ping && first) ->
		heard(sent, true);
		if
		:: THERE(node, at) && state == leaving -> known = true; idle()
		:: THERE(node, at) && state != leaving -> known = true; judge()
		:: else -> forget()
		fi }

	/* It watches the one before it, and its own node if that is the only one. */
	:: atomic { conn && verb == watch && !(ping && first) ->
		heard(sent, ALONE);
#ifdef WATCHES_LATE
		next = 1;
#else
		next = (THERE(guard, at) -> 1 : 3);
#endif
		own = (second && THERE(node, at) -> 1 : own);
		if
		:: second && !THERE(node, at) -> send(prove)
		:: else -> idle()
		fi }

	:: atomic { conn && (state == waiting || state == holding) && known && verb == none ->
		send(renew);
		renews = session;
		dead = died[node] != 0 }
	:: atomic { conn && verb == renew && !deposed && !ended && at >= need && !(ping && first) ->
		heard(sent, true);
#ifdef BELIEVES
		must(renewed, !dead); idle()
#else
		if
		:: own == 1 || THERE(node, at) -> must(renewed, !dead); own = 1; idle()
		:: else -> forget()
		fi
#endif
		; renews = 0 }
	:: atomic { renews != 0 && renews != session ->
		if
		:: state != out && SAME(renews) -> forget()
		:: else
		fi;
		renews = 0 }

	:: atomic { conn && state == leaving && known && verb == none -> send(delete) }
	:: atomic { conn && verb == delete && !deposed && !ended && LIVES(node) -> unmakes(node) }
	:: atomic { conn && verb == delete && !deposed && !ended && !LIVES(node) && !(ping && first) -> heard(sent, true); forget() }

#ifdef TIME
	:: atomic { conn && !ping -> ping = true; pinged = 0; first = false }
	:: atomic { conn && ping && (first || verb == none) -> heard(pinged, ALONE); ping = false; pinged = 0; first = false }
#endif
	:: atomic { state == waiting && verb == none && conn && next < 2 && own < 2 && FIRST(node, at) -> must(told, false) }
	od
}

#ifdef TIME
inline less(n) {
	n = ((n) != 0 -> (n) - 1 : 0)
}

inline more(n, most) {
	n = ((n) < most -> (n) + 1 : most)
}

proctype clock() {
end:	do
	:: atomic { !(conn && !deposed && touched && due == 0) ->
		less(due); less(life); less(trust);
		if
		:: verb != none -> more(sent, T)
		:: else
		fi;
		if
		:: ping -> more(pinged, T)
		:: else
		fi;
		if
		:: sign && sign_sent + 1 < T -> sign_sent++; more(sign_answered, T)
		:: else -> sign = false; sign_sent = 0; sign_answered = 0
		fi }
	od
}
#endif

init {
	atomic {
		run ensemble();
		run client();
#ifdef TIME
		run clock()
#endif
	}
}
