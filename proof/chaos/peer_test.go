//go:build unix

package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/history"
	"github.com/stilelock/stile/internal/servertest"
)

// lawless is a peer that locks nothing: everybody holds at once. Workers of the test have it too.
const lawless = "lawless"

func init() {
	stores[lawless] = func(servertest.TB) *store { return (&store{}).at("") }
	peers[lawless] = &peer{
		store: lawless, lease: ttl, token: "none that rise", left: func(*store) (string, []string) { return "none", nil },
		open: func([]string) (locker, error) { return lawlessLocker{}, nil },
	}
}

type lawlessLocker struct{}

func (lawlessLocker) lock(context.Context, int, string) (holding, error) {
	return lawlessHolding{}, nil
}
func (lawlessLocker) close() {}

type lawlessHolding struct{}

func (lawlessHolding) trusted() bool { return true }
func (lawlessHolding) token() int64  { return 7 }
func (lawlessHolding) unlock() error { return nil }

// TestLawless checks that each figure shows the faults of a library which locks nothing.
func TestLawless(t *testing.T) {
	t.Parallel()
	f, _ := playPeer(t, &plan{store: lawless, peer: lawless, during: time.Second, seed: 1, workers: 2})
	if f.Overlaps == 0 || f.Longest == 0 || f.Order != "no order" || f.Plain.Lost == 0 || f.Asked.Lost == 0 || f.Fenced.Lost == 0 {
		t.Errorf("a library that locks nothing came to %+v, %+v, %+v, %+v", f, f.Plain, f.Asked, f.Fenced)
	}
	if f.Again != f.Waiters || f.Hung != 0 {
		t.Errorf("%d of %d waiters held again, %d processes hung; want all, and none", f.Again, f.Waiters, f.Hung)
	}
}

// TestPeer carries out a short run of another library. It does not check that library's promises.
func TestPeer(t *testing.T) {
	t.Parallel()
	f, servers := playPeer(t, &plan{store: "redis", peer: "redislock", during: time.Second, seed: 1, workers: 2, only: []string{dropConnections}})
	if f.Holds == 0 || f.Operations != 2*f.Holds || f.Plain.Writes == 0 || f.Again == 0 || f.Hung != 0 || !strings.HasPrefix(servers, "Redis ") {
		t.Errorf("the run on %s came to %+v, %+v", servers, f, f.Plain)
	}
}

func TestTogether(t *testing.T) {
	hold := func(name string, begin, end time.Duration) *history.Hold {
		return &history.Hold{Name: name, Begin: begin, End: end}
	}
	for _, tt := range []struct {
		name    string
		holds   []*history.Hold
		want    int
		longest time.Duration
	}{
		{"one after the other", []*history.Hold{hold("a", 1, 2), hold("a", 3, 4)}, 0, 0},
		{"two names", []*history.Hold{hold("a", 1, 4), hold("b", 2, 3)}, 0, 0},
		{"one inside", []*history.Hold{hold("a", 2, 4), hold("a", 1, 9)}, 1, 7},
		{"three", []*history.Hold{hold("a", 1, 9), hold("a", 2, 3), hold("a", 5, 12)}, 2, 7},
	} {
		if n, longest := together(tt.holds); n != tt.want || longest != tt.longest {
			t.Errorf("%s: %d for %d; want %d for %d", tt.name, n, longest, tt.want, tt.longest)
		}
	}
}

func TestIdle(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		waits, holds, faults []span
		want                 []span
	}{
		{"nobody waits", nil, []span{{1, 2}}, nil, nil},
		{"held all the time", []span{{2, 5}}, []span{{1, 3}, {3, 6}}, nil, nil},
		{"between two holds", []span{{1, 9}}, []span{{6, 7}, {2, 4}}, nil, []span{{1, 2}, {4, 6}, {7, 9}}},
		{"waits that overlap", []span{{4, 6}, {1, 5}}, nil, nil, []span{{1, 6}}},
		{"two times", []span{{1, 2}, {4, 6}}, []span{{5, 9}}, nil, []span{{1, 2}, {4, 5}}},
		{"a fault", []span{{1, 9}}, []span{{1, 2}}, []span{{3, 4}, {8, 12}}, []span{{2, 3}, {4, 8}}},
	} {
		if got := idle(tt.waits, tt.holds, tt.faults); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
	if n, longest := slept([]span{{1, 3}, {4, 9}}, 3); n != 1 || longest != 5 {
		t.Errorf("%d longer than 3, the longest %d; want 1 and 5", n, longest)
	}
}

