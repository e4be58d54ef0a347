//go:build unix

package main

import "slices"

// counts is how often the server did each of what it does, those inside scripts included.
type counts map[string]int64

// sentMessages is the count of what the server sent, answers and notifications, where it tells.
const sentMessages = "sent"

// since returns how many requests and how many commands the server has run since an earlier count. What only scripts run
// is no request.
func (c counts) since(before counts, inside []string) (requests, commands int64) {
	for name, n := range c {
		if name == sentMessages {
			continue
		}
		n -= before[name]
		commands += n
		if !slices.Contains(inside, name) {
			requests += n
		}
	}
	return requests, commands
}
