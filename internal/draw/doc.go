// Package draw makes the pictures of the project as SVG: a [Diagram] of boxes and arrows, a [Timeline] of who did what when,
// [Bars] for figures, and [Chips] for many short things.
//
// The description of a picture is its content. The layout follows from the texts: their widths are estimated for a wide
// font, so that a narrower one leaves room and no text runs into another or out of the picture. The same description gives
// the same bytes.
//
// Every picture is 460 units wide and its text 14 or 15 units high, so it can be read on a phone. It has its own background
// and follows the reader's light or dark scheme; no state is shown by colour only. Screen readers read Title and Desc. There
// are no scripts, no fonts to load and nothing from elsewhere. The style rules and ids of a picture carry the picture's own
// id, so that several can stand in one HTML page.
package draw
