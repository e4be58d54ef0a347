package draw

var states = Diagram{
	Title: "The states of a lease",
	Desc: "A lease that is held becomes released by Unlock, and is in jeopardy when a renewal fails. From jeopardy it is held again when " +
		"a renewal works, and lost when the trusted moment passes or the store says that the claim is gone.",
	Rows: []Row{
		{Boxes: []Box{{ID: "held", Text: "held", Kind: Held}, {ID: "jeopardy", Text: "jeopardy", Kind: Paused}}},
		{Boxes: []Box{{ID: "released", Text: "released"}, {ID: "lost", Text: "lost\nwith the reason", Kind: Failed}}},
	},
	Arrows: []Arrow{
		{From: "held", To: "jeopardy", Text: "a renewal fails", Kind: Paused},
		{From: "jeopardy", To: "held", Text: "a renewal works", Kind: Held},
		{From: "held", To: "released", Text: "Unlock"},
		{From: "jeopardy", To: "lost", Text: "too late, or gone", Kind: Failed},
	},
}
