// Package page draws the command's output for a person: the line of a wait, and the pages of stile watch and stile top. Its
// results depend only on its arguments, and contain only characters that a terminal shows unchanged.
//
// Of the other packages of the command it may import none.
package page
