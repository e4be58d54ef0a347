//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// A book has the results of all peers. The page is made from it.
type book struct{ Peers []*entry }

// An entry has the results of one peer. Runs of different versions or settings never share an entry.
type entry struct {
	Name, Library, Version, Servers string
	Settings, Loss                  string
	Token                           string `json:",omitempty"`
	Lease                           time.Duration
	Runs                            []*figures
}

// readBook reads earlier results. A missing file is no error.
func readBook(path string) (*book, error) {
	b := &book{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, b.write(path)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("%s is no file that an earlier run wrote: %w", path, err)
	}
	return b, nil
}

func (b *book) write(path string) error {
	text, err := json.MarshalIndent(b, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// add adds a run to the book, and replaces an earlier run of the same seed.
func (b *book) add(e *entry, f *figures) {
	i := slices.IndexFunc(b.Peers, func(o *entry) bool { return o.Name == e.Name })
	if i < 0 {
		b.Peers = append(b.Peers, e)
		slices.SortFunc(b.Peers, func(a, b *entry) int { return strings.Compare(a.Name, b.Name) })
		i = slices.Index(b.Peers, e)
	}
	e.Runs = nil
	if old := b.Peers[i]; e.sameAs(old) {
		e.Runs = slices.DeleteFunc(old.Runs, func(o *figures) bool { return o.Seed == f.Seed || o.For != f.For || o.Workers != f.Workers })
	}
	e.Runs = append(e.Runs, f)
	slices.SortFunc(e.Runs, func(a, b *figures) int { return int(a.Seed) - int(b.Seed) })
	b.Peers[i] = e
}

// sameAs reports whether the runs of two entries may be kept together.
func (e *entry) sameAs(old *entry) bool {
	return e.Version == old.Version && e.Servers == old.Servers && e.Settings == old.Settings && e.Lease == old.Lease && e.Loss == old.Loss
}

// entry describes a peer.
func (p *peer) entry(name, servers string) *entry {
	version := versionOf
	if p.java {
		version = javaVersion
	}
	return &entry{Name: name, Library: p.library, Version: version(p.library), Servers: servers,
		Settings: p.set, Loss: p.loss, Token: p.token, Lease: p.lease}
}

// versionOf returns the version of a package's module. The version of stile is the built tree's.
func versionOf(pkg string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	version, longest := "", ""
	for _, m := range info.Deps {
		if (pkg == m.Path || strings.HasPrefix(pkg, m.Path+"/")) && len(m.Path) > len(longest) {
			version, longest = m.Version, m.Path
		}
	}
	if version == "(devel)" {
		return ""
	}
	return version
}

// runPeers makes runs of peers one after the other, and adds the results to a file, if one is given.
func runPeers(p *plan, names []string, runs int, path string) error {
	b := &book{}
	if path != "" {
		var err error
		if b, err = readBook(path); err != nil {
			return fmt.Errorf("-o: %w", err)
		}
	}
	for _, name := range names {
		for i := range runs {
			again := *p
			again.peer, again.store, again.seed = name, peers[name].store, p.seed+uint64(i)
			f, servers := oncePeer(&again)
			f.print(os.Stdout, &again)
			b.add(peers[name].entry(name, servers), f)
			if path == "" {
				continue
			}
			if err := b.write(path); err != nil {
				return fmt.Errorf("-o: %w", err)
			}
		}
	}
	return nil
}

func oncePeer(p *plan) (*figures, string) {
	host := &servertest.Host{Program: "chaos"}
	defer host.End()
	return playPeer(host, p)
}
