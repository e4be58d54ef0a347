package draw

var capacity = Diagram{
	Title: "One rule: what fits the capacity holds",
	Desc: "Two queues. In the queue catalogue, whose capacity is all, two readers of weight 1 stand before a writer of weight all and " +
		"hold; the writer waits, and so does the reader behind it. In the queue licences, whose capacity is 5, claims of 3 and 2 permits " +
		"hold, and a claim of 1 permit waits.",
	Rows: []Row{
		{Label: "name “catalogue”, capacity: all", Boxes: []Box{
			{Text: "reader\nweight 1\nholds", Kind: Held}, {Text: "reader\nweight 1\nholds", Kind: Held},
			{Text: "writer\nall\nwaits", Kind: Waiting}, {Text: "reader\nweight 1\nwaits", Kind: Waiting},
		}},
		{Label: "name “licences”, capacity: 5", Boxes: []Box{
			{Text: "3 permits\nholds", Kind: Held}, {Text: "2 permits\nholds", Kind: Held}, {Text: "1 permit\nwaits", Kind: Waiting},
		}},
	},
}
