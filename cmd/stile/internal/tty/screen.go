package tty

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A Screen is a whole terminal on which a page is redrawn. Closing it brings the earlier content back. The terminal does not
// show typed keys meanwhile.
type Screen struct {
	in, out *os.File
	before  *unix.Termios // nil if the echo of keys cannot be turned off
}

// Sequences that terminals have understood since the VT100 and xterm.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[J" // the other screen, no cursor, nothing on it
	leave = "\x1b[?25h\x1b[?1049l"
)

// OpenScreen takes a terminal over. Errors of a terminal that is gone do not matter.
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

// Close restores the terminal.
func (s *Screen) Close() {
	_, _ = s.out.WriteString(leave)
	if s.before != nil {
		_ = unix.IoctlSetTermios(int(s.in.Fd()), setTermios, s.before)
	}
}

// Draw replaces the page by lines, none of which may be wider than the terminal.
func (s *Screen) Draw(lines []string) { _, _ = s.out.WriteString(page(lines)) }

// page begins at the top left, and ends without a line feed, which would scroll.
func page(lines []string) string {
	return "\x1b[H" + strings.Join(lines, eraseRest+"\r\n") + "\x1b[J"
}
