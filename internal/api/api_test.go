package api_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// fill gives each field of a struct a different value, so that a forgotten field is seen.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n, " <&> é"))
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(*n)
	}
}

func filled[T any]() T {
	var (
		v T
		n int64
	)
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

// same fails unless a value survives JSON unchanged.
func same[T, W any](t *testing.T, write func(T) W, read func(*W) T) {
	t.Helper()
	v := filled[T]()
	text, err := json.Marshal(write(v))
	if err != nil {
		t.Fatal(err)
	}
	var w W
	if err := json.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	if got := read(&w); !reflect.DeepEqual(got, v) {
		t.Errorf("%+v\nbecomes\n%+v\nby %s", v, got, text)
	}
}

func TestValuesArriveWhole(t *testing.T) {
	same(t, func(c driver.Claim) *api.Claim {
		w, err := api.NewClaim(&c)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}, func(w **api.Claim) driver.Claim { return *(*w).Driver() })
	same(t, api.NewPlace, func(w **api.Place) driver.Place { return (*w).Driver() })
	same(t, api.NewClaimInfo, func(w **api.ClaimInfo) driver.ClaimInfo { return (*w).Driver() })
	same(t, api.NewListing, func(w **api.Listing) driver.Listing { return (*w).Driver() })
	same(t, func(traits driver.Traits) *api.StoreTraits {
		traits.Fencing = driver.DurableFencing
		return api.NewTraits(traits)
	}, func(w **api.StoreTraits) driver.Traits {
		traits := (*w).Driver()
		if traits.Fencing != driver.DurableFencing {
			t.Errorf("the grade becomes %v", traits.Fencing)
		}
		traits.Fencing = filled[driver.Traits]().Fencing
		return traits
	})
	if got := api.NewTraits(filled[driver.Traits]()).Driver().Fencing; got != driver.NoFencing {
		t.Errorf("a grade that nobody knows becomes %v; want none", got)
	}
	r := driver.Renewal{TTL: 1, Asks: 2, Err: driver.ErrGone}
	w := api.NewRenewal(r)
	if got := w.Driver(); got.TTL != 1 || got.Asks != 2 || facts(got.Err) != facts(r.Err) {
		t.Errorf("%+v becomes %+v", r, got)
	}
}

// JavaScript and jq do not round what reaches them as a text.
func TestTicketsAreTexts(t *testing.T) {
	const ticket = api.MaxTicket
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, v := range []any{
		&api.Claim{Ticket: ticket}, api.NewPlace(driver.Place{Ticket: ticket}), api.NewClaimInfo(driver.ClaimInfo{Ticket: ticket}),
		&api.BreakRequest{Ticket: ticket},
	} {
		if got, want := text(v), fmt.Sprintf(`"ticket":"%d"`, ticket); !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}

// Another grade or a new note has another tag; a copy has the same.
func TestTags(t *testing.T) {
	a := driver.Traits{Store: "memory", Fencing: driver.ClockFencing}
	b := a
	if api.NewTraits(a).Tag() != api.NewTraits(b).Tag() {
		t.Error("the same traits have two tags")
	}
	b.Warn("", "It forgets.")
	if api.NewTraits(a).Tag() == api.NewTraits(b).Tag() {
		t.Error("other traits have the same tag")
	}
}

// A text that JSON would change is refused: two owners would become one.
func TestTextsAreNotChanged(t *testing.T) {
	for _, c := range []driver.Claim{{Name: "\xff"}, {ID: "\xff"}, {Client: "\xff"}, {Owner: "\xff"}} {
		if _, err := api.NewClaim(&c); driver.OutcomeOf(err) != driver.OutcomeRefused {
			t.Errorf("%+v = %v; want a refusal", c, err)
		}
	}
}

func TestCheck(t *testing.T) {
	good := func() *api.Claim {
		return &api.Claim{Name: "a", ID: "x", Weight: 1, Capacity: driver.All, TTL: time.Second, Wait: time.Second}
	}
	if err := good().CheckLeased(); err != nil {
		t.Fatal(err)
	}
	if err := (&api.Claim{Name: "a", ID: "x"}).Check(); err != nil {
		t.Errorf("a claim that leaves = %v; want nil", err)
	}
	for name, spoil := range map[string]func(*api.Claim){
		"no name":             func(c *api.Claim) { c.Name = "" },
		"control character":   func(c *api.Claim) { c.Name = "a\n" },
		"no id":               func(c *api.Claim) { c.ID = "" },
		"space in the id":     func(c *api.Claim) { c.ID = "a b" },
		"long id":             func(c *api.Claim) { c.ID = strings.Repeat("x", api.MaxText+1) },
		"long owner":          func(c *api.Claim) { c.Owner = strings.Repeat("x", api.MaxText+1) },
		"long client":         func(c *api.Claim) { c.Client = strings.Repeat("x", api.MaxText+1) },
		"no weight":           func(c *api.Claim) { c.Weight = 0 },
		"too much weight":     func(c *api.Claim) { c.Weight, c.Capacity = 3, 2 },
		"too much capacity":   func(c *api.Claim) { c.Capacity = driver.All + 1 },
		"no lease":            func(c *api.Claim) { c.TTL = 0 },
		"no lease to wait":    func(c *api.Claim) { c.Wait = 0 },
		"negative lease":      func(c *api.Claim) { c.TTL = -1 },
		"too long a lease":    func(c *api.Claim) { c.TTL = driver.MaxTTL + 1 },
		"negative lock-delay": func(c *api.Claim) { c.Delay = -1 },
		"negative ticket":     func(c *api.Claim) { c.Ticket = -1 },
		"too high a ticket":   func(c *api.Claim) { c.Ticket = api.MaxTicket + 1 },
		"large record":        func(c *api.Claim) { c.Record = make([]byte, driver.MaxRecord+1) },
		"large new record":    func(c *api.Claim) { c.Amend = &api.Amendment{Record: make([]byte, driver.MaxRecord+1)} },
	} {
		c := good()
		if spoil(c); c.CheckLeased() == nil {
			t.Errorf("%s: nil; want an error", name)
		}
	}
}

func TestComposeIsBounded(t *testing.T) {
	if _, err := api.Compose(&api.ListRequest{Prefix: "a"}); err != nil {
		t.Error(err)
	}
	if _, err := api.Compose(&api.ListRequest{Prefix: strings.Repeat("a", api.MaxRequest)}); driver.OutcomeOf(err) != driver.OutcomeRefused {
		t.Errorf("a request that is too large = %v; want a refusal", err)
	}
}
