package claim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/grant"
	"github.com/stilelock/stile/cmd/stile/internal/proc"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

// HeldVariable lists, for CMD and any stile inside it, the locks that CMD's ancestors hold while it runs. A stile in CMD
// that waits for one of them would wait for ever, since the holder waits for CMD.
const HeldVariable = "STILE_HELD"

// A Held lock is one entry of the variable: the key of the name in its store, how it is held, and by which process.
type Held struct {
	key     string
	weight  int64
	of      int64
	process int
}

func (h Held) String() string {
	return fmt.Sprintf("%s:%d:%d:%d", h.key, h.weight, h.of, h.process)
}

// HeldLocks returns the locks that this process's ancestors hold. It skips a text that is not an entry.
func HeldLocks() (list []Held) {
	for text := range strings.FieldsSeq(os.Getenv(HeldVariable)) {
		parts := strings.Split(text, ":")
		if len(parts) != 4 {
			continue
		}
		weight, err1 := strconv.ParseInt(parts[1], 10, 64)
		of, err2 := strconv.ParseInt(parts[2], 10, 64)
		process, err3 := strconv.Atoi(parts[3])
		if err1 == nil && err2 == nil && err3 == nil && proc.IsAncestor(process) {
			list = append(list, Held{parts[0], weight, of, process})
		}
	}
	return list
}

// Hold returns the wanted lock as an entry of the variable.
func (w *Want) Hold(a *driver.Address, name string) Held {
	h := Held{key: grant.NameKey(a, name), weight: driver.All, of: driver.All, process: os.Getpid()}
	switch {
	case w.read:
		h.weight = 1
	case w.ofSet:
		h.weight, h.of = int64(w.permits), int64(w.of)
	}
	return h
}

// Conflict returns an error if a wanted lock cannot become free before an ancestor has ended, or before this shell gives its
// grant back.
func (w *Want) Conflict(a *driver.Address) error {
	for _, name := range w.Names {
		if err := w.conflictOn(a, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *Want) conflictOn(a *driver.Address, name string) error {
	want := w.Hold(a, name)
	if h := ownGrant(a, name); h != nil && want.weight+h.Weight > want.of {
		return exit.Usage("this shell has the lock %q already, by the grant with token %s: it would wait for itself; stile "+
			"unlock %s",
			name, h.Token, phrase.Quoted(name))
	}
	sum := want.weight
	for _, h := range HeldLocks() {
		if h.key != want.key {
			continue
		}
		if sum += h.weight; sum > want.of {
			return exit.Usage("this command runs under a stile run that holds %q (process %d) and waits for it to end: it cannot "+
				"have the lock too; leave out one of the two",
				name, h.process)
		}
	}
	return nil
}

// ownGrant returns the handle of this shell's grant of a name, unless the grant has run out.
func ownGrant(a *driver.Address, name string) *grant.File {
	m, set, err := grant.Variable(a, name)
	if !set || err != nil {
		return nil
	}
	info, err := os.Stat(m.Path)
	if err != nil {
		return nil
	}
	h, err := grant.Read(m.Path)
	if err != nil || h.Token != m.Token || time.Since(info.ModTime()) >= time.Duration(h.TTL) {
		return nil
	}
	return h
}
