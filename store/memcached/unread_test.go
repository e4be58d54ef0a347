package memcached

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// noAnswer serves connections of a server that has memory for a new value, but refuses the read after a given command.
func noAnswer(t *testing.T, after string) string {
	t.Helper()
	return servertest.Impostor(t, func(c net.Conn) {
		defer c.Close()
		var last, value string
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			answer, words := "ERROR", strings.Fields(line)
			switch verb := words[0]; {
			case verb == "version":
				answer = "VERSION 1.6.18"
			case verb == "stats":
				answer = "STAT pid 1\r\nSTAT uptime 2\r\nSTAT time 100\r\nSTAT evictions off\r\nSTAT cas_enabled yes\r\nEND"
			case verb == "add":
				value, _ = in.ReadString('\n')
				last, answer = verb, "STORED"
			case verb == "cas":
				_, _ = in.ReadString('\n')
				answer = "SERVER_ERROR out of memory storing object"
			case verb == "md":
				last, answer = verb, "HD"
			case verb == "mg" && last == after:
				answer = "SERVER_ERROR out of memory writing get response"
			case verb == "mg":
				text := strings.TrimSpace(value)
				until, _ := unseal([]byte(text))
				answer = fmt.Sprintf("VA %d k%s c7 t%d\r\n%s", len(text), words[1], until-100, text)
			}
			if _, err := c.Write([]byte(answer + "\r\n")); err != nil {
				return
			}
		}
	})
}

// If the server has stored or deleted a claim, and refuses the read after it, the outcome is not a refusal.
func TestWhatIsDoneIsNotRefused(t *testing.T) {
	t.Parallel()
	for layout, parameters := range layouts {
		_, err := open(t, noAnswer(t, "add"), parameters).Enter(timely(t), claim("name", "a"))
		says(t, err, "no memory left")
		if driver.OutcomeOf(err) != driver.OutcomeUnknown {
			t.Errorf("%s: enter = %v, whose outcome is %v; want it unknown", layout, err, driver.OutcomeOf(err))
		}
	}
	d := open(t, noAnswer(t, "md"), "")
	c := claim("name", "a")
	holds(t, d, c)
	if err := leave(t, d, c); err == nil || driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("leave = %v, whose outcome is %v; want it unknown", err, driver.OutcomeOf(err))
	}
}
