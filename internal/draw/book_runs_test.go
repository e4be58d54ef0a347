package draw

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The pictures of what runs tried, and what came of it, are drawn from the tables of the evidence.

func init() {
	book["chaos"] = chaosBars("../../docs/evidence/chaos.md")
	book["interop"] = interopChips("../../docs/evidence/interop.md")
	book["mutants"] = mutantBars("../../docs/evidence/mutants.md")
}

// thousands writes a count with commas.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// count takes a count as a table has it.
func count(cell string) int {
	n, err := strconv.Atoi(cell)
	if err != nil {
		panic(err)
	}
	return n
}

// chaosBars has a bar for each store of the soak, and the sums of the table's last row in its title.
func chaosBars(page string) *Bars {
	rows := table(page, "runs with other findings")
	faults, holds := at(rows, "faults"), at(rows, "holds")
	excused, others := at(rows, "findings of times in which claims may have been lost"), at(rows, "runs with other findings")
	panel := Panel{Heading: "faults in the runs of each store; findings are excused after a fault by which the store may lose claims"}
	for _, row := range rows[1 : len(rows)-1] {
		b := Bar{Name: row[0], Value: float64(count(row[faults])), Text: thousands(count(row[faults])) + " faults", Kind: Store}
		if n := count(row[excused]); n > 0 {
			b.Text, b.Kind = fmt.Sprintf("%s, %d findings excused", b.Text, n), Paused
		}
		if n := count(row[others]); n > 0 {
			b.Text, b.Kind = fmt.Sprintf("%s, %d runs with findings", b.Text, n), Failed
		}
		panel.Bars = append(panel.Bars, b)
	}
	sum := rows[len(rows)-1]
	return &Bars{
		Title: fmt.Sprintf("%s faults, %s holds; runs with findings that are not excused: %s",
			thousands(count(sum[faults])), thousands(count(sum[holds])), sum[others]),
		Panels: []Panel{panel},
	}
}

// mutantBars has a bar for each check, of the mistakes that it found first.
func mutantBars(page string) *Bars {
	rows := table(page, "what is wrong")
	by := at(rows, "found by")
	checks := []string{"exploration of small worlds", "simulations from seeds", "contract of the stores and guards", "contract of the command",
		"only the test written for it", "nothing"}
	found := make([]int, len(checks))
	for _, row := range rows[1:] {
		cell := row[by]
		switch {
		case strings.HasPrefix(cell, "exploration"):
			found[0]++
		case strings.HasPrefix(cell, "seeds"):
			found[1]++
		case strings.HasPrefix(cell, "Test"):
			found[2]++
		case strings.HasPrefix(cell, "cases.txt"):
			found[3]++
		case strings.HasPrefix(cell, "its own test"):
			found[4]++
		default:
			found[5]++
		}
	}
	panel := Panel{Heading: "mistakes by what found them first"}
	for i, check := range checks {
		kind := Held
		if i >= 4 {
			kind = Failed
		}
		panel.Bars = append(panel.Bars, Bar{Name: check, Value: float64(found[i]), Text: strconv.Itoa(found[i]), Kind: kind})
	}
	return &Bars{
		Title:  fmt.Sprintf("%d mistakes put back into the code, %d found", len(rows)-1, len(rows)-1-found[5]),
		Panels: []Panel{panel},
	}
}

// The page about seeded mistakes says what the table sums up to.
func TestMutantsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/explain/mutants.md")
	if err != nil {
		t.Fatal(err)
	}
	all, own := 0, 0
	for _, b := range mutantBars("../../docs/evidence/mutants.md").Panels[0].Bars {
		all += int(b.Value)
		switch b.Name {
		case "only the test written for it":
			own = int(b.Value)
		case "nothing":
			if b.Value != 0 {
				t.Errorf("nothing found %v mistakes, and the page says that each was found", b.Value)
			}
		}
	}
	if sum := fmt.Sprintf("**%d mistakes were put back, and each was found**: %d of them by", all, all-own); !bytes.Contains(page, []byte(sum)) {
		t.Errorf("the page does not say: %s", sum)
	}
}

// A meeting is a client of others and the lock of stile that meets it, by the words of the tables.
type meeting struct{ name, other, stile string }

