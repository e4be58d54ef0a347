package tty

import (
	"io"
	"os"
	"sync"
)

// A Line is the last line of a terminal, which is redrawn in place. What else is written to the terminal goes above it. The cursor
// stands at its beginning, so that the terminal's echo of a key, as ^C, does not make it longer: a line that wraps cannot be erased.
type Line struct {
	out   io.Writer
	width func() int // how many cells it may take; 0 for none, when nothing is drawn

	mu    sync.Mutex
	drawn string // what stands there; "" for nothing
}

// NewLine returns the line of a file.
func NewLine(f *os.File) *Line {
	return &Line{out: f, width: func() int {
		if !Owned(f) {
			return 0
		}
		columns, _ := Size(f)
		return columns - 1 // many terminals wrap when the last column is filled
	}}
}

// eraseRest erases from the cursor to the end of the line.
const eraseRest = "\x1b[K"

// Draw shows the text that is returned for a number of cells, in place of the one before.
func (l *Line) Draw(text func(cells int) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cells := l.width()
	if cells <= 0 {
		return
	}
	if t := text(cells); t != l.drawn {
		l.drawn = t
		l.write("\r" + t + eraseRest + "\r")
	}
}

// Erase leaves nothing of the line.
func (l *Line) Erase() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drawn != "" {
		l.drawn = ""
		l.write("\r" + eraseRest)
	}
}

// Write writes whole lines above the line.
func (l *Line) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drawn == "" {
		return l.out.Write(text)
	}
	l.write("\r" + eraseRest)
	n, err := l.out.Write(text)
	l.write(l.drawn + "\r")
	return n, err
}

func (l *Line) write(text string) { _, _ = io.WriteString(l.out, text) } // a terminal that is gone shows nothing
