/*
 * How the claims of one client on one name hear in etcd that those ahead of them are gone, by package etcd: one watch for
 * all of them, which tells deletions in the order of their revisions, and begins anew when its stream ends. All claims take
 * the whole lock. README.md says what the model leaves out.
 *
 * Key 0 is another client's. Keys 1 and 2 are of claims of this client, which may leave and enter anew by the same key.
 *
 * Where the steps are in folder etcd:
 *
 *   begin          lookup.go, locate; apply.go, join; ahead.go, expect: what is done before a request is sent
 *   serve          apply.go, join: the transaction that puts; lookup.go, locate: the read, which is linearizable
 *   answer, listen judge.go, noteQueue and readAheadLocked; over is state.go, endLocked
 *   await, ready   await.go; queuewatch.go, joinLocked; watchstream.go, listenLocked
 *   hear           ahead.go
 *   tell, broken   queuewatch.go, also retire; watchstream.go, take and ended
 *   leaving        leave.go, leaves and erase
 *
 * What must never be false:
 *
 *   told   no claim sleeps once all messages have arrived, if nobody is ahead of it or its own key is gone
 *   early  no claim learns that it holds while the key of one ahead stands
 *   gone   no claim whose key went before it was the first in line learns that it holds
 *
 * good: answers late and lost, streams that end, watches that are no longer needed, compaction, claims that enter and leave
 * good REMOVED: keys of claims that wait or hold are deleted by hand, or go with their lease
 * mistake LISTENS_TOO_LATE breaks told: a claim that begins to listen does not ask what others were told before
 * mistake FROM_NOW breaks told: a watch begins at the present revision, not after what its claim has seen
 * mistake COMPACTED breaks told: a watch goes on after what compaction has taken
 * mistake SLEEPS_ON breaks told: a watch that ends wakes nobody
 * mistake DROPS_EARLY breaks told: what is told while an answer is on its way is not kept until it is there
 * mistake LAGS breaks told: a read counts by a member that lags behind
 * mistake WITHOUT_NUMBERS breaks told: what a watch of before has told late is taken for the new one's
 * mistake OLD_EVENTS breaks early: the deletion of an earlier key counts, although the queue was read after it
 * mistake HEAD_ALONE breaks early: a read of the head alone counts as the whole queue when the watch has ended meanwhile
 * mistake REMOVED BELIEVES breaks gone: a claim whose key is gone looks only whether anybody is ahead
 */

#define LAST 6 /* revisions in all */

mtype:way = { out, again, asking, answering, home, asleep, holding, leaving };
mtype:ear = { deaf, informed, gathering, hearing };

/* etcd. A set of keys, or of their claims, is a number of three bits. */
byte rev = 1;
byte stands = 1;     /* keys that are there */
byte created[3];     /* their create revisions; key 0 is the oldest */
byte what[LAST + 1]; /* the key that was deleted at a revision, and one more; 0 if none was */
byte deleted;        /* the revision of the last deletion */
byte first;          /* keys that were the first of the queue at some time */

/* The watch of the name. */
bool on;             /* there is one */
bool made;           /* etcd has it */
byte at;             /* it has told the deletions up to this revision */
byte heard;          /* and its claims count by this: queueWatch.heard */
#ifdef WITHOUT_NUMBERS
byte late, until;    /* what a watch of before has not told yet */
#endif

/* Claims of the client. */
mtype:way way[3] = out;
mtype:ear ear[3] = deaf;
byte known;          /* claims of which the client knows that they have entered */
byte seen[3];
byte ahead[3];
byte from[3];        /* while a claim gathers: early are the deletions that were told after this one */
byte lost;           /* claims that have heard that their key was deleted */
byte turn;           /* claims that were woken */
byte head;           /* claims that asked for the head of the queue alone */
byte here;           /* claims whose key stood when the server answered, which read the queue at a revision */
byte read[3];
byte queue[3];

bool told, early, gone;

inline must(property, condition) {
	property = condition;
	assert(property);
	property = false
}

