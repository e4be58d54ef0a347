package memcached

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	maxLine = 8 << 10 // bytes of a line of an answer; keys have at most 250
	maxData = 1 << 30 // bytes of a value; a server takes no more, whatever its option -I says, and by default one megabyte
	prompt  = 1 << 20 // bytes of a value for which memory is reserved before they come
)

// A reply is one answer of the server.
type reply struct {
	status string // its first word: STORED, HD, VA, EN, STAT, …
	text   string // the rest of the line
	data   []byte // of VA
	stats  map[string]string
}

// flag returns the text after a letter among the flags of a meta answer.
func (r *reply) flag(letter byte) (string, bool) {
	for f := range strings.SplitSeq(r.text, " ") {
		if f != "" && f[0] == letter {
			return f[1:], true
		}
	}
	return "", false
}

// number returns a flag that is a number.
func (r *reply) number(letter byte) (int64, error) {
	text, ok := r.flag(letter)
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("memcached answered %s without the flag %c that was asked for", r.status, letter)
	}
	return n, nil
}

// failure returns the server's error answer, or nil.
func (r *reply) failure() error {
	switch r.status {
	case "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
		return &refusal{strings.TrimSpace(r.status + " " + r.text)}
	}
	return nil
}

// stored reports whether a request to store was done.
func (r *reply) stored() (bool, error) {
	switch r.status {
	case "STORED":
		return true, nil
	case "NOT_STORED", "EXISTS", "NOT_FOUND":
		return false, nil
	}
	return false, r.unexpected()
}

// unexpected returns the error for an answer that does not fit the request.
func (r *reply) unexpected() error {
	if err := r.failure(); err != nil {
		return err
	}
	return fmt.Errorf("memcached answered a request with %q", r.status)
}

// version returns the version of the value in an answer, which must be the value of the key.
func (r *reply) version(key string) (uint64, error) {
	if got, _ := r.flag('k'); got != key {
		return 0, fmt.Errorf("memcached answered for another key than %q: the connection is not to be trusted", key)
	}
	text, _ := r.flag('c')
	cas, err := strconv.ParseUint(text, 10, 64)
	if err != nil || cas == 0 {
		return 0, fmt.Errorf("memcached answered without a version for key %q", key)
	}
	return cas, nil
}

// A refusal is an error in the words of the server.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// readReply reads one answer. The statistics are one answer, though each has a line.
func readReply(in *bufio.Reader) (reply, error) {
	var stats map[string]string
	for {
		line, err := readLine(in)
		if err != nil {
			return reply{}, err
		}
		r := reply{}
		r.status, r.text, _ = strings.Cut(line, " ")
		switch {
		case r.status == "STAT":
			if stats == nil {
				stats = map[string]string{}
			}
			key, value, _ := strings.Cut(r.text, " ")
			stats[key] = value
			continue
		case r.status == "END" && r.text == "":
			return reply{status: "STAT", stats: stats}, nil
		case stats != nil:
			return reply{}, errors.New("memcached answered with something else among statistics")
		case r.status == "VA":
			r.data, err = readData(in, &r)
		case r.status == "":
			err = errors.New("memcached answered with an empty line")
		}
		return r, err
	}
}

func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return "", errors.New("memcached answered with a line that does not end")
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return "", err
		case len(line) < 2 || line[len(line)-2] != '\r':
			return "", errors.New("memcached answered with a line that does not end as it should")
		}
		return string(line[:len(line)-2]), nil
	}
}

// readData reads the value after a line VA, and removes its size from the line.
func readData(in *bufio.Reader, r *reply) ([]byte, error) {
	size, flags, _ := strings.Cut(r.text, " ")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > maxData {
		return nil, errors.New("memcached answered with a value of no size")
	}
	r.text = flags
	var data []byte
	if n <= prompt {
		data = make([]byte, n+2)
		_, err = io.ReadFull(in, data)
	} else if data, err = io.ReadAll(io.LimitReader(in, int64(n)+2)); err == nil && len(data) < n+2 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if string(data[n:]) != "\r\n" {
		return nil, errors.New("memcached answered with a value that is longer than it said")
	}
	return data[:n], nil
}

// appendGet asks for a value with its version and time to live.
func appendGet(b []byte, key string) []byte {
	b = append(append(b, "mg "...), key...)
	return append(b, " k c t v\r\n"...)
}

// appendPeek asks only for the version and time to live.
func appendPeek(b []byte, key string) []byte {
	b = append(append(b, "mg "...), key...)
	return append(b, " k c t\r\n"...)
}

// appendTouch gives a value another time to live, and asks for its version. It needs no memory.
func appendTouch(b []byte, key string, expires int64) []byte {
	b = append(append(b, "mg "...), key...)
	b = append(b, " k c T"...)
	return append(strconv.AppendInt(b, expires, 10), "\r\n"...)
}

// appendStore stores a value: if there is none, for version 0; otherwise if it still has that version.
//
// The meta command would return the new version. But if memory is full, ms deletes a value that it must not change because
// its version is another, and a value that it cannot replace, so that a holder's failed renewal gave the lock to the next
// claim. These commands leave the value unchanged.
func appendStore(b []byte, key string, version uint64, expires int64, data []byte) []byte {
	verb := "add "
	if version != 0 {
		verb = "cas "
	}
	b = append(append(b, verb...), key...)
	b = append(b, " 0 "...)
	b = strconv.AppendInt(b, expires, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(data)), 10)
	if version != 0 {
		b = append(b, ' ')
		b = strconv.AppendUint(b, version, 10)
	}
	b = append(b, "\r\n"...)
	b = append(b, data...)
	return append(b, "\r\n"...)
}

// appendDelete deletes a value if it still has that version.
func appendDelete(b []byte, key string, version uint64) []byte {
	b = append(append(b, "md "...), key...)
	b = append(b, " C"...)
	b = strconv.AppendUint(b, version, 10)
	return append(b, "\r\n"...)
}
