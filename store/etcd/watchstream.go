package etcd

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A watchStream has the watches of all names: one goroutine listens and one asks, however many names are watched. With the
// watches of the client library, 1,000 held names take 2,000 goroutines and 5,320 bytes each; with these 6 and 2,219
// (go run . -store=etcd -only='^holding$', in the folder bench). When the stream ends, so do all its watches. None is resumed: a
// claim that reads its queue anew, or is renewed, knows all that it may have missed.
type watchStream struct {
	ws   *watches
	stop context.CancelFunc
	kick chan struct{} // has room for one: there is something to ask

	// Guarded by the mu of ws:
	watches map[int64]*queueWatch // by the number that the driver gave them; none is used again
	last    int64
	asks    []*pb.WatchRequest // to be sent, in this order
}

// listenLocked begins a watch, after a revision.
func (ws *watches) listenLocked(w *queueWatch, after int64) {
	if ws.stream == nil {
		ws.stream = ws.openStreamLocked()
	}
	s := ws.stream
	s.last++
	w.number, w.on = s.last, s
	s.watches[w.number] = w
	folder := ws.wire.folder(w.name)
	create := &pb.WatchCreateRequest{
		Key: []byte(folder), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(folder)), StartRevision: after + 1, WatchId: w.number,
	}
	if w.whole {
		create.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	s.askLocked(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
}

// ignoreLocked ends a watch. What etcd has sent of it already is not told.
func (ws *watches) ignoreLocked(w *queueWatch) {
	s := w.on
	if s.watches[w.number] != w {
		return
	}
	delete(s.watches, w.number)
	s.askLocked(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
		CancelRequest: &pb.WatchCancelRequest{WatchId: w.number},
	}})
}

// openStreamLocked begins a stream. A member that has lost its leader ends it instead of letting it hang.
func (ws *watches) openStreamLocked() *watchStream {
	s := &watchStream{ws: ws, kick: make(chan struct{}, 1), watches: map[int64]*queueWatch{}}
	ctx, t := newTry(clientv3.WithRequireLeader(ws.wire.ctx), true)
	stop := func() { t.cancel(nil) }
	s.stop = stop
	if !ws.wire.life.Go(func() { s.run(ctx) }) {
		stop()
	}
	return s
}

func (s *watchStream) askLocked(r *pb.WatchRequest) {
	s.asks = append(s.asks, r)
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// run opens the stream and hands out what it tells until it ends.
func (s *watchStream) run(ctx context.Context) {
	defer s.ended()
	defer s.stop()
	stream, err := pb.NewWatchClient(s.ws.wire.client.ActiveConnection()).Watch(ctx)
	if err != nil || !s.ws.wire.life.Go(func() { s.send(ctx, stream) }) {
		return
	}
	for {
		r, err := stream.Recv()
		if err != nil || s.take(r) != nil {
			return
		}
	}
}

// send asks what there is to ask, until the stream ends.
func (s *watchStream) send(ctx context.Context, stream pb.Watch_WatchClient) {
	defer s.stop()
	for {
		select {
		case <-s.kick:
		case <-ctx.Done():
			return
		}
		s.ws.mu.Lock()
		asks := s.asks
		s.asks = nil
		s.ws.mu.Unlock()
		for _, r := range asks {
			if stream.Send(r) != nil {
				return // Recv tells why
			}
		}
	}
}

// take hands an answer to the watch that it is for. The error says that the stream is good for nothing any more: etcd
// refused a watch, perhaps by a login that ran out, and the next stream begins with a new one.
func (s *watchStream) take(r *pb.WatchResponse) error {
	s.ws.mu.Lock()
	w := s.watches[r.WatchId]
	s.ws.mu.Unlock()
	switch {
	case r.Canceled && r.WatchId < 0:
		return errors.New(r.CancelReason)
	case r.Canceled && w != nil && r.CompactRevision == 0:
		return fmt.Errorf("etcd ended the watch: %s", r.CancelReason)
	case r.Canceled && w != nil:
		s.ws.broken(w)
	case w != nil:
		s.ws.tell(w, r.Events)
	}
	return nil
}

// ended ends all watches of a stream that ended.
func (s *watchStream) ended() {
	s.ws.mu.Lock()
	if s.ws.stream == s {
		s.ws.stream = nil
	}
	all := make([]*queueWatch, 0, len(s.watches))
	for _, w := range s.watches {
		all = append(all, w)
	}
	clear(s.watches)
	s.ws.mu.Unlock()
	s.ws.broken(all...)
}
