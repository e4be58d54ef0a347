// Package repo holds the rules of this repository as tests: what the core may import, what must be documented, how the
// modules agree, and what the command links. Its folders are the small programs that the Makefile runs.
package repo
