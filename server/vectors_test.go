package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/api"
)

// The vectors for clients in other languages have exactly the answers that the description has, GET's excepted, and answers
// that are not the service's, or are a newer one's. A client holds a lock until the larger of its two clocks has passed valid_ms.
func TestVectors(t *testing.T) {
	var v struct {
		Answers []struct {
			Method, Type, Body, Do string
			Status                 int
		}
		Clock []struct {
			Valid     int64 `json:"valid_ms"`
			Monotonic int64 `json:"monotonic_ms"`
			Wall      int64 `json:"wall_ms"`
			Holds     bool
			Renew     bool
		}
		Tokens []struct{ Older, Newer string }
	}
	text, err := os.ReadFile("../clients/vectors/client.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil || len(v.Answers) == 0 || len(v.Clock) == 0 || len(v.Tokens) == 0 {
		t.Fatalf("the vectors are %+v, %v", v, err)
	}
	_, url := start(t, newFake(), nil)
	want, known := describedAnswers(t, url), map[string]bool{}
	for line := range want {
		known[strings.Fields(line)[2]] = true // the code of an error
	}
	done := map[string]string{"PUT Grant": "holds", "POST Grant": "holds", "DELETE Released": "released"}
	got := map[string]bool{}
	for _, a := range v.Answers {
		var body struct {
			api.Error
			Handle   string
			Valid    *int64 `json:"valid_ms"`
			Released bool
		}
		ours := a.Type == api.JSON && json.Unmarshal([]byte(a.Body), &body) == nil
		what := body.Code
		switch {
		case a.Status == 200 && a.Method == "DELETE" && body.Released:
			what = "Released"
		case a.Status == 200 && a.Method != "DELETE" && body.Handle != "" && body.Valid != nil:
			what = "Grant"
		case body.Outcome == "" || !known[body.Code]:
			ours = false
		}
		line := fmt.Sprint(a.Method, " ", a.Status, " ", what)
		switch {
		case !ours || body.Outcome != "" && body.Outcome != "refused" || body.Unreachable:
			if a.Do != "again" {
				t.Errorf("%+v has an unknown outcome; want do: again", a)
			}
		case a.Status == 200 && a.Do != done[a.Method+" "+what], a.Status != 200 && (a.Do == "again" || a.Do == "holds" || a.Do == "released"):
			t.Errorf("%+v: do is wrong", a)
		}
		if ours && !want[line] {
			t.Errorf("%+v is no answer of the service", a)
		}
		got[line] = got[line] || ours
	}
	for line := range want {
		if !strings.HasPrefix(line, "GET ") && !got[line] {
			t.Errorf("there is no vector for %s", line)
		}
	}
	for _, c := range v.Clock {
		passed := max(c.Monotonic, c.Wall)
		if c.Holds != (passed < c.Valid) || c.Renew != (3*passed >= c.Valid) {
			t.Errorf("%+v: want holds before valid_ms, and renew from a third of it on", c)
		}
	}
	for _, token := range v.Tokens {
		older, err1 := strconv.ParseInt(token.Older, 10, 64)
		newer, err2 := strconv.ParseInt(token.Newer, 10, 64)
		if err1 != nil || err2 != nil || older >= newer {
			t.Errorf("%+v: want two tokens in order", token)
		}
	}
}
