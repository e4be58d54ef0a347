//go:build unix

package main

import "slices"

// counts is how often the server did each thing that it counts, including the commands inside scripts.
type counts map[string]int64

// sentMessages is the key for the messages that the server sent, answers and notifications, if it counts them.
const sentMessages = "sent"

// since returns how many requests and commands the server has run since an earlier count. Commands that only scripts run
// are not requests.
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
