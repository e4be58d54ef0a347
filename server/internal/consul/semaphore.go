package consul

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
)

// swap answers a PUT with cas. The key of a semaphore is what its clients make of it: its value names the holders. Here the
// value is derived from the claims, and a new value is translated back: a holder more enters, and a holder less leaves. The
// store decides whether there is room, so two clients that swap at once cannot both get the last slot.
func (f *Front) swap(ctx context.Context, q *Request, key string) (bool, error) {
	index, err := q.number("cas")
	if err != nil {
		return false, err
	}
	name, dot := nameOf(key)
	want, ok := readSemaphore(q.Body)
	if !dot || !ok {
		return false, refuse(http.StatusBadRequest, "cas is only for PREFIX%s of a semaphore, with a Limit from 1 to %d and its Holders",
			suffix, maxLimit)
	}
	if err := q.MayClaim(name, 1, want.Limit); err != nil {
		return false, err
	}
	l, err := f.queue(ctx, name)
	if err != nil {
		return false, err
	}
	v, now := see(l, q), uint64(0)
	if p := v.get(key); p != nil {
		now = p.ModifyIndex
	}
	switch id := changed(v.slots(), want.Holders); {
	case index != now:
		return false, nil
	case len(l.Claims) > 0 && l.Capacity != want.Limit:
		return false, refuse(http.StatusConflict, "%.300q has another limit than %d, or is a lock", name, want.Limit)
	case len(id) == 0:
		return true, nil
	case len(id) > 1:
		return false, refuse(http.StatusBadRequest, "a semaphore changes by one holder at a time")
	case want.Holders[id[0]]:
		return f.slot(ctx, q, name, id[0], want.Limit)
	default:
		_, h := of(l, id[0])
		if h == nil {
			return false, forbid(name, "the holder %.40q of the semaphore is no session of yours", id[0])
		}
		return true, f.drop(ctx, q, l, h)
	}
}

// readSemaphore reads the value of a semaphore.
func readSemaphore(value []byte) (s semaphore, ok bool) {
	if json.Unmarshal(value, &s) != nil || s.Limit < 1 || s.Limit > maxLimit {
		return s, false
	}
	maps.DeleteFunc(s.Holders, func(_ string, is bool) bool { return !is })
	return s, true
}

// changed returns the elements that only one of two sets has.
func changed(a, b map[string]bool) (all []string) {
	for id := range a {
		if !b[id] {
			all = append(all, id)
		}
	}
	for id := range b {
		if !a[id] {
			all = append(all, id)
		}
	}
	return all
}

// slot takes a slot of a semaphore for a session.
func (f *Front) slot(ctx context.Context, q *Request, name, id string, limit int64) (bool, error) {
	s, err := f.find(ctx, q, id)
	if err != nil {
		return false, err
	}
	if s == nil {
		return false, errNoSession(id)
	}
	return f.take(ctx, s, name, &hold{Dot: true, Flags: semaphoreFlag}, limit)
}