// interopChips has a chip for each meeting. The tables say whether both wait.
func interopChips(page string) *Chips {
	waits := contenders(page)
	chips := &Chips{
		Title: "Other clients on the same lock as stile",
		Note:  "Each side waits while the other holds, unless the box says otherwise.",
	}
	for _, g := range []struct {
		name, store string
		meetings    []meeting
	}{
		{"Redis, layout=setnx", "Redis", []meeting{
			{"redsync", "redsync", "stile"}, {"redislock", "redislock", "stile"}, {"redis-py", "redis-py", "stile"},
			{"redlock-py", "redlock-py", "stile"}, {"node-redlock", "node-redlock", "stile"}, {"rueidislock", "rueidislock", "stile"},
		}},
		{"Redlock, three servers", "Redlock", []meeting{
			{"redsync", "redsync", "stile"}, {"redlock-py", "redlock-py", "stile"}, {"node-redlock", "node-redlock", "stile"},
		}},
		{"etcd", "etcd", []meeting{
			{"concurrency.Mutex", "etcd mutex", "stile"}, {"concurrency.Election", "etcd election", "stile"}, {"lock service", "v3lock", "stile"},
			{"etcdctl lock", "etcdctl lock", "stile"}, {"etcdctl elect", "etcdctl elect", "stile candidate"},
		}},
		{"Consul", "Consul", []meeting{{"consul lock", "consul lock", "stile"}, {"consul/api", "consul/api", "stile"}}},
		{"ZooKeeper, with the layout of the other's lock", "ZooKeeper", []meeting{
			{"Curator's mutex", "Curator mutex", "stile"}, {"go-zookeeper", "go-zookeeper", "stile"},
			{"Curator's read-write lock, layout=rw", "Curator write", "stile writer, rw"},
			{"its leader latch, layout=latch", "Curator latch", "stile candidate, latch"},
			{"its semaphore, layout=semaphore", "Curator 2 of 2", "stile 2 of 2"},
		}},
		{"ZooKeeper, with the default layout", "ZooKeeper", []meeting{
			{"Curator's read-write lock", "Curator write", "stile"}, {"its leader latch", "Curator latch", "stile candidate"},
		}},
		{"ShedLock's table", "PostgreSQL, ShedLock's table", []meeting{{"ShedLock on PostgreSQL", "ShedLock", "stile"}}},
		{"", "MariaDB, ShedLock's table", []meeting{{"ShedLock on MariaDB", "ShedLock", "stile"}}},
	} {
		group := Group{Name: g.name}
		for _, m := range g.meetings {
			group.Chips = append(group.Chips, m.chip(waits(g.store, m.stile, m.other), waits(g.store, m.other, m.stile)))
		}
		if last := len(chips.Groups) - 1; g.name == "" {
			chips.Groups[last].Chips = append(chips.Groups[last].Chips, group.Chips...)
		} else {
			chips.Groups = append(chips.Groups, group)
		}
	}
	return chips
}

func (m meeting) chip(otherWaits, stileWaits bool) Chip {
	switch {
	case otherWaits && stileWaits:
		return Chip{m.name, Held}
	case stileWaits:
		return Chip{m.name + ": only stile waits", Failed}
	case otherWaits:
		return Chip{m.name + ": stile does not wait", Failed}
	}
	return Chip{m.name + ": neither waits", Failed}
}

// contenders reads the first table of each store, and returns whether a contender waits for a holder.
func contenders(page string) func(store, holder, contender string) bool {
	text, err := os.ReadFile(page)
	if err != nil {
		panic(err)
	}
	seen, store := map[[3]string]string{}, ""
	for l := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(l), "<summary>"); ok {
			store = name[:strings.LastIndex(name, ", ")]
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(l), "|"), " | ")
		if key := ([3]string{store, strings.TrimSpace(cells[0])}); len(cells) == 6 {
			key[2] = cells[1]
			seen[key] = cells[2]
		}
	}
	return func(store, holder, contender string) bool {
		switch answer := seen[[3]string{store, holder, contender}]; answer {
		case "waits":
			return true
		case "holds too":
			return false
		default:
			panic(fmt.Sprintf("%s: %q says whether %s waits for %s in %s", page, answer, contender, holder, store))
		}
	}
}
