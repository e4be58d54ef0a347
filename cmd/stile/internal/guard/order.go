package guard

import (
	"io"
	"syscall"
	"time"
)

// An Order is a message of stile to the guard.
type Order struct {
	Run    *Program
	Signal syscall.Signal // for the group
	Until  time.Duration  // when to kill the group, on the machine's clock; 0 means no change
	Left   time.Duration  // the same time from now, for systems where processes do not share that clock
}

// A Program is CMD, ready to be executed.
type Program struct {
	Path     string
	Args     []string
	Env      []string
	Secret   string // a file to remove when CMD has ended; "" for none
	Terminal bool   // CMD gets the terminal on stdin
}

// News is a message of the guard to stile.
type News struct {
	Ready   bool          // the guard ignores signals and takes orders
	PID     int           // CMD runs in this group
	Errno   syscall.Errno // CMD could not be executed
	Late    bool          // CMD's time was over: the group was killed, or, without a PID, CMD was not executed
	Stopped bool          // CMD was stopped, as from the terminal, with:
	Exited  bool          // CMD has ended, with:
	Status  syscall.WaitStatus
	Gone    bool // the group is gone
}

// Send writes the order. It fails if the guard has ended, which also ends the news.
func (o *Order) Send(w io.Writer) { _, _ = w.Write(o.encode()) }

// Orders reads orders until there are no more, and then closes the channel.
func Orders(r io.Reader) <-chan Order { return read(r, decodeOrder) }

// ReadNews reads news until there are no more, and then closes the channel.
func ReadNews(r io.Reader) <-chan News { return read(r, decodeNews) }

func read[T any](r io.Reader, decode func(*message) T) <-chan T {
	values := make(chan T)
	go func() {
		defer close(values)
		for {
			m, err := receive(r)
			if err != nil {
				return
			}
			v := decode(m)
			if !m.whole() {
				return
			}
			values <- v
		}
	}()
	return values
}

func (o *Order) encode() []byte {
	var m message
	m.flag(o.Run != nil)
	if p := o.Run; p != nil {
		m.text(p.Path)
		m.texts(p.Args)
		m.texts(p.Env)
		m.text(p.Secret)
		m.flag(p.Terminal)
	}
	m.number(int64(o.Signal))
	m.number(int64(o.Until))
	m.number(int64(o.Left))
	return m.framed()
}

func decodeOrder(m *message) (o Order) {
	if m.takeFlag() {
		o.Run = &Program{
			Path: m.takeText(), Args: m.takeTexts(), Env: m.takeTexts(), Secret: m.takeText(), Terminal: m.takeFlag(),
		}
	}
	o.Signal = syscall.Signal(m.takeNumber())
	o.Until = time.Duration(m.takeNumber())
	o.Left = time.Duration(m.takeNumber())
	return o
}

func (n *News) encode() []byte {
	var m message
	m.flag(n.Ready)
	m.number(int64(n.PID))
	m.number(int64(n.Errno))
	m.flag(n.Late)
	m.flag(n.Stopped)
	m.flag(n.Exited)
	m.number(int64(n.Status))
	m.flag(n.Gone)
	return m.framed()
}

func decodeNews(m *message) News {
	return News{
		Ready: m.takeFlag(), PID: int(m.takeNumber()), Errno: syscall.Errno(m.takeNumber()), Late: m.takeFlag(),
		Stopped: m.takeFlag(), Exited: m.takeFlag(), Status: syscall.WaitStatus(m.takeNumber()), Gone: m.takeFlag(),
	}
}
