// Package tty draws on a terminal: one line that is redrawn in place, or a page. It has the rules for drawing: nothing on
// other files, no colours with NO_COLOR, no line that wraps.
//
// Of the other packages of the command it may import none.
package tty

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The size of a terminal that does not report its own.
const (
	usualColumns = 80
	usualRows    = 24
)

// Is reports whether a file is a terminal.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// Draws reports whether a file is a terminal on which the cursor can be moved.
func Draws(f *os.File) bool {
	term := os.Getenv("TERM")
	return term != "" && term != "dumb" && Is(f)
}

// Owned reports whether a file is a terminal on which a page can be drawn: this process is in its foreground.
func Owned(f *os.File) bool { return Draws(f) && !inBackground(f) }

// Colours reports whether colours are wanted on a file. See no-color.org.
func Colours(f *os.File) bool { return os.Getenv("NO_COLOR") == "" && Draws(f) }

// Size returns the columns and rows of a terminal. COLUMNS and LINES can only make it smaller: they may describe another
// window.
func Size(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		size = &unix.Winsize{}
	}
	return fit(int(size.Col), os.Getenv("COLUMNS"), usualColumns), fit(int(size.Row), os.Getenv("LINES"), usualRows)
}

// fit returns a length of the window: the terminal's answer, limited by the variable.
func fit(told int, variable string, usual int) int {
	said, err := strconv.Atoi(variable)
	switch {
	case err != nil || said <= 0:
		said = told
	case told > 0:
		said = min(said, told)
	}
	if said <= 0 {
		return usual
	}
	return said
}

// inBackground reports whether a file is this process's terminal and another group of processes has it, as after "&".
func inBackground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}
