package draw

var states = Diagram{
	Title: "The states of a lease",
	Desc: "A lease that is held is in jeopardy when a renewal fails, and held again when a renewal works. From both states, Unlock makes it " +
		"released, and it is lost when the store says that the claim is gone, when MaxHold is over, or when the client is closed. In jeopardy it " +
		"is also lost when the trusted moment passes.",
	Rows: []Row{
		{Boxes: []Box{{ID: "released", Text: "released"}}},
		{Boxes: []Box{{ID: "held", Text: "held", Kind: Held}, {ID: "jeopardy", Text: "jeopardy", Kind: Paused}}},
		{Boxes: []Box{{ID: "lost", Text: "lost\nwith the reason", Kind: Failed}}},
	},
	Arrows: []Arrow{
		{From: "held", To: "released", Text: "Unlock"},
		{From: "jeopardy", To: "released", Text: "Unlock"},
		{From: "held", To: "jeopardy", Text: "a renewal fails", Kind: Paused},
		{From: "jeopardy", To: "held", Text: "a renewal works", Kind: Held},
		{From: "held", To: "lost", Text: "gone", Kind: Failed},
		{From: "jeopardy", To: "lost", Text: "too late, or gone", Kind: Failed},
	},
}
