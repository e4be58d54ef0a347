// Package examples has whole programs, a folder each, to copy from. Its test builds them, runs them, and compares what they
// print with their output.txt. Each gets a folder for its files, where it keeps its locks in SQLite: for another store only
// the URL changes.
package examples
