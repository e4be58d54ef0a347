package draw

var fence = Timeline{
	Title: "A paused holder, and the token that stops it",
	Desc: "A holds the lock with token 33 and is paused before it writes. Its lease ends meanwhile, and B, which waited, holds with " +
		"token 34. B shows 34 to the database before it reads. A goes on, does not know that it was paused, and writes with token 33. " +
		"The database has seen 34 and refuses the write.",
	From: 0, To: 100,
	Lanes: []Lane{
		{Name: "A", Spans: []Span{
			{0, 21, Held, "token 33"}, {21, 75, Paused, "paused"}, {75, 100, Failed, "is late"},
		}},
		{Name: "the database's highest token", Spans: []Span{
			{0, 56, Store, "33"}, {56, 100, Store, "34"},
		}},
		{Name: "B", Spans: []Span{
			{0, 42, Waiting, "waits"}, {42, 100, Held, "holds, token 34"},
		}},
	},
	Moments: []Moment{{42, "A's lease ends"}},
	Messages: []Message{
		{From: 2, To: 1, Sent: 52, Came: 56, Kind: Held, Text: "shows 34, reads"},
		{From: 0, To: 1, Sent: 80, Came: 84, Kind: Failed, Text: "33: refused"},
	},
}
