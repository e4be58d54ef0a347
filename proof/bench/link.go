//go:build unix

package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stilelock/stile/internal/servertest"
)

// On a server, everything that takes time is measured over links. On loopback a round trip takes some 50 µs, and a figure is mostly
// the work of client and server and how they share two cores; but users meet servers over a network.

// linkDelay is the delay of a link each way, to which the machine's timers add a little.
const linkDelay = time.Millisecond

// overLink are the keys of the measures that are taken over links. The others count requests, memory and the server's processor.
var overLink = []string{"alone", "names-8", "apart", "hot", "fleet", "throng", "staffed", "handover"}

// linked reports whether the arena is measured over links.
func (a *arena) linked() bool { return !a.serverless && len(a.libraries) == 0 }

// all returns all measures of the arena, first those over links.
func (b *bench) all() []*measure {
	direct := b.arena.measures(b)
	if !b.arena.linked() {
		return direct
	}
	over := *b
	over.addr, over.tag = b.far, "link-"
	far := over.arena.measures(&over)
	list := []*measure{b.roundTrip()}
	for _, m := range far {
		if slices.Contains(overLink, m.key) {
			first, rest := []rune(m.title)[:1], string([]rune(m.title)[1:])
			m.title = "Over a link: " + string(unicode.ToLower(first[0])) + rest
			list = append(list, m)
		}
	}
	return append(list, slices.DeleteFunc(direct, func(m *measure) bool { return slices.Contains(overLink, m.key) })...)
}

// roundTrip measures a round trip over a link.
func (b *bench) roundTrip() *measure {
	return &measure{
		key: "link-trip", title: "Over a link: a round trip", slow: true,
		about: "A link passes on what it gets after " + linkDelay.String() + " each way, and a timer of the machine adds to that. A byte goes to " +
			"a program that sends it back. What is measured over a link is measured over one to each server.",
		columns: []column{{"p50", "p50 µs", 0}},
		rows: []*row{{name: "a byte and its answer", run: func() (sample, error) {
			return sample{"p50": micros(servertest.RoundTrip(b.host, linkDelay))}, nil
		}}},
	}
}

// link starts links to servers, in processes of their own, and returns their addresses.
func (b *bench) link(addrs string) (string, error) {
	var far []string
	for addr := range strings.SplitSeq(addrs, ",") {
		p, err := startChild(&task{Role: "link", Addr: addr, Span: linkDelay})
		if err != nil {
			return "", err
		}
		b.host.Cleanup(func() {
			if err := p.end(true); err != nil {
				b.log("a link: %v", err)
			}
		})
		var at string
		if err := p.hear(&at); err != nil {
			return "", err
		}
		far = append(far, at)
	}
	return strings.Join(far, ","), nil
}

// linkRole is a link to one server, until the parent ends.
func linkRole(t *task, parent *lines) error {
	h := &servertest.Host{Program: "bench"}
	defer h.End()
	if err := parent.say(servertest.NewLink(h, t.Addr, t.Span).Addr); err != nil {
		return err
	}
	var word string
	if err := parent.hear(&word); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
