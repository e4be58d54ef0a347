package drivertest

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
)

var nameCases = []Case{
	{"Names", "Every text that CheckName takes is a name, and distinct names stay distinct.", 0, names},
	{"NamesListed", "Listings show names as the user gave them.", 0, namesListed},
	{"Records", "A record is kept as it is, up to MaxRecord bytes, unless the store is brief.", 0, records},
}

// hostile returns names that a careless store would confuse, cut, or interpret.
func hostile(tag string) []string {
	list := []string{
		"a", "A", "%41", "%2541", "a ", " a", "a/", "/a", "a//b", "a/b", "./a", "../a", "a/..", "a/../b",
		"{a}", "a}", "{", "a:b", "a::b", "a*", "a?", "[a]", "a_b", "a%b", `a\b`, `a"b`,
		"a'b", "a`b", "a;b", "a--b", "a#b", "a&b=c",
		"$a", "${a}", "a.b", "a,b", "a|b", "<a>", "é", "e\u0301", "ß", "SS", "ｱ", "ア", "ı", "i", "I",
		"İ", "🔒", "🔒\u200d🔑", "\u2028", "\ufffd",
		"a\u00a0b", "null", "0", "00", "-1", "1e3",
	}
	for i, name := range list {
		list[i] = tag + name
		if i%2 == 0 {
			list[i] = name + tag
		}
	}
	long := tag + strings.Repeat("x", driver.MaxName-len(tag))
	wide := tag + strings.Repeat("\u00fc", (driver.MaxName-len(tag))/2)
	// Of these, the list has a name each that differs from it in no more than case, composition or encoding.
	list = append(list, tag+"a", tag+"é", tag+"%41")
	return append(list, tag, long, long[:driver.MaxName-1], long[:driver.MaxName-1]+"y", wide)
}

func (r *run) tag() string { return r.name[strings.LastIndexByte(r.name, '/')+1:] }

func names(r *run) {
	var claims []*driver.Claim
	lower := map[string]bool{}
	for _, name := range hostile(r.tag()) {
		if err := driver.CheckName(name); err != nil {
			r.Fatalf("%q: %v", name, err)
		}
		if r.store.OneCase && lower[strings.ToLower(name)] {
			continue
		}
		lower[strings.ToLower(name)] = true
		c := r.claim()
		c.Name = name
		if p := r.enter(r.a, c); !p.Holds {
			r.Errorf("the name %q is taken; want it distinct from the others", name)
		}
		claims = append(claims, c)
	}
	for i, a := range r.b.Renew(r.ctx, claims) {
		if a.Err != nil {
			r.Errorf("renewal of %q = %v; want nil", claims[i].Name, a.Err)
		}
	}
	for _, c := range claims {
		r.leave(r.b, c)
	}
}

func namesListed(r *run) {
	lister, ok := r.b.(driver.Lister)
	if !ok {
		return
	}
	for _, name := range hostile(r.tag()) {
		c := r.claim()
		c.Name = name
		p := r.holds(r.a, c)
		got, err := lister.List(r.ctx, &driver.Query{Name: name})
		if err != nil {
			r.Fatalf("list of %q: %v", name, err)
		}
		if len(got) != 1 || got[0].Name != name || len(got[0].Claims) != 1 || got[0].Claims[0].Ticket != p.Ticket {
			r.Errorf("list of %q = %+v; want the claim with ticket %d", name, got, p.Ticket)
		}
		r.leave(r.a, c)
	}
}

func records(r *run) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	most := cmp.Or(r.store.MaxRecord, driver.MaxRecord)
	for _, record := range []string{
		"", "plain", `{"owner":"é \"x\"","n":1}`, "a\nb\r\n\tc", " spaces ", "null", "0123",
		"\x00", "a\x00b", string(every), "\xff\xfe",
		strings.Repeat("r", most), strings.Repeat("🔒", most/4),
	} {
		holder, try := r.claim(), r.claim()
		holder.Record = record
		kept := !r.traits.ShortRecord || record == "plain"
		ticket := r.holds(r.a, holder).Ticket
		try.Try = true
		// A node of a quorum may not have heard yet that the holder before has left.
		r.until(recovers, fmt.Sprintf("the blocker's record is %.40q", record), func() bool {
			b := r.waits(r.b, try).Blocker
			return b.Ticket == 0 || b.Record == record || !kept
		})
		if lister, ok := r.b.(driver.Lister); ok {
			if s := r.listed(lister, ticket); s.Record != record && kept {
				r.Errorf("the listed record is %.40q; want %.40q", s.Record, record)
			}
		}
		r.leave(r.a, holder)
	}
}

// listed returns the claim with a ticket as a listing of the run's name shows it.
func (r *run) listed(lister driver.Lister, ticket int64) driver.ClaimInfo {
	r.Helper()
	list, err := lister.List(r.ctx, &driver.Query{Name: r.name})
	if err != nil {
		r.Fatalf("list: %v", err)
	}
	for _, l := range list {
		for _, s := range l.Claims {
			if s.Ticket == ticket {
				return s
			}
		}
	}
	r.Fatalf("list = %+v; want a claim with ticket %d", list, ticket)
	return driver.ClaimInfo{}
}
