package draw

var vote = Diagram{
	Title: "Redlock: the client with a majority holds",
	Desc: "Clients A and B ask all three servers at once. Servers 1 and 2 give the lock to A, and server 3 gives it to B. A has two of " +
		"three and holds. B has one, leaves server 3 again, and waits.",
	Rows: []Row{
		{Boxes: []Box{
			{ID: "A", Text: "client A: 2 of 3\nholds", Kind: Held},
			{ID: "B", Text: "client B: 1 of 3\nleaves server 3, waits", Kind: Waiting},
		}},
		{Boxes: []Box{
			{ID: "1", Text: "server 1\nhas A", Kind: Store},
			{ID: "2", Text: "server 2\nhas A", Kind: Store},
			{ID: "3", Text: "server 3\nhas B", Kind: Store},
		}},
	},
	Arrows: []Arrow{
		{From: "A", To: "1", Text: "yes", Kind: Held}, {From: "A", To: "2", Text: "yes", Kind: Held}, {From: "A", To: "3", Kind: Failed},
		{From: "B", To: "1", Kind: Failed}, {From: "B", To: "2", Kind: Failed}, {From: "B", To: "3", Text: "yes", Kind: Held},
	},
}

var order = Diagram{
	Title: "ZooKeeper: the lowest number holds",
	Desc: "Three ephemeral nodes below /stile/orders end in numbers that ZooKeeper gave them: 41, 42 and 43. The session of A made node " +
		"41 and holds. B made 42 and watches 41. C made 43 and watches 42. When a node goes, one client is told.",
	Rows: []Row{
		{Boxes: []Box{{ID: "41", Text: "_c_…-lock-0000000041\nthe session of A: holds", Kind: Held}}},
		{Boxes: []Box{{ID: "42", Text: "_c_…-lock-0000000042\nthe session of B: waits", Kind: Waiting}}},
		{Boxes: []Box{{ID: "43", Text: "_c_…-lock-0000000043\nthe session of C: waits", Kind: Waiting}}},
	},
	Arrows: []Arrow{
		{From: "42", To: "41", Text: "watches this node only", Kind: Store}, {From: "43", To: "42", Text: "watches this node only", Kind: Store},
	},
}
