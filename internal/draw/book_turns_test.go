package draw

var turns = Diagram{
	Title: "Goroutines share one claim, in turns",
	Desc: "Three goroutines of process A want the lock. They take turns, with tokens t, t + 1 and t + 2, and the others wait in memory. " +
		"In the store there is one claim of A that holds, then one of process B, then the next one of A.",
	Rows: []Row{
		{Label: "in the memory of process A", Boxes: []Box{
			{ID: "g1", Text: "goroutine 1\nits turn\ntoken t", Kind: Held},
			{ID: "g2", Text: "goroutine 2\nnext\ntoken t + 1", Kind: Waiting},
			{ID: "g3", Text: "goroutine 3\nthen\ntoken t + 2", Kind: Waiting},
		}},
		{Label: "in the store: the queue of the lock", Boxes: []Box{
			{ID: "a", Text: "claim of A\nholds", Kind: Held},
			{ID: "b", Text: "claim of B\nwaits", Kind: Waiting},
			{ID: "c", Text: "claim of A\nwaits", Kind: Waiting},
		}},
	},
	Arrows: []Arrow{{From: "g1", To: "a", Text: "no request until the turns are over", Kind: Held}},
}
