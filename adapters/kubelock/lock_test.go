package kubelock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// duration is the elector's LeaseDuration.
const duration = 10 * time.Second

// candidates returns locks of one election, each with a client of its own.
func candidates(t *testing.T, identities ...string) (locks []*Lock, drivers []*memory.Driver) {
	t.Helper()
	store := memory.NewStore()
	for _, identity := range identities {
		d := store.Driver()
		client, err := stile.New(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		lock, err := New(client, "scheduler", identity)
		if err != nil {
			t.Fatal(err)
		}
		locks, drivers = append(locks, lock), append(drivers, d)
	}
	return locks, drivers
}

// record returns the record of an elector with this identity.
func record(identity string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: int(duration / time.Second), LeaderTransitions: 3}
}

// leader returns the leader's identity, as a lock sees it.
func leader(t *testing.T, l *Lock) string {
	t.Helper()
	got, text, err := l.Get(t.Context())
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil || len(text) == 0 || got.LeaderTransitions != 3 {
		t.Fatalf("Get: %v, %q, %v", got, text, err)
	}
	return got.HolderIdentity
}

func lead(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.Create(t.Context(), record(l.Identity())); err != nil {
		t.Fatal(err)
	}
}

// One candidate leads. Others see its record, renewed at each Get, and cannot take the lead until it gives it up.
func TestTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, _ := candidates(t, "a", "b")
		a, b := locks[0], locks[1]
		if got := leader(t, a); got != "" {
			t.Errorf("%q leads before anybody stands", got)
		}
		lead(t, a)
		for range 10 { // for a minute the client renews
			time.Sleep(6 * time.Second)
			if err := a.Update(t.Context(), record("a")); err != nil {
				t.Fatalf("Update of the leader: %v", err)
			}
			if got := leader(t, a) + leader(t, b); got != "aa" {
				t.Errorf("leaders %q, want aa", got)
			}
			if seen, _, _ := b.Get(t.Context()); time.Since(seen.RenewTime.Time) != 0 {
				t.Errorf("renewed %v ago", time.Since(seen.RenewTime.Time))
			}
			for op, err := range map[string]error{"Create": b.Create(t.Context(), record("b")), "Update": b.Update(t.Context(), record("b"))} {
				if !apierrors.IsAlreadyExists(err) || !strings.HasPrefix(err.Error(), "kubelock: held by") {
					t.Errorf("%s beside a leader: %v", op, err)
				}
			}
		}
		ctx, cancel := a.Context(t.Context())
		defer cancel()
		token := stile.Token(ctx)
		if err := a.Update(t.Context(), record("")); err != nil {
			t.Errorf("giving up: %v", err)
		}
		if !errors.Is(context.Cause(ctx), stile.ErrReleased) || token == 0 {
			t.Errorf("the term's context has token %d and cause %v", token, context.Cause(ctx))
		}
		if err := b.Update(t.Context(), record("b")); err != nil {
			t.Errorf("Update right after the leader gave up: %v", err)
		}
		next, cancelNext := b.Context(t.Context())
		defer cancelNext()
		if got := leader(t, a); got != "b" || stile.Token(next) <= token {
			t.Errorf("%q leads with token %d after %d", got, stile.Token(next), token)
		}
		b.RecordEvent("became leader")
		b.RecordEvent("stopped leading") // without giving up: its work may not have ended
		time.Sleep(duration - time.Millisecond)
		if err := a.Create(t.Context(), record("a")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("within the duration after a leader stopped: %v", err)
		}
		time.Sleep(time.Second)
		lead(t, a)
	})
}

