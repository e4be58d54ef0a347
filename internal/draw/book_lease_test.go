package draw

// The figures are the defaults: a ttl of 15 s, a renewal at each third, 1 % for drift and a margin of 1 s.
var lease = Timeline{
	Title: "A lease that cannot be renewed any more",
	Desc: "A lease of 15 seconds is granted at second 0 and renewed at 5 and 10. From second 15 on, renewals get no answer: the lease " +
		"is in jeopardy, and the holder tries again about every second. At 23.85, which is 15 seconds after the last renewal that " +
		"worked, less one percent and a margin of one second, the holder stops trusting the lease: it is lost. The store keeps the " +
		"claim until second 25 and only then lets the next one hold.",
	From: 0, To: 28, Unit: "s",
	Lanes: []Lane{
		{Name: "the holder", Spans: []Span{
			{0, 15, Held, "held"}, {15, 23.85, Paused, "jeopardy"}, {23.85, 28, Failed, "lost"},
		}},
		{Name: "its requests", Points: []Point{
			{0, Held, "lock"}, {5, Held, "renewed"}, {10, Held, "renewed"},
			{15, Failed, ""}, {16, Failed, ""}, {17, Failed, ""}, {18, Failed, ""}, {19, Failed, "no answer, asked again"},
			{20, Failed, ""}, {21, Failed, ""}, {22, Failed, ""}, {23, Failed, ""},
		}},
		{Name: "the store", Spans: []Span{
			{0, 25, Store, "keeps the claim until 15 s after the last renewal"}, {25, 28, Held, "the next holds"},
		}},
	},
	Moments: []Moment{{23.85, "23.85: the context ends"}, {25, "25: the lease ends"}},
}
