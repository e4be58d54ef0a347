//go:build unix

package servertest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// A RedisConn speaks just enough of Redis' protocol to set a server up and to look into it.
type RedisConn struct {
	net.Conn
	in *bufio.Reader
}

// answerWithin is how long a server has to take a connection, and to answer.
const answerWithin = 30 * time.Second

// DialRedis connects to a Redis server, with TLS if a configuration is given.
func DialRedis(addr string, secure *tls.Config) (*RedisConn, error) {
	c, err := net.DialTimeout("tcp", addr, answerWithin)
	if err == nil && secure != nil {
		c = tls.Client(c, secure)
	}
	if err != nil {
		return nil, err
	}
	return &RedisConn{c, bufio.NewReader(c)}, nil
}

// A RedisError is an error that the server answered.
type RedisError string

func (e RedisError) Error() string { return string(e) }

// Do sends a command and returns its answer: nil, a string, an int64, or a slice of these.
func (c *RedisConn) Do(args ...string) (any, error) {
	c.SetDeadline(time.Now().Add(answerWithin))
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, a := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, text); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *RedisConn) read() (any, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, errors.New("not an answer of Redis")
	}
	kind, rest := line[0], line[1:len(line)-2]
	if kind == '+' {
		return rest, nil
	}
	if kind == '-' {
		return nil, RedisError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || kind == ':' {
		return n, err
	}
	if n < 0 {
		return nil, nil
	}
	switch kind {
	case '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(c.in, text)
		return string(text[:n]), err
	case '*':
		list := make([]any, n)
		for i := range list {
			var refused RedisError
			if list[i], err = c.read(); err != nil && !errors.As(err, &refused) {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("unknown kind of answer %q", kind)
}
