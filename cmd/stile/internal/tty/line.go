package tty

import (
	"io"
	"os"
	"sync"
)

// A Line is the last line of a terminal, which is redrawn in place. All other output goes above it. The cursor stands at its
// beginning, so that the terminal's echo of a key, such as ^C, does not make the line longer: a line that wraps cannot be
// erased.
type Line struct {
	out   io.Writer
	width func() int // returns the cells that it may take; with 0 nothing is drawn

	mu    sync.Mutex
	drawn string // the present text; "" if there is none
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

// Draw replaces the line by the text that a function returns for a number of cells.
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

// Erase removes the line.
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

func (l *Line) write(text string) { _, _ = io.WriteString(l.out, text) } // if the terminal is gone, nobody sees it
