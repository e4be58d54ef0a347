//go:build unix

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/stilelock/stile/internal/servertest"
)

// A zkStage is a ZooKeeper server that is looked into.
type zkStage struct {
	t    servertest.TB
	addr string
	conn *zk.Conn
}

// newest returns the child of a lock that was made last, and how many there are.
func (s *zkStage) newest(name string) (path string, size int, err error) {
	children, _, err := s.conn.Children("/" + name)
	if err != nil {
		return "", 0, err
	}
	last := int64(0)
	for _, child := range children {
		_, stat, err := s.conn.Exists("/" + name + "/" + child)
		if err != nil {
			return "", 0, err
		}
		if stat.Czxid > last {
			last, path = stat.Czxid, "/"+name+"/"+child
		}
	}
	return path, len(children), nil
}

// queue returns how many nodes a lock has.
func (s *zkStage) queue(name string) (int, error) {
	_, n, err := s.newest(name)
	return n, err
}

func (s *zkStage) size(name string, want int) error {
	return until(fmt.Sprintf("%d nodes under /%s", want, name), func() (bool, error) {
		n, err := s.queue(name)
		return n == want, err
	})
}

// deleted has an operator delete the node of a client that waits, then the holder release, then another client come.
func (s *zkStage) deleted(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list, end, err := openAll(ctx, 3, open, s.addr)
	if err != nil {
		return "", false, err
	}
	defer end()
	name := newScene("").name
	if _, err := list[0].lock(ctx, name); err != nil {
		return "", false, err
	}
	waiter := begins(ctx, list[1], name)
	if err := s.size(name, 2); err != nil {
		return "", false, err
	}
	// A waiter that watches its predecessor has read the list before, as far as that can be seen from outside. One that is
	// slower must be right too.
	pause(window)
	path, _, err := s.newest(name)
	if err != nil {
		return "", false, around(err)
	}
	if err := s.conn.Delete(path, -1); err != nil {
		return "", false, around(err)
	}
	early := waiter.answer(window)
	if err := list[0].unlock(ctx); err != nil {
		return "", false, err
	}
	late := waiter.answer(patience)
	next, err := third(ctx, list[2], name, late, s.queue)
	seen := fmt.Sprintf("%s; then a third client %s", twofold(early, late), tells(next))
	return seen, early == nil || late == nil && next == nil, err
}

// stray has a lock taken while something else stands under its path, which is then removed, and another client come.
func (s *zkStage) stray(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list, end, err := openAll(ctx, 2, open, s.addr)
	if err != nil {
		return "", false, err
	}
	defer end()
	name := newScene("").name
	odd := "/" + name + "/notes"
	for _, path := range []string{"/" + name, odd} {
		if _, err := s.conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			return "", false, around(err)
		}
	}
	first := begins(ctx, list[0], name)
	got := first.answer(patience)
	if got == nil {
		if err := list[0].unlock(ctx); err != nil {
			return "", false, err
		}
	}
	if err := s.conn.Delete(odd, -1); err != nil {
		return "", false, around(err)
	}
	left, err := s.queue(name)
	if err != nil {
		return "", false, around(err)
	}
	second := begins(ctx, list[1], name).answer(patience)
	seen := fmt.Sprintf("the client %s, and leaves %d nodes; without the stray node, another client %s",
		tells(got), left, tells(second))
	return seen, left != 0 || second != nil, nil
}

// lostReply lets the server make a client's node, and cuts the connection before the answer passes.
func (s *zkStage) lostReply(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	proxy := servertest.NewProxy(s.t, s.addr)
	l, err := open(ctx, proxy.Addr)
	if err != nil {
		return "", false, err
	}
	defer l.close()
	name := newScene("").name
	if _, err := s.conn.Create("/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		return "", false, around(err)
	}
	proxy.Freeze(false, true)
	taking := begins(ctx, l, name)
	if err := s.size(name, 1); err != nil {
		return "", false, err
	}
	proxy.Drop()
	got := taking.answer(patience)
	size, err := s.queue(name)
	return fmt.Sprintf("the client %s, and has %d node(s)", tells(got), size), got != nil || size != 1, around(err)
}

