package line

import (
	"context"
	"errors"

	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Overlook watches a queue, and raises a signal when it changes. It returns the calls that set the watches.
func (f *Folder) Overlook(ctx context.Context, b *Signal) ([]*wire.Call, error) {
	list := wire.List(f.dir, wire.NewWatch(b.raise))
	watches := []*wire.Call{list}
	if err := f.zk.Do(ctx, f.Session, list); err != nil {
		return watches, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		// If the node comes before this watch, Exists finds it, and its first claim is a change all the same.
		list = wire.Exists(f.dir, wire.NewWatch(b.raise))
		if err := f.zk.Do(ctx, f.Session, list); err != nil {
			return nil, err
		}
		if list.Err == nil {
			b.raise()
		}
		return []*wire.Call{list}, nil
	}
	if list.Err != nil {
		return nil, f.zk.Refused(f.dir, list.Err)
	}
	q, odd := f.layout.NewQueue(list.Children)
	f.zk.Strange(f.dir, odd)
	for _, n := range q[:q.Holding()] {
		watches = append(watches, wire.Get(f.dir+"/"+n.Name, wire.NewWatch(b.raise)))
	}
	if len(watches) == 1 {
		return watches, nil
	}
	err := f.zk.Do(ctx, f.Session, watches[1:]...)
	for _, c := range watches[1:] {
		if c.Err != nil {
			b.raise()
		}
	}
	return watches, err
}