// TestServed checks that the figures count waiters, not holds, and that a wait ends with its grant or with its process.
func TestServed(t *testing.T) {
	p := &process{holds: map[int]*grant{}, asks: map[int]*ask{}, died: 40}
	for _, line := range []string{
		"ask 0 a 1", "begin 0 a 1 0 1 5 5", "leave 0 6", "over 0 2 7", "quit 0 8", // held and freed
		"ask 4 a 11", "begin 4 a 1 0 11 15 15", // the same waiter
		"ask 1 a 12", "quit 1 14", // not granted
		"ask 2 a 20", // until its process dies
		"ask 3 b 20",
	} {
		p.heard(1, line)
	}
	for since, want := range map[time.Duration]int{0: 1, 5: 1, 15: 0} {
		if got := served([]*process{p}, since); got != want {
			t.Errorf("since %d %d waiters held, want %d", since, got, want)
		}
	}
	got := waitsOf([]*process{p}, "a", 30)
	slices.SortFunc(got, func(a, b span) int { return int(a.begin - b.begin) })
	if want := []span{{1, 5}, {11, 15}, {12, 14}, {20, 30}}; !slices.Equal(got, want) {
		t.Errorf("the waits are %v; want %v", got, want)
	}
	if got := waitsOf([]*process{p}, "b", 50); !slices.Equal(got, []span{{20, 40}}) {
		t.Errorf("the waits are %v; want one up to the death of the process", got)
	}
}

// TestRegister lets two holders update at the same time: without tokens an update is lost, and with tokens the register
// refuses the older holder.
func TestRegister(t *testing.T) {
	r := &register{cells: map[cell]*tally{}}
	do := func(m mode, token, value int64, write bool) (a Answer) {
		if err := r.Do(&Update{cell{"a", m}, token, value, write}, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, m := range []mode{plain, fenced} {
		one, two := do(m, 1, 0, false), do(m, 2, 0, false)
		do(m, 2, two.Value+1, true)
		late := do(m, 1, one.Value+1, true)
		if late.Refused != (m == fenced) {
			t.Errorf("mode %d: the late write was refused: %v", m, late.Refused)
		}
	}
	if got := r.sum(plain); got.Writes != 2 || got.Lost != 1 || got.Refused != 0 {
		t.Errorf("without tokens: %+v; want one of two lost", got)
	}
	if got := r.sum(fenced); got.Writes != 1 || got.Lost != 0 || got.Refused != 1 {
		t.Errorf("with tokens: %+v; want none of one lost, and one refused", got)
	}
}

func TestPeerFlags(t *testing.T) {
	for _, tt := range []struct {
		flags, want string
		runs        int
	}{
		{"for seed", "", 1},
		{"o", "-o is of runs of peers", 1},
		{"runs", "", 3},
		{"peer o runs seed for", "", 3},
		{"peer store", "-store does not go with -peer", 1},
		{"peer log", "-log does not go with -peer", 1},
		{"peer runs", "-runs 0 is not from 1 to 100", 0},
	} {
		given := map[string]bool{}
		for name := range strings.FieldsSeq(tt.flags) {
			given[name] = true
		}
		err := peerFlags(given, tt.runs)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.flags, err, tt.want)
		}
	}
	if _, err := chosenPeers("redislock,zookeeper"); err == nil || !strings.Contains(err.Error(), "neither all nor some of") {
		t.Errorf("an unknown peer: %v", err)
	}
	if names, err := chosenPeers("all"); err != nil || !slices.Contains(names, "redislock") {
		t.Errorf("all peers are %v (%v)", names, err)
	}
}

// TestBook checks that the book keeps the runs of a peer together, unless they measured something else.
func TestBook(t *testing.T) {
	path := t.TempDir() + "/peers.json"
	b, err := readBook(path)
	if err != nil {
		t.Fatal(err)
	}
	run := func(seed uint64, holds int) *figures {
		return &figures{Seed: seed, For: time.Second, Workers: 2, Holds: holds, Plain: &tally{}, Asked: &tally{}}
	}
	b.add(&entry{Name: "b", Version: "v1"}, run(2, 10))
	b.add(&entry{Name: "b", Version: "v1"}, run(1, 11))
	b.add(&entry{Name: "b", Version: "v1"}, run(2, 12))
	b.add(&entry{Name: "a", Version: "v1"}, run(1, 13))
	if err := b.write(path); err != nil {
		t.Fatal(err)
	}
	if b, err = readBook(path); err != nil {
		t.Fatal(err)
	}
	if len(b.Peers) != 2 || b.Peers[0].Name != "a" || len(b.Peers[1].Runs) != 2 || b.Peers[1].Runs[0].Holds != 11 || b.Peers[1].Runs[1].Holds != 12 {
		t.Errorf("the book has %+v", b.Peers)
	}
	if b.add(&entry{Name: "b", Version: "v2"}, run(3, 14)); len(b.Peers[1].Runs) != 1 {
		t.Errorf("runs of two versions are beside each other: %+v", b.Peers[1].Runs)
	}
	if err := os.WriteFile(path, []byte("# not"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readBook(path); err == nil || !strings.Contains(err.Error(), "is no file that an earlier run wrote") {
		t.Errorf("a file of something else: %v", err)
	}
	if _, err := readBook(t.TempDir() + "/none/peers.json"); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}