// A leader that loses its lease does not lead again, under any token, until its elector has stopped leading.
func TestDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, _ := candidates(t, "a", "b")
		a, b := locks[0], locks[1]
		lead(t, a)
		ctx, cancel := a.Context(t.Context())
		defer cancel()
		if _, err := b.client.Break(t.Context(), "scheduler", stile.BreakOptions{Head: true}); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, stile.ErrLost) {
			t.Errorf("the term's context ended by %v", cause)
		}
		for _, tt := range []struct {
			name string
			got  error
		}{
			{"Update", a.Update(t.Context(), record("a"))},
			{"Update again", a.Update(t.Context(), record("a"))},
			{"Create", a.Create(t.Context(), record("a"))},
			{"giving up", a.Update(t.Context(), record(""))},
		} {
			if !errors.Is(tt.got, stile.ErrLost) {
				t.Errorf("%s of a deposed leader: %v, want %v", tt.name, tt.got, stile.ErrLost)
			}
		}
		a.RecordEvent("stopped leading")
		lead(t, a)
		again, cancelAgain := a.Context(t.Context())
		defer cancelAgain()
		if stile.Token(again) <= stile.Token(ctx) {
			t.Errorf("the next term has token %d after %d", stile.Token(again), stile.Token(ctx))
		}
	})
}

// A successful update means that nobody else leads for the elector's duration, so updates fail while the lease is not
// renewed.
func TestNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, drivers := candidates(t, "a", "b")
		a, b := locks[0], locks[1]
		lead(t, a)
		drivers[0].SetLink(memory.Silent)
		var last time.Time
		for a.Update(t.Context(), record("a")) == nil {
			last = time.Now()
			time.Sleep(100 * time.Millisecond)
		}
		if err := a.Update(t.Context(), record("a")); err == nil || !strings.Contains(err.Error(), "has not renewed the lease") {
			t.Errorf("Update without a store: %v", err)
		}
		time.Sleep(time.Until(last.Add(duration)))
		drivers[0].Heal()
		if err := b.Create(t.Context(), record("b")); err == nil {
			t.Errorf("another leads within %v after an update", duration)
		}
	})
}

// A leader whose client is closed has lost its lease, and can no longer confirm the lead.
func TestClosedWhileLeading(t *testing.T) {
	locks, _ := candidates(t, "a")
	lead(t, locks[0])
	ctx, cancel := locks[0].Context(t.Context())
	defer cancel()
	locks[0].client.Close()
	<-ctx.Done()
	if err := locks[0].Update(t.Context(), record("a")); !errors.Is(err, stile.ErrLost) || !strings.Contains(err.Error(), stile.ReasonShutdown.String()) {
		t.Errorf("Update: %v, want %v, as the client was closed", err, stile.ErrLost)
	}
	locks[0].RecordEvent("stopped leading")
	if err := locks[0].Create(t.Context(), record("a")); !errors.Is(err, stile.ErrClosed) {
		t.Errorf("the next term: %v, want %v", err, stile.ErrClosed)
	}
}

// Each failure has its own error.
func TestErrors(t *testing.T) {
	locks, _ := candidates(t, "a", "b")
	closed, other := locks[0], locks[1]
	closed.client.Close()
	_, _, err := closed.Get(t.Context())
	_, noIdentity := New(other.client, "scheduler", "")
	noName, err2 := New(other.client, "", "b")
	if err2 != nil {
		t.Fatal(err2)
	}
	for _, tt := range []struct {
		name string
		got  error
		want error
		text string
	}{
		{"Get of a client that is closed", err, stile.ErrClosed, `kubelock: stile: leader "scheduler"`},
		{"Create of a client that is closed", closed.Create(t.Context(), record("a")), stile.ErrClosed, `kubelock: stile: try "scheduler"`},
		{"no identity", noIdentity, nil, `election "scheduler": the identity is empty`},
		{"no name", noName.Create(t.Context(), record("b")), stile.ErrInvalid, "kubelock: "},
	} {
		if tt.got == nil || tt.want != nil && !errors.Is(tt.got, tt.want) || !strings.Contains(tt.got.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.name, tt.got, tt.want, tt.text)
		}
	}
	if ctx, cancel := other.Context(t.Context()); !errors.Is(context.Cause(ctx), stile.ErrLost) || stile.Token(ctx) != 0 {
		cancel()
		t.Errorf("the context of no term: %v", context.Cause(ctx))
	}
}
