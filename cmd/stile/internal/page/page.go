// Package page draws what the command shows to a person: the line of one who waits, and the pages of stile watch and stile
// top. What it returns depends on its arguments only, and holds no character that a terminal would not show as it is.
//
// Of the other packages of the command it may import none.
package page
