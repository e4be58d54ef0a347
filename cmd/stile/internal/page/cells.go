package page

import (
	"strings"
	"unicode"
)

// wide are the characters that take two cells of a terminal, as in its fonts for Chinese, Japanese, Korean and pictures.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x231a, Hi: 0x231b, Stride: 1}, {Lo: 0x23e9, Hi: 0x23ec, Stride: 1},
		{Lo: 0x2614, Hi: 0x2615, Stride: 1}, {Lo: 0x26a1, Hi: 0x26a1, Stride: 1}, {Lo: 0x2705, Hi: 0x2705, Stride: 1},
		{Lo: 0x270a, Hi: 0x270b, Stride: 1}, {Lo: 0x2728, Hi: 0x2728, Stride: 1}, {Lo: 0x274c, Hi: 0x274c, Stride: 1},
		{Lo: 0x2e80, Hi: 0x303e, Stride: 1}, {Lo: 0x3041, Hi: 0xa4cf, Stride: 1}, {Lo: 0xa960, Hi: 0xa97f, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x17000, Hi: 0x18cff, Stride: 1}, {Lo: 0x1b000, Hi: 0x1b2ff, Stride: 1}, {Lo: 0x1f300, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// cellsOf returns how many cells of a terminal a character takes.
func cellsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// Width returns how many cells of a terminal a printable text takes.
func Width(text string) (cells int) {
	for _, r := range text {
		cells += cellsOf(r)
	}
	return cells
}

// Cut shortens a printable text to a number of cells. A text that is cut ends in an ellipsis.
func Cut(text string, cells int) string {
	if Width(text) <= cells {
		return text
	}
	if cells <= 0 {
		return ""
	}
	return strings.TrimRight(head(text, cells-1), " ,(") + "…"
}

// middle is Cut, but leaves out the middle: names differ at both ends.
func middle(text string, cells int) string {
	if Width(text) <= cells || cells < 5 {
		return Cut(text, cells)
	}
	begin := head(text, (cells-1)/2)
	return begin + "…" + tail(text, cells-1-Width(begin))
}

// head returns the longest beginning that fits a number of cells.
func head(text string, cells int) string {
	for i, r := range text {
		if cells -= cellsOf(r); cells < 0 {
			return text[:i]
		}
	}
	return text
}

// tail returns the longest end that fits a number of cells.
func tail(text string, cells int) string {
	runes := []rune(text)
	i := len(runes)
	for i > 0 && cells >= cellsOf(runes[i-1]) {
		i--
		cells -= cellsOf(runes[i])
	}
	return string(runes[i:])
}

// pad fills a text with blanks to a number of cells, and cuts it if it takes more.
func pad(text string, cells int) string {
	text = Cut(text, cells)
	return text + strings.Repeat(" ", max(0, cells-Width(text)))
}
