package explore

// unreached are the events that cannot come in a stage for a reason of their own.
var unreached = map[string]string{
	"parting: attach":   "a world has one token to pass on",
	"attaching: attach": "a world has one token to pass on",
}
