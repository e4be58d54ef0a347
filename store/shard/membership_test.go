package shard_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/shard"
)

// refused reports whether a client must not work because of the lists of others.
func refused(t testing.TB, d driver.Driver) bool {
	t.Helper()
	c := claim("a name", rand.Text())
	c.Try = true
	_, err := d.Enter(t.Context(), c)
	if err == nil {
		_ = d.Leave(t.Context(), &driver.Release{Claim: c})
		return false
	}
	if !driver.NotApplied(err) || driver.IsUnreachable(err) || !strings.Contains(err.Error(), "neither this list of stores nor the previous one") {
		t.Errorf("enter = %v; want it refused for good, because of the lists of others", err)
	}
	return true
}

// Clients with a common store but no common list do not work at the same time: the later one is refused while the earlier
// one is there, and the earlier one goes on.
func TestClientsWithoutListInCommon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := memories{}
		first, middle := m.at(t, old), m.at(t, both)
		for what, d := range map[string]driver.Driver{"the old list": first, "both lists": middle} {
			if refused(t, d) {
				t.Errorf("the client with %s is refused; want it to work", what)
			}
		}
		early := m.at(t, next)
		defer early.Close()
		if !refused(t, early) {
			t.Error("the client with the new list works beside one with the old list")
		}
		<-time.After(time.Minute) // longer than the time between two refreshes
		if refused(t, first) || refused(t, middle) {
			t.Error("clients are refused because of one that was refused; want them to go on")
		}
		if !refused(t, early) {
			t.Error("the client with the new list works after a minute")
		}
		another := m.at(t, old)
		if refused(t, another) {
			t.Error("another client with the old list is refused because of one that is not at work")
		}
		another.Close()
		first.Close()
		<-time.After(time.Minute)
		for what, d := range map[string]driver.Driver{"both lists": middle, "the new list": early} {
			if refused(t, d) {
				t.Errorf("the client with %s is refused after the last with the old list has gone", what)
			}
		}
		late := m.at(t, old)
		defer late.Close()
		if !refused(t, late) {
			t.Error("a client with the old list works beside one with the new list")
		}
		middle.Close()
	})
}

// The earlier client goes on, even if another client works that should not.
func TestEarlierClientGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := memories{}
		first := m.at(t, old)
		defer first.Close()
		refused(t, first)
		other := claim("stile-shard/lists", "other")
		other.Weight, other.TTL, other.Record = 1, time.Hour, `{"lists":["other"]}`
		enter(t, m["a"].Driver(), other)
		<-time.After(time.Minute)
		if refused(t, first) {
			t.Error("the earlier client is refused")
		}
		second := m.at(t, old)
		defer second.Close()
		if !refused(t, second) {
			t.Error("a client that comes after the other works; want it refused")
		}
	})
}

// A dead client is a member for half a minute.
func TestRollOfTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := memories{}
		stores := m.stores("a", "b")
		dead := open(t, stores, nil)
		refused(t, dead)
		for _, st := range stores {
			st.Driver.(*memory.Driver).SetLink(memory.Refused) // it can neither stay a member nor leave
		}
		defer dead.Close()
		start := time.Now()
		d := m.at(t, next)
		defer d.Close()
		for refused(t, d) {
			<-time.After(time.Second)
		}
		if took := time.Since(start); took < 20*time.Second || took > 41*time.Second {
			t.Errorf("the next list could be used after %v; want about half a minute, and a look every ten seconds", took)
		}
	})
}

// The order of a list and its drivers are not part of its identity; weights are.
func TestListsAreTheSame(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		change func([]shard.Store)
		want   bool
	}{
		"another order":  {slices.Reverse[[]shard.Store], false},
		"weight 1":       {func(l []shard.Store) { l[0].Weight = 1 }, false},
		"another weight": {func(l []shard.Store) { l[0].Weight = 2 }, true},
	} {
		m := memories{}
		one := m.at(t, old)
		other := m.stores("a", "b")
		test.change(other)
		d := open(t, other, nil)
		if got := refused(t, one) || refused(t, d); got != test.want {
			t.Errorf("%s: refused is %v; want %v", what, got, test.want)
		}
		one.Close()
		d.Close()
	}
}

// Listings do not show the members, and stores that cannot keep them work without.
func TestRollIsNotListed(t *testing.T) {
	t.Parallel()
	m := memories{}
	d := m.at(t, old)
	defer d.Close()
	enter(t, d, claim("x", "1"))
	if list, err := d.(driver.Lister).List(t.Context(), &driver.Query{}); err != nil || len(list) != 1 {
		t.Errorf("list = %+v, %v; want the one name", list, err)
	}
	if list, err := m["a"].Driver().List(t.Context(), &driver.Query{}); err != nil || len(list) == 0 || list[0].Claims[0].Record == "" {
		t.Errorf("a store has %+v, %v; want the members", list, err)
	}
	plain := memory.NewStore()
	for range 2 {
		d := open(t, []shard.Store{{Name: "a", Driver: &declaring{plain.Driver(), func(t *driver.Traits) { t.Shared = false }}}}, nil)
		defer d.Close()
		if refused(t, d) {
			t.Error("a store without shared claims keeps members")
		}
	}
	if list, err := plain.Driver().List(t.Context(), &driver.Query{}); err != nil || len(list) != 0 {
		t.Errorf("a store without shared claims has %+v, %v; want nothing", list, err)
	}
}
