package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A count of permits is a node of its own, and what Curator's SharedCount makes of it: four bytes, the highest first. Beside
// it, and not in it, stands who changed it last, and why.
const (
	countDir   = "/permits"
	reasonWord = "-reason"

	nameWord = "{name}" // stands for the lock's name in the parameter permits
)

// byCount is the capacity of a claim that goes by the name's own count, as far as its nodes tell.
const byCount int64 = -1

// configureCounts takes where the counts of permits are.
func (d *Driver) configureCounts(text string) error {
	d.counts = strings.TrimPrefix(text, "/")
	rest := strings.ReplaceAll(d.counts, nameWord, "x")
	switch err := checkPath("/" + rest); {
	case d.counts == "":
		return nil
	case d.layout != semaphoreLayout:
		return errors.New("parameter permits needs layout=semaphore: no other has a count of permits")
	case strings.ContainsAny(rest, "{}"):
		return fmt.Errorf("parameter permits: in braces there may be %s, for the lock's name, and nothing else", nameWord)
	case err != nil:
		return fmt.Errorf("parameter permits %w", err)
	}
	return nil
}

// countAt is where the count stands of the name whose claims are at a path.
func (d *Driver) countAt(dir string) string {
	if d.counts == "" {
		return dir + countDir
	}
	return d.chroot + "/" + strings.ReplaceAll(d.counts, nameWord, strings.TrimPrefix(dir, d.prefix))
}

// countIn returns the count that was read, or why there is none.
func (d *Driver) countIn(get *wire.Call) (int64, error) {
	path := shown(get.Target())
	switch {
	case errors.Is(get.Err, wire.NoNode):
		const says = "the name has no count of permits at %s: make one, or say how many there are"
		return 0, driver.Refused(fmt.Errorf(says, path))
	case get.Err != nil:
		return 0, d.refused(get.Target(), get.Err)
	case len(get.Data) != 4:
		return 0, fmt.Errorf("%w: the node %s has %d bytes, and a count of permits has 4", driver.ErrForeign, path, len(get.Data))
	}
	n := int64(int32(binary.BigEndian.Uint32([]byte(get.Data)))) //nolint:gosec // Java's int has a sign
	if err := driver.CheckCount(n); err != nil {
		return 0, driver.Refused(fmt.Errorf("the node %s: %w", path, err))
	}
	return n, nil
}

// setCount changes a count, or makes it. It replaces the version that it has read and no other: so a request that arrives
// late, after its client gave up waiting for the answer, undoes no later change.
func (d *Driver) setCount(ctx context.Context, s *wire.Session, b *driver.BreakRequest) error {
	dir, err := d.path(b.Name)
	if err == nil {
		err = driver.CheckCount(*b.Count)
	}
	if err != nil {
		return driver.Refused(err)
	}
	path := d.countAt(dir)
	above, _ := splitNode(path)
	value := string(binary.BigEndian.AppendUint32(nil, uint32(*b.Count)))
	var parents []*wire.Call
	for range attempts {
		get := wire.Get(path, nil)
		if err := d.do(ctx, s, d.proven(get)...); err != nil {
			return driver.NotYet(err)
		}
		set := wire.SetAt(path, value, get.Stat.Version)
		if errors.Is(get.Err, wire.NoNode) {
			set = wire.CreatePersistent(path, value, d.acl)
		} else if _, err := d.countIn(get); errors.Is(err, driver.ErrForeign) || get.Err != nil {
			return err
		}
		if err := d.do(ctx, s, append(parents, set)...); err != nil {
			return err
		}
		switch {
		case set.Err == nil:
			d.setReason(ctx, s, path, set.Stat.Version, b.Record)
			return nil
		case errors.Is(set.Err, wire.NoNode) && makesParents(parents):
			parents = d.parents(above)
		case errors.Is(set.Err, wire.NoNode):
			return d.missing(firstRefused(parents, set))
		case !errors.Is(set.Err, wire.BadVersion) && !errors.Is(set.Err, wire.NodeExists):
			return d.refused(path, set.Err)
		}
	}
	return driver.Refused(driver.Unreachable(fmt.Errorf("others change the count at %s as often as it is read", shown(path))))
}

// firstRefused returns the first of the calls that was refused for another reason than that the node is there.
func firstRefused(parents []*wire.Call, otherwise *wire.Call) *wire.Call {
	for _, p := range parents {
		if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) {
			return p
		}
	}
	return otherwise
}

// setReason writes who made a version of the count, and why. It is for people, and missing if that fails.
func (d *Driver) setReason(ctx context.Context, s *wire.Session, path string, version int32, record string) {
	held := newData(&driver.Claim{Record: record})
	held.Of = version
	create, set := wire.CreatePersistent(path+reasonWord, held.text(), d.acl), wire.Set(path+reasonWord, held.text())
	_ = d.do(ctx, s, create, set) // the count itself is written
}

// listCount completes a listing of which no claim tells a number: by the name's own count, and who made it so, or else by how
// many permits there are at least.
func (d *Driver) listCount(ctx context.Context, s *wire.Session, dir string, l *driver.Listing) error {
	path := d.countAt(dir)
	get, reason := wire.Get(path, nil), wire.Get(path+reasonWord, nil)
	if err := d.do(ctx, s, get, reason); err != nil {
		return err
	}
	n, lacks := d.countIn(get)
	if l.Counted = l.Capacity == byCount || lacks == nil; l.Counted {
		l.Capacity = n
	} else {
		l.Capacity = int64(len(l.Claims))
	}
	if held := readData(reason.Data); reason.Err == nil && held.Stile == dataVersion && held.Of == get.Stat.Version {
		l.Record = held.Record
	}
	return nil
}