#define BIT(n)       (1 << (n))
#define IN(set, n)   (((set) >> (n)) & 1)
#define ADD(set, n)  set = set | BIT(n)
#define DROP(set, n) set = set & (7 - BIT(n))
#define BEFORE(k, c) ((IN(stands, k) && created[k] < created[c]) << (k))
#define AHEAD(c)     (BEFORE(0, c) | BEFORE(1, c) | BEFORE(2, c))
#define FIRST(c)     ((IN(stands, c) && AHEAD(c) == 0) << (c))
#define LISTENS(c)   (ear[c] == gathering || ear[c] == hearing)
#define QUIET        (!on || made && at >= deleted)
#define FREE(c)      (ear[c] == hearing && !IN(lost, c) && ahead[c] == 0)

/* What the mistakes change. */
#ifdef OLD_EVENTS
#define NEWS(c, r) true
#else
#define NEWS(c, r) ((r) > seen[c])
#endif
#ifdef LISTENS_TOO_LATE
#define MISSED(c) false
#else
#define MISSED(c) (heard > seen[c])
#endif
#ifdef HEAD_ALONE
#define KNOWS(c) true
#else
#define KNOWS(c) (!IN(head, c)) /* else it stays deaf, and asks again */
#endif

/* The server. */

inline put(c) { rev++; ADD(stands, c); created[c] = rev; first = first | FIRST(c) }

inline remove(c) {
	rev++;
	DROP(stands, c);
	what[rev] = c + 1;
	deleted = rev;
	first = first | FIRST(1) | FIRST(2)
}

/* A request comes to the server: a claim that is not known to have entered puts its key, and each reads the queue. */
inline serve(c) {
	if
	:: !IN(known, c) && !IN(stands, c) -> put(c)
	:: else
	fi;
	if
	:: IN(stands, c) -> ADD(here, c); read[c] = rev; queue[c] = AHEAD(c)
#ifdef LAGS
	:: IN(stands, c) && IN(known, c) && what[rev] == 1 -> ADD(here, c); read[c] = rev - 1; queue[c] = AHEAD(c) | 1
#endif
	:: else
	fi;
	queue[c] = (IN(head, c) && IN(queue[c], 0) -> 1 : queue[c]);
	way[c] = answering
}

/* The client. */

inline clear(c) {
	ear[c] = deaf; seen[c] = 0; ahead[c] = 0; from[c] = 0; DROP(lost, c); DROP(turn, c)
}

/* It is over with a claim. The next one may have the same key. */
inline over(c) {
	clear(c); DROP(known, c); DROP(first, c); created[c] = 0; way[c] = out
}

/* A claim enters, or enters again. */
inline begin(c) {
	if
	:: IN(known, c) && ear[c] == hearing -> ADD(head, c)
	:: !(IN(known, c) && ear[c] == hearing) && on -> ear[c] = gathering; from[c] = at
	:: !IN(known, c) || !on && ear[c] != hearing -> skip /* it may put its key without listening before */
	fi;
	way[c] = asking
}

/* A claim that listens hears that a key was deleted. */
inline hear(c, key, r) {
	if
	:: NEWS(c, r) && key == c ->
#ifndef BELIEVES
		ADD(lost, c);
#endif
		ADD(turn, c)
	:: NEWS(c, r) && key != c && IN(ahead[c], key) ->
		DROP(ahead[c], key);
		turn = turn | ((ahead[c] == 0) << c)
	:: else
	fi
}

inline answer(c) {
	if
	:: !IN(here, c) -> over(c)
	:: IN(here, c) && queue[c] == 0 -> ADD(known, c); hold(c)
	:: else ->
		ADD(known, c);
		way[c] = home;
		if
		:: ear[c] != hearing && KNOWS(c) -> seen[c] = read[c]; ahead[c] = queue[c]; listen(c)
		:: else
		fi
	fi;
	forget(c)
}

/* What was told while the answer was on its way counts now. */
inline listen(c) {
	if
	:: ear[c] == gathering ->
		ear[c] = hearing;
#ifndef DROPS_EARLY
		for (r : 1 .. LAST) {
			if
			:: r > from[c] && r <= at && what[r] != 0 -> hear(c, what[r] - 1, r)
			:: else
			fi
		}
		r = 0;
#endif
		from[c] = 0
	:: else -> ear[c] = informed
	fi
}

inline forget(c) {
	DROP(head, c); DROP(here, c); read[c] = 0; queue[c] = 0
}