// expired cuts a client that waits off until its session is over, lets it connect again, has the holder release and
// another client come.
func (s *zkStage) expired(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	proxy := servertest.NewProxy(s.t, s.addr)
	list, end, err := openAll(ctx, 2, open, s.addr)
	if err != nil {
		return "", false, err
	}
	defer end()
	cut, err := open(ctx, proxy.Addr)
	if err != nil {
		return "", false, err
	}
	defer cut.close()
	name := newScene("").name
	if _, err := list[0].lock(ctx, name); err != nil {
		return "", false, err
	}
	waiter := begins(ctx, cut, name)
	if err := s.size(name, 2); err != nil {
		return "", false, err
	}
	pause(window)
	proxy.Cut()
	if err := s.size(name, 1); err != nil {
		return "", false, err
	}
	proxy.Mend()
	early := waiter.answer(session)
	if err := list[0].unlock(ctx); err != nil {
		return "", false, err
	}
	late := waiter.answer(patience)
	next, err := third(ctx, list[1], name, late, s.queue)
	seen := fmt.Sprintf("%s; then a third client %s", twofold(early, late), tells(next))
	return seen, early == nil || late == nil && next == nil || late != nil && next != nil, err
}

// A believer tells whether it takes itself for the holder.
type believer interface{ believes() (bool, error) }

// cutOff lets nothing pass between a holder and the server, until another client has the lock, and asks the holder then.
func (s *zkStage) cutOff(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	proxy := servertest.NewProxy(s.t, s.addr)
	l, err := open(ctx, proxy.Addr)
	if err != nil {
		return "", false, err
	}
	defer l.close()
	other, err := openZooKeeper(ctx, s.addr)
	if err != nil {
		return "", false, around(err)
	}
	defer other.close()
	name := newScene("").name
	if _, err := l.lock(ctx, name); err != nil {
		return "", false, err
	}
	next := begins(ctx, other, name)
	proxy.Freeze(true, true)
	if err := next.answer(patience); err != nil {
		return "", false, around(err)
	}
	believes, err := l.(believer).believes()
	proxy.Cut()
	if believes {
		return "it says that it holds, while another client does", true, err
	}
	return "it says that it no longer holds", false, err
}

// overflow has clients take a lock whose path has had nearly 2^31 children, one behind another, and each release it.
func (s *zkStage) overflow(name string, open opener) (string, bool, error) {
	const size = 5
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list, end, err := openAll(ctx, size, open, s.addr)
	if err != nil {
		return "", false, err
	}
	defer end()
	var queue []*attempt
	var numbers []string
	for i, l := range list {
		queue = append(queue, begins(ctx, l, name))
		if err := s.size(name, i+1); err != nil {
			return "", false, err
		}
		path, _, err := s.newest(name)
		if err != nil {
			return "", false, err
		}
		numbers = append(numbers, path[strings.LastIndex(path, "lock-")+len("lock-"):])
	}
	var order []string
	most := 0
	for len(order) < size {
		if err := until("one of them holds", func() (bool, error) { return len(holding(queue)) > 0, nil }); err != nil {
			break // the rest never hold
		}
		pause(window) // for those who hold beside that one, and must not
		holders := holding(queue)
		most = max(most, len(holders))
		for _, i := range holders {
			order = append(order, strconv.Itoa(i+1))
			if err := queue[i].unlock(ctx); err != nil {
				return "", false, err
			}
			queue[i] = nil
		}
	}
	seen := fmt.Sprintf("numbers %s: %d hold at once; they hold in the order %s",
		strings.Join(numbers, ", "), most, strings.Join(order, " "))
	return seen, most != 1 || len(order) != size || !slices.IsSorted(order), nil
}

// holding returns which attempts hold.
func holding(queue []*attempt) (list []int) {
	for i, a := range queue {
		if a != nil && a.answer(0) == nil {
			list = append(list, i)
		}
	}
	return list
}

