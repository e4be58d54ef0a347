// Package page tests the page of the lock service in a browser, by what is on the page. A module of its own has the browser's
// client library, so that the core requires nothing.
//
//	go test ./proof/page -shots DIR
//
// writes pictures of the page to a folder, for people to look at.
package page
