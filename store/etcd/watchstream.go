package etcd

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A watchStream has the watches of all names. It has one goroutine that receives and one that sends, however many names are
// watched. With the watches of the client library, 1,000 held names take 2,000 goroutines and 5,320 bytes each; with these,
// 6 goroutines and 2,219 bytes (go run . -store=etcd -only='^holding$', in the folder proof/bench). When the stream ends,
// its watches end. None is resumed: a claim that reads its queue again, or is renewed, learns all that it may have missed.
type watchStream struct {
	ws   *watches
	stop context.CancelFunc
	kick chan struct{} // has room for one: asks is not empty

	// Guarded by the mu of ws:
	watches map[int64]*queueWatch // by number; no number is used again
	last    int64                 // number
	asks    []*pb.WatchRequest    // to send, in this order
}

// listenLocked begins a watch of the events after a revision.
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
		Key: []byte(folder), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(folder)),
		StartRevision: after + 1, WatchId: w.number,
	}
	if w.whole {
		create.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	s.askLocked(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
}

// ignoreLocked ends a watch. It drops the events that etcd has already sent.
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

// run opens the stream, and hands out its answers until it ends.
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

// send sends the asks, until the stream ends.
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
				return // Recv returns the reason
			}
		}
	}
}

// take hands an answer to its watch. On an error the stream must end: etcd refused a watch, perhaps since the login ran out,
// and only a new stream begins with a new login.
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

// ended removes all watches of a stream that ended.
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