// aged starts a server on which the next child of /NAME gets the highest number.
func (w *setting) aged(t servertest.TB, name string) (*zkStage, error) {
	s := servertest.ZooKeeper(t)
	s.Stop()
	data := filepath.Join(s.Dir, "data")
	if err := os.RemoveAll(filepath.Join(data, "version-2")); err != nil {
		return nil, err
	}
	jvm := append(jvm(w.curator), "peer.Aged", data, name, strconv.Itoa(math.MaxInt32))
	if out, err := exec.Command(jvm[0], jvm[1:]...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	s.Restart()
	conn, err := dialZooKeeper(s.Addr)
	return &zkStage{t, s.Addr, conn}, err
}

// stileZooKeeper opens stile at a ZooKeeper server.
func stileZooKeeper(ctx context.Context, addr string) (locker, error) {
	return lockers["stile"](ctx, "zk://"+addr+"?prefix=&session="+session.String())
}

// zooKeeperFlaws are those of the clients of ZooKeeper.
func (w *setting) zooKeeperFlaws(t servertest.TB) ([]flaw, error) {
	s := servertest.ZooKeeper(t)
	conn, err := dialZooKeeper(s.Addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(conn.Close)
	stage := &zkStage{t, s.Addr, conn}
	at := func(scenario func(opener) (string, bool, error), open opener) func() (string, bool, error) {
		return func() (string, bool, error) { return scenario(open) }
	}
	overflow := func(open opener) (string, bool, error) {
		old, err := w.aged(t, "old")
		if err != nil {
			return "", false, err
		}
		defer old.conn.Close()
		return old.overflow("old", open)
	}
	return []flaw{
		{number: 5, what: "the answer to the creation of the node is lost", plays: []play{
			{"go-zookeeper", passes, at(stage.lostReply, openZooKeeper)},
			{"Curator", passes, at(stage.lostReply, w.openCurator)},
			{"stile", passes, at(stage.lostReply, stileZooKeeper)},
		}},
		{number: 6, what: "the session of a waiting client is over, and it connects again", plays: []play{
			{"go-zookeeper", passes, at(stage.expired, openZooKeeper)},
			{"Curator", passes, at(stage.expired, w.openCurator)},
			{"stile", passes, at(stage.expired, stileZooKeeper)},
		}},
		{number: 6, what: "nothing passes between a holder and the server until another client holds", plays: []play{
			{"Curator", fails, at(stage.cutOff, w.openCurator)},
			{"stile", passes, at(stage.cutOff, stileZooKeeper)},
		}},
		{number: 8, what: "the node of a waiting client is deleted", plays: []play{
			{"go-zookeeper", fails, at(stage.deleted, openZooKeeper)},
			{"Curator", passes, at(stage.deleted, w.openCurator)},
			{"stile", passes, at(stage.deleted, stileZooKeeper)},
		}},
		{number: 9, what: "a child with another name stands under the lock's path", plays: []play{
			{"go-zookeeper", fails, at(stage.stray, openZooKeeper)},
			{"Curator", passes, at(stage.stray, w.openCurator)},
			{"stile", passes, at(stage.stray, stileZooKeeper)},
		}},
		{number: 10, what: "five clients come when the server's numbers run over 2^31", plays: []play{
			{"go-zookeeper", fails, at(overflow, openZooKeeper)},
			{"Curator", mayFail, at(overflow, w.openCurator)},
			{"stile", passes, at(overflow, stileZooKeeper)},
		}},
		w.zooKeeperAskings(s.Addr), w.zooKeeperDowngrades(stage), w.zooKeeperCounts(s.Addr),
	}, nil
}

// zooKeeperAskings are Curator's revocation and stile's asking, of each other's locks.
func (w *setting) zooKeeperAskings(addr string) flaw {
	url := "zk://" + addr + "?prefix=&session=" + session.String()
	rw := url + "&layout=rw"
	mutex, own := w.java("Curator mutex", "revocable mutex", addr), w.own("stile", url)
	write, writer := w.java("Curator write", "revocable write", addr), w.own("stile writer", rw)
	ask := func(holder, contender kind, by asking) func() (string, bool, error) {
		return func() (string, bool, error) { return asked(holder, contender, by) }
	}
	return flaw{number: 32, what: "a client asks the holder for its lock, twice", plays: []play{
		{"Revoker, then the RevocationListener of another Curator", passes, ask(mutex, own, askedBy(mutex))},
		{"Revoker of Curator, then EventAsked of stile", passes, ask(own, mutex, askedBy(mutex))},
		{"Client.Ask of stile, then the RevocationListener of Curator", passes, ask(mutex, own, askedBy(own))},
		{"stile break --ask, then the RevocationListener of Curator", passes, ask(mutex, own, w.askedByCommand(url))},
		{"Revoker of Curator, then EventAsked of a writer of stile", passes, ask(writer, write, askedBy(write))},
		{"Client.Ask of stile, then the RevocationListener of a writer of Curator", passes, ask(write, writer, askedBy(writer))},
	}}
}

// zooKeeperDowngrades are writers that become readers, among those of the other.
func (w *setting) zooKeeperDowngrades(stage *zkStage) flaw {
	addr := stage.addr
	rw := "zk://" + addr + "?prefix=&layout=rw&session=" + session.String()
	read, write := w.java("Curator read", "read", addr), w.java("Curator write", "write", addr)
	reader, writer := w.own("stile reader", rw), w.own("stile writer", rw)
	down := func(first, reader, second kind) func() (string, bool, error) {
		return func() (string, bool, error) { return stage.downgraded(first, reader, second) }
	}
	return flaw{number: 33, what: "a writer takes the read lock before it gives up the write lock", plays: []play{
		{"stile, among Curator's readers and writers", passes, down(writer, read, write)},
		{"stile, among its own readers and Curator's writers", passes, down(writer, reader, write)},
		{"Curator, among stile's readers and writers", passes, down(write, reader, writer)},
		{"Curator, among its own readers and stile's writers", passes, down(write, read, writer)},
	}}
}
