package draw

var failover = Timeline{
	Title: "A failover to a standby that is in step",
	Desc: "A holds the lock with token 33 and B waits. The primary is killed. A's lease is in jeopardy until the standby is promoted; " +
		"then A renews at once and goes on with token 33, and B still stands in its place. When A unlocks, B holds with token 34.",
	From: 0, To: 100,
	Lanes: []Lane{
		{Name: "the primary", Spans: []Span{{0, 30, Store, "serves"}}, Points: []Point{{30, Failed, "is killed"}}},
		{Name: "the standby", Spans: []Span{
			{0, 48, Waiting, "follows, in step"}, {48, 100, Store, "is promoted and serves"},
		}},
		{Name: "A", Spans: []Span{
			{0, 31, Held, "token 33"}, {31, 52, Paused, "jeopardy"}, {52, 80, Held, "token 33"},
		}, Points: []Point{{80, Plain, "unlocks"}}},
		{Name: "B", Spans: []Span{
			{0, 80, Waiting, "waits in its place"}, {80, 100, Held, "token 34"},
		}},
	},
	Messages: []Message{{From: 2, To: 1, Sent: 50, Came: 52, Kind: Held, Text: "renews"}},
}
