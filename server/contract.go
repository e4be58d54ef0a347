package server

import (
	"context"
	"net/http"
	"reflect"

	"github.com/stilelock/stile/internal/api"
)

// A contractCall is a request of stile:// clients, which the description has by these fields.
type contractCall struct {
	method, path string
	summary      string
	parameter    string // of the URL, required; "" for none
	takes, gives content
	answer       func(*Server, http.ResponseWriter, *http.Request)
}

// A content is what a body has.
type content struct {
	kind string       // its media type; "" for no body
	of   reflect.Type // the whole body, each line of it, or the data of each event
}

func contentOf[T any](kind string) content { return content{kind, reflect.TypeFor[T]()} }

// contractCalls are the requests of stile:// clients.
var contractCalls = []contractCall{
	inOnePiece(api.Enter, "Enter the queue of a name, or find the claim there", (*Server).enter),
	inOnePiece(api.Await, "Wait until a claim holds, for within_ns at most", (*Server).await),
	inOnePiece(api.Renew, "Renew claims; each has its own answer, at the same index", (*Server).renew),
	inOnePiece(api.Leave, "Release a claim, or give up its place", (*Server).leave),
	{
		http.MethodPost, api.Batch, "Enter and leave with many claims side by side; an answer is a PlaceAnswer or a LeaveAnswer", "",
		contentOf[api.BatchItem](api.Lines), contentOf[api.BatchAnswer](api.Lines), (*Server).batch,
	},
	{
		http.MethodPost, api.List, "Show the queue of a name, or of all names with a prefix; the last line has end, or an error", "",
		contentOf[api.ListRequest](api.JSON), contentOf[api.ListPart](api.Lines), (*Server).list,
	},
	inOnePiece(api.Break, "Remove a claim by hand, or ask its client to release it", (*Server).breaks),
	inOnePiece(api.Identity, "Show the id of the store", (*Server).identify),
	inOnePiece(api.Traits, "Show the promises of the store", (*Server).describe),
	{
		http.MethodGet, api.Watch, "Get an event changed after each change of a queue, and one at the beginning", "name",
		content{}, contentOf[api.Nothing](api.Events), (*Server).watch,
	},
	{
		http.MethodPost, api.Alerts, "Renew claims once, then get events alert with indexes of claims: danger for those to renew at once, again for those to name again", "",
		contentOf[api.AlertsRequest](api.JSON), contentOf[api.Alert](api.Events), (*Server).alert,
	},
}

// inOnePiece returns a call whose answer comes in one piece.
func inOnePiece[Q, A any](path, summary string, answer func(*Server, context.Context, *Q) (*A, error)) contractCall {
	return contractCall{
		http.MethodPost, path, summary, "", contentOf[Q](api.JSON), contentOf[A](api.JSON),
		func(s *Server, w http.ResponseWriter, r *http.Request) {
			var q Q
			if !read(w, r, &q) || r.URL.Path != api.Renew && !s.meant(w, r) {
				return
			}
			a, err := answer(s, r.Context(), &q)
			if err != nil {
				s.fail(w, err)
				return
			}
			w.Header().Set(api.TraitsTag, s.traits().Tag())
			write(w, http.StatusOK, a)
		},
	}
}
