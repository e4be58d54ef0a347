package draw

var partition = Timeline{
	Title: "Redis with a replica: two hold, one writes",
	Desc: "A holds the lock with token 33 on the old primary. The old primary is cut off from its replica, which had not heard of the " +
		"claim and is promoted. B locks on the new primary and gets token 34, while A still holds. B shows 34 to the database, and the " +
		"database refuses what A writes with 33.",
	From: 0, To: 100,
	Lanes: []Lane{
		{Name: "the old primary", Spans: []Span{{0, 100, Store, "serves A, also when it is cut off"}}},
		{Name: "A", Spans: []Span{{0, 100, Held, "holds, token 33"}}},
		{Name: "the database's highest token", Spans: []Span{{0, 62, Store, "33"}, {62, 100, Store, "34"}}},
		{Name: "B", Spans: []Span{{0, 52, Waiting, "waits"}, {52, 100, Held, "holds, token 34"}}},
		{Name: "the replica", Spans: []Span{{0, 45, Waiting, "is behind"}, {45, 100, Store, "is promoted and serves B"}}},
	},
	Moments: []Moment{{30, "the network is cut"}},
	Messages: []Message{
		{From: 1, To: 2, Sent: 76, Came: 80, Kind: Failed, Text: "33: refused"},
		{From: 3, To: 2, Sent: 58, Came: 62, Kind: Held, Text: "shows 34"},
	},
}
