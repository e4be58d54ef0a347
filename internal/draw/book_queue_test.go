package draw

var queue = Diagram{
	Title: "One queue per name, a number per grant",
	Desc: "Three processes stand in the queue of the lock orders/42. The first, web1, holds the lock with token 33. The next two, " +
		"web2 and web3, wait and will get tokens 34 and 35. Token 32 was that of web0, which was paused until its lease was over. " +
		"web1 writes to the database with token 33 and is accepted. web0 writes late with token 32 and is refused, because the " +
		"database has seen token 33.",
	Rows: []Row{
		{Label: "the queue of the lock “orders/42”", Boxes: []Box{
			{ID: "web1", Text: "web1\nholds\ntoken 33", Kind: Held},
			{ID: "web2", Text: "web2\nwaits\nwill get 34", Kind: Waiting},
			{ID: "web3", Text: "web3\nwaits\nwill get 35", Kind: Waiting},
		}},
		{Boxes: []Box{
			{ID: "db", Text: "the database\nhas seen 33,\nrefuses 32", Kind: Store},
			{ID: "web0", Text: "web0\nhad token 32,\nwas paused", Kind: Paused},
		}},
	},
	Arrows: []Arrow{
		{From: "web1", To: "db", Text: "writes with 33: accepted", Kind: Held},
		{From: "web0", To: "db", Text: "late: 32, refused", Kind: Failed},
	},
}
