//go:build unix

package main

import (
	"fmt"

	"github.com/go-zookeeper/zk"
)

// A line is a list of clients that wait in this order.
type line struct {
	*scene
	clients []client
	what    []string
}

// moves returns an error unless the first of the remaining clients holds, and the clients behind it still wait.
func (l *line) moves(next int, since string) error {
	if err := l.granted(l.clients[next], prompt); err != nil {
		return fmt.Errorf("%s, after %s: %w", l.what[next], since, err)
	}
	return l.rests(next+1, since)
}

// rests returns an error unless the clients from one on still wait.
func (l *line) rests(from int, since string) error {
	for i := from; i < len(l.clients); i++ {
		if err := waits(l.clients[i]); err != nil {
			return fmt.Errorf("%s, after %s: %w", l.what[i], since, err)
		}
	}
	return nil
}

// downgraded lets a writer become a reader, while a reader, a writer and another reader wait behind it in this order; then
// each releases in the order in which they hold. Only the first waiting reader may hold together with the former writer.
// Each client asks when the node of the one before exists, since otherwise a slow program would come behind later ones.
func downgraded(conn *zk.Conn, writer, reader, second kind) (string, error) {
	l := line{scene: newScene(""), what: []string{"a reader", "a second writer", "a reader behind that"}}
	defer l.end()
	first, err := l.start(writer)
	if err != nil {
		return "", err
	}
	for _, k := range []kind{reader, second, reader} {
		c, err := l.start(k)
		if err != nil {
			return "", err
		}
		l.clients = append(l.clients, c)
	}
	if err := l.takes(first, patience); err != nil {
		return "", fmt.Errorf("the writer: %w", err)
	}
	for i, c := range l.clients {
		if err := c.lock(l.name); err != nil {
			return "", err
		}
		err := until(fmt.Sprintf("%d nodes under /%s", i+2, l.name), func() (bool, error) {
			children, _, err := conn.Children("/" + l.name)
			return len(children) == i+2, err
		})
		if err != nil {
			return "", err
		}
		if err := waits(c); err != nil {
			return "", fmt.Errorf("behind the writer: %w", err)
		}
	}
	for _, step := range []struct {
		what string
		does func() error
		then func(since string) error
	}{
		{"the downgrade", first.(spoken).downgrade, func(since string) error { return l.moves(0, since) }},
		{"the release of what was downgraded", first.unlock, func(since string) error { return l.rests(1, since) }},
		{"the reader's release", l.clients[0].unlock, func(since string) error { return l.moves(1, since) }},
		{"the second writer's release", l.clients[1].unlock, func(since string) error { return l.moves(2, since) }},
	} {
		if err := step.does(); err != nil {
			return "", fmt.Errorf("%s: %w", step.what, err)
		}
		if err := step.then(step.what); err != nil {
			return "", err
		}
	}
	return "the reader behind it holds too; the writer behind both waits for both, and the last reader for that one", nil
}

// downgrades are the plays in which writers of one library become readers among clients of the other.
func (w *setting) downgrades(conn *zk.Conn, addr string) (list []play) {
	rw := "zk://" + addr + "?prefix=&layout=rw&session=" + session.String()
	read, write := w.java("Curator read", "read", addr), w.java("Curator write", "write", addr)
	reader, writer := w.own("stile reader", rw), w.own("stile writer", rw)
	for _, p := range []struct {
		who                   string
		first, reader, second kind
	}{
		{"stile, among Curator's readers and writers", writer, read, write},
		{"stile, among its own readers and Curator's writers", writer, reader, write},
		{"Curator, among stile's readers and writers", write, reader, writer},
		{"Curator, among its own readers and stile's writers", write, read, writer},
	} {
		list = append(list, play{"a writer takes the read lock before it gives up the write lock", p.who, func() (string, error) {
			return downgraded(conn, p.first, p.reader, p.second)
		}})
	}
	return list
}
