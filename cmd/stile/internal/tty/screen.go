package tty

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A Screen is a whole terminal on which a page is redrawn. What stood there before comes back when it is closed, and what is
// typed meanwhile is not shown.
type Screen struct {
	in, out *os.File
	before  *unix.Termios // nil if what is typed cannot be kept back
}

// Sequences that terminals have understood since the VT100 and xterm.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[J" // the other screen, no cursor, nothing on it
	leave = "\x1b[?25h\x1b[?1049l"
)

// OpenScreen takes a terminal over. One that is gone shows nothing, and takes no settings.
func OpenScreen(in, out *os.File) *Screen {
	s := &Screen{in: in, out: out}
	if now, err := unix.IoctlGetTermios(int(in.Fd()), getTermios); err == nil && !inBackground(in) {
		s.before = now
		typed := *now
		typed.Lflag &^= unix.ICANON | unix.ECHO // keys come one by one; Ctrl-C stays a signal
		typed.Cc[unix.VMIN], typed.Cc[unix.VTIME] = 1, 0
		_ = unix.IoctlSetTermios(int(in.Fd()), setTermios, &typed)
	}
	_, _ = out.WriteString(enter)
	return s
}

// Close gives the terminal back as it was.
func (s *Screen) Close() {
	_, _ = s.out.WriteString(leave)
	if s.before != nil {
		_ = unix.IoctlSetTermios(int(s.in.Fd()), setTermios, s.before)
	}
}

// Draw shows lines, none of which may be wider than the terminal, in place of those before.
func (s *Screen) Draw(lines []string) { _, _ = s.out.WriteString(page(lines)) }

// page begins at the top left, and ends without a line feed, which would scroll.
func page(lines []string) string {
	return "\x1b[H" + strings.Join(lines, eraseRest+"\r\n") + "\x1b[J"
}
