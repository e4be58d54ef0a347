package repo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The page about other libraries is made of what runs measured: go run ./proof/chaos -peer … -o writes the figures, and go
// test ./internal/repo -update the page.

const (
	peerFigures = "docs/evidence/peers.json"
	peerPage    = "docs/evidence/peers.md"
)

func TestPeerPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), peerFigures))
	if err != nil {
		t.Fatal(err)
	}
	b, err := parsePeers(text)
	if err != nil {
		t.Fatal(err)
	}
	want, golden := b.page(), filepath.Join(root(t), peerPage)
	if *update {
		if err := os.WriteFile(golden, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(golden); string(got) != want {
		t.Errorf("%s is not what %s says: go test ./internal/repo -update", peerPage, peerFigures)
	}
}

// A peerBook has the fields of the runner's file that the page shows.
type peerBook struct{ Peers []*peerEntry }

type peerEntry struct {
	Name, Library, Version, Servers, Settings, Loss, Token string
	Lease                                                  time.Duration
	Runs                                                   []*peerRun
}

type peerRun struct {
	Seed                                              uint64
	For, Longest, Bound, Asleep, After                time.Duration
	Workers, Holds, Told, Overlaps, Falls, Operations int
	Slept, Waiters, Again, Hung                       int
	Order                                             string
	Faults                                            map[string]int
	Left                                              []string
	Plain, Asked, Fenced                              *peerTally
}

type peerTally struct{ Writes, Lost, Refused int }

// parsePeers refuses a file of another shape, and runs that cannot stand beside each other.
func parsePeers(text []byte) (*peerBook, error) {
	b := &peerBook{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil {
		return nil, fmt.Errorf("%s: %w", peerFigures, err)
	}
	if len(b.Peers) == 0 {
		return nil, fmt.Errorf("%s has no peers", peerFigures)
	}
	first := b.Peers[0]
	for _, p := range b.Peers {
		if len(p.Runs) == 0 || len(p.Runs) != len(first.Runs) {
			return nil, fmt.Errorf("%s: %s has %d runs, and %s %d", peerFigures, p.Name, len(p.Runs), first.Name, len(first.Runs))
		}
		for i, r := range p.Runs {
			if o := first.Runs[i]; r.Seed != o.Seed || r.For != o.For || r.Workers != o.Workers {
				return nil, fmt.Errorf("%s: %s has other seeds, lengths or workers than %s", peerFigures, p.Name, first.Name)
			}
			if (p.Token != "") != (r.Fenced != nil) {
				return nil, fmt.Errorf("%s: %s has tokens, or updates with tokens, but not both", peerFigures, p.Name)
			}
		}
	}
	return b, nil
}

// perPeer writes a table with a row for each peer.
func (b *peerBook) perPeer(w *strings.Builder, head string, cells func(p *peerEntry) []string) {
	writeHead(w, head)
	for _, p := range b.Peers {
		fmt.Fprintf(w, "| `%s` | %s |\n", p.Name, strings.Join(cells(p), " | "))
	}
}

func writeHead(w *strings.Builder, head string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.ReplaceAll(head, ", ", " | "), strings.Repeat(" --- |", strings.Count(head, ", ")+1))
}

// page returns the page with the measured figures.
func (b *peerBook) page() string {
	var w strings.Builder
	first := b.Peers[0].Runs
	fmt.Fprintf(&w, peerHead, len(first), first[0].For, first[0].Seed, len(first), first[0].Workers, first[0].Waiters)
	w.WriteString("## What is run\n\n")
	b.perPeer(&w, "name, library, version, servers, set, how a holder learns of a loss, token", func(p *peerEntry) []string {
		version, token := p.Version, p.Token
		if version == "" {
			version = "this tree"
		}
		if token == "" {
			token = "none"
		}
		return []string{"`" + p.Library + "`", version, p.Servers, p.Settings, p.Loss, token}
	})
	w.WriteString(peerOverlaps)
	b.perPeer(&w, "name, holds, ended because the library said so, runs with an overlap, overlaps, the earlier holder went on for, the whole history", overlapCells)
	w.WriteString(peerUpdates)
	b.perPeer(&w, "name, without asking, after asking, with the token, refused for the token, tokens that fell", updateCells)
	w.WriteString(peerWaits)
	b.perPeer(&w, "name, the bound, waits beyond it, the longest, waiters that held again, the last after, processes that did not end, left in the store", waitCells)
	w.WriteString(peerRuns)
	writeHead(&w, "name, seed, faults, holds, overlaps, lost without asking, lost after asking, longest wait, held again")
	for _, p := range b.Peers {
		for _, r := range p.Runs {
			fmt.Fprintf(&w, "| `%s` | %d | %s | %d | %d | %d | %d | %s | %d of %d |\n", p.Name, r.Seed, faultCounts(r.Faults),
				r.Holds, r.Overlaps, r.Plain.Lost, r.Asked.Lost, short(r.Asleep), r.Again, r.Waiters)
		}
	}
	return w.String()
}

func overlapCells(p *peerEntry) []string {
	var holds, told, runs, overlaps int
	var longest time.Duration
	orders := map[string]int{}
	for _, r := range p.Runs {
		holds, told, overlaps, longest = holds+r.Holds, told+r.Told, overlaps+r.Overlaps, max(longest, r.Longest)
		orders[r.Order]++
		if r.Overlaps > 0 {
			runs++
		}
	}
	var order []string
	for _, name := range slices.Sorted(maps.Keys(orders)) {
		order = append(order, fmt.Sprintf("%s: %d", name, orders[name]))
	}
	return []string{fmt.Sprint(holds), fmt.Sprint(told), fmt.Sprintf("%d of %d", runs, len(p.Runs)), fmt.Sprint(overlaps), short(longest), strings.Join(order, ", ")}
}

func updateCells(p *peerEntry) []string {
	var plain, asked, fenced peerTally
	falls := 0
	for _, r := range p.Runs {
		plain.add(r.Plain)
		asked.add(r.Asked)
		fenced.add(r.Fenced)
		falls += r.Falls
	}
	first := plain.String()
	if plain.Lost == 0 {
		first += ": no late write"
	}
	cells := []string{first, asked.String(), "none", "none", "none"}
	if p.Token != "" {
		cells[2], cells[3], cells[4] = fenced.String(), fmt.Sprint(fenced.Refused), fmt.Sprint(falls)
	}
	return cells
}

func (t *peerTally) add(o *peerTally) {
	if o != nil {
		t.Writes, t.Lost, t.Refused = t.Writes+o.Writes, t.Lost+o.Lost, t.Refused+o.Refused
	}
}

func (t *peerTally) String() string { return fmt.Sprintf("%d of %d", t.Lost, t.Writes) }

func waitCells(p *peerEntry) []string {
	var slept, again, all, hung int
	var longest, last time.Duration
	left := map[string]bool{}
	for _, r := range p.Runs {
		slept, again, all, hung = slept+r.Slept, again+r.Again, all+r.Waiters, hung+r.Hung
		longest, last = max(longest, r.Asleep), max(last, r.After)
		for _, key := range r.Left {
			left[key] = true
		}
	}
	kept := "nothing"
	if len(left) > 0 {
		kept = ticked(slices.Sorted(maps.Keys(left)))
	}
	after := short(last)
	if again < all {
		after = "not within " + short(last)
	}
	return []string{short(p.Runs[0].Bound), fmt.Sprint(slept), short(longest), fmt.Sprintf("%d of %d", again, all), after, fmt.Sprint(hung), kept}
}

func faultCounts(m map[string]int) string {
	n := 0
	for _, k := range m {
		n += k
	}
	return fmt.Sprint(n)
}

// short is a duration as people need it.
func short(d time.Duration) string {
	if d > time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func TestParsePeers(t *testing.T) {
	const run = `{"Seed": 1, "For": 1, "Workers": 2, "Plain": {"Writes": 1}, "Asked": {"Writes": 1}}`
	for _, tt := range []struct{ name, text, want string }{
		{"in order", `{"Peers": [{"Name": "a", "Runs": [` + run + `]}]}`, ""},
		{"not JSON", `a`, "invalid character"},
		{"another shape", `{"Peers": [{"Seeds": 3}]}`, `unknown field "Seeds"`},
		{"nothing", `{}`, "has no peers"},
		{"no runs", `{"Peers": [{"Name": "a"}]}`, "a has 0 runs"},
		{"more runs", `{"Peers": [{"Name": "a", "Runs": [` + run + `]}, {"Name": "b", "Runs": [` + run + "," + run + `]}]}`, "b has 2 runs, and a 1"},
		{"another seed", `{"Peers": [{"Name": "a", "Runs": [` + run + `]}, {"Name": "b", "Runs": [` + strings.Replace(run, "1", "2", 1) + `]}]}`, "b has other seeds"},
		{"tokens without updates", `{"Peers": [{"Name": "a", "Token": "t", "Runs": [` + run + `]}]}`, "but not both"},
	} {
		_, err := parsePeers([]byte(tt.text))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
}
