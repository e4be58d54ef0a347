package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// shown returns the only claim of a name as a principal sees it.
func shown(t *testing.T, url, principal, name string) *api.ClaimInfo {
	t.Helper()
	_, text := contract(t, url, principal, api.List, &api.ListRequest{Name: name})
	for line := range strings.Lines(text) {
		var part api.ListPart
		if err := json.Unmarshal([]byte(line), &part); err == nil && part.Listing != nil && len(part.Listing.Claims) == 1 {
			return part.Listing.Claims[0]
		}
	}
	t.Fatalf("the list of %s is %s; want one claim", name, text)
	return nil
}

// Trap: the record in the store says who its client is, whatever the client writes. Clients of the service see the record
// unchanged, and the principal beside it.
func TestPrincipalIsInTheRecord(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": everything, "ops": everything})
	f := newFake()
	url := guarded(t, f, d)
	for name, text := range map[string]string{
		"object": `{"owner":"x","reason":"y"}`, "forged": `{"owner":"x","principal":"ops"}`, "plain": "x", "none": "", "bytes": "\xff\x00",
	} {
		c := named(name, "id")
		c.Record = []byte(text)
		if code, answer := contract(t, url, "ci", api.Enter, &api.EnterRequest{Claim: c}); code != "" {
			t.Fatal(answer)
		}
		stored := inStore(t, f, name)[0].Record
		var is struct{ Principal string }
		if err := json.Unmarshal([]byte(stored), &is); err != nil || is.Principal != "ci" {
			t.Errorf("%s: the store has %s, which is of %q, %v; want ci", name, stored, is.Principal, err)
		}
		if got := shown(t, url, "ops", name); string(got.Record) != text || got.Principal != "ci" {
			t.Errorf("%s: the list shows %q of %q; want %q of ci", name, got.Record, got.Principal, text)
		}
		waits := named(name, "other")
		waits.Try = true
		_, answer := contract(t, url, "ops", api.Enter, &api.EnterRequest{Claim: waits})
		var place api.PlaceAnswer
		if err := json.Unmarshal([]byte(answer), &place); err != nil || place.Place.Blocker == nil || string(place.Place.Blocker.Record) != text ||
			place.Place.Blocker.Principal != "ci" {
			t.Errorf("%s: the blocker is in %s", name, answer)
		}
		if s := simple(t, url, "ops", "PUT", name, ""); s.Holder == nil || s.Holder.Principal != "ci" {
			t.Errorf("%s: PUT says %s; want that ci holds", name, s.text)
		}
		if s := simple(t, url, "ops", "GET", name, ""); len(s.Claims) != 1 || s.Claims[0].Principal != "ci" {
			t.Errorf("%s: GET says %s; want that ci holds", name, s.text)
		}
		_, answer = contract(t, url, "ops", api.Break, &api.BreakRequest{Name: name})
		var broken api.BreakAnswer
		if err := json.Unmarshal([]byte(answer), &broken); err != nil || broken.Claim == nil || string(broken.Claim.Record) != text || broken.Claim.Principal != "ci" {
			t.Errorf("%s: the broken claim is %s", name, answer)
		}
	}
	simple(t, url, "ci", "PUT", "simple?owner=nightly", "")
	if s := simple(t, url, "ops", "GET", "simple", ""); len(s.Claims) != 1 || s.Claims[0].Principal != "ci" || s.Claims[0].Owner != "nightly" {
		t.Errorf("a claim by PUT is %s; want nightly's, of ci", s.text)
	}
	if _, err := f.Enter(t.Context(), &driver.Claim{Name: "direct", ID: "x", Weight: 1, Capacity: 1, TTL: 1e9, Wait: 1e9, Record: "direct"}); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, url, "ops", "direct"); string(got.Record) != "direct" || got.Principal != "" {
		t.Errorf("a claim that came by no service is %q of %q", got.Record, got.Principal)
	}
}