inline hold(c) {
	must(early, AHEAD(c) == 0);
	must(gone, IN(first, c) || IN(stands, c));
	clear(c);
	way[c] = holding
}

/* A claim waits. It sleeps if it knows that somebody is ahead. */
inline await(c) {
	if
	:: ear[c] == informed && !on -> on = true; at = seen[c]; heard = seen[c]; ear[c] = hearing
	:: ear[c] == informed && on && !MISSED(c) -> ear[c] = hearing
	:: else
	fi;
	if
	:: ear[c] == hearing && !IN(lost, c) && ahead[c] != 0 -> way[c] = asleep
	:: else -> ready(c)
	fi
}

inline ready(c) {
	if
	:: FREE(c) -> hold(c)
	:: else -> way[c] = again
	fi
}

/* The watch tells of a deletion. */
inline tell(revision) {
	heard = revision;
	for (k : 1 .. 2) {
		if
		:: ear[k] == hearing -> hear(k, what[revision] - 1, revision)
		:: else
		fi
	}
	k = 0
}

/* The watch has ended, and all who listened are to ask. */
inline broken() {
	for (k : 1 .. 2) {
		if
		:: LISTENS(k) ->
			ear[k] = deaf; seen[k] = 0; from[k] = 0;
#ifndef SLEEPS_ON
			ADD(turn, k)
#endif
		:: else
		fi
	}
	k = 0;
	off()
}

inline off() { on = false; made = false; at = 0; heard = 0 }

/* etcd has got the request for the watch, and may have compacted what comes first. */
inline make() {
	made = true;
#ifdef FROM_NOW
	at = rev;
#endif
	if
	:: true
#ifdef COMPACTED
	:: at + 1 < rev -> at = rev - 1
#else
	:: at + 1 < rev -> broken()
#endif
	fi
}

proctype claim(byte c) {
	byte r;
end:	do
	:: atomic { way[c] == out || way[c] == again -> begin(c) }
	:: atomic { way[c] == asking && (rev < LAST || IN(known, c) || IN(stands, c)) -> serve(c) }
	:: atomic { way[c] == answering -> answer(c) }
	:: atomic { c == 1 && way[c] == answering -> forget(c); way[c] = again } /* the answer is lost, or too late */
	:: atomic { way[c] == home -> await(c) }
	:: atomic { way[c] == asleep && IN(turn, c) -> DROP(turn, c); ready(c) }
	:: atomic { way[c] == asleep -> way[c] = again } /* its call ends, and it asks again */
	:: atomic { way[c] == home || way[c] == asleep || way[c] == holding -> clear(c); way[c] = leaving }
	:: atomic { way[c] == leaving && rev < LAST && IN(stands, c) -> remove(c); over(c) }
	:: atomic { (way[c] == leaving || way[c] == holding) && !IN(stands, c) -> over(c) } /* it learns that its key is gone */
	/* What must not be. */
	:: atomic { way[c] == asleep && !IN(turn, c) && QUIET && (!IN(stands, c) || AHEAD(c) == 0) -> must(told, false) }
	od
}

proctype world() {
	byte k;
end:	do
	:: atomic { rev < LAST && IN(stands, 0) -> remove(0) }
#ifdef REMOVED
	:: atomic { rev < LAST && IN(stands, 1) -> remove(1) }
	:: atomic { rev < LAST && IN(stands, 2) -> remove(2) }
#endif
	:: atomic { on && !made -> make() }
	:: atomic { on && made && at < deleted ->
		do
		:: at++;
			if
			:: what[at] != 0 -> break
			:: else
			fi
		od;
		tell(at) }
	:: atomic { on -> broken() } /* the stream has ended */
	:: atomic { on && !LISTENS(1) && !LISTENS(2) -> /* nobody needs the watch, and it is retired */
#ifdef WITHOUT_NUMBERS
		if
		:: made && at < deleted -> late = at; until = deleted
		:: else
		fi;
#endif
		off() }
#ifdef WITHOUT_NUMBERS
	:: atomic { on && late < until ->
		late++;
		if
		:: what[late] != 0 -> tell(late)
		:: else
		fi }
#endif
	od
}

init {
	atomic {
		created[0] = 1;
		run claim(1);
		run claim(2);
		run world()
	}
}