// What a waiter has meanwhile is shown only of names that the caller may read, in lists, to those that it blocks, and to who breaks
// it. No answer has the id of a claim: it is the right to release it.
func TestWithinIsShownByRights(t *testing.T) {
	d := newDoor(map[string]server.Right{"ops": everything, "ci": {Verbs: server.Verbs, Prefix: "ci/"}})
	f := newFake()
	stored := ""
	f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		if stored == "" {
			stored = c.ID
		}
		return f.Driver.Enter(ctx, c)
	}
	url := guarded(t, f, d)
	c := named("ci/a", "an-id-of-ops")
	const whole = `{"owner":"x","within":"7 prod/secret\n8 ci/b\n9 prod/other"}`
	c.Record = []byte(whole)
	if code, text := contract(t, url, "ops", api.Enter, &api.EnterRequest{Claim: c}); code != "" {
		t.Fatal(text)
	}
	check := func(what, answer string) {
		t.Helper()
		for _, id := range []string{"an-id-of-ops", stored} {
			if strings.Contains(answer, id) {
				t.Errorf("%s has the id %s: %s", what, id, answer)
			}
		}
	}
	for principal, want := range map[string]string{"ops": whole, "ci": `{"owner":"x","within":"8 ci/b"}`} {
		if got := shown(t, url, principal, "ci/a"); string(got.Record) != want || got.Principal != "ops" {
			t.Errorf("%s reads %s of %q; want %s", principal, got.Record, got.Principal, want)
		}
		_, text := contract(t, url, principal, api.List, &api.ListRequest{Prefix: "ci/"})
		check("the list for "+principal, text)
		if s := simple(t, url, principal, "GET", "ci/a", ""); strings.Contains(s.text, "prod/") {
			t.Errorf("GET for %s = %s", principal, s.text)
		}
		waits := named("ci/a", "other")
		waits.Try = true
		_, text = contract(t, url, principal, api.Enter, &api.EnterRequest{Claim: waits})
		var place api.PlaceAnswer
		if err := json.Unmarshal([]byte(text), &place); err != nil || place.Place.Blocker == nil || string(place.Place.Blocker.Record) != want {
			t.Errorf("%s is blocked by %s; want %s", principal, text, want)
		}
		check("the blocker for "+principal, text)
	}
	_, text := contract(t, url, "ci", api.Break, &api.BreakRequest{Name: "ci/a"})
	if check("a break", text); text == "" {
		t.Error("there is no answer to the break")
	}
	var broken api.BreakAnswer
	if err := json.Unmarshal([]byte(text), &broken); err != nil || broken.Claim == nil || string(broken.Claim.Record) != `{"owner":"x","within":"8 ci/b"}` {
		t.Errorf("the broken claim is %s", text)
	}
}

// An amended record keeps its principal, and a client that knows another record learns the record as it wrote it.
func TestAmendKeepsThePrincipal(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": everything})
	f := newFake()
	url := guarded(t, f, d)
	c := named("a", "id")
	c.Record = []byte(`{"value":"first"}`)
	if code, text := contract(t, url, "ci", api.Enter, &api.EnterRequest{Claim: c}); code != "" {
		t.Fatal(text)
	}
	renew := func(to string) api.Renewal {
		c.Amend = &api.Amendment{Weight: driver.All, Record: []byte(to)}
		_, text := contract(t, url, "ci", api.Renew, &api.RenewRequest{Claims: []api.Claim{c}})
		var a api.RenewAnswer
		if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Renewals) != 1 {
			t.Fatal(text)
		}
		return a.Renewals[0]
	}
	for _, to := range []string{`{"value":"second","principal":"root"}`, ""} {
		if a := renew(to); a.Error != nil {
			t.Fatalf("the amendment to %q = %+v", to, a.Error)
		}
		if got := shown(t, url, "ci", "a"); !strings.Contains(string(got.Record), "second") || got.Principal != "ci" {
			t.Errorf("after %q the record is %s of %q", to, got.Record, got.Principal)
		}
	}
	a := renew(`{"value":"third"}`) // the client does not know of the second
	if e := a.Error; e == nil || e.Code != api.CodeRecord || string(e.Record) != `{"value":"second","principal":"root"}` || e.Principal != "" {
		t.Errorf("an amendment of another record = %+v; want the record as it was written", a.Error)
	}
}

// What the store keeps is bounded: a record that would be too large with its principal is refused, and no driver gets it.
func TestRecordWithPrincipalIsBounded(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": everything})
	f := newFake()
	f.enter = func(_ context.Context, c *driver.Claim) (driver.Place, error) {
		if len(c.Record) > driver.MaxRecord {
			t.Errorf("the driver gets a record of %d bytes", len(c.Record))
		}
		return driver.Place{Ticket: 1, Holds: true, TTL: c.TTL}, nil
	}
	url := guarded(t, f, d)
	const room = driver.MaxRecord - len(`,"principal":"ci"`)
	c := named("a", "id")
	for n, want := range map[int]string{room: "", room + 1: api.CodeInvalid, driver.MaxRecord: api.CodeInvalid, driver.MaxRecord + 1: api.CodeInvalid} {
		c.Record = []byte(`{"owner":"` + strings.Repeat("x", n-len(`{"owner":""}`)) + `"}`)
		q := c
		q.Amend = &api.Amendment{Record: c.Record}
		q.Record = nil
		for path, ask := range map[string]any{
			api.Enter: &api.EnterRequest{Claim: c}, api.Await: &api.AwaitRequest{Claim: c, Within: 1},
		} {
			if got, text := contract(t, url, "ci", path, ask); got != want {
				t.Errorf("%s with a record of %d bytes = %s; want %q", path, n, text, want)
			}
		}
		_, text := contract(t, url, "ci", api.Renew, &api.RenewRequest{Claims: []api.Claim{q}})
		if refused := strings.Contains(text, `"invalid"`); refused != (want != "") {
			t.Errorf("an amendment to a record of %d bytes = %s; want %q", n, text, want)
		}
		got, text := contract(t, url, "ci", api.Break, &api.BreakRequest{Name: "b", Record: c.Record})
		if refused := got == api.CodeInvalid; refused != (want != "") {
			t.Errorf("a break with a record of %d bytes = %s; want %q", n, text, want)
		}
	}
}

// A breaking is a store that knows who broke a claim.
type breaking struct {
	*fake
	record string
}

func (b *breaking) Break(ctx context.Context, q *driver.BreakRequest) (driver.ClaimInfo, error) {
	b.record = q.Record
	return b.fake.Break(ctx, q)
}

func (b *breaking) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	all := b.fake.Renew(ctx, cs)
	for i := range all {
		if errors.Is(all[i].Err, driver.ErrGone) {
			all[i].Err = &driver.BrokenError{Record: b.record}
		}
	}
	return all
}

// The holder learns who broke its claim: the record of the break, with its reason, and the principal.
func TestBreakNamesThePrincipal(t *testing.T) {
	d := newDoor(map[string]server.Right{"ci": everything, "ops": everything})
	b := &breaking{fake: newFake()}
	_, url := start(t, b, &server.Options{Authenticate: d.authenticate})
	c := named("a", "id")
	if code, text := contract(t, url, "ci", api.Enter, &api.EnterRequest{Claim: c}); code != "" {
		t.Fatal(text)
	}
	if code, text := contract(t, url, "ops", api.Break, &api.BreakRequest{Name: "a", Record: []byte(why)}); code != "" {
		t.Fatal(text)
	}
	_, text := contract(t, url, "ci", api.Renew, &api.RenewRequest{Claims: []api.Claim{c}})
	var a api.RenewAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(text)
	}
	broken, ok := errors.AsType[*driver.BrokenError](a.Renewals[0].Error.Err())
	if !ok || broken.Record != why || broken.Principal != "ops" {
		t.Errorf("the holder hears %s; want the reason, of ops", text)
	}
}

// Without credentials records pass as they are, in both directions.
func TestRecordsWithoutPrincipals(t *testing.T) {
	f := newFake()
	_, url := start(t, f, nil)
	c := named("a", "id")
	c.Record = []byte(`{"owner":"x","principal":"ci"}`)
	if _, err := asks(t, url+api.Enter, body(t, &api.EnterRequest{Claim: c})); err != nil {
		t.Fatal(err)
	}
	if got := inStore(t, f, "a")[0].Record; got != string(c.Record) {
		t.Errorf("the store has %s; want %s", got, c.Record)
	}
	if got := shown(t, url, "", "a"); string(got.Record) != string(c.Record) || got.Principal != "" {
		t.Errorf("the list shows %s of %q; want the record as it is", got.Record, got.Principal)
	}
}
